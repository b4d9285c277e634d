/* Kernels for x86-64 processors with AMX, whose tiles multiply bf16 some ten times as fast as
 * vectors of f32 are. */
#define MULTIPLIES_BYTES /* for int8_panels_impl.h, and in what */
#define MULTIPLIES_BYTES_IN_TILES
#include "loads.h"

/* The tile registers of AMX: eight of 16 rows of 64 bytes. */
enum { TILE_BYTES = 64 }; /* of a tile's row */

/* The operand of ldtilecfg (Intel 64 and IA-32 Architectures Software Developer's Manual). */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

#define ROW_BYTES(of_a) /* [8]: tiles 4 and 5 are of A */                                          \
    { TILE_BYTES, TILE_BYTES, TILE_BYTES, TILE_BYTES, of_a, of_a, TILE_BYTES, TILE_BYTES }
#define CONFIG(pairs)                                                                              \
    [pairs] = {.palette = 1,                                                                       \
               .row_bytes = ROW_BYTES(4 * (pairs)),                                                \
               .rows = {16, 16, 16, 16, 16, 16, pairs, pairs}}

/* By the pairs of numbers in a row of A.  A table of constants, and not an operand made where it is
 * used: gcc's _tile_loadconfig declares eight of the 64 bytes as read, so that gcc leaves out
 * stores to the others. */
static const struct tile_config configs[] = {
    CONFIG(1), CONFIG(2),  CONFIG(3),  CONFIG(4),  CONFIG(5),  CONFIG(6),  CONFIG(7),  CONFIG(8),
    CONFIG(9), CONFIG(10), CONFIG(11), CONFIG(12), CONFIG(13), CONFIG(14), CONFIG(15), CONFIG(16),
};

/* Sets up this thread's tiles until tiles_end: 0 to 3 hold sums of 16 x 16, 4 and 5 hold 16 rows of
 * A with `pairs` pairs of numbers, 1 to 16, 6 and 7 the pairs of 16 columns of B.  gcc's
 * _tile_loadd declares no memory as read: what tiles are loaded from has to be stored before this
 * call, or by _tile_stored.  Not inline, so that tests/kernels/tile_configs can find what it loads.
 */
static __attribute__((noinline)) void tiles_begin_pairs(size_t pairs) {
    __asm__ volatile("" : : : "memory"); /* all stores so far */
    _tile_loadconfig(&configs[pairs]);
}

static inline void tiles_begin(void) {
    tiles_begin_pairs(16);
}

/* Releases the tiles, so that the system need not save them when it switches threads. */
static inline void tiles_end(void) {
    _tile_release();
}

/* Defines an instruction that multiplies 16 rows of n numbers by 16 columns.  tiles_begin has made
 * every operand zero; four independent sums hide the latency. */
#define TILE_INSTRUCTION(name, n)                                                                  \
    static void repeat_##name(size_t rounds) {                                                     \
        tiles_begin();                                                                             \
        for (; rounds > 0; rounds--) {                                                             \
            _tile_##name(0, 4, 6);                                                                 \
            _tile_##name(1, 4, 7);                                                                 \
            _tile_##name(2, 5, 6);                                                                 \
            _tile_##name(3, 5, 7);                                                                 \
        }                                                                                          \
        tiles_end();                                                                               \
    }                                                                                              \
    static const struct instruction t##name = {"t" #name, 4.0 * 2 * 16 * 16 * (n), repeat_##name}

#define BF16_TILE_ROWS 32
#define BF16_TILE_COLUMNS 32
#define BF16_INSTRUCTION &tdpbf16ps
#define bf16_begin tiles_begin
#define bf16_end tiles_end

TILE_INSTRUCTION(dpbf16ps, 32);

/* An operand: the distances to its second 16 rows or columns and from one step of `depth` to the
 * next, both in elements, and the bytes from row to row of a tile. */
struct tiles {
    const uint16_t *x;
    size_t second, step, stride;
};

