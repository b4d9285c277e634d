/* The inner loops, one table of functions for each kind of processor.  A table is chosen, and
 * copied, when a model is opened.
 *
 * Each table of the fast arithmetic has one of the exact arithmetic for the same processor.  The
 * results of all exact tables have the same bits.  Two fast tables agree within float rounding. */
#ifndef TXL_KERNELS_H
#define TXL_KERNELS_H

#include "lib/base/numbers.h"
#include "lib/base/tiles.h"
#include "txl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KERNEL_TYPES =
        4, /* as enum weights_type: f32, f16, bf16, q8; those in tiles are widened to f32 */
    TILE_TYPES = 2,   /* q4, q5 */
    FLOAT_TYPES = 3,  /* the types without scales: f32, f16, bf16 */
    MEMORY_TYPES = 2, /* types of keys and values: f32, f16 */
    PANEL_WIDTH = 64,
    PANEL_ROWS = 48,
    PANEL_DEPTH = 32
};

/* The function after the first linear layer of a feed-forward block. */
enum activation { LINEAR, RELU, GELU_TANH, GELU_ERF, SWISH };

/* What multiplies the most numbers in a product. */
struct instruction {
    const char *name;              /* the processor's maker's */
    double operations;             /* of a round, two for each product */
    void (*repeat)(size_t rounds); /* executes it with operands in registers */
};

struct tile_rows;

/* One panel's product, Y = act(X B^T + bias): m rows of X, at most PANEL_WIDTH, with n rows of B,
 * at most PANEL_ROWS; act is max(0, .) if `relu`. */
struct panel_call {
    size_t m, width, n, k; /* width: m rounded up to a multiple of `unit` */
    const void *packed;    /* X[k, width], as `pack` makes it */
    const void *b;         /* [n, k], as `prepare` makes it */
    const float *scale;    /* B's, likewise; NULL: it has none */
    const float *bias;     /* [n], or NULL */
    bool relu;
    float *y; /* [m, n] */
    size_t ldy;
    const void *next; /* the B of a later call, which may be prefetched, or NULL */
};

/* Y = act(X B^T + bias) for many rows of X. The rows of X are packed into transposed panels, and
 * each panel meets all rows of B. Each sum adds over k in order, so it does not depend on the
 * number of rows. */
struct panels {
    size_t element;   /* bytes of a packed number; a row of X is padded to a multiple of PANEL_DEPTH
                         numbers */
    size_t unit;      /* widths are multiples of this */
    size_t most_rows; /* sgemm is faster for more rows of X than this */
    const struct instruction *instruction; /* NULL: f32's */

    /* Packs X[m, k] with row stride ldx, m <= PANEL_WIDTH, into a panel out[k, width].  width is m
     * rounded up to a multiple of `unit`; columns beyond m are zero.  f32's takes
     * any m: it transposes weights for sgemm too. */
    void (*pack)(size_t m, size_t width, size_t k, const float *x, size_t ldx, void *out);

    /* Converts B[n, k], n <= PANEL_ROWS, and its scale (see product) to the form that `panel`
     * takes: `out` has room for PANEL_ROWS rows of k floats, k rounded up to a multiple of
     * PANEL_DEPTH, out_scale for [PANEL_ROWS, q8_blocks(k)].  NULL: `panel` takes B and its scale
     * unchanged. */
    void (*prepare)(size_t n, size_t k, const void *b, const float *scale, void *out,
                    float *out_scale);

    /* The same for weights in tiles, with the highest level `top`.  NULL: `panel` takes them
     * widened. */
    void (*prepare_tiles)(int top, const struct tile_rows *b, void *out);

    void (*panel)(const struct panel_call *call);
};

/* ---- Packed products --------------------------------------------------------------------- */

/* C (+)= A B^T of f32 matrices, with sums in f32.  The operands are in f32, or rounded to bf16
 * (training's --compute bf16).
 *
 * The operands are packed first; left and right packs differ in layout.  In f32, a left operand
 * whose rows are consecutive in memory needs no pack.  A pack can serve several products, and both
 * packing and multiplying can be divided among tasks.  An element of C depends only on its row of A
 * and its row of B, not on how the work is divided. */

