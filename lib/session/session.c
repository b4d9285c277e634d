/* Sessions: feeding, scoring, and the distribution of the next token. */
#include "session.h"
#include "lib/base/error.h"
#include "lib/base/reserved.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

/* ---- Rounding ----------------------------------------------------------------------------- */

struct rounding session_rounding(const txl_session *s) {
    struct rounding before = {s->timeline->settings.arithmetic == TXL_ARITHMETIC_EXACT};
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
        return model->kernels->exact;
    return settings->compute == TXL_COMPUTE_INT8 ? model->kernels->int8 : model->kernels;
}

/* Takes the memory of a session; NULL from an arena that only adds up. */
static txl_session *lay_out(const txl_model *model, const txl_settings *settings,
                            struct arena *arena) {
    const struct ends *ends = &model->network->ends;
    size_t n_token = (size_t)model->vocabulary.n, n_band = (size_t)ends->n_band;
    txl_session unused, *taken = arena_take(arena, 1, sizeof *taken), *s = taken ? taken : &unused;
    *s = (txl_session){.model = model};
    s->last = arena_take(arena, ends->d_model, sizeof *s->last);
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

/* The exact arithmetic covers what weights-format.md specifies. */
static txl_status check_exact(const txl_settings *s, txl_error *error) {
    if (s->memory_type == TXL_MEMORY_BF16)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "the exact arithmetic needs a memory in f32 or f16, not bf16");
    if (s->compute == TXL_COMPUTE_INT8)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "the exact arithmetic does not compute in int8; it is for the fast one");
    return TXL_OK;
}

static txl_status check_settings(const txl_model *model, const txl_settings *s, txl_error *error) {
    if (s->tgt_len < 1 || s->tgt_len > TXL_MAX_TGT_LEN)
        return txl_fail(error, TXL_ARGUMENT, "tgt_len must be from 1 to %d, not %d",
                        TXL_MAX_TGT_LEN, s->tgt_len);
    if (s->mem_len < 0 || s->mem_len > TXL_MAX_MEM_LEN)
        return txl_fail(error, TXL_ARGUMENT, "mem_len must be from 0 to %d, not %d",
                        TXL_MAX_MEM_LEN, s->mem_len);
    if (s->memory_type < TXL_MEMORY_F32 || s->memory_type > TXL_MEMORY_BF16)
        return txl_fail(error, TXL_ARGUMENT, "unknown memory_type %d", (int)s->memory_type);
    if (s->compute < TXL_COMPUTE_BY_TYPE || s->compute > TXL_COMPUTE_INT8)
        return txl_fail(error, TXL_ARGUMENT, "unknown compute %d", (int)s->compute);
    if (s->compute == TXL_COMPUTE_INT8 && strcmp(txl_model_type(model), "q8") != 0)
        return txl_fail(error, TXL_ARGUMENT,
                        "int8 is for weights in q8, and those of %s are in %s; convert them to q8",
                        model->weights->name, txl_model_type(model));
    if (s->arithmetic < TXL_ARITHMETIC_FAST || s->arithmetic > TXL_ARITHMETIC_EXACT)
        return txl_fail(error, TXL_ARGUMENT, "unknown arithmetic %d", (int)s->arithmetic);
    txl_status status = s->arithmetic == TXL_ARITHMETIC_EXACT ? check_exact(s, error) : TXL_OK;
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
    struct arena arena = s->arena;
    arena_close(&arena);
}

void txl_session_settings(const txl_session *s, txl_settings *settings) {
    *settings = s->timeline->settings;
}

void session_forget_distribution(txl_session *s) {
    memset(s->have, 0, (size_t)s->model->network->ends.n_band * sizeof *s->have);
    s->n_asked = 0;
}

/* The next distribution follows from this hidden state. */
void session_set_last(txl_session *s, const float *hidden) {
    memcpy(s->last, hidden, s->model->network->ends.d_model * sizeof *s->last);
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

/* ---- Feeding and scoring ------------------------------------------------------------------ */

txl_status session_check_ids(const txl_session *s, const int32_t *ids, size_t n, txl_error *error) {
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= s->model->vocabulary.n)
            return txl_fail(error, TXL_ARGUMENT, "id %d is not from 0 to %d", ids[i],
                            s->model->vocabulary.n - 1);
    }
    return TXL_OK;
}

