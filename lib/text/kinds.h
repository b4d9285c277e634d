/* The encoders and decoders in the kinds' files, for the table in kind.c. */
#ifndef TXL_KINDS_H
#define TXL_KINDS_H

#include "kind.h"

extern const struct kind_encoder words_encoder, bytes_encoder, characters_encoder, pieces_encoder,
    xlnet_encoder;
extern const struct kind_decoder words_decoder, bytes_decoder, characters_decoder, pieces_decoder,
    xlnet_decoder;

#endif