/* Element j < k of an operand's row i is x[i * ld + j], or x[j * ld + i] if `transposed`. */
struct packed_source {
    const float *x;
    size_t ld;
    bool transposed;
};

enum { PACK_ROWS = 16 }; /* a pack has room for a multiple of this many rows */

struct pack {
    void *elements; /* pack_size() bytes; alignment to 64 is fastest */
    size_t k;
};

/* The part of a product that one call computes: C[i, j] (+)= sum over d < k of A[i, d] B[j, d], for
 * i in [i_first, i_end) and j in [j_first, j_end); i_first and j_first are multiples of 16.  `add`:
 * the sums are added to C. */
struct product_part {
    size_t k, i_first, i_end, j_first, j_end;
    bool add;
    float *c; /* the address of C[0, 0] */
    size_t ldc;
};

struct packed_product {
    size_t element; /* bytes of an element in a pack */
    size_t depth;   /* packed rows are filled up to a multiple of this many elements */
    const struct instruction *instruction; /* NULL: f32's */

    /* Packs rows [first, end) of `x`.  `first` is a multiple of 16; so is `end`, unless it is the
     * number of rows.  Rounding to bf16 is to nearest even; NaN stays NaN, and subnormal numbers
     * may become zero. */
    void (*pack_left)(const struct packed_source *x, size_t first, size_t end,
                      const struct pack *pack);
    void (*pack_right)(const struct packed_source *x, size_t first, size_t end,
                       const struct pack *pack);

    /* The part's k may be less than the k of a pack: if it is then not a multiple of `depth`, the
     * other pack's k must be equal to it. */
    void (*multiply)(const struct pack *a, const struct pack *b, const struct product_part *part);

    /* The same, bit for bit, for a left operand that is not packed: A[i, d] is a[i * lda + d].
     * NULL: this product needs both packs. */
    void (*multiply_rows)(const float *a, size_t lda, const struct pack *b,
                          const struct product_part *part);
};

/* An operand and its pack.  pack.elements is NULL for a left operand of multiply_rows. */
struct packed_operand {
    struct packed_source source;
    struct pack pack;
};

static inline bool left_needs_pack(const struct packed_product *p, bool transposed) {
    return transposed || !p->multiply_rows;
}

/* Calls `multiply` if the left operand is packed, else `multiply_rows`. */
static inline void multiply_left(const struct packed_product *p, const struct packed_operand *a,
                                 const struct pack *b, const struct product_part *part) {
    if (a->pack.elements)
        p->multiply(&a->pack, b, part);
    else
        p->multiply_rows(a->source.x, a->source.ld, b, part);
}

/* Bytes of a pack of `rows` rows of k elements; a multiple of 64. */
static inline size_t pack_size(const struct packed_product *p, size_t rows, size_t k) {
    return (rows + PACK_ROWS - 1) / PACK_ROWS * PACK_ROWS * ((k + p->depth - 1) / p->depth) *
           p->depth * p->element;
}

/* A pack in bf16 consists of blocks of 16 rows by 32 elements; blocks of the same rows follow each
 * other.  Elements beyond the rows and beyond k are zero.  A left block is stored row by row.  A
 * right block is stored by pairs of neighbours in a row: pair 0 of all 16 rows, then pair 1, and so
 * on. */
enum {
    BF16_ROWS = PACK_ROWS,
    BF16_DEPTH = 32,
    BF16_PAIRS = BF16_DEPTH / 2, /* of elements */
    BF16_BLOCK = BF16_ROWS * BF16_DEPTH
};

static inline size_t bf16_blocks(size_t k) {
    return (k + BF16_DEPTH - 1) / BF16_DEPTH;
}

/* ---- Loops of training ------------------------------------------------------------------- */

/* The loops of training over the elements of rows.  One table always gives the same bits; two
 * tables differ by float rounding, but draw the same dropout. */

/* Dropout's draws come from the counter-based generator of random.h: its key is the seed, its
 * counter a block of elements, their row, the place in the network and the step.  A draw has 16
 * bits, and an element is kept unless its draw is below `threshold`. */
struct dropout {
    uint32_t key[2];
    uint32_t step;
    uint32_t threshold; /* 65536 p; 0: nothing is dropped */
    float scale;        /* of the elements that are kept: 1 / (1 - p) */
};

