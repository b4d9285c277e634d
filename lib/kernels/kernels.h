/* The inner loops, one table of functions for each kind of processor.  A table is chosen when a
 * model is opened.  Two tables agree within float rounding; one table always gives the same bits.
 */
#ifndef TXL_KERNELS_H
#define TXL_KERNELS_H

#include "txl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KERNEL_TYPES = 4, /* as enum weights_type: f32, f16, bf16, q8 */
    FLOAT_TYPES = 3,  /* those without scales: f32, f16, bf16 */
    MEMORY_TYPES = 2, /* those of a memory: f32, f16 */
    PANEL_WIDTH = 64,
    PANEL_ROWS = 48,
    PANEL_DEPTH = 32
};

/* What the first linear layer of a feed-forward block is followed by. */
enum activation { LINEAR, RELU, GELU_TANH, GELU_ERF, SWISH };

/* Y = act(X B^T + bias) for many rows of X.  The rows of X are packed into transposed panels, and
 * each panel meets all rows of B.  Each sum runs over k in order, so it does not depend on the
 * number of rows. */
struct panels {
    size_t element;   /* bytes of a packed number; of a row of X a multiple of PANEL_DEPTH */
    size_t unit;      /* widths are multiples of so many */
    size_t most_rows; /* for more rows of X sgemm is faster */

    /* Up to PANEL_WIDTH rows as a panel, out[k, width]: X[m, k] with row stride ldx; width is m up
     * to a multiple of `unit`, and what is beyond m is zero.  x_scale[width] is for `panel`. */
    void (*pack)(size_t m, size_t width, size_t k, const float *x, size_t ldx, void *out,
                 float *x_scale);

    /* B[n, k], n <= PANEL_ROWS, and its scale (see product) as `panel` takes them: out of
     * PANEL_ROWS times k up to a multiple of PANEL_DEPTH times 4 bytes, out_scale[n, q8_blocks(k)].
     * NULL where it takes them as they are. */
    void (*prepare)(size_t n, size_t k, const void *b, const float *scale, void *out,
                    float *out_scale);

    /* Y[m, n] with row stride ldy; bias[n] or NULL; act is max(0, .) if `relu`. */
    void (*panel)(size_t m, size_t width, size_t n, size_t k, const void *packed,
                  const float *x_scale, const void *b, const float *scale, const float *bias,
                  bool relu, float *y, size_t ldy);
};

struct kernels {
    const char *name;

    /* C = A B^T for few rows: A[m, k] with row stride lda, B[n, k] of the type indexed by, C[m, n]
     * with row stride ldc.  Reads B once for up to four rows of A, or eight.  A row of C does not
     * depend on how many there are. */
    void (*product[FLOAT_TYPES])(size_t m, size_t n, size_t k, const float *a, size_t lda,
                                 const void *b, float *c, size_t ldc);

    /* The same with weights in q8 (see q8.h), scale[n, q8_blocks(k)], and activations in 16 bits:
     * `round` makes A[m, q8_blocks(k) Q8_BLOCK], zero beyond k, and a_scale[m] of X[m, k] with row
     * stride ldx, so that X is about A times a_scale.  The scale of a row that is not all finite is
     * NaN. */
    void (*round)(size_t m, size_t k, const float *x, size_t ldx, int16_t *a, float *a_scale);
    void (*product_q8)(size_t m, size_t n, size_t k, const int16_t *a, const float *a_scale,
                       const int8_t *b, const float *scale, float *c, size_t ldc);

    /* out = in[n_row, n_col], of the type indexed by; scale[n_row, q8_blocks(n_col)] likewise. */
    void (*widen[KERNEL_TYPES])(const void *in, const float *scale, size_t n_row, size_t n_col,
                                float *out);

    /* C (+)= A B: A[m, k], B[k, n] of the type indexed by, C[m, n] with row strides lda, ldb, ldc;
     * n a multiple of 16.  `add` keeps what is in C.  Nothing is packed, so B should be narrow or
     * B's rows close.  `next`, unless NULL, is the B of the next call, of the same size,
     * which may be fetched meanwhile. */
    void (*multiply[MEMORY_TYPES])(size_t m, size_t n, size_t k, const float *a, size_t lda,
                                   const void *b, size_t ldb, bool add, float *c, size_t ldc,
                                   const void *next);

    /* The same of bf16: A is [m, k] with k even, and B lies by pairs of rows, element (i, j) being
     * b[i / 2 * 2 ldb + 2 j + i % 2]. */
    void (*multiply_bf16)(size_t m, size_t n, size_t k, const uint16_t *a, size_t lda,
                          const uint16_t *b, size_t ldb, bool add, float *c, size_t ldc,
                          const void *next);

    /* Products of many rows with weights of the type indexed by. */
    const struct panels *panels[KERNEL_TYPES];

    /* Products of two operands in f32, as they are (NULL: OpenBLAS's sgemm is faster) and rounded
     * to bf16. */
    const struct packed_product *f32_product, *bf16_product;

    /* out[i] = in[i] as f16, rounded to nearest even and at most 65504 in size. */
    void (*narrow_f16)(const float *in, size_t n, uint16_t *out);

    /* out[i] = in[i] as bf16, rounded to nearest even, NaN staying; what is below 2^-126 may become
     * zero.  `out` may be where `in` is. */
    void (*narrow_bf16)(const float *in, size_t n, uint16_t *out);

    /* One query's attention weights.  On entry s[n] are the content scores, oldest key first; the
     * first n_far keys are as far as the clamp or farther and share the position score `far`, the
     * others have position[0 .. n - n_far - 1].  On return s[j] = exp(x_j - max x), where
     * x_j = scale (s_j + position_j), or 0 where that is below 2^-80; the result is their sum. */
    float (*attend)(float *s, size_t n, size_t n_far, float far, const float *position,
                    float scale);

    /* out = layer norm of x + y: x, y, weight, bias, out[n]; y may be NULL, out may be x.  The
     * root is of variance + epsilon. */
    void (*layer_norm)(size_t n, const float *x, const float *y, const float *weight,
                       const float *bias, float epsilon, float *out);

    /* x[i] = activation(x[i]), within 4e-7 (1 + |x|) of
     *   RELU       max(0, x)
     *   GELU_TANH  x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
     *   GELU_ERF   x / 2 (1 + erf(x / sqrt(2)))   (Hendrycks & Gimpel 2016, both forms)
     *   SWISH      x / (1 + exp(-x))              (Ramachandran et al. 2017) */
    void (*activate)(enum activation activation, size_t n, float *x);

    /* The largest of x[n], and the sum of exp(x - it). */
    void (*sum_exp)(size_t n, const float *x, float *max, float *sum);

    /* The least i >= first with x[i] > bound, or n; none of x[n] is NaN. */
    size_t (*find_above)(size_t first, size_t n, const float *x, float bound);

    /* The same table, but many rows of activations are rounded to 8 bits where they meet weights in
     * q8 (see int8_panels_impl.h); NULL in that one. */
    const struct kernels *int8;

    /* Only reads data[n], aligned to 64 bytes, n a multiple of 128: what the memory can do. */
    void (*read)(const void *data, size_t n);
};

/* The best table for this processor, or the one that the environment variable TXL_CPU names:
 * "generic", "avx2", "avx512", "avx512bf16", "avx512fp16", "amx" or "neon".  One that does not
 * exist, or that this processor cannot run, is TXL_ARGUMENT. */
txl_status kernels_choose(const struct kernels **kernels, txl_error *error);

/* Every table this processor can run, the best first, NULL after the last; `i` from 0. */
const struct kernels *kernels_available(size_t i);

#endif
