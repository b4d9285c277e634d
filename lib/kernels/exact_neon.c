/* The exact arithmetic for 64-bit ARM processors. */
#define LANES 4
#define PROCESSOR neon
#define USE_NEON
#include "loads.h"

enum { DOT_ROWS = 6 };

static inline vec add_product(vec x, vec y, vec sum) {
    return (vec)vfmaq_f32((float32x4_t)sum, (float32x4_t)x, (float32x4_t)y);
}
#define add_product add_product

#include "exact_impl.h"
