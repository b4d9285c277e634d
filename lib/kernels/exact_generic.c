/* The exact arithmetic for any processor. */
#define LANES 4
#define PROCESSOR generic
#include "lib/base/exact_math.h"
#include "loads.h"

enum { DOT_ROWS = 2 };

/* A call costs little beside four products without a fused instruction; inlined in every loop they
 * take half a minute to compile. */
static __attribute__((noinline)) vec add_product(vec x, vec y, vec sum) {
    fused_floats low =
        fused_multiply_add(__builtin_shufflevector(x, x, 0, 1), __builtin_shufflevector(y, y, 0, 1),
                           __builtin_shufflevector(sum, sum, 0, 1));
    fused_floats high =
        fused_multiply_add(__builtin_shufflevector(x, x, 2, 3), __builtin_shufflevector(y, y, 2, 3),
                           __builtin_shufflevector(sum, sum, 2, 3));
    return __builtin_shufflevector(low, high, 0, 1, 2, 3);
}
#define add_product add_product

#include "exact_impl.h"
