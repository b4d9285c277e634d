/* Keeps the ids of a stream, asks the predictors, and tells observers of each scored token. */
#include "scorer.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "lib/base/error.h"
#include "way.h"
#include "words.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- Sums --------------------------------------------------------------------------------- */

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

bool score_error_shows(double error, int decimals) {
    return error >= 0.5 * pow(10, -decimals) && isfinite(error);
}

struct estimate estimate(double value, double error) {
    struct estimate shown = {"", ""};
    int decimals = error > 0 ? (int)fmin(fmax(1 - floor(log10(error)), 0), 6) : 0;
    const bool shows = score_error_shows(error, decimals);
    if (shows)
        snprintf(shown.error, sizeof shown.error, " (standard error %s)",
                 grouped(error, decimals).text);
    snprintf(shown.value, sizeof shown.value, "%s", grouped(value, shows ? decimals : 3).text);
    return shown;
}

/* ---- The scorer --------------------------------------------------------------------------- */

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

bool scorer_new(struct scorer *scorer, const struct predictor *predictors, size_t n_predictor,
                const txl_model *model, const struct way_options *options) {
    assert(n_predictor <= MOST_SESSIONS);
    *scorer = (struct scorer){.n_lane = n_predictor,
                              .n_token = (size_t)txl_model_n_token(model),
                              .unk = txl_model_unk(model)};
    for (size_t i = 0; i < n_predictor; i++)
        scorer->lane[i].by = predictors[i];
    scorer->way = options->both_sides    ? &way_both_sides
                  : options->refresh > 0 ? &way_refresh
                  : options->window > 0  ? &way_window
                                         : &way_segments;
    const size_t most = scorer->way->open(scorer, options);
    if (options->word_left && !(scorer->begins = words_boundaries(model)))
        return false;
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
    free(scorer->begins);
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

void scorer_free_copies(struct scorer *scorer) {
    for (size_t i = 0; i < scorer->n_lane; i++) {
        txl_session_free(scorer->lane[i].copy);
        scorer->lane[i].copy = NULL;
    }
}

/* ---- Streams ------------------------------------------------------------------------------ */

void scorer_start(struct scorer *scorer, uint64_t index) {
    scorer_free_copies(scorer);
    scorer->is_read = false;
    for (size_t i = 0; i < scorer->n_lane; i++)
        if (scorer->lane[i].by.learner)
            txl_learner_start(scorer->lane[i].by.learner);
        else
            txl_session_reset(scorer->lane[i].by.session);
    scorer->read.n = 0;
    scorer->n = 0;
    scorer->known = scorer->way->context;
    scorer->unscored = 0;
    scorer->index = index;
    scorer->score = (struct score){0};
    if (scorer->cache)
        txl_cache_reset(scorer->cache);
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

txl_status scorer_follow(struct scorer *scorer, const struct id_list *before, size_t known,
                         txl_error *error) {
    memcpy(scorer->ids, before->ids + before->n - known, known * sizeof *scorer->ids);
    memset(scorer->places, 0, known * sizeof *scorer->places);
    scorer->n = scorer->known = known;
    scorer->unscored = 0;
    scorer->index = 0 - (uint64_t)known;
    return count_before(scorer, before, error);
}

txl_status scorer_start_after(struct scorer *scorer, const struct id_list *before,
                              txl_error *error) {
    return scorer->way->start_after(scorer, before, error);
}

txl_status scorer_push(struct scorer *scorer, int32_t id, const struct place *place,
                       txl_error *error) {
    scorer->places[scorer->n] = *place;
    scorer->ids[scorer->n++] = id;
    return scorer->way->push(scorer, error);
}

txl_status scorer_flush(struct scorer *scorer, txl_error *error) {
    return scorer->way->flush(scorer, error);
}

/* ---- Scored tokens ------------------------------------------------------------------------ */

txl_status scorer_score(struct scorer *scorer, struct lane *lane, const int32_t *ids, size_t n,
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

txl_status scorer_tell(struct scorer *scorer, size_t i, size_t at, txl_error *error) {
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

txl_status scorer_end_call(struct scorer *scorer, size_t first, size_t n, size_t done,
                           txl_error *error) {
    for (size_t i = 0; i < n; i++) {
        txl_status status = scorer_tell(scorer, i, first + i, error);
        if (status)
            return status;
    }
    scorer->n -= done;
    scorer->index += done;
    memmove(scorer->ids, scorer->ids + done, scorer->n * sizeof *scorer->ids);
    memmove(scorer->places, scorer->places + done, scorer->n * sizeof *scorer->places);
    return signals_stopped() ? TXL_STOPPED : TXL_OK;
}
