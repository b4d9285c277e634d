/* Reading JSON beside a checkpoint. */
#include "config_file.h"
#include "convert/containers/foreign.h"
#include "lib/base/beside.h"
#include "lib/base/error.h"
#include "lib/base/json_memory.h"
#include "lib/base/mapped_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Of one path. */
static txl_status load_config(const char *path, char **config_path, json_t **config,
                              txl_error *error) {
    struct stat about;
    if (stat(path, &about) != 0 && (errno == ENOENT || errno == ENOTDIR))
        return TXL_OK;
    struct mapped_file file;
    txl_status status = mapped_file_open(path, &file, error);
    if (status)
        return status;
    json_error_t where;
    status = foreign_refuse_pointer(&file, error);
    if (!status)
        *config = json_loadb((const char *)file.data, (size_t)file.size, 0, &where);
    mapped_file_close(&file);
    if (status)
        return status;
    if (!*config)
        return txl_fail(error, json_lacked_memory(&where) ? TXL_MEMORY : TXL_FORMAT,
                        "%s: line %d: %s", path, where.line, where.text);
    if (!json_is_object(*config))
        return txl_fail(error, TXL_FORMAT, "%s: expected a JSON object", path);
    *config_path = strdup(path);
    return *config_path ? TXL_OK : txl_fail_memory(error, "a file name", strlen(path) + 1);
}

txl_status config_file_load(const char *checkpoint, const char *name, char **config_path,
                            json_t **config, txl_error *error) {
    const size_t length = beside_folder_length(checkpoint);
    txl_status status = TXL_OK;
    for (size_t i = 0; i < BESIDE_N && !status && !*config; i++) {
        char *folder = beside(checkpoint, length, i), *path = NULL;
        if (!folder || asprintf(&path, "%s%s", folder, name) < 0)
            status = txl_fail_memory(error, "a file name", strlen(checkpoint));
        else
            status = load_config(path, config_path, config, error);
        free(folder);
        free(path);
    }
    return status;
}
