/* Reads tables of items. */
#include "items_table.h"

#include "cli/system/fixed_line.h"
#include "cli/system/json_lines.h"
#include "cli/system/output.h"
#include "cli/system/signals.h"
#include "cli/system/terminal.h"
#include "lib/base/byte_order_mark.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { END = -1 };

static const char *const role_names[N_ROLE] = {"item",          "condition",    "text", "context",
                                               "sentence_good", "sentence_bad", "UID",  "pairID"};

static const size_t NONE = SIZE_MAX;

/* ---- Bytes -------------------------------------------------------------------------------- */

/* The next byte, which stays the next one; END at the end of the file. */
static int peek_byte(struct items_table *t) {
    if (t->at == t->n && !t->ended) {
        ssize_t n = input_read(&t->input, t->chunk, sizeof t->chunk);
        t->at = 0;
        t->n = n > 0 ? (size_t)n : 0;
        t->ended = n <= 0;
    }
    return t->at < t->n ? (unsigned char)t->chunk[t->at] : END;
}

static int next_byte(struct items_table *t) {
    int c = peek_byte(t);
    t->at += c != END;
    t->line += c == '\n';
    return c;
}

/* Adds a byte to the record, unless that is too long. */
static bool add_byte(struct items_table *t, int c) {
    const char byte = (char)c;
    t->too_long = t->too_long || t->bytes.length >= ITEMS_RECORD;
    return t->too_long || buffer_append(&t->bytes, &byte, 1);
}

__attribute__((format(printf, 2, 3))) static void say_wrong(struct items_table *t,
                                                            const char *format, ...) {
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (signals_stopped() || t->input.failed)
        return; /* the record is cut */
    terminal_error("%s: line %" PRIu64 ": %s", t->input.name, t->record, what);
    t->wrong++;
}

static bool fail_memory(struct items_table *t) {
    terminal_error("out of memory");
    t->input.failed = true;
    return false;
}

/* ---- Separated fields --------------------------------------------------------------------- */

enum reading { READ, WRONG, FINISHED, FAILED };

static bool add_field(struct items_table *t, size_t begin) {
    if (t->n_fields == t->fields_room && t->n_fields <= ITEMS_COLUMNS) {
        size_t room = 2 * t->fields_room + 8;
        struct items_field *fields = reallocarray(t->fields, room, sizeof *fields);
        if (!fields)
            return false;
        t->fields = fields;
        t->fields_room = room;
    }
    if (t->n_fields < t->fields_room)
        t->fields[t->n_fields] = (struct items_field){begin, t->bytes.length - begin};
    t->n_fields++;
    return true;
}

static void skip_line(struct items_table *t) {
    int c;
    do
        c = next_byte(t);
    while (c != '\n' && c != END);
}

/* Reads what is behind an opening quote, to behind the closing one. */
static enum reading read_quoted(struct items_table *t) {
    for (;;) {
        int c = next_byte(t);
        if (c == END) {
            say_wrong(t, "the quote that opens field %zu is not closed", t->n_fields + 1);
            return WRONG;
        }
        if (c == '"' && peek_byte(t) != '"')
            return READ;
        if (c == '"')
            next_byte(t);
        if (!add_byte(t, c))
            return FAILED;
    }
}

/* Reads a field up to the separator or the line end behind it. */
static enum reading read_field(struct items_table *t, int separator) {
    enum reading reading = READ;
    size_t begin = t->bytes.length;
    bool quoted = peek_byte(t) == '"', carriage = false;
    if (quoted) {
        next_byte(t);
        reading = read_quoted(t);
    }
    while (reading == READ && peek_byte(t) != separator && peek_byte(t) != '\n' &&
           peek_byte(t) != END) {
        int c = next_byte(t);
        carriage = c == '\r' && (peek_byte(t) == '\n' || peek_byte(t) == END);
        if (quoted && !carriage) {
            say_wrong(t,
                      "field %zu goes on behind its closing quote; a quote within quotes is "
                      "written twice",
                      t->n_fields + 1);
            skip_line(t);
            return WRONG;
        }
        if (!carriage && !add_byte(t, c))
            reading = FAILED;
    }
    if (reading == READ && !add_field(t, begin))
        reading = FAILED;
    return reading;
}

