/* Saved memories: taking and restoring them, writing and reading their files. */
#include "lib/base/error.h"
#include "lib/base/files.h"
#include "lib/base/output_file.h"
#include "lib/network/kv_rows.h"
#include "session.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "a saved memory is used as it lies in the file, so txl needs a little-endian machine"
#endif

/* Like the weights file's, except for one letter. */
#define MEMORY_MAGIC "\x93TXM\r\n\x1a\n"

enum {
    MEMORY_MAJOR = 1,
    MEMORY_MINOR = 0,
    MAX_HEADER = 4096,   /* room for members that later versions append */
    MAX_NAME = 255,      /* file names are no longer */
    MAX_RECENT = 1 << 20 /* ids; the longest memory has as many */
};

/* The parts follow the header in this order, without gaps. */
enum { HIDDEN, SEGMENT, RECENT, ROWS, NAME, N_PART };

struct memory_part {
    uint64_t size, checksum; /* XXH3-64 */
};

struct memory_header {
    char magic[8];
    uint16_t major, minor;
    uint32_t header_size; /* of this structure: a later minor version may append to it */
    uint64_t file_size;
    uint64_t model; /* the checksum of its weights file's header */
    int32_t tgt_len, mem_len, clamp_len;
    uint32_t same_length;
    uint32_t memory_type; /* of the rows' elements */
    uint32_t tail;
    uint64_t next, segment_start; /* as in struct timeline */
    uint64_t seed, stream, draw;
    uint32_t refresh, round;   /* as in txl_resume */
    uint32_t arithmetic, zero; /* arithmetic: the number of the exact one, or 0 */
    struct memory_part part[N_PART];
    uint64_t checksum; /* of everything before this field */
};
_Static_assert(sizeof(struct memory_header) == 200, "no padding");

struct txl_memory {
    char *name; /* for messages */
    struct memory_header header;
    uint8_t *bytes; /* the whole file */
};

/* Taking snapshots of sessions, and restoring them. */
/* ---- Sizes -------------------------------------------------------------------------------- */

static size_t row_bytes(const struct network *network, uint32_t memory_type) {
    return rows_bytes(memory_type, network->row_heads, network->row_width);
}

/* Bytes that one position's rows of all layers take. */
static uint64_t memory_position_bytes(const txl_model *model, uint32_t memory_type) {
    const struct network *network = model->network;
    return (uint64_t)network->n_layer * row_bytes(network, memory_type);
}

static void header_settings(const struct memory_header *h, txl_settings *settings) {
    *settings = (txl_settings){.tgt_len = h->tgt_len,
                               .mem_len = h->mem_len,
                               .clamp_len = h->clamp_len,
                               .same_length = h->same_length,
                               .memory_type = (txl_memory_type)h->memory_type,
                               .arithmetic = (txl_arithmetic)h->arithmetic};
}

/* The number of positions whose rows are saved: those that a later token can see. */
static uint64_t memory_positions(const txl_model *model, const struct memory_header *h) {
    txl_settings settings;
    header_settings(h, &settings);
    return h->next - model->family->first_row(model->network, &settings, h->next, h->segment_start);
}

static uint8_t *memory_part(const txl_memory *memory, int part) {
    uint8_t *at = memory->bytes + memory->header.header_size;
    for (int i = 0; i < part; i++)
        at += memory->header.part[i].size;
    return at;
}

/* ---- The object --------------------------------------------------------------------------- */

/* Makes a memory with room for a file of `size` bytes; NULL: out of memory. */
static txl_memory *memory_new(const char *name, uint64_t size) {
    txl_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return NULL;
    memory->name = strdup(name);
    memory->bytes = size <= SIZE_MAX ? malloc((size_t)size) : NULL;
    if (memory->name && memory->bytes)
        return memory;
    txl_memory_free(memory);
    return NULL;
}

void txl_memory_free(txl_memory *memory) {
    if (!memory)
        return;
    free(memory->name);
    free(memory->bytes);
    free(memory);
}

void txl_memory_settings(const txl_memory *memory, txl_settings *settings) {
    header_settings(&memory->header, settings);
}