txl_status session_not_finite(const txl_session *s, txl_error *error) {
    return txl_fail(error, TXL_FORMAT,
                    "%s: the network's results are not finite; txl verify tells whether the file "
                    "is damaged",
                    s->model->weights->name);
}

/* What a pass computes besides the network's state; NULL: not asked for. */
struct outputs {
    const int32_t *targets; /* and their scores: */
    float *nats;
    float *logprob; /* [n, n_token] */
};

txl_status session_check_nats(const txl_session *s, size_t n, const float *nats, txl_error *error) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(nats[i]))
            return session_not_finite(s, error);
    return TXL_OK;
}

txl_status session_distribute_pass(txl_session *s, const float *hidden, size_t n, float *logprob,
                                   txl_error *error) {
    struct timeline *t = s->timeline;
    const struct ends *ends = &t->network->ends;
    size_t n_token = (size_t)s->model->vocabulary.n;
    adaptive_head(&t->adaptive, &t->compute, hidden, n, logprob, t->adaptive.cluster);
    for (int i = 1; i < ends->n_band; i++)
        adaptive_tail(&t->adaptive, &t->compute, hidden, n, i, t->adaptive.cluster, logprob);
    for (size_t row = 0; row < n; row++) {
        for (int i = 0; i < ends->n_band; i++)
            if (!isfinite(logprob[row * n_token + ends->band[i].first]))
                return session_not_finite(s, error);
    }
    return TXL_OK;
}

static txl_status session_advance(txl_session *s, const int32_t *ids, size_t n,
                                  const struct outputs *outputs, txl_error *error) {
    size_t d_model = s->model->network->ends.d_model;
    size_t n_token = (size_t)s->model->vocabulary.n;
    bool every = outputs->nats || outputs->logprob;
    txl_status status = TXL_OK;
    const struct rounding before = session_rounding(s);
    session_forget_distribution(s);
    for (size_t done = 0; done < n && !status;) {
        size_t room = s->model->family->room(s->timeline), pass = n - done < room ? n - done : room;
        const float *hidden;
        status = s->model->family->advance(s->timeline, ids + done, pass, every, &hidden, error);
        if (status)
            break;
        session_set_last(s, hidden + (every ? pass - 1 : 0) * d_model);
        if (outputs->nats)
            adaptive_score(&s->timeline->adaptive, &s->timeline->compute, hidden, pass,
                           outputs->targets + done, outputs->nats + done);
        if (outputs->logprob)
            status =
                session_distribute_pass(s, hidden, pass, outputs->logprob + done * n_token, error);
        done += pass;
    }
    if (outputs->nats) /* of the passes that were made, also where one failed */
        adaptive_score_end(&s->timeline->adaptive, &s->timeline->compute);
    session_restore_rounding(&before);
    return !status && outputs->nats ? session_check_nats(s, n, outputs->nats, error) : status;
}

txl_status txl_session_feed(txl_session *s, const int32_t *ids, size_t n, txl_error *error) {
    const struct outputs nothing = {0};
    txl_status status = session_check_ids(s, ids, n, error);
    return status ? status : session_advance(s, ids, n, &nothing, error);
}

/* Several timelines advance in one pass if they are alike. */
static txl_status check_alike(txl_session *const *sessions, size_t n, txl_error *error) {
    const txl_settings *first = &sessions[0]->timeline->settings;
    for (size_t i = 1; i < n; i++) {
        const txl_settings *other = &sessions[i]->timeline->settings;
        if (sessions[i]->model != sessions[0]->model || other->tgt_len != first->tgt_len ||
            other->mem_len != first->mem_len || other->clamp_len != first->clamp_len ||
            other->same_length != first->same_length || other->memory_type != first->memory_type ||
            other->compute != first->compute || other->arithmetic != first->arithmetic)
            return txl_fail(error, TXL_ARGUMENT,
                            "sessions that are fed together must have one model and one settings");
    }
    return TXL_OK;
}