enum { DROPOUT_GROUP = 128 }; /* elements that share their draws' counters */

/* One step of Adam (Kingma and Ba 2015, algorithm 1). */
struct adam {
    float clip;           /* gradients are multiplied by it first */
    float beta_1, beta_2; /* decay of the moments */
    float gain_1, gain_2; /* 1 - beta, computed in float64 because f32 would be far less exact */
    float rate;           /* the learning rate / (1 - beta_1^t) */
    float correction;     /* 1 / sqrt(1 - beta_2^t) */
    float epsilon;
};

/* w -= rate g / (sqrt(s) + epsilon) + min(1, decay sqrt(s)) (w - first), with w before the step
 * (Krause et al. 2019; the published code has no limit of 1). */
struct rms {
    float rate, decay, epsilon;
};

struct loops {
    const char *name;

    /* x[n] += y[n]. */
    void (*add)(size_t n, const float *y, float *x);

    /* x[n] = max(0, x + bias). */
    void (*bias_relu)(size_t n, const float *bias, float *x);

    /* The gradient through bias_relu and a dropout of factor `scale`: y[n] is their result; dy[n],
     * its gradient, becomes that of the input. */
    void (*relu_gradient)(size_t n, const float *y, float scale, float *dy);

    /* sum[n] += the rows x[rows, n] with row stride ldx, in their order. */
    void (*sum_rows)(size_t rows, size_t n, const float *x, size_t ldx, float *sum);

    /* Applies dropout to x[n], which are the elements of a row from `first` on, a multiple of
     * DROPOUT_GROUP. */
    void (*drop)(const struct dropout *dropout, uint32_t place, uint32_t row, size_t first,
                 size_t n, float *x);

    /* s[n] = softmax(scale (s + position)). */
    void (*softmax)(size_t n, const float *position, float scale, float *s);

    /* The gradient through the softmax: a[n] is its result; da[n] becomes scale a (da - sum a
     * da). */
    void (*softmax_gradient)(size_t n, const float *a, float scale, float *da);

    /* Returns the nats of `target` in the softmax of the logits x[n].  x becomes the gradient times
     * `scale`: scale (softmax(x) - [i = target]). */
    float (*cross_entropy)(size_t n, size_t target, float scale, float *x);

    /* out[n] = layer norm of x[n]; *mean and *inverse (1 / deviation) are for its gradient. */
    void (*norm)(size_t n, const float *x, const float *weight, const float *bias, float epsilon,
                 float *out, float *mean, float *inverse);

    /* The gradient of the layer norm: dx[n] from dy[n], which may be the same array; `add`: it is
     * added to dx.  The parameters' gradients are added to dweight[n] and dbias[n].  dx NULL: only
     * those. */
    void (*norm_gradient)(size_t n, const float *x, float mean, float inverse, const float *weight,
                          const float *dy, bool add, float *dx, float *dweight, float *dbias);

    /* The sum of x[n] squared. */
    double (*squares)(size_t n, const float *x);

    /* sum[n] += x[n] squared. */
    void (*add_squares)(size_t n, const float *x, float *sum);

    /* w[n] -= rate g. */
    void (*descend)(size_t n, float rate, const float *g, float *w);

    /* One step of dynamic evaluation of n parameters: gradient g, weight w, what it was at first,
     * sum of squared gradients s. */
    void (*rms)(const struct rms *rms, size_t n, const float *g, const float *first, const float *s,
                float *w);

    /* One step of n parameters: gradient g, weight w, moments m and v. */
    void (*adam)(const struct adam *adam, size_t n, const float *g, float *w, float *m, float *v);
};

/* ---- Weights in tiles -------------------------------------------------------------------- */

/* Products with weights in q4 and q5 (lib/base/tiles.h).  Every table gives the same bits: the sums
 * of a block are integers, and the blocks are added up in order with a row of weights in each lane.
 * So the fast arithmetic is the exact one (weights-format.md).
 *
 * A row of activations is rounded to 16 bits, of which the upper and the lower eight are signed
 * bytes. For each tile beside the others it has 64 upper bytes, 64 lower ones, and the sums of both
 * blocks in f32. */
enum { TILE_INPUT = 2 * TILE_WIDTH + TILE_BLOCKS * sizeof(float) };