/* Reads a record; one that is too long is read over. */
static enum reading read_fields(struct items_table *t) {
    int separator = t->form == TABLE_TABS ? '\t' : ',';
    enum reading reading;
    do {
        t->bytes.length = t->n_fields = 0;
        t->too_long = false;
        t->record = t->line;
        if (peek_byte(t) == END)
            return FINISHED;
        bool more;
        do {
            reading = read_field(t, separator);
            more = reading == READ && peek_byte(t) == separator;
            if (reading == READ)
                next_byte(t);
        } while (more);
    } while (reading == READ && t->n_fields == 1 && t->bytes.length == 0); /* an empty line */
    if (reading == READ && t->too_long) {
        say_wrong(t, "the record is longer than 1 MiB; a quote may be missing");
        reading = WRONG;
    }
    return reading;
}

/* ---- Objects ------------------------------------------------------------------------------ */

static bool is_role(const struct items_table *t, const char *name) {
    for (size_t i = 0; i < ROLE_UID; i++)
        if ((i < ROLE_GOOD || t->pairs) && strcmp(name, role_names[i]) == 0)
            return true;
    return false;
}

static enum reading parse_object(struct items_table *t) {
    char wrong[512];
    json_decref(t->object);
    t->object = json_line_object(t->bytes.data, t->bytes.length, wrong, sizeof wrong);
    if (t->object)
        return READ;
    if (*wrong == '\0')
        return FAILED;
    say_wrong(t, "%s", wrong);
    return WRONG;
}

static enum reading read_object(struct items_table *t) {
    bool empty = true;
    do {
        t->bytes.length = 0;
        t->too_long = false;
        t->record = t->line;
        if (peek_byte(t) == END)
            return FINISHED;
        for (int c; (c = next_byte(t)) != '\n' && c != END;) {
            empty = empty && strchr(" \t\r", c) && c != '\0';
            if (!add_byte(t, c))
                return FAILED;
        }
    } while (empty);
    if (t->too_long) {
        say_wrong(t, "the object is longer than 1 MiB");
        return WRONG;
    }
    return parse_object(t);
}

/* The value as text, which lives as long as the object; NULL when memory is short. */
static const char *text_of(const struct items_table *t, const json_t *value, size_t *length) {
    if (json_is_string(value)) {
        *length = json_string_length(value);
        return json_string_value(value);
    }
    char *text = output_json_value(value);
    json_t *string = text ? json_string(text) : NULL;
    free(text);
    if (!string || json_array_append_new(t->texts, string) != 0)
        return NULL;
    *length = json_string_length(string);
    return json_string_value(string);
}

static struct own_value value_of(struct items_table *t, const json_t *value) {
    struct own_value own = {.bare = !json_is_string(value)};
    if (!value || json_is_null(value))
        return own;
    own.text = text_of(t, value, &own.length);
    if (!own.text)
        fail_memory(t);
    return own;
}

/* ---- Columns ------------------------------------------------------------------------------ */

static bool add_name(struct items_table *t, const char *name, size_t length) {
    char **names = reallocarray(t->names, t->n_names + 1, sizeof *names);
    if (!names)
        return false;
    t->names = names;
    names[t->n_names] = strndup(name, length);
    return names[t->n_names++];
}

static bool fail_columns(struct items_table *t, const char *what, const char *name) {
    terminal_error("%s: line %" PRIu64 ": %s%s", t->input.name, t->record, what, name);
    t->input.failed = true;
    return false;
}

/* Which columns mean what. */
static bool find_roles(struct items_table *t) {
    for (size_t i = 0; i < N_ROLE; i++)
        t->role[i] = NONE;
    for (size_t i = 0; i < t->n_names; i++) {
        for (size_t k = 0; k < N_ROLE; k++) {
            if (strcmp(t->names[i], role_names[k]) != 0)
                continue;
            if (t->role[k] != NONE && k < ROLE_GOOD)
                return fail_columns(t, "two columns have the name ", role_names[k]);
            t->role[k] = i;
        }
    }
    t->pairs =
        t->role[ROLE_TEXT] == NONE && t->role[ROLE_GOOD] != NONE && t->role[ROLE_BAD] != NONE;
    char missing[64];
    struct fixed_line line = fixed_line(missing, sizeof missing);
    for (size_t i = 0; i <= ROLE_TEXT && !t->pairs; i++)
        if (t->role[i] == NONE)
            fixed_line_add(&line, "%s%s", missing[0] ? ", " : "", role_names[i]);
    return !missing[0] ||
           fail_columns(t,
                        "the columns item, condition and text are needed, or sentence_good and "
                        "sentence_bad; there is no ",
                        missing);
}

