/* Beginnings of texts.  Sessions that have read one, kept for texts that begin in the same way: a
 * context with several endings, or a text that grows; and the tokens of former answers, which a
 * request names to go on from. */
#ifndef CLI_PREFIX_CACHE_H
#define CLI_PREFIX_CACHE_H

#include "token_scores.h"
#include "txl.h"

#include <pthread.h>
#include <stdatomic.h>

/* A text is fed in calls of equal length from its beginning, and kept only between two of them: so
 * what goes on from here has the bits of a text that is read anew. */
enum { MOST_PREFIXES = 8 };

struct prefix {
    int32_t *ids; /* [n] */
    size_t n;
    txl_session *session; /* NULL: the place is free */
    bool scored;
    struct token_scores scores; /* of the ids */
    uint64_t used;              /* when it was used last */
};

struct prefix_cache {
    struct prefix list[MOST_PREFIXES];
    size_t most; /* that may be kept */
    uint64_t time;
    atomic_uint_fast64_t asked, found; /* how often; read by any thread */
};

/* What a text needs of a prefix. */
struct prefix_need {
    const int32_t *ids; /* [n] */
    size_t n;
    const struct token_scores
        *scores; /* NULL: no scores; else as many likeliest, and as detailed */
};

/* Finds the longest one that the text begins with, and that has what it needs; NULL: none. */
struct prefix *prefix_cache_find(struct prefix_cache *prefixes, const struct prefix_need *need);

/* Keeps a copy of the session, which has read need->ids; need->scores are those of its tokens. What
 * there is no memory for is not kept. */
void prefix_cache_keep(struct prefix_cache *prefixes, const struct prefix_need *need,
                       txl_session *session);

void prefix_cache_free(struct prefix_cache *prefixes);

/* ---- Former answers ------------------------------------------------------------------------ */

/* The last answers are kept, and of these no more than so many tokens. */
enum { MOST_FORMER_TEXTS = 1024, MOST_FORMER_TOKENS = 1 << 22 };

/* What was before a text. */
struct former_text {
    struct id_list list; /* the model's context, if it was read, the prompt and what was drawn */
    bool context;        /* it was */
    char tail;           /* the last byte of the text, 0: none */
};

struct kept_text {
    uint64_t name;
    size_t choice;
    struct former_text former; /* without ids: the place is free */
};

/* Any thread may use them. */
struct former_texts {
    pthread_mutex_t lock;
    struct kept_text list[MOST_FORMER_TEXTS];
    size_t first, n, n_ids; /* the oldest, how many, their ids */
};

/* "cmpl-" and 16 hexadecimal digits, for choice K > 0 ":K".  Room for the name of an answer. */
enum { ANSWER_NAME = 32 };
void answer_name(uint64_t name, char text[ANSWER_NAME]);

/* Keeps choice `choice` of an answer.  Takes the ids.  The oldest make room. */
void former_texts_keep(struct former_texts *texts, uint64_t name, size_t choice,
                       struct former_text *former);

/* Copies what is kept by that name; without ids: nothing is.  False when memory is short. */
bool former_texts_find(struct former_texts *texts, const char *name, struct former_text *former);

void former_text_free(struct former_text *former);
void former_texts_open(struct former_texts *texts);
void former_texts_close(struct former_texts *texts);

#endif
