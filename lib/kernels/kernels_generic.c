/* Kernels for any processor: four lanes, which the compiler maps to the vectors of the target. */
#define LANES 4
#include "vectors.h"

static inline vec load_f16(const uint16_t *p) {
    return (vec){float_of_f16(p[0]), float_of_f16(p[1]), float_of_f16(p[2]), float_of_f16(p[3])};
}

static inline void store_f16(uint16_t *p, vec x) {
    for (int i = 0; i < LANES; i++)
        p[i] = f16_of_float(x[i]);
}

static inline vec load_bf16(const uint16_t *p) {
    return (vec){float_of_bf16(p[0]), float_of_bf16(p[1]), float_of_bf16(p[2]),
                 float_of_bf16(p[3])};
}

static inline vec load_i8(const int8_t *p) {
    return (vec){p[0], p[1], p[2], p[3]};
}

typedef int16_t ivec16 __attribute__((vector_size(16)));

static inline ivec16 load_ivec16(const int8_t *p) {
    return (ivec16){p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]};
}

static inline ivec add_products(ivec sum, ivec16 a, ivec16 b) {
    for (int i = 0; i < LANES; i++)
        sum[i] += a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
    return sum;
}

extern const struct kernels kernels_generic;
#define KERNELS_TABLE kernels_generic
#define KERNELS_NAME "generic"
#include "kernels_impl.h"
