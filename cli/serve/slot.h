/* A text in the making: a prompt that is read, scored if that was asked for, and what the model
 * writes behind it, token by token. */
#ifndef CLI_SLOT_H
#define CLI_SLOT_H

#include "cli/texts/text.h"
#include "prefix_cache.h"
#include "request.h"
#include "token_scores.h"

enum { MOST_IDLE = 8 };

enum slot_state { SLOT_WAITING, SLOT_READING, SLOT_WRITING, SLOT_DONE };

/* What slots of one server share; only one thread works on them. */
struct session_pool {
    const struct model *model;
    const txl_model *of;          /* whose sessions they are: the model's, or that of another */
    txl_session *unfed;           /* nothing was ever fed to it; the others are copies */
    txl_session *idle[MOST_IDLE]; /* [n_idle] of slots that are done: the memory of a new one
                                       would have to be cleared */
    size_t n_idle;
    txl_settings settings; /* its */
    size_t chunk;          /* tokens of a prompt that are fed in one call */
    bool by_segment;       /* tokens of a segment depend on its end, which the last one is not */
    bool own_settings;     /* not those of `unfed`, which is not copied then */
    bool *begins; /* [n_token]: those that begin a word or end a text; NULL: of models of words */
    struct prefix_cache prefixes;
    float *logprob; /* [chunk, n_token] */
};

struct slot {
    enum slot_state state;
    size_t prompt, number; /* of the prompt, and of the text behind it, from 0 */
    const struct text_rules *rules;
    const struct id_list *first_banned; /* as the text's */
    const struct prompt_tokens *tokens;

    int32_t *ids; /* [n]: the first context, if it is read, what was before, and the prompt */
    size_t n, done;
    size_t n_context;  /* 0 or 1: the first context */
    size_t n_before;   /* it and what was before: they are no part of the answer */
    char tail;         /* the last byte of what was before, 0: none */
    bool scoring;      /* of the prompt */
    bool in_parts;     /* what is read is sent as it is read, so no kept beginning is used */
    bool own_settings; /* with settings of its own, so that no other text goes on from it */
    int64_t top;       /* likeliest tokens of what is drawn; -1: no log-probabilities */
    uint64_t most;     /* tokens to be drawn */

    struct text text;
    struct token_scores scores; /* of ids, then of what is drawn */
    struct id_list made;        /* ids that were drawn */
    struct buffer spelled; /* what each of them added to the text, before stops are looked for */
    struct buffer ends;    /* size_t for each: where in `spelled` its text ends */

    struct buffer prompt_text; /* the prompt as text: the request's own, or decoded */
    struct buffer prompt_ends; /* size_t for each token of it: where its text ends */
    txl_decoder *decoder;      /* of a prompt of ids */

    /* What an answer has sent. */
    size_t listed;       /* tokens */
    uint64_t listed_end; /* code points of the text to their end */
    size_t text_sent;    /* bytes of prompt_text, if it is sent in parts */
    bool opened;         /* of a stream: the prompt, or that there is none */
};

/* Lists the ids to read: behind the former text, if it has any; else, if `special`, behind the
 * model's first context, unless the prompt begins with it.  These fail with TXL_MEMORY, or with the
 * error.
 */
txl_status slot_open(struct slot *slot, const struct model *model, const struct former_text *former,
                     bool special, txl_error *error);
void slot_close(struct slot *slot);

/* Begins to read, perhaps behind a prefix that is kept. */
txl_status slot_start(struct slot *slot, struct session_pool *pool, txl_error *error);

/* Reads the next `chunk` tokens of the prompt; after the last it is ready to write, or done. */
txl_status slot_read(struct slot *slot, struct session_pool *pool, txl_error *error);

/* Remembers the token that its text has drawn.  False when memory is short. */
bool slot_note(struct slot *slot);

/* The tokens of a slot that is done, as the former text of another.  False when memory is short. */
bool slot_former_text(const struct slot *slot, struct former_text *former);

/* Ends the use of the session of a slot that is done; it may become an idle one. */
void slot_release_session(struct slot *slot, struct session_pool *pool);

/* Frees an idle session, if there is one, for one of another kind: so there are never more than
 * slots that may be active. */
void pool_drop_idle(struct session_pool *pool);

/* How many tokens of the prompt are part of the answer. */
size_t slot_prompt_tokens(const struct slot *slot);

/* Where in `scores` a token of the answer is, of the prompt's or then of the drawn ones. */
size_t slot_score_of(const struct slot *slot, size_t token);

#endif
