/* The course of a training: curves, log, report. */
#ifndef TXL_TRAIN_TRAIN_REPORT_H
#define TXL_TRAIN_TRAIN_REPORT_H

#include "lib/base/memory.h"
#include "txl.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The course of a training, for its report.  The state keeps it, so that the report of a resumed
 * run shows all of it. */

/* The most points; steps are joined to points so that there are not more. */
enum { CURVE_POINTS = 512 };

struct curves {
    struct curve_point {
        uint64_t steps; /* number of steps: `window` for all points but the last */
        double nats;    /* nats a token, summed over the steps */
        double rate;    /* learning rate of the last step */
    } point[CURVE_POINTS];
    size_t n;
    uint64_t window;     /* steps of a point; 0: none has come yet */
    json_t *evaluations; /* [{step, nats (a token), bits, text}], with null for missing values */
};

/* The functions below return false when memory is short. */

bool curves_init(struct curves *curves);
void curves_add_step(struct curves *curves, double nats, double rate);

/* Adds an evaluation after `step` steps.  `nats` and `bits` NAN: nothing was measured; `text` NULL:
 * nothing was written. */
bool curves_add_evaluation(struct curves *curves, uint64_t step, double nats, double bits,
                           const char *text);
void curves_free(struct curves *curves);

/* The points as [[steps so far, nats a token, rate]], of single objects for the note of a state
 * [[steps, sum of nats, rate]].  NULL when memory is short. */
json_t *curves_points(const struct curves *curves);
json_t *curves_to_json(const struct curves *curves);

/* Reads the result of curves_to_json.  False if it is none. */
bool curves_from_json(struct curves *curves, const json_t *json);

/* The log of txl train: a JSON object a line, for every step and every evaluation. */

struct train_log {
    const char *path; /* NULL: there is none */
    FILE *stream;
    struct buffer owed; /* rows that could not be written yet */
    bool behind;        /* the last write failed */
    bool gone;          /* the pipe's reader: nothing more is written */
    bool cut;           /* rows were left out, because too many are owed */
};

/* Begins the log, or `continues` one: all lines but those about the first `steps` steps are removed
 * if it is a regular file.  False with the error printed, or when a signal ended the waiting for a
 * pipe's reader; end with train_log_close. */
bool train_log_open(struct train_log *log, const char *path, bool continues, uint64_t steps);

/* Writes one line.  If that fails a note says so, and the line is owed.  Takes the reference; false
 * with the error printed for NULL, which counts as out of memory. */
bool train_log_write(struct train_log *log, json_t *object);

/* Tries to write what is owed. */
void train_log_catch_up(struct train_log *log);

/* Tries once more.  False with the error printed if lines are missing. */
bool train_log_close(struct train_log *log);

/* The report of txl train: one page with the losses of training and of the held-out text, the
 * learning rate, what the model wrote at each evaluation, and the settings. */

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
