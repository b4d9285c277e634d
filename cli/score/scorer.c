/* Scores tokens segment by segment, or each from a window of its own. */
#include "scorer.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "lib/base/error.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Distributions take at most 64 MB for each session. */
enum { MOST_CHUNK = 4096, DISTRIBUTIONS = 1 << 24 };

void score_add(struct score *score, double nats) {
    score->predicted++;
    score->nats += nats;
    double difference = nats - score->mean;
    score->mean += difference / (double)score->predicted;
    score->squares += difference * (nats - score->mean);
}

/* Chan, Golub and LeVeque (1979). */
void score_merge(struct score *score, const struct score *other) {
    if (score->predicted == 0 || other->predicted == 0) {
        *score = other->predicted > 0 ? *other : *score;
        return;
    }
    double n = (double)score->predicted, m = (double)other->predicted;
    double difference = other->mean - score->mean;
    score->predicted += other->predicted;
    score->share.bytes += other->share.bytes;
    score->share.characters += other->share.characters;
    score->share.words += other->share.words;
    score->known.predicted += other->known.predicted;
    score->known.characters += other->known.characters;
    score->known.nats += other->known.nats;
    score->nats += other->nats;
    score->mean += difference * m / (n + m);
    score->squares += other->squares + difference * difference * n * m / (n + m);
}

double score_standard_error(const struct score *score) {
    double n = (double)score->predicted;
    return score->predicted < 2 ? NAN : sqrt(score->squares / (n - 1) / n);
}

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

/* Makes room for `most` ids, and for what each call gives. */
static bool make_room(struct scorer *scorer, size_t most) {
    scorer->ids = calloc(most, sizeof *scorer->ids);
    scorer->places = calloc(most, sizeof *scorer->places);
    bool good = scorer->ids && scorer->places;
    for (size_t i = 0; i < scorer->n_lane; i++) {
        struct lane *lane = &scorer->lane[i];
        lane->nats = calloc(scorer->chunk, sizeof *lane->nats);
        good = good && lane->nats;
        if (scorer->rows > 0) {
            lane->logprob = calloc(scorer->rows, scorer->n_token * sizeof *lane->logprob);
            good = good && lane->logprob;
        }
    }
    return good;
}

bool scorer_new_both(struct scorer *scorer, const struct predictor *predictors, size_t n_predictor,
                     const txl_model *model) {
    txl_settings settings;
    *scorer = (struct scorer){.n_lane = n_predictor,
                              .n_token = (size_t)txl_model_n_token(model),
                              .both = true,
                              .unk = txl_model_unk(model)};
    scorer->tgt_len = SIZE_MAX;
    for (size_t i = 0; i < n_predictor; i++) {
        scorer->lane[i].by = predictors[i];
        txl_session_settings(predictors[i].session, &settings);
        if ((size_t)settings.tgt_len < scorer->tgt_len)
            scorer->tgt_len = (size_t)settings.tgt_len;
    }
    scorer->chunk = scorer->rows = 1;
    return make_room(scorer, 2 * scorer->tgt_len);
}

bool scorer_new(struct scorer *scorer, const struct predictor *predictors, size_t n_predictor,
                const txl_model *model, size_t together, size_t window, size_t refresh,
                bool distributions) {
    assert(n_predictor <= MOST_SESSIONS);
    *scorer = (struct scorer){.n_lane = n_predictor,
                              .n_token = (size_t)txl_model_n_token(model),
                              .refresh = refresh,
                              .window = window,
                              .unk = txl_model_unk(model)};
    for (size_t i = 0; i < n_predictor; i++)
        scorer->lane[i].by = predictors[i];
    scorer->chunk = window > 0    ? 1
                    : refresh > 0 ? refresh
                                  : chunk_of(scorer, together, distributions);
    for (size_t i = 0; i < n_predictor; i++) {
        txl_settings settings = {.mem_len = 1};
        if (predictors[i].session)
            txl_session_settings(predictors[i].session, &settings);
        scorer->in_segments = scorer->in_segments || settings.mem_len == 0;
    }
    size_t most = (window > 0 ? window : scorer->chunk) + 1;
    if (refresh > 0) {
        txl_settings settings;
        txl_session_settings(predictors[0].session, &settings);
        scorer->tgt_len = (size_t)settings.tgt_len;
        most += scorer->tgt_len;
    }
    scorer->rows = distributions ? scorer->chunk : 0;
    return make_room(scorer, most);
}

