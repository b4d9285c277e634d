/* Training's loops for any processor. */
#define LANES 4
#define PROCESSOR generic
#include "loops_impl.h"
