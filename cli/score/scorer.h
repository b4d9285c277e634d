/* Scores a stream of tokens that comes one by one, in constant memory. */
#ifndef CLI_SCORE_SCORER_H
#define CLI_SCORE_SCORER_H

#include "cli/model/model.h"
#include "lib/base/memory.h"
#include "txl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How much of the text's source a token takes: from the end of the token before it to its own end.
 * So blanks between tokens count, tokens that stand for the same bytes count them once, and the
 * parts of a text add up.  A word, which is a run without white space, is where it begins. */
struct share {
    uint64_t bytes, characters, words;
};

/* Sums over scored tokens; mean and squares as Welford (1962) keeps them. */
struct score {
    uint64_t predicted;
    struct share share;
    double nats;    /* sum */
    double mean;    /* of the nats of a token */
    double squares; /* sum of squared differences from the mean */
    struct {
        uint64_t predicted, characters;
        double nats;
    } known; /* without the tokens that are <unk> */
};

void score_add(struct score *score, double nats);

/* Merging the same scores in the same order gives the same bits; merging a score into an empty one
 * gives it unchanged. */
void score_merge(struct score *score, const struct score *other);

/* The standard error of the mean; NAN below two tokens. */
double score_standard_error(const struct score *score);

/* Whether so many decimals of a standard error are worth printing: not if all would be 0, which
 * would claim more than is known. */
bool score_error_shows(double error, int decimals);

/* An estimate for people, with as many decimals as show two digits of its standard error: "1.308"
 * and " (standard error 0.019)"; three, and nothing, where no error shows. */
struct estimate {
    char value[40], error[64];
};
struct estimate estimate(double value, double error);

/* The place of a token in the text's source (txl_symbol). */
struct place {
    uint64_t line; /* from 1 */
    uint64_t offset, bytes;
    struct share share;
};

/* A scored token.  With two predictors (--compare), both score it. */
enum { MOST_SESSIONS = 2 };

/* Who predicts: a session, or a learner, which learns from each segment that it has scored. */
struct predictor {
    txl_session *session;
    txl_learner *learner; /* NULL: the session */
};

struct scored {
    uint64_t index; /* in the stream */
    int32_t id;
    bool unknown; /* it is <unk> */
    const struct place *place;
    float nats[MOST_SESSIONS];
    const float *logprob[MOST_SESSIONS]; /* [n_token] of every token that could be in its place;
                                            NULL unless asked for */
};

/* Receives every scored token, in order.  If it returns anything but TXL_OK, scoring ends with
 * that. */
struct observer {
    txl_status (*token)(void *context, const struct scored *token, txl_error *error);
    void *context;
};

enum { MOST_OBSERVERS = 8 };

/* How a stream is scored; zero: segment after segment.  With `window` the sessions must have that
 * tgt_len and no memory; with `refresh` they must see both sides, and have that mem_len; with
 * `both_sides` they must see both, and have no memory. */
struct way_options {
    size_t window;      /* > 0: each token in a new segment of this many before it */
    size_t refresh;     /* > 0: XLNet: this many tokens from a block of those before them */
    bool both_sides;    /* XLNet: each token from all others */
    bool word_left;     /* of these not the rest of its word */
    bool distributions; /* the observers receive them */
    size_t together;    /* ids scored in a call where segments allow it (model_score_tokens) */
};

struct scorer {
    const struct way *way;
    struct lane {
        struct predictor by;
        txl_session *copy; /* of the session after `read`, for one stream; NULL: the session */
        float *nats;       /* [chunk] */
        float *logprob;    /* [rows, n_token], or NULL */
    } lane[MOST_SESSIONS];
    size_t n_lane;
    size_t n_token;
    size_t chunk;         /* ids scored in one call */
    size_t rows;          /* distributions that a lane has room for */
    int32_t *ids;         /* ids waiting to be scored, after what is their context */
    struct place *places; /* of the ids */
    size_t n, known;      /* ids, and those of them that are context */
    uint64_t index;       /* in the stream, of ids[0] */
    size_t unscored;      /* tokens to come that are context all the same */

    /* Of one way each (way.h). */
    size_t window;       /* of a window */
    size_t tgt_len;      /* of a block, of both sides */
    bool *begins;        /* [n_token]: tokens that begin a word; NULL: words do not matter */
    bool in_segments;    /* a model has no memory, so that segments begin where streams do */
    struct id_list read; /* what the last stream of scorer_start_after had before it */
    bool is_read;        /* the sessions stand after all of it but the last id */

    txl_cache *cache; /* NULL, or is mixed with what the first session predicts (--cache) */
    int32_t unk;      /* the id of <unk>, or -1 */
    struct observer observer[MOST_OBSERVERS];
    size_t n_observer;
    struct score score; /* of the current stream, by the first session */
};

/* Predictors with the symbols of `model`.  False when memory is short; end with scorer_free. */
bool scorer_new(struct scorer *scorer, const struct predictor *predictors, size_t n_predictor,
                const txl_model *model, const struct way_options *options);
void scorer_free(struct scorer *scorer);

void scorer_observe(struct scorer *scorer,
                    txl_status (*token)(void *, const struct scored *, txl_error *), void *context);

/* Starts a stream, and its score, at the first memory; its first token, number `index`, is
 * context. */
void scorer_start(struct scorer *scorer, uint64_t index);

/* The same with all of `before`, one id at least, as context; the stream's first token is number 0.
 */
txl_status scorer_start_after(struct scorer *scorer, const struct id_list *before,
                              txl_error *error);

/* TXL_STOPPED when a signal asked to stop. */
txl_status scorer_push(struct scorer *scorer, int32_t id, const struct place *place,
                       txl_error *error);

/* Scores what was pushed and is still waiting. */
txl_status scorer_flush(struct scorer *scorer, txl_error *error);

#endif
