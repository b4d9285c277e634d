/* Writing weights files.  The index precedes the data, and its size follows from the tensors'
 * shapes alone.  So the blocks are written first, one after the other, after a gap that header,
 * settings, vocabulary and index fill at the end. */
#include "lib/base/error.h"
#include "lib/base/numbers.h"
#include "lib/base/output_file.h"
#include "lib/base/threads.h"
#include "weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

/* ---- The tensors -------------------------------------------------------------------------- */

enum {
    MAX_SLOT = 32,
    ROUNDED_ELEMENTS = 1 << 20 /* that are rounded to tiles together, about */
};

/* One block on its way from the source to the file. */
struct slot {
    const struct weights_source *source;
    uint64_t begin; /* in the tensor, in expanded bytes */
    size_t size;
    uint64_t first; /* the first element that is read, */
    size_t count;   /* their number, */
    float
        *elements; /* and the elements; for q8 with all that share a scale with one of the block */
    void *narrow;  /* the block's bytes */
    void *stored;
    struct layout_block block;
    struct block_coder *coder;
    txl_status status;
    txl_error error;
};

struct writer {
    const struct weights_contents *contents;
    struct output_file *out;
    struct layout_tensor *tensor;
    struct layout_block *block;
    uint32_t n_block, done_block;
    uint64_t *expanded; /* bytes of each tensor */
    float *scale;       /* of the q8 matrix that is being written */
    uint8_t *tiles;     /* the matrix in tiles that is being written, with its factors */
    uint64_t end;       /* of the data written so far */
    uint64_t done_bytes, total_bytes; /* expanded */
    struct pool *pool;
    struct slot slot[MAX_SLOT];
    int n_slot, filled;
};

