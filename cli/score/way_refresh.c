/* XLNet: so many tokens at a time from a block of those before them, as it generates (--refresh).
 */
#include "way.h"

static size_t open_refresh(struct scorer *scorer, const struct way_options *options) {
    txl_settings settings;
    txl_session_settings(scorer->lane[0].by.session, &settings);
    scorer->tgt_len = (size_t)settings.tgt_len;
    scorer->chunk = options->refresh;
    scorer->rows = options->distributions ? scorer->chunk : 0;
    return scorer->chunk + 1 + scorer->tgt_len;
}

static txl_status start_after(struct scorer *scorer, const struct id_list *before,
                              txl_error *error) {
    scorer_start(scorer, 0);
    return scorer_follow(scorer, before, before->n < scorer->tgt_len ? before->n : scorer->tgt_len,
                         error);
}

/* Scores the ids after the known ones, which are read as a block, as many as fit. */
static txl_status score_round(struct scorer *scorer, txl_error *error) {
    size_t known = scorer->known, n = scorer->n - known;
    size_t block = known < scorer->tgt_len ? known : scorer->tgt_len;
    size_t past = scorer->n > scorer->tgt_len ? scorer->n - scorer->tgt_len : 0;
    txl_status status = TXL_OK;
    for (size_t k = 0; k < scorer->n_lane && !status; k++) {
        struct lane *lane = &scorer->lane[k];
        status = txl_session_score_block(lane->by.session, scorer->ids + known - block, block, n,
                                         lane->nats, lane->logprob, error);
    }
    scorer->known = scorer->n - past;
    return status ? status : scorer_end_call(scorer, known, n, past, error);
}

static txl_status flush(struct scorer *scorer, txl_error *error) {
    return scorer->n > scorer->known ? score_round(scorer, error) : TXL_OK;
}

static txl_status push(struct scorer *scorer, txl_error *error) {
    return scorer->n < scorer->known + scorer->chunk ? TXL_OK : score_round(scorer, error);
}

const struct way way_refresh = {
    .open = open_refresh, .context = 1, .start_after = start_after, .push = push, .flush = flush};
