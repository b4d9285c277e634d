/* Segment after segment, with the predictors' memories: as models are trained, and the fastest way.
 */
#include "lib/base/error.h"
#include "way.h"

#include <string.h>

/* Distributions take at most 64 MB for each session. */
enum { MOST_CHUNK = 4096, DISTRIBUTIONS = 1 << 24 };

/* Ids scored in one call: `together`, or a longer segment; whole segments if the model has no
 * memory, which needs them. */
static size_t chunk_of(const struct scorer *scorer, size_t together, bool distributions) {
    size_t whole = 1, longest = 1;
    for (size_t i = 0; i < scorer->n_lane; i++) {
        txl_settings settings;
        if (scorer->lane[i].by.learner) {
            txl_learner_settings(scorer->lane[i].by.learner, &settings);
            return (size_t)settings.tgt_len; /* a segment a call */
        }
        txl_session_settings(scorer->lane[i].by.session, &settings);
        size_t tgt_len = (size_t)settings.tgt_len;
        whole = settings.mem_len > 0 ? whole : common_multiple(whole, tgt_len);
        longest = tgt_len > longest ? tgt_len : longest;
    }
    size_t chunk = longest < together     ? together / longest * longest
                   : longest > MOST_CHUNK ? MOST_CHUNK
                                          : longest;
    if (distributions && chunk > DISTRIBUTIONS / scorer->n_token)
        chunk = DISTRIBUTIONS / scorer->n_token;
    return chunk < whole ? whole : chunk / whole * whole;
}

/* Whether the last stream had the same before it. */
static bool was_read(const struct scorer *scorer, const struct id_list *before) {
    const struct id_list *read = &scorer->read;
    return read->n == before->n &&
           memcmp(read->ids, before->ids, before->n * sizeof *before->ids) == 0;
}

/* Remembers what is before the stream. */
static bool keep_before(struct scorer *scorer, const struct id_list *before) {
    bool good = true;
    scorer->read.n = 0;
    for (size_t i = 0; i < before->n && good; i++)
        good = id_list_add(&scorer->read, before->ids[i]);
    return good;
}

/* Feeds all ids but the last, whose distribution is the first that is scored.  They are one call,
 * so that a stream has the same bits whether the sessions stood there already or not. */
static txl_status feed_before(struct scorer *scorer, const struct id_list *before, bool again,
                              txl_error *error) {
    txl_status status = TXL_OK;
    for (size_t i = 0; i < scorer->n_lane && !status; i++) {
        struct lane *lane = &scorer->lane[i];
        if (!scorer->is_read) {
            txl_session_reset(lane->by.session);
            status = txl_session_feed(lane->by.session, before->ids, before->n - 1, error);
        }
        if (!status && again)
            status = txl_session_copy(lane->by.session, &lane->copy, error);
    }
    scorer->is_read = again && !status;
    return status;
}

/* Without a memory the context starts the first segment, so it is scored with the rest. */
static txl_status push_before(struct scorer *scorer, const struct id_list *before,
                              txl_error *error) {
    const struct place nowhere = {0};
    txl_status status = TXL_OK;
    scorer_start(scorer, 0 - (uint64_t)before->n);
    scorer->unscored = before->n - 1;
    for (size_t i = 0; i < before->n && !status; i++)
        status = scorer_push(scorer, before->ids[i], &nowhere, error);
    return status;
}

/* A context used twice is cached; each stream continues a copy. */
static txl_status read_before(struct scorer *scorer, const struct id_list *before,
                              txl_error *error) {
    bool again = was_read(scorer, before);
    scorer_free_copies(scorer);
    scorer->is_read = scorer->is_read && again;
    scorer->score = (struct score){0};
    if (scorer->cache)
        txl_cache_reset(scorer->cache);
    txl_status status = feed_before(scorer, before, again, error);
    if (!status && !again && !keep_before(scorer, before))
        return txl_fail(error, TXL_MEMORY, "out of memory");
    return status;
}

static size_t open_segments(struct scorer *scorer, const struct way_options *options) {
    scorer->chunk = chunk_of(scorer, options->together, options->distributions);
    scorer->rows = options->distributions ? scorer->chunk : 0;
    for (size_t i = 0; i < scorer->n_lane; i++) {
        txl_settings settings = {.mem_len = 1};
        if (scorer->lane[i].by.session)
            txl_session_settings(scorer->lane[i].by.session, &settings);
        scorer->in_segments = scorer->in_segments || settings.mem_len == 0;
    }
    return scorer->chunk + 1;
}

static txl_status start_after(struct scorer *scorer, const struct id_list *before,
                              txl_error *error) {
    txl_status status = TXL_OK;
    if (scorer->in_segments || scorer->lane[0].by.learner)
        return push_before(scorer, before, error);
    if (before->n == 1)
        scorer_start(scorer, 0);
    else
        status = read_before(scorer, before, error);
    return status ? status : scorer_follow(scorer, before, 1, error);
}

static txl_status flush(struct scorer *scorer, txl_error *error) {
    txl_status status = TXL_OK;
    if (scorer->n < 2)
        return TXL_OK;
    const size_t n = scorer->n - 1;
    for (size_t k = 0; k < scorer->n_lane && !status; k++)
        status = scorer_score(scorer, &scorer->lane[k], scorer->ids, n, error);
    return status ? status : scorer_end_call(scorer, 1, n, n, error);
}

static txl_status push(struct scorer *scorer, txl_error *error) {
    return scorer->n <= scorer->chunk ? TXL_OK : flush(scorer, error);
}

const struct way way_segments = {
    .open = open_segments, .context = 1, .start_after = start_after, .push = push, .flush = flush};
