/* Kernels for 64-bit ARM processors, all of which have NEON and conversions from f16. */
#define LANES 4
#define PROCESSOR neon
#define USE_NEON
#include "kernels_impl.h"
