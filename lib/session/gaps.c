/* XLNet's blocks and gaps, whose tokens are predicted from both sides. */
#include "lib/base/error.h"
#include "session.h"

void txl_session_end_segment(txl_session *s) {
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
    session_set_last(s, hidden + (n - 1) * s->model->network->ends.d_model);
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
    session_set_last(s, s->asked + i * s->model->network->ends.d_model);
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
