/* Loads and stores of narrow elements with NEON. */
#define LANES 4
#include "vectors.h"

#include <arm_neon.h>

static inline vec load_f16(const uint16_t *p) {
    return (vec)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

static inline void store_f16(uint16_t *p, vec x) {
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)x)));
}

static inline vec load_bf16(const uint16_t *p) {
    return (vec)vshll_n_u16(vld1_u16(p), 16);
}

static inline vec load_i8(const int8_t *p) {
    uint32_t four;
    memcpy(&four, p, sizeof four);
    int16x8_t wide = vmovl_s8(vreinterpret_s8_u64(vcreate_u64(four)));
    return (vec)vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
}

typedef int16x8_t ivec16;

static inline ivec16 load_ivec16(const int8_t *p) {
    return vmovl_s8(vld1_s8(p));
}

static inline ivec add_products(ivec sum, ivec16 a, ivec16 b) {
    int32x4_t low = vmlal_s16((int32x4_t)sum, vget_low_s16(a), vget_low_s16(b));
    return (ivec)vmlal_high_s16(low, a, b);
}
