/* Feeding ids to a session, scoring them, and the distribution of the next token. */
#include "lib/base/error.h"
#include "session.h"

#include <math.h>
#include <string.h>

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

void session_band_weights(txl_session *s, int i, float *e, double *sum) {
    struct timeline *t = s->timeline;
    const size_t n = ends_entries(&t->network->ends, i);
    const struct rounding before = session_rounding(s);
    adaptive_weights(&t->adaptive, &t->compute, s->last, 1, i, e, n, sum);
    session_restore_rounding(&before);
}