/* Rows [0, n_row) of a matrix, whose row 0 is row `skip` < 16 of the tiles at `tile`; `factors`
 * belongs to row 0 of these tiles. */
struct tile_rows {
    const uint8_t *tile;
    const float *factors;
    size_t skip, n_row, n_col;
};

struct tile_kernels {
    const char *name;

    /* Rounds X[m, k] with row stride ldx to out[m, tiles_across(k) TILE_INPUT]; `out` times
     * x_scale[m] is X within rounding.  The scale of a row that is not all finite is NaN. */
    void (*round)(size_t m, size_t k, const float *x, size_t ldx, uint8_t *out, float *x_scale);

    /* C = A B^T: A[m, k] and its scale as `round` makes them, C[m, n_row] with row stride ldc. */
    void (*product[TILE_TYPES])(size_t m, const uint8_t *a, const float *a_scale,
                                const struct tile_rows *b, float *c, size_t ldc);

    /* out[n_row, n_col] = the matrix as f32. */
    void (*widen[TILE_TYPES])(const struct tile_rows *b, float *out);
};

/* ---- Integers ---------------------------------------------------------------------------- */

enum { INTEGER_BLOCK = 64, INTEGER_MOST = 63 };

/* 64 activations as integers from -63 to 63 (see narrow_i8), and what they add up to by 32.  Seven
 * bits, so that 16 hold two products by unsigned bytes: AVX2 and AVX-512 add pairs of those. */
struct integer_block {
    int8_t x[INTEGER_BLOCK];
    float scale;
    int16_t sum[INTEGER_BLOCK / TILE_BLOCK];
};

/* What is read after a product, part after part.  A product in integers prefetches some lines of it
 * at each step, so that the memory is busy while the processor multiplies. */
struct fetch_part {
    const char *begin, *end;
};
struct fetch {
    _Alignas(64) const char *at; /* the rest of a part; threads write this often */
    const char *end;
    const struct fetch_part *part; /* [n]: the parts behind it */
    size_t n;
};

enum { INTEGER_PANEL = 32 }; /* rows of weights in q8: what is packed has whole panels */

/* Bytes of n rows of k weights in q8, packed. */
static inline size_t packed_integers(size_t n, size_t k) {
    return (n + INTEGER_PANEL - 1) / INTEGER_PANEL * INTEGER_PANEL * q8_blocks(k) *
           (INTEGER_BLOCK + sizeof(float));
}

/* C = A B^T for weights in q8 and q4: A[m, blocks of 64] as `round` makes it of X[m, k] with row
 * stride ldx, B as product_q8 and tile_kernels have it.  The sums of a block are exact, and blocks
 * are added in order, so that every table gives the same bits, for any number of rows.  What is
 * prefetched meanwhile is taken from *fetch. */
struct integer_products {
    void (*round)(size_t m, size_t k, const float *x, size_t ldx, struct integer_block *out);

    /* Weights in q8 are packed before: packed[packed_integers(n, k)], aligned to 64 bytes.  A
     * product may begin with any panel. */
    void (*pack_q8)(size_t n, size_t k, const int8_t *b, const float *scale, void *packed);
    void (*q8)(size_t m, const struct integer_block *a, size_t n, size_t k, const void *packed,
               struct fetch *fetch, float *c, size_t ldc);

    void (*q4)(size_t m, const struct integer_block *a, const struct tile_rows *b,
               struct fetch *fetch, float *c, size_t ldc);
};

/* ---- Keys and values in 8 bits ----------------------------------------------------------- */

enum { I8_BLOCK = 64 };

/* Rows of keys, positions or values in blocks (see lib/network/kv_rows.h), from row `first` of the
 * first block to row `end`; both are multiples of 16.  A block is [width, I8_BLOCK] if these are
 * keys or positions, [I8_BLOCK, width] if they are values, pairs of rows of this array interleaved;
 * I8_BLOCK f32 scales follow it.  The width is even, of values a multiple of 16. */
struct i8_span {
    const char *block;
    size_t apart; /* bytes from block to block */
    size_t width, first, end;
    const char *next; /* what is read after the last block, to be prefetched, or NULL */
};

/* ---- The tables -------------------------------------------------------------------------- */

