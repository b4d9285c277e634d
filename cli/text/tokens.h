/* Reads tokens from an input, text through the library's encoder or decimal ids (--ids), and passes
 * on both in the same way; and how a text is split into symbols (--text). */
#ifndef CLI_TOKENS_H
#define CLI_TOKENS_H

#include "cli/io/input.h"
#include "cli/options/options.h"
#include "txl.h"

/* Blanks that change a number unseen: those at the edges of a text or at the ends of its lines,
 * several in a row, no-break and zero-width spaces, soft hyphens.  They are counted as the text is
 * read, and one note tells of those that the model's tokenizer does not drop. */

enum { BLANK_KINDS = 7 };

struct blanks {
    bool by_line; /* each line is a unit, else what blanks_end ends */
    bool inside;  /* the beginning of a unit and blanks within it count too */

    uint64_t units;
    uint64_t n[1 << BLANK_KINDS];     /* units that have exactly this set of kinds */
    uint64_t first[1 << BLANK_KINDS]; /* the line of the first of them */

    /* The current unit, and its current line. */
    uint64_t line;    /* from 1 */
    unsigned has;     /* a set of kinds */
    bool begun;       /* the unit has a character */
    bool solid;       /* the line has more than white space */
    bool carriage;    /* a CR, which is white space unless LF follows */
    bool wide;        /* the only white space so far after the last letter is no U+0020 */
    unsigned n_space; /* so many white-space characters */
    char held[4];     /* of a character that is not complete */
    size_t n_held;
};

/* Begins to count. */
void blanks_start(struct blanks *blanks, bool by_line, bool inside);

void blanks_see(struct blanks *blanks, const char *text, size_t length);

/* Sees a line end that joins two lines by one blank, with the white space before it. */
void blanks_join(struct blanks *blanks);

/* What follows goes on in the line in which another text ends. */
void blanks_go_on(struct blanks *blanks);

/* Ends the unit, unless lines are units and it is empty.  The caller sets the line of texts. */
void blanks_end(struct blanks *blanks);

/* Prints a note if some change what the model reads; `raw` as in txl_encoding.  False with the
 * error printed. */
bool blanks_note(const struct blanks *blanks, const char *name, const txl_model *model, bool raw);

/* The symbols that a vocabulary lacks: how often each occurred, and where the first one was. */

enum { UNKNOWN_NAMES = 4096, UNKNOWN_BYTES = 48 };

struct unknown {
    uint64_t n; /* in all */
    uint64_t line, column;
    size_t n_names; /* different ones, in the order in which they came */
    struct unknown_name {
        char text[UNKNOWN_BYTES]; /* its beginning */
        size_t length;            /* of all of it */
        uint64_t n;
    } names[UNKNOWN_NAMES]; /* further ones are not counted by name */
    uint64_t secret;        /* of the hash table: where names are, plus 1; 0 is free */
    uint16_t table[2 * UNKNOWN_NAMES];
};

/* For txl_encoding; `unknown` is the context of its unknown_context. */
void unknown_add(void *unknown, const txl_symbol *symbol, uint64_t column);

/* Forgets all of them. */
void unknown_reset(struct unknown *unknown);

/* Prints a note if there were any: the most frequent ones, the place of the first, and whether they
 * were `replaced` or left out. */
void unknown_note(const struct unknown *unknown, const char *text, bool replaced);

extern const char *const text_forms[]; /* raw, tokens */
enum { TEXT_RAW, TEXT_TOKENS };

/* Rows of options that several commands have.  In the brackets stand .offset and what else a
 * command has its own of. */
#define TEXT_ROW(...)                                                                              \
    OPTION_ROW(                                                                                    \
        "text", OPTION_CHOICE, .choices = text_forms,                                              \
        .help = "for models of words: raw is prose, tokens is text already split at white space",  \
        __VA_ARGS__)
#define SKIP_UNKNOWN_ROW(when, place)                                                              \
    OPTION_ROW("skip-unknown", OPTION_FLAG, (place),                                               \
               when "leave out symbols that the vocabulary lacks, if it has no <unk>")

