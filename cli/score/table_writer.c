/* Writes tables. */
#include "table_writer.h"

#include "cli/io/terminal.h"
#include "lib/base/error.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <unistr.h>

/* The longest text that is tested for characters that need quotes; a longer one is always
 * quoted. */
enum { PIECE = 1 << 15 };

/* ---- The file ----------------------------------------------------------------------------- */

bool table_is_standard_output(const char *path) {
    static const char *const names[] = {"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"};
    for (size_t i = 0; path && i < sizeof names / sizeof *names; i++)
        if (strcmp(path, names[i]) == 0)
            return true;
    return false;
}

static enum table_form form_of(const char *path, enum table_form form) {
    const char *dot = strrchr(path, '.');
    if (dot && strcasecmp(dot, ".csv") == 0)
        return TABLE_COMMAS;
    if (dot && strcasecmp(dot, ".tsv") == 0)
        return TABLE_TABS;
    return dot && strcasecmp(dot, ".jsonl") == 0 ? TABLE_OBJECTS : form;
}

/* Endings of files that a table could be taken for. */
static bool has_good_ending(const char *path) {
    static const char *const wrong[] = {".xlsx", ".xls", ".ods", ".json", ".parquet", ".zip"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof wrong / sizeof *wrong; i++)
        if (strcasecmp(dot, wrong[i]) == 0)
            return terminal_error("%s: a table is written as .csv, .tsv or .jsonl, not as %s", path,
                                  wrong[i]);
    return true;
}

static char separator(const struct table *table) {
    return table->form == TABLE_TABS ? '\t' : ',';
}

/* ---- Columns ------------------------------------------------------------------------------ */

static bool is_used(const struct buffer *used, const char *name) {
    for (size_t at = 0; at < used->length; at += strlen(used->data + at) + 1)
        if (strcmp(used->data + at, name) == 0)
            return true;
    return false;
}

static bool remember_name(struct buffer *used, const char *name) {
    return buffer_append(used, name, strlen(name) + 1);
}

/* Adds the name of a column to the header, or as the key of an object. */
static bool put_name(struct table *table, struct buffer *keys, const char *name, size_t length) {
    table->n_column++;
    if (table->form != TABLE_OBJECTS) {
        table_text(table, name, length);
        return true;
    }
    json_t *string = output_json_bytes(name, length);
    char *text = string ? output_json_text(string, JSON_ENCODE_ANY) : NULL;
    bool good = text && buffer_append(keys, text, strlen(text)) && buffer_append(keys, ":", 2);
    free(text);
    return good;
}

/* Adds the names of the own columns.  One that another column has gets a number, as R and pandas
 * give it; those that the program named keep theirs. */
static bool put_own(struct table *table, struct buffer *keys, struct buffer *used,
                    const struct own_columns *own) {
    bool good = true;
    for (size_t i = own->n - own->fixed; i < own->n && good; i++)
        good = remember_name(used, own->names[i]);
    for (size_t i = 0; i < own->n && good; i++) {
        size_t room = strlen(own->names[i]) + 24;
        char *name = malloc(room);
        good = name && snprintf(name, room, "%s", own->names[i]) >= 0;
        for (unsigned k = 1; good && i + own->fixed < own->n && is_used(used, name); k++)
            snprintf(name, room, "%s.%u", own->names[i], k);
        good = good && remember_name(used, name) && put_name(table, keys, name, strlen(name));
        free(name);
    }
    return good;
}

