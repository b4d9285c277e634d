/* The end of a text, as ids: what is needed to continue it. */
#ifndef CLI_RECENT_H
#define CLI_RECENT_H

#include "lib/base/memory.h"
#include "txl.h"

/* Copies all that the history remembers.  False with the error printed. */
bool recent_copy(struct id_list *recent, const txl_history *history);

/* The index from which on the ids affect how a decoder shows the next one. */
size_t recent_line(const int32_t *ids, size_t n, const txl_model *model);

/* The symbol that ends a line, or the blank if line ends are no symbols; -1: there is none. */
int32_t recent_line_end(const txl_model *model);

/* The symbol that is a blank and nothing else, or -1. */
int32_t recent_blank(const txl_model *model);

/* Whether the text is within a line.  Where lines stand between two boundaries (lm1b): whether the
 * next boundary would close one. */
bool recent_line_is_open(const int32_t *ids, size_t n, const txl_model *model);

#endif
