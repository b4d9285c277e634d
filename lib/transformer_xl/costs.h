/* What a token costs a Transformer-XL. */
#ifndef TXL_TRANSFORMER_XL_COSTS_H
#define TXL_TRANSFORMER_XL_COSTS_H

#include "lib/network/family.h"

/* As in struct family. */
void transformer_xl_costs(const struct network *network, const txl_settings *settings,
                          txl_costs *costs);

#endif
