/* The bytes of the text that is being scored, for tables that show them: tokens come with a lag,
 * and with --batch long after they were read.  A file is read again where it is; what cannot be,
 * such as a pipe, is copied to an unnamed temporary file as it comes. */
#ifndef CLI_SOURCE_H
#define CLI_SOURCE_H

#include "cli/system/input.h"
#include "txl.h"

#include <stdio.h>

/* A byte order mark. */
#define SOURCE_MARK "\xef\xbb\xbf"

struct source {
    int handle;
    uint64_t base; /* where in the file the text begins */
    FILE *copy;    /* NULL: the input itself is read */
    char *block;   /* bytes of the text from block_begin on */
    uint64_t block_begin;
    size_t block_length;
};

/* For an input that has not been read yet and stays open.  False with the error printed; end with
 * source_close either way, which is harmless for a zeroed one. */
bool source_open(struct source *source, const struct input *input);
void source_close(struct source *source);

/* The text, piece by piece, before its tokens. */
txl_status source_see(struct source *source, const char *text, size_t length, txl_error *error);

/* `*bytes` becomes the text from `offset` on, of which `*n` bytes are there, not more than `most`
 * and none at its end; they live until the next call. */
txl_status source_get(struct source *source, uint64_t offset, uint64_t most, const char **bytes,
                      size_t *n, txl_error *error);

#endif
