/* Reading weights files.  The file may come from anybody: every number in it is compared with the
 * file's size, or with what it must agree with, before it is used. */
#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/base/memory.h"
#include "weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <xxhash.h>

/* How many mapped bytes are released at a time: a multiple of huge pages.  The system would have to
 * split a huge page to release a part of it, and each release interrupts all processors. */
#define RELEASE_SIZE ((uintptr_t)1 << 23)

#define DAMAGED "; the file is damaged, convert it again"

static txl_status damaged(const struct weights *w, const char *what, txl_error *error) {
    return txl_fail(error, TXL_FORMAT, "%s: %s" DAMAGED, w->name, what);
}

static txl_status check_section(const struct weights *w, const struct layout_section *section,
                                const char *name, txl_error *error) {
    if (section->offset > w->size || section->size > w->size - section->offset)
        return txl_fail(error, TXL_FORMAT, "%s: the %s reach beyond the end of the file" DAMAGED,
                        w->name, name);
    if (section->offset % 8 != 0)
        return txl_fail(error, TXL_FORMAT, "%s: the %s are not aligned" DAMAGED, w->name, name);
    if (XXH3_64bits(w->data + section->offset, section->size) != section->checksum)
        return txl_fail(error, TXL_FORMAT, "%s: the checksum of the %s differs" DAMAGED, w->name,
                        name);
    return TXL_OK;
}

static txl_status read_header(struct weights *w, struct layout_header *header, txl_error *error) {
    static const char not_weights[] = "not a txl weights file (txl convert makes one)";
    if (w->size >= 4 && (memcmp(w->data, "\x93TXZ", 4) == 0 || memcmp(w->data, "\x93TXE", 4) == 0))
        return txl_fail(error, TXL_FORMAT,
                        "%s: a text that txl compress made, not a weights file; txl decompress "
                        "reads it",
                        w->name);
    if (w->size < sizeof *header) {
        if (w->size < 8 || memcmp(w->data, LAYOUT_MAGIC, 8) != 0)
            return txl_fail(error, TXL_FORMAT, "%s: %s", w->name, not_weights);
        return damaged(w, "it ends inside its header", error);
    }
    memcpy(header, w->data, sizeof *header);
    if (memcmp(header->magic, LAYOUT_MAGIC, sizeof header->magic) != 0)
        return txl_fail(error, TXL_FORMAT, "%s: %s", w->name, not_weights);
    if (header->major != LAYOUT_MAJOR)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: weights format version %u.%u; this txl reads version %d", w->name,
                        header->major, header->minor, LAYOUT_MAJOR);
    size_t covered = offsetof(struct layout_header, checksum);
    if (XXH3_64bits(w->data, covered) != header->checksum)
        return damaged(w, "the checksum of the header differs", error);
    if (header->file_size != w->size)
        return txl_fail(error, TXL_FORMAT,
                        "%s: %zu bytes long, its header says %" PRIu64
                        "; the file is incomplete, copy or convert it again",
                        w->name, w->size, header->file_size);
    return TXL_OK;
}

/* Where the parts of the index begin; all lie within the section. */
struct index_view {
    struct layout_index head;
    const uint8_t *tensors, *blocks, *names;
};

static txl_status view_index(const struct weights *w, const struct layout_section *section,
                             struct index_view *view, txl_error *error) {
    if (section->size < sizeof view->head)
        return damaged(w, "the index is too short", error);
    const uint8_t *start = w->data + section->offset;
    memcpy(&view->head, start, sizeof view->head);
    const struct layout_index *head = &view->head;
    if (head->tensor_size < sizeof(struct layout_tensor) ||
        head->block_size < sizeof(struct layout_block) ||
        head->expanded_block != WEIGHTS_BLOCK_SIZE)
        return damaged(w, "the index has records of an impossible size", error);
    if (head->n_tensor > MAX_TENSOR)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: more than %d tensors", w->name, MAX_TENSOR);
    /* A product of two 32-bit numbers fits 64 bits; subtracting one at a time cannot overflow. */
    uint64_t left = section->size - sizeof *head;
    uint64_t tensors = (uint64_t)head->n_tensor * head->tensor_size;
    uint64_t blocks = (uint64_t)head->n_block * head->block_size;
    if (tensors > left || blocks > left - tensors || head->names_size > left - tensors - blocks)
        return damaged(w, "the index is shorter than its records", error);
    view->tensors = start + sizeof *head;
    view->blocks = view->tensors + tensors;
    view->names = view->blocks + blocks;
    return TXL_OK;
}

