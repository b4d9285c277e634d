/* Storage for keys, values and position rows of every layer and head, in blocks of ROW_BLOCK rows.
 *
 * Consecutive blocks of a head form a run, which the processor prefetches well.  The same blocks of
 * the next head follow, then those of the next layer.  The first run is short, so that the first
 * tokens touch few pages; the others are long. */
#ifndef TXL_NETWORK_KV_ROWS_H
#define TXL_NETWORK_KV_ROWS_H

#include "lib/base/memory.h"
#include "lib/kernels/kernels.h"
#include "lib/weights/weights.h"
#include "txl.h"

enum { ROW_BLOCK = I8_BLOCK };

/* `rows` rounded up to whole blocks. */
static inline size_t in_blocks(size_t rows) {
    return (rows + ROW_BLOCK - 1) / ROW_BLOCK * ROW_BLOCK;
}

/* A block is [width, ROW_BLOCK] if `transposed`, else [ROW_BLOCK, width].  In bf16 and q8
 * pairs of rows of this array are interleaved, element by element (see multiply_bf16).  In q8 the
 * elements are integers, and ROW_BLOCK f32 scales follow them, one for each row. */
struct rows {
    enum weights_type type; /* f32, f16, bf16 or q8 */
    bool transposed;
    size_t n_layer, n_block, n_head;
    size_t width; /* elements of a row; an even number in bf16 and q8 */
    char *data;   /* n_block n_layer n_head blocks, initially zero */
};

enum weights_type rows_type(txl_memory_type memory_type);
/* Bytes of n elements in rows of n_head heads. */
size_t rows_bytes(txl_memory_type memory_type, size_t n_head, size_t n);

/* Plans n_row rows of keys or positions, whose data rows_lay_out takes.  They are transposed, so
 * that the scores of a block are one product. */
struct rows rows_transposed(enum weights_type type, size_t n_layer, size_t n_head, size_t d_head,
                            size_t n_row);

/* Plans the keys and values of a ring in which a pass sees at most `reach` rows.  The width of
 * values is a multiple of 16.  Returns the ring's number of rows, in whole blocks: enough for
 * `reach` rows that begin anywhere in a block. */
size_t rows_plan(txl_memory_type memory_type, int n_layer, int n_head, int d_head, size_t reach,
                 struct rows *keys, struct rows *values);

/* Takes rows->data from the arena.  The caller fills in the rest of *rows. */
void rows_lay_out(struct rows *rows, struct arena *arena);

/* Writes elements[n], n <= width, to row `row` of the layer and head; the row's other elements
 * stay.  f16 and bf16 round to nearest even; f16 clamps to +-65504.  q8 scales the row as a whole
 * (see narrow_i8). */
void rows_put(const struct rows *rows, const struct kernels *kernels, size_t layer, size_t row,
              size_t head, const float *elements, size_t n);

/* The same for all heads of n rows from `row` on: elements[n, n_head, d_head]. */
void rows_put_heads(const struct rows *rows, const struct kernels *kernels, size_t layer,
                    size_t row, size_t n, const float *elements, size_t d_head);

/* Copy a row's keys and values of all heads out and in: elements[2, n_head, d_head] as they are
 * stored, keys first.  In q8 each head's scale, an f32, comes before its elements; `bytes` need no
 * alignment. */
void rows_export(const struct rows *keys, const struct rows *values, size_t layer, size_t row,
                 size_t d_head, void *bytes);
void rows_import(const struct rows *keys, const struct rows *values, size_t layer, size_t row,
                 size_t d_head, const void *bytes);

/* Converts A[m, k] with row stride lda >= k, in place, for products with blocks of `rows`.  In
 * bf16, each row is rounded into its first half, and a zero follows if k is odd.  Other types leave
 * A unchanged. */
void rows_round_factor(const struct rows *rows, const struct kernels *kernels, size_t m, size_t k,
                       float *a, size_t lda);
/* Rows [first, end) of a layer's head in a ring, counted from the start of block `block`.  The
 * blocks from there on are taken modulo the ring's number of blocks. */
struct row_span {
    int layer;
    size_t head, block, first, end;
};

/* The address where the span begins, for prefetching. */
const void *rows_begin(const struct rows *rows, const struct row_span *span);

/* The memory of a span in q8: part[n], n <= room. */
size_t rows_parts(const struct rows *rows, const struct row_span *span, struct fetch_part *part,
                  size_t room);

/* S = Q K^T for a span of keys or position rows: Q[m, d_head] from rows_round_factor, S[m, end]
 * with row stride lds.  S needs room for whole blocks; its columns before `first` are undefined.
 * `after` is the address that will be read next, to be prefetched, or NULL. */
void rows_score(const struct rows *rows, const struct kernels *kernels, const struct row_span *span,
                size_t m, const float *q, size_t d_head, float *s, size_t lds, const void *after);

/* out[m, width] += S V for a span of values: S[m, end] from rows_round_factor with row stride lds,
 * zero from `end` to the end of its block.  Up to 15 rows before `first` take part too: their
 * weights or values must be zero.  `after` as in rows_score. */
void rows_weigh(const struct rows *rows, const struct kernels *kernels, const struct row_span *span,
                size_t m, const float *s, size_t lds, float *out, const void *after);

/* Copies one block, of all layers and heads, between rows of the same shape and type. */
void rows_copy_block(struct rows *to, const struct rows *from, size_t block);

/* ---- Attention ---------------------------------------------------------------------------- */

/* The parts of a head's attention that are the same in all families: which keys a query sees, its
 * attention weights, and the weighted sums. */

/* The keys and the position rows that some queries of one head see together.  Both spans begin in
 * the first of whole blocks: `keys`, which is the values' span too, is counted from the row of
 * position `low`, and `positions`, farthest first, from position row `low_row`. */
struct key_range {
    uint64_t low;
    size_t low_row;
    struct row_span keys, positions;
    size_t n_key, n_position; /* rows of both spans, in whole blocks */
};

/* The range of keys at positions from .. end - 1, which are kept in the ring's blocks in turn, and
 * of the position rows far .. near - 1. */
struct key_range attend_range(int layer, size_t head, uint64_t from, uint64_t end, size_t far,
                              size_t near);

/* out[m, d_head] = q[m, d_head] + bias[d_head]; bias may be NULL. */
void attend_add_bias(size_t m, size_t d_head, const float *q, size_t ldq, const float *bias,
                     float *out);

/* The same in the form that products with `rows` take. */
void attend_queries(const struct rows *rows, const struct kernels *kernels, size_t m, size_t d_head,
                    const float *q, size_t ldq, const float *bias, float *out);

/* Turns a row of scores s[n_key] into attention weights, and returns the factor by which they are
 * still to be multiplied.  The row sees n keys from key `before` on; the others get weight 0.  The
 * position score of the first n_far keys is `far`; those of the rest are position[n - n_far]. */
float attend_row(const struct kernels *kernels, size_t d_head, float *s, size_t n_key,
                 size_t before, size_t n, size_t n_far, float far, const float *position);

/* heads[m, d_head] = the rows of sums[m, width], each multiplied by its factor. */
void attend_heads(size_t m, size_t d_head, const float *sums, size_t width, const float *factor,
                  float *heads, size_t ldh);

#endif
