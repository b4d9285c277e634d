/* A text in the making, from draws to its bytes, token by token; and several side by side. */
#ifndef CLI_TEXTS_TEXT_H
#define CLI_TEXTS_TEXT_H

#include "cli/model/model.h"
#include "drafts.h"
#include "endings.h"
#include "lib/base/memory.h"
#include "reading.h"
#include "text_options.h"
#include "txl.h"

/* Where a turn of an interactive text ends; -n is the most for all of them. */
enum turn { TURN_NONE, TURN_SENTENCE, TURN_LINE, TURN_TOKENS };

/* What the texts of one prompt have in common: how they are drawn, and where they end. */
struct text_rules {
    const struct text_options *options;
    const struct model *model;
    const txl_model *network; /* whose sessions they have, and their settings */
    txl_settings settings;
    struct reading reading;
    bool raw, ids;
    bool keeps; /* the text is to be saved, so that its last token is fed too */
    size_t top; /* the likeliest tokens that each draw lists */
    enum turn turn;
    txl_decoder *scratch; /* decodes single tokens; NULL for ids */

    /* Of the options, in the model's terms. */
    uint64_t n;            /* tokens of a text; 0: no end */
    txl_sampling sampling; /* without the history, which each text has of its own */
    struct id_list banned;
};

/* Sets those.  These fail with the error. */
txl_status text_rules_choose(struct text_rules *rules, txl_error *error);

/* Lists `banned`, and the pieces that may not follow a prompt at once: after a blank at its end all
 * that do not begin a word, else those that go on with its last word. */
txl_status text_list_first(struct id_list *list, const struct id_list *banned,
                           const txl_model *model, bool after_blank, txl_error *error);

/* The end of a text: its last id, if n is 1, and the last byte as shown, 0: none. */
struct text_end {
    int32_t id;
    size_t n;
    char tail;
};

struct text {
    const struct text_rules *rules;
    void *owner;           /* the caller's */
    txl_session *session;  /* the text's */
    txl_history *history;  /* the prompt and the text so far */
    struct drafts *drafts; /* of the tokens to come, or NULL; they are made where no other text is
                              fed with this one */
    txl_decoder *decoder;  /* NULL for ids */
    struct stop_search stops;
    struct sentence sentence;           /* of --end sentence, or of an interactive text's turn */
    txl_random random;                  /* of the next draw */
    const struct id_list *first_banned; /* what the first one may not be; NULL: as any other */
    size_t round;                       /* tokens since the known ones were read again */
    uint64_t made;
    bool paused;       /* it is to wait while others go on */
    const char *done;  /* why it ended; NULL: it goes on */
    txl_status status; /* why it failed, */
    txl_error error;   /* with the reason */

    /* Of the last draw. */
    bool drawn; /* what was drawn is yet to be fed */
    struct text_end before;
    int32_t id;
    float logprob;         /* the model's, of it */
    int32_t *top_ids;      /* [rules->top] */
    float *top_logprobs;   /* [rules->top] */
    bool refused;          /* the id ends the text or the turn, and is no part of it */
    struct buffer decoded; /* text from the decoder, or an id, before the search for stop strings */

    char tail;            /* the last byte of the text as shown, 0: none */
    struct buffer output; /* text after that search, until the caller takes it; it may end in an
                             incomplete character */
};

/* Opens a text with an empty history; the session becomes the text's.  End with text_close, also
 * after a failure. */
txl_status text_open(struct text *text, const struct text_rules *rules, txl_session *session,
                     txl_error *error);

/* The same with a copy of the session and the history of `from`, which was fed the prompt. */
txl_status text_copy(struct text *copy, const struct text *from, txl_error *error);
void text_close(struct text *text);

/* Whether the choice of a token depends on the tokens before it otherwise than by the model.  Then
 * no drafts are made: they would seldom be right. */
bool text_rules_read_text(const struct text_rules *rules);

/* Begins after the prompt. */
struct text_start {
    txl_random random;
    char tail; /* the prompt's last byte as shown */
    size_t round;
    const struct id_list *first_banned;
};
txl_status text_start(struct text *text, const struct text_start *start, txl_error *error);

/* Draws the next token, and appends its text to `output`.  Ctrl-C ends the text after this token,
 * so that every byte held back belongs to a token. */
txl_status text_draw(struct text *text, txl_error *error);

/* Appends the text that the id would add behind the end of a text, as `scratch` decodes it.  False
 * when memory is short. */
bool text_of_token(txl_decoder *scratch, const struct text_end *end, int32_t id,
                   struct buffer *text);

/* Bytes of the text without an incomplete UTF-8 sequence at its end. */
size_t complete_characters(const struct buffer *text);

/* Saves the text's memory, with everything that is needed to continue it. */
txl_status text_save(const struct text *text, txl_memory **memory, txl_error *error);

/* ---- Texts side by side -------------------------------------------------------------------- */

/* The weights are read once for up to eight of them.  Each is what it would be by itself. */

/* Texts at a time; those of them that are fed in one call, by which their numbers stay the same
 * (txl_session_feed_each). */
enum { MOST_TEXTS = 64, TEXTS_TOGETHER = 8 };

struct texts {
    struct text *list[MOST_TEXTS]; /* [n], the first to come first */
    size_t n;
};

/* How many may be made at a time, of up to 8: fewer where their memories are large. */
size_t texts_most(const struct text_rules *rules);

/* Adds a text that was started.  There is room for it. */
void texts_add(struct texts *texts, struct text *text);

/* Draws a token for each that goes on and is not paused.  What fails has the reason. */
void texts_draw(struct texts *texts);

/* Feeds each of them what it drew, unless it has ended or was removed. */
void texts_feed(struct texts *texts);

/* Removes the first text that has ended or failed, and returns it; NULL: there is none. */
struct text *texts_take(struct texts *texts);

/* Removes a text, if it is there. */
void texts_remove(struct texts *texts, const struct text *text);

#endif
