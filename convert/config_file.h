/* The config.json that Hugging Face puts beside a checkpoint. */
#ifndef CONVERT_CONFIG_FILE_H
#define CONVERT_CONFIG_FILE_H

#include "txl.h"

#include <jansson.h>

/* Reads config.json in the folder of the file `checkpoint`: gives a JSON object and its path, both
 * for the caller to free; leaves both unchanged if there is no such file. */
txl_status config_file_load(const char *checkpoint, char **config_path, json_t **config,
                            txl_error *error);

#endif
