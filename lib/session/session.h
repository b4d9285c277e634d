/* A session: the network's state, and the distribution of the next token as far as it was
 * computed. */
#ifndef TXL_SESSION_H
#define TXL_SESSION_H

#include "lib/base/float_environment.h"
#include "model.h"
#include "txl.h"

struct candidate {
    double score; /* the log-probability, or an adjusted one, which is not normalised */
    int32_t id;
};

struct txl_session {
    struct arena arena; /* holds all members */
    const txl_model *model;
    struct timeline *timeline;
    float *last;  /* [d_model] the hidden state after the last token */
    bool started; /* `last` is set */

    const float *asked; /* [n_asked, d_model] the hidden states of the gaps last asked for */
    size_t n_asked;

    /* The distribution of the next token, band by band as needed. */
    float *logprob;              /* [n_token] */
    double *cluster;             /* [n_band] log-probabilities of the bands; 0 for band 0 */
    bool *have;                  /* [n_band] whether the band's tokens are in logprob */
    struct candidate *candidate; /* [n_token], scratch for choosing */
    unsigned char *mark;         /* [n_token], the marks of an adjustment */

    struct expected *expected; /* NULL: nothing was ever expected */
};

enum { MARK_BANNED = 1, MARK_PENALISED = 2 };

/* Changes to the distribution before a draw: some tokens are left out, and the log-probabilities of
 * others are multiplied. */
struct adjustment {
    const unsigned char *mark; /* [n_token] */
    double penalty;
};

/* The next distribution follows from this hidden state. */
void session_set_last(txl_session *session, const float *hidden);

/* Whatever changes the session begins with it: the distribution is another one, and no id is
 * expected any more. */
void session_forget_distribution(txl_session *session);

/* Ids that are expected (txl_session_expect).  session_feed_expecting feeds an id if some are. */
bool session_expects(const txl_session *session);
txl_status session_feed_expecting(txl_session *session, int32_t id, txl_error *error);
void session_forget_expected(txl_session *session);
void session_free_expected(txl_session *session);

/* Resets the session to where `read` tokens have been read, and the last segment has just become
 * memory.  The caller then imports the memory's rows. */
void session_begin_behind(txl_session *session, uint64_t read);

txl_status session_check_ids(const txl_session *session, const int32_t *ids, size_t n,
                             txl_error *error);
txl_status session_not_finite(const txl_session *session, txl_error *error);
txl_status session_check_nats(const txl_session *session, size_t n, const float *nats,
                              txl_error *error);

/* logprob[n, n_token] of the tokens after each of the n hidden states. */
txl_status session_distribute_pass(txl_session *session, const float *hidden, size_t n,
                                   float *logprob, txl_error *error);

/* A session of the exact arithmetic computes in an environment of its own, whatever its caller's
 * is: session_rounding sets it, and session_restore_rounding ends it. */
struct rounding {
    bool is_set;
    struct float_environment environment;
};
struct rounding session_rounding(const txl_session *session);
void session_restore_rounding(const struct rounding *before);

/* Refuses a session whose segment has gaps that are open or just filled. */
txl_status session_check_finished(const txl_session *session, txl_error *error);

/* Computes band i's part of the distribution, if it is not there yet. */
txl_status session_need_band(txl_session *session, int i, txl_error *error);

/* Feeds ids[i] to the i-th of n sessions of the exact arithmetic, as txl_session_feed_each does,
 * but computes the softmax's head before its division (adaptive_weights): for session i the weights
 * e[i lde ..] and their sum. */
txl_status session_feed_weights(txl_session *const *sessions, size_t n, const int32_t *ids,
                                float *e, size_t lde, double *sum, txl_error *error);

/* The same of band i, for the next token of one session. */
void session_band_weights(txl_session *session, int i, float *e, double *sum);

/* Finds the k tokens with the highest scores of at least `least`, best first (ties: the lower id),
 * in session->candidate, and sets `*n` to their number.  Computes only the bands that may contain
 * one.  `adjustment` may be NULL. */
txl_status session_likeliest(txl_session *session, size_t k, double least,
                             const struct adjustment *adjustment, size_t *n, txl_error *error);

/* ---- The history -------------------------------------------------------------------------- */

/* The ids so far, as drawing a token reads them for the rules against repetition. */

/* The number of ids that the history remembers: those pushed, at most its window. */
size_t history_length(const txl_history *history);
size_t history_window(const txl_history *history);

/* The id `back` places before the last one (back 0: the last); back < history_length. */
int32_t history_id(const txl_history *history, size_t back);

/* Walks the ids that would repeat an n-gram: those that followed earlier occurrences of the last
 * n - 1 ids, each once.  Call it with `at` 0 first, then with what it returned; it returns 0 after
 * the last, without an id. */
uint64_t history_next_repeat(const txl_history *history, uint64_t at, int32_t *id);

#endif
