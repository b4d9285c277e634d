/* What txl classify, txl answer and txl train --task have in common: they read texts, of tables, of
 * lines or of whole files, encode them, put inputs for the model's head together and run it over
 * them. */
#ifndef CLI_HEADS_HEADS_H
#define CLI_HEADS_HEADS_H

#include "cli/items/items.h"
#include "cli/model/model.h"
#include "cli/text/tokens.h"

/* The longest text. */
#define HEADS_TEXT (64 << 20)

/* The options of the first two; of one alone are those after `json`. */
struct heads_options {
    struct common_options common;
    struct string_list columns;
    const char *output;
    int64_t max_len;
    int compute;
    bool logits, json;
    bool lines;
    const char *pair, *question;
    int64_t stride, max_question, max_answer, top;
};

/* The tokens of a text. */
struct pieces {
    int32_t *ids; /* [n] */
    struct piece {
        uint64_t begin, end; /* its bytes of the text */
        bool marked;         /* it begins a word, */
        bool bare;           /* and is the word mark alone: it has no bytes */
    } * at;                  /* [n] */
    size_t n, room;
};
void pieces_free(struct pieces *pieces);

/* Inputs of the model. */
struct inputs {
    txl_input *list; /* [n]; their ids are owned */
    size_t n, room;
    size_t ids; /* of all of them together */
};
void inputs_free(struct inputs *inputs);

/* A text, and what is asked of it. */
struct record {
    const char *name; /* of its file */
    uint64_t row;     /* in it, from 1 */
    struct own_value text,
        other;                 /* other: the second text or the question; its text is NULL: none */
    struct own_value label;    /* of txl train --task */
    struct items_table *table; /* that it is of, or NULL */
};

struct heads {
    const struct heads_options *options;
    bool answers; /* txl answer */
    bool trains;  /* txl train --task: `model` needs no head, and texts are of tables */
    struct model model;
    txl_head head;
    txl_session *session;
    size_t most;      /* ids that it reads at once */
    int32_t sep, cls; /* the ids of <sep> and <cls> */

    struct heads_file {
        const char *path;
        int table; /* of items; -1: it is text */
    } * files;     /* [n_file] */
    size_t n_file, file;
    struct items items;
    struct input input; /* of the current file, unless it is a table */
    struct buffer text; /* its lines from `at` on, or all of it */
    size_t at;
    uint64_t line, empty; /* lines read; of them without a text */
    bool open, failed;    /* failed: a file could not be read, with the error printed */

    struct token_reader reader; /* of the current file's texts */
    struct pieces *target;      /* where it puts tokens */
    uint64_t record_line;       /* 0: the text has lines of its own */
    char row[24];               /* the item of a text that is of no table */
    struct unknown unknown;

    struct table table; /* rows; none with --json and --logits */
    struct progress progress;
    double start;
    uint64_t texts, tokens, windows, cut; /* cut: texts or questions that were */
    uint64_t lacks;                       /* records left out */
};

/* The most tokens of an input, by default. */
#define HEADS_MAX_LEN 512

/* Takes --columns, with `answers` and `trains` set, and checks the other options.  OPTIONS_RUN, or
 * the status after printing what is wrong. */
int heads_check(const struct command *command, struct heads *heads,
                const struct heads_options *options);

/* Opens the model and all tables.  False with the error printed.  End with heads_close. */
bool heads_open(struct heads *heads, const struct heads_options *options,
                const struct operands *files);
void heads_close(struct heads *heads);

/* Opens the table of rows with these columns, unless objects are printed.  False with the error
 * printed. */
bool heads_open_table(struct heads *heads, const char *columns);

/* Opens a session for inputs of up to `most` ids.  False with the error printed. */
bool heads_open_session(struct heads *heads, size_t most);

/* Reads the next text; the own columns are its.  False at the end, or with `failed` set. */
bool heads_next(struct heads *heads, struct record *record);

/* Its tokens.  False with the error printed. */
bool heads_encode(struct heads *heads, const struct own_value *text, struct pieces *pieces);

/* Adds A <sep> <cls>, or with `b` A <sep> B <sep> <cls>.  False when memory is short. */
bool inputs_add(const struct heads *heads, struct inputs *inputs, const int32_t *a, size_t n_a,
                const int32_t *b, size_t n_b);
void inputs_clear(struct inputs *inputs);

/* Adds the input of an encoded text, and of another one unless that is NULL, cut to --max-len.  It
 * has *n_a tokens of the text; *cut is how many went of both.  False with the error printed. */
bool heads_add_input(struct heads *heads, struct inputs *inputs, const struct pieces *a,
                     const struct pieces *b, size_t *n_a, size_t *cut);

/* How many of the inputs from `first` on are read at once. */
size_t inputs_together(const struct heads *heads, const struct inputs *inputs, size_t first);

/* Notes how many texts, or questions, were cut. */
void heads_note_cut(const struct heads *heads);

/* Ends the rows: what the command returns. */
int heads_finish(struct heads *heads, bool good);

/* The object of a text: its file if there are several, and its row.  NULL when memory is short. */
json_t *heads_object(const struct heads *heads, const char *name, uint64_t row);

/* Lists of numbers; NULL when memory is short. */
json_t *heads_ids(const txl_input *input);
json_t *heads_segments(const txl_input *input);
json_t *heads_reals(const float *numbers, size_t n, size_t apart);

/* logprob[n] = the log-softmax of n logits, `apart` from each other. */
void heads_log_softmax(const float *logits, size_t n, size_t apart, double *logprob);

#endif