void scorer_free(struct scorer *scorer) {
    for (size_t i = 0; i < scorer->n_lane; i++) {
        txl_session_free(scorer->lane[i].copy);
        free(scorer->lane[i].nats);
        free(scorer->lane[i].logprob);
    }
    id_list_free(&scorer->read);
    txl_cache_free(scorer->cache);
    free(scorer->ids);
    free(scorer->places);
    *scorer = (struct scorer){0};
}

void scorer_observe(struct scorer *scorer,
                    txl_status (*token)(void *, const struct scored *, txl_error *),
                    void *context) {
    assert(scorer->n_observer < MOST_OBSERVERS);
    scorer->observer[scorer->n_observer++] = (struct observer){token, context};
}

static void free_copies(struct scorer *scorer) {
    for (size_t i = 0; i < scorer->n_lane; i++) {
        txl_session_free(scorer->lane[i].copy);
        scorer->lane[i].copy = NULL;
    }
}

void scorer_start(struct scorer *scorer, uint64_t index) {
    free_copies(scorer);
    scorer->is_read = false;
    for (size_t i = 0; i < scorer->n_lane; i++)
        if (scorer->lane[i].by.learner)
            txl_learner_start(scorer->lane[i].by.learner);
        else
            txl_session_reset(scorer->lane[i].by.session);
    scorer->read.n = 0;
    scorer->n = 0;
    scorer->known = scorer->both ? 0 : 1; /* its context */
    scorer->unscored = 0;
    scorer->index = index;
    scorer->score = (struct score){0};
    if (scorer->cache)
        txl_cache_reset(scorer->cache);
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
    free_copies(scorer);
    scorer->is_read = scorer->is_read && again;
    scorer->score = (struct score){0};
    if (scorer->cache)
        txl_cache_reset(scorer->cache);
    txl_status status = feed_before(scorer, before, again, error);
    if (!status && !again && !keep_before(scorer, before))
        return txl_fail(error, TXL_MEMORY, "out of memory");
    return status;
}

/* What is read before a text is counted too, but for its first token, which stands before every
 * text. */
static txl_status count_before(struct scorer *scorer, const struct id_list *before,
                               txl_error *error) {
    txl_status status = TXL_OK;
    for (size_t i = 1; scorer->cache && i < before->n && !status; i++)
        status = txl_cache_add(scorer->cache, before->ids[i], 0, NULL, error);
    return status;
}

txl_status scorer_start_after(struct scorer *scorer, const struct id_list *before,
                              txl_error *error) {
    txl_status status = TXL_OK;
    size_t known = 1;
    if (scorer->both) /* the window that the stream begins in, and the one before */
        known = before->n % scorer->tgt_len + (before->n >= scorer->tgt_len ? scorer->tgt_len : 0);
    else if (scorer->in_segments || scorer->lane[0].by.learner)
        return push_before(scorer, before, error);
    if (scorer->refresh > 0)
        known = before->n < scorer->tgt_len ? before->n : scorer->tgt_len;
    if (scorer->both || scorer->refresh > 0 || before->n == 1)
        scorer_start(scorer, 0);
    else
        status = read_before(scorer, before, error);
    memcpy(scorer->ids, before->ids + before->n - known, known * sizeof *scorer->ids);
    memset(scorer->places, 0, known * sizeof *scorer->places);
    scorer->n = scorer->known = known;
    scorer->unscored = 0;
    scorer->index = 0 - (uint64_t)known;
    return status ? status : count_before(scorer, before, error);
}

/* Scores the token after each of ids[n], which is ids[1 .. n]. */
static txl_status score_ids(struct scorer *scorer, struct lane *lane, const int32_t *ids, size_t n,
                            txl_error *error) {
    if (lane->by.learner)
        return txl_learner_score(lane->by.learner, ids, n, ids + 1, lane->nats, lane->logprob,
                                 error);
    txl_session *session = lane->copy ? lane->copy : lane->by.session;
    if (!lane->logprob)
        return txl_session_score(session, ids, n, ids + 1, lane->nats, error);
    txl_status status = txl_session_distributions(session, ids, n, lane->logprob, error);
    for (size_t i = 0; !status && i < n; i++)
        lane->nats[i] = -lane->logprob[i * scorer->n_token + (size_t)ids[i + 1]];
    return status;
}

static void add_token(struct score *score, const struct scored *token) {
    const struct share *share = &token->place->share;
    score_add(score, token->nats[0]);
    score->share.bytes += share->bytes;
    score->share.characters += share->characters;
    score->share.words += share->words;
    if (token->unknown)
        return;
    score->known.predicted++;
    score->known.characters += share->characters;
    score->known.nats += (double)token->nats[0];
}

