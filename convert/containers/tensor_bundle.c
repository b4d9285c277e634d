/* TensorFlow's V2 checkpoints ("tensor bundles"): PREFIX.index is a sorted table from the names of
 * variables to their places in the files PREFIX.data-SSSSS-of-NNNNN.  (The messages are those of
 * tensorflow/core/protobuf/tensor_bundle.proto.)
 *
 * The name "" has the header.  A variable that was saved in parts has an entry without a place, and
 * one for each part, whose key begins with a NUL. */
#include "checkpoint_internal.h"

#include "foreign.h"
#include "lib/base/error.h"
#include "lib/base/files.h"
#include "lib/base/protobuf.h"
#include "sorted_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    MAX_SHARD = 512,       /* that are used; each keeps its file open */
    MAX_PART = 1024,       /* of one variable */
    SUPPORTED_VERSION = 1, /* of the format */
    MAX_SLICE_KEY = 2 * TABLE_MAX_KEY + 4 + 22 * CHECKPOINT_MAX_DIM
};

/* By TensorFlow's numbers.  Those left out are of no interest, or never in a file. */
static const struct {
    bool is_read;
    enum checkpoint_dtype dtype;
} dtypes[] = {
    [1] = {true, CHECKPOINT_F32},    [2] = {true, CHECKPOINT_F64},   [3] = {true, CHECKPOINT_I32},
    [4] = {true, CHECKPOINT_U8},     [5] = {true, CHECKPOINT_I16},   [6] = {true, CHECKPOINT_I8},
    [7] = {true, CHECKPOINT_STRING}, [8] = {true, CHECKPOINT_C64},   [9] = {true, CHECKPOINT_I64},
    [10] = {true, CHECKPOINT_BOOL},  [14] = {true, CHECKPOINT_BF16}, [17] = {true, CHECKPOINT_U16},
    [18] = {true, CHECKPOINT_C128},  [19] = {true, CHECKPOINT_F16},  [22] = {true, CHECKPOINT_U32},
    [23] = {true, CHECKPOINT_U64},
};

struct shard {
    int64_t number;
    const struct mapped_file *file;
};

struct bundle {
    struct checkpoint *checkpoint;
    struct checkpoint_source *source; /* of the index; it has the storages and parts of all files */
    struct table table;
    int64_t n_shard;
    bool big_endian;
    struct shard shards[MAX_SHARD]; /* those that are open */
    size_t n_open;
    uint64_t claimed, available; /* bytes of all tensors, and of the files that are open */
    size_t n_part, most_parts;
    txl_error *error;
};

/* TensorShapeProto: the first number of a dimension is its size; or TensorSliceProto, a part as the
 * whole's entry lists it: start and length, which is -1 for all of the dimension. */
struct dimensions {
    int n;                                     /* CHECKPOINT_MAX_DIM + 1: too many */
    int64_t number[CHECKPOINT_MAX_DIM + 1][3]; /* by the number of the field */
};
enum { SIZE = 1, START = 1, LENGTH = 2 };

/* BundleEntryProto. */
struct entry {
    uint64_t dtype;
    struct dimensions shape;
    bool unknown_rank;
    int64_t shard, offset, size;
    uint32_t checksum;
    size_t n_slice;
};

static txl_status refuse(const struct bundle *b, const char *name, const char *what) {
    return txl_fail(b->error, TXL_FORMAT, "%s: tensor %s: %s; the file is damaged, fetch it again",
                    b->source->file.path, name, what);
}

static txl_status malformed(const struct bundle *b, const char *name) {
    return refuse(b, name, "its entry is malformed");
}

static struct protobuf message_in(const struct table_entry *entry) {
    return (struct protobuf){entry->value, entry->value + entry->length};
}

static bool is(const struct protobuf_field *field, uint64_t number, enum protobuf_type type) {
    return field->number == number && field->type == type;
}

/* number[k] receives the number of field k < n, where the message has one. */
static bool read_numbers(struct protobuf message, int64_t *number, uint64_t n) {
    struct protobuf_field field;
    while (message.at < message.end) {
        if (!protobuf_field(&message, &field))
            return false;
        if (field.number < n && field.type == PROTOBUF_VARINT)
            number[field.number] = (int64_t)field.value;
    }
    return true;
}

