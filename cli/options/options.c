/* Parses a command line by its table, and prints the table as help. */
#include "options.h"
#include "cli/io/input.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "combinations.h"
#include "lib/base/memory.h"
#include "topics.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Numbers: their form is checked before the C library reads them ------------------------ */

static const char digits[] = "0123456789";

static bool is_whole(const char *text) {
    text += *text == '-';
    return *text != '\0' && text[strspn(text, digits)] == '\0';
}

bool number_integer(const char *text, int64_t *value) {
    if (!is_whole(text))
        return false;
    errno = 0;
    long long number = strtoll(text, NULL, 10);
    if (errno != 0 || (number == 0 && *text == '-'))
        return false;
    *value = number;
    return true;
}

/* "-12.5e-3": either part of the mantissa may be empty, not both. */
static bool is_decimal(const char *text) {
    text += *text == '-';
    size_t before = strspn(text, digits), after = 0;
    text += before;
    if (*text == '.') {
        after = strspn(++text, digits);
        text += after;
    }
    if (before + after == 0)
        return false;
    if (*text != 'e' && *text != 'E')
        return *text == '\0';
    text++;
    text += *text == '-' || *text == '+';
    return *text != '\0' && text[strspn(text, digits)] == '\0';
}

bool number_real(const char *text, double *value) {
    if (!is_decimal(text))
        return false;
    errno = 0;
    double number = strtod(text, NULL);
    if (errno != 0 || (number == 0 && *text == '-'))
        return false;
    *value = number;
    return true;
}

int *number_list(const char *text, size_t *n) {
    int *list = calloc(strlen(text) / 2 + 1, sizeof *list);
    bool good = list;
    for (*n = 0; good; text++) {
        size_t length = strspn(text, digits);
        char *end;
        errno = 0;
        long value = strtol(text, &end, 10);
        good = length > 0 && errno == 0 && value <= INT32_MAX && (*end == ',' || *end == '\0');
        if (!good)
            break;
        list[(*n)++] = (int)value;
        text = end;
        if (*text == '\0')
            return list;
    }
    free(list);
    return NULL;
}

/* ---- The distance between names: letters missing, added, wrong or exchanged ---------------- */

/* Longer names are not compared. */
enum { MOST = 32 };

struct nearest nearest_to(const char *typed) {
    return (struct nearest){.typed = typed, .distance = SIZE_MAX};
}

