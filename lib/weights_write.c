/* Writing weights files.  The index precedes the data, and its size follows from the tensors'
 * shapes alone: so its place is left free, the blocks are written one after the other, and header,
 * settings, vocabulary and index are filled in at the end. */
#include "error.h"
#include "half.h"
#include "threads.h"
#include "weights.h"
#include "weights_layout.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* ---- The output file: nameless while it is written, where the system can do that ---------- */

struct output {
    const char *path;
    int file;
    char *temporary; /* its name, or NULL while it has none */
};

static txl_status output_failed(const struct output *out, const char *doing, txl_error *error) {
    return txl_fail(error, TXL_IO, "%s: %s: %s", out->path, doing, strerror(errno));
}

static txl_status output_open(struct output *out, const char *path, txl_error *error) {
    *out = (struct output){.path = path, .file = -1};
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return txl_fail(error, TXL_IO, "%s: exists and is not a regular file", path);
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    size_t size = strlen(path) + sizeof ".XXXXXX";
    char *temporary = malloc(size);
    if (!folder || !temporary) {
        free(folder);
        free(temporary);
        return txl_fail_memory(error, "a file name", size);
    }
    snprintf(temporary, size, "%s.XXXXXX", path);
    out->file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    free(folder);
    if (out->file < 0) {
        out->file = mkostemp(temporary, O_CLOEXEC);
        if (out->file >= 0) {
            mode_t mask = umask(0);
            umask(mask);
            fchmod(out->file, 0666 & ~mask);
            out->temporary = temporary;
            return TXL_OK;
        }
    }
    free(temporary);
    return out->file < 0 ? output_failed(out, "cannot be created", error) : TXL_OK;
}

