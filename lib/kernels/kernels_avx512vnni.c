/* Kernels for x86-64 processors with AVX-512 (F, VL, BW, DQ) and its VNNI extension, which
 * multiplies bytes and adds up their products in 32 bits. */
#define MULTIPLIES_BYTES /* for int8_panels_impl.h */
#include "loads.h"

#include "int8_panels_impl.h"
#include "multiply_i8_impl.h"
#include "product_q8_impl.h"

void kernels_patch_avx512vnni(struct kernels *kernels) {
    kernels->name = KERNELS_NAME;
    kernels->in_integers = &integers_avx512vnni;
    kernels->tiles = &tiles_avx512vnni;
    kernels->product_q8 = product_q8;
    kernels->score_i8 = score_i8;
    kernels->weigh_i8 = weigh_i8;
    kernels->rounding[3] = &int8_panels;
    kernels->rounding_tiles = &tile_panels;
}
