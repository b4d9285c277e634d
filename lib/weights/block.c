/* Blocks of a weights file: up to WEIGHTS_BLOCK_SIZE bytes of elements, each block stored by
 * itself, so that any of them can be expanded alone and all of them in parallel. */
#include "lib/base/error.h"
#include "weights.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

/* XXH3_64bits in the widest vectors that the processor has: in the shared libxxhash for x86. */
__attribute__((weak)) XXH64_hash_t XXH3_64bits_dispatch(const void *input, size_t size);

struct block_coder {
    ZSTD_CCtx *compress; /* NULL: it only decodes */
    ZSTD_DCtx *expand;
    uint8_t planes[WEIGHTS_BLOCK_SIZE];
    uint8_t attempt[]; /* a stored form to compare, block_bound(WEIGHTS_BLOCK_SIZE) to encode */
};

static uint64_t checksum_of(const void *stored, size_t size) {
    return XXH3_64bits_dispatch ? XXH3_64bits_dispatch(stored, size) : XXH3_64bits(stored, size);
}

size_t block_bound(size_t size) {
    return ZSTD_compressBound(size) + ZSTD_compressBound(0);
}

size_t block_coder_bytes(bool encodes) {
    return sizeof(struct block_coder) + (encodes ? block_bound(WEIGHTS_BLOCK_SIZE) : 0);
}

struct block_coder *block_coder_new(bool encodes) {
    struct block_coder *coder = malloc(block_coder_bytes(encodes));
    if (!coder)
        return NULL;
    coder->compress = encodes ? ZSTD_createCCtx() : NULL;
    coder->expand = ZSTD_createDCtx();
    if ((encodes && !coder->compress) || !coder->expand) {
        block_coder_free(coder);
        return NULL;
    }
    return coder;
}

void block_coder_free(struct block_coder *coder) {
    if (!coder)
        return;
    ZSTD_freeCCtx(coder->compress);
    ZSTD_freeDCtx(coder->expand);
    free(coder);
}

/* The planes of n elements: first n bytes that hold the exponents (of f16: exponent and the sign
 * and mantissa bits beside it), which compress; then the rest, which hardly does.
 *   f32:  n x exponent | n x (sign, upper 7 bits of the mantissa) | n x lower 16 bits
 *   bf16: n x exponent | n x (sign, mantissa)
 *   f16:  n x upper byte | n x lower byte
 * Types with scales have none. */

static void split_f32(const uint8_t *restrict elements, size_t n, uint8_t *restrict planes) {
    uint8_t *low = planes + 2 * n;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, elements + 4 * i, 4);
        planes[i] = (uint8_t)(bits >> 23);
        planes[n + i] = (uint8_t)((bits >> 24 & 0x80) | (bits >> 16 & 0x7f));
        uint16_t rest = (uint16_t)bits;
        memcpy(low + 2 * i, &rest, 2);
    }
}

/* Compiled once for each width of vectors.  The dynamic linker chooses by the processor, before the
 * thread sanitizer is ready for it. */
#if defined __x86_64__ && defined __gnu_linux__ && !defined __clang__ &&                           \
    !defined __SANITIZE_THREAD__
#define FOR_EVERY_WIDTH __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define FOR_EVERY_WIDTH
#endif

FOR_EVERY_WIDTH
static void merge_f32(const uint8_t *restrict exponent, const uint8_t *restrict rest, size_t n,
                      uint8_t *restrict elements) {
    const uint8_t *low = rest + n;
    for (size_t i = 0; i < n; i++) {
        uint16_t lower;
        memcpy(&lower, low + 2 * i, 2);
        uint32_t upper = rest[i];
        uint32_t bits =
            (upper & 0x80) << 24 | (uint32_t)exponent[i] << 23 | (upper & 0x7f) << 16 | lower;
        memcpy(elements + 4 * i, &bits, 4);
    }
}

static void split_bf16(const uint8_t *restrict elements, size_t n, uint8_t *restrict planes) {
    for (size_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, elements + 2 * i, 2);
        planes[i] = (uint8_t)(bits >> 7);
        planes[n + i] = (uint8_t)((bits >> 8 & 0x80) | (bits & 0x7f));
    }
}

