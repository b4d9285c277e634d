/* The result for a text, and the forms in which it is printed. */
#ifndef TXL_PPL_RESULT_H
#define TXL_PPL_RESULT_H

#include "cli/model/settings.h"
#include "comparison.h"
#include "lib/base/memory.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct items_result;

/* The result of one file, or of all files. */
struct result {
    const char *file; /* NULL: the total */
    struct score score;
    struct divergence divergence; /* --compare */
    uint64_t tokens, unknown, invalid;
    double drift; /* --dynamic: how far the weights have moved; without meaning for a total */
    double seconds;
    const struct items_result *items; /* NULL: it is of no table of items */
};

/* A model and the settings that its results depend on. */
struct evaluated {
    const char *name;
    json_t *settings; /* as JSON shows them */
    char *summary;    /* as the summary line does */
};

/* What all results of one run share. */
struct setup {
    bool words;            /* the symbols are words or pieces of them */
    bool pieces;           /* they are pieces */
    bool in_table;         /* results are rows of a table, which has no other lines */
    bool several;          /* texts are scored, whose total states the settings */
    bool both_sides;       /* tokens are scored from both sides */
    bool ids;              /* the input was ids, so nothing can be unknown */
    bool replaces_unknown; /* else they are left out */
    const char *mode;      /* segments, lines, items, sliding, both-sides */
    const char *text;      /* raw, tokens, ids, - */
    const struct dynamic_settings *dynamic; /* NULL: the model did not learn */
    const char *published; /* --preset: what the paper has on its test set; NULL: none */
    struct evaluated model;
    struct evaluated other; /* --compare; name NULL: there is none */
};

/* Fills in a model and the settings that it runs with.  False with the error printed; end with
 * evaluated_free. */
bool evaluated_set(struct evaluated *evaluated, const struct model *model,
                   const txl_settings *settings, const struct run_settings *run);
void evaluated_free(struct evaluated *evaluated);

void result_add(struct result *total, const struct result *result);

/* The name for people. */
const char *result_name(const struct result *result);

double result_nats_per_token(const struct result *result);

/* The number that --fail-above compares.  Characters: bits per character.  Words: perplexity, as
 * papers report it.  Pieces: bits per character, because their perplexity depends on their lengths
 * too; or perplexity if the number of scored characters is not known. */
struct headline {
    bool is_perplexity;
    double value, error; /* with its standard error, which may be NAN */
};
struct headline result_headline(const struct setup *setup, const struct result *result);
const char *headline_name(const struct headline *headline);

double result_tokens_per_second(const struct result *result);

/* The object of --json; NULL when memory is short. */
json_t *result_to_json(const struct setup *setup, const struct result *result);

/* Lines for people on standard output. */
bool result_print_text(const struct setup *setup, const struct result *result);

/* Notes how many symbols the vocabulary lacked, if any. */
void result_note_unknown(const struct setup *setup, const struct result *result);

/* Prints the summary line on standard error, after one for the other model of --compare. */
void result_print_summary(const struct setup *setup, int n_files, const struct result *total);

/* STATUS_FAILURE, with the error printed, when the result is above `limit`; NAN: there is none. */
int result_check_limit(const struct setup *setup, const struct result *result, double limit);

#endif