/* The head of the softmax for all of them, each into its own place. */
static txl_status share_heads(txl_session *const *sessions, size_t n, const float *hidden,
                              txl_error *error) {
    txl_session *lead = sessions[0];
    struct timeline *t = lead->timeline;
    const struct ends *ends = &t->network->ends;
    size_t n_token = (size_t)lead->model->vocabulary.n, n_band = (size_t)ends->n_band;
    float *logprob = calloc(n, n_token * sizeof *logprob);
    double *cluster = t->adaptive.cluster;
    if (!logprob)
        return txl_fail_memory(error, "distributions", (uint64_t)n * n_token * sizeof *logprob);
    adaptive_head(&t->adaptive, &t->compute, hidden, n, logprob, cluster);
    for (size_t i = 0; i < n; i++) {
        memcpy(sessions[i]->logprob, logprob + i * n_token,
               ends->band[0].n_token * sizeof *logprob);
        memcpy(sessions[i]->cluster, cluster + i * n_band, n_band * sizeof *cluster);
        sessions[i]->have[0] = true;
    }
    free(logprob);
    return TXL_OK;
}

/* Where the weights of the softmax's head go; e NULL: its log-probabilities are wanted. */
struct weights_of_heads {
    float *e;
    size_t lde;
    double *sum;
};

/* No more than a pass takes. */
static txl_status feed_together(txl_session *const *sessions, size_t n, const int32_t *ids,
                                struct timeline **timeline, const struct weights_of_heads *to,
                                txl_error *error) {
    size_t d_model = sessions[0]->model->network->ends.d_model;
    for (size_t i = 0; i < n; i++)
        timeline[i] = sessions[i]->timeline;
    const float *hidden;
    txl_status status = sessions[0]->model->family->advance_each(timeline, ids, n, &hidden, error);
    if (status)
        return status;
    for (size_t i = 0; i < n; i++) {
        session_forget_distribution(sessions[i]);
        session_set_last(sessions[i], hidden + i * d_model);
    }
    if (!to->e)
        return share_heads(sessions, n, hidden, error);
    struct timeline *t = sessions[0]->timeline;
    adaptive_weights(&t->adaptive, &t->compute, hidden, n, 0, to->e, to->lde, to->sum);
    return TXL_OK;
}

static txl_status check_each(txl_session *const *sessions, size_t n, const int32_t *ids,
                             txl_error *error) {
    txl_status status = n > 0 ? session_check_ids(sessions[0], ids, n, error) : TXL_OK;
    return status || n == 0 ? status : check_alike(sessions, n, error);
}

/* The sessions were checked. */
static txl_status feed_each(txl_session *const *sessions, size_t n, const int32_t *ids,
                            struct weights_of_heads to, txl_error *error) {
    txl_status status = TXL_OK;
    if (n == 0)
        return TXL_OK;
    if ((n == 1 && !to.e) || !sessions[0]->model->network->has_memory) {
        for (size_t i = 0; i < n && !status; i++)
            status = txl_session_feed(sessions[i], &ids[i], 1, error);
        return status;
    }
    size_t together = sessions[0]->timeline->together, most = n < together ? n : together;
    struct timeline **timeline = calloc(most, sizeof *timeline);
    if (!timeline)
        return txl_fail_memory(error, "sessions", most * sizeof *timeline);
    const struct rounding before = session_rounding(sessions[0]);
    for (size_t done = 0; done < n && !status; done += most) {
        size_t count = n - done < most ? n - done : most;
        status = feed_together(sessions + done, count, ids + done, timeline, &to, error);
        to.e = to.e ? to.e + count * to.lde : NULL;
        to.sum = to.sum ? to.sum + count : NULL;
    }
    session_restore_rounding(&before);
    free(timeline);
    return status;
}

static bool feeds_alone(const txl_session *s) {
    const struct family *family = s->model->family;
    return family->advances_alone && family->advances_alone(s->timeline);
}

/* Feeds some sessions alone and the others together, of which it makes the lists. */
static txl_status feed_apart(txl_session *const *sessions, size_t n, const int32_t *ids,
                             txl_session **together, int32_t *its_id, txl_error *error) {
    size_t n_together = 0;
    txl_status status = TXL_OK;
    for (size_t i = 0; i < n && !status; i++) {
        if (feeds_alone(sessions[i])) {
            status = txl_session_feed(sessions[i], &ids[i], 1, error);
        } else {
            together[n_together] = sessions[i];
            its_id[n_together++] = ids[i];
        }
    }
    if (status)
        return status;
    return feed_each(together, n_together, its_id, (struct weights_of_heads){0}, error);
}

