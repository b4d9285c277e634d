/* Evaluates a text: passes its tokens, divided as the options say, to a scorer. */
#ifndef CLI_EVALUATE_H
#define CLI_EVALUATE_H

#include "cli/system/terminal.h"
#include "cli/tokens.h"
#include "cli/unknown.h"
#include "heat.h"
#include "report.h"
#include "result.h"
#include "tables.h"

struct evaluation_options {
    bool raw, ids, skip_unknown;
    bool per_line;       /* every line is scored by itself */
    uint64_t max_tokens; /* 0: all */
    uint64_t streams;    /* equal parts that the tokens are cut into; the remainder is dropped */
    uint64_t stream;     /* the only one to score, from 1; 0: all of them */
};

struct evaluation {
    const txl_model *model;
    struct evaluation_options options;
    struct scorer scorer;
    struct comparison *comparison; /* NULL, or observes the scorer */
    struct tables *tables;         /* NULL: none */
    struct heat *heat;             /* NULL, or shows the text */
    struct report *report;         /* likewise */
    struct progress *progress;
    int pass, passes; /* over the same text, from 0; progress covers all of them */
    uint64_t passed;  /* tokens of the passes before */

    /* The current text. */
    struct token_reader reader;
    struct score score; /* of the streams before the scorer's current one */
    uint64_t tokens;
    struct unknown unknown;
    FILE *spool; /* the tokens of several streams, until their number is known */
    bool in_line;
    struct place line;   /* where the current line begins */
    uint64_t end;        /* of the last token's bytes */
    uint64_t characters; /* of the text before that */
};

/* Reads `input` and scores it; tables name it `file`, as the result does.  Returns TXL_OK, or
 * TXL_STOPPED after a signal or when the reader of standard output is gone: what was scored until
 * then is a result too.  The error of any other status was printed. */
txl_status evaluate(struct evaluation *evaluation, const char *file, struct input *input,
                    struct result *result);

#endif