/* Optimal string alignment: the four mistakes of Damerau (1964), with no substring edited twice. */
static size_t distance(const char *a, size_t n, const char *b, size_t m) {
    size_t row[3][MOST + 1], *before = row[0], *above = row[1], *at = row[2];
    for (size_t j = 0; j <= m; j++)
        above[j] = j;
    for (size_t i = 1; i <= n; i++) {
        at[0] = i;
        for (size_t j = 1; j <= m; j++) {
            at[j] =
                smaller(above[j - 1] + (a[i - 1] != b[j - 1]), 1 + smaller(above[j], at[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                at[j] = smaller(at[j], before[j - 2] + 1);
        }
        size_t *next = before;
        before = above;
        above = at;
        at = next;
    }
    return above[m];
}

/* Prefers names with the same beginning: the word may only be cut short. */
void nearest_try(struct nearest *nearest, const char *name) {
    size_t n = strlen(nearest->typed), m = strlen(name), d;
    if (n == 0 || n > MOST || m > MOST)
        return;
    if (n >= 2 && strncmp(nearest->typed, name, n) == 0)
        d = 1;
    else
        d = distance(nearest->typed, n, name, m);
    if (d < nearest->distance) {
        nearest->distance = d;
        nearest->name = name;
    }
}

const char *nearest_name(const struct nearest *nearest) {
    size_t length = strlen(nearest->typed), most = length < 3 ? 1 : (length + 2) / 3;
    return nearest->name && nearest->distance <= most ? nearest->name : NULL;
}

/* ---- Names of files in a file -------------------------------------------------------------- */

static bool read_all(const char *path, struct buffer *text) {
    struct input input;
    if (!input_open(&input, path))
        return false;
    bool good = input_read_all(&input, text, SIZE_MAX);
    input_close(&input);
    return good;
}

/* Whether every line ends in CR LF, as editors for Windows write them. */
static bool ends_in_cr(const struct buffer *text) {
    size_t n = 0, n_cr = 0;
    for (size_t i = 0; i < text->length; i++) {
        n += text->data[i] == '\n';
        n_cr += i > 0 && text->data[i] == '\n' && text->data[i - 1] == '\r';
    }
    return n > 0 && n == n_cr;
}

/* Makes the names strings in place and returns their number; `cr`: a CR before each line's end is
 * no part of the name; `items` NULL: only counts them. */
static size_t split_names(struct buffer *text, char end, bool cr, char **items) {
    size_t n = 0;
    for (size_t i = 0; i < text->length;) {
        char *name = text->data + i, *stop = memchr(name, end, text->length - i);
        size_t length = stop ? (size_t)(stop - name) : text->length - 1 - i;
        i += length + 1;
        length -= cr && stop ? 1 : 0;
        if (length > 0 && items) {
            name[length] = '\0';
            items[n] = name;
        }
        n += length > 0;
    }
    return n;
}

/* --files-from: appends the names in the file at `path` ("-": standard input) to the operands: each
 * ended by NUL if the file has a NUL, else each on a line; empty names are skipped.  False with the
 * error printed; end with operands_free either way. */
static bool files_from_read(const char *path, struct operands *operands) {
    struct buffer text = {0};
    bool good = read_all(path, &text);
    char end = good && text.length > 0 && memchr(text.data, '\0', text.length) ? '\0' : '\n';
    bool cr = end == '\n' && ends_in_cr(&text);
    /* Makes room to end the last name. */
    good = good && (buffer_append(&text, "", 1) || terminal_error("out of memory"));
    operands->text = text.data;
    if (!good)
        return false;
    size_t named = (size_t)operands->n, n = split_names(&text, end, cr, NULL);
    if (n == 0 || n > (size_t)INT_MAX - named) {
        return terminal_error("--files-from %s: %s", path,
                              n == 0 ? "names no file" : "too many files");
    }
    operands->list = calloc(named + n, sizeof *operands->list);
    if (!operands->list)
        return terminal_error("out of memory");
    memcpy(operands->list, operands->items, named * sizeof *operands->list);
    split_names(&text, end, cr, operands->list + named);
    operands->items = operands->list;
    operands->n += (int)n;
    return true;
}

/* ---- The command line ------------------------------------------------------------------ */

const char *const answers[] = {"yes", "no", NULL};

enum { MAX_OPTIONS = 64, HELP_WIDTH = 80, HELP_COLUMN = 28 };

/* getopt_long's value for row i is this plus i, beyond every letter. */
enum { ROW_VALUE = 256 };

int options_wrong(const struct command *command, const char *format, ...) {
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    terminal_error("%s (see txl %s --help)", message, command->name);
    return STATUS_USAGE;
}

int options_unknown(const struct command *command, const char *what, const char *mark,
                    const char *name, const char *nearest) {
    const char *topic = command ? command->name : "", *blank = command ? " " : "";
    if (nearest)
        terminal_error("unknown %s '%s%s'; did you mean '%s%s'? (see txl %s%s--help)", what, mark,
                       name, mark, nearest, topic, blank);
    else
        terminal_error("unknown %s '%s%s' (see txl %s%s--help)", what, mark, name, topic, blank);
    return STATUS_USAGE;
}

/* ---- Rows --------------------------------------------------------------------------------- */

const struct option_row *options_row(const struct option_row *rows, const char *name,
                                     size_t length) {
    for (; rows->name; rows++)
        if (strlen(rows->name) == length && memcmp(rows->name, name, length) == 0)
            return rows;
    return NULL;
}

static const struct option_row *find_row(const struct option_row *rows, const char *name) {
    return options_row(rows, name, strlen(name));
}

static const struct option_row *row_of_letter(const struct option_row *rows, int letter) {
    for (; rows->name; rows++)
        if (rows->letter == letter)
            return rows;
    return NULL;
}

static bool set_integer(const struct option_row *row, const char *text, int64_t *value) {
    int64_t number;
    if (!number_integer(text, &number) || (double)number < row->least || (double)number > row->most)
        return false;
    *value = number;
    return true;
}

static bool set_real(const struct option_row *row, const char *text, double *value) {
    double number;
    if (!number_real(text, &number) || number < row->least || number > row->most)
        return false;
    *value = number;
    return true;
}

const char *const options_invalid[] = {"refuse", "replace", NULL};

const char *options_choice(const struct option_row *row, size_t i) {
    return row->choice ? row->choice(i) : row->choices[i];
}

static bool set_choice(const struct option_row *row, const char *text, int *value) {
    const char *choice;
    for (size_t i = 0; (choice = options_choice(row, i)); i++) {
        if (strcmp(choice, text) == 0) {
            *value = (int)i;
            return true;
        }
    }
    return false;
}

static bool list_append(struct string_list *list, const char *text) {
    const char **items = reallocarray(list->items, list->n + 1, sizeof *items);
    if (!items)
        return false;
    items[list->n++] = text;
    list->items = items;
    return true;
}

/* ---- Values ------------------------------------------------------------------------------- */

/* Sets the options to what they are where none is given.  Those of all commands stay zero. */
static void unset_values(const struct option_row *rows, void *values) {
    for (; rows->name; rows++) {
        void *place = (char *)values + rows->offset;
        if (rows->offset < sizeof(struct common_options))
            continue;
        if (rows->kind == OPTION_INTEGER)
            *(int64_t *)place = INTEGER_UNSET;
        else if (rows->kind == OPTION_REAL)
            *(double *)place = REAL_UNSET;
        else if (rows->kind == OPTION_CHOICE)
            *(int *)place = CHOICE_UNSET;
    }
}

static void say_number(const struct option_row *row, const char *text, struct option_problem *p) {
    if (row->kind == OPTION_INTEGER)
        snprintf(p->text, sizeof p->text, "'%.200s' is not a whole number from %.0f to %.0f", text,
                 row->least, row->most);
    else if (isinf(row->most))
        snprintf(p->text, sizeof p->text, "'%.200s' is not a number of at least %.15g", text,
                 row->least);
    else
        snprintf(p->text, sizeof p->text, "'%.200s' is not a number from %.15g to %.15g", text,
                 row->least, row->most);
}

static void say_choice(const struct option_row *row, const char *text, struct option_problem *p) {
    const char *choice;
    struct fixed_line line = fixed_line(p->text, sizeof p->text);
    fixed_line_add(&line, "'%.200s' is not one of ", text);
    for (size_t i = 0; (choice = options_choice(row, i)); i++)
        fixed_line_add(&line, "%s%s", i > 0 ? ", " : "", choice);
}

bool options_set_value(const struct option_row *row, const char *text, void *values,
                       struct option_problem *problem) {
    void *place = (char *)values + row->offset;
    bool good = true;
    *problem = (struct option_problem){.text = ""};
    if (row->file != FILE_NONE && *text == '\0') {
        snprintf(problem->text, sizeof problem->text, "'' is not a file's name");
        return false;
    }
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)place = true;
        break;
    case OPTION_STRING:
        *(const char **)place = text;
        break;
    case OPTION_LIST:
        good = list_append(place, text);
        problem->lacks_memory = !good;
        break;
    case OPTION_INTEGER:
    case OPTION_REAL:
        good = row->kind == OPTION_INTEGER ? set_integer(row, text, place)
                                           : set_real(row, text, place);
        if (!good)
            say_number(row, text, problem);
        break;
    case OPTION_CHOICE:
        good = set_choice(row, text, place);
        if (!good)
            say_choice(row, text, problem);
        break;
    }
    return good;
}

/* ---- Options and operands ----------------------------------------------------------------- */

static int set_value(const struct command *command, const struct option_row *row, const char *text,
                     void *values) {
    struct option_problem problem;
    if (options_set_value(row, text, values, &problem))
        return OPTIONS_RUN;
    if (!problem.lacks_memory)
        return options_wrong(command, "--%s %s", row->name, problem.text);
    terminal_error("out of memory");
    return STATUS_FAILURE;
}

static int check_operands(const struct command *command, const struct operands *operands) {
    int least = 0, most = 0;
    const struct operand_row *row = command->operands;
    for (; row && row->name; row++) {
        if (!row->optional && operands->n <= least++)
            return options_wrong(command, "%s is missing", row->name);
        most = row->repeats ? INT32_MAX : most + 1;
    }
    if (operands->n > most) {
        const char *hint = command->operand_hint;
        return options_wrong(command, "unexpected argument '%s'%s%s", operands->items[most],
                             hint ? "; " : "", hint ? hint : "");
    }
    for (int i = 0; i < operands->n; i++)
        if (*operands->items[i] == '\0')
            return options_wrong(command, "%s '' is empty", command->operands->name);
    return OPTIONS_RUN;
}

/* Whether the option is given that takes the operand's place. */
static bool stands_instead(const struct command *command, const void *values,
                           const struct operand_row *operand) {
    const struct option_row *row =
        operand->instead ? find_row(command->options, operand->instead) : NULL;
    return row && option_is_given(row, values);
}

/* Without an operand, the commands whose table says so read standard input. */
static int take_standard_input(const struct command *command, const void *values,
                               struct operands *operands) {
    static char dash[] = "-", *standard_input[] = {dash};
    const struct operand_row *row = command->operands;
    if (operands->n > 0 || !row || !row->standard_input || stands_instead(command, values, row))
        return OPTIONS_RUN;
    if (!input_is_piped())
        return options_wrong(command, "%s is missing, and standard input is a terminal", row->name);
    operands->items = standard_input;
    operands->n = 1;
    return OPTIONS_RUN;
}

/* The option that other programs call `name`, if the command has it, or NULL. */
static const char *known_elsewhere(const struct command *command, const char *name) {
    static const struct {
        const char *theirs, *ours;
    } names[] = {{"n-predict", "tokens"},
                 {"max-new-tokens", "tokens"},
                 {"max-tokens", "tokens"},
                 {"max-length", "tokens"},
                 {"num-return-sequences", "samples"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (const struct option_row *row = command->options; row->name; row++)
            if (strcmp(names[i].theirs, name) == 0 && strcmp(names[i].ours, row->name) == 0)
                return row->name;
    return NULL;
}

/* Of a command whose results go to standard output: what names a file with -o elsewhere. */
static int no_output_option(const struct command *command, const char *mark, const char *name) {
    return options_wrong(command,
                         "unknown option '%s%s': the result goes to standard output, which >FILE "
                         "keeps%s",
                         mark, name,
                         find_row(command->options, "json") ? ", with --json for programs" : "");
}

/* Reports an unknown long option, whose name =VALUE may follow. */
static int unknown_option(const struct command *command, const char *text) {
    char name[64];
    const char *dashless = text + strspn(text, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(dashless, "="), dashless);
    if ((strcmp(name, "output") == 0 || strcmp(name, "csv") == 0) &&
        !find_row(command->options, "output"))
        return no_output_option(command, "--", name);
    for (const struct moved_option *moved = command->moved; moved && moved->name; moved++)
        if (strcmp(moved->name, name) == 0)
            return options_wrong(command, "--%s is an option of another command: %s", name,
                                 moved->instead);
    struct nearest nearest = nearest_to(name);
    for (const struct option_row *row = command->options; row->name; row++)
        nearest_try(&nearest, row->name);
    const char *meant = known_elsewhere(command, name);
    return options_unknown(command, "option", "--", name, meant ? meant : nearest_name(&nearest));
}

static int wrong_option(const struct command *command, int result, char **argv) {
    const char *text = argv[optind - 1];
    if (result == ':')
        return options_wrong(command, "'%s' needs an argument", text);
    if (optopt >= ROW_VALUE)
        return options_wrong(command, "'%s' takes no argument", text);
    if (optopt == 'o' && !find_row(command->options, "output"))
        return no_output_option(command, "-", "o");
    if (optopt != 0)
        return options_wrong(command, "unknown option '-%c'", optopt);
    return unknown_option(command, text);
}

/* ---- Files -------------------------------------------------------------------------------- */

/* The files that a command line names. */
struct file_list {
    struct named_file *items;
    size_t n;
};

static bool add_file(struct file_list *list, const struct named_file *file) {
    struct named_file *items = reallocarray(list->items, list->n + 1, sizeof *items);
    if (!items)
        return false;
    items[list->n++] = *file;
    list->items = items;
    return true;
}

static bool add_inputs(struct file_list *list, const char *role, bool model,
                       const char *const *paths, size_t n) {
    bool good = true;
    for (size_t i = 0; i < n && good; i++)
        if (!model || strcmp(paths[i], BUILT_IN) != 0)
            good = add_file(list, &(struct named_file){FILE_READ, "", role, paths[i]});
    return good;
}

static bool is_given_path(const struct option_row *rows, const void *values, const char *name) {
    const struct option_row *row = name ? find_row(rows, name) : NULL;
    return row && *(const char *const *)(const void *)((const char *)values + row->offset);
}

/* Adds the files that options name, and the model of $TXL_MODEL if no option names one. */
static bool add_option_files(struct file_list *list, const struct option_row *rows,
                             const void *values) {
    const struct option_row *const first = rows;
    bool good = true;
    for (; rows->name && good; rows++) {
        const void *place = (const char *)values + rows->offset;
        const char *path = NULL;
        if (rows->file == FILE_NONE)
            continue;
        const struct string_list paths =
            rows->kind == OPTION_LIST ? *(const struct string_list *)place
                                      : (struct string_list){.items = (const char **)place, .n = 1};
        bool model = rows->file == FILE_MODEL;
        for (size_t i = 0; i < paths.n && good; i++) {
            path = paths.items[i];
            if (path && rows->file_after && (path = strchr(path, rows->file_after)))
                path++;
            if (path && !(model && strcmp(path, BUILT_IN) == 0))
                good = add_file(
                    list,
                    &(struct named_file){
                        model ? FILE_READ : rows->file, "--", rows->name, path, rows->over,
                        rows->output, rows->columns,
                        rows->kept && (rows->over || !is_given_path(first, values, rows->kept))});
        }
        if (rows->kind == OPTION_LIST)
            continue;
        if (!path && strcmp(rows->name, "model") == 0 && (path = getenv("TXL_MODEL")) &&
            *path != '\0')
            good = add_inputs(list, "TXL_MODEL", true, &path, 1);
    }
    return good;
}

/* Checks and frees the list; `gathered` is false if there was no memory for it. */
static int check_files(struct file_list *list, bool gathered, const bool *force) {
    if (!gathered)
        terminal_error("out of memory");
    int status = gathered ? named_files_check(list->items, list->n, force) : STATUS_FAILURE;
    free(list->items);
    return status;
}

static int check_named_files(const struct command *command, const void *values,
                             const struct operands *operands) {
    struct file_list list = {0};
    const struct operand_row *row = command->operands;
    bool good = add_option_files(&list, command->options, values);
    if (good && row && row->name && !row->choices && !row->commands)
        good = add_inputs(&list, row->name, row->model, (const char *const *)operands->items,
                          (size_t)operands->n);
    const struct option_row *force = find_row(command->options, "force");
    return check_files(&list, good,
                       force ? (const bool *)((const char *)values + force->offset) : NULL);
}

int options_check_output(const struct command *command, const void *values,
                         const struct named_file *output) {
    struct file_list list = {0};
    bool good = add_option_files(&list, command->options, values);
    for (size_t i = 0; i < list.n; i++)
        if (list.items[i].use != FILE_READ)
            list.items[i].use = FILE_NONE;
    return check_files(&list, good && add_file(&list, output), NULL);
}

/* ---- The command line --------------------------------------------------------------------- */

/* Writes the table in the two forms that getopt_long takes. */
static void describe_options(const struct option_row *rows, struct option *longs, char *letters) {
    size_t n = 0, l = 0;
    letters[l++] = ':';
    for (; rows[n].name; n++) {
        assert(n < MAX_OPTIONS);
        bool argument = rows[n].kind != OPTION_FLAG;
        longs[n] = (struct option){.name = rows[n].name,
                                   .has_arg = argument ? required_argument : no_argument,
                                   .val = ROW_VALUE + (int)n};
        if (rows[n].letter != 0) {
            letters[l++] = rows[n].letter;
            if (argument)
                letters[l++] = ':';
        }
    }
    longs[n] = (struct option){0};
    letters[l] = '\0';
}

/* More threads than processors are slower and change no result, so many more are a mistake. */
static void limit_threads(struct common_options *common) {
    enum { ALWAYS = 16 };
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t most = processors > ALWAYS ? processors : ALWAYS;
    if (common->threads <= most)
        return;
    terminal_note("--threads %" PRId64 ": this machine has %ld processor%s; %" PRId64
                  " threads are used",
                  common->threads, processors, processors == 1 ? "" : "s", most);
    common->threads = most;
}

int options_parse(const struct command *command, int argc, char **argv, void *values,
                  struct operands *operands) {
    struct option longs[MAX_OPTIONS + 1];
    char letters[2 * MAX_OPTIONS + 2];
    describe_options(command->options, longs, letters);

    *operands = (struct operands){0};
    opterr = 0;
    int result;
    bool brief = false;
    while ((result = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        if (result == '?' || result == ':')
            return wrong_option(command, result, argv);
        const struct option_row *row = result >= ROW_VALUE
                                           ? &command->options[result - ROW_VALUE]
                                           : row_of_letter(command->options, result);
        brief = brief || result == 'h'; /* --help has the row's number */
        int status = set_value(command, row, optarg, values);
        if (status != OPTIONS_RUN)
            return status;
    }
    const struct common_options *common = values;
    if (common->help) {
        (brief ? options_brief_help : options_help)(command, stdout);
        return output_finish(STATUS_OK);
    }
    terminal_set_quiet(common->quiet);
    terminal_set_summary(common->summary);
    limit_threads(values);
    *operands = (struct operands){.items = argv + optind, .n = argc - optind};
    int status = OPTIONS_RUN;
    if (common->files_from && !files_from_read(common->files_from, operands))
        status = signals_stopped() ? signals_status() : STATUS_FAILURE;
    if (status == OPTIONS_RUN)
        status = check_operands(command, operands);
    if (status == OPTIONS_RUN)
        status = combinations_check(command, values, operands->n);
    if (status == OPTIONS_RUN)
        status = check_named_files(command, values, operands);
    if (status == OPTIONS_RUN)
        status = take_standard_input(command, values, operands);
    if (status != OPTIONS_RUN)
        operands_free(operands);
    return status;
}

void operands_free(struct operands *operands) {
    free(operands->list);
    free(operands->text);
    *operands = (struct operands){0};
}

static void free_values(const struct option_row *rows, void *values) {
    for (; rows->name; rows++)
        if (rows->kind == OPTION_LIST)
            free(((struct string_list *)(void *)((char *)values + rows->offset))->items);
    free(values);
}

int command_run(const struct command *command, int argc, char **argv) {
    const size_t size = command->size > 0 ? command->size : sizeof(struct common_options);
    struct operands operands;
    void *values = calloc(1, size);
    if (!values) {
        terminal_error("out of memory");
        return STATUS_FAILURE;
    }
    if (command->defaults)
        memcpy(values, command->defaults, size);
    else
        unset_values(command->options, values);
    int status = options_parse(command, argc, argv, values, &operands);
    if (status == OPTIONS_RUN)
        status = command->run(command, values, &operands);
    operands_free(&operands);
    free_values(command->options, values);
    return status;
}

/* ---- Help --------------------------------------------------------------------------------- */

const char *options_operand_standard(const struct operand_row *row) {
    return row->standard_input ? "-, which is standard input" : NULL;
}

const char *options_placeholder(const struct option_row *row) {
    static const char *const usual[] = {[OPTION_STRING] = "FILE",
                                        [OPTION_LIST] = "FILE",
                                        [OPTION_INTEGER] = "N",
                                        [OPTION_REAL] = "X",
                                        [OPTION_CHOICE] = NULL};
    return row->argument ? row->argument : usual[row->kind];
}

int options_print_argument(const struct option_row *row, FILE *out) {
    if (row->kind != OPTION_CHOICE)
        return fprintf(out, "%s", options_placeholder(row));
    int columns = 0;
    const char *choice;
    for (size_t i = 0; (choice = options_choice(row, i)); i++)
        columns += fprintf(out, "%s%s", i > 0 ? "|" : "", choice);
    return columns;
}

void options_print_filled(FILE *out, const char *text, size_t indent, size_t width) {
    size_t column = indent;
    while (*text != '\0') {
        size_t word = strcspn(text, " \n");
        if (column > indent && column + 1 + word > width) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', out);
            column++;
        }
        fwrite(text, 1, word, out);
        column += word;
        text += word;
        text += strspn(text, " \n");
    }
    fputc('\n', out);
}

void options_print_prose(FILE *out, const char *text, size_t length, size_t indent) {
    for (size_t n; length > 0; text += n, length -= n) {
        char paragraph[8192];
        const char *end =
            *text == ' ' ? memchr(text, '\n', length) : memmem(text, length, "\n\n", 2);
        n = end ? (size_t)(end - text) : length;
        fprintf(out, "%*s", (int)indent, "");
        if (*text == ' ') {
            fprintf(out, "%.*s\n", (int)n, text);
        } else {
            snprintf(paragraph, sizeof paragraph, "%.*s", (int)n, text);
            options_print_filled(out, paragraph, indent, HELP_WIDTH);
        }
        n += n < length && text[n] == '\n';
        if (n < length && text[n] == '\n') {
            fputc('\n', out);
            n++;
        }
    }
}

static void print_prose(const char *text, size_t indent, FILE *out) {
    options_print_prose(out, text, strlen(text), indent);
}

/* Names what txl help explains beside the options. */
static void print_topics(const struct command *command, FILE *out) {
    struct topic_place place = {0};
    struct topic topic;
    char names[1024];
    size_t length = 0;
    while (topic_of_command(command, &place, &topic) && length < sizeof names)
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%.*s",
                                   length > 0 ? ", " : "", (int)topic.n_name, topic.name);
    if (length > 0) {
        fputs("\nMore, by txl help TOPIC:\n", out);
        print_prose(names, 2, out);
    }
}

static void print_usage(const struct command *command, FILE *out) {
    fprintf(out, "Usage: txl %s [OPTION]...", command->name);
    for (const struct option_row *option = command->options; option->name; option++)
        if (option->required)
            fprintf(out, " -%c %s", option->letter, option->argument);
    const struct operand_row *row = command->operands;
    for (; row && row->name; row++) {
        fprintf(out, row->optional ? " [%s]" : " %s", row->name);
        fputs(row->repeats ? "..." : "", out);
    }
    fputs("\n\n", out);
}

/* Prints the second column, after `left` columns of the first: the sentence, then the default. */
static void print_entry(int left, const char *help, const char *standard, FILE *out) {
    char text[1024];
    snprintf(text, sizeof text, "%s%s%s%s", help, standard ? " (default: " : "",
             standard ? standard : "", standard ? ")" : "");
    if (left + 2 > HELP_COLUMN)
        fprintf(out, "\n%*s", HELP_COLUMN, "");
    else
        fprintf(out, "%*s", HELP_COLUMN - left, "");
    options_print_filled(out, text, HELP_COLUMN, HELP_WIDTH);
}

static void print_option(const struct option_row *row, FILE *out) {
    int columns = row->letter != 0 ? fprintf(out, "  -%c, --%s", row->letter, row->name)
                                   : fprintf(out, "      --%s", row->name);
    if (row->kind != OPTION_FLAG) {
        columns += fprintf(out, " ");
        columns += options_print_argument(row, out);
    }
    print_entry(columns, row->help, row->standard, out);
}

static void print_operands(const struct operand_row *row, FILE *out) {
    fputs("\nArguments:\n", out);
    for (; row->name; row++)
        print_entry(fprintf(out, "  %s", row->name), row->help, options_operand_standard(row), out);
}

static void print_examples(const struct command *command, FILE *out) {
    if (!command->examples)
        return;
    fputs("\nExamples:\n", out);
    for (const struct example *e = command->examples; e->command; e++)
        fprintf(out, "  %s\n      %s\n", e->command, e->purpose);
}

static bool is_brief(const struct command *command, const struct option_row *row) {
    const char *const *name = command->brief;
    while (name && *name && strcmp(*name, row->name) != 0)
        name++;
    return !name || *name;
}

void options_brief_help(const struct command *command, FILE *out) {
    size_t n = 0;
    print_usage(command, out);
    print_prose(command->description, 0, out);
    print_examples(command, out);
    fputs("\nOptions:\n", out);
    for (const struct option_row *row = command->options; row->name; row++, n++)
        if (is_brief(command, row))
            print_option(row, out);
    if (command->brief || command->notes)
        fprintf(out, "\n'txl %s --help' explains all %zu options.\n", command->name, n);
}

void options_help(const struct command *command, FILE *out) {
    print_usage(command, out);
    print_prose(command->description, 0, out);
    if (command->operands)
        print_operands(command->operands, out);
    for (const struct option_row *row = command->options; row->name; row++) {
        if (row->section)
            fprintf(out, "\n%s:\n", row->section);
        print_option(row, out);
    }
    for (const struct note *note = command->notes; note && note->title; note++) {
        fprintf(out, "\n%s:\n", note->title);
        print_prose(note->text, 2, out);
    }
    char *combinations = combinations_text(command);
    if (!combinations)
        output_lacks_memory();
    else if (*combinations != '\0') {
        fputs("\nNot together:\n", out);
        print_prose(combinations, 2, out);
    }
    free(combinations);
    print_topics(command, out);
    print_examples(command, out);
}
