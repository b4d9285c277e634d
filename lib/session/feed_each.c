/* Feeding one id to each of several sessions, with one read of the weights. */
#include "lib/base/error.h"
#include "session.h"

#include <stdlib.h>
#include <string.h>

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

/* Feeds some sessions alone, lists the others in together[n] and its_id[n], and feeds them
 * together. */
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
