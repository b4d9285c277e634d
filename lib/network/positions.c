/* Position rows: computed once, or for the first tokens not at all. */
#include "positions.h"
#include "lib/base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POSITION_BLOCK = 64 }; /* rows computed at a time, always from a multiple of it */

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t head_width(const struct transformer_xl *x) {
    return (size_t)x->n_head * (size_t)x->d_head;
}

static size_t in_blocks(size_t rows) {
    return (rows + ROW_BLOCK - 1) / ROW_BLOCK * ROW_BLOCK;
}

size_t positions_distances(const struct transformer_xl *x, const txl_settings *s) {
    if (x->attn_type > ATTENTION_LEARNED_DISTANCE)
        return 0;
    bool same_length = s->same_length && s->mem_len > 0;
    size_t reach = (size_t)s->mem_len + (same_length ? 0 : (size_t)s->tgt_len);
    if (s->clamp_len > 0)
        reach = smaller(reach, (size_t)s->clamp_len + (x->attn_type == ATTENTION_RELATIVE));
    if (x->attn_type == ATTENTION_LEARNED_DISTANCE)
        reach = smaller(reach, (size_t)x->max_klen);
    return reach;
}

static struct rows plan_rows(const struct transformer_xl *x, size_t distances,
                             enum weights_type type) {
    return (struct rows){.type = type,
                         .transposed = true,
                         .n_layer = (size_t)x->n_layer,
                         .n_block = in_blocks(distances) / ROW_BLOCK,
                         .n_head = (size_t)x->n_head,
                         .width = (size_t)x->d_head};
}

/* A memory of zeros is seen at once and whole. */
static bool has_few(const struct transformer_xl *x, const txl_settings *s) {
    return x->attn_type == ATTENTION_RELATIVE && x->zero_memory && s->mem_len > FEW_TOKENS &&
           x->d_model % 16 == 0;
}

/* Floats of the tables for the first tokens. */
static uint64_t few_size(const struct transformer_xl *x, size_t distances) {
    return FEW_TOKENS * (uint64_t)x->n_head * ((uint64_t)x->d_model + distances);
}

uint64_t positions_bytes(const struct transformer_xl *x, const txl_settings *s,
                         enum weights_type type) {
    size_t distances = positions_distances(x, s);
    struct rows rows = plan_rows(x, distances, type);
    uint64_t bytes = rows_bytes(&rows);
    if (x->attn_type == ATTENTION_LEARNED_DISTANCE)
        bytes += (uint64_t)x->n_layer * x->n_head * in_blocks(distances) * sizeof(float);
    if (x->attn_type == ATTENTION_RELATIVE)
        bytes += (uint64_t)distances * x->d_model * sizeof(float);
    if (has_few(x, s))
        bytes += few_size(x, distances) * sizeof(float);
    return bytes + POSITION_BLOCK * (uint64_t)head_width(x) * sizeof(float);
}

size_t positions_scratch(const struct transformer_xl *x, const txl_settings *s) {
    size_t d_model = (size_t)x->d_model, most = 0;
    if (x->attn_type != ATTENTION_RELATIVE)
        return 0;
    for (int l = 0; l < x->n_layer; l++) {
        size_t product = compute_scratch(&x->layer[l].r, POSITION_BLOCK);
        most = most > product ? most : product;
    }
    if (has_few(x, s)) {
        struct matrix sines = {
            .type = WEIGHTS_F32, .n_row = positions_distances(x, s), .n_col = d_model};
        size_t product = compute_scratch(&sines, FEW_TOKENS * (size_t)x->n_head);
        size_t queries = (FEW_TOKENS + d_model) * (size_t)x->d_head;
        most = most > product ? most : product;
        most = most > queries ? most : queries;
    }
    return most;
}

