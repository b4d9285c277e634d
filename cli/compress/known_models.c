/* Finds models by their checksums, which stand in the headers of weights files. */
#include "known_models.h"
#include "lib/base/error.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef MODELS_FOLDER
#error "MODELS_FOLDER is where older built-in models are installed"
#endif

static txl_status open_model(struct known_models *known, const char *path, txl_error *error) {
    if (known->n == MAX_KNOWN_MODELS)
        return txl_fail(error, TXL_ARGUMENT,
                        "the texts of one call were compressed with more than 16 models; "
                        "decompress them one by one");
    char *name = path ? strdup(path) : NULL;
    if (path && !name)
        return txl_fail(error, TXL_MEMORY, "out of memory");
    txl_status status = model_open_file(&known->models[known->n], name, (int)known->common->threads,
                                        known->common->low_memory, error);
    if (status)
        free(name);
    else
        known->names[known->n++] = name;
    return status;
}

/* Takes the file if it is the model.  A file that is none is passed over. */
static bool try_file(struct known_models *known, const char *path, uint64_t checksum,
                     txl_status *status, txl_error *error) {
    uint64_t found;
    if (!path || txl_file_checksum(path, &found, NULL) || found != checksum)
        return false;
    *status = open_model(known, path, error);
    return true;
}

static bool try_built_in(struct known_models *known, uint64_t checksum, txl_status *status,
                         txl_error *error) {
    for (size_t i = 0; i < known->n; i++)
        if (!known->names[i])
            return false; /* it was open already, and is not the one */
    *status = open_model(known, NULL, error);
    return *status || txl_model_checksum(known->models[known->n - 1].handle) == checksum;
}

static bool ends_in_txl(const char *name) {
    const size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, ".txl") == 0;
}

static bool try_folder(struct known_models *known, const char *path, uint64_t checksum,
                       txl_status *status, txl_error *error) {
    DIR *folder = opendir(path);
    bool found = false;
    for (struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        char *file = NULL;
        if (ends_in_txl(entry->d_name) && asprintf(&file, "%s/%s", path, entry->d_name) >= 0)
            found = try_file(known, file, checksum, status, error);
        free(file);
    }
    if (folder)
        closedir(folder);
    return found;
}

/* `folders` are divided by colons. */
static bool try_folders(struct known_models *known, const char *folders, uint64_t checksum,
                        txl_status *status, txl_error *error) {
    char *copy = folders ? strdup(folders) : NULL, *rest = copy;
    bool found = false;
    for (char *path; !found && (path = strsep(&rest, ":"));)
        found = *path != '\0' && try_folder(known, path, checksum, status, error);
    free(copy);
    return found;
}

static txl_status not_found(uint64_t checksum, const char *name, txl_error *error) {
    char message[sizeof error->message], called[80] = "a model";
    if (*name != '\0')
        snprintf(called, sizeof called, "the model %s", name);
    snprintf(message, sizeof message,
             "compressed with %s, of checksum %016" PRIx64
             ", which is neither the model in use nor the built-in one, nor in %s or a folder of "
             "$TXL_MODELS; name its file with --model%s",
             called, checksum, MODELS_FOLDER,
             *name != '\0' ? " (built-in models of other releases are files of those releases)"
                           : "");
    return txl_fail(error, TXL_ARGUMENT, "%s", message);
}

txl_status known_models_find(struct known_models *known, uint64_t checksum, const char *name,
                             const txl_model **model, txl_error *error) {
    const char *named = known->common->model;
    uint64_t other;
    txl_status status = TXL_OK;
    for (size_t i = 0; i < known->n; i++) {
        if (txl_model_checksum(known->models[i].handle) == checksum) {
            *model = known->models[i].handle;
            return TXL_OK;
        }
    }
    if (named && !model_is_built_in(named) && txl_file_checksum(named, &other, error))
        return error->status;
    bool found = try_file(known, named, checksum, &status, error) ||
                 try_file(known, model_environment(), checksum, &status, error) ||
                 try_built_in(known, checksum, &status, error) ||
                 try_folder(known, MODELS_FOLDER, checksum, &status, error) ||
                 try_folders(known, getenv("TXL_MODELS"), checksum, &status, error);
    if (!found)
        return not_found(checksum, name, error);
    if (!status)
        *model = known->models[known->n - 1].handle;
    return status;
}

void known_models_close(struct known_models *known) {
    for (size_t i = 0; i < known->n; i++) {
        model_close(&known->models[i]);
        free(known->names[i]);
    }
    known->n = 0;
}
