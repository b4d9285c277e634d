/* The JSON that publishers put beside a checkpoint: Hugging Face's config.json, the authors'
 * corpus-info.json and xlnet_config.json. */
#ifndef CONVERT_CONFIG_FILE_H
#define CONVERT_CONFIG_FILE_H

#include "txl.h"

#include <jansson.h>

/* Reads the file of that name in the folder of the file `checkpoint`, else in ../data or data
 * there: gives a JSON object and its path, both for the caller to free; leaves both unchanged if
 * there is no such file. */
txl_status config_file_load(const char *checkpoint, const char *name, char **config_path,
                            json_t **config, txl_error *error);

#endif
