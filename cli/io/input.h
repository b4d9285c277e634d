/* Text that comes in: a file, standard input, or a string of the command line. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "lib/base/memory.h"
#include "unwrap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

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
    int packing; /* enum packing */
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

#endif
