/* CRC-32C, with the processor's instruction where it has one. */
#include "crc32c.h"

#include "lib/base/numbers.h"

/* Bits in reversed order. */
#define POLYNOMIAL UINT32_C(0x82f63b78)

uint32_t crc32c_portable(uint32_t before, const void *data, size_t n) {
    /* table[k][b]: what byte b adds when k bytes follow it. */
    uint32_t table[8][256];
    const unsigned char *at = data;
    uint32_t crc = ~before;
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t c = b;
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? c >> 1 ^ POLYNOMIAL : c >> 1;
        table[0][b] = c;
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++)
            table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xff];
    for (; n >= 8; n -= 8, at += 8) {
        uint64_t word = read_u64(at) ^ crc;
        crc = 0;
        for (int k = 0; k < 8; k++)
            crc ^= table[7 - k][word >> 8 * k & 0xff];
    }
    for (; n > 0; n--, at++)
        crc = crc >> 8 ^ table[0][(crc ^ *at) & 0xff];
    return ~crc;
}

#ifdef __x86_64__

#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t before,
                                                               const unsigned char *at, size_t n) {
    uint64_t crc = ~before;
    for (; n >= 8; n -= 8, at += 8)
        crc = _mm_crc32_u64(crc, read_u64(at));
    for (; n > 0; n--, at++)
        crc = _mm_crc32_u8((uint32_t)crc, *at);
    return ~(uint32_t)crc;
}

uint32_t crc32c(uint32_t before, const void *data, size_t n) {
    return __builtin_cpu_supports("sse4.2") ? crc32c_sse42(before, data, n)
                                            : crc32c_portable(before, data, n);
}

#else

uint32_t crc32c(uint32_t before, const void *data, size_t n) {
    return crc32c_portable(before, data, n);
}

#endif
