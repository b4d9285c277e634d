/* Little-endian integers at any alignment, on any machine. */
#ifndef TXL_LITTLE_ENDIAN_H
#define TXL_LITTLE_ENDIAN_H

#include <stdint.h>

static inline uint16_t read_u16(const unsigned char *at) {
    return (uint16_t)(at[0] | at[1] << 8);
}

static inline uint32_t read_u32(const unsigned char *at) {
    return read_u16(at) | (uint32_t)read_u16(at + 2) << 16;
}

static inline uint64_t read_u64(const unsigned char *at) {
    return read_u32(at) | (uint64_t)read_u32(at + 4) << 32;
}

#endif
