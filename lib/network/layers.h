/* The layers of a network as one session sees them.  If the model was opened compressed, they are
 * expanded one at a time into memory that belongs to the session. */
#ifndef TXL_LAYERS_H
#define TXL_LAYERS_H

#include "compute.h"
#include "lib/base/memory.h"
#include "lib/base/threads.h"
#include "parameters.h"

struct network;

struct layers {
    const struct network *network;
    struct expander *expander; /* NULL: no layer is compressed */
    size_t n_block;            /* blocks of the layer that has most */
    void *memory;              /* where layers are expanded to */
    void *layer; /* the expanded layer, a family's struct of table->layer_size bytes */
    int number;  /* the number of the expanded layer, or -1 */
};

/* Names to compute_order the matrices that a generated token is multiplied by, layer by layer.  The
 * table lists them in the order of the forward pass. */
void layers_order(const struct network *network, struct compute *compute);

/* Floats of scratch that products with the layers' matrices need, for up to n_x rows, and for up to
 * n_position rows where position rows are computed. */
size_t layers_scratch(const struct network *network, size_t n_x, size_t n_position);

/* Whether products of n_x rows with any of the network's matrices are OpenBLAS's sgemm. */
bool layers_reach_sgemm(const struct network *network, const struct kernels *kernels, size_t n_x);

/* Adds the bytes and products, for one row, of all weights but embedding and softmax. */
void layers_costs(const struct network *network, uint64_t *bytes, uint64_t *products);

/* Takes the memory for expanding the largest layer from the arena. */
void layers_lay_out(struct layers *layers, const struct network *network, struct arena *arena);

/* Bytes that layers_open allocates in addition. */
uint64_t layers_bytes(const struct network *network, int threads);

/* `pool` does the work, and must outlive the layers. */
txl_status layers_open(struct layers *layers, struct pool *pool, txl_error *error);
void layers_close(struct layers *layers);

/* Makes all matrices of layer l available until the next call; `*layer` is the family's struct.
 * Fails if a block is damaged. */
txl_status layers_get(struct layers *layers, int l, const void **layer, txl_error *error);

#endif
