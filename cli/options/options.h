/* The option table of a command.  Parsing, --help, the manual page and the shells' completions are
 * all made from it.
 *
 * A row says where its value goes, as an offset into the command's own structure.  So a command is
 * a table, a structure with the defaults, and a function. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "cli/io/input.h"
#include "cli/io/output.h"
#include "lib/base/error.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- Named files -------------------------------------------------------------------------- */

/* The files that a command line names, and what may be written where.  One rule for all commands:
 *
 *     No output is the same regular file as an input, the model or another output, whatever links
 *     lead to it, and each output can be created.  This is known before any work is done.
 *
 * Standard output and error are not named: the shell has opened them.  But an output that leads to
 * one of them, such as /dev/stdout, is an output like another. */

enum file_use {
    FILE_NONE,    /* not a file's name */
    FILE_READ,    /* "-" is standard input */
    FILE_MODEL,   /* of tables alone: a weights file to read, or BUILT_IN, which names no file */
    FILE_WHOLE,   /* renamed into place when it is complete: a regular file, or a new one */
    FILE_PRODUCT, /* the same, and it may be the regular file that standard output is */
    FILE_STREAM   /* written from the start: a FIFO or device too; "-" is standard output */
};

/* What an output is.  A file that exists is replaced if it is regular and empty, or of the same
 * kind; else only with --force.  Devices, pipes and what the shell opened are written all the same.
 */
enum output_kind {
    OUTPUT_ANY, /* whatever is there: the command has a rule of its own */
    OUTPUT_WEIGHTS,
    OUTPUT_STATE,  /* of a training */
    OUTPUT_MEMORY, /* saved */
    OUTPUT_PAGE,
    OUTPUT_TABLE,
    OUTPUT_LOG /* of a training */
};

struct named_file {
    enum file_use use;
    const char *dashes; /* before the role: "--" of an option, else "" */
    const char *role;   /* what the command line names it by: "report", "FILE" */
    const char *path;
    const char *over; /* the role of the input that this output may replace; NULL: none */
    enum output_kind kind;
    const char *const *columns; /* of a table, as is_own_file takes them */
    bool kept;                  /* what is there is not replaced, even if it is of the same kind */
};

/* Whether the rule holds for files[n] and, as an input, for standard input: returns OPTIONS_RUN, or
 * the exit status with the error printed.  `force`: whatever exists may be replaced, and NULL is
 * for outputs that no --force is for.  If the rule holds, what a killed process left beside the
 * outputs is removed. */
int named_files_check(const struct named_file *files, size_t n, const bool *force);

/* ---- Options ------------------------------------------------------------------------------ */

/* The kinds of options; in brackets the type of the member at the row's offset. */
enum option_kind {
    OPTION_FLAG,    /* no argument (bool) */
    OPTION_STRING,  /* (const char *) */
    OPTION_LIST,    /* may be repeated (struct string_list) */
    OPTION_INTEGER, /* (int64_t), at most MOST_INTEGER */
    OPTION_REAL,    /* (double) */
    OPTION_CHOICE   /* the index into the row's choices (int) */
};

/* The largest integer: JSON readers keep integers exactly up to it. */
#define MOST_INTEGER 9007199254740991

/* The values of options that the command line does not give. */
#define INTEGER_UNSET INT64_MIN
#define REAL_UNSET NAN
#define CHOICE_UNSET (-1)

struct string_list {
    const char **items;
    size_t n;
};

/* The choices of an option that is answered. */
extern const char *const answers[]; /* yes, no */
enum { ANSWER_YES, ANSWER_NO };

/* The name of the model within the program, wherever a model's file is expected. */
#define BUILT_IN "built-in"

