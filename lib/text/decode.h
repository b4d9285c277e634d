/* What the kinds' decoders work with. */
#ifndef TXL_DECODE_H
#define TXL_DECODE_H

#include "kind.h"
#include "lib/base/memory.h"
#include "vocabulary.h"

struct txl_decoder {
    const struct vocabulary *vocabulary;
    const struct kind_decoder *kind;
    struct buffer out; /* text for the caller */
    void *own;         /* the kind's, behind this struct */
};

/* Adds bytes to the text for the caller. */
txl_status decode_add(txl_decoder *decoder, const char *bytes, size_t length, txl_error *error);

#endif
