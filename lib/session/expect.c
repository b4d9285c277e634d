/* Ids that are expected to come next: they are read in one pass with the id before them, and what
 * follows each is kept until it has come or another one has. */
#include "lib/base/error.h"
#include "session.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_READ = 1 + TXL_MAX_EXPECTED };

struct expected {
    int32_t ids[TXL_MAX_EXPECTED]; /* [n]; 0: none are expected */
    size_t n;
    size_t come; /* how many of them have */
    bool read;   /* the id before them has come, and they were read with it */

    /* After that id and each of these: */
    float *hidden;   /* [MOST_READ, d_model] */
    float *logprob;  /* [MOST_READ, n_token], of which the softmax's first band is set */
    double *cluster; /* [MOST_READ, n_band] */
};

void session_free_expected(txl_session *s) {
    if (!s->expected)
        return;
    free(s->expected->hidden);
    free(s->expected->logprob);
    free(s->expected->cluster);
    free(s->expected);
}

void session_forget_expected(txl_session *s) {
    if (s->expected)
        s->expected->n = 0;
}

bool session_expects(const txl_session *s) {
    return s->expected && s->expected->n > 0;
}

static bool need_expected(txl_session *s) {
    const size_t d_model = s->model->network->bands.d_model;
    const size_t n_band = (size_t)s->model->network->bands.n_band;
    if (s->expected)
        return true;
    s->expected = calloc(1, sizeof *s->expected);
    if (!s->expected)
        return false;
    struct expected *x = s->expected;
    x->hidden = calloc(MOST_READ, d_model * sizeof *x->hidden);
    x->logprob = calloc(MOST_READ, (size_t)s->model->vocabulary.n * sizeof *x->logprob);
    x->cluster = calloc(MOST_READ, n_band * sizeof *x->cluster);
    if (x->hidden && x->logprob && x->cluster)
        return true;
    session_free_expected(s);
    s->expected = NULL;
    return false;
}

txl_status txl_session_expect(txl_session *s, const int32_t *ids, size_t n, size_t *taken,
                              txl_error *error) {
    const struct family *family = s->model->family;
    const size_t most = family->trial ? family->trial(s->timeline) - 1 : 0;
    session_forget_expected(s);
    *taken = n < most ? n : most;
    txl_status status = session_check_ids(s, ids, n, error);
    if (status || *taken == 0)
        return status;
    if (!need_expected(s))
        return txl_fail_memory(error, "expected ids",
                               (uint64_t)MOST_READ * (uint64_t)s->model->vocabulary.n *
                                   sizeof(float));
    memcpy(s->expected->ids, ids, *taken * sizeof *ids);
    s->expected->n = *taken;
    s->expected->come = 0;
    s->expected->read = false;
    return TXL_OK;
}

/* Reads the id with all that are expected after it. */
static txl_status read_expected(txl_session *s, int32_t id, txl_error *error) {
    struct expected *x = s->expected;
    struct timeline *t = s->timeline;
    const size_t d_model = s->model->network->bands.d_model;
    const float *hidden;
    int32_t ids[MOST_READ] = {id};
    memcpy(ids + 1, x->ids, x->n * sizeof *x->ids);
    txl_status status = s->model->family->advance_trial(t, ids, 1 + x->n, &hidden, error);
    if (status)
        return status;
    memcpy(x->hidden, hidden, (1 + x->n) * d_model * sizeof *hidden);
    adaptive_head(&t->adaptive, &t->compute, hidden, 1 + x->n, x->logprob, x->cluster);
    x->read = true;
    return TXL_OK;
}

/* The next distribution follows from row `row` of what was read. */
static void take_row(txl_session *s, size_t row) {
    const struct expected *x = s->expected;
    const struct bands *bands = &s->model->network->bands;
    const size_t n_token = (size_t)s->model->vocabulary.n, n_band = (size_t)bands->n_band;
    session_set_last(s, x->hidden + row * bands->d_model);
    memcpy(s->logprob, x->logprob + row * n_token, bands->band[0].n_token * sizeof *s->logprob);
    memcpy(s->cluster, x->cluster + row * n_band, n_band * sizeof *s->cluster);
    s->have[0] = true;
}

txl_status session_feed_expecting(txl_session *s, int32_t id, txl_error *error) {
    struct expected *x = s->expected;
    const size_t n = x->n;
    session_forget_distribution(s); /* with what is expected */
    if (x->read && id != x->ids[x->come])
        return txl_session_feed(s, &id, 1, error);
    x->n = n;
    const struct rounding before = session_rounding(s);
    txl_status status = TXL_OK;
    if (x->read) {
        s->model->family->keep_trial(s->timeline);
        x->come++;
    } else {
        status = read_expected(s, id, error);
    }
    session_restore_rounding(&before);
    if (!status)
        take_row(s, x->come);
    if (status || x->come == x->n)
        x->n = 0;
    return status;
}