/* Prints the header, or makes the keys of the objects. */
static bool set_columns(struct table *table, const char *columns, const struct own_columns *own) {
    struct buffer used = {0}, keys = {0};
    bool good = true;
    table->verbatim = true;
    const char *const end = strchr(columns, '\n') ? "\n" : " ";
    for (const char *at = columns; *at != '\0' && good; at += strcspn(at, end), at += *at == *end) {
        size_t length = strcspn(at, end);
        good = buffer_append(&used, at, length) && buffer_append(&used, "", 1);
    }
    for (const char *at = columns; *at != '\0' && good; at += strcspn(at, end), at += *at == *end)
        if (*at != '*')
            good = put_name(table, &keys, at, strcspn(at, end));
        else if (own)
            good = put_own(table, &keys, &used, own);
    buffer_free(&used);
    table->verbatim = false;
    table->name = table->names = keys.data;
    if (good && table->form != TABLE_OBJECTS)
        good = !table_end_row(table);
    return good;
}

static void drop_held(struct table *table) {
    if (table->held.stream)
        fclose(table->held.stream);
    free(table->held.text);
    free(table->held.rows);
    table->held = (struct held_rows){0};
    table->out = table->file.stream;
}

bool table_open(struct table *table, const char *path, const char *columns,
                const struct own_columns *own, enum table_form form) {
    *table = (struct table){.form = form_of(path, form), .mark = -1};
    if (!has_good_ending(path) || !outfile_open(&table->file, path))
        return false;
    table->out = table->file.stream;
    if (set_columns(table, columns, own))
        return true;
    if (!output_failed() && !output_closed())
        terminal_error("out of memory");
    return false;
}

void table_abandon(struct table *table) {
    drop_held(table);
    outfile_abandon(&table->file);
    buffer_free(&table->field);
    free(table->names);
    table->names = NULL;
}

void table_mark(struct table *table) {
    if (!table->file.stream)
        return;
    bool whole = table->file.is_whole && fflush(table->file.stream) == 0;
    table->mark = whole ? ftello(table->file.stream) : -1;
}

void table_take_back(struct table *table) {
    if (!table->file.stream)
        return;
    table->in_row = false;
    table->name = table->names;
    table->n_partial = table->n_field = 0;
    if (table->mark < 0 || fflush(table->file.stream) != 0)
        return;
    if (ftruncate(outfile_handle(&table->file), table->mark) == 0)
        fseeko(table->file.stream, table->mark, SEEK_SET);
}

/* ---- Fields ------------------------------------------------------------------------------- */

static void begin_field(struct table *table) {
    FILE *stream = table->out;
    table->n_field++;
    if (table->form == TABLE_OBJECTS)
        fprintf(stream, "%s%s", table->in_row ? "," : "{", table->name);
    else if (table->in_row)
        putc(separator(table), stream);
    table->in_row = true;
    if (table->form == TABLE_OBJECTS)
        table->name += strlen(table->name) + 1;
}

void table_integer(struct table *table, uint64_t value) {
    begin_field(table);
    fprintf(table->out, "%" PRIu64, value);
}

/* JSON has no infinity, the logarithm of 0. */
void table_real(struct table *table, double value) {
    begin_field(table);
    bool finite = value - value == 0;
    fprintf(table->out, finite || table->form != TABLE_OBJECTS ? "%.9g" : "null", value);
}

void table_unknown(struct table *table) {
    begin_field(table);
    fputs(table->form == TABLE_OBJECTS ? "null" : "", table->out);
}

txl_status table_end_row(struct table *table) {
    struct held_rows *held = &table->held;
    assert(table->n_field == table->n_column);
    table->n_field = 0;
    fputs(table->form == TABLE_OBJECTS ? "}\n" : "\n", table->out);
    table->in_row = false;
    table->name = table->names;
    if (held->stream)
        held->rows[held->n++].end = (size_t)ftello(held->stream);
    return outfile_usable(&table->file) ? TXL_OK : TXL_STOPPED;
}

/* ---- Text --------------------------------------------------------------------------------- */

/* Adds bytes to the field, escaped.  A piece may end inside a character, whose rest follows, unless
 * it is the `last` one. */
