/* The layers of a network as one session sees them: those of a model that was opened compressed are
 * expanded one at a time, into memory of the session's. */
#ifndef TXL_LAYERS_H
#define TXL_LAYERS_H

#include "lib/base/threads.h"
#include "lib/transformer_xl/transformer_xl.h"

struct layers {
    const struct transformer_xl *x;
    struct expander *expander; /* NULL: no layer is compressed */
    void *memory;              /* [size] */
    size_t size;
    struct layer layer; /* the one that is in memory */
    int number;         /* which that is, or -1 */
};

/* `pool` does the work, and must live as long. */
txl_status layers_open(struct layers *layers, const txl_model *model, struct pool *pool,
                       txl_error *error);
void layers_close(struct layers *layers);

/* Bytes that a session needs for it. */
uint64_t layers_bytes(const struct transformer_xl *x, int threads);

/* Layer l with all its matrices at hand, until the next call.  Fails at a block that is damaged. */
txl_status layers_get(struct layers *layers, int l, const struct layer **layer, txl_error *error);

#endif
