/* The tile registers of AMX: eight of 16 rows of 64 bytes. */
#ifndef TXL_TILES_AMX_H
#define TXL_TILES_AMX_H

#include "kernels.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

enum { TILE_BYTES = 64 }; /* of a tile's row */

#define MULTIPLIES_BYTES_IN_TILES /* for int8_panels_impl.h */

/* The operand of ldtilecfg (Intel 64 and IA-32 Architectures Software Developer's Manual). */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Sets up this thread's tiles until tiles_end: 0 to 3 hold sums of 16 x 16, 4 and 5 hold 16 rows of
 * A with `pairs` pairs of numbers, 6 and 7 the pairs of 16 columns of B. */
static inline void tiles_begin_pairs(size_t pairs) {
    struct tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = i == 4 || i == 5 ? (uint16_t)(4 * pairs) : TILE_BYTES;
        config.rows[i] = i < 6 ? 16 : (uint8_t)pairs;
    }
    _tile_loadconfig(&config);
}

static inline void tiles_begin(void) {
    tiles_begin_pairs(16);
}

/* Releases the tiles, so that the system need not save them when it switches threads. */
static inline void tiles_end(void) {
    _tile_release();
}

/* Defines an instruction that multiplies 16 rows of n numbers by 16 columns.  tiles_begin has made
 * every operand zero; four independent sums hide the latency. */
#define TILE_INSTRUCTION(name, n)                                                                  \
    static void repeat_##name(size_t rounds) {                                                     \
        tiles_begin();                                                                             \
        for (; rounds > 0; rounds--) {                                                             \
            _tile_##name(0, 4, 6);                                                                 \
            _tile_##name(1, 4, 7);                                                                 \
            _tile_##name(2, 5, 6);                                                                 \
            _tile_##name(3, 5, 7);                                                                 \
        }                                                                                          \
        tiles_end();                                                                               \
    }                                                                                              \
    static const struct instruction t##name = {"t" #name, 4.0 * 2 * 16 * 16 * (n), repeat_##name}

#endif