/* Lists the columns that are passed on; the table's own names of the last two follow. */
static bool list_passed(struct items_table *t) {
    t->passed = calloc(t->n_names + 1, sizeof *t->passed);
    t->own.names = calloc(t->n_names + 2, sizeof *t->own.names);
    t->own.values = calloc(t->n_names + 2, sizeof *t->own.values);
    if (!t->passed || !t->own.names || !t->own.values)
        return fail_memory(t);
    for (size_t i = 0; i < t->n_names; i++) {
        if (is_role(t, t->names[i]))
            continue;
        t->passed[t->own.n] = i;
        t->own.names[t->own.n++] = t->names[i];
    }
    t->own.names[t->own.n++] = role_names[ROLE_ITEM];
    t->own.names[t->own.n++] = role_names[ROLE_CONDITION];
    return true;
}

static bool read_header(struct items_table *t) {
    enum reading reading = read_fields(t);
    bool good = reading != FAILED;
    if (reading != READ)
        return t->input.failed || signals_stopped() || reading == WRONG
                   ? false
                   : (good ? fail_columns(t, "there is no header", "") : fail_memory(t));
    if (t->n_fields > ITEMS_COLUMNS)
        return fail_columns(t, "there are more than 1,000 columns", "");
    for (size_t i = 0; i < t->n_fields && good; i++)
        good = add_name(t, t->bytes.data + t->fields[i].begin, t->fields[i].length);
    return good ? find_roles(t) && list_passed(t) : fail_memory(t);
}

/* The first object has the columns. */
static bool read_first_object(struct items_table *t) {
    enum reading reading;
    do
        reading = read_object(t);
    while (reading == WRONG);
    if (reading == FAILED)
        return fail_memory(t);
    if (reading == FINISHED)
        return !t->input.failed && !signals_stopped() && fail_columns(t, "there is no object", "");
    const char *name;
    json_t *value;
    if (json_object_size(t->object) > ITEMS_COLUMNS)
        return fail_columns(t, "there are more than 1,000 columns", "");
    bool good = true;
    json_object_foreach(t->object, name, value) {
        good = good && add_name(t, name, strlen(name));
    }
    if (!good)
        return fail_memory(t);
    t->held = true;
    return find_roles(t) && list_passed(t);
}

/* ---- The table ---------------------------------------------------------------------------- */

static bool ends_in(const char *path, size_t length, const char *end) {
    size_t n = strlen(end);
    return length >= n && strncasecmp(path + length - n, end, n) == 0;
}

/* By the file's name, or where that does not say it by the first line. */
static enum table_form form_of(struct items_table *t, const char *path) {
    size_t length = strlen(path);
    length -= ends_in(path, length, ".gz") ? 3 : ends_in(path, length, ".zst") ? 4 : 0;
    if (ends_in(path, length, ".csv"))
        return TABLE_COMMAS;
    if (ends_in(path, length, ".tsv"))
        return TABLE_TABS;
    if (ends_in(path, length, ".jsonl") || peek_byte(t) == '{')
        return TABLE_OBJECTS;
    const char *feed = memchr(t->chunk, '\n', t->n);
    size_t line = feed ? (size_t)(feed - t->chunk) : t->n;
    return memchr(t->chunk, '\t', line) ? TABLE_TABS : TABLE_COMMAS;
}

bool items_table_open(struct items_table *t, const char *path, bool binary) {
    *t = (struct items_table){.line = 1, .record = 1};
    if (!input_open_text(&t->input, path, false, binary)) {
        t->input.handle = -1;
        return false;
    }
    t->texts = json_array();
    if (!t->texts || !buffer_reserve(&t->bytes, 1) || !buffer_reserve(&t->item, 1))
        return fail_memory(t);
    if (peek_byte(t) != END)
        t->at = byte_order_mark_length(t->chunk, t->n);
    t->form = form_of(t, path);
    return t->form == TABLE_OBJECTS ? read_first_object(t) : read_header(t);
}

