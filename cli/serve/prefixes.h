/* Sessions that have read the beginning of a text, kept for texts that begin in the same way: a
 * context with several endings, or a text that grows. */
#ifndef CLI_PREFIXES_H
#define CLI_PREFIXES_H

#include "scores.h"
#include "txl.h"

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

#endif