/* A row begins with the first four members; it names the others that it has. */
struct option_row {
    const char *name; /* without the two dashes */
    enum option_kind kind;
    size_t offset;
    const char *help;                /* starts lower case, no full stop */
    const char *section;             /* heading before this row; NULL: none */
    char letter;                     /* 0: none */
    const char *argument;            /* placeholder; NULL: N, X or FILE, by the kind */
    const char *const *choices;      /* ends with NULL */
    const char *(*choice)(size_t i); /* instead of `choices`: NULL beyond the last */
    const char *standard;            /* the default as help states it; NULL: nothing to say */
    double least, most;              /* bounds of a number, both allowed */
    enum file_use file; /* how the file that the argument names is used; FILE_NONE: it names none */
    char file_after;    /* the file's name comes after this character, if at all; 0: it is all */
    const char *over;   /* the option whose file this output may replace; NULL: none */
    enum output_kind output;    /* what is written there */
    const char *const *columns; /* of a table (own_files.h) */
    const char *kept; /* the option without which a file of the same kind is not replaced */
    bool required;    /* for the usage line; the command itself asks for it */

    /* What it can be combined with: names of options with blanks between, NAME=CHOICE for one of
     * its choices, FILE for any operand and FILES for several.  Names of other commands' options
     * are ignored, so that a row may be shared. */
    const char *excludes; /* these; one of the two says so */
    const char *only;     /* all but these and the options of COMMON_NAMES */
    const char *needs;    /* one of these */
    const char *reason;   /* the message where it is not the usual one */
};

/* A row in a macro, where clang-format would give each member of a brace a line of its own. */
#define OPTION_ROW(...)                                                                            \
    { __VA_ARGS__ }

/* An argument that is not an option. */
struct operand_row {
    const char *name;
    const char *help;
    const char *const *choices; /* NULL: a file's name */
    bool commands;              /* or the name of a command */
    bool optional, repeats;
    bool model;          /* BUILT_IN, which names no file, may stand for a file */
    bool standard_input; /* it is read where the operand is missing, unless it is a terminal, */
    const char *instead; /* or this option is given; NULL: there is none */
};

struct example {
    const char *command, *purpose;
};

/* A section of prose at the end of --help and of the manual page, of five lines at most.  A line
 * that starts with a blank is printed as it is; other text is filled. */
struct note {
    const char *title, *text;
};

/* The operands of a parsed command line; they point into argv, or into what --files-from read. */
struct operands {
    char **items;
    int n;
    char **list, *text; /* of --files-from, else NULL */
};

/* An option that another command has now. */
struct moved_option {
    const char *name, *instead; /* without the dashes; the command line to type */
};

struct command {
    const char *name;
    const char *summary;              /* one line, lower case, no full stop */
    const char *description;          /* paragraphs divided by an empty line */
    const struct option_row *options; /* ends with a row without a name */
    const struct moved_option *moved; /* likewise; NULL: none */
    const char *const *brief; /* the options of -h, ends with NULL; NULL: all, they are few */
    const struct operand_row *operands; /* ends with a row without a name; NULL: none */
    const char *operand_hint; /* added to the error about an unexpected argument; NULL: nothing */
    const struct example *examples; /* ends with a row without a command; NULL: none */
    const struct note *notes;       /* ends with a row without a title; NULL: none */
    const char *topics;             /* long explanations (topics.h); NULL: none */
    const char *shared;   /* names of topics that other commands have too, with blanks between */
    const void *defaults; /* the command's own structure; NULL: every option is unset */
    size_t size;          /* of that structure; 0: it is struct common_options */
    /* Runs the command with the values of its options, and returns the exit status. */
    int (*run)(const struct command *command, void *values, struct operands *operands);
    /* Calls command_run, with work before and after it; NULL: there is none. */
    int (*start)(const struct command *command, int argc, char **argv);
};

/* Options that every command has; the first member of its own structure. */
struct common_options {
    const char *model, *files_from;
    int64_t threads; /* 0: one for each processor */
    struct input_form form;
    bool low_memory, unwrap, quiet, summary, help, force;
};

extern const char *const options_invalid[]; /* refuse, replace */

#define COMMON_ROWS COMMON_ROWS_WITH('\0')

/* With a letter for --threads. */
#define COMMON_ROWS_WITH(threads_letter)                                                           \
    OPTION_ROW("threads", OPTION_INTEGER, offsetof(struct common_options, threads),                \
               "use N threads; 0: one per processor", .section = "General",                        \
               .letter = (threads_letter), .standard = "0", .most = 65536),                        \
        OPTION_ROW("summary", OPTION_FLAG, offsetof(struct common_options, summary),               \
                   "print the summary line in any case"),                                          \
        PLAIN_ROWS