void items_table_close(struct items_table *t) {
    input_close(&t->input);
    for (size_t i = 0; i < t->n_names; i++)
        free(t->names[i]);
    free(t->names);
    free(t->passed);
    free(t->own.names);
    free(t->own.values);
    free(t->fields);
    buffer_free(&t->bytes);
    buffer_free(&t->item);
    json_decref(t->object);
    json_decref(t->texts);
    *t = (struct items_table){.input = {.handle = -1}};
}

/* ---- Records ------------------------------------------------------------------------------ */

/* A column of the current record. */
static struct own_value column_value(struct items_table *t, size_t i) {
    if (t->form == TABLE_OBJECTS)
        return value_of(t, json_object_get(t->object, t->names[i]));
    return (struct own_value){.text = t->bytes.data + t->fields[i].begin,
                              .length = t->fields[i].length};
}

struct own_value items_table_value(struct items_table *t, enum items_role role) {
    if (t->form == TABLE_OBJECTS)
        return value_of(t, json_object_get(t->object, role_names[role]));
    return t->role[role] == NONE ? (struct own_value){0} : column_value(t, t->role[role]);
}

static bool has_text(struct items_table *t, enum items_role role) {
    json_t *value = json_object_get(t->object, role_names[role]);
    if (json_is_string(value) || (role == ROLE_CONTEXT && (!value || json_is_null(value))))
        return true;
    say_wrong(t, value ? "%s is no string" : "there is no %s", role_names[role]);
    return false;
}

static bool has_name(struct items_table *t, enum items_role role) {
    json_t *value = json_object_get(t->object, role_names[role]);
    if (value && !json_is_null(value) && !json_is_object(value) && !json_is_array(value))
        return true;
    say_wrong(t, value ? "%s is no name" : "there is no %s", role_names[role]);
    return false;
}

/* Whether the object has the columns of the first one, and no others. */
static bool check_object(struct items_table *t) {
    bool good = has_text(t, ROLE_CONTEXT);
    if (t->pairs)
        good = good && has_text(t, ROLE_GOOD) && has_text(t, ROLE_BAD);
    else
        good =
            good && has_name(t, ROLE_ITEM) && has_name(t, ROLE_CONDITION) && has_text(t, ROLE_TEXT);
    const char *name;
    json_t *value;
    json_object_foreach(t->object, name, value) {
        bool known = !good || is_role(t, name);
        for (size_t i = 0; i + 2 < t->own.n && !known; i++)
            known = strcmp(name, t->own.names[i]) == 0;
        if (!known) {
            say_wrong(t, "'%s' is no column of the first object", name);
            return false;
        }
    }
    return good;
}

static bool check_fields(struct items_table *t) {
    if (t->n_fields == t->n_names)
        return true;
    say_wrong(t, "%zu fields, where the header has %zu", t->n_fields, t->n_names);
    return false;
}

bool items_table_next(struct items_table *t) {
    for (;;) {
        enum reading reading = READ;
        bool objects = t->form == TABLE_OBJECTS;
        if (!t->held)
            reading = objects ? read_object(t) : read_fields(t);
        t->held = false;
        json_array_clear(t->texts);
        if (reading == FAILED)
            return fail_memory(t);
        if (reading == FINISHED || signals_stopped() || t->input.failed)
            return false;
        if (reading == READ && (objects ? check_object(t) : check_fields(t)))
            return true;
    }
}

void items_table_pass(struct items_table *t, const struct own_value *item,
                      const struct own_value *condition) {
    for (size_t i = 0; i + 2 < t->own.n; i++)
        t->own.values[i] = column_value(t, t->passed[i]);
    t->own.values[t->own.n - 2] = *item;
    t->own.values[t->own.n - 1] = *condition;
}

bool items_table_item(struct items_table *t, struct own_value *item) {
    *item = items_table_value(t, ROLE_ITEM);
    if (item->text)
        return true;
    struct own_value uid = items_table_value(t, ROLE_UID), pair = items_table_value(t, ROLE_PAIR);
    char line[32];
    int n = snprintf(line, sizeof line, "%" PRIu64, t->record);
    t->item.length = 0;
    bool both = uid.text && pair.text;
    bool good = both ? buffer_append(&t->item, uid.text, uid.length) &&
                           buffer_append(&t->item, "-", 1) &&
                           buffer_append(&t->item, pair.text, pair.length)
                     : buffer_append(&t->item, line, (size_t)n);
    *item = (struct own_value){.text = t->item.data, .length = t->item.length};
    return good;
}
