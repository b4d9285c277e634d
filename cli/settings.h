/* How every result states the settings that decide its numbers. */
#ifndef CLI_SETTINGS_H
#define CLI_SETTINGS_H

#include "model.h"

#include <jansson.h>

/* How a model learned from what it had scored (--dynamic). */
struct dynamic_settings {
    const char *method;
    double lr, decay, epsilon;
    bool from_checkpoint;         /* the statistics are a checkpoint's moments */
    uint64_t statistics_segments; /* else: whose squared gradients were summed */
};

/* What a result depends on in addition to the session's settings. */
struct run_settings {
    int64_t streams;  /* 0: without a meaning */
    const char *mode; /* segments, lines, items, sliding; NULL: without a meaning */
    const char *text; /* as text_form says it */
    const struct dynamic_settings *dynamic; /* NULL: the model did not learn */
    bool unwrap;                            /* the lines of paragraphs were joined */

    /* Of an XLNet: */
    bool generates, fills;
    uint64_t refresh;  /* new tokens before all known ones are read again; 0: never */
    const char *order; /* how it reads the prompt if it never refreshes, or how it fills gaps */
};

/* Appends the settings to a JSON object, in the order of the table in settings.c; null what has no
 * meaning.  False when out of memory. */
bool settings_to_json(json_t *object, const struct model *model, const txl_settings *settings,
                      const struct run_settings *run);

/* Sets in an object, among what else a weights file states, the settings that the model has by
 * default, also those that the file leaves out because they are the usual ones.  False when out of
 * memory. */
bool settings_of_model(json_t *object, const struct model *model);

/* The end of the summary line, the same for every command: key=value, with blanks between.  First
 * what the network is told, then how it is computed; the model's name comes last and runs to the
 * end of the line. */
void settings_to_text(char *text, size_t size, const struct model *model,
                      const txl_settings *settings, const struct run_settings *run);

/* The same of settings that settings_to_json wrote. */
void settings_json_to_text(char *text, size_t size, const json_t *settings, const char *model);

/* The settings that must be the same in all shards of one evaluation: key `i` of them, NULL after
 * the last.  *always: every result states it. */
const char *settings_shared_key(size_t i, bool *always);

#endif
