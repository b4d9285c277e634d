/* The text that is being scored, and what is read before it. */
#ifndef TXL_PPL_SOURCE_H
#define TXL_PPL_SOURCE_H

#include "cli/io/input.h"
#include "cli/model/model.h"
#include "lib/base/memory.h"
#include "txl.h"

#include <stdio.h>

/* The bytes of the text that is being scored, for tables that show them.  Tokens are scored later
 * than they are read, with --batch much later.  So the file is read again; a pipe and the like is
 * copied to an unnamed temporary file as it is read. */

struct source {
    int handle;        /* -1: none */
    uint64_t base;     /* where in the file the text begins */
    FILE *copy;        /* NULL: the input itself is read */
    char *block;       /* NULL: the text is in memory */
    const char *bytes; /* of the text from block_begin on */
    uint64_t block_begin;
    size_t block_length;
};

/* Opens the source of an input that has not been read yet and stays open.  False with the error
 * printed; end with source_close either way, which is harmless for a zeroed one. */
bool source_open(struct source *source, const struct input *input);
void source_close(struct source *source);

/* The source text[length], which must live as long; it need not be closed. */
void source_of_text(struct source *source, const char *text, size_t length);

/* Receives the text, piece by piece, before its tokens. */
txl_status source_see(struct source *source, const char *text, size_t length, txl_error *error);

/* Sets `*bytes` to the text from `offset` on, and `*n` to the number of available bytes, at most
 * `most` and 0 at its end; they live until the next call. */
txl_status source_get(struct source *source, uint64_t offset, uint64_t most, const char **bytes,
                      size_t *n, txl_error *error);

/* Copies `most` bytes from `offset` on, or all to the text's end; `*n` receives how many. */
txl_status source_copy(struct source *source, uint64_t offset, size_t most, char *bytes, size_t *n,
                       txl_error *error);

/* What is read before a text and not scored: --context, and the context of an item. */

/* The longest text of --context. */
#define BEFORE_MOST (16 << 20)

/* Reads the text of --context: the file at `path`, or `string`; with --unwrap its lines are joined.
 * False with the error printed. */
bool before_read(struct buffer *before, const char *path, const char *string,
                 const struct model *model, bool ids, const struct common_options *common);

/* Makes a text the start of another one, as a prompt is: without one line end at its end, and
 * without blanks, because the next one begins after one blank. */
void before_open(struct buffer *text, const txl_model *model);

/* Adds `text` to what is before it, with a blank between where neither side has one.  False when
 * memory is short. */
bool before_join(struct buffer *before, const char *text, size_t length);

#endif
