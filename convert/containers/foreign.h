/* Refuses files that look like checkpoints or vocabularies and are something else. */
#ifndef CONVERT_FOREIGN_H
#define CONVERT_FOREIGN_H

#include "lib/base/files.h"

#include <jansson.h>

/* Refuses a file of a known other format: the message names the format and the remedy. */
txl_status foreign_refuse(const struct mapped_file *file, txl_error *error);

/* Refuses a git-LFS pointer alone, for files whose bytes may be any. */
txl_status foreign_refuse_pointer(const struct mapped_file *file, txl_error *error);

/* Refuses a directory without a checkpoint: says so, or names the other format that the directory
 * or its folder `inner` has. */
txl_status foreign_refuse_directory(const char *path, const char *inner, const char *expected,
                                    txl_error *error);

/* Reads the JSON in the file at `path`, unless `refuse`, one of the first two, refuses the file. If
 * it is no JSON, the message has `what` before the reason. */
txl_status foreign_read_json(const char *path,
                             txl_status (*refuse)(const struct mapped_file *, txl_error *),
                             size_t flags, const char *what, json_t **json, txl_error *error);

#endif
