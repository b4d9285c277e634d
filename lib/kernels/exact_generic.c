/* The exact arithmetic for any processor. */
#define LANES 4
#define PROCESSOR generic
#include "fused.h"

enum { DOT_ROWS = 2 };

#include "exact_impl.h"
