/* Pickles: the input is one.  What can be read is packed the ways that torch.save packs it, with
 * storages of zeros, so that any graph of objects is walked whatever its storages are. */
#include "torch_pack.h"

#include "convert/containers/pickle.h"

#include <stdlib.h>

static void try_packed(const uint8_t *data, size_t size, bool legacy) {
    size_t packed_size;
    uint8_t *packed = torch_pack(data, size, legacy, &packed_size);
    if (packed)
        fuzz_checkpoint(fuzz_file(packed, packed_size));
    free(packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pickle *pickle;
    uint64_t end = 0;
    txl_error error;
    if (pickle_read(data, size, 0, "input", &pickle, &end, &error))
        return 0;
    fuzz_require(end <= size && pickle->root, "a pickle ends beyond its end");
    pickle_free(pickle);
    try_packed(data, size, false);
    try_packed(data, size, true);
    return 0;
}
