/* Names of a run's choices, and what results state about them. */
#include "generation.h"

const char *const eos_ways[] = {"newline", "stop", "ban", NULL};
const char *const ends[] = {"token", "sentence", NULL};
const char *const reading_orders[] = {"block", "left", NULL};

struct run_settings generation_settings(const struct generate *g) {
    return (struct run_settings){.text = text_form(g->model.handle, g->text, g->options->ids),
                                 .generates = true,
                                 .unwrap = g->options->common.unwrap,
                                 .dynamic = g->options->dynamic.on ? &g->dynamic.settings : NULL,
                                 .refresh = g->reading.refresh,
                                 .order = reading_orders[g->reading.left]};
}

const char *generation_wrong(const struct generate_options *o) {
    if (o->end == END_SENTENCE && (o->interactive || o->ids))
        return "--end sentence is for text without --interactive, whose turns end so, and without "
               "--ids";
    if (o->ids && o->stop.n > 0)
        return "--stop cannot be combined with --ids";
    for (size_t i = 0; i < o->stop.n; i++)
        if (o->stop.items[i][0] == '\0')
            return "--stop needs a string that is not empty";
    return sampling_wrong(&o->sampling);
}
