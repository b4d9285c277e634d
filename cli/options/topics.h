/* Long explanations, each under a name: `txl help NAME` prints one, a manual page those of its
 * command, and --help their names.
 *
 * A text of topics is a file beside the command.  A line "@ name Title" begins a topic; paragraphs
 * follow, divided by empty lines, and lines that begin with a blank are printed as they are. */
#ifndef CLI_TOPICS_H
#define CLI_TOPICS_H

#include "options.h"

struct topic {
    const char *name, *title, *text; /* [n_name], [n_title], [n_text] */
    size_t n_name, n_title, n_text;
};

/* Takes the next topic of a text; false at its end. */
bool topic_next(const char **text, struct topic *topic);

/* Finds the topic name[length]; `text` may be NULL. */
bool topic_find(const char *text, const char *name, size_t length, struct topic *topic);

/* Topics of several commands: how files are read and written, what result lines say. */
extern const char shared_topics[];

/* Takes the next topic of a command, its own before the shared ones that it names; *at starts as
 * zeroes. */
struct topic_place {
    const char *own, *shared;
    bool begun;
};
bool topic_of_command(const struct command *command, struct topic_place *at, struct topic *topic);

#endif