/* For commands with outputs that may exist. */
#define FORCE_ROW                                                                                  \
    OPTION_ROW("force", OPTION_FLAG, offsetof(struct common_options, force),                       \
               "replace outputs that exist, whatever they are")

/* For commands that write rows.  `kinds`: the columns by which a table of theirs is known; more
 * members, such as the heading, may follow. */
#define ROWS_OUTPUT_ROW(place, kinds, ...)                                                         \
    OPTION_ROW("output", OPTION_STRING, (place),                                                   \
               "write the rows to FILE, whose ending chooses .csv, .tsv or .jsonl", .letter = 'o', \
               .standard = "standard output, as CSV", .file = FILE_STREAM, .output = OUTPUT_TABLE, \
               .columns = (kinds), __VA_ARGS__)

/* The options of commands that neither work long nor have a result. */
#define PLAIN_ROWS PLAIN_ROWS_IN(NULL)
#define PLAIN_ROWS_IN(heading)                                                                     \
    OPTION_ROW("quiet", OPTION_FLAG, offsetof(struct common_options, quiet),                       \
               "print only errors on standard error", .section = (heading), .letter = 'q'),        \
        OPTION_ROW("help", OPTION_FLAG, offsetof(struct common_options, help),                     \
                   "print this help; "                                                             \
                   "-h: in brief",                                                                 \
                   .letter = 'h')

#define MODEL_ROW                                                                                  \
    OPTION_ROW("model", OPTION_STRING, offsetof(struct common_options, model),                     \
               "use the weights file FILE, or " BUILT_IN, .section = "Model", .letter = 'm',       \
               .standard = "$TXL_MODEL, else " BUILT_IN, .file = FILE_MODEL)

#define FILES_FROM_ROW(heading)                                                                    \
    OPTION_ROW("files-from", OPTION_STRING, offsetof(struct common_options, files_from),           \
               "read more names of FILEs from LIST, one per line or each ended by NUL; -: "        \
               "standard input",                                                                   \
               .section = (heading), .argument = "LIST", .file = FILE_READ)

#define LOW_MEMORY_ROW                                                                             \
    OPTION_ROW("low-memory", OPTION_FLAG, offsetof(struct common_options, low_memory),             \
               "expand one layer at a time: less memory, slower")

/* For commands that read texts. */
#define BINARY_ROW                                                                                 \
    OPTION_ROW("binary", OPTION_FLAG, offsetof(struct common_options, form.binary),                \
               "read a text that does not look like UTF-8"),                                       \
        OPTION_ROW("encoding", OPTION_STRING, offsetof(struct common_options, form.encoding),      \
                   "convert texts from this encoding (iconv -l lists them)", .argument = "NAME",   \
                   .standard = "UTF-8"),                                                           \
        OPTION_ROW(                                                                                \
            "invalid", OPTION_CHOICE, offsetof(struct common_options, form.invalid),               \
            "refuse what looks like another encoding, or read U+FFFD for each invalid sequence",   \
            .choices = options_invalid, .standard = "refuse")

#define UNWRAP_ROW                                                                                 \
    OPTION_ROW("unwrap", OPTION_FLAG, offsetof(struct common_options, unwrap),                     \
               "join the wrapped lines of each paragraph, and drop spaces at line ends")

/* For commands that write a weights file. */
#define MODEL_NAME_ROW(place)                                                                      \
    OPTION_ROW("name", OPTION_STRING, (place),                                                     \
               "name the model for people; compressed texts state the name", .argument = "NAME",   \
               .standard = "none")

/* For commands that print a model's text. */
#define RAW_OUTPUT_ROW(type, member)                                                               \
    OPTION_ROW("raw-output", OPTION_FLAG, offsetof(type, member),                                  \
               "print control characters on a terminal, too")

/* Needed after --files-from, harmless otherwise. */
void operands_free(struct operands *operands);

/* Parses the command line and runs the command.  Returns the exit status. */
int command_run(const struct command *command, int argc, char **argv);