static bool add_escaped(struct table *table, const char *text, size_t length, bool last) {
    char escape[8];
    bool good = true;
    for (size_t i = 0; i < length && good;) {
        ucs4_t character = 0;
        size_t left = length - i;
        int used = u8_mbtoucr(&character, (const uint8_t *)text + i, left);
        if (used == -2 && !last && left < sizeof table->partial) {
            memcpy(table->partial, text + i, left);
            table->n_partial = left;
            return true;
        }
        if (used < 1 || character == 0 || (character == '\\' && !table->verbatim)) {
            int n = used < 1 || character == 0
                        ? snprintf(escape, sizeof escape, "\\x%02X", (unsigned char)text[i])
                        : snprintf(escape, sizeof escape, "\\\\");
            good = buffer_append(&table->field, escape, (size_t)n);
            used = 1;
        } else {
            good = buffer_append(&table->field, text + i, (size_t)used);
        }
        i += (size_t)used;
    }
    return good;
}

/* The same after an incomplete character at the end of the piece before. */
static bool add_piece(struct table *table, const char *text, size_t length, bool last) {
    char joined[2 * sizeof table->partial];
    size_t held = table->n_partial, taken = 0;
    table->n_partial = 0;
    if (held > 0) {
        ucs4_t character;
        taken = length < sizeof table->partial ? length : sizeof table->partial;
        memcpy(joined, table->partial, held);
        memcpy(joined + held, text, taken);
        int used = u8_mbtoucr(&character, (const uint8_t *)joined, held + taken);
        if (used != -2)
            taken = used > (int)held ? (size_t)used - held : 0;
        if (!add_escaped(table, joined, held + taken, used != -2 || (last && taken == length)))
            return false;
    }
    return add_escaped(table, text + taken, length - taken, last);
}

static bool needs_quotes(const struct table *table) {
    for (size_t i = 0; i < table->field.length; i++) {
        unsigned char c = (unsigned char)table->field.data[i];
        if (c < ' ' || c == 127 || c == '"' || c == (unsigned char)separator(table))
            return true;
    }
    return false;
}

static void put_quoted(const struct table *table) {
    for (size_t i = 0; i < table->field.length; i++) {
        if (table->field.data[i] == '"')
            putc('"', table->out);
        putc(table->field.data[i], table->out);
    }
}

static bool put_json(struct table *table) {
    json_t *string = json_stringn(table->field.data ? table->field.data : "", table->field.length);
    char *text = string ? output_json_text(string, JSON_ENCODE_ANY) : NULL;
    if (!text)
        return false;
    fwrite(text + 1, 1, strlen(text) - 2, table->out); /* without its quotes */
    free(text);
    return true;
}

/* Writes what the field has so far. */
static bool put_field(struct table *table, bool quoted) {
    bool good = true;
    if (table->form == TABLE_OBJECTS)
        good = put_json(table);
    else if (quoted)
        put_quoted(table);
    else
        fwrite(table->field.data ? table->field.data : "", 1, table->field.length, table->out);
    table->field.length = 0;
    return good;
}

static void put_quote(struct table *table, bool quoted) {
    if (quoted || table->form == TABLE_OBJECTS)
        putc('"', table->out);
}

void table_text(struct table *table, const char *text, size_t length) {
    begin_field(table);
    bool good = add_piece(table, text, length, true), quoted = needs_quotes(table);
    put_quote(table, quoted);
    if (!good || !put_field(table, quoted))
        output_lacks_memory();
    put_quote(table, quoted);
}

/* Remembers that the own columns belong here in a row that is held. */
static void leave_room(struct table *table, const struct own_columns *own, size_t region) {
    struct held_rows *held = &table->held;
    if (held->n == held->room) {
        size_t room = 2 * held->room + 64;
        struct held_row *rows = reallocarray(held->rows, room, sizeof *rows);
        if (!rows) {
            output_lacks_memory();
            held->n = 0; /* no output is put in place any more */
        } else {
            held->rows = rows;
            held->room = room;
        }
    }
    size_t begin = held->n > 0 ? held->rows[held->n - 1].end : 0;
    held->rows[held->n] = (struct held_row){.begin = begin,
                                            .own = (size_t)ftello(held->stream),
                                            .region = own->by_region ? region : 0,
                                            .name = table->name,
                                            .in_row = table->in_row};
    table->in_row = true;
    table->n_field += own->n;
    for (size_t i = 0; i < own->n && table->form == TABLE_OBJECTS; i++)
        table->name += strlen(table->name) + 1;
}

