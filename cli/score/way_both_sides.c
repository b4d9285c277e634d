/* XLNet: each token from all others of its window of tgt_len (--both-sides). */
#include "cli/io/signals.h"
#include "lib/base/error.h"
#include "way.h"

#include <stdlib.h>
#include <string.h>

static size_t open_both(struct scorer *scorer, const struct way_options *options) {
    txl_settings settings;
    (void)options;
    scorer->tgt_len = SIZE_MAX;
    for (size_t i = 0; i < scorer->n_lane; i++) {
        txl_session_settings(scorer->lane[i].by.session, &settings);
        if ((size_t)settings.tgt_len < scorer->tgt_len)
            scorer->tgt_len = (size_t)settings.tgt_len;
    }
    scorer->chunk = scorer->rows = 1;
    return 2 * scorer->tgt_len;
}

/* The window that the stream begins in, and the one before, are known. */
static txl_status start_after(struct scorer *scorer, const struct id_list *before,
                              txl_error *error) {
    const size_t last = before->n % scorer->tgt_len;
    scorer_start(scorer, 0);
    return scorer_follow(scorer, before,
                         last + (before->n >= scorer->tgt_len ? scorer->tgt_len : 0), error);
}

/* Feeds the window ids[first, first + n) to each session, with gaps where hidden[n] says, and asks
 * for the gap `at`. */
static txl_status ask_both(struct scorer *scorer, size_t first, size_t n, const int32_t *hidden,
                           size_t at, txl_error *error) {
    txl_status status = TXL_OK;
    for (size_t k = 0; k < scorer->n_lane && !status; k++) {
        struct lane *lane = &scorer->lane[k];
        txl_session_reset(lane->by.session);
        status = txl_session_feed_gaps(lane->by.session, hidden, n, error);
        if (!status)
            status = txl_session_ask(lane->by.session, &at, 1, lane->logprob, error);
        if (!status)
            lane->nats[0] = -lane->logprob[scorer->ids[first + at]];
    }
    return status;
}

/* Scores the window's token `at` from all others, but for the rest of its word with `begins`. */
static txl_status score_both(struct scorer *scorer, size_t first, size_t n, int32_t *hidden,
                             size_t at, txl_error *error) {
    size_t end = at + 1;
    while (scorer->begins && end < n && !scorer->begins[scorer->ids[first + end]])
        end++;
    for (size_t i = at; i < end; i++)
        hidden[i] = TXL_GAP;
    txl_status status = ask_both(scorer, first, n, hidden, at, error);
    memcpy(hidden + at, scorer->ids + first + at, (end - at) * sizeof *hidden);
    return status ? status : scorer_tell(scorer, 0, first + at, error);
}

/* Scores the tokens of the window that ends with the ids that came, which is the last tgt_len of
 * them; so the last window of a text is as long as the others, and may overlap the one before. */
static txl_status score_window_both(struct scorer *scorer, txl_error *error) {
    size_t first = scorer->n > scorer->tgt_len ? scorer->n - scorer->tgt_len : 0,
           n = scorer->n - first;
    txl_status status = TXL_OK;
    int32_t *hidden = malloc(n * sizeof *hidden);
    if (!hidden)
        return txl_fail_memory(error, "a window", n * sizeof *hidden);
    memcpy(hidden, scorer->ids + first, n * sizeof *hidden);
    for (size_t at = scorer->known; at < scorer->n && !status; at++) {
        status = score_both(scorer, first, n, hidden, at - first, error);
        if (!status && signals_stopped())
            status = TXL_STOPPED;
    }
    free(hidden);
    scorer->known = n;
    return status ? status : scorer_end_call(scorer, 0, 0, first, error);
}

/* The second window is the first that has one before it. */
static txl_status push(struct scorer *scorer, txl_error *error) {
    size_t whole = scorer->known >= scorer->tgt_len ? 2 * scorer->tgt_len : scorer->tgt_len;
    return scorer->n < whole ? TXL_OK : score_window_both(scorer, error);
}

static txl_status flush(struct scorer *scorer, txl_error *error) {
    return scorer->n > scorer->known && scorer->n > 1 ? score_window_both(scorer, error) : TXL_OK;
}

const struct way way_both_sides = {
    .open = open_both, .context = 0, .start_after = start_after, .push = push, .flush = flush};