/* What options_parse returns when the command is to run. */
#define OPTIONS_RUN (-1)

/* Fills in `values`, which starts with a struct common_options and holds the defaults.  Checks the
 * files that options and operands name (named_files_check).  Prints help or the error itself;
 * returns OPTIONS_RUN or the status to exit with. */
int options_parse(const struct command *command, int argc, char **argv, void *values,
                  struct operands *operands);

/* What is wrong with a value, to follow the option's name. */
struct option_problem {
    char text[512];
    bool lacks_memory; /* nothing is wrong with it */
};

/* Sets the row's option to what `text` says, which a string or a list keeps; false if that is no
 * such value.  A flag is set whatever the text. */
bool options_set_value(const struct option_row *row, const char *text, void *values,
                       struct option_problem *problem);

/* Checks an output that is named later against the files that the options read.  Returns
 * OPTIONS_RUN, or the exit status with the error printed. */
int options_check_output(const struct command *command, const void *values,
                         const struct named_file *output);

void options_help(const struct command *command, FILE *out);

/* -h: the usage, the examples and the options that most need. */
void options_brief_help(const struct command *command, FILE *out);

/* Prints that the `what` (command, option, setting) `name`, with `mark` before it, is unknown, and
 * names the `nearest` one unless NULL.  Returns STATUS_USAGE.  `command` NULL: txl itself. */
int options_unknown(const struct command *command, const char *what, const char *mark,
                    const char *name, const char *nearest);

/* The row of the option name[length]; NULL: there is none. */
const struct option_row *options_row(const struct option_row *rows, const char *name,
                                     size_t length);

/* Whether any option was given that is in the list of names, which ends with NULL; or, if not
 * `listed`, that is not in it.  Not for commands with defaults of their own. */
bool options_any_given(const struct command *command, const void *values, const char *const *names,
                       bool listed);

/* The options that say nothing about the work itself, for such a list. */
#define COMMON_NAMES "threads", "quiet", "summary", "help", "force"

/* Prints the error with a pointer to the help; returns STATUS_USAGE. */
int options_wrong(const struct command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Choice number `i` of an OPTION_CHOICE; NULL beyond the last. */
const char *options_choice(const struct option_row *row, size_t i);

/* The operand's default as help states it; NULL: nothing to say. */
const char *options_operand_standard(const struct operand_row *row);

/* The placeholder of the argument; NULL for flags and choices. */
const char *options_placeholder(const struct option_row *row);

/* Prints the argument as help shows it: the placeholder, or the choices between bars; nothing for
 * flags.  Returns the number of columns. */
int options_print_argument(const struct option_row *row, FILE *out);

/* Prints `text` filled to `width` columns, every line but the first after `indent` blanks, and
 * ends the line. */
void options_print_filled(FILE *out, const char *text, size_t indent, size_t width);

/* Prints text[length] as paragraphs, indented. */
void options_print_prose(FILE *out, const char *text, size_t length, size_t indent);

/* ---- Numbers in plain decimal -------------------------------------------------------------
 *
 * Everything else is refused: hexadecimal, blanks, any sign but a minus, a minus before zero, and
 * text after the number. */

/* Both return false unless the whole text is such a number and the type can hold it. */
bool number_integer(const char *text, int64_t *value);

/* Digits, with a decimal point and an exponent if need be.  A double cannot hold a number that
 * would be rounded to 0. */
bool number_real(const char *text, double *value);

/* Reads a list of at least one whole number from 0 to 2^31 - 1, between commas: *n of them, for the
 * caller to free.  NULL if the text is no such list, or memory is short. */
int *number_list(const char *text, size_t *n);

/* ---- The name that a mistyped one most likely means --------------------------------------- */

struct nearest {
    const char *typed;
    const char *name; /* the best so far; NULL: none */
    size_t distance;  /* of it */
};

/* Begins a search; `typed` and all names tried must live until its end. */
struct nearest nearest_to(const char *typed);

void nearest_try(struct nearest *nearest, const char *name);

/* The nearest of the names tried (the first of equally near ones), or NULL if none is near
 * enough. */
const char *nearest_name(const struct nearest *nearest);

#endif