/* Reads the fields of that number. */
static bool read_dimensions(struct protobuf message, uint64_t number, struct dimensions *read) {
    struct protobuf_field field;
    read->n = 0;
    while (message.at < message.end) {
        if (!protobuf_field(&message, &field))
            return false;
        if (!is(&field, number, PROTOBUF_BYTES) || read->n > CHECKPOINT_MAX_DIM)
            continue;
        int64_t *dimension = read->number[read->n++];
        dimension[START] = 0;
        dimension[LENGTH] = -1;
        if (!read_numbers(protobuf_inside(&field), dimension, 3))
            return false;
    }
    return true;
}

/* ---- The header --------------------------------------------------------------------------- */

/* Whether VersionDef allows this reader. */
static bool read_version(struct protobuf version, bool *allows) {
    struct protobuf_field field;
    *allows = true;
    while (version.at < version.end) {
        if (!protobuf_field(&version, &field))
            return false;
        struct protobuf packed = {NULL, NULL};
        uint64_t bad = field.value;
        if ((is(&field, 2, PROTOBUF_VARINT) && field.value > SUPPORTED_VERSION) ||
            (is(&field, 3, PROTOBUF_VARINT) && bad == SUPPORTED_VERSION))
            *allows = false;
        if (is(&field, 3, PROTOBUF_BYTES))
            packed = protobuf_inside(&field);
        while (packed.at < packed.end) {
            if (!protobuf_varint(&packed, &bad))
                return false;
            *allows = *allows && bad != SUPPORTED_VERSION;
        }
    }
    return true;
}

static txl_status read_header(struct bundle *b) {
    const char *path = b->source->file.path;
    const struct table_entry *entry = b->table.entries;
    if (b->table.n == 0 || entry->key_length > 0)
        return txl_fail(b->error, TXL_FORMAT, "%s: a table without the header of a checkpoint",
                        path);
    if (entry->length > 0 && entry->value[0] == 0x0a)
        return txl_fail(b->error, TXL_UNSUPPORTED,
                        "%s: a TensorFlow checkpoint of the old format V1; save it again with "
                        "tf.train.Saver(write_version=tf.train.SaverDef.V2)",
                        path);
    struct protobuf header = message_in(entry);
    struct protobuf_field field;
    int64_t number[3] = {0}; /* field 1: the data files; 2: their byte order */
    bool allows = true, good = read_numbers(header, number, 3);
    while (good && header.at < header.end && protobuf_field(&header, &field))
        if (is(&field, 3, PROTOBUF_BYTES))
            good = read_version(protobuf_inside(&field), &allows);
    if (!good)
        return txl_fail(b->error, TXL_FORMAT,
                        "%s: the header is malformed; the file is damaged, fetch it again", path);
    if (!allows)
        return txl_fail(b->error, TXL_UNSUPPORTED,
                        "%s: written for readers of a later version of the format than %d", path,
                        SUPPORTED_VERSION);
    b->n_shard = number[1];
    if (b->n_shard < 1 || b->n_shard > INT32_MAX)
        return txl_fail(b->error, TXL_FORMAT, "%s: %" PRId64 " data files, expected one or more",
                        path, b->n_shard);
    if ((uint64_t)number[2] > 1)
        return txl_fail(b->error, TXL_UNSUPPORTED, "%s: byte order %" PRIu64 " is not known", path,
                        (uint64_t)number[2]);
    b->big_endian = number[2] == 1;
    return TXL_OK;
}

/* ---- Entries ------------------------------------------------------------------------------ */

/* False if it is malformed. */
static bool read_entry(const struct table_entry *from, struct entry *e) {
    struct protobuf message = message_in(from);
    struct protobuf_field field;
    int64_t number[6] = {0}, form[4] = {0};
    if (!read_numbers(message, number, 6))
        return false;
    *e = (struct entry){
        .dtype = (uint64_t)number[1], .shard = number[3], .offset = number[4], .size = number[5]};
    while (message.at < message.end && protobuf_field(&message, &field)) {
        if (is(&field, 2, PROTOBUF_BYTES) &&
            (!read_dimensions(protobuf_inside(&field), 2, &e->shape) ||
             !read_numbers(protobuf_inside(&field), form, 4)))
            return false;
        if (is(&field, 6, PROTOBUF_32))
            e->checksum = (uint32_t)field.value;
        e->n_slice += is(&field, 7, PROTOBUF_BYTES);
    }
    e->unknown_rank = form[3] != 0;
    return true;
}

