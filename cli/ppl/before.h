/* What is read before a text and not scored: --context, and the context of an item. */
#ifndef CLI_BEFORE_H
#define CLI_BEFORE_H

#include "cli/model/model.h"
#include "lib/base/memory.h"

/* The longest text of --context. */
#define BEFORE_MOST (16 << 20)

/* Reads the text of --context: the file at `path`, or `string`; with --unwrap its lines are joined.
 * False with the error printed. */
bool before_read(struct buffer *before, const char *path, const char *string,
                 const struct model *model, bool ids, const struct common_options *common);

/* Makes a text the begin of another one, as a prompt is: without one line end at its end, and
 * without blanks, because the next one begins after one blank. */
void before_open(struct buffer *text, const txl_model *model);

/* Adds `text` to what is before it, with a blank between where neither side has one.  False when
 * memory is short. */
bool before_join(struct buffer *before, const char *text, size_t length);

#endif
