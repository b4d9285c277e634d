/* The weights file: one implementation of weights-format.md, with which the converter writes and
 * the runtime reads.  It knows tensors, blocks and checksums, and nothing of networks. */
#ifndef TXL_WEIGHTS_H
#define TXL_WEIGHTS_H

#include "lib/base/files.h"
#include "lib/base/threads.h"
#include "lib/base/tiles.h"

#include <stdint.h>
#include <string.h>

/* ---- The layout in bytes ------------------------------------------------------------------ */

/* The byte layout of weights-format.md. */

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "weights are used where they are mapped, so txl needs a little-endian machine"
#endif

/* The first byte is not ASCII, and the line ends reveal a transfer that treated the file as
 * text. */
#define LAYOUT_MAGIC "\x93TXL\r\n\x1a\n"
#define LAYOUT_MAJOR 1
#define LAYOUT_MINOR 0

struct layout_section {
    uint64_t offset, size, checksum; /* XXH3-64 */
};

struct layout_header {
    char magic[8];
    uint16_t major, minor;
    uint32_t header_size; /* of this structure: a later minor version may append to it */
    uint64_t file_size;
    struct layout_section settings, vocabulary, index;
    uint64_t checksum; /* XXH3-64 of everything before this field */
};

struct layout_index {
    uint32_t n_tensor,
        tensor_size; /* number of records, and bytes of each: later versions may make them longer */
    uint32_t n_block, block_size;
    uint32_t names_size;
    uint32_t expanded_block; /* expanded bytes of every block of a tensor but its last */
};

struct layout_tensor {
    uint32_t name_offset, name_length; /* in the names, which follow the records */
    uint32_t type, n_dim;
    uint64_t shape[4]; /* 1 beyond n_dim */
    uint32_t first_block, n_block;
};

struct layout_block {
    uint64_t offset, checksum; /* XXH3-64 of the stored bytes */
    uint32_t stored;           /* bytes in the file */
    uint32_t first_part;       /* BLOCK_PLANES: stored bytes of the exponent plane; else 0 */
    uint32_t encoding;         /* enum block_encoding; only floats have planes */
    uint32_t reserved;         /* 0 */
};

_Static_assert(sizeof(struct layout_header) == 104, "no padding");
_Static_assert(sizeof(struct layout_index) == 24, "no padding");
_Static_assert(sizeof(struct layout_tensor) == 56, "no padding");
_Static_assert(sizeof(struct layout_block) == 32, "no padding");

#define WEIGHTS_MAX_DIM 4
#define WEIGHTS_MAX_NAME 255
#define WEIGHTS_BLOCK_SIZE (1u << 20) /* expanded bytes of a block, at most */
#define WEIGHTS_ALIGNMENT 64

enum weights_type {
    WEIGHTS_F32 = 0,
    WEIGHTS_F16 = 1,
    WEIGHTS_BF16 = 2,
    WEIGHTS_Q8 = 3,
    WEIGHTS_Q4 = 4, /* in tiles, as all types after it */
    WEIGHTS_Q5 = 5
};

/* Whether the type is a float's: without scales. */
static inline bool weights_is_float(enum weights_type type) {
    return type <= WEIGHTS_BF16;
}

/* Whether the elements lie in tiles, and the highest level in them (see lib/base/tiles.h). */
static inline bool weights_in_tiles(enum weights_type type) {
    return type >= WEIGHTS_Q4;
}
static inline int weights_top(enum weights_type type) {
    return type == WEIGHTS_Q5 ? Q5_TOP : Q4_TOP;
}

/* The type's name, or NULL if there is no type of that number. */
const char *weights_type_name(uint32_t type);
/* The type of that name, or -1. */
int weights_type_of_name(const char *name);

/* What a file's matrices are to be stored in, and those that a token takes a row of: embeddings,
 * and the softmax's weights. */
struct weights_types {
    enum weights_type matrices, embeddings;
};
/* Reads a type's name, which "q4" and "q5" may be followed by a colon and the embeddings' own:
 * "q4:q8". Fails with TXL_ARGUMENT. */
