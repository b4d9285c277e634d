/* Reads an object by the rows of generate's options. */
#include "prompt_line.h"

#include "cli/io/output.h"
#include "cli/options/options.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The options that a line may have, as its members are called. */
static const char *const names[] = {"n",           "end",
                                    "stop",        "eos",
                                    "seed",        "temperature",
                                    "top_k",       "top_p",
                                    "min_p",       "typical",
                                    "greedy",      "repetition_penalty",
                                    "repeat_last", "no_repeat_ngram",
                                    "allow_unk"};

enum { N_NAMES = sizeof names / sizeof *names };

static const char prompt_name[] = "prompt";

struct reader {
    const struct command *command;
    struct prompt_line *line;
    struct prompt_line_problem *problem;
    bool given[N_NAMES];
};

__attribute__((format(printf, 2, 3))) static bool fail_line(struct reader *r, const char *format,
                                                            ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->problem->text, sizeof r->problem->text, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- Names -------------------------------------------------------------------------------- */

/* An option's name with - for _. */
struct name {
    char text[32];
};

static struct name dashed(const char *member) {
    struct name name;
    snprintf(name.text, sizeof name.text, "%s", member);
    for (char *c = name.text; *c != '\0'; c++)
        *c = *c == '_' ? '-' : *c;
    return name;
}

/* The row of a long name or, if that is a single letter, of the option's letter. */
static const struct option_row *find_row(const struct command *command, const char *member) {
    const struct name name = dashed(member);
    for (const struct option_row *row = command->options; row->name; row++)
        if (strcmp(row->name, name.text) == 0 ||
            (member[0] != '\0' && row->letter == member[0] && member[1] == '\0'))
            return row;
    return NULL;
}

/* The option of the member, or N_NAMES. */
static size_t find_name(const struct reader *r, const struct option_row *row) {
    size_t i = 0;
    while (i < N_NAMES && find_row(r->command, names[i]) != row)
        i++;
    return i;
}

static bool refuse_name(struct reader *r, const char *member, const struct option_row *row) {
    struct nearest nearest = nearest_to(member);
    if (row)
        return fail_line(r, "'%.100s' cannot be set for a single prompt", member);
    nearest_try(&nearest, prompt_name);
    for (size_t i = 0; i < N_NAMES; i++)
        nearest_try(&nearest, names[i]);
    const char *meant = nearest_name(&nearest);
    return fail_line(r, "unknown member '%.100s'%s%s%s", member, meant ? "; did you mean '" : "",
                     meant ? meant : "", meant ? "'?" : "");
}

/* ---- Values ------------------------------------------------------------------------------- */

/* The string; NULL, with what is wrong, if the value is none or has a NUL. */
static const char *string_of(struct reader *r, const char *member, const json_t *value) {
    const char *text = json_string_value(value);
    if (!text)
        fail_line(r, "%s is no string", member);
    else if (strlen(text) != json_string_length(value))
        fail_line(r, "%s has a NUL", member);
    else
        return text;
    return NULL;
}

static bool add_stop(struct reader *r, const struct option_row *row, const json_t *value) {
    struct option_problem problem;
    const char *text = string_of(r, "stop", value);
    if (!text)
        return false;
    return options_set_value(row, text, &r->line->options, &problem) ||
           fail_line(r, "out of memory");
}

/* A string or a list of them, instead of the command line's. */
static bool set_stop(struct reader *r, const struct option_row *row, const json_t *value) {
    struct prompt_line *line = r->line;
    size_t n = json_array_size(value);
    bool good = true;
    line->options.stop = (struct string_list){0};
    if (!json_is_array(value))
        good = add_stop(r, row, value);
    for (size_t i = 0; i < n && good; i++)
        good = add_stop(r, row, json_array_get(value, i));
    line->stop = line->options.stop;
    return good;
}

/* Sets an option by the text that the command line would have for the number. */
static bool set_number(struct reader *r, const char *member, const struct option_row *row,
                       const json_t *value) {
    struct option_problem problem;
    if (json_is_string(value))
        return fail_line(r, "%s is a string, not a number", member);
    char *text = output_json_value(value);
    if (!text)
        return fail_line(r, "out of memory");
    bool good = options_set_value(row, text, &r->line->options, &problem) ||
                fail_line(r, "%s %s", member, problem.text);
    free(text);
    return good;
}

static bool set_value(struct reader *r, const char *member, const struct option_row *row,
                      const json_t *value) {
    struct option_problem problem;
    bool *flag = (bool *)((char *)&r->line->options + row->offset);
    if (row->kind == OPTION_LIST)
        return set_stop(r, row, value);
    if (row->kind == OPTION_FLAG && !json_is_boolean(value))
        return fail_line(r, "%s is neither true nor false", member);
    if (row->kind == OPTION_FLAG) {
        *flag = json_is_true(value);
        return true;
    }
    if (row->kind == OPTION_INTEGER || row->kind == OPTION_REAL)
        return set_number(r, member, row, value);
    const char *text = string_of(r, member, value);
    if (!text || options_set_value(row, text, &r->line->options, &problem))
        return text;
    return fail_line(r, "%s %s", member, problem.text);
}

static bool read_member(struct reader *r, const char *member, const json_t *value) {
    if (strcmp(member, prompt_name) == 0) {
        r->line->options.prompt_text = string_of(r, prompt_name, value);
        return r->line->options.prompt_text;
    }
    const struct option_row *row = find_row(r->command, member);
    size_t i = find_name(r, row);
    if (!row || i == N_NAMES)
        return refuse_name(r, member, row);
    if (r->given[i])
        return fail_line(r, "%s is given twice", names[i]);
    r->given[i] = true;
    return set_value(r, member, row, value);
}

/* ---- The line ----------------------------------------------------------------------------- */

static bool is_given(const struct reader *r, const char *name) {
    for (size_t i = 0; i < N_NAMES; i++)
        if (strcmp(names[i], name) == 0)
            return r->given[i];
    return false;
}

/* What the rows cannot say. */
static bool check_line(struct reader *r) {
    struct generate_options *o = &r->line->options;
    if (!o->prompt_text)
        return fail_line(r, "there is no prompt");
    if (o->n == 0)
        return fail_line(r, "n 0: a text of --prompts must end");
    if (is_given(r, "temperature") && !is_given(r, "greedy"))
        o->sampling.greedy = false;
    if (o->sampling.greedy)
        o->sampling.temperature = 0;
    const char *wrong = generation_wrong(o);
    return !wrong || fail_line(r, "%s", wrong);
}

bool prompt_line_read(struct prompt_line *line, json_t *object, const struct command *command,
                      const struct generate_options *options, struct prompt_line_problem *problem) {
    struct reader reader = {.command = command, .line = line, .problem = problem};
    const char *member;
    json_t *value;
    *line = (struct prompt_line){.object = object, .options = *options};
    json_object_foreach(object, member, value) {
        if (!read_member(&reader, member, value))
            return false;
    }
    return check_line(&reader);
}

void prompt_line_free(struct prompt_line *line) {
    free(line->stop.items);
    json_decref(line->object);
    *line = (struct prompt_line){.object = NULL};
}
