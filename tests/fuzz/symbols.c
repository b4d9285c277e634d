/* All that an encoder gave of one text. */
#include "symbols.h"

#include <stdlib.h>
#include <string.h>

void symbols_open(struct symbols *s) {
    *s = (struct symbols){0};
    s->out = open_memstream(&s->bytes, &s->size);
    fuzz_require(s->out, "out of memory");
}

void symbols_close(struct symbols *s) {
    fclose(s->out);
}

void symbols_free(struct symbols *s) {
    free(s->bytes);
    id_list_free(&s->list);
}

txl_status symbols_add(void *context, const txl_symbol *symbol, txl_error *error) {
    (void)error;
    struct symbols *s = context;
    const uint64_t numbers[] = {(uint64_t)symbol->id, symbol->line, symbol->offset, symbol->bytes,
                                symbol->characters};
    fwrite(symbol->text ? symbol->text : "\n", 1, symbol->text ? symbol->length : 1, s->out);
    fwrite(numbers, sizeof numbers, 1, s->out);
    if (symbol->text) {
        fuzz_require(symbol->offset >= s->begin && symbol->offset + symbol->bytes >= s->end,
                     "a symbol stands for what is before the last one's");
        s->begin = symbol->offset;
        s->end = symbol->offset + symbol->bytes;
    }
    if (symbol->id >= 0)
        fuzz_require(id_list_add(&s->list, symbol->id), "out of memory");
    return TXL_OK;
}

bool symbols_equal(const struct symbols *a, const struct symbols *b) {
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}
