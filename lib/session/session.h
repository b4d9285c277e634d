/* A session: the network's state, and the distribution of the next token as far as it has been
 * asked for. */
#ifndef TXL_SESSION_H
#define TXL_SESSION_H

#include "model.h"

struct candidate {
    double score; /* the log-probability, perhaps adjusted; not normalised then */
    int32_t id;
};

struct txl_session {
    struct arena arena; /* that all of it lies in */
    const txl_model *model;
    struct timeline *timeline;
    float *last;  /* [d_model] the hidden state after the last token */
    bool started; /* there is one */

    const float *asked; /* [n_asked, d_model] those of the gaps asked for last */
    size_t n_asked;

    /* The distribution after it, band by band as needed. */
    float *logprob;              /* [n_token] */
    float *cluster;              /* [n_band] log-probabilities of the bands; of band 0, 0 */
    bool *have;                  /* [n_band] whose tokens are in logprob */
    struct candidate *candidate; /* [n_token], room to choose in */
    unsigned char *mark;         /* [n_token], likewise: the marks of an adjustment */
};

enum { MARK_BANNED = 1, MARK_PENALISED = 2 };

/* What a draw changes about the distribution before it chooses: tokens left out, and tokens whose
 * log-probability is multiplied. */
struct adjustment {
    const unsigned char *mark; /* [n_token] */
    double penalty;
};

/* Refuses a session whose segment has gaps, open or just filled. */
txl_status session_check_finished(const txl_session *session, txl_error *error);

/* Computes band i's part of the distribution, if it is not there yet. */
txl_status session_need_band(txl_session *session, int i, txl_error *error);

/* Fills session->candidate with the k tokens of the highest scores, of those that are `least` or
 * more, best first (ties: the lower id), and `*n` with their number, computing only the bands that
 * may hold one.  `adjustment` NULL: none. */
txl_status session_likeliest(txl_session *session, size_t k, double least,
                             const struct adjustment *adjustment, size_t *n, txl_error *error);

#endif
