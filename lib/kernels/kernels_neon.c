/* Kernels for 64-bit ARM processors, all of which have NEON and conversions from f16. */
#include "loads_neon.h"

extern const struct kernels kernels_neon, exact_neon;
#define KERNELS_TABLE kernels_neon
#define EXACT_TABLE exact_neon
#define KERNELS_NAME "neon"
#include "kernels_impl.h"
