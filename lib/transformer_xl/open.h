/* Opening a Transformer-XL. */
#ifndef TXL_TRANSFORMER_XL_OPEN_H
#define TXL_TRANSFORMER_XL_OPEN_H

#include "lib/network/family.h"

/* As struct family's open and close. */
txl_status transformer_xl_open(const void *settings, const struct tensors *tensors,
                               struct network **network, txl_error *error);
void transformer_xl_close(struct network *network);

#endif