/* Reads an entry, checks type and shape, and moves them into the claim. */
static txl_status claim_form(const struct bundle *b, const struct table_entry *from,
                             struct entry *e, struct checkpoint_tensor *claim) {
    const char *path = b->source->file.path;
    if (!read_entry(from, e))
        return malformed(b, claim->name);
    if (e->dtype >= sizeof dtypes / sizeof *dtypes || !dtypes[e->dtype].is_read)
        return txl_fail(b->error, TXL_UNSUPPORTED,
                        "%s: tensor %s: TensorFlow's type %" PRIu64 " is not read", path,
                        claim->name, e->dtype);
    claim->dtype = dtypes[e->dtype].dtype;
    if (e->unknown_rank)
        return refuse(b, claim->name, "its shape is not known");
    if (e->shape.n > CHECKPOINT_MAX_DIM)
        return checkpoint_refuse_dimensions(path, claim->name, b->error);
    claim->n_dim = e->shape.n;
    for (int d = 0; d < claim->n_dim; d++) {
        if (e->shape.number[d][SIZE] < 0)
            return refuse(b, claim->name, "a dimension is negative");
        claim->shape[d] = (uint64_t)e->shape.number[d][SIZE];
    }
    if (!checkpoint_n_element(claim->n_dim, claim->shape, &claim->n_element) ||
        claim->n_element > INT64_MAX / checkpoint_dtype_size(claim->dtype))
        return refuse(b, claim->name, "its shape has more elements than a file has room for");
    checkpoint_row_major(claim);
    return TXL_OK;
}

/* ---- Data files --------------------------------------------------------------------------- */

static txl_status open_shard(struct bundle *b, int64_t number, const struct mapped_file **opened) {
    for (size_t i = 0; i < b->n_open; i++) {
        if (b->shards[i].number == number) {
            *opened = b->shards[i].file;
            return TXL_OK;
        }
    }
    const char *index = b->source->file.path;
    if (b->n_open == MAX_SHARD)
        return txl_fail(b->error, TXL_UNSUPPORTED, "%s: more than %d data files", index, MAX_SHARD);
    struct checkpoint_source *source = checkpoint_new_source(b->checkpoint, b->error);
    int prefix = (int)(strlen(index) - strlen(".index"));
    char *path;
    if (!source)
        return TXL_MEMORY;
    if (asprintf(&path, "%.*s.data-%05" PRId64 "-of-%05" PRId64, prefix, index, number,
                 b->n_shard) < 0)
        return txl_fail_memory(b->error, "a file name", strlen(index));
    txl_status status = mapped_file_open(path, &source->file, b->error);
    struct stat about;
    if (status == TXL_IO && stat(path, &about) != 0 && errno == ENOENT)
        status = txl_fail(b->error, TXL_IO, "%s: %s; it has tensors of %s, fetch it too", path,
                          strerror(errno), index);
    free(path);
    if (!status)
        status = foreign_refuse_pointer(&source->file, b->error);
    if (status)
        return status;
    mapped_file_set_sparse(&source->file); /* moments stand between the weights */
    b->shards[b->n_open++] = (struct shard){number, &source->file};
    b->available += source->file.size;
    *opened = &source->file;
    return TXL_OK;
}

/* Makes a storage of the entry's bytes, which must be as many as its elements take. */
static txl_status place(struct bundle *b, const struct entry *e, struct checkpoint_tensor *claim) {
    const char *name = claim->name;
    if (e->shard < 0 || e->shard >= b->n_shard)
        return refuse(b, name, "it is in none of the data files");
    const struct mapped_file *file = NULL;
    txl_status status = open_shard(b, e->shard, &file);
    if (status)
        return status;
    if (e->offset < 0 || e->size < 0 || (uint64_t)e->offset > file->size ||
        (uint64_t)e->size > file->size - (uint64_t)e->offset)
        return txl_fail(
            b->error, TXL_FORMAT,
            "%s: tensor %s: reaches beyond the end of %s, which is cut short or another "
            "checkpoint's",
            b->source->file.path, name, file->path);
    uint64_t size = claim->n_element * checkpoint_dtype_size(claim->dtype);
    if (claim->dtype == CHECKPOINT_STRING ? (uint64_t)e->size < size : (uint64_t)e->size != size)
        return refuse(b, name, "its size does not fit its shape");
    b->claimed += (uint64_t)e->size;
    claim->storage = &b->source->storages[b->source->n_storage++];
    *claim->storage = (struct checkpoint_storage){
        .file = file,
        .data = file->data + e->offset,
        .size = (uint64_t)e->size,
        .check = CRC32C,
        .checksum =
            (e->checksum - UINT32_C(0xa282ead8)) >> 17 | (e->checksum - UINT32_C(0xa282ead8)) << 15,
        .big_endian = b->big_endian,
    };
    return TXL_OK;
}

