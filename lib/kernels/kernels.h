/* The inner loops, one table of functions for each kind of processor.  A table is chosen when a
 * model is opened.
 *
 * Each table of the fast arithmetic has one of the exact arithmetic beside it.  The results of all
 * exact tables have the same bits.  Two fast tables agree within float rounding. */
#ifndef TXL_KERNELS_H
#define TXL_KERNELS_H

#include "txl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KERNEL_TYPES = 4, /* as enum weights_type: f32, f16, bf16, q8 */
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
     * rounded up to a multiple of `unit`; columns beyond m are zero.  `panel` takes
     * x_scale[width]. */
    void (*pack)(size_t m, size_t width, size_t k, const float *x, size_t ldx, void *out,
                 float *x_scale);

    /* Converts B[n, k], n <= PANEL_ROWS, and its scale (see product) to the form that `panel`
     * takes: `out` has room for PANEL_ROWS rows of k floats, k rounded up to a multiple of
     * PANEL_DEPTH, out_scale for [PANEL_ROWS, q8_blocks(k)].  NULL: `panel` takes B and its scale
     * unchanged. */
    void (*prepare)(size_t n, size_t k, const void *b, const float *scale, void *out,
                    float *out_scale);

    /* Y[m, n] with row stride ldy; bias[n] or NULL; act is max(0, .) if `relu`.  `next` is the
     * B[n, k] of a later call, which may be prefetched, or NULL. */
    void (*panel)(size_t m, size_t width, size_t n, size_t k, const void *packed,
                  const float *x_scale, const void *b, const float *scale, const float *bias,
                  bool relu, float *y, size_t ldy, const void *next);
};

struct kernels {
    const char *name;
    bool is_exact; /* NULL in exact tables: panels, f32_product, bf16_product, narrow_bf16,
                      multiply_bf16, sum_exp, exact, bf16, int8, read */

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

    /* C (+)= A B: A[m, k], B[k, n] of the type that is the index, C[m, n] with row strides lda,
     * ldb, ldc; n a multiple of 16.  `add`: the product is added to C. Nothing is packed, so B
     * should be narrow or its rows close together.  `next`, unless NULL, is the B of the next call,
     * of the same size; it may be prefetched. */
    void (*multiply[MEMORY_TYPES])(size_t m, size_t n, size_t k, const float *a, size_t lda,
                                   const void *b, size_t ldb, bool add, float *c, size_t ldc,
                                   const void *next);

    /* The same in bf16: A[m, k] with k even; B is stored in pairs of rows, with element (i, j) at
     * b[i / 2 * 2 ldb + 2 j + i % 2]. */
    void (*multiply_bf16)(size_t m, size_t n, size_t k, const uint16_t *a, size_t lda,
                          const uint16_t *b, size_t ldb, bool add, float *c, size_t ldc,
                          const void *next);

    /* Products of many rows with weights of the type that is the index. */
    const struct panels *panels[KERNEL_TYPES];

    /* Products of two f32 operands: in f32 (NULL: OpenBLAS's sgemm is faster), and rounded to
     * bf16. */
    const struct packed_product *f32_product, *bf16_product;

    /* out[i] = in[i] as f16, rounded to nearest even and clamped to +-65504. */
    void (*narrow_f16)(const float *in, size_t n, uint16_t *out);

    /* out[i] = in[i] as bf16, rounded to nearest even; NaN stays NaN, and subnormal numbers may
     * become zero.  `out` may be `in`. */
    void (*narrow_bf16)(const float *in, size_t n, uint16_t *out);

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

    /* The same table, except that products of many rows round the activations: to bf16 if the
     * weights are in bf16 (avx512fp16: to 11 bits), to 8 bits if they are in q8 (see
     * int8_panels_impl.h).  NULL in these two tables. */
    const struct kernels *bf16, *int8;

    /* The table of the exact arithmetic for the same processor; NULL in that table itself. */
    const struct kernels *exact;

    /* Reads data[n], aligned to 64 bytes, n a multiple of 128, to measure the memory's
     * bandwidth. */
    void (*read)(const void *data, size_t n);
};

/* The best table for this processor, or the one that the environment variable TXL_CPU names:
 * "generic", "avx2", "avx512", "avx512bf16", "avx512fp16", "amx" or "neon".  A name that does not
 * exist, or that this processor cannot run, is TXL_ARGUMENT. */
txl_status kernels_choose(const struct kernels **kernels, txl_error *error);

/* Every table this processor can run, the best first, NULL after the last; `i` from 0. */
const struct kernels *kernels_available(size_t i);

#endif
