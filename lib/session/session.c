/* Sessions: making, resetting and copying them. */
#include "session.h"
#include "lib/base/error.h"
#include "lib/network/kv_rows.h"

#include <inttypes.h>
#include <string.h>
#include <sys/sysinfo.h>

/* ---- Rounding ----------------------------------------------------------------------------- */

struct rounding session_rounding(const txl_session *s) {
    struct rounding before = {s->timeline->settings.arithmetic != TXL_ARITHMETIC_FAST};
    if (before.is_set)
        before.environment = float_environment_set();
    return before;
}

void session_restore_rounding(const struct rounding *before) {
    if (before->is_set)
        float_environment_restore(&before->environment);
}

/* ---- Memory ------------------------------------------------------------------------------- */

static const struct kernels *kernels_of(const txl_model *model, const txl_settings *settings) {
    if (settings->arithmetic == TXL_ARITHMETIC_EXACT)
        return &model->exact;
    if (settings->arithmetic == TXL_ARITHMETIC_INTEGERS)
        return &model->integers;
    return settings->compute == TXL_COMPUTE_F32 ? &model->kernels : &model->rounding;
}

/* Takes the memory of a session; NULL from an arena that only adds up. */
static txl_session *lay_out(const txl_model *model, const txl_settings *settings,
                            struct arena *arena) {
    const struct bands *bands = &model->network->bands;
    size_t n_token = (size_t)model->vocabulary.n, n_band = (size_t)bands->n_band;
    txl_session unused, *taken = arena_take(arena, 1, sizeof *taken), *s = taken ? taken : &unused;
    *s = (txl_session){.model = model};
    s->last = arena_take(arena, bands->d_model, sizeof *s->last);
    s->cluster = arena_take(arena, n_band, sizeof *s->cluster);
    s->have = arena_take(arena, n_band, sizeof *s->have);
    s->timeline =
        model->family->lay_out(model->network, kernels_of(model, settings), settings, arena);
    s->logprob = arena_take(arena, n_token, sizeof *s->logprob);
    s->candidate = arena_take(arena, n_token, sizeof *s->candidate);
    s->mark = arena_take(arena, n_token, sizeof *s->mark);
    return taken;
}

static uint64_t arena_bytes(const txl_model *model, const txl_settings *settings) {
    struct arena sizes = {0};
    lay_out(model, settings, &sizes);
    return sizes.used;
}

/* With as many threads as there will be. */
static txl_settings full_settings(const txl_settings *settings) {
    txl_settings full = *settings;
    full.threads = full.threads > 0 ? full.threads : pool_processors();
    return full;
}

uint64_t txl_session_bytes(const txl_model *model, const txl_settings *settings) {
    const txl_settings full = full_settings(settings);
    uint64_t bytes = arena_bytes(model, &full), all;
    uint64_t more = model->family->timeline_bytes(model->network, &full);
    return __builtin_add_overflow(bytes, more, &all) ? UINT64_MAX : all;
}

/* The system would grant what the machine can never hold, and end the process once it is used. */
static txl_status check_memory(const txl_model *model, const txl_settings *s, txl_error *error) {
    struct sysinfo machine;
    if (sysinfo(&machine) < 0)
        return TXL_OK;
    uint64_t needed = txl_session_bytes(model, s);
    uint64_t all = ((uint64_t)machine.totalram + machine.totalswap) * machine.mem_unit;
    if (needed <= all)
        return TXL_OK;
    return txl_fail(error, TXL_MEMORY,
                    "out of memory: a session of tgt_len %d and mem_len %d needs %" PRIu64
                    " MB of the machine's %" PRIu64 "; make them shorter",
                    s->tgt_len, s->mem_len, needed / 1000000, all / 1000000);
}

static const char *compute_name(txl_compute compute) {
    return compute == TXL_COMPUTE_INT8 ? "int8" : "bf16";
}