txl_status positions_new(const struct transformer_xl *x, const txl_settings *settings,
                         enum weights_type type, struct positions **positions, txl_error *error) {
    struct positions *p = calloc(1, sizeof *p);
    if (!p)
        return txl_fail_memory(error, "the position rows", sizeof *p);
    p->x = x;
    p->clamp_len = settings->clamp_len;
    p->distances = positions_distances(x, settings);
    p->places = in_blocks(p->distances);
    p->rows = plan_rows(x, p->distances, type);
    atomic_init(&p->users, 1);
    size_t d_model = (size_t)x->d_model, n_head = (size_t)x->n_head;
    p->projected = calloc(POSITION_BLOCK, head_width(x) * sizeof(float));
    bool good = p->projected != NULL;
    if (good && x->attn_type == ATTENTION_RELATIVE) {
        p->sines = calloc(p->distances, d_model * sizeof(float));
        good = p->sines != NULL;
    }
    if (good && x->attn_type == ATTENTION_LEARNED_DISTANCE) {
        p->bias = calloc((size_t)x->n_layer * n_head, p->places * sizeof(float));
        good = p->bias || p->places == 0;
    }
    if (good && has_few(x, settings)) {
        p->few_queries = calloc(FEW_TOKENS * n_head, d_model * sizeof(float));
        p->few_scores = calloc(FEW_TOKENS * n_head, p->distances * sizeof(float));
        good = p->few_queries && p->few_scores;
    }
    txl_status status =
        good ? rows_open(&p->rows, "the position rows", error)
             : txl_fail_memory(error, "the position rows", positions_bytes(x, settings, type));
    if (status) {
        positions_free(p);
        return status;
    }
    *positions = p;
    return TXL_OK;
}

/* What is of no use once all rows are known. */
static void forget_sources(struct positions *p) {
    free(p->sines);
    free(p->projected);
    free(p->few_queries);
    free(p->few_scores);
    p->sines = p->projected = p->few_queries = p->few_scores = NULL;
}

void positions_free(struct positions *p) {
    if (!p || atomic_fetch_sub(&p->users, 1) > 1)
        return;
    forget_sources(p);
    rows_close(&p->rows);
    free(p->bias);
    free(p);
}

void position_sines(const struct transformer_xl *x, int clamp_len, size_t first, int step, size_t n,
                    float *out) {
    size_t half = (size_t)x->d_model / 2;
    for (size_t t = 0; t < n; t++) {
        double p = (double)first + (double)step * (double)t;
        if (clamp_len > 0 && p > clamp_len)
            p = clamp_len;
        for (size_t i = 0; i < half; i++) {
            double angle = p * (double)x->inv_freq[i];
            out[t * 2 * half + i] = (float)sin(angle);
            out[t * 2 * half + half + i] = (float)cos(angle);
        }
    }
}

struct sines {
    struct positions *positions;
    size_t count;
};

/* A block of the distances from n_sines to below count. */
static void sines_task(void *context, int i, int thread) {
    (void)thread;
    const struct sines *s = context;
    struct positions *p = s->positions;
    size_t first = p->n_sines + (size_t)i * POSITION_BLOCK;
    size_t n = smaller(POSITION_BLOCK, s->count - first);
    position_sines(p->x, p->clamp_len, first + n - 1, -1, n,
                   p->sines + (p->distances - first - n) * (size_t)p->x->d_model);
}

static void need_sines(struct positions *p, const struct compute *compute, size_t count) {
    struct sines s = {p, count};
    if (p->n_sines >= count)
        return;
    pool_run(compute->pool, (int)(in_blocks(count - p->n_sines) / POSITION_BLOCK), sines_task, &s);
    p->n_sines = count;
}

/* ---- Rows of all distances ---------------------------------------------------------------- */

/* A position table's rows are computed farthest first, as they are kept: row t of n rows from
 * distance `first` on is that of distance first + n - 1 - t. */
static void store_rows(struct positions *p, const struct compute *compute, int l, size_t first,
                       size_t n) {
    size_t d_head = (size_t)p->x->d_head, n_head = (size_t)p->x->n_head;
    for (size_t t = 0; t < n; t++) {
        for (size_t h = 0; h < n_head; h++)
            rows_put(&p->rows, compute->kernels, (size_t)l, p->places - first - n + t, h,
                     p->projected + (t * n_head + h) * d_head, d_head);
    }
}

