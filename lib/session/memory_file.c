/* Files of saved memories.  One may come from anybody: every number in it is checked before it is
 * used. */
#include "lib/base/error.h"
#include "lib/base/files.h"
#include "lib/base/output_file.h"
#include "saved_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

txl_status txl_memory_write(const txl_memory *memory, const char *path, txl_error *error) {
    struct output_file out;
    txl_status status = output_file_open(&out, path, error);
    if (!status)
        status = output_file_write(&out, memory->bytes, memory->header.file_size, 0, error);
    if (!status)
        status = output_file_commit(&out, error);
    output_file_close(&out);
    return status;
}

/* ---- Reading ------------------------------------------------------------------------------ */

static const char *const part_names[N_PART] = {"hidden state", "segment", "recent ids", "rows",
                                               "model's name"};

/* Longer than any timeline, and small enough that sums of positions do not overflow. */
static const uint64_t MAX_POSITION = UINT64_C(1) << 60;

/* A file that is being read. */
struct source {
    const char *name;
    int file;
    uint64_t size;
    const txl_model *model;
};

static txl_status damaged(const struct source *in, const char *what, txl_error *error) {
    return txl_fail(error, TXL_FORMAT, "%s: %s; the file is damaged, save the memory again",
                    in->name, what);
}

static txl_status read_at(const struct source *in, void *data, uint64_t size, uint64_t offset,
                          txl_error *error) {
    for (uint64_t done = 0; done < size;) {
        ssize_t n = pread(in->file, (uint8_t *)data + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return txl_fail(error, TXL_IO, "%s: %s", in->name, strerror(errno));
        if (n == 0)
            return damaged(in, "it became shorter while it was read", error);
        done += (uint64_t)n;
    }
    return TXL_OK;
}

static txl_status read_header(const struct source *in, struct memory_header *h, txl_error *error) {
    uint64_t size = in->size < sizeof *h ? in->size : sizeof *h;
    txl_status status = read_at(in, h, size, 0, error);
    if (status)
        return status;
    if (size < sizeof h->magic || memcmp(h->magic, MEMORY_MAGIC, sizeof h->magic) != 0)
        return txl_fail(error, TXL_FORMAT, "%s: not a memory that txl saved", in->name);
    if (size < sizeof *h)
        return damaged(in, "it ends inside its header", error);
    if (h->major < 1 || h->major > MEMORY_MAJOR)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: memory format version %u.%u; this txl reads versions 1 and %d",
                        in->name, h->major, h->minor, MEMORY_MAJOR);
    if (XXH3_64bits(h, offsetof(struct memory_header, checksum)) != h->checksum)
        return damaged(in, "the checksum of the header differs", error);
    if (h->file_size != in->size)
        return txl_fail(error, TXL_FORMAT,
                        "%s: %" PRIu64 " bytes long, its header says %" PRIu64
                        "; the file is incomplete, copy it or save the memory again",
                        in->name, in->size, h->file_size);
    return TXL_OK;
}

/* Header and parts fill the file; in a later minor version more may follow them. */
static bool parts_fit(const struct memory_header *h) {
    if (h->header_size < sizeof *h || h->header_size > MAX_HEADER || h->header_size % 8 != 0 ||
        h->header_size > h->file_size)
        return false;
    uint64_t left = h->file_size - h->header_size;
    for (int i = 0; i < N_PART; i++) {
        if (h->part[i].size > left)
            return false;
        left -= h->part[i].size;
    }
    return left == 0 || h->minor > MEMORY_MINOR;
}

/* Whether a session of the model can have these settings and this place on the timeline, and the
 * sizes of the parts follow from them. */
static bool is_possible(const txl_model *model, const struct memory_header *h) {
    const struct network *network = model->network;
    if (h->tgt_len < 1 || h->tgt_len > TXL_MAX_TGT_LEN || h->mem_len < 0 ||
        h->mem_len > TXL_MAX_MEM_LEN || h->clamp_len < -1 || h->clamp_len == 0 ||
        h->same_length > 1 || h->tail > UINT8_MAX || h->memory_type > TXL_MEMORY_BF16 ||
        h->next > MAX_POSITION || h->segment_start > h->next)
        return false;
    bool unbounded = network->has_memory && h->same_length && h->mem_len > 0;
    if (!unbounded && h->next - h->segment_start > (uint64_t)h->tgt_len)
        return false;
    if (!network->has_memory && h->segment_start > 0)
        return false;
    /* With zero_memory the memory is always full, so the file's size bounds mem_len. */
    if (network->zero_memory && h->segment_start < (uint64_t)h->mem_len)
        return false;
    uint64_t kept = memory_positions(model, h), each = memory_position_bytes(model, h->memory_type);
    return (h->part[HIDDEN].size == 0 ||
            h->part[HIDDEN].size == (uint64_t)network->ends.d_model * sizeof(float)) &&
           h->part[SEGMENT].size == (network->has_memory ? 0 : h->next * sizeof(int32_t)) &&
           h->part[RECENT].size <= MAX_RECENT * sizeof(int32_t) &&
           h->part[RECENT].size % sizeof(int32_t) == 0 && h->part[NAME].size <= MAX_NAME &&
           kept <= h->file_size / each && h->part[ROWS].size == kept * each;
}