static void merge_bf16(const uint8_t *restrict exponent, const uint8_t *restrict rest, size_t n,
                       uint8_t *restrict elements) {
    for (size_t i = 0; i < n; i++) {
        uint16_t bits = (uint16_t)((rest[i] & 0x80) << 8 | exponent[i] << 7 | (rest[i] & 0x7f));
        memcpy(elements + 2 * i, &bits, 2);
    }
}

static void split_f16(const uint8_t *restrict elements, size_t n, uint8_t *restrict planes) {
    for (size_t i = 0; i < n; i++) {
        planes[i] = elements[2 * i + 1];
        planes[n + i] = elements[2 * i];
    }
}

static void merge_f16(const uint8_t *restrict upper, const uint8_t *restrict lower, size_t n,
                      uint8_t *restrict elements) {
    for (size_t i = 0; i < n; i++) {
        elements[2 * i] = lower[i];
        elements[2 * i + 1] = upper[i];
    }
}

static const struct {
    void (*split)(const uint8_t *elements, size_t n, uint8_t *planes);
    void (*merge)(const uint8_t *first, const uint8_t *rest, size_t n, uint8_t *elements);
} planes_of[] = {
    [WEIGHTS_F32] = {split_f32, merge_f32},
    [WEIGHTS_F16] = {split_f16, merge_f16},
    [WEIGHTS_BF16] = {split_bf16, merge_bf16},
};

/* In place of a zstd level: the parameters for exponents, which only entropy coding compresses.
 * Repeated sequences among them are chance, and a match costs more bytes and more time to expand
 * than the literals; so zstd looks for long matches only, with the smallest table. */
enum { EXPONENTS = 0 };

static void set_parameters(ZSTD_CCtx *compress, int level) {
    ZSTD_CCtx_reset(compress, ZSTD_reset_session_and_parameters);
    if (level == EXPONENTS) {
        ZSTD_CCtx_setParameter(compress, ZSTD_c_strategy, ZSTD_fast);
        ZSTD_CCtx_setParameter(compress, ZSTD_c_hashLog, 6);
        ZSTD_CCtx_setParameter(compress, ZSTD_c_minMatch, 7);
    } else {
        ZSTD_CCtx_setParameter(compress, ZSTD_c_compressionLevel, level);
    }
}

/* Stores a part compressed, or raw where compression saves less than a 64th, because expanding
 * takes time.  A part is raw exactly when its stored size equals its expanded size. */
static txl_status store_part(struct block_coder *coder, int level, const uint8_t *part, size_t size,
                             uint8_t *out, size_t capacity, size_t *stored, txl_error *error) {
    set_parameters(coder->compress, level);
    size_t n = ZSTD_compress2(coder->compress, out, capacity, part, size);
    if (ZSTD_isError(n))
        return txl_fail(error, TXL_MEMORY, "zstd: %s", ZSTD_getErrorName(n));
    if (n > size - size / 64) {
        memcpy(out, part, size);
        n = size;
    }
    *stored = n;
    return TXL_OK;
}

/* Stores the elements as planes if that takes less than block->stored. */
static txl_status try_planes(struct block_coder *coder, enum weights_type type, int level,
                             const void *elements, size_t size, void *out,
                             struct layout_block *block, txl_error *error) {
    size_t n = size / weights_type_size(type), first = 0, rest = 0;
    size_t bound = block_bound(WEIGHTS_BLOCK_SIZE);
    planes_of[type].split(elements, n, coder->planes);
    txl_status status =
        store_part(coder, EXPONENTS, coder->planes, n, coder->attempt, bound, &first, error);
    if (!status)
        status = store_part(coder, level, coder->planes + n, size - n, coder->attempt + first,
                            bound - first, &rest, error);
    if (!status && first + rest < block->stored) {
        block->encoding = BLOCK_PLANES;
        block->stored = (uint32_t)(first + rest);
        block->first_part = (uint32_t)first;
        memcpy(out, coder->attempt, first + rest);
    }
    return status;
}

