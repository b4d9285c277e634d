/* The config.json that Hugging Face lays beside a checkpoint. */
#ifndef CONVERT_CONFIG_FILE_H
#define CONVERT_CONFIG_FILE_H

#include "txl.h"

#include <jansson.h>

/* Reads config.json in the folder of the file `checkpoint`: a JSON object and its path, both the
 * caller's to free; left as they are where there is none. */
txl_status config_file_load(const char *checkpoint, char **config_path, json_t **config,
                            txl_error *error);

#endif
