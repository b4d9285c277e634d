/* How a token is drawn: from the options to the library's terms, and back to what is printed. */
#include "sampling.h"
#include "cli/io/terminal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

static bool penalises(const struct sampling_options *options) {
    return options->repetition_penalty != 0 && options->repetition_penalty != 1;
}

static int64_t repeat_last(const struct sampling_options *options) {
    return options->repeat_last != INTEGER_UNSET ? options->repeat_last : TXL_REPEAT_LAST;
}

const char *sampling_wrong(const struct sampling_options *options) {
    bool alone = options->repeat_last != INTEGER_UNSET && options->repetition_penalty == 0;
    return alone ? "--repeat-last needs --repetition-penalty" : NULL;
}

int sampling_check(const struct command *command, const struct sampling_options *options) {
    const char *wrong = sampling_wrong(options);
    return wrong ? options_wrong(command, "%s", wrong) : OPTIONS_RUN;
}

/* The number before it became a float. */
static double as_written(float x) {
    char text[32];
    snprintf(text, sizeof text, "%g", (double)x);
    return strtod(text, NULL);
}

void sampling_choose(struct sampling_options *options, const txl_model *model) {
    txl_sampling usual;
    txl_sampling_defaults(model, &usual);
    if (options->top_k == INTEGER_UNSET)
        options->top_k = usual.top_k;
    if (isnan(options->min_p))
        options->min_p = as_written(usual.min_p);
}

bool sampling_seed(int64_t given, uint64_t *seed) {
    uint64_t random = (uint64_t)given;
    if (given == INTEGER_UNSET && getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return terminal_error("cannot draw a seed: %s", strerror(errno));
    *seed = random & MOST_INTEGER;
    return true;
}

txl_sampling sampling_terms(const struct sampling_options *options) {
    return (txl_sampling){.temperature = (float)options->temperature,
                          .top_k = (int)options->top_k,
                          .top_p = (float)options->top_p,
                          .min_p = (float)options->min_p,
                          .typical = (float)options->typical,
                          .repetition_penalty = (float)options->repetition_penalty,
                          .repeat_last = (size_t)repeat_last(options)};
}

txl_status sampling_history(const struct sampling_options *options, txl_history **history,
                            txl_error *error) {
    size_t window = PLAIN_WINDOW;
    if (options->no_repeat_ngram > 0)
        window = HISTORY_WINDOW;
    else if (repeat_last(options) > PLAIN_WINDOW)
        window = (size_t)repeat_last(options);
    return txl_history_new(window, (size_t)options->no_repeat_ngram, history, error);
}

/* What results state: a whole number or a real one. */
struct stated {
    const char *key;
    bool given; /* else it changes nothing, and is not stated */
    bool whole;
    double value;
};

/* All of them: a list that is as long as it is. */
#define STATED(o)                                                                                  \
    {                                                                                              \
        {"temperature", true, false, (o)->temperature}, {"top_k", true, true, (double)(o)->top_k}, \
            {"top_p", true, false, (o)->top_p}, {"min_p", (o)->min_p > 0, false, (o)->min_p},      \
            {"typical", (o)->typical < 1, false, (o)->typical},                                    \
            {"repetition_penalty", penalises(o), false, (o)->repetition_penalty},                  \
            {"repeat_last", penalises(o), true, (double)repeat_last(o)},                           \
            {"no_repeat_ngram", (o)->no_repeat_ngram > 0, true, (double)(o)->no_repeat_ngram},     \
    }

bool sampling_to_json(json_t *object, const struct sampling_options *o) {
    const struct stated stated[] = STATED(o);
    int bad = 0;
    for (size_t i = 0; i < sizeof stated / sizeof *stated; i++)
        if (stated[i].given)
            bad |= json_object_set_new(object, stated[i].key,
                                       stated[i].whole ? json_integer((json_int_t)stated[i].value)
                                                       : json_real(stated[i].value));
    return bad == 0;
}

void sampling_to_text(char *text, size_t size, const struct sampling_options *o) {
    const struct stated stated[] = STATED(o);
    struct fixed_line line = fixed_line(text, size);
    for (size_t i = 0; i < sizeof stated / sizeof *stated; i++)
        if (stated[i].given)
            fixed_line_add(&line, stated[i].whole ? "%s%s=%.0f" : "%s%s=%g", i > 0 ? " " : "",
                           stated[i].key, stated[i].value);
}
