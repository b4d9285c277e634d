/* Kernels for 64-bit ARM processors, all of which have NEON and conversions from f16. */
#define LANES 4
#include "vectors.h"

#include <arm_neon.h>

static inline vec load_f16(const uint16_t *p) {
    return (vec)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

static inline vec load_bf16(const uint16_t *p) {
    return (vec)vshll_n_u16(vld1_u16(p), 16);
}

extern const struct kernels kernels_neon;
#define KERNELS_TABLE kernels_neon
#define KERNELS_NAME "neon"
#include "kernels_impl.h"
