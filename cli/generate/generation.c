/* Names of a run's choices, and what results state about them. */
#include "generation.h"

const char *const eos_ways[] = {"newline", "stop", "ban", NULL};
const char *const ends[] = {"token", "sentence", NULL};
const char *const reading_orders[] = {"block", "left", NULL};

struct run_settings generation_settings(const struct generate *g) {
    return (struct run_settings){.text = text_form(&g->model, g->text, g->options->ids),
                                 .generates = true,
                                 .unwrap = g->options->common.unwrap,
                                 .dynamic = g->options->dynamic.on ? &g->dynamic.settings : NULL,
                                 .refresh = g->reading.refresh,
                                 .order = reading_orders[g->reading.left]};
}
