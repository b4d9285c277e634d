/* Opening an XLNet. */
#ifndef TXL_XLNET_OPEN_H
#define TXL_XLNET_OPEN_H

#include "lib/network/family.h"

/* As struct family's open and close. */
txl_status xlnet_open(const void *settings, const struct tensors *tensors, struct network **network,
                      txl_error *error);
void xlnet_close(struct network *network);

#endif