/* Mixes the cache into what the first session predicts for the i-th of the tokens just scored. */
static txl_status mix_token(struct scorer *scorer, size_t i, struct scored *token,
                            txl_error *error) {
    double mixed;
    if (scorer->lane[0].logprob)
        txl_cache_mix(scorer->cache, scorer->lane[0].logprob + i * scorer->n_token);
    txl_status status =
        txl_cache_add(scorer->cache, token->id, -(double)token->nats[0], &mixed, error);
    token->nats[0] = (float)-mixed;
    return status;
}

/* Reports the i-th of the tokens just scored, which is ids[at]. */
static txl_status record_token(struct scorer *scorer, size_t i, size_t at, txl_error *error) {
    if (scorer->unscored > 0) {
        scorer->unscored--;
        return scorer->cache ? txl_cache_add(scorer->cache, scorer->ids[at], 0, NULL, error)
                             : TXL_OK;
    }
    struct scored token = {
        .index = scorer->index + at, .id = scorer->ids[at], .place = &scorer->places[at]};
    for (size_t k = 0; k < scorer->n_lane; k++) {
        const struct lane *lane = &scorer->lane[k];
        token.nats[k] = lane->nats[i];
        token.logprob[k] = lane->logprob ? lane->logprob + i * scorer->n_token : NULL;
    }
    txl_status status = scorer->cache ? mix_token(scorer, i, &token, error) : TXL_OK;
    token.unknown = scorer->unk >= 0 && token.id == scorer->unk;
    add_token(&scorer->score, &token);
    for (size_t k = 0; k < scorer->n_observer && !status; k++)
        status = scorer->observer[k].token(scorer->observer[k].context, &token, error);
    return status;
}

/* Reports the `n` tokens just scored, which are ids[first] and those after it; then forgets the
 * first `past` ids. */
static txl_status end_call(struct scorer *scorer, size_t first, size_t n, size_t past,
                           txl_error *error) {
    for (size_t i = 0; i < n; i++) {
        txl_status status = record_token(scorer, i, first + i, error);
        if (status)
            return status;
    }
    scorer->n -= past;
    scorer->index += past;
    memmove(scorer->ids, scorer->ids + past, scorer->n * sizeof *scorer->ids);
    memmove(scorer->places, scorer->places + past, scorer->n * sizeof *scorer->places);
    return signals_stopped() ? TXL_STOPPED : TXL_OK;
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
            status = score_ids(scorer, lane, &scorer->ids[last - 1], 1, error);
    }
    return status ? status : end_call(scorer, last, 1, last == scorer->window, error);
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
    return status ? status : end_call(scorer, known, n, past, error);
}

/* ---- Both sides --------------------------------------------------------------------------- */

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
    return status ? status : record_token(scorer, 0, first + at, error);
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
    return status ? status : end_call(scorer, 0, 0, first, error);
}

/* The second window is the first that has one before it. */
static txl_status push_both(struct scorer *scorer, txl_error *error) {
    size_t whole = scorer->known >= scorer->tgt_len ? 2 * scorer->tgt_len : scorer->tgt_len;
    return scorer->n < whole ? TXL_OK : score_window_both(scorer, error);
}

txl_status scorer_flush(struct scorer *scorer, txl_error *error) {
    if (scorer->both)
        return scorer->n > scorer->known && scorer->n > 1 ? score_window_both(scorer, error)
                                                          : TXL_OK;
    if (scorer->refresh > 0)
        return scorer->n > scorer->known ? score_round(scorer, error) : TXL_OK;
    if (scorer->window > 0 || scorer->n < 2)
        return TXL_OK;
    size_t n = scorer->n - 1;
    txl_status status = TXL_OK;
    for (size_t k = 0; k < scorer->n_lane && !status; k++)
        status = score_ids(scorer, &scorer->lane[k], scorer->ids, n, error);
    return status ? status : end_call(scorer, 1, n, n, error);
}

txl_status scorer_push(struct scorer *scorer, int32_t id, const struct place *place,
                       txl_error *error) {
    scorer->places[scorer->n] = *place;
    scorer->ids[scorer->n++] = id;
    if (scorer->both)
        return push_both(scorer, error);
    if (scorer->window > 0)
        return scorer->n < 2 ? TXL_OK : score_window(scorer, error);
    if (scorer->refresh > 0)
        return scorer->n < scorer->known + scorer->refresh ? TXL_OK : score_round(scorer, error);
    return scorer->n <= scorer->chunk ? TXL_OK : scorer_flush(scorer, error);
}
