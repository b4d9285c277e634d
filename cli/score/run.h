/* A run of a command that scores texts, from its models to its outputs: what txl ppl and txl
 * surprisal have in common.
 *
 *     run_open_models, run_open_scorer, run_files, run_close */
#ifndef CLI_SCORE_RUN_H
#define CLI_SCORE_RUN_H

#include "cli/model/dynamic.h"
#include "evaluate.h"

/* Options that both commands have. */
struct scoring_options {
    struct session_options session;
    struct dynamic_options dynamic;
    int text; /* TEXT_RAW, TEXT_TOKENS or CHOICE_UNSET */
    int64_t max_tokens;
    const char *report;
    bool skip_unknown, json, heat, cache;
};

#define SCORING_UNSET                                                                              \
    { .session = SESSION_UNSET, .dynamic = DYNAMIC_UNSET, .text = CHOICE_UNSET }

struct run;

/* What a command does in a way of its own. */
struct run_calls {
    bool (*choose)(struct run *run, const struct model *model, txl_settings *settings);
    /* Scores file number i, whose name the result has at once; false: it failed. */
    bool (*score)(struct run *run, int i, struct result *result);
    bool (*add_json)(struct run *run, json_t *object, const struct result *result);
    bool (*print)(struct run *run, const struct result *result); /* for people */
    void (*note_unknown)(struct run *run, const struct result *result);
    bool (*sum)(struct run *run, struct result *total); /* NULL: nothing but the scores adds up */
};

struct run {
    const struct run_calls *calls;
    const struct common_options *common;
    const struct scoring_options *options;
    const char *compare;    /* OTHER; NULL: none */
    bool with_itself;       /* the learning model is compared with itself as it was */
    bool ids;               /* texts are ids */
    int standard_text;      /* the form of text without --text */
    struct way_options way; /* distributions: something else than a comparison and a report needs
                               them */
    bool exact_json;        /* results have all digits */
    double limit;           /* of the result (result_check_limit) */

    struct model model, other;
    int text; /* TEXT_RAW, TEXT_TOKENS */
    txl_settings settings, other_settings;
    struct dynamic dynamic;
    struct predictor predictors[MOST_SESSIONS];
    struct evaluation evaluation;
    struct comparison comparison;
    struct levels levels;
    bool rows_shown; /* rows are on standard output, and results wait until they are complete */
    struct heat heat;
    struct report report;
    struct result *held;
    int n_held;
    bool lacks; /* something was left out, or is not told */
    bool cut;   /* the reader of an output has gone before all was scored */
    struct progress progress;
    struct setup setup;
};

/* Opens the model and OTHER of --compare, and chooses their settings.  False with the error
 * printed; end with run_close. */
bool run_open_models(struct run *run);

/* Fills in the parts of `setup` and `evaluation` that follow from the options. */
void run_describe(struct run *run, const char *mode);

bool run_open_report(struct run *run);

/* Opens what predicts with the settings, and the scorer over it with its observers, and states the
 * settings.  End with run_close_scorer. */
bool run_open_scorer(struct run *run, const struct run_settings *stated);
void run_close_scorer(struct run *run);

void run_start_progress(struct run *run, const struct input *input);

/* Scores running text from the input, as `path`; what was scored before a signal is a result too.
 * False with the error printed. */
bool run_score_input(struct run *run, const char *path, struct input *input, struct result *result);

json_t *run_to_json(struct run *run, const struct result *result);

/* Notes symbols that the vocabulary lacks, blanks at line ends, and a script that it lacks. */
void run_note(struct run *run, const struct result *result);

/* Adds the result to the report, unless a signal came before anything was scored; `shown`: the page
 * shows its tokens. */
bool run_report(struct run *run, const struct result *result, bool shown);

/* With --json, an object stands in the place of the result that a file does not have. */
bool run_show_failure(const struct run *run, const char *path);

/* Scores n files, one after the other.  One that fails is told and left out, as `before` were
 * already.  Puts the outputs in place and prints the results.  `total` receives that of all; the
 * status. */
int run_files(struct run *run, int n, int before, struct result *total);

/* Puts all outputs in place together, or none if any failed; `name`: the report's model. `learned`:
 * the model has learned from something. */
bool run_end_outputs(struct run *run, const char *name, bool learned);

void run_close(struct run *run);

#endif
