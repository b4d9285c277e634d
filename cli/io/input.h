/* Text that comes in: a file, standard input, or a string of the command line. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "lib/base/memory.h"
#include "txl.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- Wrapped lines --------------------------------------------------------------------- */

/* Text whose lines were wrapped at a width: the lines of a paragraph are joined again.
 *
 * A line ends its paragraph if the first word of the next one would have fitted into it, or if the
 * next line is blank or indented. */

/* Lines wider than this were not wrapped. */
#define WRAP_MOST 100
/* Shorter lines look like verse or a list. */
#define WRAP_LEAST 40

/* How the start of a text is wrapped. */
struct wrap {
    unsigned
        width;     /* of the longest line that is no wider than WRAP_MOST; if there is none, that */
    uint64_t line; /* the number of that line, from 1; 0: there is none */
    bool seen;     /* most line ends are those of wrapped lines, of WRAP_LEAST columns and more */
    bool doubtful; /* of many line ends within paragraphs, or what may be some, few join lines */
    bool unbroken; /* most line ends that would join lines follow lines wider than WRAP_MOST */
};

struct wrap wrap_measure(const char *text, size_t length);

struct unwrapper {
    unsigned width; /* the wrap; 0: nothing is joined */

    /* Receive the text in order: bytes as they are, and line ends that join lines, of so many bytes
     * with the white space before them.  What they return, unless it is TXL_OK, ends the call. */
    txl_status (*text)(void *context, const char *text, size_t length, txl_error *error);
    txl_status (*join)(void *context, unsigned bytes, txl_error *error);
    /* The same of line ends that stay, where blanks are before them: these are dropped. */
    txl_status (*end)(void *context, unsigned bytes, txl_error *error);
    void *context;

    size_t column;    /* of the line: its code points so far */
    bool begun;       /* it has more than white space */
    char blanks[256]; /* held white space, which may be the line's last, and its end */
    unsigned n_blanks;
    bool ended; /* the held white space ends the line */
    char word[4 * WRAP_MOST + 4];
    size_t n_word;     /* bytes of the next line's first word so far */
    size_t word_width; /* its code points */
};

txl_status unwrap_feed(struct unwrapper *unwrapper, const char *text, size_t length,
                       txl_error *error);

/* The text has ended: passes on what was held.  Another text, wrapped at `width`, may follow. */
txl_status unwrap_finish(struct unwrapper *unwrapper, unsigned width, txl_error *error);

/* ---- Input ----------------------------------------------------------------------------- */

enum { INVALID_REFUSE, INVALID_REPLACE };

/* How the bytes of texts are read. */
struct input_form {
    bool binary;          /* what does not look like text is read all the same */
    int invalid;          /* INVALID_REPLACE: invalid UTF-8 is read as U+FFFD, whatever it is */
    const char *encoding; /* to convert from, by a name of iconv(1); NULL: UTF-8 */
};

struct input {
    const char *name;   /* for messages */
    int handle;         /* -1: a string */
    const char *string; /* what is left of it */
    size_t left;
    off_t base;     /* of a file: where reading began */
    uint64_t size;  /* bytes in all, 0 when unknown */
    uint64_t read;  /* bytes so far, of an expanded text */
    uint64_t taken; /* of a file: its bytes so far */
    bool bounded;   /* the file grows by what the program writes: it ends after `size` bytes */
    bool to_end;    /* reading goes on after a signal */
    bool failed;    /* a read failed, with the error printed */
    unsigned
        wrap;    /* the width at which its lines were wrapped that are to be joined; 0: none are */
    int packing; /* enum packing of input.c */
    struct unpacker *unpacker; /* NULL: the file is read as it is */
    void *iconv;               /* NULL: the text is UTF-8, or bytes */
    struct buffer raw;         /* what was read and waits to be converted */
    struct {
        bool on;       /* no character of several bytes came yet */
        uint64_t line; /* lines that ended before */
        size_t n;
        char cut[4];        /* [n]: the start of a character */
    } check;                /* of text in UTF-8 */
    char *head;             /* [n_head], the text's begin, read before; input_read gives it from */
    size_t n_head, at_head; /* at_head on */
};

