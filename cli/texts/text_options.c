/* The rows of the options of a text, and what they cannot say. */
#include "text_options.h"

#include <string.h>

const char *const eos_ways[] = {"newline", "stop", "ban", NULL};
const char *const ends[] = {"token", "sentence", NULL};

/* To name the place of its one member, which is 0. */
struct text_row {
    struct text_options own;
};

const struct option_row text_option_rows[] = {
    TEXT_LENGTH_ROWS(0), TEXT_DRAW_ROWS(struct text_row, own), {0}};

/* Whether the name is the row's, with - or _. */
static bool is_named(const struct option_row *row, const char *name) {
    size_t i = 0;
    while (name[i] != '\0' && (row->name[i] == name[i] || (row->name[i] == '-' && name[i] == '_')))
        i++;
    return name[i] == row->name[i];
}

const struct option_row *text_option_row(const struct option_row *rows, const char *name) {
    for (const struct option_row *row = rows; row->name; row++)
        if (is_named(row, name) || (name[0] != '\0' && row->letter == name[0] && name[1] == '\0'))
            return row;
    return NULL;
}

const char *text_options_wrong(const struct text_options *o, bool ids, bool turns) {
    if (o->end == END_SENTENCE && (turns || ids))
        return "--end sentence is for text without --interactive, whose turns end so, and without "
               "--ids";
    if (ids && o->stop.n > 0)
        return "--stop cannot be combined with --ids";
    for (size_t i = 0; i < o->stop.n; i++)
        if (o->stop.items[i][0] == '\0')
            return "--stop needs a string that is not empty";
    return sampling_wrong(&o->sampling);
}
