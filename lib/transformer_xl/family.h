/* The family of Transformer-XL networks. */
#ifndef TXL_TRANSFORMER_XL_FAMILY_H
#define TXL_TRANSFORMER_XL_FAMILY_H

#include "lib/network/family.h"

extern const struct family transformer_xl_family;

#endif
