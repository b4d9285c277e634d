/* Training's loops for any processor. */
#define LANES 4

extern const struct loops loops_generic;
#define LOOPS_TABLE loops_generic
#define LOOPS_NAME "generic"
#include "loops_impl.h"
