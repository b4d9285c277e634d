/* Which files txl itself wrote, so that it may replace them. */
#ifndef CLI_OWN_FILES_H
#define CLI_OWN_FILES_H

#include "options.h"

#include <stdbool.h>

/* Whether the regular file is of the kind, or empty.  `columns`: of a table, those of each level
 * that it may be of, then NULL.  One that cannot be read is not. */
bool is_own_file(const char *path, enum output_kind kind, const char *const *columns);

/* What messages call a file of the kind: "weights file". */
const char *output_kind_name(enum output_kind kind);

/* Whether names[n] are the columns of a level: names with blanks between them, "[" and "]" around
 * those that may be missing together, "top*" for any that begin so, and "*" for a person's: at the
 * beginning any, at the end none or such as end in item and condition. */
bool own_columns_match(const char *const *names, size_t n, const char *columns);

#endif