txl_status weights_types_read(const char *name, struct weights_types *types, txl_error *error);
/* Bytes of an element, not counting q8's scales; of a type that is not in tiles. */
size_t weights_type_size(enum weights_type type);
/* Rounds in[n] to the type, a float's; bf16 takes no NaN. */
void weights_narrow(enum weights_type type, const float *in, size_t n, void *out);
/* Expanded bytes of a tensor of that type and shape (1 beyond its dimensions), or 0 if there can be
 * no such tensor: a size is 0, the product is too large, or a type with scales is not a matrix's.
 */
uint64_t weights_expanded_size(enum weights_type type, int n_dim,
                               const uint64_t shape[WEIGHTS_MAX_DIM]);
/* The next multiple of WEIGHTS_ALIGNMENT. */
static inline uint64_t weights_aligned(uint64_t size) {
    return (size + WEIGHTS_ALIGNMENT - 1) / WEIGHTS_ALIGNMENT * WEIGHTS_ALIGNMENT;
}
/* Where the scales of a q8 matrix of n_element elements begin, in bytes from its first element. */
static inline uint64_t weights_scales_offset(uint64_t n_element) {
    return weights_aligned(n_element);
}
/* Bytes of every block of a tensor of that type but its last: WEIGHTS_BLOCK_SIZE, or as many whole
 * tiles as it holds. */
static inline size_t weights_block_size(enum weights_type type) {
    const size_t unit = weights_in_tiles(type) ? tile_bytes(weights_top(type)) : 1;
    return WEIGHTS_BLOCK_SIZE / unit * unit;
}

/* ---- Blocks (block.c) --------------------------------------------------------------------- */

enum block_encoding {
    BLOCK_RAW = 0,   /* the elements, raw */
    BLOCK_ZSTD = 1,  /* the elements in one zstd frame */
    BLOCK_PLANES = 2 /* the plane of exponents, then the rest; each a zstd frame or raw */
};

/* Upper bound of what block_encode stores for `size` bytes. */
size_t block_bound(size_t size);

/* What one thread needs to decode blocks, and with `encodes` also to encode them.  NULL: out of
 * memory. */
struct block_coder;
struct block_coder *block_coder_new(bool encodes);
/* Bytes that block_coder_new allocates, not counting zstd's own. */
size_t block_coder_bytes(bool encodes);
void block_coder_free(struct block_coder *coder);

/* Encodes `size` bytes of elements in the smallest encoding: level 0 stores them raw, else level
 * is zstd's.  Fills all of *block but its offset.  out[block_bound(size)]. */
txl_status block_encode(struct block_coder *coder, enum weights_type type, int level,
                        const void *elements, size_t size, void *out, struct layout_block *block,
                        txl_error *error);

/* Checks the checksum and expands the block to exactly `size` bytes of elements. */
txl_status block_decode(struct block_coder *coder, enum weights_type type,
                        const struct layout_block *block, const void *stored, void *elements,
                        size_t size, txl_error *error);

/* ---- Reading (read.c) --------------------------------------------------------------------- */

struct weights_tensor {
    char *name;
    enum weights_type type;
    int n_dim;
    uint64_t shape[WEIGHTS_MAX_DIM];
    uint64_t n_element;
    uint64_t size;   /* bytes, expanded */
    uint64_t stored; /* bytes in the file */
    uint32_t first_block, n_block;
    const void *raw; /* in the mapped file, when all blocks are raw; else NULL */
};

struct weights {
    char *name; /* the path, for messages */
    const uint8_t *data;
    size_t size;
    struct mapped_file file; /* all zero: data is somebody's memory */
    void *pages;             /* where random weights lie (lib/base/memory.h); else NULL */
    uint64_t checksum; /* the header's; it depends on every section and block, and so identifies the
                          model */
    char *settings;    /* JSON, NUL-terminated */
    const void *vocabulary;
    size_t vocabulary_size;
    struct weights_tensor *tensor; /* in the order of the file */
    size_t n_tensor;
    struct layout_block *block;
    size_t n_block;
};

/* Maps the file and checks header, settings, vocabulary and index: every offset and size, and the
 * checksums of all four.  The tensors' data is not touched. */
txl_status weights_open(const char *path, struct weights **weights, txl_error *error);
txl_status weights_open_memory(const void *data, size_t size, const char *name,
                               struct weights **weights, txl_error *error);
void weights_close(struct weights *weights);

/* The tensor of that name, or NULL. */
const struct weights_tensor *weights_find(const struct weights *weights, const char *name);

