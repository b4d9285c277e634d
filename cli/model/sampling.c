/* How a token is drawn: from the options to the library's terms, and back to what is printed. */
#include "sampling.h"
#include "cli/system/terminal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
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

bool sampling_history(const struct sampling_options *options, txl_history **history) {
    txl_error error;
    size_t window = PLAIN_WINDOW;
    if (options->no_repeat_ngram > 0)
        window = HISTORY_WINDOW;
    else if (repeat_last(options) > PLAIN_WINDOW)
        window = (size_t)repeat_last(options);
    return terminal_report(
        txl_history_new(window, (size_t)options->no_repeat_ngram, history, &error), &error);
}

bool sampling_to_json(json_t *object, const struct sampling_options *o) {
    int bad = json_object_set_new(object, "temperature", json_real(o->temperature));
    bad |= json_object_set_new(object, "top_k", json_integer(o->top_k));
    bad |= json_object_set_new(object, "top_p", json_real(o->top_p));
    if (o->min_p > 0)
        bad |= json_object_set_new(object, "min_p", json_real(o->min_p));
    if (o->typical < 1)
        bad |= json_object_set_new(object, "typical", json_real(o->typical));
    if (penalises(o)) {
        json_t *penalty = json_real(o->repetition_penalty);
        bad |= json_object_set_new(object, "repetition_penalty", penalty);
        bad |= json_object_set_new(object, "repeat_last", json_integer(repeat_last(o)));
    }
    if (o->no_repeat_ngram > 0)
        bad |= json_object_set_new(object, "no_repeat_ngram", json_integer(o->no_repeat_ngram));
    return bad == 0;
}

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size,
                                                         const char *format, ...) {
    size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, size - length, format, arguments);
    va_end(arguments);
}

void sampling_to_text(char *text, size_t size, const struct sampling_options *o) {
    snprintf(text, size, "temperature=%g top_k=%" PRId64 " top_p=%g", o->temperature, o->top_k,
             o->top_p);
    if (o->min_p > 0)
        append(text, size, " min_p=%g", o->min_p);
    if (o->typical < 1)
        append(text, size, " typical=%g", o->typical);
    if (penalises(o)) {
        append(text, size, " repetition_penalty=%g repeat_last=%" PRId64, o->repetition_penalty,
               repeat_last(o));
    }
    if (o->no_repeat_ngram > 0)
        append(text, size, " no_repeat_ngram=%" PRId64, o->no_repeat_ngram);
}
