/* The tile registers of AMX: eight of 16 rows of 64 bytes. */
#ifndef TXL_TILES_AMX_H
#define TXL_TILES_AMX_H

#include <immintrin.h>
#include <stdint.h>

enum { TILE_BYTES = 64 }; /* of a row */

/* What ldtilecfg reads (Intel 64 and IA-32 Architectures Software Developer's Manual). */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

/* Makes all eight tiles whole, for this thread until tiles_end. */
static inline void tiles_begin(void) {
    struct tile_config config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = TILE_BYTES;
        config.rows[i] = 16;
    }
    _tile_loadconfig(&config);
}

/* So that the system need not keep them when it takes the processor from the thread. */
static inline void tiles_end(void) {
    _tile_release();
}

#endif
