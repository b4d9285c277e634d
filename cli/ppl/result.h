/* The result of txl ppl for a text, and the forms in which it is printed. */
#ifndef TXL_PPL_RESULT_H
#define TXL_PPL_RESULT_H

#include "cli/model/settings.h"
#include "lib/base/memory.h"
#include "score.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* The relative effective context length of models (Dai et al. 2019, appendix C): how long a context
 * still helps, among the tokens that are hard for the best of the models, so that better and worse
 * ones can be compared.
 *
 * With l_i(c, t) the nats of token t by model i with a context of c tokens:
 *
 *     b(c, t)     = min over i of l_i(c, t)
 *     f_i(c, c')  = mean of min(b(c, t), l_i(c', t)) over the share r of tokens with the
 *                   largest b(c, t)
 *     gain        = 1 - exp(f_i(c, c') - f_i(c, c)), c' the next length
 *
 * The length is the largest c whose gain is at least 1 %. */

/* The shares r: 0.1, 0.5, 1. */
enum { RECL_SHARES = 3 };

struct recl {
    size_t n_model, n_length;
    const int *length;  /* [n_length], ascending */
    const char **model; /* [n_model] */
    struct buffer nats; /* float [n_model, n_length, n] */
    double *gain;       /* [n_model, n_length - 1, RECL_SHARES]: to the next length */
};

/* Computes the gains from the nats of n >= 1 tokens.  False when memory is short; end with
 * recl_free. */
bool recl_compute(struct recl *recl, size_t n);
void recl_free(struct recl *recl);

/* The length of a model with share number `r`; -1: already the first gains too little. */
int recl_length(const struct recl *recl, size_t model, size_t r);

/* The table on standard output; a list with an object for each model, NULL when memory is short. */
bool recl_print(const struct recl *recl);
json_t *recl_to_json(const struct recl *recl);

struct items_result;

/* The result of one file, or of all files. */
struct result {
    const char *file; /* NULL: the total */
    struct score score;
    struct divergence divergence; /* --compare */
    uint64_t tokens, unknown, invalid;
    double word_correction; /* what the terms of tables.h add to the sum of words or regions */
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
    const char *corrected; /* whose nats --space-with previous adds terms to; NULL: none */
    bool no_eos;           /* line ends do not count */
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

/* --sweep-memory: scores the same text with one memory length after another, as the paper's
 * ablation does.  The lengths score the same tokens, whose nats vary far more than what a length
 * changes.  So the table has the standard error of the difference from the first length, token by
 * token. */

struct sweep {
    int *mem_len;
    int n;
    FILE *nats;              /* float, of each token with the first length */
    bool first;              /* the current length is the first */
    struct score difference; /* of the current length's nats from the first's, token by token */
    bool keeps;              /* --recl: the nats of all lengths are kept in recl.nats */
    struct recl recl;
};

/* Parses a list such as "0,64,128".  False if it is no list of lengths, or memory is short; end
 * with sweep_free. */
bool sweep_parse(struct sweep *sweep, const char *list);
void sweep_free(struct sweep *sweep);

/* The index of the longest length; of several the first. */
int sweep_longest(const struct sweep *sweep);

/* Begins the text with the next length, the `first` one or another.  False with the error
 * printed. */
bool sweep_start(struct sweep *sweep, bool first);

/* An observer; `sweep` is its context. */
txl_status sweep_token(void *sweep, const struct scored *token, txl_error *error);

/* Adds the difference to the object of a result; false when memory is short. */
bool sweep_to_json(json_t *object, const struct sweep *sweep);

/* The table on standard output, a row at a time. */
bool sweep_print_header(const struct setup *setup, const struct result *result);
bool sweep_print_row(const struct setup *setup, const struct result *result, int mem_len,
                     const struct sweep *sweep);

/* ---- Shards ------------------------------------------------------------------------------- */

/* An evaluation in parts: what a shard (--shard I/N) states in addition to its result, and how
 * --merge computes the whole result from all shards, bit for bit that of --batch N. */

struct shard {
    uint64_t number, of; /* `number` counts from 1; `of` is 0 if there are no shards */
};

/* Parses a shard such as "3/10".  False if it is none. */
bool shard_parse(struct shard *shard, const char *text);

/* Adds everything that a merge needs to the result's object. */
bool shard_to_json(json_t *object, const struct shard *shard, const struct result *result,
                   const struct setup *setup, const struct model *model);

/* The result of a merge; end with merged_free. */
struct merged {
    struct setup setup;
    struct result result;
    json_t *first; /* the object of shard 1, whose strings the others point to */
};

/* Reads the shards' files, in any order.  False after a signal, or with the error printed: it names
 * the missing shard, or the file that is no shard, belongs to another evaluation, was interrupted,
 * or repeats a shard. */
bool merge_files(struct merged *merged, char **paths, int n);
void merged_free(struct merged *merged);

#endif
