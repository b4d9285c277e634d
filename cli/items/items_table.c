/* Reads tables of items. */
#include "items_table.h"

#include "items_rows.h"

#include "cli/io/input.h"
#include "cli/io/json_lines.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/options/options.h"
#include "lib/base/white_space.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { END = -1 };

/* Messages that wait until a record is right. */
enum { WAITING = 1 << 16 };

static const char *const role_names[N_ROLE] = {
    "item", "condition", "text",  "context", "region", "sentence_good", "sentence_bad",
    "pair", "question",  "label", "UID",     "pairID", "candidates"};

static const size_t NONE = SIZE_MAX;

/* ---- Names -------------------------------------------------------------------------------- */

/* Whether the command's tables may have such a column. */
static bool is_possible(const struct items_names *names, enum items_role role) {
    if (role == ROLE_LABEL)
        return names->labelled;
    if (names->classifies || names->answers)
        return role == ROLE_ITEM || role == ROLE_TEXT ||
               role == (names->classifies ? ROLE_SECOND : ROLE_QUESTION);
    return role != ROLE_SECOND && role != ROLE_QUESTION;
}

/* Takes one role=NAME, of `length` bytes. */
static bool take_name(struct items_names *names, const char *part, size_t length) {
    const char *equals = memchr(part, '=', length);
    size_t n = equals ? (size_t)(equals - part) : 0;
    if (n == 4 && memcmp(part, "join", n) == 0) {
        names->joins_bare = length == 9 && memcmp(equals + 1, "none", 4) == 0;
        return names->joins_bare;
    }
    for (size_t i = 0; i < N_ROLE && n > 0; i++)
        if (is_possible(names, i) && strlen(role_names[i]) == n &&
            memcmp(role_names[i], part, n) == 0) {
            bool good = !names->name[i] && n + 1 < length;
            if (good)
                names->name[i] = strndup(equals + 1, length - n - 1);
            names->lacks_memory = good && !names->name[i];
            return good && names->name[i];
        }
    return false;
}

const char *items_names_parse(struct items_names *names, const struct string_list *lists) {
    for (size_t i = 0; i < lists->n; i++)
        for (const char *part = lists->items[i]; part; part = strchr(part, ',')) {
            part += *part == ',';
            if (!take_name(names, part, strcspn(part, ",")))
                return part;
        }
    return NULL;
}

void items_names_free(struct items_names *names) {
    for (size_t i = 0; i < N_ROLE; i++)
        free(names->name[i]);
    *names = (struct items_names){0};
}

const char *items_table_name(const struct items_table *t, enum items_role role) {
    const char *given = t->names->name[role];
    bool cloze = t->names->cloze;
    bool usual = !is_possible(t->names, role) || role == ROLE_REGION ? false
                 : t->names->classifies || t->names->answers         ? true
                 : role == ROLE_CANDIDATES                           ? cloze
                                                                     : !cloze || role <= ROLE_TEXT;
    return given ? given : usual ? role_names[role] : NULL;
}

/* ---- Errors ------------------------------------------------------------------------------- */

bool items_table_lacks_memory(struct items_table *t) {
    output_lacks_memory();
    t->input.failed = true;
    return false;
}

/* Keeps a message until it is clear whether any record is right. */
static void keep_message(struct items_errors *errors, const char *message) {
    size_t length = strlen(message) + 1;
    bool room = errors->untold == 0 && errors->waiting.length + length <= WAITING;
    if (!room || !buffer_append(&errors->waiting, message, length))
        errors->untold++;
}

void items_table_wrong(struct items_table *t, const char *format, ...) {
    char what[1024], message[6000];
    va_list arguments;
    if (t->quiet || signals_stopped() || t->input.failed)
        return; /* then the record is cut */
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(message, sizeof message, "%s: line %" PRIu64 ": %s", t->input.name, t->record, what);
    t->errors.wrong++;
    if (t->errors.right)
        terminal_error("%s", message);
    else
        keep_message(&t->errors, message);
}

void items_table_right(struct items_table *t) {
    struct items_errors *errors = &t->errors;
    errors->right = true;
    for (size_t at = 0; at < errors->waiting.length; at += strlen(errors->waiting.data + at) + 1)
        terminal_error("%s", errors->waiting.data + at);
    if (errors->untold > 0)
        terminal_error("%s: %" PRIu64 " more record%s before line %" PRIu64 " %s wrong",
                       t->input.name, errors->untold, plural(errors->untold), t->record,
                       errors->untold == 1 ? "is" : "are");
    errors->waiting.length = errors->untold = 0;
}

void items_table_end(struct items_table *t) {
    struct items_errors *errors = &t->errors;
    if (errors->right || errors->wrong == 0 || errors->waiting.length == 0)
        return;
    if (errors->wrong == 1)
        terminal_error("%s", errors->waiting.data);
    else
        terminal_error("%s; this is the first of %" PRIu64 " wrong records, and none is right%s",
                       errors->waiting.data, errors->wrong,
                       t->form == TABLE_OBJECTS ? "; each line is to be an object, as jq -c . makes"
                                                  " them"
                                                : "");
    errors->waiting.length = 0;
}

/* ---- Bytes -------------------------------------------------------------------------------- */

/* The next byte, which stays the next one; END at the end of the file. */
static int peek_byte(struct items_table *t) {
    if (t->at == t->n && !t->ended) {
        ssize_t n = input_read(&t->input, t->chunk, sizeof t->chunk);
        t->ended = n <= 0;
        if (n > 0) {
            t->at = 0;
            t->n = (size_t)n;
            t->chunks++;
        }
    }
    return t->at < t->n ? (unsigned char)t->chunk[t->at] : END;
}

