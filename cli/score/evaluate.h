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
    struct reading_options {
        bool raw, ids, skip_unknown;
        uint64_t max_tokens; /* 0: all */
        uint64_t streams;    /* equal parts of the tokens; the remainder is dropped */
        uint64_t stream;     /* the only one to score, from 1; 0: all of them */
    } reading;
    bool both_sides;
    bool alone; /* all tokens are scored, after the model's first context and what is before */
    bool items; /* texts come one by one (evaluation_text), and are alone */
    struct scorer scorer;
    struct comparison *comparison; /* NULL, or observes the scorer */
    struct levels *levels;         /* NULL: no rows */
    struct heat *heat;             /* NULL, or shows the text */
    struct report *report;         /* likewise */
    struct progress *progress;
    struct passes {
        int at, n;       /* over the same text; progress covers all of them */
        uint64_t tokens; /* of the passes before */
    } passes;
    struct buffer before; /* what is read before every text that is alone */

    /* The current text. */
    struct token_reader reader;
    struct score score; /* of the streams before the scorer's current one */
    struct counts {
        uint64_t tokens;
        uint64_t spelled; /* single bytes of characters that the vocabulary lacks */
        uint64_t invalid; /* counted by earlier encoders */
        uint64_t texts;   /* that are alone */
    } counts;
    struct unknown unknown;
    struct blanks blanks;
    struct source source; /* what rows and the report show of it */
    FILE *spool;          /* the tokens of several streams, until their number is known */
    struct reached {
        uint64_t bytes, characters; /* of the last token, and of the text up to its end */
    } reached;
    struct word_starts {
        struct buffer at; /* uint64_t: where words begin that no token has reached */
        size_t taken;     /* bytes of it that are past */
        uint64_t seen;    /* bytes of the source */
        bool in_word;
        char held[4]; /* of a character that is not complete */
        size_t n_held;
    } words;
    struct start {
        struct id_list context; /* of a text that is alone */
        bool is_open;           /* the text has no token yet */
        bool is_scored;         /* its tokens follow their context in the scorer */
        uint64_t lines;         /* line ends before the text */
    } start;
    uint64_t record;       /* > 0: the line in which all of the text stands */
    struct buffer waiting; /* of struct waiting_token: of a text in memory */
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
    bool parted;             /* by bars; else it is one */
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