static txl_status read_blocks(struct weights *w, const struct index_view *view, uint64_t data,
                              txl_error *error) {
    w->n_block = view->head.n_block;
    w->block = calloc(w->n_block + 1, sizeof *w->block);
    if (!w->block)
        return txl_fail_memory(error, "the index", (uint64_t)w->n_block * sizeof *w->block);
    uint64_t end = data; /* blocks lie in order, so none can overlap another */
    for (size_t i = 0; i < w->n_block; i++) {
        struct layout_block *block = &w->block[i];
        memcpy(block, view->blocks + i * view->head.block_size, sizeof *block);
        if (block->offset % WEIGHTS_ALIGNMENT != 0 || block->offset < end ||
            block->offset > w->size || block->stored > w->size - block->offset)
            return damaged(w, "a block lies outside its place", error);
        end = block->offset + block->stored;
    }
    return TXL_OK;
}

/* The elements in the mapped file if every block is raw and follows the one before; else NULL. */
static const void *raw_elements(const struct weights *w, const struct weights_tensor *t) {
    for (uint32_t i = 0; i < t->n_block; i++) {
        const struct layout_block *block = &w->block[t->first_block + i];
        uint64_t begin;
        size_t size;
        weights_block_extent(t, i, &begin, &size);
        if (block->encoding != BLOCK_RAW || block->stored != size ||
            block->offset != w->block[t->first_block].offset + begin)
            return NULL;
    }
    return t->n_block ? w->data + w->block[t->first_block].offset : NULL;
}

static txl_status read_tensor(struct weights *w, const struct index_view *view, size_t i,
                              uint32_t *next_block, txl_error *error) {
    struct weights_tensor *t = &w->tensor[i];
    struct layout_tensor record;
    memcpy(&record, view->tensors + i * view->head.tensor_size, sizeof record);
    if (record.name_length == 0 || record.name_length > WEIGHTS_MAX_NAME ||
        record.name_offset > view->head.names_size ||
        record.name_length > view->head.names_size - record.name_offset)
        return damaged(w, "a tensor's name lies outside the index", error);
    t->name = strndup((const char *)view->names + record.name_offset, record.name_length);
    if (!t->name)
        return txl_fail_memory(error, "a tensor's name", record.name_length);
    if (!weights_type_name(record.type))
        return txl_fail(error, TXL_UNSUPPORTED, "%s: tensor %s has the unknown type %u", w->name,
                        t->name, record.type);
    if (record.n_dim > WEIGHTS_MAX_DIM)
        return txl_fail(error, TXL_FORMAT, "%s: tensor %s has %u dimensions, more than %d", w->name,
                        t->name, record.n_dim, WEIGHTS_MAX_DIM);
    t->type = (enum weights_type)record.type;
    t->n_dim = (int)record.n_dim;
    t->n_element = 1;
    for (int d = 0; d < WEIGHTS_MAX_DIM; d++)
        t->shape[d] = d < t->n_dim ? record.shape[d] : 1;
    t->size = weights_expanded_size(t->type, t->n_dim, t->shape);
    if (t->size == 0)
        return txl_fail(error, TXL_FORMAT, "%s: the shape of tensor %s is impossible", w->name,
                        t->name);
    for (int d = 0; d < WEIGHTS_MAX_DIM; d++)
        t->n_element *= t->shape[d];
    t->first_block = record.first_block;
    t->n_block = record.n_block;
    if (t->n_block != (t->size - 1) / weights_block_size(t->type) + 1 ||
        t->first_block != *next_block || t->n_block > w->n_block - t->first_block)
        return txl_fail(error, TXL_FORMAT, "%s: the blocks of tensor %s do not hold its shape",
                        w->name, t->name);
    *next_block += t->n_block;
    for (uint32_t b = 0; b < t->n_block; b++)
        t->stored += w->block[t->first_block + b].stored;
    t->raw = raw_elements(w, t);
    return TXL_OK;
}

