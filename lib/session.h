/* A session: the network's state, and the distribution of the next token as far as it has been
 * asked for. */
#ifndef TXL_SESSION_H
#define TXL_SESSION_H

#include "network.h"

struct candidate {
    float logprob;
    int32_t id;
};

struct txl_session {
    const txl_model *model;
    struct network network;
    float *last;  /* [d_model] the hidden state after the last token */
    bool started; /* there is one */

    /* The distribution after it, band by band as needed. */
    float *logprob;              /* [n_token] */
    float *cluster;              /* [n_band] log-probabilities of the bands; of band 0, 0 */
    bool *have;                  /* [n_band] whose tokens are in logprob */
    struct candidate *candidate; /* [n_token], room to choose in */
};

/* Computes band i's part of the distribution, if it is not there yet. */
txl_status session_need_band(txl_session *session, int i, txl_error *error);

/* Fills session->candidate with the k likeliest tokens that are not banned, best first (ties: the
 * lower id), and `*n` with their number, computing only the bands that may hold one. */
txl_status session_likeliest(txl_session *session, size_t k, const int32_t *banned, size_t n_banned,
                             size_t *n, txl_error *error);

#endif
