/* Checks which options of a command line go together. */
#include "combinations.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool option_is_given(const struct option_row *row, const void *values) {
    const void *place = (const char *)values + row->offset;
    switch (row->kind) {
    case OPTION_FLAG:
        return *(const bool *)place;
    case OPTION_STRING:
        return *(const char *const *)place;
    case OPTION_LIST:
        return ((const struct string_list *)place)->n > 0;
    case OPTION_INTEGER:
        return *(const int64_t *)place != INTEGER_UNSET;
    case OPTION_REAL:
        return !isnan(*(const double *)place);
    case OPTION_CHOICE:
        break;
    }
    return *(const int *)place != CHOICE_UNSET;
}

bool options_any_given(const struct command *command, const void *values, const char *const *names,
                       bool listed) {
    for (const struct option_row *row = command->options; row->name; row++) {
        bool found = false;
        for (size_t i = 0; names[i]; i++)
            found = found || strcmp(names[i], row->name) == 0;
        if (found == listed && option_is_given(row, values))
            return true;
    }
    return false;
}

/* An entry of a row's lists. */
struct named_option {
    const char *name, *choice; /* [length], [n_choice] */
    size_t length, n_choice;   /* n_choice 0: any */
};

/* Takes the next entry; false at the end. */
static bool next_named(const char **list, struct named_option *named) {
    const char *at = *list + strspn(*list, " ");
    const size_t n = strcspn(at, " ");
    const char *equals = memchr(at, '=', n);
    *named = (struct named_option){.name = at, .length = equals ? (size_t)(equals - at) : n};
    if (equals) {
        named->choice = equals + 1;
        named->n_choice = n - named->length - 1;
    }
    *list = at + n;
    return n > 0;
}

static bool is_called(const struct named_option *named, const char *name) {
    return strlen(name) == named->length && memcmp(name, named->name, named->length) == 0;
}

static const struct option_row *row_of(const struct option_row *rows,
                                       const struct named_option *named) {
    return options_row(rows, named->name, named->length);
}

/* FILE and FILES stand for operands. */
static bool is_operand(const struct named_option *named) {
    return is_called(named, "FILE") || is_called(named, "FILES");
}

/* "--arithmetic exact", as messages and help name it. */
struct shown_option {
    char text[64];
};

static struct shown_option show(const struct named_option *named) {
    struct shown_option shown;
    snprintf(shown.text, sizeof shown.text, "%s%.*s%s%.*s", is_operand(named) ? "" : "--",
             (int)named->length, named->name, named->n_choice > 0 ? " " : "", (int)named->n_choice,
             named->choice ? named->choice : "");
    return shown;
}

/* Whether the command line set it to something else than what it is without. */
static bool is_set(const struct command *command, const struct option_row *row,
                   const void *values) {
    static const size_t sizes[] = {[OPTION_FLAG] = sizeof(bool),
                                   [OPTION_STRING] = sizeof(const char *),
                                   [OPTION_INTEGER] = sizeof(int64_t),
                                   [OPTION_REAL] = sizeof(double),
                                   [OPTION_CHOICE] = sizeof(int)};
    const char *place = (const char *)values + row->offset;
    if (row->kind == OPTION_LIST || row->kind == OPTION_STRING || !command->defaults)
        return option_is_given(row, values);
    return memcmp(place, (const char *)command->defaults + row->offset, sizes[row->kind]) != 0;
}

static bool is_named_set(const struct command *command, const struct named_option *named,
                         const void *values, int n_operand) {
    const struct option_row *row = row_of(command->options, named);
    if (!row)
        return (is_called(named, "FILE") && n_operand > 0) ||
               (is_called(named, "FILES") && n_operand > 1);
    if (!is_set(command, row, values))
        return false;
    if (named->n_choice == 0)
        return true;
    const int *place = (const void *)((const char *)values + row->offset);
    const char *choice = options_choice(row, (size_t)*place);
    return strlen(choice) == named->n_choice && memcmp(choice, named->choice, named->n_choice) == 0;
}

/* Whether the list has the option. */
static bool lists(const char *list, const char *name) {
    struct named_option named;
    while (next_named(&list, &named))
        if (is_called(&named, name))
            return true;
    return false;
}

static int refuse(const struct command *command, const struct option_row *row,
                  const struct named_option *other) {
    if (row->reason)
        return options_wrong(command, "%s", row->reason);
    if (is_called(other, "FILES"))
        return options_wrong(command, "--%s takes one FILE", row->name);
    return options_wrong(command, "--%s cannot be combined with %s", row->name, show(other).text);
}

/* The names of `needs`, with "or" between. */
static int miss(const struct command *command, const struct option_row *row) {
    char names[256] = "";
    size_t length = 0;
    struct named_option named;
    for (const char *list = row->needs; next_named(&list, &named) && length < sizeof names;)
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s",
                                   length > 0 ? " or " : "", show(&named).text);
    return options_wrong(command, "--%s needs %s", row->name, names);
}

/* Checks what a given option excludes and needs. */
static int check_row(const struct command *command, const struct option_row *row,
                     const void *values, int n_operand) {
    static const char *const common[] = {COMMON_NAMES};
    struct named_option named;
    for (const char *list = row->excludes ? row->excludes : ""; next_named(&list, &named);)
        if (is_named_set(command, &named, values, n_operand))
            return refuse(command, row, &named);
    for (const struct option_row *o = command->options; row->only && o->name; o++) {
        bool fine = o == row || lists(row->only, o->name) || !is_set(command, o, values);
        for (size_t i = 0; i < sizeof common / sizeof *common && !fine; i++)
            fine = strcmp(common[i], o->name) == 0;
        if (!fine)
            return refuse(command, row,
                          &(struct named_option){.name = o->name, .length = strlen(o->name)});
    }
    bool found = !row->needs;
    for (const char *list = row->needs; !found && next_named(&list, &named);)
        found = is_named_set(command, &named, values, n_operand);
    return found ? OPTIONS_RUN : miss(command, row);
}

int combinations_check(const struct command *command, const void *values, int n_operand) {
    int status = OPTIONS_RUN;
    for (const struct option_row *row = command->options; row->name && status == OPTIONS_RUN; row++)
        if (is_set(command, row, values))
            status = check_row(command, row, values, n_operand);
    return status;
}

/* Adds the entries of a list after what is said of them, those that the command has. */
static void print_list(const struct command *command, const struct option_row *row,
                       const char *list, const char *what, FILE *out) {
    struct named_option named;
    for (bool begun = false; list && next_named(&list, &named);) {
        if (!is_operand(&named) && !row_of(command->options, &named))
            continue;
        if (!begun)
            fprintf(out, "%s--%s %s ", ftello(out) > 0 ? "; " : "", row->name, what);
        fprintf(out, "%s%s", begun ? ", " : "", show(&named).text);
        begun = true;
    }
}

char *combinations_text(const struct command *command) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    for (const struct option_row *row = command->options; row->name; row++) {
        print_list(command, row, row->excludes, "not with", out);
        print_list(command, row, row->only, "only with", out);
    }
    const bool good = fclose(out) == 0; /* without memory `text` is NULL */
    if (!good)
        free(text);
    return good ? text : NULL;
}