static txl_status read_index(struct weights *w, const struct layout_section *section,
                             txl_error *error) {
    struct index_view view;
    txl_status status = view_index(w, section, &view, error);
    if (!status)
        status = read_blocks(w, &view, section->offset + section->size, error);
    if (status)
        return status;
    w->tensor = calloc((size_t)view.head.n_tensor + 1, sizeof *w->tensor);
    if (!w->tensor)
        return txl_fail_memory(error, "the index",
                               (uint64_t)view.head.n_tensor * sizeof *w->tensor);
    uint32_t next_block = 0;
    w->n_tensor = view.head.n_tensor;
    for (size_t i = 0; i < w->n_tensor; i++) {
        status = read_tensor(w, &view, i, &next_block, error);
        if (status)
            return status;
    }
    return TXL_OK;
}

static txl_status read_all(struct weights *w, txl_error *error) {
    struct layout_header header;
    txl_status status = read_header(w, &header, error);
    if (!status)
        status = check_section(w, &header.settings, "settings", error);
    if (!status)
        status = check_section(w, &header.vocabulary, "vocabulary's symbols", error);
    if (!status)
        status = check_section(w, &header.index, "index entries", error);
    if (status)
        return status;
    w->checksum = header.checksum;
    w->settings = strndup((const char *)w->data + header.settings.offset, header.settings.size);
    if (!w->settings)
        return txl_fail_memory(error, "the settings", header.settings.size);
    w->vocabulary = w->data + header.vocabulary.offset;
    w->vocabulary_size = header.vocabulary.size;
    return read_index(w, &header.index, error);
}

static txl_status map_file(struct weights *w, txl_error *error) {
    txl_status status = mapped_file_open(w->name, &w->file, error);
    w->data = w->file.data;
    w->size = (size_t)w->file.size;
    return status;
}

/* Opens a path (data NULL) or memory. */
static txl_status open_either(const char *name, const void *data, size_t size,
                              struct weights **weights, txl_error *error) {
    struct weights *w = calloc(1, sizeof *w);
    if (w)
        w->name = strdup(name);
    if (!w || !w->name) {
        free(w);
        return txl_fail_memory(error, "a weights file", sizeof *w);
    }
    w->data = data;
    w->size = size;
    txl_status status = data ? TXL_OK : map_file(w, error);
    if (!status)
        status = read_all(w, error);
    if (status) {
        weights_close(w);
        return status;
    }
    *weights = w;
    return TXL_OK;
}

txl_status weights_open(const char *path, struct weights **weights, txl_error *error) {
    return open_either(path, NULL, 0, weights, error);
}

txl_status weights_open_memory(const void *data, size_t size, const char *name,
                               struct weights **weights, txl_error *error) {
    if (!data || (uintptr_t)data % WEIGHTS_ALIGNMENT != 0)
        return txl_fail(error, TXL_ARGUMENT, "%s: memory must be aligned to %d bytes", name,
                        WEIGHTS_ALIGNMENT);
    return open_either(name, data, size, weights, error);
}

void weights_close(struct weights *w) {
    if (!w)
        return;
    for (size_t i = 0; i < w->n_tensor; i++)
        free(w->tensor[i].name);
    mapped_file_close(&w->file);
    pages_unmap(w->pages, w->size);
    free(w->tensor);
    free(w->block);
    free(w->settings);
    free(w->name);
    free(w);
}

void weights_release_block(const struct weights *w, const struct weights_tensor *t, uint32_t i) {
    const struct layout_block *block = &w->block[t->first_block + i];
    uintptr_t begin = (uintptr_t)w->data + block->offset, end = begin + block->stored;
    /* Lags one piece, since other threads may still read the blocks just
     * before this one. */
    begin = begin / RELEASE_SIZE * RELEASE_SIZE - RELEASE_SIZE;
    end = end / RELEASE_SIZE * RELEASE_SIZE - RELEASE_SIZE;
    if (begin < (uintptr_t)w->data)
        begin = (uintptr_t)w->data;
    if (w->file.data && begin < end)
        madvise((void *)begin, end - begin, MADV_DONTNEED);
}

const struct weights_tensor *weights_find(const struct weights *w, const char *name) {
    for (size_t i = 0; i < w->n_tensor; i++)
        if (strcmp(w->tensor[i].name, name) == 0)
            return &w->tensor[i];
    return NULL;
}

