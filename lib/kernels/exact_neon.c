/* The exact arithmetic for 64-bit ARM processors. */
#define LANES 4
#define PROCESSOR neon
#define USE_NEON
#include "fused.h"

enum { DOT_ROWS = 6 };

#include "exact_impl.h"
