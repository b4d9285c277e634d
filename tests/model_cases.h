/* The checkpoints under tests/cases: small models in published layouts, with results of the
 * reference implementation. */
#ifndef TESTS_MODEL_CASES_H
#define TESTS_MODEL_CASES_H

#include "txl.h"

#include <jansson.h>

/* Names of all cases, NULL after the last. */
extern const char *const case_names[];

/* Those that training was run on, likewise; dynamic evaluation on those with dynamic.json. */
extern const char *const trained_cases[];

struct model_case {
    const char *name;
    json_t *expect; /* expect.json */
    txl_model *model;
    int32_t *ids;
    size_t n;
};

/* Converts the case's checkpoint to a file, with `type` (NULL: its own) and `level` (< 0: the
 * default); asserts. */
void case_convert(const char *name, const char *type, int level, const char *path);

/* The same, and opens the result. */
void case_open(struct model_case *c, const char *name, const char *type, int level);
/* The same in f32, as if the model's layers normalised their input. */
void case_open_pre_lnorm(struct model_case *c, const char *name);
void case_close(struct model_case *c);

/* Opens each of the n trained_cases that have `file` with each table of kernels, and checks what
 * the reference made of it: the runs in `file`, numbered by `r`. */
void check_trained_cases(const char *file, size_t n,
                         void (*check)(const struct model_case *c, int r, const json_t *run));

/* Makes models opened from now on use the v-th table of kernels.  Returns false after the last,
 * and leaves the choice to the processor again. */
bool use_kernels(size_t v);

/* The path of a file of the case; lives until the next call. */
const char *case_path(const char *name, const char *file);

/* A path for a file that a test makes; lives until the next call. */
const char *scratch_path(const char *name);

/* The settings that a run or continuation of expect.json was computed with. */
txl_settings run_settings(const json_t *run, int threads);

/* Those of the case's first run. */
txl_settings case_settings(const struct model_case *c, int threads);

/* A number in a JSON object; asserts that it is one. */
double number_of(const json_t *object, const char *key);

/* Fails with the error's message unless the status is TXL_OK. */
void assert_good(txl_status status, const txl_error *error);

/* A session with them, or with the model's own (NULL); asserts. */
txl_session *case_session(const struct model_case *c, const txl_settings *settings);

/* Scores the case's tokens in calls of `step`: nats[n - 1]; asserts. */
void case_score(const struct model_case *c, txl_session *session, size_t step, float *nats);

/* The same in a session with the settings; the caller frees the nats. */
float *case_nats(const struct model_case *c, const txl_settings *settings, size_t step);

/* Settings of a random model large enough for several tiles of every product, with bands. */
extern const char larger_settings[];

#endif
