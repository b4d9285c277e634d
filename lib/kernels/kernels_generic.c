/* Kernels for any processor: four lanes, which the compiler maps to the vectors of the target. */
#define LANES 4
#define PROCESSOR generic
#include "kernels_impl.h"