/* C (+)= A B: A[m, k], B[k, n], C[m, n] with row strides in elements; n is a multiple of 16.
 * `add`: the product is added to C. */
struct multiply_call {
    size_t m, n, k;
    const void *a;
    size_t lda;
    const void *b;
    size_t ldb;
    bool add;
    float *c;
    size_t ldc;
    const void *next; /* the B of the next call, of the same size, to be prefetched, or NULL */
};

struct kernels {
    const char *name;
    bool is_exact; /* NULL in exact tables: panels, rounding, those of tiles, f32_product,
                      bf16_product, narrow_bf16, multiply_bf16, sum_exp, exact, loops, read, and
                      outside of integers narrow_i8, score_i8, weigh_i8 */

    /* C = A B^T for few rows: A[m, k] with row stride lda, B[n, k] of the type that is the index,
     * C[m, n] with row stride ldc.  Reads B once for every four or eight rows of A. A row of C does
     * not depend on the number of rows.  Exact tables take any number of rows. */
    void (*product[FLOAT_TYPES])(size_t m, size_t n, size_t k, const float *a, size_t lda,
                                 const void *b, float *c, size_t ldc);

    /* The same with weights in q8 (see base/numbers.h), scale[n, q8_blocks(k)], and activations in
     * 16 bits: `round` makes A[m, q8_blocks(k) Q8_BLOCK], zero beyond k, and a_scale[m] from X[m,
     * k] with row stride ldx; A times a_scale is X within rounding.  The scale of a row that is not
     * all finite is NaN. */
    void (*round)(size_t m, size_t k, const float *x, size_t ldx, int16_t *a, float *a_scale);
    void (*product_q8)(size_t m, size_t n, size_t k, const int16_t *a, const float *a_scale,
                       const int8_t *b, const float *scale, float *c, size_t ldc);

    /* out = in[n_row, n_col] as f32; `in` is of the type that is the index, with scale[n_row,
     * q8_blocks(n_col)] for q8. */
    void (*widen[KERNEL_TYPES])(const void *in, const float *scale, size_t n_row, size_t n_col,
                                float *out);

    const struct tile_kernels *tiles;

    /* Products in integers; NULL outside of the tables of that arithmetic, which are exact too. */
    const struct integer_products *integers;

    /* C (+)= A B, of the type of B that is the index; A is in f32.  Nothing is packed, so B should
     * be narrow or its rows close together. */
    void (*multiply[MEMORY_TYPES])(const struct multiply_call *call);

    /* The same in bf16, A too: k is even, and B is stored in pairs of rows, with element (i, j) at
     * b[i / 2 * 2 ldb + 2 j + i % 2]. */
    void (*multiply_bf16)(const struct multiply_call *call);

    /* S[m, end] = Q K^T for rows in 8 bits: Q[m, k] with row stride ldq, S with row stride lds, of
     * which the columns before `first` stay.  Q is rounded to 16 bits, with a scale for 128
     * elements of a row.  A row of S does not depend on the number of rows. */
    void (*score_i8)(size_t m, size_t k, const float *q, size_t ldq, const struct i8_span *span,
                     float *s, size_t lds);

    /* out[m, width] += S V likewise: S[m, end], whose columns before `first` are not read.  The
     * weights of a block, times its scales, are rounded to 16 bits. */
    void (*weigh_i8)(size_t m, const float *s, size_t lds, const struct i8_span *span, float *out);

    /* Products of many rows with weights of the type that is the index.  Those in `rounding` round
     * the activations: to bf16 for weights in bf16, to 8 bits for q8 (see int8_panels_impl.h); NULL
     * for the other types. */
    const struct panels *panels[KERNEL_TYPES], *rounding[KERNEL_TYPES];

    /* The same for weights in tiles.  tile_panels, without rounding, is NULL: f32's take them
     * widened. */
    const struct panels *tile_panels, *rounding_tiles;

    /* Products of two f32 operands: in f32 (NULL: OpenBLAS's sgemm is faster), and rounded to
     * bf16. */
    const struct packed_product *f32_product, *bf16_product;

    /* out[i] = in[i] as f16, rounded to nearest even and clamped to +-65504. */
    void (*narrow_f16)(const float *in, size_t n, uint16_t *out);

