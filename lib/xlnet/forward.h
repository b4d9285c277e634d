/* The forward pass of an XLNet. */
#ifndef TXL_XLNET_FORWARD_H
#define TXL_XLNET_FORWARD_H

#include "timeline.h"

/* As in struct family. */
size_t xlnet_room(const struct timeline *timeline);
txl_status xlnet_advance(struct timeline *timeline, const int32_t *ids, size_t n, bool every,
                         const float **hidden, txl_error *error);
txl_status xlnet_advance_each(struct timeline *const *each, const int32_t *ids, size_t n,
                              const float **hidden, txl_error *error);
txl_status xlnet_block(struct timeline *timeline, const int32_t *ids, size_t n,
                       const float **hidden, txl_error *error);
txl_status xlnet_block_then_left(struct timeline *timeline, const int32_t *ids, size_t known,
                                 size_t n, const float **hidden, txl_error *error);
txl_status xlnet_gaps(struct timeline *timeline, const int32_t *ids, size_t n, txl_error *error);
txl_status xlnet_ask(struct timeline *timeline, const size_t *gaps, size_t n, const float **hidden,
                     txl_error *error);
txl_status xlnet_fill(struct timeline *timeline, size_t gap, int32_t id, txl_error *error);

#endif