static txl_status check_model(const struct source *in, const struct memory_header *h,
                              txl_error *error) {
    if (h->model == in->model->weights->checksum)
        return TXL_OK;
    char saved_with[MAX_NAME + 1] = "";
    uint64_t at = h->header_size, size = h->part[NAME].size;
    for (int i = 0; i < NAME; i++)
        at += h->part[i].size;
    txl_status status = read_at(in, saved_with, size < MAX_NAME ? size : MAX_NAME, at, error);
    return status ? status : memory_refuse_model(h, in->name, saved_with, in->model, error);
}

static bool are_ids(const uint8_t *bytes, uint64_t size, int32_t n_token) {
    const int32_t *ids = (const int32_t *)bytes;
    for (uint64_t i = 0; i < size / sizeof *ids; i++)
        if (ids[i] < 0 || ids[i] >= n_token)
            return false;
    return true;
}

static txl_status check_memory_parts(const struct source *in, const txl_memory *memory,
                                     txl_error *error) {
    const struct memory_part *part = memory->header.part;
    const uint8_t *bytes[N_PART];
    for (int i = 0; i < N_PART; i++) {
        bytes[i] = memory_part(memory, i);
        if (XXH3_64bits(bytes[i], part[i].size) != part[i].checksum) {
            char what[80];
            snprintf(what, sizeof what, "the checksum of the %s differs", part_names[i]);
            return damaged(in, what, error);
        }
    }
    int32_t n_token = in->model->vocabulary.n;
    if (!are_ids(bytes[SEGMENT], part[SEGMENT].size, n_token) ||
        !are_ids(bytes[RECENT], part[RECENT].size, n_token))
        return damaged(in, "an id in it is none of the vocabulary's", error);
    if (!memory_is_finite(memory))
        return damaged(in, "a number in it is not finite", error);
    return TXL_OK;
}

static txl_status check_rounds(const struct source *in, txl_memory *memory, txl_error *error) {
    const struct memory_header *h = &memory->header;
    struct memory_rounds rounds;
    if (h->minor < 1 || h->header_size < sizeof *h + sizeof rounds)
        return TXL_OK;
    memcpy(&rounds, memory->bytes + sizeof *h, sizeof rounds);
    if (XXH3_64bits(&rounds, offsetof(struct memory_rounds, checksum)) != rounds.checksum)
        return damaged(in, "the checksum of the rounds differs", error);
    if (rounds.round >= rounds.refresh && rounds.refresh > 0)
        return damaged(in, "its place in the round is beyond the end", error);
    memory->rounds = rounds;
    return TXL_OK;
}

static txl_status check_arithmetic(const struct source *in, txl_memory *memory, txl_error *error) {
    const struct memory_header *h = &memory->header;
    struct memory_arithmetic arithmetic;
    if (h->minor < 2 || h->header_size < ROUNDS_END + sizeof arithmetic)
        return TXL_OK;
    memcpy(&arithmetic, memory->bytes + ROUNDS_END, sizeof arithmetic);
    if (XXH3_64bits(&arithmetic, offsetof(struct memory_arithmetic, checksum)) !=
        arithmetic.checksum)
        return damaged(in, "the checksum of the arithmetic differs", error);
    if (arithmetic.number > TXL_ARITHMETIC_EXACT)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: saved with the exact arithmetic number %" PRIu32
                        "; this txl has number %d",
                        in->name, arithmetic.number, TXL_ARITHMETIC_EXACT);
    memory->arithmetic = (txl_arithmetic)arithmetic.number;
    return TXL_OK;
}

/* *memory is the caller's to free even after a failure. */
static txl_status read_memory(struct source *in, txl_memory **memory, txl_error *error) {
    struct memory_header header;
    txl_status status = read_header(in, &header, error);
    if (!status && !parts_fit(&header))
        status = damaged(in, "its parts do not fill it", error);
    if (!status)
        status = check_model(in, &header, error);
    if (!status && !is_possible(in->model, &header))
        status = damaged(in, "its settings and sizes contradict each other", error);
    if (status)
        return status;
    *memory = memory_new(in->name, in->size);
    if (!*memory)
        return txl_fail_memory(error, "a saved memory", in->size);
    (*memory)->header = header;
    status = read_at(in, (*memory)->bytes, in->size, 0, error);
    if (!status)
        status = check_rounds(in, *memory, error);
    if (!status)
        status = check_arithmetic(in, *memory, error);
    return status ? status : check_memory_parts(in, *memory, error);
}

txl_status txl_memory_read(const char *path, const txl_model *model, txl_memory **memory,
                           txl_error *error) {
    struct source in = {.name = path, .model = model};
    txl_status status = regular_file_open(path, &in.file, &in.size, error);
    if (status)
        return status;
    txl_memory *made = NULL;
    status = read_memory(&in, &made, error);
    close(in.file);
    if (status) {
        txl_memory_free(made);
        return status;
    }
    *memory = made;
    return TXL_OK;
}
