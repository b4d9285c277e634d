/* Beginnings of texts.  Sessions that have read one, kept for texts that begin in the same way: a
 * context with several endings, or a text that grows; and the tokens of former answers, which a
 * request names to go on from. */
#ifndef CLI_PREFIXES_H
#define CLI_PREFIXES_H

#include "scores.h"
#include "txl.h"

#include <pthread.h>

/* A text is fed in calls of equal length from its beginning, and kept only between two of them: so
 * what goes on from here has the bits of a text that is read anew. */
enum { MOST_PREFIXES = 8 };

struct prefix {
    int32_t *ids; /* [n] */
    size_t n;
    txl_session *session; /* NULL: the place is free */
    bool scored;
    struct scores scores; /* of the ids */
    uint64_t used;        /* when it was used last */
};

struct prefixes {
    struct prefix list[MOST_PREFIXES];
    size_t most; /* that may be kept */
    uint64_t time, found, asked;
};

/* What a text needs of a prefix. */
struct prefix_need {
    const int32_t *ids; /* [n] */
    size_t n;
    const struct scores *scores; /* NULL: no scores; else as many likeliest, and as detailed */
};

/* Finds the longest one that the text begins with, and that has what it needs; NULL: none. */
struct prefix *prefixes_find(struct prefixes *prefixes, const struct prefix_need *need);

/* Keeps a copy of the session, which has read need->ids; need->scores are those of its tokens. What
 * there is no memory for is not kept. */
void prefixes_keep(struct prefixes *prefixes, const struct prefix_need *need, txl_session *session);

void prefixes_free(struct prefixes *prefixes);

/* ---- Former answers ------------------------------------------------------------------------ */

/* The last answers are kept, and of these no more than so many tokens. */
enum { MOST_PASTS = 1024, MOST_PAST_TOKENS = 1 << 22 };

/* What was before a text. */
struct past {
    struct id_list list; /* the model's context, if it was read, the prompt and what was drawn */
    bool context;        /* it was */
    char tail;           /* the last byte of the text, 0: none */
};

struct kept_past {
    uint64_t name;
    size_t choice;
    struct past past; /* without ids: the place is free */
};

/* Any thread may use them. */
struct pasts {
    pthread_mutex_t lock;
    struct kept_past list[MOST_PASTS];
    size_t first, n, n_ids; /* the oldest, how many, their ids */
};

/* "cmpl-" and 16 hexadecimal digits, for choice K > 0 ":K".  Room for the name of an answer. */
enum { PAST_NAME = 32 };
void past_name(uint64_t name, char text[PAST_NAME]);

/* Keeps choice `choice` of an answer.  Takes the ids.  The oldest make room. */
void pasts_keep(struct pasts *pasts, uint64_t name, size_t choice, struct past *past);

/* Copies what is kept by that name; without ids: nothing is.  False when memory is short. */
bool pasts_find(struct pasts *pasts, const char *name, struct past *past);

void past_free(struct past *past);
void pasts_open(struct pasts *pasts);
void pasts_close(struct pasts *pasts);

#endif
