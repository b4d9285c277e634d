/* Kernels for x86-64 processors with AMX, whose tiles multiply bf16 some ten times as fast as
 * vectors of f32 are. */
#include "loads_avx512.h"

#include "bf16_product.h"
#include "finish_panel.h"
#include "kernels.h"
#include "tiles_amx.h"

#define BF16_TILE_ROWS 32
#define BF16_TILE_COLUMNS 32
#define bf16_begin tiles_begin
#define bf16_end tiles_end

/* Tiles 0 to 3 are sums, 4 and 5 rows of A, 6 and 7 columns; the second of each where there are
 * more than 16. */
static inline __attribute__((always_inline)) void
two_by_two(const bool two_rows, const bool two_columns, size_t depth, const uint16_t *a, size_t lda,
           const uint16_t *b, size_t ldb, bool add, float *c, size_t ldc) {
    const size_t stride = ldc * sizeof *c;
    float *below = c + 16 * ldc;
    if (add) {
        _tile_loadd(0, c, stride);
        if (two_columns)
            _tile_loadd(1, c + 16, stride);
        if (two_rows)
            _tile_loadd(2, below, stride);
        if (two_rows && two_columns)
            _tile_loadd(3, below + 16, stride);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (size_t i = 0; i < depth * BF16_BLOCK; i += BF16_BLOCK) {
        _tile_loadd(4, a + i, TILE_BYTES);
        _tile_loadd(6, b + i, TILE_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        if (two_columns) {
            _tile_loadd(7, b + ldb + i, TILE_BYTES);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (two_rows) {
            _tile_loadd(5, a + lda + i, TILE_BYTES);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (two_rows && two_columns)
            _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, stride);
    if (two_columns)
        _tile_stored(1, c + 16, stride);
    if (two_rows)
        _tile_stored(2, below, stride);
    if (two_rows && two_columns)
        _tile_stored(3, below + 16, stride);
}

static void bf16_tile(size_t rows, size_t columns, size_t depth, const uint16_t *a, size_t lda,
                      const uint16_t *b, size_t ldb, bool add, float *c, size_t ldc) {
    if (rows > 16 && columns > 16)
        two_by_two(true, true, depth, a, lda, b, ldb, add, c, ldc);
    else if (rows > 16)
        two_by_two(true, false, depth, a, lda, b, ldb, add, c, ldc);
    else if (columns > 16)
        two_by_two(false, true, depth, a, lda, b, ldb, add, c, ldc);
    else
        two_by_two(false, false, depth, a, lda, b, ldb, add, c, ldc);
}

#include "bf16_product_impl.h"

/* ---- Weights in bf16 ---------------------------------------------------------------------- */

/* Activations are rounded to bf16 into a right pack, so that a panel is some of its blocks; rows of
 * weights are copied into a left one.  So the weights need no turning over, and what is multiplied
 * is C^T, which finish_panel turns as it does for every other kind. */

static void pack_activations(size_t m, size_t width, size_t k, const float *x, size_t ldx,
                             void *out, float *x_scale) {
    (void)width, (void)x_scale;
    const struct bf16_source source = {x, ldx, false};
    const struct bf16_pack pack = {out, k};
    bf16_pack_right(&source, 0, m, &pack);
}

static void copy_weights(size_t n, size_t k, const void *b, const float *scale, void *out,
                         float *out_scale) {
    (void)scale, (void)out_scale;
    const size_t depth = bf16_blocks(k);
    for (size_t row = 0; row < n; row++) {
        const uint16_t *from = (const uint16_t *)b + row * k;
        uint16_t *to =
            (uint16_t *)out + row / BF16_ROWS * depth * BF16_BLOCK + row % BF16_ROWS * BF16_DEPTH;
        for (size_t d = 0; d < depth; d++, to += BF16_BLOCK, from += BF16_DEPTH) {
            size_t left = k - d * BF16_DEPTH, whole = left < BF16_DEPTH ? left : BF16_DEPTH;
            const __mmask32 mask = whole < BF16_DEPTH ? (1u << whole) - 1 : (__mmask32)-1;
            _mm512_storeu_si512(to, _mm512_maskz_loadu_epi16(mask, from));
        }
    }
}

static void multiply_panel(size_t m, size_t width, size_t n, size_t k, const void *packed,
                           const float *x_scale, const void *b, const float *scale,
                           const float *bias, bool relu, float *y, size_t ldy) {
    (void)x_scale, (void)scale;
    _Alignas(64) float c[PANEL_ROWS * PANEL_WIDTH]; /* [n, width] */
    const struct bf16_pack left = {(uint16_t *)b, k}, right = {(uint16_t *)packed, k};
    bf16_multiply(&left, &right, k, 0, n, 0, width, false, c, width);
    finish_panel(m, width, n, c, NULL, bias, relu, y, ldy);
}

static const struct panels panels_bf16 = {
    .element = sizeof(uint16_t),
    .unit = BF16_ROWS,
    .most_rows = SIZE_MAX,
    .pack = pack_activations,
    .prepare = copy_weights,
    .panel = multiply_panel,
};
#define PANELS_BF16 &panels_bf16

extern const struct kernels kernels_amx;
#define KERNELS_TABLE kernels_amx
#define KERNELS_NAME "amx"
#include "kernels_impl.h"
