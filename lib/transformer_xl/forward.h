/* The forward pass of a Transformer-XL. */
#ifndef TXL_TRANSFORMER_XL_FORWARD_H
#define TXL_TRANSFORMER_XL_FORWARD_H

#include "timeline.h"

/* As in struct family. */
size_t transformer_xl_room(const struct timeline *timeline);
txl_status transformer_xl_advance(struct timeline *timeline, const int32_t *ids, size_t n,
                                  bool every, const float **hidden, txl_error *error);
bool transformer_xl_advances_alone(const struct timeline *timeline);
txl_status transformer_xl_advance_each(struct timeline *const *each, const int32_t *ids, size_t n,
                                       const float **hidden, txl_error *error);

#endif