/* Stores them as one zstd frame if that takes less. */
static txl_status try_whole(struct block_coder *coder, int level, const void *elements, size_t size,
                            void *out, struct layout_block *block, txl_error *error) {
    size_t stored = 0;
    txl_status status = store_part(coder, level, elements, size, coder->attempt,
                                   block_bound(WEIGHTS_BLOCK_SIZE), &stored, error);
    if (!status && stored < block->stored) {
        block->encoding = BLOCK_ZSTD;
        block->stored = (uint32_t)stored;
        block->first_part = 0;
        memcpy(out, coder->attempt, stored);
    }
    return status;
}

txl_status block_encode(struct block_coder *coder, enum weights_type type, int level,
                        const void *elements, size_t size, void *out, struct layout_block *block,
                        txl_error *error) {
    block->encoding = BLOCK_RAW;
    block->stored = (uint32_t)size;
    block->first_part = 0;
    memcpy(out, elements, size);
    txl_status status = TXL_OK;
    if (level > 0 && weights_is_float(type))
        status = try_planes(coder, type, level, elements, size, out, block, error);
    if (level > 0 && !status)
        status = try_whole(coder, level, elements, size, out, block, error);
    if (!status)
        block->checksum = checksum_of(out, block->stored);
    return status;
}

static txl_status expand_zstd(struct block_coder *coder, const void *stored, size_t stored_size,
                              void *out, size_t size, txl_error *error) {
    size_t n = ZSTD_decompressDCtx(coder->expand, out, size, stored, stored_size);
    if (ZSTD_isError(n))
        return txl_fail(error, TXL_FORMAT, "a block does not expand: %s", ZSTD_getErrorName(n));
    if (n != size)
        return txl_fail(error, TXL_FORMAT, "a block expands to %zu bytes, not %zu", n, size);
    return TXL_OK;
}

/* Sets *part to the expanded part: in the file itself if it is raw, else in `scratch`. */
static txl_status load_part(struct block_coder *coder, const uint8_t *stored, size_t stored_size,
                            uint8_t *scratch, size_t size, const uint8_t **part, txl_error *error) {
    if (stored_size == size) {
        *part = stored;
        return TXL_OK;
    }
    *part = scratch;
    return expand_zstd(coder, stored, stored_size, scratch, size, error);
}

txl_status block_decode(struct block_coder *coder, enum weights_type type,
                        const struct layout_block *block, const void *stored, void *elements,
                        size_t size, txl_error *error) {
    if (checksum_of(stored, block->stored) != block->checksum)
        return txl_fail(error, TXL_FORMAT, "a block's checksum differs: the file is damaged");
    switch (block->encoding) {
    case BLOCK_RAW:
        if (block->stored != size)
            return txl_fail(error, TXL_FORMAT, "a raw block has %u bytes, not %zu", block->stored,
                            size);
        memcpy(elements, stored, size);
        return TXL_OK;
    case BLOCK_ZSTD:
        return expand_zstd(coder, stored, block->stored, elements, size, error);
    case BLOCK_PLANES: {
        if (!weights_is_float(type))
            return txl_fail(error, TXL_FORMAT, "a block of %s has planes", weights_type_name(type));
        size_t n = size / weights_type_size(type);
        const uint8_t *bytes = stored, *first = NULL, *rest = NULL;
        if (block->first_part > block->stored)
            return txl_fail(error, TXL_FORMAT, "a block's exponent plane is longer than the block");
        txl_status status =
            load_part(coder, bytes, block->first_part, coder->planes, n, &first, error);
        if (!status)
            status = load_part(coder, bytes + block->first_part, block->stored - block->first_part,
                               coder->planes + n, size - n, &rest, error);
        if (!status)
            planes_of[type].merge(first, rest, n, elements);
        return status;
    }
    default:
        return txl_fail(error, TXL_UNSUPPORTED, "a block has the unknown encoding %u",
                        block->encoding);
    }
}