/* ---- Parts -------------------------------------------------------------------------------- */

/* Appends a number of at least -64 in TensorFlow's ordered code: for n + 1 bytes n bits of 1 and
 * one of 0, then the number, big-endian. */
static size_t add_ordered(unsigned char *at, int64_t value) {
    unsigned n = 1;
    while (n < 9 && value >> (7 * n - 1) > 0)
        n++;
    for (unsigned i = 0; i < n; i++)
        at[i] = n - 1 - i < 8 ? (unsigned char)(value >> 8 * (n - 1 - i)) : 0;
    if (n == 9) { /* 63 bits: eight of 1 fill the first byte */
        at[0] = 0xff;
        at[1] ^= 0x80;
    } else {
        at[0] ^= (unsigned char)(0xff << (8 - n));
    }
    return n;
}

/* The key under which a part has its entry; returns its length. */
static size_t slice_key(const char *name, const struct dimensions *slice, unsigned char *key) {
    size_t n = 0;
    key[n++] = 0;
    for (; *name; name++) {
        key[n++] = (unsigned char)*name;
        if ((unsigned char)*name == 0xff)
            key[n++] = 0;
    }
    key[n++] = 0;
    key[n++] = 1;
    if (slice->n > 0)
        key[n++] = 1;
    key[n++] = (unsigned char)slice->n;
    for (int d = 0; d < slice->n; d++) {
        n += add_ordered(key + n, slice->number[d][START]);
        n += add_ordered(key + n, slice->number[d][LENGTH]);
    }
    return n;
}

static bool overlap(const struct checkpoint_part *x, const struct checkpoint_part *y, int n_dim) {
    for (int d = 0; d < n_dim; d++)
        if (x->start[d] >= y->start[d] + y->length[d] || y->start[d] >= x->start[d] + x->length[d])
            return false;
    return true;
}

/* Finds the box that the slice is. */
static txl_status find_box(const struct bundle *b, const struct checkpoint_tensor *whole,
                           const struct dimensions *slice, struct checkpoint_part *part) {
    bool fits = slice->n == whole->n_dim;
    for (int d = 0; d < whole->n_dim && fits; d++) {
        int64_t size = (int64_t)whole->shape[d], start = slice->number[d][START];
        int64_t length = slice->number[d][LENGTH];
        length = length == -1 ? size - start : length;
        fits = start >= 0 && start <= size && length > 0 && length <= size - start;
        part->start[d] = (uint64_t)start;
        part->length[d] = (uint64_t)length;
    }
    return fits ? TXL_OK : refuse(b, whole->name, "one of its parts lies outside it");
}

static txl_status add_part(struct bundle *b, const struct checkpoint_tensor *whole,
                           const struct dimensions *slice, struct checkpoint_storage *storage,
                           uint64_t *covered) {
    struct checkpoint_part *part = &storage->parts[storage->n_part];
    txl_status status = find_box(b, whole, slice, part);
    if (status)
        return status;
    unsigned char key[MAX_SLICE_KEY];
    const struct table_entry *found =
        table_find(&b->table, (const char *)key, slice_key(whole->name, slice, key));
    if (!found || b->n_part == b->most_parts)
        return refuse(b, whole->name, "one of its parts is missing");
    struct entry e;
    struct checkpoint_tensor claim = {.name = whole->name};
    status = claim_form(b, found, &e, &claim);
    if (status)
        return status;
    if (e.n_slice > 0)
        return malformed(b, whole->name);
    if (claim.dtype != whole->dtype || claim.n_dim != whole->n_dim ||
        memcmp(claim.shape, part->length, (size_t)claim.n_dim * sizeof *claim.shape) != 0)
        return refuse(b, whole->name, "one of its parts has another type or shape");
    for (size_t i = 0; i < storage->n_part; i++)
        if (overlap(part, &storage->parts[i], whole->n_dim))
            return refuse(b, whole->name, "two of its parts overlap");
    *covered += claim.n_element;
    storage->n_part++;
    b->n_part++;
    status = place(b, &e, &claim);
    part->storage = claim.storage;
    return status;
}

