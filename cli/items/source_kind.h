/* Whether an input is a table or a text. */
#ifndef CLI_ITEMS_SOURCE_KIND_H
#define CLI_ITEMS_SOURCE_KIND_H

#include "cli/io/input.h"
#include "cli/options/options.h"

/* Whether FILE is a table: by its name's ending, of standard input and /dev/fd by its first line,
 * which `columns` (--columns) may help to recognise; of compressed ones likewise.  A pipe is then
 * copied to an unnamed file, which takes its place.  False with the error printed. */
bool source_is_table(const char *path, const struct string_list *columns,
                     const struct input_form *form, bool *is_table);

/* Whether the text at `path` begins as a table does. */
bool source_has_header(const char *path, const struct string_list *columns);

/* Whether each line of the text at `path` looks like a sentence by itself. */
bool source_has_sentences(const char *path);

#endif
