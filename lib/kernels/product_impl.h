/* C[m,n] = A[m,k] B[n,k]^T with few rows of A, in f32, for LANES lanes (see vectors.h).  It
 * includes itself once for each type of B, and defines before each time:
 *
 *     PRODUCT        the function's name
 *     ELEMENT        the type of an element of B
 *     LOAD, SCALAR   LANES elements of B as floats, and one
 *
 * The end of this file undefines them.  It has no include guard because it is included several
 * times. */

#if !defined(PRODUCT)
#include "loads.h"

/* Rows of A that a product takes at once: as many as the registers hold. */
#if defined(__AVX512F__) || defined(__aarch64__)
enum { MOST_PRODUCT_ROWS = 8 };
#else
enum { MOST_PRODUCT_ROWS = 4 };
#endif

static inline float same_f32(float x) {
    return x;
}

#define PRODUCT product_f32
#define ELEMENT float
#define LOAD load_f32
#define SCALAR same_f32
#include "product_impl.h"

#define PRODUCT product_f16
#define ELEMENT uint16_t
#define LOAD load_f16
#define SCALAR float_of_f16
#include "product_impl.h"

#define PRODUCT product_bf16
#define ELEMENT uint16_t
#define LOAD load_bf16
#define SCALAR float_of_bf16
#include "product_impl.h"

#else

#define PASTE_NAMES(name, part) name##_##part
#define NAME_PART(name, part) PASTE_NAMES(name, part)
#define PRODUCT_TILE NAME_PART(PRODUCT, tile)
#define PRODUCT_ROWS NAME_PART(PRODUCT, rows)

/* Multiplies one or two rows of B, `apart` rows from each other, by some rows of A, so that each
 * load serves several products; `rows` and `columns` are constants where it is inlined.  Two
 * accumulators for each element hide the latency of additions. */
static inline __attribute__((always_inline)) void PRODUCT_TILE(const int rows, const int columns,
                                                               size_t k, const float *a, size_t lda,
                                                               const ELEMENT *b, size_t apart,
                                                               float *c, size_t ldc) {
    vec s[2][MOST_PRODUCT_ROWS] = {0}, t[2][MOST_PRODUCT_ROWS] = {0};
    size_t i = 0;
    for (; i + 2 * LANES <= k; i += 2 * LANES) {
        vec x[2], y[2];
        UNROLL for (int j = 0; j < columns; j++) {
            const ELEMENT *row = b + (size_t)j * apart * k + i;
            for (size_t at = 0; (rows > 1 || sizeof(ELEMENT) < sizeof(float)) && at < 2 * LANES;
                 at += 64 / sizeof(ELEMENT))
                prefetch(row + at);
            x[j] = LOAD(row);
            y[j] = LOAD(row + LANES);
        }
        UNROLL for (int r = 0; r < rows; r++) {
            vec u = load_f32(a + (size_t)r * lda + i);
            vec v = load_f32(a + (size_t)r * lda + i + LANES);
            UNROLL for (int j = 0; j < columns; j++) {
                s[j][r] += u * x[j];
                t[j][r] += v * y[j];
            }
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int j = 0; j < columns; j++) {
            const ELEMENT *row = b + (size_t)j * apart * k;
            float sum = sum_lanes(s[j][r] + t[j][r]);
            for (size_t rest = i; rest < k; rest++)
                sum += a[(size_t)r * lda + rest] * SCALAR(row[rest]);
            c[(size_t)r * ldc + (size_t)j * apart] = sum;
        }
    }
}

/* Takes B's rows in pairs, one from its first half and one from its second: a thread reads two
 * streams faster than one. */
static inline __attribute__((always_inline)) void PRODUCT_ROWS(const int rows, const int columns,
                                                               size_t n, size_t k, const float *a,
                                                               size_t lda, const ELEMENT *b,
                                                               float *c, size_t ldc) {
    size_t part = n / (size_t)columns, done = part * (size_t)columns;
    for (size_t j = 0; j < part; j++)
        PRODUCT_TILE(rows, columns, k, a, lda, b + j * k, part, c + j, ldc);
    for (size_t j = done; j < n; j++)
        PRODUCT_TILE(rows, 1, k, a, lda, b + j * k, 0, c + j, ldc);
}

static void PRODUCT(size_t m, size_t n, size_t k, const float *a, size_t lda, const void *b,
                    float *c, size_t ldc) {
    const size_t most = MOST_PRODUCT_ROWS;
    for (; m >= most; m -= most, a += most * lda, c += most * ldc)
        PRODUCT_ROWS(MOST_PRODUCT_ROWS, MOST_PRODUCT_ROWS > 4 ? 1 : 2, n, k, a, lda, b, c, ldc);
    if (m >= 4) {
        PRODUCT_ROWS(4, 2, n, k, a, lda, b, c, ldc);
        m -= 4, a += 4 * lda, c += 4 * ldc;
    }
    if (m == 3)
        PRODUCT_ROWS(3, 2, n, k, a, lda, b, c, ldc);
    else if (m == 2)
        PRODUCT_ROWS(2, 2, n, k, a, lda, b, c, ldc);
    else if (m == 1)
        PRODUCT_ROWS(1, 2, n, k, a, lda, b, c, ldc);
}

#undef PRODUCT_TILE
#undef PRODUCT_ROWS
#undef NAME_PART
#undef PASTE_NAMES
#undef PRODUCT
#undef ELEMENT
#undef LOAD
#undef SCALAR

#endif
