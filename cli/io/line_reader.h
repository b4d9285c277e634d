/* Lines that a person types.  At a terminal they are edited, with a history that is kept in a file;
 * from anything else they are read as they come. */
#ifndef CLI_LINE_READER_H
#define CLI_LINE_READER_H

#include "input.h"
#include "lib/base/memory.h"

#include <histedit.h>
#include <stdbool.h>
#include <stddef.h>

/* What may stand where a person pressed Tab: names that begin with what is typed. */
struct candidates {
    const char *typed;
    size_t length; /* of it */
    char **names;  /* [n] */
    size_t n, capacity;
};

/* Adds the name, if it begins with what is typed, and `end` after it.  When memory is short names
 * are missing. */
void candidates_add(struct candidates *candidates, const char *name, const char *end);

/* Adds the files that the typed path may mean; a folder ends with a slash. */
void candidates_add_files(struct candidates *candidates);

/* Sorts them, and returns how many of their bytes are equal in all: 0 without any. */
size_t candidates_common(struct candidates *candidates);
void candidates_free(struct candidates *candidates);

struct line_reader {
    EditLine *edit; /* NULL: standard input is no terminal, or no terminal shows what is typed */
    History *history;
    char *history_path;  /* NULL: there is no history */
    bool asks_for_paste; /* the terminal marks what is pasted, if it is asked to */
    struct input input;  /* of lines that libedit does not read */
    struct buffer text; /* what is read of it and not yet returned, and before that the last line */
    size_t line;        /* bytes of that line and its end */
    bool failed;        /* reading failed, with the error printed */
    const char *prompt; /* of the line that is typed */

    /* NULL, or lists what may complete the typed line.  `candidates` has the line before the
     * cursor: sets that to the part to complete, and adds names for it. */
    void (*complete)(struct candidates *candidates);
};

/* False with the error printed. */
bool line_reader_open(struct line_reader *reader);

/* Keeps the history. */
void line_reader_close(struct line_reader *reader);

/* The next line without its end; NULL if there is none, a signal came, or reading failed.  It lives
 * until the next call.  What a terminal pastes at once is part of one line, with its line ends. */
const char *line_reader_next(struct line_reader *reader, size_t *length);

/* Whether the person at the terminal answers the question with yes. */
bool line_reader_ask(struct line_reader *reader, const char *question);

#endif
