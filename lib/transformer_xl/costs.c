/* What one token needs at least, once the memory is full.
 *
 * A generated token reads
 *
 *     the weights: each layer's but W_r, whose rows W_r R are kept; the head's; one embedding's
 *     in each layer, n_head d_head wide: `visible` rows of keys and as many of values, and
 *     `distances` position rows
 *
 * and a scored one takes, an addition and a multiplication each,
 *
 *     for each of these weights: one
 *     for each element of these rows: one
 *
 * visible: the positions that a token sees, on average over its segment.  distances: those of them
 * that differ, since all beyond clamp_len share one position row.  The head is the softmax's first
 * band with the entries of the others.  What is left out, norms, softmax and sampling, is linear in
 * what is counted, and small. */
#include "lib/base/q8.h"
#include "transformer_xl.h"

static uint64_t matrix_bytes(const struct matrix *w) {
    uint64_t row = w->n_col * weights_type_size(w->type);
    if (w->type == WEIGHTS_Q8)
        row += q8_blocks(w->n_col) * sizeof *w->scale;
    return w->n_row * row;
}

static uint64_t matrix_products(const struct matrix *w) {
    return (uint64_t)w->n_row * w->n_col;
}

/* What a token uses of the memory and the segment at hand, in every layer. */
struct sight {
    double visible, distances;
};

static struct sight full_sight(const struct transformer_xl *x, const txl_settings *s) {
    struct sight sight = {.visible = s->mem_len + (s->tgt_len + 1) / 2.0};
    if (s->same_length && s->mem_len > 0)
        sight.visible = s->mem_len;
    if (x->attn_type > ATTENTION_LEARNED_DISTANCE)
        return sight;
    bool relative = x->attn_type == ATTENTION_RELATIVE;
    sight.distances = sight.visible;
    if (s->clamp_len > 0 && sight.distances > s->clamp_len + relative)
        sight.distances = s->clamp_len + relative;
    if (!relative && sight.distances > x->max_klen)
        sight.distances = x->max_klen;
    return sight;
}

/* The matrices that one token goes through, the embedding's but for its one row. */
static void add_matrices(const struct transformer_xl *x, uint64_t *bytes, uint64_t *products) {
    const struct band *head = &x->band[0];
    const struct matrix *ends[] = {&head->embedding_projection, &head->softmax_projection,
                                   &head->softmax, &x->cluster};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        *bytes += matrix_bytes(ends[i]);
        *products += matrix_products(ends[i]);
    }
    for (int n = 0; n < x->n_layer; n++) {
        const struct layer *layer = &x->layer[n];
        const struct matrix *matrix[] = {&layer->qkv, &layer->o, &layer->feed_forward_1,
                                         &layer->feed_forward_2};
        for (size_t i = 0; i < sizeof matrix / sizeof *matrix; i++) {
            *bytes += matrix_bytes(matrix[i]);
            *products += matrix_products(matrix[i]);
        }
    }
}

/* Elements of the vectors that a token is added to or scaled by. */
static uint64_t vector_elements(const struct transformer_xl *x) {
    uint64_t width = (uint64_t)x->n_head * (uint64_t)x->d_head;
    uint64_t n = x->band[0].n_token + (uint64_t)x->n_band - 1; /* the softmax's biases */
    for (int i = 0; i < x->n_layer; i++) {
        const struct layer *layer = &x->layer[i];
        n += 5 * (uint64_t)x->d_model + (uint64_t)x->d_inner; /* two norms, two biases */
        if (i > 0 && layer->u == x->layer[0].u)
            continue; /* one pair for all layers */
        n += (layer->u ? width : 0) + (layer->v ? width : 0);
    }
    return n;
}

void txl_model_costs(const txl_model *model, const txl_settings *settings, txl_costs *costs) {
    const struct transformer_xl *x = model->network;
    const struct matrix embedding = matrix_rows(&x->band[0].embedding, 0, 1);
    uint64_t bytes = 0, products = 0;
    add_matrices(x, &bytes, &products);
    struct sight sight = full_sight(x, settings);
    double width = (double)x->n_head * x->d_head;
    double rows = (2 * sight.visible + sight.distances) * x->n_layer;
    bytes += matrix_bytes(&embedding);
    bytes += vector_elements(x) * sizeof(float);
    size_t element = settings->memory_type == TXL_MEMORY_F16 ? sizeof(uint16_t) : sizeof(float);
    bytes += (uint64_t)(rows * width * (double)element);
    if (x->attn_type == ATTENTION_LEARNED_DISTANCE) /* their biases */
        bytes += (uint64_t)(sight.distances * x->n_layer * x->n_head * sizeof(float));
    costs->bytes = bytes;
    costs->flops = 2 * (products + (uint64_t)(rows * width));
}
