/* CRC-32C (Castagnoli), the checksum of TensorFlow's checkpoints. */
#ifndef CONVERT_CRC32C_H
#define CONVERT_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of what came before, whose checksum is `before` (0 for nothing), and these bytes. */
uint32_t crc32c(uint32_t before, const void *data, size_t n);

/* The same on any processor. */
uint32_t crc32c_portable(uint32_t before, const void *data, size_t n);

#endif
