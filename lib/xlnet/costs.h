/* The least work for one token of an XLNet. */
#ifndef TXL_XLNET_COSTS_H
#define TXL_XLNET_COSTS_H

#include "lib/network/family.h"

/* As struct family's costs. */
void xlnet_costs(const struct network *network, const txl_settings *settings, txl_costs *costs);

#endif
