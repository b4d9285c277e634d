/* The ways of scoring a stream of tokens: which calls of the predictors they make of it.  A way is
 * a file; another one is a file too, with a row in scorer_new. */
#ifndef CLI_SCORE_WAY_H
#define CLI_SCORE_WAY_H

#include "scorer.h"

/* scorer->ids[scorer->n] are those of the stream that are not scored yet, after scorer->known that
 * are there as context. */
struct way {
    /* Sets what a call takes (chunk, rows) and what else the way keeps; returns how many ids there
     * must be room for. */
    size_t (*open)(struct scorer *scorer, const struct way_options *options);
    size_t context; /* ids that a stream begins with and that are not scored */
    /* Starts a stream after all of `before`, one id at least. */
    txl_status (*start_after)(struct scorer *scorer, const struct id_list *before,
                              txl_error *error);
    txl_status (*push)(struct scorer *scorer, txl_error *error); /* ids[n - 1] has come */
    txl_status (*flush)(struct scorer *scorer, txl_error *error);
};

extern const struct way way_segments, way_window, way_refresh, way_both_sides;

/* ---- For ways ----------------------------------------------------------------------------- */

/* Makes the last `known` ids of `before` the context of the stream that was started. */
txl_status scorer_follow(struct scorer *scorer, const struct id_list *before, size_t known,
                         txl_error *error);

/* Lets the lane's predictor score the token after each of ids[n], which is ids[1 .. n]. */
txl_status scorer_score(struct scorer *scorer, struct lane *lane, const int32_t *ids, size_t n,
                        txl_error *error);

/* Tells the observers of the i-th of the tokens just scored, which is ids[at]. */
txl_status scorer_tell(struct scorer *scorer, size_t i, size_t at, txl_error *error);

/* Tells of the `n` tokens just scored, which are ids[first] and those after it; then forgets the
 * first `done` ids. */
txl_status scorer_end_call(struct scorer *scorer, size_t first, size_t n, size_t done,
                           txl_error *error);

/* Forgets the copies of sessions that stand after what was read before a stream. */
void scorer_free_copies(struct scorer *scorer);

#endif
