/* Reading JSON beside a checkpoint. */
#include "config_file.h"
#include "convert/containers/foreign.h"
#include "lib/base/beside.h"
#include "lib/base/error.h"
#include "lib/base/json_memory.h"
#include "lib/base/mapped_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Where that cannot be told, opening it will say why. */
static bool is_there(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

static txl_status load_config(const char *path, json_t **config, txl_error *error) {
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
    return TXL_OK;
}

txl_status config_file_load(const char *checkpoint, const char *name, char **config_path,
                            json_t **config, txl_error *error) {
    char *path;
    txl_status status =
        beside_find(checkpoint, beside_folder_length(checkpoint), &name, 1, is_there, &path, error);
    if (!status && path)
        status = load_config(path, config, error);
    if (!status && path)
        *config_path = path;
    else
        free(path);
    return status;
}
