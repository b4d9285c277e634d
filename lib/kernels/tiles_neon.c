/* Weights in tiles for 64-bit ARM processors. */
#define LANES 4
#define PROCESSOR neon
#define USE_NEON
#include "tiles_impl.h"