    /* out[i] = in[i] as bf16, rounded to nearest even; NaN stays NaN, and subnormal numbers may
     * become zero.  `out` may be `in`. */
    void (*narrow_bf16)(const float *in, size_t n, uint16_t *out);

    /* out[i] = in[i] / scale as integers from -127 to 127, rounded to nearest even; returns the
     * scale, the largest magnitude of in[n] / 127.  It is 0, and so is `out`, where that magnitude
     * is at most 2^-100; it is NaN if an element is not finite.  All tables give the same bits. */
    float (*narrow_i8)(const float *in, size_t n, int8_t *out);

    /* One query's attention weights.  On entry s[n] are the content scores, oldest key first.  The
     * first n_far keys, at the clamp's distance or beyond, share the position score `far`; the
     * others have position[0 .. n - n_far - 1].  On return s[j] = exp(x_j - max x), where x_j =
     * scale (s_j + position_j), or 0 where that is below 2^-80; the result is their sum. */
    float (*attend)(float *s, size_t n, size_t n_far, float far, const float *position,
                    float scale);

    /* out = layer norm of x + y: x, y, weight, bias, out[n]; y may be NULL, out may be x.  Divides
     * by sqrt(variance + epsilon). */
    void (*layer_norm)(size_t n, const float *x, const float *y, const float *weight,
                       const float *bias, float epsilon, float *out);

    /* x[i] = activation(x[i]), within 4e-7 (1 + |x|) of
     *   RELU       max(0, x)
     *   GELU_TANH  x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
     *   GELU_ERF   x / 2 (1 + erf(x / sqrt(2)))   (Hendrycks & Gimpel 2016, both forms)
     *   SWISH      x / (1 + exp(-x))              (Ramachandran et al. 2017) */
    void (*activate)(enum activation activation, size_t n, float *x);

    /* *max = the largest of x[n]; *sum = the sum of exp(x[i] - max). */
    void (*sum_exp)(size_t n, const float *x, float *max, float *sum);

    /* Exact tables only.  The largest of x[n]. */
    float (*largest)(size_t n, const float *x);

    /* Exact tables only.  e[i] = exp(x[i] - max), unless e is NULL; the result is their sum.  e may
     * be x. */
    double (*exponentials)(size_t n, const float *x, float max, float *e);

    /* The least i >= first with x[i] > bound, or n; none of x[n] is NaN. */
    size_t (*find_above)(size_t first, size_t n, const float *x, float bound);

    /* The tables of the exact arithmetic and of that in integers for the same processor; NULL in
     * these tables themselves. */
    const struct kernels *exact, *in_integers;

    const struct loops *loops;

    /* Reads data[n], aligned to 64 bytes, n a multiple of 128, to measure the memory's
     * bandwidth. */
    void (*read)(const void *data, size_t n);
};

/* *kernels = the best table for this processor, or the one that the environment variable TXL_CPU
 * names: "generic", "avx2", "avx512", "avx512bf16", "amx" or "neon".  A name that does not exist,
 * or that this processor cannot run, is TXL_ARGUMENT. */
txl_status kernels_choose(struct kernels *kernels, txl_error *error);

/* Every table this processor can run, the best first; `i` from 0.  Returns false after the last. */
bool kernels_available(size_t i, struct kernels *kernels);

/* The same table with the panels that round activations in place of those that do not. */
struct kernels kernels_rounding(const struct kernels *kernels);

/* What kernels.c chooses among.  The variants of AVX-512 are patches of its table: each replaces
 * the functions that its instructions make faster. */
extern const struct kernels kernels_generic, kernels_avx2, kernels_avx512, kernels_neon;
extern const struct kernels exact_generic, exact_avx2, exact_avx512, exact_neon;
extern const struct kernels integers_generic, integers_avx2, integers_avx512, integers_avx512vnni,
    integers_neon;
extern const struct tile_kernels tiles_generic, tiles_avx2, tiles_avx512, tiles_avx512vnni,
    tiles_neon;
extern const struct loops loops_generic, loops_avx2, loops_avx512, loops_neon;
void kernels_patch_avx512vnni(struct kernels *kernels);
void kernels_patch_avx512bf16(struct kernels *kernels);
void kernels_patch_amx(struct kernels *kernels);

#endif
