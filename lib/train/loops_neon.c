/* Training's loops for 64-bit ARM processors. */
#define LANES 4

extern const struct loops loops_neon;
#define LOOPS_TABLE loops_neon
#define LOOPS_NAME "neon"
#include "loops_impl.h"
