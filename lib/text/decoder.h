/* Ids to text: a txl_decoder made from a vocabulary alone, without a model. */
#ifndef TXL_DECODER_H
#define TXL_DECODER_H

#include "vocabulary.h"

/* txl_decoder_new with the vocabulary itself, which must outlive the decoder. */
txl_status decoder_new(const struct vocabulary *vocabulary, bool raw, txl_decoder **decoder,
                       txl_error *error);

#endif