void txl_memory_resume(const txl_memory *memory, txl_resume *resume) {
    const struct memory_header *h = &memory->header;
    *resume = (txl_resume){.random = {h->seed, h->stream, h->draw},
                           .recent = (const int32_t *)memory_part(memory, RECENT),
                           .n_recent = h->part[RECENT].size / sizeof(int32_t),
                           .tail = (char)h->tail,
                           .refresh = h->refresh,
                           .round = h->round};
}

/* The model's name in a saved memory: its file's name without the folders. */
static const char *model_name(const txl_model *model) {
    const char *slash = strrchr(model->weights->name, '/');
    return slash ? slash + 1 : model->weights->name;
}

/* ---- Rows --------------------------------------------------------------------------------- */

static void save_rows(const txl_session *s, const struct memory_header *h, uint8_t *out) {
    const struct network *network = s->model->network;
    for (int layer = 0; layer < network->n_layer; layer++) {
        for (uint64_t p = h->next - memory_positions(s->model, h); p < h->next; p++) {
            s->model->family->export_row(s->timeline, layer, p, out);
            out += row_bytes(network, h->memory_type);
        }
    }
}

static void load_rows(txl_session *s, const struct memory_header *h, const uint8_t *in) {
    const struct network *network = s->model->network;
    for (int layer = 0; layer < network->n_layer; layer++) {
        for (uint64_t p = h->next - memory_positions(s->model, h); p < h->next; p++) {
            s->model->family->import_row(s->timeline, layer, p, in);
            in += row_bytes(network, h->memory_type);
        }
    }
}