/* How the run's text is split, for the summary: "raw", "tokens" or "ids"; "-" for models that split
 * text in only one way. */
const char *text_form(const txl_model *model, int form, bool ids);

/* Sets `*form` to `asked`, the value of --text, or to `standard` if that is CHOICE_UNSET.  False
 * with the error printed if --text is given for a kind that splits text in only one way. */
bool text_form_choose(txl_kind kind, int asked, int standard, int *form);

struct id_parser {
    const txl_model *model;
    uint64_t line, column; /* of the next character, from 1 */
    uint64_t start;        /* column of the current number */
    uint64_t offset;       /* of the next character in the input, in bytes */
    uint64_t begin;        /* of the current number */
    int64_t number;        /* -1: between numbers */
};

struct token_reader {
    struct input *input;
    struct txl_encoding encoding;
    txl_encoder *encoder; /* NULL: the input is ids */
    struct unwrapper unwrapper;
    struct id_parser ids;
    /* NULL, or receives the text before its symbols, with the encoding's context.  If it returns
     * anything but TXL_OK, reading ends with that. */
    txl_status (*see_text)(void *context, const char *text, size_t length, txl_error *error);
    struct blanks *blanks; /* NULL, or sees the text itself, with joined lines joined */
    uint64_t fed;          /* bytes passed on */
    const char *before;    /* [n_before]: read before the text, with one blank between where neither
                              side has one; NULL: nothing */
    size_t n_before;
    bool takes_bytes; /* no byte order mark is left out */
    bool begun;       /* the text, and so what is before it */
    char first[6];    /* the text's start, until it is clear whether it is a blank */
    size_t n_first;
    uint64_t prefix; /* bytes that the encoder got before the text's; with `before`, a byte order */
    uint64_t mark;   /* mark of so many bytes is left out */
    const char *where; /* between the input's name and a message; NULL: nothing */
    uint64_t line;     /* > 0: the text is this line of the input, which messages name */
    char *problem; /* NULL, or receives what is wrong with a text, [n_problem], instead of standard
                      error */
    size_t n_problem;
    bool ended; /* the whole text was read */
};

/* Opens a file of text or ids for the model. */
bool tokens_open_input(struct input *input, const char *path, const txl_model *model, bool ids,
                       const struct input_form *form);

/* With --unwrap, has the wrapped lines of the opened text joined; else hints at that option if the
 * text looks wrapped.  Bytes have no lines. */
void tokens_unwrap(struct input *input, txl_kind kind, bool unwrap);

/* The same as tokens_open_input, with --binary and --unwrap as `common` has them. */
bool tokens_open_text(struct input *input, const char *path, const txl_model *model, bool ids,
                      const struct common_options *common);

/* Refuses --unwrap for models of bytes, with the error printed. */
bool tokens_allow_unwrap(txl_kind kind, const struct common_options *common);

/* `encoding` says how text becomes symbols, and what receives them.  False with the error
 * printed. */
bool token_reader_open(struct token_reader *reader, const txl_model *model, struct input *input,
                       const struct txl_encoding *encoding, bool ids);

/* Passes `length` bytes on to the encoder or the parser.  The receiver's own TXL_STOPPED comes back
 * without a message; every other failure has had its error printed, with the input's name. */
txl_status token_reader_feed(struct token_reader *reader, const char *text, size_t length);
txl_status token_reader_finish(struct token_reader *reader);

/* What follows is another text, wrapped at `width` (0: lines are not joined), although to the model
 * the text goes on. */
txl_status token_reader_next_text(struct token_reader *reader, unsigned width);

/* Reads the whole input.  Calls `progress`, unless NULL, again and again. */
txl_status token_reader_run(struct token_reader *reader, void (*progress)(void *), void *context);

/* Ends a text, after which another one can be fed. */
txl_status token_reader_end_text(struct token_reader *reader);

/* All texts were read: notes how many sequences were no UTF-8. */
void token_reader_end(struct token_reader *reader);

/* Bytes, characters and unknown symbols of the text so far. */
void token_reader_counts(const struct token_reader *reader, txl_encoded *counts);
void token_reader_close(struct token_reader *reader);

#endif
