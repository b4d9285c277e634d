/* Text to ids: a txl_encoder made from a vocabulary alone, without a model. */
#ifndef TXL_ENCODER_H
#define TXL_ENCODER_H

#include "vocabulary.h"

/* txl_encoder_new with the vocabulary itself, which must outlive the encoder. */
txl_status encoder_new(const struct vocabulary *vocabulary, const txl_encoding *encoding,
                       txl_encoder **encoder, txl_error *error);

#endif