/* Up to 32 x 32 elements of C (+)= A B, with the tiles that tiles_begin_pairs sets up. */
static inline __attribute__((always_inline)) void two_by_two(const bool two_rows,
                                                             const bool two_columns, size_t depth,
                                                             struct tiles a, struct tiles b,
                                                             bool add, float *c, size_t ldc) {
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
    for (; depth > 0; depth--, a.x += a.step, b.x += b.step) {
        _tile_loadd(4, a.x, a.stride);
        _tile_loadd(6, b.x, b.stride);
        _tile_dpbf16ps(0, 4, 6);
        if (two_columns) {
            _tile_loadd(7, b.x + b.second, b.stride);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (two_rows) {
            _tile_loadd(5, a.x + a.second, a.stride);
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

static inline __attribute__((always_inline)) void any_tiles(size_t rows, size_t columns,
                                                            size_t depth, struct tiles a,
                                                            struct tiles b, bool add, float *c,
                                                            size_t ldc) {
    if (rows > 16 && columns > 16)
        two_by_two(true, true, depth, a, b, add, c, ldc);
    else if (rows > 16)
        two_by_two(true, false, depth, a, b, add, c, ldc);
    else if (columns > 16)
        two_by_two(false, true, depth, a, b, add, c, ldc);
    else
        two_by_two(false, false, depth, a, b, add, c, ldc);
}

static void bf16_tile(size_t rows, size_t columns, size_t depth, const uint16_t *a, size_t lda,
                      const uint16_t *b, size_t ldb, bool add, float *c, size_t ldc) {
    struct tiles left = {a, lda, BF16_BLOCK, TILE_BYTES}, right = {b, ldb, BF16_BLOCK, TILE_BYTES};
    any_tiles(rows, columns, depth, left, right, add, c, ldc);
}

/* ---- A memory in bf16 -------------------------------------------------------------------- */

/* Computes rows 0 to m - 1 of the call over `depth` steps of `pairs` pairs from column `first` of A
 * on.  Each tile prefetches some lines of x.next. */
static void multiply_tiles(const struct multiply_call *call, size_t m, size_t first, size_t depth,
                           size_t pairs) {
    const struct multiply_call x = *call;
    const uint16_t *a = (const uint16_t *)x.a + first, *b = (const uint16_t *)x.b + first * x.ldb;
    const char *next = first > 0 ? NULL : x.next;
    const size_t bytes = next ? x.n * depth * pairs * 4 : 0, part = bytes / ((m + 31) / 32) + 63;
    size_t fetched = 0;
    tiles_begin_pairs(pairs);
    for (size_t i = 0; i < m; i += 32) {
        for (size_t end = fetched + part; fetched < end && fetched < bytes; fetched += 64)
            __builtin_prefetch(next + fetched, 0, 2);
        for (size_t j = 0; j < x.n; j += 32) {
            struct tiles left = {a + i * x.lda, 16 * x.lda, 2 * pairs, x.lda * sizeof *a};
            struct tiles right = {b + 2 * j, 32, 2 * pairs * x.ldb, 2 * x.ldb * sizeof *b};
            any_tiles(m - i, x.n - j, depth, left, right, x.add || first > 0, x.c + i * x.ldc + j,
                      x.ldc);
        }
    }
    tiles_end();
}

static void multiply_many_bf16(const struct multiply_call x, size_t m) {
    size_t whole = x.k / BF16_DEPTH * BF16_DEPTH, rest = x.k - whole;
    if (whole > 0)
        multiply_tiles(&x, m, 0, whole / BF16_DEPTH, BF16_DEPTH / 2);
    if (rest > 0)
        multiply_tiles(&x, m, whole, 1, rest / 2);
}
#define MULTIPLY_BF16 multiply_many_bf16

#include "bf16_impl.h"
#include "int8_panels_impl.h"

/* ---- Weights in bf16 with TXL_COMPUTE_BF16 ----------------------------------------------- */

/* Activations are rounded to bf16 and packed as the right operand, so a panel is a range of its
 * blocks; rows of weights are copied as the left operand.  So the weights need not be transposed.
 * The product is C^T, which finish_panel transposes as for every other type. */

static void pack_activations(size_t m, size_t width, size_t k, const float *x, size_t ldx,
                             void *out) {
    (void)width;
    const struct packed_source source = {x, ldx, false};
    const struct pack pack = {out, k};
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

static void multiply_panel(const struct panel_call *x) {
    _Alignas(64) float c[PANEL_ROWS * PANEL_WIDTH]; /* [n, width] */
    const struct pack left = {(void *)x->b, x->k}, right = {(void *)x->packed, x->k};
    const struct product_part part = {
        .k = x->k, .i_end = x->n, .j_end = x->width, .c = c, .ldc = x->width};
    bf16_multiply(&left, &right, &part);
    finish_panel(x->m, x->width, x->n, c, NULL, x->bias, x->relu, x->y, x->ldy);
}

static const struct panels panels_bf16 = {
    .element = sizeof(uint16_t),
    .unit = BF16_ROWS,
    .most_rows = SIZE_MAX,
    .instruction = BF16_INSTRUCTION,
    .pack = pack_activations,
    .prepare = copy_weights,
    .panel = multiply_panel,
};
void kernels_patch_amx(struct kernels *kernels) {
    kernels_patch_avx512vnni(kernels);
    kernels->name = KERNELS_NAME;
    kernels->multiply_bf16 = multiply_bf16;
    kernels->narrow_bf16 = narrow_bf16;
    kernels->bf16_product = &bf16_product;
    kernels->rounding[2] = &panels_bf16;
    kernels->rounding[3] = &int8_panels;
}