txl_status txl_session_feed_each(txl_session *const *sessions, size_t n, const int32_t *ids,
                                 txl_error *error) {
    bool apart = false;
    txl_status status = check_each(sessions, n, ids, error);
    for (size_t i = 0; i < n && n > 1 && !status; i++)
        apart = apart || feeds_alone(sessions[i]);
    if (status || !apart)
        return status ? status : feed_each(sessions, n, ids, (struct weights_of_heads){0}, error);
    txl_session **together = calloc(n, sizeof *together);
    int32_t *its_id = calloc(n, sizeof *its_id);
    if (together && its_id)
        status = feed_apart(sessions, n, ids, together, its_id, error);
    else
        status = txl_fail_memory(error, "sessions", n * sizeof *together);
    free(together);
    free(its_id);
    return status;
}

txl_status session_feed_weights(txl_session *const *sessions, size_t n, const int32_t *ids,
                                float *e, size_t lde, double *sum, txl_error *error) {
    txl_status status = check_each(sessions, n, ids, error);
    return status ? status
                  : feed_each(sessions, n, ids, (struct weights_of_heads){e, lde, sum}, error);
}

void session_band_weights(txl_session *s, int i, float *e, double *sum) {
    struct timeline *t = s->timeline;
    const size_t n = ends_entries(&t->network->ends, i);
    const struct rounding before = session_rounding(s);
    adaptive_weights(&t->adaptive, &t->compute, s->last, 1, i, e, n, sum);
    session_restore_rounding(&before);
}

txl_status session_check_finished(const txl_session *s, txl_error *error) {
    return s->timeline->unfinished
               ? txl_fail(error, TXL_ARGUMENT,
                          "a session cannot be copied or saved inside of a segment with gaps")
               : TXL_OK;
}

txl_status txl_session_copy(txl_session *s, txl_session **copy, txl_error *error) {
    txl_session *c;
    size_t n_token = (size_t)s->model->vocabulary.n,
           n_band = (size_t)s->model->network->ends.n_band;
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
    memcpy(c->last, s->last, s->model->network->ends.d_model * sizeof *c->last);
    memcpy(c->logprob, s->logprob, n_token * sizeof *c->logprob);
    memcpy(c->cluster, s->cluster, n_band * sizeof *c->cluster);
    memcpy(c->have, s->have, n_band * sizeof *c->have);
    *copy = c;
    return TXL_OK;
}

txl_status txl_session_score(txl_session *s, const int32_t *ids, size_t n, const int32_t *targets,
                             float *nats, txl_error *error) {
    const struct outputs outputs = {.targets = targets, .nats = nats};
    txl_status status = session_check_ids(s, ids, n, error);
    if (!status)
        status = session_check_ids(s, targets, n, error);
    return status ? status : session_advance(s, ids, n, &outputs, error);
}

txl_status txl_session_distributions(txl_session *s, const int32_t *ids, size_t n, float *out,
                                     txl_error *error) {
    const struct outputs outputs = {.logprob = out};
    txl_status status = session_check_ids(s, ids, n, error);
    return status ? status : session_advance(s, ids, n, &outputs, error);
}

/* ---- The next token's distribution -------------------------------------------------------- */

txl_status session_need_band(txl_session *s, int i, txl_error *error) {
    struct timeline *t = s->timeline;
    if (!s->started)
        return txl_fail(error, TXL_ARGUMENT, "no token has been fed yet");
    const struct rounding before = session_rounding(s);
    if (!s->have[0])
        adaptive_head(&t->adaptive, &t->compute, s->last, 1, s->logprob, s->cluster);
    s->have[0] = true;
    if (!s->have[i])
        adaptive_tail(&t->adaptive, &t->compute, s->last, 1, i, s->cluster, s->logprob);
    s->have[i] = true;
    session_restore_rounding(&before);
    return isfinite(s->logprob[s->model->network->ends.band[i].first])
               ? TXL_OK
               : session_not_finite(s, error);
}

txl_status txl_session_logprobs(txl_session *s, float *out, txl_error *error) {
    txl_status status = TXL_OK;
    for (int i = 0; i < s->model->network->ends.n_band && !status; i++)
        status = session_need_band(s, i, error);
    if (!status)
        memcpy(out, s->logprob, (size_t)s->model->vocabulary.n * sizeof *out);
    return status;
}
