/* Evaluates a text: passes its tokens, divided as the options say, to a scorer. */
#ifndef CLI_SCORE_EVALUATE_H
#define CLI_SCORE_EVALUATE_H

#include "cli/io/terminal.h"
#include "cli/text/tokens.h"
#include "heat.h"
#include "levels.h"
#include "report.h"
#include "result.h"

/* A token that waits until all of its text was read. */
struct waiting_token {
    int32_t id;
    struct place place;
};

struct evaluation {
    const txl_model *model;
    bool raw, ids, skip_unknown, both_sides;
    bool items;          /* texts come one by one (evaluation_text) */
    uint64_t max_tokens; /* 0: all */
    uint64_t streams;    /* equal parts that the tokens are cut into; the remainder is dropped */
    uint64_t stream;     /* the only one to score, from 1; 0: all of them */
    struct scorer scorer;
    struct comparison *comparison; /* NULL, or observes the scorer */
    struct levels *levels;         /* NULL: no rows */
    struct heat *heat;             /* NULL, or shows the text */
    struct report *report;         /* likewise */
    bool shows_source;             /* the report shows the text's own bytes */
    bool parted;                   /* bars part texts in memory into regions */
    struct progress *progress;
    int pass, passes; /* over the same text, from 0; progress covers all of them */
    uint64_t passed;  /* tokens of the passes before */

    /* The current text. */
    struct token_reader reader;
    struct score score; /* of the streams before the scorer's current one */
    uint64_t tokens;
    struct unknown unknown;
    uint64_t spelled; /* tokens that are single bytes of characters that the vocabulary lacks */
    struct blanks blanks;
    struct source source; /* what rows and the report show of it */
    FILE *spool;          /* the tokens of several streams, until their number is known */
    uint64_t end;         /* of the last token's bytes */
    uint64_t characters;  /* of the text before that */
    struct word_starts {
        struct buffer at; /* uint64_t: where words begin that no token has reached */
        size_t taken;     /* bytes of it that are past */
        uint64_t seen;    /* bytes of the source */
        bool in_word;
        char held[4]; /* of a character that is not complete */
        size_t n_held;
    } words;

    /* Texts that are scored alone: all of their tokens, after the model's first context and what is
     * before. */
    bool alone;
    struct buffer before;   /* of every text */
    struct id_list context; /* of the current text */
    bool at_start;          /* it has no token yet */
    bool is_scored;         /* its tokens follow their context in the scorer */
    uint64_t texts;         /* so far */
    uint64_t invalid;       /* counted by earlier encoders */
    uint64_t lines_before;  /* line ends before the text */
    uint64_t record;        /* > 0: the line in which all of it stands */
    bool waits;             /* its tokens wait until it was read */
    struct buffer waiting;  /* of struct waiting_token */
};

/* Reads `input` and scores it; the result names it `file`.  Returns TXL_OK, or
 * TXL_STOPPED after a signal or when the reader of standard output is gone: what was scored until
 * then is a result too.  The error of any other status was printed. */
txl_status evaluate(struct evaluation *evaluation, const char *file, struct input *input,
                    struct result *result);

/* What evaluate does, for texts that come one by one: begin, text after text, end.  False with the
 * error printed. */
bool evaluation_begin(struct evaluation *evaluation, struct input *input);
void evaluation_end(struct evaluation *evaluation, struct result *result);
void evaluation_free(struct evaluation *evaluation);

/* A text in memory, which stands in one record of the input. */
struct lone_text {
    struct regions *regions; /* its text, which they part */
    const char *before;      /* [n_before] */
    size_t n_before;
    size_t n_shared; /* bytes of `before` that are before every text */
    uint64_t line;
    const char *where; /* for messages */
    char *problem;     /* [n_problem]: receives why it cannot be read */
    size_t n_problem;
};

/* Scores the text and writes its rows; then the scorer has its score, until evaluation_end_stream
 * adds it to the sum.
 * TXL_TEXT: it cannot be read, for the reason in its `problem`, and nothing was scored. */
txl_status evaluation_text(struct evaluation *evaluation, const struct lone_text *text);
void evaluation_end_stream(struct evaluation *evaluation);

/* An observer that shows progress, for texts whose tokens take long. */
txl_status evaluation_token(void *evaluation, const struct scored *token, txl_error *error);

#endif