/* Gives a nameless file a temporary name. */
static txl_status output_link(struct output *out, txl_error *error) {
    char from[64];
    snprintf(from, sizeof from, "/proc/self/fd/%d", out->file);
    size_t size = strlen(out->path) + 32;
    char *name = malloc(size);
    if (!name)
        return txl_fail_memory(error, "a file name", size);
    for (int i = 0; i < 100; i++) {
        snprintf(name, size, "%s.%ld-%d", out->path, (long)getpid(), i);
        if (linkat(AT_FDCWD, from, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0) {
            out->temporary = name;
            return TXL_OK;
        }
        if (errno != EEXIST)
            break;
    }
    free(name);
    return output_failed(out, "cannot be created", error);
}

static txl_status output_commit(struct output *out, txl_error *error) {
    if (fsync(out->file) < 0)
        return output_failed(out, "cannot be written", error);
    if (!out->temporary) {
        txl_status status = output_link(out, error);
        if (status)
            return status;
    }
    if (rename(out->temporary, out->path) < 0)
        return output_failed(out, "cannot be renamed into place", error);
    free(out->temporary);
    out->temporary = NULL;
    return TXL_OK;
}

/* Closes the file; what is not committed is gone. */
static void output_close(struct output *out) {
    if (out->temporary)
        unlink(out->temporary);
    free(out->temporary);
    if (out->file >= 0)
        close(out->file);
}

static txl_status output_write(struct output *out, const void *data, size_t size, uint64_t offset,
                               txl_error *error) {
    const char *bytes = data;
    while (size > 0) {
        ssize_t n = pwrite(out->file, bytes, size, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return output_failed(out, "cannot be written", error);
        bytes += n;
        size -= (size_t)n;
        offset += (uint64_t)n;
    }
    return TXL_OK;
}

/* ---- The tensors -------------------------------------------------------------------------- */

enum { MAX_SLOT = 32 };

/* One block on its way from the source to the file. */
struct slot {
    const struct weights_source *source;
    uint64_t first;  /* element of the tensor */
    float *elements; /* as read */
    size_t count;
    void *narrow; /* the elements in the tensor's type */
    void *stored;
    struct block block;
    struct block_coder *coder;
    txl_status status;
    txl_error error;
};

struct writer {
    const struct weights_contents *contents;
    struct output out;
    struct layout_tensor *tensor;
    struct layout_block *block;
    uint32_t n_block, done_block;
    uint64_t *elements;               /* of each tensor */
    uint64_t end;                     /* of the data written so far */
    uint64_t done_bytes, total_bytes; /* expanded */
    struct pool *pool;
    struct slot slot[MAX_SLOT];
    int n_slot, filled;
};

static uint64_t align_up(uint64_t offset) {
    return (offset + WEIGHTS_ALIGNMENT - 1) / WEIGHTS_ALIGNMENT * WEIGHTS_ALIGNMENT;
}

static txl_status refuse_element(struct slot *slot, size_t i, const char *what) {
    return txl_fail(&slot->error, TXL_FORMAT, "tensor %s: element %" PRIu64 " is %g; %s",
                    slot->source->name, slot->first + i, (double)slot->elements[i], what);
}

/* Narrows the elements to the tensor's type. */
static txl_status narrow_elements(struct slot *slot) {
    const float *x = slot->elements;
    uint16_t *half = slot->narrow;
    for (size_t i = 0; i < slot->count; i++) {
        if (!isfinite(x[i]))
            return refuse_element(slot, i, "weights must be finite");
    }
    switch (slot->source->type) {
    case WEIGHTS_F32:
        memcpy(slot->narrow, x, slot->count * sizeof *x);
        break;
    case WEIGHTS_F16:
        for (size_t i = 0; i < slot->count; i++) {
            half[i] = f16_of_float(x[i]);
            if ((half[i] & 0x7fff) == 0x7c00)
                return refuse_element(slot, i, "f16 ends at 65504: use --type bf16 or f32");
        }
        break;
    case WEIGHTS_BF16:
        for (size_t i = 0; i < slot->count; i++) {
            half[i] = bf16_of_float(x[i]);
            if ((half[i] & 0x7fff) == 0x7f80)
                return refuse_element(slot, i, "bf16 ends there: use --type f32");
        }
        break;
    }
    return TXL_OK;
}

static void encode_slot(void *context, int i, int thread) {
    (void)thread;
    struct writer *w = context;
    struct slot *slot = &w->slot[i];
    slot->status = narrow_elements(slot);
    if (slot->status)
        return;
    size_t size = slot->count * weights_type_size(slot->source->type);
    slot->status = block_encode(slot->coder, slot->source->type, w->contents->level, slot->narrow,
                                size, slot->stored, &slot->block, &slot->error);
}

/* Encodes what the slots hold and writes it. */
static txl_status flush_slots(struct writer *w, txl_error *error) {
    pool_run(w->pool, w->filled, encode_slot, w);
    for (int i = 0; i < w->filled; i++) {
        struct slot *slot = &w->slot[i];
        if (slot->status)
            return txl_fail(error, slot->status, "%s", slot->error.message);
        uint64_t offset = align_up(w->end);
        txl_status status = output_write(&w->out, slot->stored, slot->block.stored, offset, error);
        if (status)
            return status;
        w->end = offset + slot->block.stored;
        w->block[w->done_block++] = (struct layout_block){.offset = offset,
                                                          .checksum = slot->block.checksum,
                                                          .stored = slot->block.stored,
                                                          .first_part = slot->block.first_part,
                                                          .encoding = slot->block.encoding};
        w->done_bytes += slot->count * weights_type_size(slot->source->type);
    }
    w->filled = 0;
    const struct weights_contents *c = w->contents;
    if (c->progress && !c->progress(c->progress_context, w->done_bytes, w->total_bytes))
        return txl_fail(error, TXL_STOPPED, "%s: stopped", w->out.path);
    return TXL_OK;
}

static txl_status write_tensors(struct writer *w, txl_error *error) {
    txl_status status = TXL_OK;
    for (size_t t = 0; t < w->contents->n_source && !status; t++) {
        const struct weights_source *source = &w->contents->source[t];
        size_t in_block = WEIGHTS_BLOCK_SIZE / weights_type_size(source->type);
        for (uint64_t first = 0; first < w->elements[t] && !status; first += in_block) {
            struct slot *slot = &w->slot[w->filled++];
            uint64_t left = w->elements[t] - first;
            slot->source = source;
            slot->first = first;
            slot->count = left < in_block ? (size_t)left : in_block;
            status = source->read(source->context, first, slot->count, slot->elements, error);
            if (!status && w->filled == w->n_slot)
                status = flush_slots(w, error);
        }
    }
    return status ? status : flush_slots(w, error);
}

/* ---- The sections before them ------------------------------------------------------------- */

static txl_status plan_tensors(struct writer *w, txl_error *error) {
    size_t n = w->contents->n_source;
    w->tensor = calloc(n + 1, sizeof *w->tensor);
    w->elements = calloc(n + 1, sizeof *w->elements);
    if (!w->tensor || !w->elements)
        return txl_fail_memory(error, "the index", n * sizeof *w->tensor);
    uint64_t n_block = 0;
    uint32_t names = 0;
    for (size_t t = 0; t < n; t++) {
        const struct weights_source *source = &w->contents->source[t];
        struct layout_tensor *record = &w->tensor[t];
        uint64_t elements = 1;
        size_t element = weights_type_size(source->type);
        for (int d = 0; d < WEIGHTS_MAX_DIM; d++) {
            record->shape[d] = d < source->n_dim ? source->shape[d] : 1;
            if (record->shape[d] == 0 ||
                elements > (uint64_t)INT64_MAX / element / record->shape[d])
                return txl_fail(error, TXL_FORMAT, "tensor %s has an impossible shape",
                                source->name);
            elements *= record->shape[d];
        }
        w->elements[t] = elements;
        w->total_bytes += elements * element;
        record->name_offset = names;
        record->name_length = (uint32_t)strlen(source->name);
        record->type = source->type;
        record->n_dim = (uint32_t)source->n_dim;
        record->first_block = (uint32_t)n_block;
        record->n_block = (uint32_t)((elements * element - 1) / WEIGHTS_BLOCK_SIZE + 1);
        names += record->name_length;
        n_block += (elements * element - 1) / WEIGHTS_BLOCK_SIZE + 1;
        if (n_block > UINT32_MAX)
            return txl_fail(error, TXL_UNSUPPORTED, "the model has more than 2^32 blocks");
    }
    w->n_block = (uint32_t)n_block;
    w->block = calloc((size_t)n_block + 1, sizeof *w->block);
    return w->block ? TXL_OK : txl_fail_memory(error, "the index", n_block * sizeof *w->block);
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

/* Lays the sections out; `final` writes them and the header too.  *data: where the blocks begin. */
static txl_status write_sections(struct writer *w, bool final, uint64_t *data, txl_error *error) {
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
        place->offset = align_up(end);
        place->checksum = XXH3_64bits(section[i].bytes, place->size);
        end = place->offset + place->size;
        if (final && !status)
            status = output_write(&w->out, section[i].bytes, place->size, place->offset, error);
    }
    *data = align_up(end);
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
        status = output_write(&w->out, &header, sizeof header, 0, error);
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
        slot->elements = malloc(WEIGHTS_BLOCK_SIZE / 2 * sizeof(float));
        slot->narrow = malloc(WEIGHTS_BLOCK_SIZE);
        slot->stored = malloc(block_bound(WEIGHTS_BLOCK_SIZE));
        slot->coder = block_coder_new();
        if (!slot->elements || !slot->narrow || !slot->stored || !slot->coder)
            return txl_fail_memory(error, "a block", 4 * (uint64_t)WEIGHTS_BLOCK_SIZE);
    }
    return TXL_OK;
}

static void free_writer(struct writer *w) {
    output_close(&w->out);
    for (int i = 0; i < MAX_SLOT; i++) {
        free(w->slot[i].elements);
        free(w->slot[i].narrow);
        free(w->slot[i].stored);
        block_coder_free(w->slot[i].coder);
    }
    pool_free(w->pool);
    free(w->tensor);
    free(w->block);
    free(w->elements);
    free(w);
}

txl_status weights_write(const char *path, const struct weights_contents *contents,
                         txl_error *error) {
    struct writer *w = calloc(1, sizeof *w);
    if (!w)
        return txl_fail_memory(error, "the writer", sizeof *w);
    w->contents = contents;
    w->out.file = -1;
    txl_status status = plan_tensors(w, error);
    if (!status)
        status = make_slots(w, error);
    if (!status)
        status = output_open(&w->out, path, error);
    if (!status)
        status = write_sections(w, false, &w->end, error);
    if (!status)
        status = write_tensors(w, error);
    uint64_t data;
    if (!status)
        status = write_sections(w, true, &data, error);
    if (!status)
        status = output_commit(&w->out, error);
    free_writer(w);
    return status;
}
