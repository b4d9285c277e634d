/* The report of txl train: one page with the losses of training and of the held-out text, the
 * learning rate, what the model wrote at each evaluation, and the settings. */
#ifndef CLI_TRAIN_REPORT_H
#define CLI_TRAIN_REPORT_H

#include "curves.h"
#include "txl.h"

/* What the model writes after `ids`, of which it takes the last few: text to be freed, with
 * `*prompt` the text of those ids, which is freed too.  NULL with the error in `error`. */
char *train_report_write(const txl_model *model, const txl_settings *settings, const int32_t *ids,
                         size_t n, char **prompt, txl_error *error);

struct train_report {
    const char *output; /* the model's file */
    const char *prompt; /* NULL: nothing was written */
    bool letters;       /* its symbols are characters */
    json_t *settings;   /* an object: all that the run depends on, and what came out */
    const struct curves *curves;
};

/* Puts the page at `path` as a whole.  False with the error printed. */
bool train_report_save(const struct train_report *report, const char *path);

#endif