/* Makes a storage of the parts that the entry lists. */
static txl_status join_slices(struct bundle *b, const struct table_entry *from,
                              const struct entry *e, struct checkpoint_tensor *whole) {
    if (e->n_slice > MAX_PART)
        return txl_fail(b->error, TXL_UNSUPPORTED, "%s: tensor %s: %zu parts; at most %d are read",
                        b->source->file.path, whole->name, e->n_slice, MAX_PART);
    if (whole->dtype == CHECKPOINT_STRING)
        return txl_fail(b->error, TXL_UNSUPPORTED, "%s: tensor %s: strings in parts are not read",
                        b->source->file.path, whole->name);
    struct protobuf message = message_in(from);
    struct protobuf_field field;
    struct dimensions slice;
    uint64_t covered = 0;
    txl_status status = TXL_OK;
    struct checkpoint_storage *s = &b->source->storages[b->source->n_storage++];
    s->parts = &b->source->parts[b->n_part];
    while (!status && message.at < message.end && protobuf_field(&message, &field)) {
        if (is(&field, 7, PROTOBUF_BYTES))
            status = read_dimensions(protobuf_inside(&field), 1, &slice)
                         ? add_part(b, whole, &slice, s, &covered)
                         : malformed(b, whole->name);
    }
    if (!status && covered != whole->n_element)
        status = refuse(b, whole->name, "its parts leave a hole");
    if (status)
        return status;
    s->file = s->parts[0].storage->file;
    s->size = whole->n_element * checkpoint_dtype_size(whole->dtype);
    s->big_endian = b->big_endian;
    s->n_dim = whole->n_dim;
    memcpy(s->shape, whole->shape, sizeof s->shape);
    whole->storage = s;
    return TXL_OK;
}

/* ---- The bundle --------------------------------------------------------------------------- */

static txl_status add_tensor(struct bundle *b, const struct table_entry *from) {
    struct entry e;
    struct checkpoint_tensor claim = {.name = from->key};
    if (strlen(from->key) != from->key_length)
        return refuse(b, from->key, "a NUL is in its name");
    txl_status status = claim_form(b, from, &e, &claim);
    if (!status)
        status = e.n_slice > 0 ? join_slices(b, from, &e, &claim) : place(b, &e, &claim);
    return status ? status : checkpoint_add(b->checkpoint, &claim, 0, b->error);
}

static bool is_part(const struct table_entry *entry) {
    return entry->key_length > 0 && entry->key[0] == '\0';
}

static txl_status read_bundle(struct bundle *b) {
    const char *path = b->source->file.path;
    txl_status status = read_header(b);
    if (status)
        return status;
    if (!ends_with(path, ".index"))
        return txl_fail(b->error, TXL_FORMAT,
                        "%s: the index of a TensorFlow checkpoint, whose name must end in .index",
                        path);
    for (size_t i = 0; i < b->table.n; i++)
        b->most_parts += is_part(&b->table.entries[i]);
    b->source->storages = calloc(b->table.n, sizeof *b->source->storages);
    b->source->parts = calloc(b->most_parts + 1, sizeof *b->source->parts);
    if (!b->source->storages || !b->source->parts)
        return txl_fail_memory(b->error, "a list of storages",
                               b->table.n * sizeof *b->source->storages);
    for (size_t i = 1; i < b->table.n && !status; i++)
        if (!is_part(&b->table.entries[i]))
            status = add_tensor(b, &b->table.entries[i]);
    /* Tensors that share their bytes would make a small file a large model. */
    if (!status && b->claimed > b->available)
        status = txl_fail(b->error, TXL_FORMAT,
                          "%s: its tensors have %" PRIu64 " bytes, and the data files %" PRIu64
                          "; one of the files is damaged or another checkpoint's, fetch all again",
                          b->source->file.path, b->claimed, b->available);
    return status;
}

txl_status tensor_bundle_read(struct checkpoint *checkpoint, struct checkpoint_source *source,
                              txl_error *error) {
    struct bundle b = {.checkpoint = checkpoint, .source = source, .error = error};
    txl_status status = table_read(&source->file, &b.table, error);
    if (!status)
        status = read_bundle(&b);
    table_free(&b.table);
    return status;
}
