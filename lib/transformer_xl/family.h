/* The family's row; all that other rooms see of a Transformer-XL's sessions. */
#ifndef TXL_TRANSFORMER_XL_FAMILY_H
#define TXL_TRANSFORMER_XL_FAMILY_H

#include "lib/network/family.h"

extern const struct family transformer_xl_family;

#endif
