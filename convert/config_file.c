/* Reading config.json. */
#include "config_file.h"
#include "lib/base/error.h"
#include "lib/base/json_memory.h"
#include "lib/base/mapped_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

txl_status config_file_load(const char *checkpoint, char **config_path, json_t **config,
                            txl_error *error) {
    char name[PATH_MAX + sizeof "config.json"];
    const char *slash = strrchr(checkpoint, '/');
    int folder = slash ? (int)(slash - checkpoint) + 1 : 0;
    snprintf(name, sizeof name, "%.*sconfig.json", folder, checkpoint);
    struct stat about;
    if (stat(name, &about) != 0 && errno == ENOENT)
        return TXL_OK;
    struct mapped_file file;
    txl_status status = mapped_file_open(name, &file, error);
    if (status)
        return status;
    json_error_t where;
    *config = json_loadb((const char *)file.data, (size_t)file.size, 0, &where);
    mapped_file_close(&file);
    if (!*config)
        return txl_fail(error, json_lacked_memory(&where) ? TXL_MEMORY : TXL_FORMAT,
                        "%s: line %d: %s", name, where.line, where.text);
    if (!json_is_object(*config))
        return txl_fail(error, TXL_FORMAT, "%s: expected a JSON object", name);
    *config_path = strdup(name);
    return *config_path ? TXL_OK : txl_fail_memory(error, "a file name", strlen(name) + 1);
}
