/* Feeding ids to a session, scoring them, and the distribution of the next token. */
#include "lib/base/error.h"
#include "session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

txl_status session_check_ids(const txl_session *s, const int32_t *ids, size_t n, txl_error *error) {
    if (s->model->network->lacks_softmax)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: no language model: its head is \"%s\"",
                        s->model->weights->name, txl_head_name(s->model->network->head));
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
    const struct bands *bands = &t->network->bands;
    size_t n_token = (size_t)s->model->vocabulary.n;
    adaptive_head(&t->adaptive, &t->compute, hidden, n, logprob, t->adaptive.cluster);
    for (int i = 1; i < bands->n_band; i++)
        adaptive_tail(&t->adaptive, &t->compute, hidden, n, i, t->adaptive.cluster, logprob);
    for (size_t row = 0; row < n; row++) {
        for (int i = 0; i < bands->n_band; i++)
            if (!isfinite(logprob[row * n_token + bands->band[i].first]))
                return session_not_finite(s, error);
    }
    return TXL_OK;
}

static txl_status session_advance(txl_session *s, const int32_t *ids, size_t n,
                                  const struct outputs *outputs, txl_error *error) {
    size_t d_model = s->model->network->bands.d_model;
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
    if (!status && n == 1 && session_expects(s))
        return session_feed_expecting(s, ids[0], error);
    return status ? status : session_advance(s, ids, n, &nothing, error);
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
    return isfinite(s->logprob[s->model->network->bands.band[i].first])
               ? TXL_OK
               : session_not_finite(s, error);
}

txl_status txl_session_logprobs(txl_session *s, float *out, txl_error *error) {
    txl_status status = TXL_OK;
    for (int i = 0; i < s->model->network->bands.n_band && !status; i++)
        status = session_need_band(s, i, error);
    if (!status)
        memcpy(out, s->logprob, (size_t)s->model->vocabulary.n * sizeof *out);
    return status;
}

void session_band_weights(txl_session *s, int i, float *e, double *sum) {
    struct timeline *t = s->timeline;
    const size_t n = bands_entries(&t->network->bands, i);
    const struct rounding before = session_rounding(s);
    adaptive_weights(&t->adaptive, &t->compute, s->last, 1, i, e, n, sum);
    session_restore_rounding(&before);
}

/* ---- Several sessions --------------------------------------------------------------------- */

/* Feeding one id to each of several sessions, with one read of the weights. */

