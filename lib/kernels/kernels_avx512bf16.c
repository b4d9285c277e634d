/* Kernels for x86-64 processors with AVX-512 (F, VL, BW, DQ) and its extensions VNNI and BF16: with
 * TXL_COMPUTE_BF16 weights in bf16 are multiplied by activations rounded to bf16, two products at a
 * time. */
#define AHEAD 1536 /* for vectors.h: an AMD Zen 4 reads faster so */
#define AHEAD_LOCALITY 2
#include "loads.h"

VECTOR_INSTRUCTION(vdpbf16ps, 4 * LANES);
#define BF16_INSTRUCTION &vdpbf16ps

#include "bf16_impl.h"
#include "multiply_i8_impl.h"
#include "multiply_impl.h"
#include "product_impl.h"
#include "product_q8_impl.h"

/* out[(k + 1) / 2, width] pairs of neighbours along k, rounded to nearest even. */
static void pack_bf16(size_t m, size_t width, size_t k, const float *x, size_t ldx, void *out) {
    uint32_t *pairs = out;
    for (size_t first = 0; first < width; first += LANES) {
        for (size_t i = 0; i < k; i += 2 * LANES) {
            size_t columns = k - i < 2 * LANES ? k - i : 2 * LANES;
            vec part[LANES];
            for (size_t t = 0; t < LANES; t++) {
                const float *row = x + (first + t) * ldx + i;
                size_t low = first + t >= m ? 0 : columns < LANES ? columns : LANES;
                size_t high = first + t >= m || columns < LANES ? 0 : columns - LANES;
                part[t] = (vec)_mm512_cvtne2ps_pbh((__m512)load_some(row + low, high),
                                                   (__m512)load_some(row, low));
            }
            transpose(part);
            for (size_t j = 0; j < (columns + 1) / 2; j++)
                memcpy(pairs + (i / 2 + j) * width + first, &part[j], sizeof *part);
        }
    }
}

/* Multiplies one line of pairs by a pair of each row of B; `odd`: the pair is a row's last element
 * alone. */
static inline __attribute__((always_inline)) void step_bf16(const int rows, const int vectors,
                                                            const bool odd, const uint32_t *p,
                                                            const uint16_t *b, size_t ldb,
                                                            __m512 sum[16][4]) {
    __m512i line[4];
    UNROLL for (int v = 0; v < vectors; v++) line[v] = _mm512_loadu_si512(p + v * LANES);
    UNROLL for (int r = 0; r < rows; r++) {
        uint32_t pair = 0;
        memcpy(&pair, b + (size_t)r * ldb, odd ? sizeof *b : sizeof pair);
        __m512bh x = (__m512bh)_mm512_set1_epi32((int)pair);
        UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
            _mm512_dpbf16_ps(sum[r][v], (__m512bh)line[v], x);
    }
}

/* C[rows, width] = B P in a tile of `rows` x `vectors` sums; width is that of the vectors. */
static inline __attribute__((always_inline)) void tile_bf16(const int rows, const int vectors,
                                                            size_t k, const uint32_t *p,
                                                            const uint16_t *b, float *c) {
    __m512 sum[16][4];
    size_t width = (size_t)vectors * LANES, i = 0;
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = _mm512_setzero_ps();
    }
    for (; i + 2 <= k; i += 2)
        step_bf16(rows, vectors, false, p + i / 2 * width, b + i, k, sum);
    if (i < k)
        step_bf16(rows, vectors, true, p + i / 2 * width, b + i, k, sum);
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < vectors; v++)
            _mm512_storeu_ps(c + (size_t)r * width + v * LANES, sum[r][v]);
    }
}

static inline __attribute__((always_inline)) void
columns_bf16(const int rows, const int vectors, const struct panel_call x, float *c) {
    const uint16_t *b = x.b;
    size_t r = 0, width = (size_t)vectors * LANES;
    for (; r + (size_t)rows <= x.n; r += (size_t)rows) {
        fetch_part(r / (size_t)rows, x.n / (size_t)rows, x.m, x.n, x.y, x.ldy);
        tile_bf16(rows, vectors, x.k, x.packed, b + r * x.k, c + r * width);
    }
    for (; r < x.n; r++)
        tile_bf16(1, vectors, x.k, x.packed, b + r * x.k, c + r * width);
}

static void panel_bf16(const struct panel_call *call) {
    const struct panel_call x = *call;
    float c[PANEL_ROWS * PANEL_WIDTH]; /* [n, width] */
    if (x.width == 64)
        columns_bf16(6, 4, x, c);
    else if (x.width == 48)
        columns_bf16(8, 3, x, c);
    else if (x.width == 32)
        columns_bf16(12, 2, x, c);
    else
        columns_bf16(16, 1, x, c);
    finish_panel(x.m, x.width, x.n, c, NULL, x.bias, x.relu, x.y, x.ldy);
}

static const struct panels panels_bf16 = {
    .element = sizeof(uint16_t),
    .unit = 16,
    .most_rows = SIZE_MAX,
    .instruction = BF16_INSTRUCTION,
    .pack = pack_bf16,
    .panel = panel_bf16,
};
void kernels_patch_avx512bf16(struct kernels *kernels) {
    kernels_patch_avx512vnni(kernels);
    kernels->name = KERNELS_NAME;
    kernels->product[0] = product_f32;
    kernels->product[1] = product_f16;
    kernels->product[2] = product_bf16;
    kernels->product_q8 = product_q8;
    kernels->multiply[0] = multiply_f32;
    kernels->multiply[1] = multiply_f16;
    kernels->score_i8 = score_i8;
    kernels->weigh_i8 = weigh_i8;
    kernels->multiply_bf16 = multiply_bf16;
    kernels->narrow_bf16 = narrow_bf16;
    kernels->bf16_product = &bf16_product;
    kernels->rounding[2] = &panels_bf16;
}
