/* Each token in a new segment of those before it, without memory (--sliding-window): the most
 * context for every token, and a pass of its own. */
#include "way.h"

static size_t open_window(struct scorer *scorer, const struct way_options *options) {
    scorer->window = options->window;
    scorer->chunk = 1;
    scorer->rows = options->distributions;
    return options->window + 1;
}

static txl_status start_after(struct scorer *scorer, const struct id_list *before,
                              txl_error *error) {
    scorer_start(scorer, 0);
    return scorer_follow(scorer, before, before->n < scorer->window ? before->n : scorer->window,
                         error);
}

/* Scores ids[n - 1] in a new segment of all ids before it. */
static txl_status score_window(struct scorer *scorer, txl_error *error) {
    size_t last = scorer->n - 1;
    txl_status status = TXL_OK;
    for (size_t k = 0; k < scorer->n_lane && !status; k++) {
        struct lane *lane = &scorer->lane[k];
        txl_session_reset(lane->by.session);
        if (last > 1)
            status = txl_session_feed(lane->by.session, scorer->ids, last - 1, error);
        if (!status)
            status = scorer_score(scorer, lane, &scorer->ids[last - 1], 1, error);
    }
    return status ? status : scorer_end_call(scorer, last, 1, last == scorer->window, error);
}

static txl_status push(struct scorer *scorer, txl_error *error) {
    return scorer->n < 2 ? TXL_OK : score_window(scorer, error);
}

/* Nothing waits. */
static txl_status flush(struct scorer *scorer, txl_error *error) {
    (void)scorer;
    (void)error;
    return TXL_OK;
}

const struct way way_window = {
    .open = open_window, .context = 1, .start_after = start_after, .push = push, .flush = flush};