/* The learned row of distance d is the table's d-th from its end. */
static void load_learned_distances(struct positions *p, const struct compute *compute, int l,
                                   const struct layer *layer, size_t first, size_t n) {
    size_t n_head = (size_t)p->x->n_head, row = (size_t)p->x->max_klen - first - n;
    compute_widen(compute, &layer->r_emb, row, n, p->projected);
    for (size_t t = 0; t < n; t++) {
        size_t place = p->places - first - n + t;
        for (size_t h = 0; h < n_head; h++)
            p->bias[((size_t)l * n_head + h) * p->places + place] =
                layer->r_bias[(row + t) * n_head + h];
    }
}

/* Sessions that share the rows only read them, since all are known. */
void positions_want(struct positions *p, const struct compute *compute, size_t count) {
    if (p->known == p->distances)
        return;
    size_t most = smaller(in_blocks(count), p->distances);
    p->wanted = most > p->known ? most : p->known;
    if (p->x->attn_type == ATTENTION_RELATIVE)
        need_sines(p, compute, p->wanted);
}

void positions_fill(struct positions *p, const struct compute *compute, int l,
                    const struct layer *layer) {
    size_t d_model = (size_t)p->x->d_model;
    for (size_t first = p->known, n; first < p->wanted; first += n) {
        n = smaller(POSITION_BLOCK, p->wanted - first);
        if (p->x->attn_type == ATTENTION_LEARNED_DISTANCE)
            load_learned_distances(p, compute, l, layer, first, n);
        else /* W_r R: R[n, d_model], W_r[n_head d_head, d_model] */
            compute_product(compute, n, p->sines + (p->distances - first - n) * d_model, d_model,
                            &layer->r, NULL, LINEAR, p->projected, head_width(p->x));
        store_rows(p, compute, l, first, n);
    }
}

void positions_finish(struct positions *p) {
    if (p->known == p->wanted)
        return;
    p->known = p->wanted;
    if (p->known == p->distances)
        forget_sources(p);
}

/* ---- The first tokens --------------------------------------------------------------------- */

bool positions_are_few(const struct positions *p, uint64_t before, size_t n) {
    return p->few_queries && before + n <= FEW_TOKENS;
}

struct few {
    struct positions *positions;
    const struct compute *compute;
    const struct layer *layer;
    size_t n, ldq;
    const float *q;
};

/* (Q + v) W_r of one head: Q[n, d_head], W_r[d_head, d_model] */
static void few_queries_task(void *context, int i, int thread) {
    const struct few *f = context;
    struct positions *p = f->positions;
    const struct layer *layer = f->layer;
    size_t head = (size_t)i, d_head = (size_t)p->x->d_head, d_model = (size_t)p->x->d_model;
    float *q_v = f->compute->scratch[thread]; /* [n, d_head] */
    float *wide = q_v + FEW_TOKENS * d_head;  /* [d_head, d_model] */
    for (size_t t = 0; t < f->n; t++) {
        for (size_t j = 0; j < d_head; j++)
            q_v[t * d_head + j] =
                f->q[t * f->ldq + head * d_head + j] + (layer->v ? layer->v[head * d_head + j] : 0);
    }
    compute_widen(f->compute, &layer->r, head * d_head, d_head, wide);
    f->compute->kernels->multiply[WEIGHTS_F32](f->n, d_model, d_head, q_v, d_head, wide, d_model,
                                               false, p->few_queries + head * d_model,
                                               (size_t)p->x->n_head * d_model, NULL);
}

void positions_score_few(struct positions *p, const struct compute *compute,
                         const struct layer *layer, size_t n, const float *q, size_t ldq) {
    const struct transformer_xl *x = p->x;
    size_t d_model = (size_t)x->d_model;
    struct matrix sines = {
        .type = WEIGHTS_F32, .data = p->sines, .n_row = p->distances, .n_col = d_model};
    need_sines(p, compute, p->distances);
    struct few few = {p, compute, layer, n, ldq, q};
    pool_run(compute->pool, x->n_head, few_queries_task, &few);
    compute_product(compute, n * (size_t)x->n_head, p->few_queries, d_model, &sines, NULL, LINEAR,
                    p->few_scores, p->distances);
}
