/* Reading JSON beside a checkpoint. */
#include "config_file.h"
#include "convert/containers/foreign.h"
#include "lib/base/error.h"
#include "lib/base/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* If stat fails for another reason, opening the file reports it. */
static bool is_there(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

txl_status config_file_load(const char *checkpoint, const char *name, char **config_path,
                            json_t **config, txl_error *error) {
    char *path;
    txl_status status =
        beside_find(checkpoint, beside_folder_length(checkpoint), &name, 1, is_there, &path, error);
    if (!status && path)
        status = foreign_read_json(path, foreign_refuse_pointer, 0, "", config, error);
    if (!status && path && !json_is_object(*config))
        status = txl_fail(error, TXL_FORMAT, "%s: expected a JSON object", path);
    if (!status && path)
        *config_path = path;
    else
        free(path);
    return status;
}