static int next_byte(struct items_table *t) {
    int c = peek_byte(t);
    t->at += c != END;
    t->line += c == '\n';
    return c;
}

static void skip_line(struct items_table *t) {
    int c;
    do
        c = next_byte(t);
    while (c != '\n' && c != END);
}

/* Adds a byte to the record, unless that is too long. */
static bool add_byte(struct items_table *t, int c) {
    const char byte = (char)c;
    t->too_long = t->too_long || t->bytes.length >= ITEMS_RECORD;
    return t->too_long || buffer_append(&t->bytes, &byte, 1);
}

/* Begins at the table's first byte, after a byte order mark. */
static void start_over(struct items_table *t) {
    t->at = t->n = 0;
    t->ended = false;
    t->line = t->record = 1;
    t->row = 0;
    if (peek_byte(t) != END)
        t->at = byte_order_mark_length(t->chunk, t->n);
}

/* ---- Separated fields --------------------------------------------------------------------- */

static bool add_field(struct items_table *t, size_t begin, bool quoted) {
    if (t->n_fields == t->fields_room && t->n_fields <= ITEMS_COLUMNS) {
        size_t room = 2 * t->fields_room + 8;
        struct items_field *fields = reallocarray(t->fields, room, sizeof *fields);
        if (!fields)
            return false;
        t->fields = fields;
        t->fields_room = room;
    }
    if (t->n_fields < t->fields_room)
        t->fields[t->n_fields] = (struct items_field){begin, t->bytes.length - begin, quoted};
    t->n_fields++;
    return true;
}