static txl_status refuse_element(struct slot *slot, size_t i, const char *what) {
    return txl_fail(&slot->error, TXL_FORMAT, "tensor %s: element %" PRIu64 " is %g; %s",
                    slot->source->name, slot->first + i, (double)slot->elements[i], what);
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* Bytes of the elements, before the padding and the scales; of a type that is not in tiles. */
static uint64_t elements_end(const struct weights_source *source) {
    uint64_t end = weights_type_size(source->type);
    for (int d = 0; d < source->n_dim; d++)
        end *= source->shape[d];
    return end;
}

/* Whether a block that ends at `end` contains scales. */
static bool has_scales(const struct weights_source *source, uint64_t end) {
    return source->type == WEIGHTS_Q8 && end > weights_scales_offset(elements_end(source));
}

/* Finds the range of elements to read for the slot's block. */
static void choose_elements(struct slot *slot) {
    const struct weights_source *source = slot->source;
    size_t element = weights_type_size(source->type);
    uint64_t end = smaller(slot->begin + slot->size, elements_end(source));
    slot->first = slot->begin / element;
    slot->count = end > slot->begin ? (size_t)(end - slot->begin) / element : 0;
    if (source->type == WEIGHTS_Q8 && slot->count > 0) {
        uint64_t n_col = source->shape[1], column = (end - 1) % n_col;
        slot->first -= slot->first % n_col % Q8_BLOCK;
        end += smaller(Q8_BLOCK - column % Q8_BLOCK, n_col - column) - 1;
        slot->count = (size_t)(end - slot->first);
    }
}

/* Rounds the elements to q8 and keeps their scales.  Columns that share a scale may lie in two
 * slots; the first of the two keeps the scale. */
static void narrow_q8(const struct slot *slot, float *scale) {
    uint64_t n_col = slot->source->shape[1], block_end = slot->begin + slot->size;
    int8_t *out = slot->narrow;
    memset(out, 0, slot->size);
    for (size_t i = 0, n; i < slot->count; i += n) {
        const float *x = slot->elements + i;
        uint64_t first = slot->first + i, row = first / n_col, column = first % n_col;
        n = (size_t)smaller(Q8_BLOCK, n_col - column);
        float s = q8_scale(x, n);
        if (first >= slot->begin)
            scale[row * q8_blocks(n_col) + column / Q8_BLOCK] = s;
        for (size_t k = 0; k < n; k++)
            if (first + k >= slot->begin && first + k < block_end)
                out[first + k - slot->begin] = q8_of_float(x[k], s);
    }
    if (has_scales(slot->source, block_end)) {
        uint64_t scales = weights_scales_offset(elements_end(slot->source));
        uint64_t from = larger(slot->begin, scales);
        memcpy(out + (from - slot->begin), (const char *)scale + (from - scales),
               (size_t)(block_end - from));
    }
}

/* Narrows the elements to the tensor's type. */
static txl_status narrow_elements(struct slot *slot, float *scale) {
    static const struct {
        uint16_t infinity;
        const char *remedy;
    } ends[] = {[WEIGHTS_F16] = {0x7c00, "f16 ends at 65504: use bf16 or f32"},
                [WEIGHTS_BF16] = {0x7f80, "bf16 ends there: use f32"},
                [WEIGHTS_Q8] = {0, NULL}};
    const enum weights_type type = slot->source->type;
    const uint16_t *half = slot->narrow;
    for (size_t i = 0; i < slot->count; i++)
        if (!isfinite(slot->elements[i]))
            return refuse_element(slot, i, "weights must be finite");
    if (type == WEIGHTS_Q8)
        narrow_q8(slot, scale);
    else
        weights_narrow(type, slot->elements, slot->count, slot->narrow);
    for (size_t i = 0; ends[type].remedy && i < slot->count; i++)
        if ((half[i] & 0x7fff) == ends[type].infinity)
            return refuse_element(slot, i, ends[type].remedy);
    return TXL_OK;
}

static void encode_slot(void *context, int i, int thread) {
    (void)thread;
    struct writer *w = context;
    struct slot *slot = &w->slot[i];
    const enum weights_type type = slot->source->type;
    const void *bytes = weights_in_tiles(type) ? w->tiles + slot->begin : slot->narrow;
    slot->status = weights_in_tiles(type) ? TXL_OK : narrow_elements(slot, w->scale);
    if (!slot->status)
        slot->status = block_encode(slot->coder, type, w->contents->level, bytes, slot->size,
                                    slot->stored, &slot->block, &slot->error);
}

static txl_status report_progress(const struct writer *w, txl_error *error) {
    const struct weights_contents *c = w->contents;
    if (c->progress && !c->progress(c->progress_context, w->done_bytes, w->total_bytes))
        return txl_fail(error, TXL_STOPPED, "%s: stopped", w->out->path);
    return TXL_OK;
}

/* Encodes what the slots hold and writes it. */
static txl_status flush_slots(struct writer *w, txl_error *error) {
    pool_run(w->pool, w->filled, encode_slot, w);
    for (int i = 0; i < w->filled; i++) {
        struct slot *slot = &w->slot[i];
        if (slot->status)
            return txl_fail(error, slot->status, "%s", slot->error.message);
        slot->block.offset = weights_aligned(w->end);
        txl_status status =
            output_file_write(w->out, slot->stored, slot->block.stored, slot->block.offset, error);
        if (status)
            return status;
        w->end = slot->block.offset + slot->block.stored;
        w->block[w->done_block++] = slot->block;
        w->done_bytes += slot->size;
    }
    w->filled = 0;
    return report_progress(w, error);
}

/* Rows of tiles that are rounded together, a task each. */
struct rounding {
    const struct weights_source *source;
    const struct tile_calibration *calibration;
    size_t n_row; /* of all tasks together */
    const float *x;
    double *scratch; /* tiles_scratch() for each thread */
    uint8_t *tiles;
    float *factors;
    atomic_bool too_large;
};

static void round_tiles(void *context, int i, int thread) {
    struct rounding *r = context;
    const size_t n_col = (size_t)r->source->shape[1], first = (size_t)i * TILE_HEIGHT;
    const size_t n = r->n_row - first < TILE_HEIGHT ? r->n_row - first : TILE_HEIGHT;
    const int top = weights_top(r->source->type);
    double *scratch = r->scratch + (size_t)thread * tiles_scratch(n_col, r->calibration);
    if (!tiles_round(top, n, n_col, r->x + first * n_col, r->calibration, scratch,
                     r->tiles + (size_t)i * tile_row_bytes(top, n_col), r->factors + 2 * first))
        r->too_large = true;
}

/* Reads rows [first, first + r->n_row) and rounds them to w->tiles. */
static txl_status round_rows(struct writer *w, struct rounding *r, uint64_t first, float *x,
                             txl_error *error) {
    const struct weights_source *source = r->source;
    const uint64_t n_col = source->shape[1];
    const int top = weights_top(source->type);
    const size_t count = r->n_row * (size_t)n_col;
    txl_status status = source->read(source->context, first * n_col, count, x, error);
    for (size_t i = 0; i < count && !status; i++)
        if (!isfinite(x[i]))
            status = txl_fail(error, TXL_FORMAT,
                              "tensor %s: element %" PRIu64 " is %g; weights must be finite",
                              source->name, first * n_col + i, (double)x[i]);
    if (status)
        return status;
    r->x = x;
    r->tiles = w->tiles + first / TILE_HEIGHT * tile_row_bytes(top, (size_t)n_col);
    r->factors =
        (float *)(void *)(w->tiles + tiles_bytes(top, source->shape[0], n_col)) + 2 * first;
    pool_run(w->pool, (int)((r->n_row + TILE_HEIGHT - 1) / TILE_HEIGHT), round_tiles, r);
    return r->too_large
               ? txl_fail(error, TXL_FORMAT, "tensor %s: an element is too large for %s: use f32",
                          source->name, weights_type_name(source->type))
               : report_progress(w, error);
}

/* Rounds a matrix to w->tiles as a whole, because a row's factors depend on all of it. */
static txl_status round_matrix(struct writer *w, const struct weights_source *source,
                               txl_error *error) {
    const size_t n_col = (size_t)source->shape[1], threads = (size_t)pool_size(w->pool);
    const uint64_t n_row = source->shape[0];
    size_t rows = ROUNDED_ELEMENTS / (TILE_HEIGHT * n_col);
    rows = TILE_HEIGHT * (rows < threads ? threads : rows);
    struct rounding r = {.source = source};
    txl_status status = flush_slots(w, error); /* they may be in w->tiles */
    if (!status && source->calibrate)
        status = source->calibrate(source->context, &r.calibration, error);
    if (status)
        return status;
    float *x = calloc(rows * n_col, sizeof *x);
    r.scratch = calloc(threads * tiles_scratch(n_col, r.calibration), sizeof *r.scratch);
    if (!x || !r.scratch)
        status = txl_fail_memory(error, "rows of a matrix", rows * n_col * sizeof *x);
    for (uint64_t first = 0; first < n_row && !status; first += rows) {
        r.n_row = (size_t)smaller(rows, n_row - first);
        status = round_rows(w, &r, first, x, error);
    }
    free(r.scratch);
    free(x);
    return status;
}

/* Copies a block as it is stored, after those that wait in the slots. */
static txl_status copy_block(struct writer *w, size_t t, uint64_t begin, txl_error *error) {
    const struct weights_source *source = &w->contents->source[t];
    const size_t most = weights_block_size(source->type);
    struct layout_block block =
        source->from->block[source->copied->first_block + (size_t)(begin / most)];
    const uint8_t *bytes = source->from->data + block.offset;
    txl_status status = flush_slots(w, error);
    if (!status && XXH3_64bits(bytes, block.stored) != block.checksum)
        status =
            txl_fail(error, TXL_FORMAT, "%s: tensor %s, at byte %" PRIu64 " of the file: damaged",
                     source->from->name, source->name, block.offset);
    block.offset = weights_aligned(w->end);
    if (!status)
        status = output_file_write(w->out, bytes, block.stored, block.offset, error);
    w->end = block.offset + block.stored;
    w->block[w->done_block++] = block;
    w->done_bytes += smaller(most, w->expanded[t] - begin);
    return status;
}

/* Puts a block into a slot.  A block with scales needs those of all blocks before it, so these are
 * flushed first; and it is flushed at once, before the next matrix overwrites the scales. */
static txl_status add_block(struct writer *w, size_t t, uint64_t begin, txl_error *error) {
    const struct weights_source *source = &w->contents->source[t];
    if (source->from)
        return copy_block(w, t, begin, error);
    size_t size = (size_t)smaller(weights_block_size(source->type), w->expanded[t] - begin);
    bool tiled = weights_in_tiles(source->type), alone = has_scales(source, begin + size);
    txl_status status = tiled && begin == 0 ? round_matrix(w, source, error)
                        : alone             ? flush_slots(w, error)
                                            : TXL_OK;
    if (status)
        return status;
    struct slot *slot = &w->slot[w->filled++];
    slot->source = source;
    slot->begin = begin;
    slot->size = size;
    if (!tiled)
        choose_elements(slot);
    if (!tiled && slot->count > 0)
        status = source->read(source->context, slot->first, slot->count, slot->elements, error);
    if (!status && (alone || w->filled == w->n_slot))
        status = flush_slots(w, error);
    return status;
}

static txl_status write_tensors(struct writer *w, txl_error *error) {
    txl_status status = TXL_OK;
    for (size_t t = 0; t < w->contents->n_source && !status; t++)
        for (uint64_t begin = 0; begin < w->expanded[t] && !status;
             begin += weights_block_size(w->contents->source[t].type))
            status = add_block(w, t, begin, error);
    return status ? status : flush_slots(w, error);
}

/* ---- The sections before them ------------------------------------------------------------- */

static txl_status plan_tensors(struct writer *w, txl_error *error) {
    size_t n = w->contents->n_source;
    w->tensor = calloc(n + 1, sizeof *w->tensor);
    w->expanded = calloc(n + 1, sizeof *w->expanded);
    if (!w->tensor || !w->expanded)
        return txl_fail_memory(error, "the index", n * sizeof *w->tensor);
    uint64_t n_block = 0;
    uint64_t scales = 0, tiles = 0; /* bytes; the most of any matrix */
    uint32_t names = 0;
    for (size_t t = 0; t < n; t++) {
        const struct weights_source *source = &w->contents->source[t];
        struct layout_tensor *record = &w->tensor[t];
        for (int d = 0; d < WEIGHTS_MAX_DIM; d++)
            record->shape[d] = d < source->n_dim ? source->shape[d] : 1;
        uint64_t size = weights_expanded_size(source->type, source->n_dim, record->shape);
        if (size == 0)
            return txl_fail(error, TXL_FORMAT, "tensor %s has an impossible shape", source->name);
        if (source->type == WEIGHTS_Q8 && !source->from)
            scales = larger(scales, size - weights_scales_offset(elements_end(source)));
        if (weights_in_tiles(source->type) && !source->from)
            tiles = larger(tiles, size);
        w->expanded[t] = size;
        w->total_bytes += size;
        record->name_offset = names;
        record->name_length = (uint32_t)strlen(source->name);
        record->type = source->type;
        record->n_dim = (uint32_t)source->n_dim;
        record->first_block = (uint32_t)n_block;
        const uint64_t blocks = (size - 1) / weights_block_size(source->type) + 1;
        record->n_block = (uint32_t)blocks;
        names += record->name_length;
        n_block += blocks;
        if (n_block > UINT32_MAX)
            return txl_fail(error, TXL_UNSUPPORTED, "the model has more than 2^32 blocks");
    }
    w->n_block = (uint32_t)n_block;
    w->block = calloc((size_t)n_block + 1, sizeof *w->block);
    if (!w->block)
        return txl_fail_memory(error, "the index", n_block * sizeof *w->block);
    w->scale = malloc((size_t)scales + 1);
    if (!w->scale)
        return txl_fail_memory(error, "the scales", scales);
    w->tiles = tiles <= SIZE_MAX / 2 ? malloc((size_t)tiles + 1) : NULL;
    return w->tiles ? TXL_OK : txl_fail_memory(error, "a matrix in tiles", tiles);
}

/* The index as it lies in the file: head, tensors, blocks, names. */
static uint8_t *pack_index(const struct writer *w, size_t *size) {
    const struct weights_contents *c = w->contents;
    size_t names = 0;
    for (size_t t = 0; t < c->n_source; t++)
        names += w->tensor[t].name_length;
    size_t tensors = c->n_source * sizeof *w->tensor, blocks = w->n_block * sizeof *w->block;
    struct layout_index head = {.n_tensor = (uint32_t)c->n_source,
                                .tensor_size = sizeof *w->tensor,
                                .n_block = w->n_block,
                                .block_size = sizeof *w->block,
                                .names_size = (uint32_t)names,
                                .expanded_block = WEIGHTS_BLOCK_SIZE};
    *size = sizeof head + tensors + blocks + names;
    uint8_t *index = malloc(*size);
    if (!index)
        return NULL;
    memcpy(index, &head, sizeof head);
    memcpy(index + sizeof head, w->tensor, tensors);
    memcpy(index + sizeof head + tensors, w->block, blocks);
    uint8_t *name = index + sizeof head + tensors + blocks;
    for (size_t t = 0; t < c->n_source; t++) {
        memcpy(name, c->source[t].name, w->tensor[t].name_length);
        name += w->tensor[t].name_length;
    }
    return index;
}

/* Lays the sections out, after which the blocks begin; `final`: they are there, and the sections
 * and the header are written. */
static txl_status write_sections(struct writer *w, bool final, txl_error *error) {
    const struct weights_contents *c = w->contents;
    size_t index_size;
    uint8_t *index = pack_index(w, &index_size);
    if (!index)
        return txl_fail_memory(error, "the index", index_size);
    struct {
        const void *bytes;
        struct layout_section place;
    } section[] = {
        {c->settings, {.size = strlen(c->settings)}},
        {c->vocabulary, {.size = c->vocabulary_size}},
        {index, {.size = index_size}},
    };
    uint64_t end = sizeof(struct layout_header);
    txl_status status = TXL_OK;
    for (int i = 0; i < 3; i++) {
        struct layout_section *place = &section[i].place;
        place->offset = weights_aligned(end);
        place->checksum = XXH3_64bits(section[i].bytes, place->size);
        end = place->offset + place->size;
        if (final && !status)
            status = output_file_write(w->out, section[i].bytes, place->size, place->offset, error);
    }
    if (!final)
        w->end = weights_aligned(end);
    if (final && !status) {
        struct layout_header header = {.magic = LAYOUT_MAGIC,
                                       .major = LAYOUT_MAJOR,
                                       .minor = LAYOUT_MINOR,
                                       .header_size = sizeof header,
                                       .file_size = w->end,
                                       .settings = section[0].place,
                                       .vocabulary = section[1].place,
                                       .index = section[2].place};
        header.checksum = XXH3_64bits(&header, offsetof(struct layout_header, checksum));
        status = output_file_write(w->out, &header, sizeof header, 0, error);
    }
    free(index);
    return status;
}

/* ---- All of it ---------------------------------------------------------------------------- */

static txl_status make_slots(struct writer *w, txl_error *error) {
    w->pool = pool_new(w->contents->threads);
    if (!w->pool)
        return txl_fail(error, TXL_MEMORY, "threads cannot be started");
    int wanted = 2 * pool_size(w->pool);
    w->n_slot = wanted < MAX_SLOT ? wanted : MAX_SLOT;
    for (int i = 0; i < w->n_slot; i++) {
        struct slot *slot = &w->slot[i];
        slot->elements = malloc((WEIGHTS_BLOCK_SIZE + 2 * Q8_BLOCK) * sizeof(float));
        slot->narrow = malloc(WEIGHTS_BLOCK_SIZE);
        slot->stored = malloc(block_bound(WEIGHTS_BLOCK_SIZE));
        slot->coder = block_coder_new(true);
        if (!slot->elements || !slot->narrow || !slot->stored || !slot->coder)
            return txl_fail_memory(error, "a block", 6 * (uint64_t)WEIGHTS_BLOCK_SIZE);
    }
    return TXL_OK;
}

static void free_writer(struct writer *w) {
    for (int i = 0; i < MAX_SLOT; i++) {
        free(w->slot[i].elements);
        free(w->slot[i].narrow);
        free(w->slot[i].stored);
        block_coder_free(w->slot[i].coder);
    }
    pool_free(w->pool);
    free(w->tensor);
    free(w->block);
    free(w->expanded);
    free(w->scale);
    free(w->tiles);
    free(w);
}

txl_status weights_write_into(struct output_file *out, const struct weights_contents *contents,
                              txl_error *error) {
    struct writer *w = calloc(1, sizeof *w);
    if (!w)
        return txl_fail_memory(error, "the writer", sizeof *w);
    w->contents = contents;
    w->out = out;
    txl_status status = plan_tensors(w, error);
    if (!status)
        status = make_slots(w, error);
    if (!status)
        status = write_sections(w, false, error);
    if (!status)
        status = write_tensors(w, error);
    if (!status)
        status = write_sections(w, true, error);
    free_writer(w);
    return status;
}

txl_status weights_write(const char *path, const struct weights_contents *contents,
                         txl_error *error) {
    struct output_file out;
    txl_status status = output_file_open(&out, path, error);
    if (!status)
        status = weights_write_into(&out, contents, error);
    if (!status)
        status = output_file_commit(&out, error);
    output_file_close(&out);
    return status;
}

txl_status weights_restate(const struct weights *w, const char *settings, void **copy, size_t *size,
                           txl_error *error) {
    struct layout_header header;
    struct layout_index index;
    struct layout_block block;
    memcpy(&header, w->data, sizeof header);
    const uint64_t start = header.settings.offset, from = header.vocabulary.offset;
    if (start < sizeof header || from < start + header.settings.size ||
        header.index.offset < from || from % WEIGHTS_ALIGNMENT != 0)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: its sections are in another order than txl's",
                        w->name);
    header.settings.size = strlen(settings);
    header.settings.checksum = XXH3_64bits(settings, header.settings.size);
    const uint64_t to = weights_aligned(start + header.settings.size);
    const uint64_t shift = to - from; /* modulo 2^64: it may be negative */
    *size = w->size + shift;
    uint8_t *out = *copy = aligned_alloc(WEIGHTS_ALIGNMENT, weights_aligned(*size));
    if (!out)
        return txl_fail_memory(error, "a copy of the model", *size);
    memset(out, 0, (size_t)to);
    memcpy(out, w->data, start);
    memcpy(out + start, settings, header.settings.size);
    memcpy(out + to, w->data + from, w->size - from);

    header.file_size = *size;
    header.vocabulary.offset += shift;
    header.index.offset += shift;
    uint8_t *const place = out + header.index.offset;
    memcpy(&index, place, sizeof index);
    uint8_t *record = place + sizeof index + (size_t)index.n_tensor * index.tensor_size;
    for (size_t i = 0; i < w->n_block; i++, record += index.block_size) {
        block = w->block[i];
        block.offset += shift;
        memcpy(record, &block, sizeof block);
    }
    header.index.checksum = XXH3_64bits(place, header.index.size);
    header.checksum = XXH3_64bits(&header, offsetof(struct layout_header, checksum));
    memcpy(out, &header, sizeof header);
    return TXL_OK;
}