void weights_block_extent(const struct weights_tensor *t, uint32_t i, uint64_t *begin,
                          size_t *size) {
    const size_t most = weights_block_size(t->type);
    *begin = (uint64_t)i * most;
    uint64_t left = t->size - *begin;
    *size = left < most ? (size_t)left : most;
}

/* Checks the scales of a matrix that lie in the block, or its rows' factors: finite and not
 * negative. */
static txl_status check_scales(const struct weights_tensor *t, uint64_t begin, size_t size,
                               const uint8_t *out, txl_error *error) {
    uint64_t scales = weights_in_tiles(t->type)
                          ? tiles_bytes(weights_top(t->type), t->shape[0], t->shape[1])
                          : weights_scales_offset(t->n_element);
    uint64_t end = begin + size;
    for (uint64_t at = begin > scales ? begin : scales; at < end; at += sizeof(float)) {
        float scale;
        memcpy(&scale, out + (at - begin), sizeof scale);
        if (!(scale >= 0) || isinf(scale))
            return txl_fail(error, TXL_FORMAT, "scale %" PRIu64 " is %g",
                            (at - scales) / sizeof scale, (double)scale);
    }
    return TXL_OK;
}

txl_status weights_read_block(const struct weights *w, const struct weights_tensor *t, uint32_t i,
                              struct block_coder *coder, void *out, txl_error *error) {
    const struct layout_block *block = &w->block[t->first_block + i];
    uint64_t begin;
    size_t size;
    weights_block_extent(t, i, &begin, &size);
    txl_error inner;
    txl_status status =
        block_decode(coder, t->type, block, w->data + block->offset, out, size, &inner);
    if (!status && !weights_is_float(t->type))
        status = check_scales(t, begin, size, out, &inner);
    if (status)
        return txl_fail(error, status, "%s: tensor %s, at byte %" PRIu64 " of the file: %s",
                        w->name, t->name, block->offset, inner.message);
    return TXL_OK;
}

/* ---- Verification ------------------------------------------------------------------------- */

txl_status weights_verify(const struct weights *w, bool (*progress)(void *, uint64_t, uint64_t),
                          void *context, txl_error *error) {
    txl_status status = TXL_OK;
    struct block_coder *coder = block_coder_new(false);
    uint8_t *out = malloc(WEIGHTS_BLOCK_SIZE);
    if (!coder || !out)
        status = txl_fail_memory(error, "a block", WEIGHTS_BLOCK_SIZE);
    uint64_t done = 0, total = 0;
    for (size_t i = 0; i < w->n_tensor; i++)
        total += w->tensor[i].stored;
    for (size_t i = 0; i < w->n_tensor && !status; i++) {
        const struct weights_tensor *t = &w->tensor[i];
        for (uint32_t b = 0; b < t->n_block && !status; b++) {
            status = weights_read_block(w, t, b, coder, out, error);
            done += w->block[t->first_block + b].stored;
            if (!status && progress && !progress(context, done, total))
                status = txl_fail(error, TXL_STOPPED, "%s: stopped", w->name);
        }
    }
    free(out);
    block_coder_free(coder);
    return status;
}

txl_status txl_file_verify(const char *path, bool (*progress)(void *, uint64_t, uint64_t),
                           void *context, txl_error *error) {
    struct weights *w;
    txl_status status = weights_open(path, &w, error);
    if (status)
        return status;
    status = weights_verify(w, progress, context, error);
    weights_close(w);
    return status;
}

txl_status txl_memory_verify(const void *data, size_t size, const char *name,
                             bool (*progress)(void *, uint64_t, uint64_t), void *context,
                             txl_error *error) {
    struct weights *w;
    txl_status status = weights_open_memory(data, size, name, &w, error);
    if (status)
        return status;
    status = weights_verify(w, progress, context, error);
    weights_close(w);
    return status;
}

txl_status txl_file_checksum(const char *path, uint64_t *checksum, txl_error *error) {
    struct weights *w;
    txl_status status = weights_open(path, &w, error);
    if (status)
        return status;
    *checksum = w->checksum;
    weights_close(w);
    return TXL_OK;
}