static bool are_finite_f32(const uint8_t *bytes, uint64_t size) {
    const float *x = (const float *)bytes;
    for (uint64_t i = 0; i < size / sizeof *x; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static bool are_finite_16(uint16_t exponent, const uint8_t *bytes, uint64_t size) {
    const uint16_t *x = (const uint16_t *)bytes;
    for (uint64_t i = 0; i < size / sizeof *x; i++)
        if ((x[i] & exponent) == exponent)
            return false;
    return true;
}

/* Heads of d_head elements, each after its scale. */
static bool are_scaled(size_t d_head, const uint8_t *bytes, uint64_t size) {
    for (uint64_t i = 0; i < size; i += sizeof(float) + d_head) {
        float scale;
        memcpy(&scale, bytes + i, sizeof scale);
        if (!(scale >= 0 && isfinite(scale)))
            return false;
    }
    return true;
}

static bool are_possible_rows(const txl_model *model, uint32_t memory_type, const uint8_t *bytes,
                              uint64_t size) {
    const struct network *network = model->network;
    switch (memory_type) {
    case TXL_MEMORY_F32:
        return are_finite_f32(bytes, size);
    case TXL_MEMORY_Q8:
        return are_scaled(network->row_width / network->row_heads, bytes, size);
    default:
        return are_finite_16(memory_type == TXL_MEMORY_F16 ? 0x7c00 : 0x7f80, bytes, size);
    }
}

/* Whether all numbers are finite, and scales not negative; a reader requires it too. */
static bool memory_is_finite(const txl_model *model, const txl_memory *memory) {
    const struct memory_header *h = &memory->header;
    return are_finite_f32(memory_part(memory, HIDDEN), h->part[HIDDEN].size) &&
           are_possible_rows(model, h->memory_type, memory_part(memory, ROWS), h->part[ROWS].size);
}

/* ---- Saving ------------------------------------------------------------------------------- */

static struct memory_header make_header(const txl_session *s, const txl_resume *resume) {
    const struct timeline *t = s->timeline;
    const txl_settings *settings = &t->settings;
    struct memory_header h = {.magic = MEMORY_MAGIC,
                              .major = MEMORY_MAJOR,
                              .minor = MEMORY_MINOR,
                              .header_size = sizeof h,
                              .file_size = sizeof h,
                              .model = s->model->weights->checksum,
                              .tgt_len = settings->tgt_len,
                              .mem_len = settings->mem_len,
                              .clamp_len = settings->clamp_len > 0 ? settings->clamp_len : -1,
                              .same_length = settings->same_length,
                              .memory_type = settings->memory_type,
                              .tail = (unsigned char)resume->tail,
                              .next = t->next,
                              .segment_start = t->segment_start,
                              .seed = resume->random.seed,
                              .stream = resume->random.stream,
                              .draw = resume->random.draw,
                              .refresh = resume->refresh,
                              .round = resume->round,
                              .arithmetic = settings->arithmetic};
    h.part[HIDDEN].size = s->started ? t->network->bands.d_model * sizeof(float) : 0;
    h.part[SEGMENT].size = t->network->has_memory ? 0 : h.next * sizeof(int32_t);
    h.part[RECENT].size = resume->n_recent * sizeof(int32_t);
    h.part[ROWS].size =
        memory_positions(s->model, &h) * memory_position_bytes(s->model, h.memory_type);
    h.part[NAME].size = strnlen(model_name(s->model), MAX_NAME);
    for (int i = 0; i < N_PART; i++)
        h.file_size += h.part[i].size;
    return h;
}

static void fill_memory(txl_memory *memory, const txl_session *s, const txl_resume *resume) {
    struct memory_header *h = &memory->header;
    const void *source[N_PART] = {[HIDDEN] = s->last,
                                  [SEGMENT] = s->timeline->segment,
                                  [RECENT] = resume->recent,
                                  [NAME] = model_name(s->model)};
    for (int i = 0; i < N_PART; i++) {
        uint8_t *to = memory_part(memory, i);
        if (i == ROWS)
            save_rows(s, h, to);
        else if (h->part[i].size > 0)
            memcpy(to, source[i], h->part[i].size);
        h->part[i].checksum = XXH3_64bits(to, h->part[i].size);
    }
    h->checksum = XXH3_64bits(h, offsetof(struct memory_header, checksum));
    memcpy(memory->bytes, h, sizeof *h);
}

txl_status txl_session_save(const txl_session *s, const txl_resume *resume, txl_memory **memory,
                            txl_error *error) {
    const txl_resume nothing = {0};
    resume = resume ? resume : &nothing;
    txl_status status = session_check_finished(s, error);
    if (!status)
        status = CHECK_RESERVED(txl_resume, resume, error);
    if (status)
        return status;
    if (s->timeline->settings.arithmetic > TXL_ARITHMETIC_EXACT)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "a memory of the arithmetic in integers is not saved");
    if (resume->refresh > 0 && resume->round >= resume->refresh)
        return txl_fail(error, TXL_ARGUMENT, "token %" PRIu32 " of a round of %" PRIu32,
                        resume->round, resume->refresh);
    if (resume->n_recent > MAX_RECENT)
        return txl_fail(error, TXL_ARGUMENT, "a saved memory keeps at most %d recent ids",
                        MAX_RECENT);
    struct memory_header header = make_header(s, resume);
    txl_memory *made = memory_new("the saved memory", header.file_size);
    if (!made)
        return txl_fail_memory(error, "a copy of the memory", header.file_size);
    made->header = header;
    fill_memory(made, s, resume);
    if (!memory_is_finite(s->model, made)) {
        txl_memory_free(made);
        return txl_fail(error, TXL_FORMAT,
                        "%s: the network's keys or values are not finite, so that they cannot be "
                        "saved; txl verify tells whether the file is damaged",
                        model_name(s->model));
    }
    *memory = made;
    return TXL_OK;
}

/* ---- Loading ------------------------------------------------------------------------------ */

/* Says that the memory was saved with another model, whose name is `saved_with`. */
static txl_status memory_refuse_model(const struct memory_header *h, const char *name,
                                      const char *saved_with, const txl_model *model,
                                      txl_error *error) {
    return txl_fail(error, TXL_ARGUMENT,
                    "%s: saved with %s (checksum %016" PRIx64 "), not with %s (%016" PRIx64
                    "); name that model, or begin without this file",
                    name, saved_with, h->model, model->weights->name, model->weights->checksum);
}

static txl_status check_settings(const txl_session *s, const txl_memory *memory, txl_error *error) {
    const struct memory_header *h = &memory->header;
    const txl_settings *settings = &s->timeline->settings;
    static const char *const arithmetics[] = {"fast", "exact"};
    int clamp_len = settings->clamp_len > 0 ? settings->clamp_len : -1;
    if (h->arithmetic != settings->arithmetic)
        return txl_fail(error, TXL_ARGUMENT,
                        "%s: saved with the %s arithmetic, not with the %s one; take the saved one",
                        memory->name, arithmetics[h->arithmetic],
                        arithmetics[settings->arithmetic]);
    if (h->tgt_len == settings->tgt_len && h->mem_len == settings->mem_len &&
        h->clamp_len == clamp_len && h->same_length == settings->same_length &&
        h->memory_type == settings->memory_type)
        return TXL_OK;
    return txl_fail(error, TXL_ARGUMENT,
                    "%s: saved with tgt_len %d, mem_len %d, clamp_len %d, same_length %s, "
                    "memory_type %s, not with %d, %d, %d, %s, %s; take the saved ones",
                    memory->name, h->tgt_len, h->mem_len, h->clamp_len,
                    h->same_length ? "yes" : "no", weights_type_name(rows_type(h->memory_type)),
                    settings->tgt_len, settings->mem_len, clamp_len,
                    settings->same_length ? "yes" : "no",
                    weights_type_name(rows_type(settings->memory_type)));
}

txl_status txl_session_load(txl_session *s, const txl_memory *memory, txl_error *error) {
    struct timeline *t = s->timeline;
    const struct memory_header *h = &memory->header;
    if (h->model != s->model->weights->checksum) {
        char saved_with[MAX_NAME + 1] = "";
        memcpy(saved_with, memory_part(memory, NAME), h->part[NAME].size);
        return memory_refuse_model(h, memory->name, saved_with, s->model, error);
    }
    txl_status status = check_settings(s, memory, error);
    if (status)
        return status;
    txl_session_reset(s);
    t->next = h->next;
    t->segment_start = h->segment_start;
    s->started = h->part[HIDDEN].size > 0;
    memcpy(s->last, memory_part(memory, HIDDEN), h->part[HIDDEN].size);
    if (h->part[SEGMENT].size > 0)
        memcpy(t->segment, memory_part(memory, SEGMENT), h->part[SEGMENT].size);
    load_rows(s, h, memory_part(memory, ROWS));
    return TXL_OK;
}

/* Files of saved memories.  One may come from anybody: every number in it is checked before it is
 * used. */

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
    if (h->major != MEMORY_MAJOR)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: memory format version %u.%u; this txl reads version %d", in->name,
                        h->major, h->minor, MEMORY_MAJOR);
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
        h->same_length > 1 || h->tail > UINT8_MAX || (h->refresh > 0 && h->round >= h->refresh) ||
        h->memory_type > TXL_MEMORY_Q8 || h->next > MAX_POSITION || h->segment_start > h->next)
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
            h->part[HIDDEN].size == (uint64_t)network->bands.d_model * sizeof(float)) &&
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
        return damaged(in, "an id in it is not one of the vocabulary's", error);
    if (!memory_is_finite(in->model, memory))
        return damaged(in, "a number in it is not finite", error);
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
    if (!status && header.memory_type > TXL_MEMORY_Q8 && header.minor > MEMORY_MINOR)
        status = txl_fail(error, TXL_UNSUPPORTED,
                          "%s: memory format version %u.%u, with a memory type that this txl does "
                          "not know",
                          in->name, header.major, header.minor);
    if (!status && header.arithmetic > TXL_ARITHMETIC_EXACT)
        status = txl_fail(error, TXL_UNSUPPORTED,
                          "%s: saved with the exact arithmetic number %" PRIu32
                          "; this txl has number %d",
                          in->name, header.arithmetic, TXL_ARITHMETIC_EXACT);
    if (!status && !is_possible(in->model, &header))
        status = damaged(in, "its settings and sizes contradict each other", error);
    if (status)
        return status;
    *memory = memory_new(in->name, in->size);
    if (!*memory)
        return txl_fail_memory(error, "a saved memory", in->size);
    (*memory)->header = header;
    status = read_at(in, (*memory)->bytes, in->size, 0, error);
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