/* Opens the file, or standard input for "-".  False with the error printed, or when a signal ended
 * the waiting for a pipe's writer. */
bool input_open(struct input *input, const char *path);
/* The same for a text.  Data of gzip and zstd are expanded; what is no text in UTF-8 by its first
 * 64 KiB is refused, but not if it may be binary.  So is text in an encoding of one byte a
 * character, here or by input_read: its first invalid byte comes before any character of several
 * bytes.  For models of bytes everything else is read as it is, and with `binary` packed data too.
 */
bool input_open_text(struct input *input, const char *path, bool bytes,
                     const struct input_form *form);
/* The same for lines that a program may send one by one: what it is, is decided on what comes at
 * once. */
bool input_open_lines(struct input *input, const char *path);
/* How an opened text is wrapped; nothing was read of it yet. */
struct wrap input_wrap(const struct input *input);

void input_open_string(struct input *input, const char *name, const char *string);
void input_close(struct input *input);

/* Returns the bytes read; 0 at the end, or when a signal asked to stop; -1 with the error
 * printed. */
ssize_t input_read(struct input *input, char *buffer, size_t size);

/* Adds all of the input to the buffer; stops after `most` bytes.  False with the error printed, or
 * when a signal asked to stop. */
bool input_read_all(struct input *input, struct buffer *to, size_t most);

/* Reads the whole file, which is to have less than `most` bytes, some MiB, and at least one.  False
 * with the error printed, or when a signal asked to stop. */
bool input_read_list(const char *path, struct buffer *list, size_t most);

/* Whether input_read would return at once. */
bool input_is_ready(const struct input *input);

/* The part of the input that was read when `used` bytes of the text were used; negative: unknown.
 */
double input_fraction(const struct input *input, uint64_t used);

/* Whether reading gives the file's own bytes. */
bool input_is_as_stored(const struct input *input);

/* Makes an input that has not been read one that can be read again: copies it to an
 * unnamed temporary file if it cannot seek.  False with the error printed. */
bool input_make_seekable(struct input *input);
bool input_rewind(struct input *input);

/* True if standard input is not a terminal, so that reading it waits for nobody. */
bool input_is_piped(void);
/* Whether standard input is a pipe with bytes that can be read at once, or a file that nobody has
 * read from: of a loop over its lines the rest is none of the program's. */
bool input_has_text(void);

/* ---- JSON objects, a line each --------------------------------------------------------- */

/* From a file or from a program that waits for the answers. */

/* The longest line. */
#define JSON_LINE_BYTES (1 << 20)

struct json_lines {
    struct input input;
    struct buffer bytes; /* what was read; from `at` on it is not yet taken */
    size_t at, searched; /* so many bytes from there on have no line end */
    bool too_long;       /* the line's begin was dropped */
    bool ended;
    uint64_t line; /* the number of the last line, from 1 */
    uint64_t used; /* bytes of the input up to its end */
};

enum json_line {
    JSON_LINE_OBJECT,
    JSON_LINE_WRONG,   /* it is no object, or too long, with the error printed */
    JSON_LINE_NOT_YET, /* to go on would be to wait */
    JSON_LINE_END,     /* there are no more, or a signal asked to stop */
    JSON_LINE_FAILED   /* reading failed, with the error printed */
};

/* Parses a line.  NULL if it is no object: `wrong` then says why, or is "" if memory is short. */
json_t *json_line_object(const char *text, size_t length, char *wrong, size_t size);

/* False with the error printed. */
bool json_lines_open(struct json_lines *lines, const char *path);
void json_lines_close(struct json_lines *lines);

/* Takes the next line that is not blank, with `wait` also if it has not come yet; a byte order mark
 * before the first is left out.  The object is the caller's. */
enum json_line json_lines_next(struct json_lines *lines, bool wait, json_t **object);

#endif