txl_status table_hold(struct table *table, const struct own_columns *own) {
    if (!table->file.stream)
        return TXL_OK;
    drop_held(table);
    if (!own || own->copies < 2)
        return TXL_OK;
    table->held.rows = calloc(64, sizeof *table->held.rows);
    table->held.room = 64;
    table->held.stream = open_memstream(&table->held.text, &table->held.length);
    if (!table->held.stream || !table->held.rows) {
        output_lacks_memory();
        return TXL_STOPPED;
    }
    table->out = table->held.stream;
    return TXL_OK;
}

txl_status table_repeat(struct table *table, const struct own_columns *own) {
    if (!table->held.stream)
        return TXL_OK;
    /* Sets its text: NULL, without an error, if there was no memory. */
    bool good = (fclose(table->held.stream) == 0 && table->held.text) || output_lacks_memory();
    const struct held_rows held = table->held;
    table->held = (struct held_rows){0};
    table->out = table->file.stream;
    for (size_t copy = 0; copy < own->copies && good; copy++)
        for (size_t i = 0; i < held.n && good; i++) {
            const struct held_row *row = &held.rows[i];
            size_t at = copy * own->per_copy + row->region;
            if (own->there && !own->there[at])
                continue;
            fwrite(held.text + row->begin, 1, row->own - row->begin, table->out);
            table->in_row = row->in_row;
            table->name = row->name;
            table_own(table, own, at);
            fwrite(held.text + row->own, 1, row->end - row->own, table->out);
            good = outfile_usable(&table->file);
        }
    table->in_row = false;
    table->name = table->names;
    table->n_field = 0;
    free(held.text);
    free(held.rows);
    return good ? TXL_OK : TXL_STOPPED;
}

void table_own(struct table *table, const struct own_columns *own, size_t region) {
    if (own && table->held.stream) {
        leave_room(table, own, region);
        return;
    }
    for (size_t i = 0; own && i < own->n; i++) {
        const struct own_value *value = &own->values[region * own->n + i];
        if (!value->text) {
            table_unknown(table);
        } else if (value->bare && table->form == TABLE_OBJECTS) {
            begin_field(table);
            fwrite(value->text, 1, value->length, table->out);
        } else {
            table->verbatim = true;
            table_text(table, value->text, value->length);
            table->verbatim = false;
        }
    }
}

txl_status table_source(struct table *table, struct source *source, uint64_t offset,
                        uint64_t length, txl_error *error) {
    bool quoted = length > PIECE, begun = false;
    begin_field(table);
    for (uint64_t done = 0; done < length;) {
        const char *bytes;
        size_t n;
        txl_status status = source_get(source, offset + done, length - done, &bytes, &n, error);
        if (status)
            return status;
        if (n == 0)
            return txl_fail(error, TXL_IO, "became shorter while it was scored");
        n = n < PIECE ? n : PIECE;
        done += n;
        if (!add_piece(table, bytes, n, done == length))
            return txl_fail(error, TXL_MEMORY, "out of memory");
        if (done < length && length <= PIECE)
            continue; /* the end of a block: all of it is tested for characters that need quotes */
        quoted = quoted || needs_quotes(table);
        if (!begun)
            put_quote(table, quoted);
        begun = true;
        if (!put_field(table, quoted))
            return txl_fail(error, TXL_MEMORY, "out of memory");
    }
    if (!begun)
        put_quote(table, quoted);
    put_quote(table, quoted);
    return TXL_OK;
}
