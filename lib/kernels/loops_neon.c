/* Training's loops for 64-bit ARM processors. */
#define LANES 4
#define PROCESSOR neon
#include "loops_impl.h"
