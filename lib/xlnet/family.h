/* The family's row; all that other rooms see of an XLNet's sessions. */
#ifndef TXL_XLNET_FAMILY_H
#define TXL_XLNET_FAMILY_H

#include "lib/network/family.h"

extern const struct family xlnet_family;

#endif