/* Refuses sessions that cannot advance in one pass. */
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
    const struct bands *bands = &t->network->bands;
    size_t n_token = (size_t)lead->model->vocabulary.n, n_band = (size_t)bands->n_band;
    float *logprob = calloc(n, n_token * sizeof *logprob);
    double *cluster = t->adaptive.cluster;
    if (!logprob)
        return txl_fail_memory(error, "distributions", (uint64_t)n * n_token * sizeof *logprob);
    adaptive_head(&t->adaptive, &t->compute, hidden, n, logprob, cluster);
    for (size_t i = 0; i < n; i++) {
        memcpy(sessions[i]->logprob, logprob + i * n_token,
               bands->band[0].n_token * sizeof *logprob);
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
static txl_status feed_batch(txl_session *const *sessions, size_t n, const int32_t *ids,
                             struct timeline **timeline, const struct weights_of_heads *to,
                             txl_error *error) {
    size_t d_model = sessions[0]->model->network->bands.d_model;
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
    size_t room = sessions[0]->timeline->most_batch, most = n < room ? n : room;
    struct timeline **timeline = calloc(most, sizeof *timeline);
    if (!timeline)
        return txl_fail_memory(error, "sessions", most * sizeof *timeline);
    const struct rounding before = session_rounding(sessions[0]);
    for (size_t done = 0; done < n && !status; done += most) {
        size_t count = n - done < most ? n - done : most;
        status = feed_batch(sessions + done, count, ids + done, timeline, &to, error);
        to.e = to.e ? to.e + count * to.lde : NULL;
        to.sum = to.sum ? to.sum + count : NULL;
    }
    session_restore_rounding(&before);
    free(timeline);
    return status;
}

static bool differs_in_batch(const txl_session *s) {
    const struct family *family = s->model->family;
    return family->differs_in_batch && family->differs_in_batch(s->timeline);
}

/* Feeds those that differ in a batch one by one, lists the others in batch[n] and batch_id[n], and
 * feeds them as a batch. */
static txl_status feed_split(txl_session *const *sessions, size_t n, const int32_t *ids,
                             txl_session **batch, int32_t *batch_id, txl_error *error) {
    size_t n_batch = 0;
    txl_status status = TXL_OK;
    for (size_t i = 0; i < n && !status; i++) {
        if (differs_in_batch(sessions[i])) {
            status = txl_session_feed(sessions[i], &ids[i], 1, error);
        } else {
            batch[n_batch] = sessions[i];
            batch_id[n_batch++] = ids[i];
        }
    }
    if (status)
        return status;
    return feed_each(batch, n_batch, batch_id, (struct weights_of_heads){0}, error);
}

txl_status txl_session_feed_each(txl_session *const *sessions, size_t n, const int32_t *ids,
                                 txl_error *error) {
    bool splits = false;
    txl_status status = check_each(sessions, n, ids, error);
    for (size_t i = 0; i < n && n > 1 && !status; i++)
        splits = splits || differs_in_batch(sessions[i]);
    if (status || !splits)
        return status ? status : feed_each(sessions, n, ids, (struct weights_of_heads){0}, error);
    txl_session **batch = calloc(n, sizeof *batch);
    int32_t *batch_id = calloc(n, sizeof *batch_id);
    if (batch && batch_id)
        status = feed_split(sessions, n, ids, batch, batch_id, error);
    else
        status = txl_fail_memory(error, "sessions", n * sizeof *batch);
    free(batch);
    free(batch_id);
    return status;
}

txl_status session_feed_weights(txl_session *const *sessions, size_t n, const int32_t *ids,
                                float *e, size_t lde, double *sum, txl_error *error) {
    txl_status status = check_each(sessions, n, ids, error);
    return status ? status
                  : feed_each(sessions, n, ids, (struct weights_of_heads){e, lde, sum}, error);
}

/* ---- Both sides --------------------------------------------------------------------------- */

/* XLNet's blocks and gaps, whose tokens are predicted from both sides. */

void txl_session_end_segment(txl_session *s) {
    session_forget_expected(s);
    if (s->model->network->has_memory)
        s->timeline->segment_start = s->timeline->next;
    else
        s->model->family->reset(s->timeline);
}

static txl_status check_both_sides(const txl_session *s, txl_error *error) {
    if (s->model->family->both_sides)
        return TXL_OK;
    return txl_fail(
        error, TXL_UNSUPPORTED,
        "%s: the family %s sees only what is to the left; blocks and gaps need an XLNet",
        s->model->weights->name, s->model->family->name);
}

txl_status txl_session_feed_block(txl_session *s, const int32_t *ids, size_t n, txl_error *error) {
    txl_status status = check_both_sides(s, error);
    if (!status)
        status = session_check_ids(s, ids, n, error);
    size_t most = (size_t)s->timeline->settings.tgt_len;
    session_forget_distribution(s);
    for (size_t done = 0; done < n && !status; done += most) {
        const float *hidden;
        status = s->model->family->both_sides->block(
            s->timeline, ids + done, n - done < most ? n - done : most, &hidden, error);
        if (!status)
            session_set_last(s, hidden);
    }
    return status;
}

txl_status txl_session_score_block(txl_session *s, const int32_t *ids, size_t known, size_t n,
                                   float *nats, float *logprob, txl_error *error) {
    const txl_settings *settings = &s->timeline->settings;
    txl_status status = check_both_sides(s, error);
    if (!status)
        status = session_check_ids(s, ids, known + n, error);
    if (!status && (known < 1 || known > (size_t)settings->tgt_len || n < 1 || n > TXL_MAX_ASKED ||
                    n > (size_t)settings->mem_len + 1))
        status = txl_fail(error, TXL_ARGUMENT,
                          "a block of %zu tokens and %zu after it: tgt_len is %d, mem_len %d, and "
                          "at most %d are scored at a time",
                          known, n, settings->tgt_len, settings->mem_len, TXL_MAX_ASKED);
    const float *hidden;
    session_forget_distribution(s);
    if (!status)
        status = s->model->family->both_sides->block_then_left(s->timeline, ids, known, n, &hidden,
                                                               error);
    if (status)
        return status;
    session_set_last(s, hidden + (n - 1) * s->model->network->bands.d_model);
    if (nats) {
        adaptive_score(&s->timeline->adaptive, &s->timeline->compute, hidden, n, ids + known, nats);
        adaptive_score_end(&s->timeline->adaptive, &s->timeline->compute);
        status = session_check_nats(s, n, nats, error);
    }
    if (!status && logprob)
        status = session_distribute_pass(s, hidden, n, logprob, error);
    return status;
}

txl_status txl_session_feed_gaps(txl_session *s, const int32_t *ids, size_t n, txl_error *error) {
    txl_status status = check_both_sides(s, error);
    for (size_t i = 0; i < n && !status; i++)
        status = ids[i] == TXL_GAP ? TXL_OK : session_check_ids(s, &ids[i], 1, error);
    if (!status && (n < 1 || n > (size_t)s->timeline->settings.tgt_len))
        status = txl_fail(error, TXL_ARGUMENT,
                          "a segment of %zu positions: it has from 1 to tgt_len, which is %d", n,
                          s->timeline->settings.tgt_len);
    session_forget_distribution(s);
    s->started = false;
    return status ? status : s->model->family->both_sides->gaps(s->timeline, ids, n, error);
}

txl_status txl_session_ask(txl_session *s, const size_t *gaps, size_t n, float *logprob,
                           txl_error *error) {
    txl_status status = check_both_sides(s, error);
    if (!status && (n < 1 || n > TXL_MAX_ASKED))
        status = txl_fail(error, TXL_ARGUMENT, "gaps are asked for 1 to %d at a time, not %zu",
                          TXL_MAX_ASKED, n);
    const float *hidden;
    session_forget_distribution(s);
    if (!status)
        status = s->model->family->both_sides->ask(s->timeline, gaps, n, &hidden, error);
    if (status)
        return status;
    session_set_last(s, hidden);
    s->asked = hidden;
    s->n_asked = n;
    return logprob ? session_distribute_pass(s, hidden, n, logprob, error) : TXL_OK;
}

txl_status txl_session_look(txl_session *s, size_t i, txl_error *error) {
    size_t n = s->n_asked;
    if (i >= n)
        return txl_fail(error, TXL_ARGUMENT, "gap %zu of the %zu that were asked for", i, n);
    session_forget_distribution(s);
    s->n_asked = n;
    session_set_last(s, s->asked + i * s->model->network->bands.d_model);
    return TXL_OK;
}

txl_status txl_session_fill(txl_session *s, size_t gap, int32_t id, txl_error *error) {
    txl_status status = check_both_sides(s, error);
    if (!status)
        status = session_check_ids(s, &id, 1, error);
    session_forget_distribution(s);
    s->started = false;
    return status ? status : s->model->family->both_sides->fill(s->timeline, gap, id, error);
}
