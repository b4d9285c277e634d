/* All that an encoder gave of one text. */
#ifndef FUZZ_SYMBOLS_H
#define FUZZ_SYMBOLS_H

#include "fuzz.h"

#include "lib/base/memory.h"

struct symbols {
    FILE *out;
    char *bytes; /* spellings, ids and places in their order, once closed */
    size_t size;
    struct id_list list;
    uint64_t begin, end; /* of what the last symbol stands for */
};

void symbols_open(struct symbols *s);
void symbols_close(struct symbols *s);
void symbols_free(struct symbols *s);

/* A txl_encoding's `symbol`, whose context is a struct symbols: the symbols of a text stand for its
 * bytes in their order. */
txl_status symbols_add(void *context, const txl_symbol *symbol, txl_error *error);

bool symbols_equal(const struct symbols *a, const struct symbols *b);

#endif
