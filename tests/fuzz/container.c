/* Checkpoint files of any kind: the input is one.  The mutator corrects checksums; otherwise little
 * of a zip container would be read. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_checkpoint(fuzz_file(data, size));
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 16 != 0)
        fuzz_repair_zip(data, size);
    return size;
}