/* Activations are rounded as the weights that they meet. */
static txl_status check_compute(const txl_model *model, txl_compute compute, txl_error *error) {
    const char *type = txl_model_type(model);
    const bool in_bytes = compute == TXL_COMPUTE_INT8;
    if (compute < TXL_COMPUTE_F32 || compute > TXL_COMPUTE_BF16)
        return txl_fail(error, TXL_ARGUMENT, "unknown compute %d", (int)compute);
    if (compute == TXL_COMPUTE_F32 || strcmp(type, in_bytes ? "q8" : "bf16") == 0 ||
        (in_bytes && (strcmp(type, "q4") == 0 || strcmp(type, "q5") == 0)))
        return TXL_OK;
    return txl_fail(error, TXL_ARGUMENT,
                    "%s is for weights in %s, and those of %s are in %s; convert them to %s",
                    compute_name(compute), in_bytes ? "q8, q5 or q4" : "bf16", model->weights->name,
                    type, in_bytes ? "q8" : "bf16");
}

/* The exact arithmetic and that in integers cover what weights-format.md specifies. */
static txl_status check_exact(const txl_model *model, const txl_settings *s, txl_error *error) {
    const bool integers = s->arithmetic == TXL_ARITHMETIC_INTEGERS;
    if (integers && !model_has_integers(model))
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: the arithmetic in integers is for Transformer-XLs with attention of "
                        "type 0 whose matrices are all in q8 or q4",
                        model->weights->name);
    if (integers ? s->memory_type != TXL_MEMORY_Q8
                 : s->memory_type == TXL_MEMORY_BF16 || s->memory_type == TXL_MEMORY_Q8)
        return txl_fail(error, TXL_UNSUPPORTED, "the %s needs a memory in %s, not %s",
                        integers ? "arithmetic in integers" : "exact arithmetic",
                        integers ? "q8" : "f32 or f16",
                        weights_type_name(rows_type(s->memory_type)));
    if (s->compute != TXL_COMPUTE_F32)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "the exact arithmetic does not compute in %s; it is for the fast one",
                        compute_name(s->compute));
    return TXL_OK;
}

static txl_status check_settings(const txl_model *model, const txl_settings *s, txl_error *error) {
    if (s->tgt_len < 1 || s->tgt_len > TXL_MAX_TGT_LEN)
        return txl_fail(error, TXL_ARGUMENT, "tgt_len must be from 1 to %d, not %d",
                        TXL_MAX_TGT_LEN, s->tgt_len);
    if (s->mem_len < 0 || s->mem_len > TXL_MAX_MEM_LEN)
        return txl_fail(error, TXL_ARGUMENT, "mem_len must be from 0 to %d, not %d",
                        TXL_MAX_MEM_LEN, s->mem_len);
    if (s->memory_type < TXL_MEMORY_F32 || s->memory_type > TXL_MEMORY_Q8)
        return txl_fail(error, TXL_ARGUMENT, "unknown memory_type %d", (int)s->memory_type);
    if (s->arithmetic < TXL_ARITHMETIC_FAST || s->arithmetic > TXL_ARITHMETIC_INTEGERS)
        return txl_fail(error, TXL_ARGUMENT, "unknown arithmetic %d", (int)s->arithmetic);
    txl_status status = check_compute(model, s->compute, error);
    if (!status && s->arithmetic != TXL_ARITHMETIC_FAST)
        status = check_exact(model, s, error);
    if (!status)
        status = model->family->check_session(model->network, s, error);
    return status ? status : check_memory(model, s, error);
}

/* `like`: a session of the same settings to share with, or NULL. */
static txl_status new_session(const txl_model *model, const txl_settings *settings,
                              txl_session *like, txl_session **session, txl_error *error) {
    const txl_settings full = full_settings(settings);
    struct arena arena;
    txl_status status = arena_open(&arena, arena_bytes(model, &full), "a session", error);
    if (status)
        return status;
    txl_session *s = lay_out(model, &full, &arena);
    s->arena = arena;
    const struct rounding before = session_rounding(s); /* the threads inherit it */
    status = model->family->timeline_open(s->timeline, kernels_of(model, &full),
                                          like ? like->timeline : NULL, error);
    session_restore_rounding(&before);
    if (status) {
        txl_session_free(s);
        return status;
    }
    *session = s;
    return TXL_OK;
}