/* Reads what is after an opening quote, to after the closing one. */
static enum reading read_quoted(struct items_table *t) {
    for (;;) {
        int c = next_byte(t);
        if (c == END) {
            items_table_wrong(t, "the quote that opens field %zu is not closed", t->n_fields + 1);
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

/* Reads a field up to the separator or the line end after it. */
static enum reading read_field(struct items_table *t) {
    enum reading reading = READ;
    size_t begin = t->bytes.length;
    bool quoted = peek_byte(t) == '"', carriage = false;
    if (quoted) {
        next_byte(t);
        reading = read_quoted(t);
    }
    while (reading == READ && peek_byte(t) != t->separator && peek_byte(t) != '\n' &&
           peek_byte(t) != END) {
        int c = next_byte(t);
        carriage = c == '\r' && (peek_byte(t) == '\n' || peek_byte(t) == END);
        if (quoted && !carriage) {
            items_table_wrong(t,
                              "field %zu continues after its closing quote; a quote within quotes "
                              "is written twice",
                              t->n_fields + 1);
            skip_line(t);
            return WRONG;
        }
        if (!carriage && !add_byte(t, c))
            reading = FAILED;
    }
    if (reading == READ && !add_field(t, begin, quoted))
        reading = FAILED;
    return reading;
}

/* Reads a record; one that is too long is read over, and so are rows without anything in them. */
static enum reading read_fields(struct items_table *t) {
    enum reading reading;
    do {
        t->bytes.length = t->n_fields = 0;
        t->too_long = false;
        t->record = t->line;
        if (peek_byte(t) == END)
            return FINISHED;
        bool more;
        do {
            reading = read_field(t);
            more = reading == READ && peek_byte(t) == t->separator;
            if (reading == READ)
                next_byte(t);
        } while (more);
    } while (reading == READ && is_all_space(t->bytes.data, t->bytes.length));
    if (reading == READ && t->too_long) {
        items_table_wrong(t, "the record is longer than 1 MiB; a quote may be missing");
        reading = WRONG;
    }
    return reading;
}

/* Removes the blanks around. */
void items_trim(const char **text, size_t *length) {
    for (size_t n; *length > 0 && (n = space_length(*text, *length)) > 0; *length -= n)
        *text += n;
    while (*length > 0 && is_space_byte((*text)[*length - 1]))
        --*length;
}

/* Takes the quotes off a line, if all of it is one quoted field; returns its length. */
static size_t bare_length(char *line, size_t length) {
    size_t n = 0;
    if (length < 2 || line[0] != '"' || line[length - 1] != '"')
        return length;
    for (size_t i = 1; i + 1 < length; i++)
        if (line[i] == '"' && (line[++i] != '"' || i + 1 == length))
            return length;
    for (size_t i = 1; i + 1 < length; i++) {
        line[n++] = line[i];
        i += line[i] == '"';
    }
    return n;
}

/* Whether the record, of which the first *at bytes were looked at, is the start of a quoted field
 * that is still open. */
static bool is_open(const struct items_table *t, size_t *at) {
    const char *bytes = t->bytes.data;
    if (t->bytes.length == 0 || bytes[0] != '"')
        return false;
    for (*at = *at > 0 ? *at : 1; *at < t->bytes.length; ++*at)
        if (bytes[*at] == '"' && (*at + 1 == t->bytes.length || bytes[++*at] != '"'))
            return false;
    return true;
}

/* Reads a line of a table with one column, which is a text whatever is in it; quoted or not.  Only
 * where each record is a text by itself may a quoted one have several lines: one that just begins
 * with a quote would else take the next ones. */
static enum reading read_line(struct items_table *t) {
    const bool whole = t->names->classifies || t->names->answers;
    size_t seen = 0;
    do {
        t->bytes.length = t->n_fields = 0;
        t->too_long = false;
        t->record = t->line;
        if (peek_byte(t) == END)
            return FINISHED;
        for (int c; (c = next_byte(t)) != END;) {
            if (c == '\n' && !(whole && is_open(t, &seen)))
                break;
            if (!add_byte(t, c))
                return FAILED;
        }
        while (t->bytes.length > 0 && t->bytes.data[t->bytes.length - 1] == '\r')
            t->bytes.length--;
    } while (is_all_space(t->bytes.data, t->bytes.length));
    if (t->too_long) {
        items_table_wrong(t, "the line is longer than 1 MiB");
        return WRONG;
    }
    t->bytes.length = bare_length(t->bytes.data, t->bytes.length);
    return add_field(t, 0, false) ? READ : FAILED;
}

/* R's write.table names the rows, and not the column of their names.  A comma in a text that is not
 * quoted looks the same, unless the name is quoted; tabs are in no text. */
static bool has_row_name(const struct items_table *t) {
    return t->n_fields == t->n_column + 1 && t->n_fields <= t->fields_room &&
           (t->fields[0].quoted || t->separator == '\t');
}

/* Sets the cells of the record that was read. */
static bool take_fields(struct items_table *t) {
    while (t->n_fields > t->n_column && t->n_fields <= t->fields_room &&
           t->fields[t->n_fields - 1].length == 0)
        t->n_fields--; /* separators at the end of the row, where the header has none */
    if (!t->begun)
        t->row_names = has_row_name(t);
    t->begun = true;
    if (t->n_fields != t->n_column + t->row_names) {
        items_table_wrong(t, "%zu field%s, where the header has %zu", t->n_fields,
                          t->n_fields == 1 ? "" : "s", t->n_column);
        return false;
    }
    for (size_t i = 0; i < t->n_column; i++) {
        const struct items_field *field = &t->fields[i + t->row_names];
        struct own_value *cell = &t->cells[i];
        *cell = (struct own_value){.text = t->bytes.data + field->begin, .length = field->length};
        if (t->trims)
            items_trim(&cell->text, &cell->length);
    }
    return true;
}

/* ---- Objects ------------------------------------------------------------------------------ */

/* Whether an integer of more than 18 digits begins at text[at], where a value may begin; `*n`
 * receives its digits. */
static bool is_long_integer(const char *text, size_t length, size_t at, size_t *n) {
    *n = 0;
    while (at + *n < length && isdigit((unsigned char)text[at + *n]))
        ++*n;
    bool real = at + *n < length && strchr(".eE", text[at + *n]) && text[at + *n];
    bool inside = at > 0 && (isdigit((unsigned char)text[at - 1]) || strchr(".eE+", text[at - 1]));
    return *n > 18 && text[at] != '0' && !real && !inside;
}

/* Parses the object in `bytes`.  jansson has no integers beyond 64 bits, so it sees shorter ones in
 * their place: numbers are passed on as they are written. */
static enum reading parse_object(struct items_table *t) {
    char wrong[512], *text = malloc(t->bytes.length + 1);
    if (!text)
        return FAILED;
    bool quoted = false;
    for (size_t i = 0, n; i < t->bytes.length; i++) {
        char c = text[i] = t->bytes.data[i];
        if (quoted && c == '\\' && i + 1 < t->bytes.length) {
            i++;
            text[i] = t->bytes.data[i];
        } else if (c == '"') {
            quoted = !quoted;
        } else if (!quoted && is_long_integer(t->bytes.data, t->bytes.length, i, &n)) {
            memset(text + i + 1, ' ', n - 1);
            i += n - 1;
        }
    }
    json_decref(t->object);
    t->object = json_line_object(text, t->bytes.length, wrong, sizeof wrong);
    free(text);
    if (t->object)
        return READ;
    if (*wrong == '\0')
        return FAILED;
    items_table_wrong(t, "%s", wrong);
    return WRONG;
}

/* Reads the next element of an array. */
static enum reading read_element(struct items_table *t) {
    size_t depth = 0;
    bool quoted = false;
    t->bytes.length = 0;
    t->too_long = false;
    while (peek_byte(t) != END && strchr("[, \t\r\n", peek_byte(t)) && peek_byte(t) != '\0')
        next_byte(t);
    t->record = t->line;
    if (peek_byte(t) == END || peek_byte(t) == ']')
        return FINISHED;
    do {
        int c = next_byte(t);
        if (c == END || !add_byte(t, c))
            return c == END ? parse_object(t) : FAILED; /* which tells what is wrong */
        if (quoted && c == '\\' && peek_byte(t) != END && !add_byte(t, next_byte(t)))
            return FAILED;
        quoted = quoted != (c == '"');
        depth += !quoted && (c == '{' || c == '[');
        depth -= !quoted && depth > 0 && (c == '}' || c == ']');
    } while (quoted || depth > 0 || (peek_byte(t) != ',' && peek_byte(t) != ']'));
    if (!t->too_long)
        return parse_object(t);
    items_table_wrong(t, "the object is longer than 1 MiB");
    return WRONG;
}

static enum reading read_object(struct items_table *t) {
    bool empty = true;
    if (t->array)
        return read_element(t);
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
        items_table_wrong(t, "the object is longer than 1 MiB");
        return WRONG;
    }
    return parse_object(t);
}

/* The end of the string that begins at text[at] in JSON that is right. */
static size_t string_end(const char *text, size_t at) {
    for (at++; text[at] != '"'; at++)
        at += text[at] == '\\';
    return at + 1;
}

/* Removes the blanks between the tokens of JSON that is right. */
static void pack_object(struct buffer *bytes) {
    size_t n = 0;
    for (size_t i = 0, end; i < bytes->length; i = end) {
        end = bytes->data[i] == '"' ? string_end(bytes->data, i) : i + 1;
        if (is_space_byte(bytes->data[i]))
            continue;
        memmove(bytes->data + n, bytes->data + i, end - i);
        n += end - i;
    }
    bytes->length = n;
}

/* The end of the value that begins at text[at] in such JSON. */
static size_t value_end(const char *text, size_t at) {
    for (size_t depth = 0;; at++) {
        if (depth == 0 && strchr(",}]", text[at]))
            return at;
        if (text[at] == '"')
            at = string_end(text, at) - 1;
        depth += text[at] == '{' || text[at] == '[';
        depth -= text[at] == '}' || text[at] == ']';
    }
}

/* Sets the cells of the object.  jansson keeps the order of its members. */
static void take_object(struct items_table *t) {
    const char *name;
    json_t *value;
    size_t at = 1;
    for (size_t i = 0; i < t->n_column; i++)
        t->cells[i] = (struct own_value){0};
    pack_object(&t->bytes);
    json_object_foreach(t->object, name, value) {
        size_t begin = string_end(t->bytes.data, at) + 1;
        const json_t *column = json_object_get(t->index, name);
        struct own_value *cell = &t->cells[json_integer_value(column)];
        at = value_end(t->bytes.data, begin) + 1;
        if (!column) /* the file was changed */
            continue;
        if (json_is_string(value))
            *cell = (struct own_value){.text = json_string_value(value),
                                       .length = json_string_length(value)};
        else if (!json_is_null(value))
            *cell = (struct own_value){
                .text = t->bytes.data + begin, .length = at - 1 - begin, .bare = true};
        else
            cell->bare = true;
    }
}

/* ---- Columns ------------------------------------------------------------------------------ */

static bool add_column(struct items_table *t, const char *name, size_t length) {
    char **columns = reallocarray(t->columns, t->n_column + 1, sizeof *columns);
    if (!columns)
        return false;
    t->columns = columns;
    columns[t->n_column] = strndup(name, length);
    return columns[t->n_column++];
}

static void drop_columns(struct items_table *t) {
    for (size_t i = 0; i < t->n_column; i++)
        free(t->columns[i]);
    t->n_column = 0;
}

bool items_table_fail(struct items_table *t, const char *format, ...) {
    char what[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    terminal_error("%s: line %" PRIu64 ": %s", t->input.name, t->record, what);
    t->input.failed = true;
    return false;
}

/* Whether the names are the same but for case and blanks around them. */
static bool is_like(const char *a, const char *b) {
    while (is_space_byte(*a))
        a++;
    while (is_space_byte(*b))
        b++;
    size_t n = strlen(a), m = strlen(b);
    while (n > 0 && is_space_byte(a[n - 1]))
        n--;
    while (m > 0 && is_space_byte(b[m - 1]))
        m--;
    return n == m && strncasecmp(a, b, n) == 0;
}

/* The columns of this name, or where none is so, without regard to case and blanks around: `*n` of
 * them.  Returns the last one, NONE if there is none. */
static size_t find_column(const struct items_table *t, const char *name, size_t *n) {
    size_t exact = NONE, like = NONE, n_exact = 0, n_like = 0;
    for (size_t i = 0; i < t->n_column; i++) {
        bool same = strcmp(t->columns[i], name) == 0, near = is_like(t->columns[i], name);
        exact = same ? i : exact;
        like = near ? i : like;
        n_exact += same;
        n_like += near;
    }
    *n = n_exact > 0 ? n_exact : n_like;
    return n_exact > 0 ? exact : like;
}

/* Finds which columns mean what; `*twice` receives a name that two have, else NULL. */
static bool find_roles(struct items_table *t, const char **twice) {
    bool named = true; /* all columns that --columns names are there */
    *twice = NULL;
    for (size_t k = 0; k < N_ROLE; k++) {
        const char *name = items_table_name(t, k);
        size_t n = 0;
        t->role[k] = name ? find_column(t, name, &n) : NONE;
        *twice = n > 1 && k < ROLE_UID ? name : *twice;
        named = named && (!t->names->name[k] || t->role[k] != NONE);
    }
    if (t->names->answers && !t->names->name[ROLE_TEXT] && t->role[ROLE_TEXT] == NONE)
        t->role[ROLE_TEXT] = find_column(t, role_names[ROLE_CONTEXT], &(size_t){0});
    t->pairs =
        t->role[ROLE_TEXT] == NONE && t->role[ROLE_GOOD] != NONE && t->role[ROLE_BAD] != NONE;
    bool labelled = !t->names->name[ROLE_REGION] || t->role[ROLE_ITEM] != NONE;
    named = named && (!t->names->labelled || t->role[ROLE_LABEL] != NONE);
    return named && (t->pairs || (labelled && t->role[ROLE_TEXT] != NONE));
}

/* The column that the name may mean, or NULL. */
static const char *meant(const struct items_table *t, const char *name) {
    struct nearest nearest = nearest_to(name);
    for (size_t i = 0; i < t->n_column; i++)
        if (is_like(t->columns[i], name))
            return t->columns[i];
    for (size_t i = 0; i < t->n_column; i++)
        if (!strchr(t->columns[i], ',')) /* which --columns cannot name */
            nearest_try(&nearest, t->columns[i]);
    return nearest_name(&nearest);
}

static void list_columns(const struct items_table *t, struct fixed_line *line) {
    enum { SHOWN = 40 };
    for (size_t i = 0; i < t->n_column && i < SHOWN; i++)
        fixed_line_add(line, "%s'%.60s'", i > 0 ? ", " : "", t->columns[i]);
    if (t->n_column > SHOWN)
        fixed_line_add(line, " and %zu more", t->n_column - SHOWN);
}

bool items_table_lacks(const struct items_table *t, const char *option, const char *name) {
    char columns[3072];
    struct fixed_line line = fixed_line(columns, sizeof columns);
    const char *other = meant(t, name);
    list_columns(t, &line);
    return terminal_error("%s: there is no column '%s' for %s; %s%s%sthe columns are %s",
                          t->input.name, name, option, other ? "is it '" : "", other ? other : "",
                          other ? "'? " : "", columns);
}

/* Refuses a table that lacks columns: says which, what there is, and how to name them. */
static bool fail_roles(struct items_table *t, const char *twice) {
    char missing[512], columns[3072], named[1024];
    struct fixed_line lacks = fixed_line(missing, sizeof missing),
                      list = fixed_line(columns, sizeof columns),
                      names = fixed_line(named, sizeof named);
    bool carriage = false, pairs = t->names->name[ROLE_GOOD] || t->names->name[ROLE_BAD];
    if (twice)
        return items_table_fail(t, "two columns have the name %s", twice);
    for (size_t k = 0; k < N_ROLE; k++) {
        bool needed = t->names->name[k] || (k == ROLE_TEXT && !pairs) ||
                      (k == ROLE_LABEL && t->names->labelled) ||
                      (k == ROLE_ITEM && t->names->name[ROLE_REGION]) ||
                      (pairs && (k == ROLE_GOOD || k == ROLE_BAD));
        if (!needed || t->role[k] != NONE)
            continue;
        const char *other = meant(t, items_table_name(t, k));
        fixed_line_add(&lacks, "%s%s", lacks.length > 0 ? ", " : "", items_table_name(t, k));
        fixed_line_add(&names, "%s%s=%s", names.length > 0 ? "," : "", role_names[k],
                       other ? other : "NAME");
    }
    for (size_t i = 0; i < t->n_column; i++)
        carriage = carriage || strchr(t->columns[i], '\r');
    list_columns(t, &list);
    if (carriage)
        return items_table_fail(t, "its lines end in CR alone; tr '\\r' '\\n' makes them lines");
    if (t->names->cloze)
        return items_table_fail(t, "the column text is needed; the columns are %s", columns);
    return items_table_fail(
        t,
        "a column text is needed%s; there is no %s among %s; --columns '%s' says what is called so",
        t->names->answers             ? " (or context)"
        : t->names->labelled          ? ", and a column label"
        : t->names->classifies        ? ""
        : t->names->name[ROLE_REGION] ? ", with a row a region item too, or sentence_good and "
                                        "sentence_bad"
                                      : ", or sentence_good and sentence_bad",
        missing, columns, named);
}

/* Whether the line says which separator the table has, as Excel writes it: sep=; */
static bool is_separator_line(const struct items_table *t) {
    const char *line = t->chunk + t->at;
    size_t left = t->n - t->at;
    return left >= 5 && strncasecmp(line, "sep=", 4) == 0 &&
           (left == 5 || line[5] == '\n' || (line[5] == '\r' && (left == 6 || line[6] == '\n')));
}

/* A place in the first chunk of the table. */
struct place_in_chunk {
    size_t at;
    uint64_t line, chunks;
};

/* Reads a header with the separator; true if it has the needed columns. */
static bool try_header(struct items_table *t, char separator, enum reading *reading,
                       const char **twice) {
    *twice = NULL;
    drop_columns(t);
    t->separator = separator;
    *reading = read_fields(t);
    t->trims = false;
    if (*reading != READ || t->n_fields > ITEMS_COLUMNS)
        return false;
    for (size_t i = 0; i < t->n_fields && *reading == READ; i++) {
        const char *name = t->bytes.data + t->fields[i].begin;
        size_t length = t->fields[i].length;
        /* A blank after each separator, which is no part of what follows. */
        t->trims = t->trims || (i > 0 && length > 0 && is_space_byte(*name));
        items_trim(&name, &length);
        if (!add_column(t, name, length))
            *reading = FAILED;
    }
    if (*reading != READ || !find_roles(t, twice) || *twice)
        return false;
    /* What looks like a comment is a header only if it has all that is usual. */
    return *t->columns[0] != '#' || (t->role[ROLE_ITEM] != NONE && t->role[ROLE_CONDITION] != NONE);
}

/* Takes the only column for that of the texts. */
static bool take_only_column(struct items_table *t) {
    const char *name = t->columns[0];
    size_t end = strlen(name);
    while (end > 0 && strchr("\"')]", name[end - 1]))
        end--;
    if (end > 0 && strchr(".!?", name[end - 1]))
        return items_table_fail(
            t,
            "no header? use --lines: the first line is a sentence, '%.60s'; or put a line `text` "
            "before it",
            name);
    t->lines = true;
    t->role[ROLE_TEXT] = 0;
    terminal_note("%s: its only column, '%.60s', is taken for the texts: each line is one",
                  t->input.name, name);
    return true;
}

/* Whether all that the header has is one column without a meaning of its own. */
static bool has_only_column(const struct items_table *t) {
    for (size_t k = 0; k < N_ROLE; k++)
        if (t->names->name[k])
            return false;
    return !t->names->labelled && t->n_column == 1 && !strpbrk(t->columns[0], ",;\t") &&
           *t->columns[0] != '\0';
}

/* Reads the header, which may stand after a line that names the separator and after comments.  Of
 * the separators it has the first one with which it has the needed columns. */
static bool read_header(struct items_table *t, const char *separators) {
    char named[2] = "", with_blank[8];
    snprintf(with_blank, sizeof with_blank, "%s ", separators);
    enum reading reading = READ;
    const char *twice = NULL;
    t->begun = false;
    for (;;) {
        bool found = false, comment, named_line = peek_byte(t) != END && is_separator_line(t);
        const struct place_in_chunk start = {t->at, t->line, t->chunks};
        if (named_line) {
            named[0] = t->chunk[t->at + 4];
            separators = named;
            if (!strchr(",;\t", named[0]))
                return items_table_fail(t, "sep=%c: the fields are to be parted by , ; or tabs",
                                        *named);
            skip_line(t);
            continue;
        }
        t->quiet = true;
        /* R's write.table puts blanks between fields, and quotes around all texts. */
        const char *tried = !*named && peek_byte(t) == '"' ? with_blank : separators;
        for (const char *s = tried; *s && !found && t->chunks == start.chunks; s++) {
            t->at = start.at;
            t->line = start.line;
            found = try_header(t, *s, &reading, &twice);
        }
        t->quiet = false;
        if (found) {
            t->lines = t->n_column == 1;
            return true;
        }
        if (t->chunks != start.chunks)
            return items_table_fail(t, "there is no header in its first 64 KiB");
        comment = t->bytes.length > 0 && *t->bytes.data == '#';
        t->at = start.at;
        t->line = start.line;
        if (!comment)
            break;
        while (t->line <= t->record && peek_byte(t) != END)
            skip_line(t);
    }
    try_header(t, *separators, &reading, &twice);
    if (reading == READ && !twice && !t->names->cloze && has_only_column(t))
        return take_only_column(t);
    if (reading == FAILED)
        return items_table_lacks_memory(t);
    if (t->input.failed || signals_stopped())
        return false;
    if (reading == WRONG)
        items_table_end(t);
    if (reading == WRONG)
        return false;
    if (reading == FINISHED)
        return items_table_fail(t, "there is no header");
    if (t->n_fields > ITEMS_COLUMNS)
        return items_table_fail(t, "there are more than 1,000 columns");
    return fail_roles(t, twice);
}

/* The columns of objects are all that any of them has. */
static bool read_objects(struct items_table *t) {
    const char *name, *twice;
    json_t *value;
    enum reading reading;
    uint64_t first = 0, wrong = 0;
    t->quiet = true;
    while ((reading = read_object(t)) == READ || reading == WRONG) {
        wrong += reading == WRONG;
        if (reading == WRONG)
            continue;
        first = first > 0 ? first : t->record;
        json_object_foreach(t->object, name, value) {
            if (json_object_get(t->index, name))
                continue;
            if (t->n_column == ITEMS_COLUMNS)
                return items_table_fail(t, "there are more than 1,000 columns");
            if (json_object_set_new(t->index, name, json_integer((json_int_t)t->n_column)) != 0 ||
                !add_column(t, name, strlen(name)))
                return items_table_lacks_memory(t);
        }
    }
    t->quiet = false;
    if (reading == FAILED)
        return items_table_lacks_memory(t);
    if (t->input.failed || signals_stopped())
        return false;
    if (first == 0)
        return wrong > 0 || items_table_fail(t, "there is no object");
    t->record = first;
    return find_roles(t, &twice) || fail_roles(t, NULL);
}

/* ---- The table ---------------------------------------------------------------------------- */

static bool ends_in(const char *path, size_t length, const char *end) {
    size_t n = strlen(end);
    return length >= n && strncasecmp(path + length - n, end, n) == 0;
}

/* The first byte that is no blank, in the first line that is no comment. */
static char first_byte(const struct input *input) {
    size_t at = byte_order_mark_length(input->head, input->n_head);
    for (; at < input->n_head; at++) {
        const char *text = input->head + at, *feed;
        if (*text == '#' && (feed = memchr(text, '\n', input->n_head - at)))
            at = (size_t)(feed - input->head);
        else if (!is_space_byte(*text))
            return *text;
    }
    return '\0';
}

/* Opens the input, and says by the file's name, or where that does not say it by the first byte,
 * what to expect: the separators in the order in which they are tried, NULL for objects. */
static bool open_input(struct items_table *t, const char *path, const struct input_form *form,
                       const char **separators) {
    size_t length = strlen(path);
    if (!input_open_text(&t->input, path, false, form)) {
        t->input.handle = -1;
        return false;
    }
    length -= ends_in(path, length, ".gz") ? 3 : ends_in(path, length, ".zst") ? 4 : 0;
    bool csv = ends_in(path, length, ".csv"), tsv = ends_in(path, length, ".tsv");
    char first = first_byte(&t->input);
    t->array = !csv && !tsv && first == '[';
    bool objects = !csv && !tsv &&
                   (first == '{' || t->array || ends_in(path, length, ".jsonl") ||
                    ends_in(path, length, ".json"));
    *separators = objects ? NULL : csv ? ",;\t" : "\t,;";
    return input_make_seekable(&t->input);
}

/* Skips comments before the first object. */
static void skip_comments(struct items_table *t) {
    while (peek_byte(t) == '#')
        skip_line(t);
}

static bool read_columns(struct items_table *t, const char *separators) {
    start_over(t);
    if (separators)
        return read_header(t, separators);
    t->form = TABLE_OBJECTS;
    skip_comments(t);
    if (!read_objects(t) || !input_rewind(&t->input))
        return false;
    start_over(t);
    skip_comments(t);
    return true;
}

/* Holds the table in memory if texts come more than once in it. */
static bool find_repeated(struct items_table *t, const char *separators) {
    t->whole = items_rows_repeat(t);
    if (t->input.failed || signals_stopped() || !input_rewind(&t->input))
        return false;
    start_over(t);
    if (!separators)
        skip_comments(t);
    else if (!read_header(t, separators))
        return false;
    return !t->whole || items_rows_read(t);
}

bool items_table_open(struct items_table *t, const char *path, const struct input_form *form,
                      const struct items_names *names) {
    const char *separators = NULL;
    *t = (struct items_table){.names = names, .form = TABLE_COMMAS, .line = 1, .record = 1};
    for (size_t i = 0; i < N_ROLE; i++)
        t->role[i] = NONE;
    if (!open_input(t, path, form, &separators))
        return false;
    t->index = json_object();
    if (!t->index || !buffer_reserve(&t->bytes, 1) || !buffer_reserve(&t->item, 1))
        return items_table_lacks_memory(t);
    if (!read_columns(t, separators))
        return false;
    t->cells = calloc(t->n_column + 1, sizeof *t->cells);
    if (!t->cells)
        return items_table_lacks_memory(t);
    if (t->names->name[ROLE_REGION] && t->role[ROLE_REGION] != NONE)
        return t->pairs ? items_table_fail(t, "--columns region needs a column of texts")
                        : items_rows_read(t);
    return t->names->cloze || t->names->classifies || t->names->answers || t->pairs ||
           t->role[ROLE_ITEM] == NONE || find_repeated(t, separators);
}

void items_table_close(struct items_table *t) {
    if (!t->names)
        return;
    input_close(&t->input);
    drop_columns(t);
    free(t->columns);
    free(t->choices);
    items_rows_free(t);
    free(t->fields);
    free(t->cells);
    free(t->passed);
    buffer_free(&t->bytes);
    buffer_free(&t->item);
    buffer_free(&t->joined);
    buffer_free(&t->errors.waiting);
    json_decref(t->object);
    json_decref(t->index);
    *t = (struct items_table){.input = {.handle = -1}};
}

static bool is_passed(const struct items_table *t, size_t column) {
    for (size_t i = 0; i < ROLE_UID; i++)
        if (t->role[i] == column && i != ROLE_REGION &&
            (t->pairs || (i != ROLE_GOOD && i != ROLE_BAD)))
            return false;
    for (size_t i = 0; i < t->n_choice; i++)
        if (t->choices[i] == column)
            return false;
    return true;
}

bool items_table_choices(struct items_table *t) {
    char name[32];
    size_t column, n;
    while (snprintf(name, sizeof name, "choice%zu", t->n_choice + 1) > 0 &&
           (column = find_column(t, name, &n)) != NONE) {
        size_t *choices = reallocarray(t->choices, t->n_choice + 1, sizeof *choices);
        if (!choices)
            return items_table_lacks_memory(t);
        t->choices = choices;
        choices[t->n_choice++] = column;
    }
    return true;
}

/* The number of the own column that has this name for the nth time, from 0; own->n: there is none.
 */
static size_t find_own(const struct own_columns *own, const char *name, size_t nth) {
    size_t i = 0;
    for (; i < own->n; i++)
        if (strcmp(own->names[i], name) == 0 && nth-- == 0)
            break;
    return i;
}

/* How many columns before this one have its name and are passed on. */
static size_t find_nth(const struct items_table *t, size_t column) {
    size_t nth = 0;
    for (size_t i = 0; i < column; i++)
        nth += is_passed(t, i) && strcmp(t->columns[i], t->columns[column]) == 0;
    return nth;
}

bool items_table_offer(const struct items_table *t, struct own_columns *own) {
    for (size_t i = 0; i < t->n_column; i++) {
        if (!is_passed(t, i) || find_own(own, t->columns[i], find_nth(t, i)) < own->n)
            continue;
        const char **names = reallocarray(own->names, own->n + 1, sizeof *names);
        if (!names)
            return false;
        own->names = names;
        names[own->n++] = t->columns[i];
    }
    return true;
}

bool items_table_take(struct items_table *t, const struct own_columns *own) {
    t->passed = calloc(own->n, sizeof *t->passed);
    if (!t->passed)
        return false;
    for (size_t i = 0; i + own->fixed < own->n; i++)
        t->passed[i] = NONE;
    for (size_t i = 0; i < t->n_column; i++)
        if (is_passed(t, i))
            t->passed[find_own(own, t->columns[i], find_nth(t, i))] = i;
    return true;
}

/* Sets a row of values: those of the cells, NULL: none. */
void items_table_pass_cells(const struct items_table *t, const struct own_columns *own, size_t row,
                            const struct own_value *cells) {
    struct own_value *values = own->values + row * own->n;
    for (size_t i = 0; i + own->fixed < own->n; i++)
        values[i] = cells && t->passed[i] != NONE ? cells[t->passed[i]] : (struct own_value){0};
}

bool items_table_pass(const struct items_table *t, struct own_columns *own,
                      const struct own_value *item, const struct own_value *condition) {
    if (t->rows)
        return items_rows_pass(t, own, item, condition);
    struct own_value *values = reallocarray(own->values, own->n, sizeof *values);
    if (!values)
        return false;
    own->values = values;
    own->by_region = false;
    own->copies = own->per_copy = 1;
    items_table_pass_cells(t, own, 0, t->cells);
    values[own->item] = *item;
    if (own->item + 1 < own->n)
        values[own->item + 1] = *condition;
    return true;
}

size_t items_table_column(const struct items_table *t, const char *name) {
    for (size_t i = 0; i < t->n_column; i++)
        if (strcmp(t->columns[i], name) == 0)
            return i;
    return NONE;
}

/* ---- Records ------------------------------------------------------------------------------ */

/* The cells of the record, or in the long form of the first row of its text. */
static const struct own_value *cells_of(const struct items_table *t) {
    return t->rows ? t->rows[t->text].cells : t->cells;
}

struct own_value items_table_cell(const struct items_table *t, size_t column) {
    return column == NONE ? (struct own_value){0} : cells_of(t)[column];
}

struct own_value items_table_value(const struct items_table *t, enum items_role role) {
    return items_table_cell(t, t->role[role]);
}

/* Whether the value is there and is text. */
static bool has_text(struct items_table *t, enum items_role role) {
    const struct own_value value =
        t->role[role] == NONE ? (struct own_value){0} : t->cells[t->role[role]];
    if (value.text ? !value.bare : value.bare || role == ROLE_CONTEXT)
        return true;
    items_table_wrong(t, value.text ? "%s is no string" : "there is no %s",
                      items_table_name(t, role));
    return false;
}

static bool has_name(struct items_table *t, enum items_role role) {
    if (t->role[role] == NONE)
        return true;
    const struct own_value value = t->cells[t->role[role]];
    if (value.text && !(value.bare && strchr("{[", *value.text)))
        return true;
    items_table_wrong(t, value.text ? "%s is no name" : "there is no %s",
                      items_table_name(t, role));
    return false;
}

/* Whether an object has what is needed; of fields all are there. */
static bool check_record(struct items_table *t) {
    if (!has_text(t, ROLE_CONTEXT))
        return false;
    if (t->pairs)
        return has_text(t, ROLE_GOOD) && has_text(t, ROLE_BAD);
    for (enum items_role i = ROLE_SECOND; i <= ROLE_QUESTION; i++)
        if (t->role[i] != NONE && !has_text(t, i))
            return false;
    return has_name(t, ROLE_ITEM) && has_name(t, ROLE_CONDITION) && has_text(t, ROLE_TEXT);
}

enum reading items_table_read(struct items_table *t) {
    bool objects = t->form == TABLE_OBJECTS, good = true;
    enum reading reading = objects ? read_object(t) : t->lines ? read_line(t) : read_fields(t);
    t->row++;
    if (reading == READ && objects)
        take_object(t);
    else if (reading == READ)
        good = take_fields(t);
    if (reading == READ && (!good || !check_record(t)))
        return WRONG;
    return reading;
}

bool items_table_next(struct items_table *t) {
    enum reading reading = WRONG;
    if (t->rows)
        return items_rows_next(t);
    while (reading == WRONG && !signals_stopped() && !t->input.failed)
        reading = items_table_read(t);
    if (reading == FAILED)
        return items_table_lacks_memory(t);
    return reading == READ && !signals_stopped() && !t->input.failed;
}

bool items_table_item(struct items_table *t, struct own_value *item) {
    *item = items_table_value(t, ROLE_ITEM);
    if (item->text)
        return true;
    struct own_value uid = items_table_value(t, ROLE_UID), pair = items_table_value(t, ROLE_PAIR);
    char line[32];
    int n =
        snprintf(line, sizeof line, "%" PRIu64, t->pairs || t->names->cloze ? t->record : t->row);
    t->item.length = 0;
    bool both = uid.text && pair.text;
    bool good = both ? buffer_append(&t->item, uid.text, uid.length) &&
                           buffer_append(&t->item, "-", 1) &&
                           buffer_append(&t->item, pair.text, pair.length)
                     : buffer_append(&t->item, line, (size_t)n);
    *item = (struct own_value){.text = t->item.data, .length = t->item.length};
    return good;
}

/* ---- Texts -------------------------------------------------------------------------------- */

bool items_table_text(struct items_table *t, enum items_role role, struct own_value *text) {
    *text = items_table_value(t, role);
    return !t->rows || t->whole || role != ROLE_TEXT || items_rows_join(t, text);
}

bool items_is_missing(const struct own_value *value) {
    static const char *const names[] = {"NA",  "N/A",  "n/a",  "#N/A", "#NA",  "<NA>", "NaN",
                                        "nan", "-NaN", "-nan", "NULL", "null", "None"};
    struct own_value bare = *value;
    if (!value->text)
        return value->bare;
    items_trim(&bare.text, &bare.length);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (bare.length == strlen(names[i]) && memcmp(bare.text, names[i], bare.length) == 0)
            return true;
    return false;
}

bool items_table_missing(struct items_table *t, const struct own_value *text) {
    if (!items_is_missing(text))
        return false;
    t->first_missing = t->missing++ == 0 ? t->record : t->first_missing;
    return true;
}

void items_table_note(const struct items_table *t) {
    if (t->missing > 0)
        terminal_note("%s: %" PRIu64 " %s missing (NA, NaN, #N/A, None, null) and not scored; the "
                      "first in line %" PRIu64,
                      t->input.name, t->missing, t->missing == 1 ? "text is" : "texts are",
                      t->first_missing);
    if (t->missing_contexts > 0)
        terminal_note("%s: %" PRIu64 " %s missing (NA, NaN, #N/A, None, null), and nothing is read "
                      "before %s",
                      t->input.name, t->missing_contexts,
                      t->missing_contexts == 1 ? "context is" : "contexts are",
                      t->missing_contexts == 1 ? "its text" : "their texts");
    items_rows_note(t);
}
