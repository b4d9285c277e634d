/* What compressing and decompressing share: which models may do it, and their memory. */
#ifndef TXL_COMPRESS_COMPRESS_H
#define TXL_COMPRESS_COMPRESS_H

#include "txl.h"

/* Refuses models whose numbers depend on how their text is divided into calls. */
txl_status compress_check_model(const txl_model *model, txl_error *error);

/* Bytes that sessions may take: `memory`, or half of the machine's for 0. */
uint64_t compress_memory(uint64_t memory);

#endif
