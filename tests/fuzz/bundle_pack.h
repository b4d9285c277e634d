/* TensorFlow checkpoints in the inputs of their harness. */
#ifndef FUZZ_BUNDLE_PACK_H
#define FUZZ_BUNDLE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An input: two bytes of options; the sizes of the file `checkpoint`, of the index and of each data
 * file, the last in units of 64 bytes; the file `checkpoint`; the index; the data, followed by
 * zeros. */
enum { BUNDLE_HEAD = 8, BUNDLE_UNIT = 64, BUNDLE_MAX_DATA = 1 << 19 };

struct bundle_input {
    unsigned options;
    const uint8_t *list, *index, *data;
    size_t n_list, n_index, n_data, data_size;
};

/* False if it is too short to be an input; what is longer than the input is cut. */
bool bundle_split(const uint8_t *input, size_t size, struct bundle_input *parts);

/* Puts an input together; returns its size, 0 if that exceeds `most`. */
size_t bundle_join(const struct bundle_input *parts, uint8_t *input, size_t most);

/* Sets the checksums of the index's blocks, and in it those of the tensors. */
void bundle_repair(uint8_t *index, size_t n_index, const uint8_t *data, size_t n_data);

#endif