/* The extent of block `i` of the tensor: where it begins and its size, both in expanded bytes. */
void weights_block_extent(const struct weights_tensor *tensor, uint32_t i, uint64_t *begin,
                          size_t *size);

/* Expands block `i` of the tensor into `out`, of the size that weights_block_extent gives. */
txl_status weights_read_block(const struct weights *weights, const struct weights_tensor *tensor,
                              uint32_t i, struct block_coder *coder, void *out, txl_error *error);

/* Decodes and discards every block, comparing its checksum.  `progress` counts stored bytes; it may
 * be NULL. */
txl_status weights_verify(const struct weights *weights,
                          bool (*progress)(void *context, uint64_t done, uint64_t total),
                          void *context, txl_error *error);

/* Says that the blocks up to this one have been read.  The system may then take back the memory
 * that holds their stored bytes; this happens a few megabytes at a time.  A later read maps them
 * again.
 */
void weights_release_block(const struct weights *weights, const struct weights_tensor *tensor,
                           uint32_t i);

/* ---- Writing (write.c) --------------------------------------------------------------------- */

/* A tensor to be written: `read` gives its elements [first, first + count) in row-major order, as
 * f32, called with ascending ranges.  Those of q8 may overlap by less than Q8_BLOCK.  Matrices in
 * tiles ask `calibrate` before the first of their rows, unless it is NULL. */
struct weights_source {
    char name[WEIGHTS_MAX_NAME + 1];
    enum weights_type type;
    int n_dim;
    uint64_t shape[WEIGHTS_MAX_DIM];
    txl_status (*read)(void *context, uint64_t first, size_t count, float *out, txl_error *error);
    void *context;
    /* Sets *calibration, until the next call of any; to NULL: levels are the nearest. */
    txl_status (*calibrate)(void *context, const struct tile_calibration **calibration,
                            txl_error *error);
    /* NULL, or the file whose tensor `copied` this is: its blocks are copied as they are stored,
     * and nothing is read, rounded or calibrated. */
    const struct weights *from;
    const struct weights_tensor *copied;
};

struct weights_contents {
    const char *settings; /* JSON */
    const void *vocabulary;
    size_t vocabulary_size;
    const struct weights_source *source;
    size_t n_source;
    int level; /* 0: raw, else zstd's level */
    int threads;
    bool (*progress)(void *context, uint64_t done, uint64_t total); /* bytes; false stops */
    void *progress_context;
};

/* Writes the whole file at `path` (lib/base/output_file.h): after a failure nothing of it is left,
 * and an older file stays.  Elements that are not finite, or that f16 cannot hold, are refused with
 * their tensor's name and place. */
txl_status weights_write(const char *path, const struct weights_contents *contents,
                         txl_error *error);

/* The same into an output that is open, and which the caller commits. */
struct output_file;
txl_status weights_write_into(struct output_file *out, const struct weights_contents *contents,
                              txl_error *error);

/* Makes a copy of the file with other settings; all else keeps its bytes.  The
 * sections must lie in the order of those that are written here.  *copy is aligned as
 * weights_open_memory needs it; the caller frees it. */
txl_status weights_restate(const struct weights *weights, const char *settings, void **copy,
                           size_t *size, txl_error *error);

/* ---- Expanding ---------------------------------------------------------------------------- */

/* Expands compressed tensors, their blocks in parallel. */

struct expander;

/* An expander of one file's tensors, of up to n_block blocks at a time, that works with the threads
 * of `pool`.  Both must outlive it. */
txl_status expander_new(const struct weights *weights, struct pool *pool, size_t n_block,
                        struct expander **expander, txl_error *error);
/* Bytes that an expander for so many threads allocates, not counting zstd's own. */
uint64_t expander_bytes(int threads, size_t n_block);
void expander_free(struct expander *expander);

/* Bytes of memory that the expanded tensor takes, rounded up so that the next one is aligned. */
static inline size_t expanded_bytes(const struct weights_tensor *tensor) {
    return weights_aligned(tensor->size);
}

/* Makes the next run expand the tensor into out[tensor->size].  All tensors of a run together may
 * have at most the expander's n_block blocks. */
void expander_add(struct expander *expander, const struct weights_tensor *tensor, void *out);

/* Expands what was added, comparing every checksum, and lets the system take back the file's pages
 * that were read. */
txl_status expander_run(struct expander *expander, txl_error *error);

#endif
