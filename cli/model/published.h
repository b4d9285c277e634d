/* The published models' shapes (--shape) and the settings they were evaluated with (--preset
 * published), of the table in convert/published.c. */
#ifndef CLI_PUBLISHED_H
#define CLI_PUBLISHED_H

#include "convert/published.h"
#include "txl.h"

/* The names of the shapes on a command line; "small" is not a published one.  Ends with NULL. */
extern const char *const published_shapes[];

/* The published model of this model's shape, or NULL. */
const struct published *published_find(const txl_model *model);

/* Sets the settings of its evaluation, but not `threads`. */
void published_apply(const struct published *published, txl_settings *settings);

/* The streams of its evaluation: TensorFlow's, to which the model's same_length_reach belongs, cut
 * the text into others. */
int published_streams(const struct published *published, const txl_model *model);

/* False for an XLNet's. */
bool published_is_transformer_xl(int shape);

/* The settings of a weights file of published_shapes[shape], as JSON, for the caller to free; NULL
 * when memory is short.  `evaluated`: as the published one was, which may be in TensorFlow's
 * dialect; else in that of training. */
char *published_settings_json(int shape, bool evaluated);

#endif
