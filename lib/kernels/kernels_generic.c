/* Kernels for any processor: four lanes, which the compiler maps to the vectors of the target. */
#include "loads_generic.h"

extern const struct kernels kernels_generic, exact_generic;
#define KERNELS_TABLE kernels_generic
#define EXACT_TABLE exact_generic
#define KERNELS_NAME "generic"
#include "kernels_impl.h"
