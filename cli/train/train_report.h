/* The report of txl train: one page with the losses of training and of the held-out text, the
 * learning rate, what the model wrote at each evaluation, and the settings. */
#ifndef CLI_TRAIN_REPORT_H
#define CLI_TRAIN_REPORT_H

#include "curves.h"
#include "txl.h"

/* The text that the model writes after the last few of `ids`, and in `*prompt` the text of these;
 * the caller frees both.  NULL with the error in `error`. */
char *train_report_write(const txl_model *model, const txl_settings *settings, const int32_t *ids,
                         size_t n, char **prompt, txl_error *error);

struct train_report {
    const char *output; /* the model's file */
    const char *prompt; /* NULL: nothing was written */
    bool letters;       /* its symbols are characters */
    json_t *settings;   /* an object: what the run depends on, and its results */
    const struct curves *curves;
};

/* Writes the whole page to `path`, or nothing.  False with the error printed. */
bool train_report_save(const struct train_report *report, const char *path);

#endif