txl_status txl_session_new(const txl_model *model, const txl_settings *settings,
                           txl_session **session, txl_error *error) {
    txl_status status = CHECK_RESERVED(txl_settings, settings, error);
    if (!status)
        status = check_settings(model, settings, error);
    return status ? status : new_session(model, settings, NULL, session, error);
}

void txl_session_free(txl_session *s) {
    if (!s)
        return;
    s->model->family->timeline_close(s->timeline);
    session_free_expected(s);
    struct arena arena = s->arena;
    arena_close(&arena);
}

uint64_t txl_session_reach(const txl_session *s) {
    const struct network *network = s->timeline->network;
    const txl_settings *settings = &s->timeline->settings;
    if (s->model->family->both_sides || !network->has_memory)
        return UINT64_MAX;
    /* Each layer sees mem_len inputs before the segment's start; the first of these lies in a
     * segment whose own start counts for the layer below. */
    uint64_t tgt_len = (uint64_t)settings->tgt_len, mem_len = (uint64_t)settings->mem_len;
    return (uint64_t)network->n_layer * ((mem_len + tgt_len - 1) / tgt_len * tgt_len);
}

void txl_session_settings(const txl_session *s, txl_settings *settings) {
    *settings = s->timeline->settings;
}

void session_forget_distribution(txl_session *s) {
    memset(s->have, 0, (size_t)s->model->network->bands.n_band * sizeof *s->have);
    s->n_asked = 0;
    session_forget_expected(s);
}

/* The next distribution follows from this hidden state. */
void session_set_last(txl_session *s, const float *hidden) {
    memcpy(s->last, hidden, s->model->network->bands.d_model * sizeof *s->last);
    s->started = true;
}

void txl_session_reset(txl_session *s) {
    const struct rounding before = session_rounding(s);
    s->model->family->reset(s->timeline);
    session_restore_rounding(&before);
    s->started = false;
    session_forget_distribution(s);
}

void session_begin_behind(txl_session *s, uint64_t read) {
    txl_session_reset(s);
    s->timeline->next += read;
    s->timeline->segment_start = s->timeline->next;
}

/* ---- Copies ------------------------------------------------------------------------------- */

txl_status session_check_finished(const txl_session *s, txl_error *error) {
    return s->timeline->unfinished
               ? txl_fail(error, TXL_ARGUMENT,
                          "a session cannot be copied or saved inside of a segment with gaps")
               : TXL_OK;
}

txl_status txl_session_copy(txl_session *s, txl_session **copy, txl_error *error) {
    txl_session *c;
    size_t n_token = (size_t)s->model->vocabulary.n,
           n_band = (size_t)s->model->network->bands.n_band;
    session_forget_expected(s); /* its rows may be in blocks that the copies do not get */
    txl_status status = session_check_finished(s, error);
    if (!status)
        status = new_session(s->model, &s->timeline->settings, s, &c, error);
    if (status)
        return status;
    const struct rounding before = session_rounding(s);
    status = s->model->family->copy(c->timeline, s->timeline, error);
    session_restore_rounding(&before);
    if (status) {
        txl_session_free(c);
        return status;
    }
    c->started = s->started;
    memcpy(c->last, s->last, s->model->network->bands.d_model * sizeof *c->last);
    if (s->have[0])
        memcpy(c->logprob, s->logprob, n_token * sizeof *c->logprob);
    memcpy(c->cluster, s->cluster, n_band * sizeof *c->cluster);
    memcpy(c->have, s->have, n_band * sizeof *c->have);
    *copy = c;
    return TXL_OK;
}
