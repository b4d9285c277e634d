/* The command line: the input is a byte that chooses the command, then its arguments, each ended by
 * a NUL.  What the parser accepts must be within the bounds of the command's table. */
#include "fuzz.h"

#include "cli/commands.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGUMENT = 64 };

static size_t size_of_kind(enum option_kind kind) {
    switch (kind) {
    case OPTION_FLAG:
        return sizeof(bool);
    case OPTION_STRING:
        return sizeof(const char *);
    case OPTION_LIST:
        return sizeof(struct string_list);
    case OPTION_INTEGER:
        return sizeof(int64_t);
    case OPTION_REAL:
        return sizeof(double);
    case OPTION_CHOICE:
        return sizeof(int);
    }
    return 0;
}

/* The bytes of a command's own structure up to its last option. */
static size_t size_of_values(const struct command *command) {
    size_t size = sizeof(struct common_options);
    for (const struct option_row *row = command->options; row->name; row++) {
        size_t end = row->offset + size_of_kind(row->kind);
        size = end > size ? end : size;
    }
    return size;
}

static int n_choice(const struct option_row *row) {
    size_t n = 0;
    while (options_choice(row, n))
        n++;
    return (int)n;
}

/* Zero is what an option holds that was not given. */
static void check_value(const struct option_row *row, const void *value) {
    int64_t integer = row->kind == OPTION_INTEGER ? *(const int64_t *)value : 0;
    double real = row->kind == OPTION_REAL ? *(const double *)value : (double)integer;
    fuzz_require(real == 0 || (real >= row->least && real <= row->most), row->name);
    if (row->kind == OPTION_CHOICE)
        fuzz_require(*(const int *)value >= 0 && *(const int *)value < n_choice(row), row->name);
}

static void parse(const struct command *command, int argc, char **argv) {
    char *values = calloc(1, size_of_values(command));
    struct operands operands;
    fuzz_require(values, "out of memory");
    optind = 0; /* getopt starts anew */
    bool run = options_parse(command, argc, argv, values, &operands) == OPTIONS_RUN;
    for (const struct option_row *row = command->options; row->name; row++) {
        if (run)
            check_value(row, values + row->offset);
        if (row->kind == OPTION_LIST)
            free(((struct string_list *)(values + row->offset))->items);
    }
    fuzz_require(!run || operands.n == 0 || operands.items[operands.n - 1],
                 "an operand is missing");
    free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char name[] = "txl", *argv[MAX_ARGUMENT + 1] = {name};
    int argc = 1;
    if (size < 1)
        return 0;
    fuzz_silence();
    char *text = malloc(size); /* an argument is its caller's, who may write to it */
    fuzz_require(text, "out of memory");
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    for (char *at = text; at < text + size && argc < MAX_ARGUMENT; at += strlen(at) + 1)
        argv[argc++] = at;
    size_t n_command = 0;
    while (commands[n_command])
        n_command++;
    parse(commands[data[0] % n_command], argc, argv);
    free(text);
    return 0;
}
