/* Prefetches the next tile for the multiplying loops of packed products; it never changes a result.
 */
#ifndef TXL_FETCH_TILE_H
#define TXL_FETCH_TILE_H

#include <stddef.h>

/* Prefetches the next tile of C, so that it is in the cache when its sums are stored: at most
 * `most` rows from row `row` on, and none from `end` on.  `c` is the address of row `row`. */
static inline void fetch_tile(size_t most, float *c, size_t row, size_t end, size_t columns,
                              size_t ldc) {
    end = end < row + most ? end : row + most;
    for (; row < end; row++, c += ldc)
        for (size_t i = 0; i < columns; i += 16)
            __builtin_prefetch(c + i, 1);
}

#endif
