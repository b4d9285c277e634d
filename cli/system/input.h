/* Text that comes in: a file, standard input, or a string of the command line. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct input {
    const char *name;   /* as messages show it */
    int handle;         /* -1: a string */
    const char *string; /* what is left of it */
    size_t left;
    uint64_t size; /* bytes in all, 0 when unknown */
    uint64_t read; /* bytes so far */
    bool to_end;   /* it is read on after a signal too */
    bool failed;   /* a read did, with the error printed */
};

/* Opens the file, or standard input for "-".  False with the error printed, or when a signal ended
 * the waiting for a pipe's writer. */
bool input_open(struct input *input, const char *path);
void input_open_string(struct input *input, const char *name, const char *string);
void input_close(struct input *input);

/* Bytes read, 0 at the end, also when a signal asked to stop; -1 with the error printed. */
ssize_t input_read(struct input *input, char *buffer, size_t size);

/* Makes an input that has not been read yet one that can be read again: what cannot seek is
 * copied to an unnamed temporary file.  False with the error printed. */
bool input_make_seekable(struct input *input);
bool input_rewind(struct input *input);

/* True when standard input is no terminal, so that reading it keeps nobody waiting. */
bool input_is_piped(void);

#endif
