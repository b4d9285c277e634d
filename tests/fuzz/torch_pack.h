/* Pickles in the containers of torch.save. */
#ifndef FUZZ_TORCH_PACK_H
#define FUZZ_TORCH_PACK_H

#include "fuzz.h"

/* The file that torch.save might have written with this pickle, in the zip or the legacy container,
 * every storage that the pickle refers to holding zeros.  The caller frees it; NULL where the
 * pickle cannot be read or calls for more than a few small storages. */
uint8_t *torch_pack(const uint8_t *data, size_t size, bool legacy, size_t *packed_size);

#endif
