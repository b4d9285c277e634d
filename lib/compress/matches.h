/* Matches: the element that came after the newest occurrence of the last elements, in any stream,
 * is predicted to come again (Mahoney's match model, as in lpaq). */
#ifndef TXL_COMPRESS_MATCHES_H
#define TXL_COMPRESS_MATCHES_H

#include "contexts.h"
#include "logistic.h"

enum {
    N_MATCH = 2, /* of 6 last elements, of 3 */
    MATCH_LENGTHS = 21,
    MATCH_CLASSES = 14
};

struct match {
    uint32_t length; /* elements that have been equal; 0: there is no match */
    uint32_t stream, at;
};

/* What matches say of a stream's next element. */
struct match_guess {
    uint32_t length; /* 0: nothing */
    int32_t element;
};

struct matches {
    size_t n_stream;
    struct match (*held)[N_MATCH]; /* [n_stream] */
    /* [2^18] by the hash of last elements, 0 or 1 + stream + n_stream * their end. */
    uint32_t *table[N_MATCH];
    /* How likely a match of a length is right, also at the tree's root. */
    uint16_t right[N_MATCH][2][MATCH_LENGTHS];
};

txl_status matches_open(struct matches *matches, size_t n_stream, txl_error *error);
void matches_close(struct matches *matches); /* all zero is fine */

/* What they say; histories[n_stream] are those of all streams. */
void matches_look(const struct matches *matches, const struct history *histories, size_t stream,
                  struct match_guess guess[N_MATCH]);

/* After an element was added to the stream's history, of which they had said guess[]. */
void matches_add(struct matches *matches, const struct history *histories, size_t stream,
                 const struct match_guess guess[N_MATCH]);

/* Inputs of the mixer at a decision; bit[k] is what match k says there, or -1. */
void matches_predict(const struct matches *matches, const struct logistic *logistic,
                     const struct match_guess guess[N_MATCH], const int bit[N_MATCH], bool root,
                     int32_t input[N_MATCH]);
void matches_learn(struct matches *matches, const struct match_guess guess[N_MATCH],
                   const int said[N_MATCH], bool root, int bit);

/* By what they say, from 0 to MATCH_CLASSES - 1. */
int matches_class(const struct match_guess guess[N_MATCH], const int bit[N_MATCH]);

#endif
