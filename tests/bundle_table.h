/* Writes sorted tables, which TensorFlow's checkpoints begin with, as TensorFlow writes none: of
 * any entries, in many blocks. */
#ifndef BUNDLE_TABLE_H
#define BUNDLE_TABLE_H

#include "convert/containers/sorted_table.h"

/* A table of the entries in this order, `per_block` of them (at least 1) in a block.  The caller
 * frees it. */
uint8_t *bundle_table(const struct table_entry *entries, size_t n, size_t per_block, size_t *size);

#endif
