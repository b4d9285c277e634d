/* Reads a text, or ids, as tokens; counts its unknown symbols, and blanks that change a
 * number unseen. */
#include "tokens.h"
#include "cli/io/clean.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/base/secret.h"
#include "lib/base/white_space.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistr.h>
#include <xxhash.h>

enum kind { BEGINNING, END, ROW, WIDE, NO_BREAK, ZERO_WIDTH, SOFT_HYPHEN };

/* Whether a model reads the kind: whether it spells `with` otherwise than `without`, where the unit
 * is a line and where it is a text. */
static const struct {
    const char *name;
    struct {
        const char *with, *without;
    } line, text;
} kinds[BLANK_KINDS] = {
    [BEGINNING] = {"at the beginning", {"a\n a", "a\na"}, {" a", "a"}},
    [END] = {"at the end", {"a \na", "a\na"}, {"a ", "a"}},
    [ROW] = {"several in a row", {"a  a", "a a"}, {"a  a", "a a"}},
    [WIDE] = {"tabs and wide spaces", {"a\ta", "a a"}, {"a\ta", "a a"}},
    [NO_BREAK] = {"no-break spaces", {"a\u00a0a", "a a"}, {"a\u00a0a", "a a"}},
    [ZERO_WIDTH] = {"zero-width spaces", {"a\u200ba", "aa"}, {"a\u200ba", "aa"}},
    [SOFT_HYPHEN] = {"soft hyphens", {"a\u00ada", "aa"}, {"a\u00ada", "aa"}},
};

/* ---- Counting ----------------------------------------------------------------------------- */

void blanks_start(struct blanks *b, bool by_line, bool inside) {
    *b = (struct blanks){.by_line = by_line, .inside = inside, .line = 1};
}

static void end_blank_line(struct blanks *b) {
    if (b->n_space > 0)
        b->has |= 1u << END;
    b->n_space = 0;
    b->solid = b->carriage = false;
}

static void end_unit(struct blanks *b) {
    const unsigned within = 1u << BEGINNING | 1u << ROW | 1u << WIDE;
    unsigned has = b->inside ? b->has : b->has & ~within;
    if (b->n[has]++ == 0)
        b->first[has] = b->line;
    b->units++;
    b->has = 0;
    b->begun = false;
}

static void take_space(struct blanks *b, bool wide) {
    b->wide = wide;
    b->n_space++;
}

/* Takes a character that is no white space. */
static void take_letter(struct blanks *b, ucs4_t code) {
    bool mark = code == BYTE_ORDER_MARK_CODE && !b->begun && (b->units == 0 || !b->by_line);
    if (b->n_space > 0 && !b->solid)
        b->has |= 1u << BEGINNING;
    else if (b->n_space > 0)
        b->has |= b->n_space > 1 ? 1u << ROW : b->wide ? 1u << WIDE : 0;
    bool zero = (code >= 0x200b && code <= 0x200d) || code == 0x2060 || code == 0xfeff;
    if (zero && !mark)
        b->has |= 1u << ZERO_WIDTH;
    if (code == 0xad)
        b->has |= 1u << SOFT_HYPHEN;
    b->n_space = 0;
    b->solid = b->solid || !mark;
}

static void take_code(struct blanks *b, ucs4_t code) {
    if (b->carriage && code != '\n')
        take_space(b, true);
    b->carriage = code == '\r';
    bool no_break = code == 0xa0 || code == 0x2007 || code == 0x202f;
    if (no_break)
        b->has |= 1u << NO_BREAK;
    if (code == '\n')
        end_blank_line(b);
    else if (code != '\r' && is_space_code(code))
        take_space(b, code != ' ' && !no_break);
    else if (code != '\r')
        take_letter(b, code);
    b->begun = true;
    if (code == '\n' && b->by_line)
        end_unit(b);
    b->line += code == '\n' && b->by_line;
}

void blanks_see(struct blanks *b, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        b->held[b->n_held++] = text[i];
        for (size_t n; b->n_held > 0; b->n_held -= n) {
            enum utf8_what what;
            ucs4_t code = 0xfffd;
            n = utf8_first(b->held, b->n_held, &what);
            if (what == UTF8_CUT)
                break;
            if (what == UTF8_CHARACTER)
                u8_mbtoucr(&code, (const uint8_t *)b->held, n);
            take_code(b, code);
            memmove(b->held, b->held + n, b->n_held - n);
        }
    }
}

void blanks_join(struct blanks *b) {
    take_code(b, ' ');
    if (b->by_line)
        end_unit(b);
    b->line += b->by_line;
}

void blanks_go_on(struct blanks *b) {
    b->solid = b->begun = true;
}

void blanks_end(struct blanks *b) {
    if (b->n_held > 0)
        take_code(b, 0xfffd);
    b->n_held = 0;
    if (b->carriage)
        take_space(b, true);
    end_blank_line(b);
    if (b->begun || !b->by_line)
        end_unit(b);
}

/* ---- Telling ------------------------------------------------------------------------------ */

static txl_status add_spelling(void *context, const txl_symbol *symbol, txl_error *error) {
    (void)error;
    bool good = !symbol->text || (buffer_append(context, symbol->text, symbol->length) &&
                                  buffer_append(context, "", 1));
    return good ? TXL_OK : TXL_MEMORY;
}

static bool spell(const txl_model *model, bool raw, const char *text, struct buffer *spelling) {
    const txl_encoding how = {.raw = raw, .symbol = add_spelling, .context = spelling};
    txl_encoder *encoder = NULL;
    txl_error error;
    bool good = !txl_encoder_new(model, &how, &encoder, &error) &&
                !txl_encoder_feed(encoder, text, strlen(text), &error) &&
                !txl_encoder_finish(encoder, &error);
    txl_encoder_free(encoder);
    return good;
}

/* Finds the kinds that the model reads; false when memory is short. */
static bool find_read(const struct blanks *b, const txl_model *model, bool raw, unsigned *read) {
    bool good = true;
    *read = 0;
    for (unsigned i = 0; i < BLANK_KINDS && good; i++) {
        struct buffer with = {0}, without = {0};
        good =
            spell(model, raw, b->by_line ? kinds[i].line.with : kinds[i].text.with, &with) &&
            spell(model, raw, b->by_line ? kinds[i].line.without : kinds[i].text.without, &without);
        bool same = good && with.length == without.length &&
                    memcmp(with.data, without.data, with.length) == 0;
        *read |= same ? 0 : 1u << i;
        buffer_free(&with);
        buffer_free(&without);
    }
    return good;
}

bool blanks_note(const struct blanks *b, const char *name, const txl_model *model, bool raw) {
    char list[256];
    struct fixed_line line = fixed_line(list, sizeof list);
    uint64_t n = 0, first = UINT64_MAX, of[BLANK_KINDS] = {0};
    unsigned read;
    if (b->n[0] == b->units)
        return true;
    if (!find_read(b, model, raw, &read))
        return terminal_error("out of memory");
    for (unsigned set = 1; set < 1u << BLANK_KINDS; set++) {
        if (!(set & read) || b->n[set] == 0)
            continue;
        n += b->n[set];
        first = b->first[set] < first ? b->first[set] : first;
        for (unsigned i = 0; i < BLANK_KINDS; i++)
            of[i] += set & read & 1u << i ? b->n[set] : 0;
    }
    for (unsigned i = 0; i < BLANK_KINDS; i++)
        if (of[i] > 0)
            fixed_line_add(&line, "%s%s (%" PRIu64 ")", line.length > 0 ? ", " : "", kinds[i].name,
                           of[i]);
    bool drops =
        b->by_line && !b->inside && of[END] > 0 && !txl_kind_takes_bytes(txl_model_kind(model));
    if (n > 0)
        terminal_note(
            "%s: %" PRIu64 " of %" PRIu64 " %s ha%s spaces that change the result: %s; "
            "the first in line %" PRIu64 "%s",
            name, n, b->units, b->by_line ? "lines" : "texts", n == 1 ? "s" : "ve", list, first,
            drops ? ". --unwrap drops those at the ends of lines, and joins wrapped lines" : "");
    return true;
}

/* Counts unknown symbols in constant memory. */

/* ---- Unknown symbols ----------------------------------------------------------------------- */

/* The most symbols that a note names. */
enum { NAMED = 5 };

void unknown_reset(struct unknown *unknown) {
    unknown->n = unknown->line = unknown->column = 0;
    unknown->n_names = 0;
}

/* Where the symbol stands in the hash table, or would. */
static uint16_t *find_name(struct unknown *unknown, const txl_symbol *symbol) {
    const size_t n_place = sizeof unknown->table / sizeof *unknown->table;
    const size_t kept = symbol->length < UNKNOWN_BYTES ? symbol->length : UNKNOWN_BYTES;
    uint64_t hash = XXH3_64bits_withSeed(symbol->text, symbol->length, unknown->secret);
    for (;; hash++) {
        uint16_t *place = &unknown->table[hash % n_place];
        const struct unknown_name *name = *place ? &unknown->names[*place - 1] : NULL;
        if (!name ||
            (name->length == symbol->length && memcmp(name->text, symbol->text, kept) == 0))
            return place;
    }
}

void unknown_add(void *context, const txl_symbol *symbol, uint64_t column) {
    struct unknown *unknown = context;
    if (unknown->n++ == 0) {
        memset(unknown->table, 0, sizeof unknown->table);
        unknown->secret = secret_number();
        unknown->line = symbol->line;
        unknown->column = column;
    }
    uint16_t *place = find_name(unknown, symbol);
    if (*place) {
        unknown->names[*place - 1].n++;
    } else if (unknown->n_names < UNKNOWN_NAMES) {
        struct unknown_name *name = &unknown->names[unknown->n_names++];
        *place = (uint16_t)unknown->n_names;
        *name = (struct unknown_name){.length = symbol->length, .n = 1};
        memcpy(name->text, symbol->text,
               symbol->length < UNKNOWN_BYTES ? symbol->length : UNKNOWN_BYTES);
    }
}

/* The most frequent symbol that is not among the `n` named ones; the first of equally frequent
 * ones. */
static const struct unknown_name *commonest(const struct unknown *unknown,
                                            const struct unknown_name *const *named, size_t n) {
    const struct unknown_name *best = NULL;
    for (size_t i = 0; i < unknown->n_names; i++) {
        const struct unknown_name *name = &unknown->names[i];
        bool taken = false;
        for (size_t k = 0; k < n; k++)
            taken = taken || named[k] == name;
        if (!taken && (!best || name->n > best->n))
            best = name;
    }
    return best;
}

/* Invisible characters are written by their number; long names are cut. */
static void add_name(struct fixed_line *line, const struct unknown_name *name) {
    size_t kept = name->length < UNKNOWN_BYTES ? name->length : UNKNOWN_BYTES - 1;
    while (kept < name->length && ((unsigned char)name->text[kept] & 0xc0) == 0x80)
        kept--; /* a whole character */
    fixed_line_add(line, "'");
    for (size_t i = 0; i < kept; i++) {
        unsigned char c = (unsigned char)name->text[i];
        fixed_line_add(line, c < ' ' || c == 127 ? "\\x%02X" : "%c", c);
    }
    fixed_line_add(line, "'%s (%" PRIu64 ")", kept < name->length ? "..." : "", name->n);
}

void unknown_note(const struct unknown *unknown, const char *text, bool replaced) {
    const struct unknown_name *named[NAMED];
    char names[2048]; /* a note needs no memory */
    struct fixed_line line = fixed_line(names, sizeof names);
    size_t n = 0;
    if (unknown->n == 0)
        return;
    for (; n < NAMED && (named[n] = commonest(unknown, named, n)); n++) {
        fixed_line_add(&line, "%s", n > 0 ? ", " : "");
        add_name(&line, named[n]);
    }
    if (unknown->n_names > n)
        fixed_line_add(&line, " and %zu%s others", unknown->n_names - n,
                       unknown->n_names == UNKNOWN_NAMES ? " or more" : "");
    terminal_note("%s: %" PRIu64 " symbol%s that the vocabulary lacks %s %s: %s; the first in line "
                  "%" PRIu64 ", column %" PRIu64,
                  text, unknown->n, unknown->n == 1 ? "" : "s", unknown->n == 1 ? "was" : "were",
                  replaced ? "replaced" : "left out", line.text, unknown->line, unknown->column);
}

/* Text or decimal ids to tokens. */

/* ---- Reading ------------------------------------------------------------------------------- */

/* Bytes between two looks at the progress and at Ctrl-C. */
enum { READ_BYTES = 1 << 16, FEED_BYTES = 512 };

/* ---- How a text is split ------------------------------------------------------------------ */

const char *const text_forms[] = {"raw", "tokens", NULL};

static bool is_words(txl_kind kind) {
    return txl_kind_unit(kind) == TXL_UNIT_WORD;
}

const char *text_form(const txl_model *model, int form, bool ids) {
    return ids ? "ids" : is_words(txl_model_kind(model)) ? text_forms[form] : "-";
}

bool text_form_choose(txl_kind kind, int asked, int standard, int *form) {
    *form = asked == CHOICE_UNSET ? standard : asked;
    if (asked == CHOICE_UNSET || is_words(kind))
        return true;
    return terminal_error(
        "--text %s is for models of words; this model's text is split in one way only",
        text_forms[asked]);
}

/* ---- Decimal ids -------------------------------------------------------------------------- */

static txl_status bad_id(const struct id_parser *ids, const char *what, txl_error *error) {
    return txl_fail(error, TXL_TEXT, "line %" PRIu64 ", column %" PRIu64 ": %s", ids->line,
                    ids->start, what);
}

static struct id_parser start_of_ids(const txl_model *model) {
    return (struct id_parser){.model = model, .line = 1, .column = 1, .number = -1};
}

static txl_status end_number(struct token_reader *reader, txl_error *error) {
    struct id_parser *ids = &reader->ids;
    if (ids->number < 0)
        return TXL_OK;
    if (ids->number >= txl_model_n_token(ids->model)) {
        char what[80];
        snprintf(what, sizeof what, "an id from 0 to %" PRId32 " was expected",
                 txl_model_n_token(ids->model) - 1);
        return bad_id(ids, what, error);
    }
    txl_symbol symbol = {.id = (int32_t)ids->number,
                         .line = ids->line,
                         .offset = ids->begin,
                         .bytes = ids->offset - ids->begin};
    symbol.text = txl_model_symbol(ids->model, symbol.id, &symbol.length);
    ids->number = -1;
    return reader->encoding.symbol(reader->encoding.context, &symbol, error);
}

static txl_status end_line(struct token_reader *reader, txl_error *error) {
    txl_status status = end_number(reader, error);
    if (!status) {
        const txl_symbol line_end = {
            .id = -1, .line = reader->ids.line, .offset = reader->ids.offset};
        status = reader->encoding.symbol(reader->encoding.context, &line_end, error);
    }
    reader->ids.line++;
    reader->ids.column = 0;
    return status;
}

static txl_status feed_character(struct token_reader *reader, char c, txl_error *error) {
    struct id_parser *ids = &reader->ids;
    txl_status status = TXL_OK;
    if (c >= '0' && c <= '9') {
        if (ids->number < 0) {
            ids->number = 0;
            ids->start = ids->column;
            ids->begin = ids->offset;
        }
        if (ids->number <= INT32_MAX) /* beyond this every number is wrong */
            ids->number = 10 * ids->number + (c - '0');
    } else if (c == '\n') {
        status = end_line(reader, error);
    } else if (is_space_byte(c)) {
        status = end_number(reader, error);
    } else {
        ids->start = ids->column;
        return bad_id(ids, "a decimal id was expected", error);
    }
    ids->column++;
    ids->offset++;
    return status;
}

static txl_status feed_ids(struct token_reader *reader, const char *text, size_t length,
                           txl_error *error) {
    txl_status status = TXL_OK;
    for (size_t i = 0; i < length && !status; i++)
        status = feed_character(reader, text[i], error);
    return status;
}

/* Ends an unterminated last line of a corpus; a prompt's last line stays open. */
static txl_status finish_ids(struct token_reader *reader, txl_error *error) {
    if (reader->ids.column == 1)
        return TXL_OK;
    return reader->encoding.prompt ? end_number(reader, error) : end_line(reader, error);
}

/* ---- Either ------------------------------------------------------------------------------- */

bool tokens_open_input(struct input *input, const char *path, const txl_model *model, bool ids,
                       const struct input_form *form) {
    bool bytes = txl_kind_takes_bytes(txl_model_kind(model)) && !ids;
    return input_open_text(input, path, bytes, form);
}

bool tokens_allow_unwrap(txl_kind kind, const struct common_options *common) {
    bool good = !common->unwrap || !txl_kind_takes_bytes(kind);
    if (!good)
        terminal_error("--unwrap joins lines, but this model reads bytes");
    return good;
}

void tokens_unwrap(struct input *input, txl_kind kind, bool unwrap) {
    if (txl_kind_takes_bytes(kind))
        return;
    const struct wrap wrap = input_wrap(input);
    if (unwrap)
        input->wrap = wrap.width;
    if (unwrap && wrap.doubtful)
        terminal_note("%s: --unwrap joins few of its lines: by the longest one, line %" PRIu64
                      ", they are wrapped at %u columns",
                      input->name, wrap.line, wrap.width);
    else if (unwrap && wrap.unbroken && txl_kind_line_end(kind) != TXL_LINE_END_SPACE)
        terminal_note("%s: many of its lines are wider than %d columns, so they look unwrapped; "
                      "--unwrap joins each with the next",
                      input->name, WRAP_MOST);
    if (!unwrap && wrap.seen && txl_kind_line_end(kind) != TXL_LINE_END_SPACE)
        terminal_note("%s: its lines look wrapped at %u columns; --unwrap joins those of a "
                      "paragraph",
                      input->name, wrap.width);
}

bool tokens_open_text(struct input *input, const char *path, const txl_model *model, bool ids,
                      const struct common_options *common) {
    if (!tokens_open_input(input, path, model, ids, &common->form))
        return false;
    if (!ids)
        tokens_unwrap(input, txl_model_kind(model), common->unwrap);
    return true;
}

static txl_status take_text(void *context, const char *text, size_t length, txl_error *error) {
    struct token_reader *reader = context;
    if (reader->blanks)
        blanks_see(reader->blanks, text, length);
    return txl_encoder_feed(reader->encoder, text, length, error);
}

static txl_status take_join(void *context, unsigned bytes, txl_error *error) {
    struct token_reader *reader = context;
    if (reader->blanks)
        blanks_join(reader->blanks);
    return txl_encoder_join(reader->encoder, bytes, error);
}

static txl_status take_line_end(void *context, unsigned bytes, txl_error *error) {
    struct token_reader *reader = context;
    if (reader->blanks)
        blanks_see(reader->blanks, "\n", 1);
    return txl_encoder_end_line(reader->encoder, bytes, error);
}

bool token_reader_open(struct token_reader *reader, const txl_model *model, struct input *input,
                       const struct txl_encoding *encoding, bool ids) {
    *reader =
        (struct token_reader){.input = input,
                              .encoding = *encoding,
                              .takes_bytes = ids || txl_kind_takes_bytes(txl_model_kind(model)),
                              .ids = start_of_ids(model)};
    txl_error error;
    if (!ids && txl_encoder_new(model, encoding, &reader->encoder, &error))
        return terminal_error("%s", error.message);
    reader->unwrapper = (struct unwrapper){
        .width = input->wrap, .text = take_text, .join = take_join, .end = take_line_end};
    return true;
}

static txl_status reader_report(const struct token_reader *reader, txl_status status,
                                const txl_error *error) {
    const char *message = error->message;
    char where[32] = "";
    int within = 0; /* the length of the place within the text that `line` replaces */
    if (reader->line > 0)
        sscanf(message, "line %*u, %n", &within);
    if (within > 0)
        snprintf(where, sizeof where, "line %" PRIu64 ", ", reader->line);
    if (status == TXL_TEXT && reader->problem)
        snprintf(reader->problem, reader->n_problem, "%s", message);
    else if (status && status != TXL_STOPPED)
        terminal_error("%s: %s%s%s", reader->input->name, reader->where ? reader->where : "", where,
                       message + within);
    return status;
}

static txl_status pass_on(struct token_reader *reader, const char *text, size_t length,
                          txl_error *error) {
    return reader->encoder ? txl_encoder_feed(reader->encoder, text, length, error)
                           : feed_ids(reader, text, length, error);
}

/* Passes on the text itself, whose lines may be joined. */
static txl_status pass_lines(struct token_reader *reader, const char *text, size_t length,
                             txl_error *error) {
    reader->unwrapper.context = reader;
    return reader->encoder ? unwrap_feed(&reader->unwrapper, text, length, error)
                           : feed_ids(reader, text, length, error);
}

/* Passes on what is before the text, and the text's start. */
static txl_status begin_text(struct token_reader *reader, txl_error *error) {
    reader->mark = reader->takes_bytes ? 0 : byte_order_mark_length(reader->first, reader->n_first);
    const char *first = reader->first + reader->mark;
    size_t n = reader->n_first - (size_t)reader->mark;
    bool parted =
        n == 0 || space_length(first, n) > 0 || space_at_end(reader->before, reader->n_before) > 0;
    reader->begun = true;
    reader->prefix = reader->n_before + !parted;
    if (reader->blanks && reader->before[reader->n_before - 1] != '\n')
        blanks_go_on(reader->blanks);
    txl_status status = pass_on(reader, reader->before, reader->n_before, error);
    if (!status && !parted)
        status = pass_on(reader, " ", 1, error);
    return status ? status : pass_lines(reader, first, n, error);
}

/* Passes on the text, after what is before it. */
static txl_status pass_text(struct token_reader *reader, const char *text, size_t length,
                            txl_error *error) {
    txl_status status = TXL_OK;
    if (reader->n_before > 0 && !reader->begun) {
        while (length > 0 && reader->n_first < sizeof reader->first) {
            reader->first[reader->n_first++] = *text++;
            length--;
        }
        if (reader->n_first < sizeof reader->first)
            return TXL_OK;
        status = begin_text(reader, error);
    }
    return status ? status : pass_lines(reader, text, length, error);
}

txl_status token_reader_feed(struct token_reader *reader, const char *text, size_t length) {
    txl_error error = {0};
    reader->fed += length;
    txl_status status = TXL_OK;
    if (reader->see_text)
        status = reader->see_text(reader->encoding.context, text, length, &error);
    if (!status)
        status = pass_text(reader, text, length, &error);
    return reader_report(reader, status, &error);
}

txl_status token_reader_next_text(struct token_reader *reader, unsigned width) {
    txl_error error = {0};
    reader->unwrapper.context = reader;
    return reader_report(reader, unwrap_finish(&reader->unwrapper, width, &error), &error);
}

static txl_status finish_text(struct token_reader *reader) {
    txl_error error = {0};
    txl_status status = TXL_OK;
    if (reader->n_before > 0 && !reader->begun)
        status = begin_text(reader, &error);
    reader->unwrapper.context = reader;
    if (!status && reader->encoder)
        status = unwrap_finish(&reader->unwrapper, reader->unwrapper.width, &error);
    if (!status)
        status = reader->encoder ? txl_encoder_finish(reader->encoder, &error)
                                 : finish_ids(reader, &error);
    return reader_report(reader, status, &error);
}

void token_reader_end(struct token_reader *reader) {
    txl_encoded counts;
    reader->ended = true;
    token_reader_counts(reader, &counts);
    if (counts.invalid > 0)
        terminal_note("%s: %" PRIu64 " invalid UTF-8 sequence%s read as U+FFFD",
                      reader->input->name, counts.invalid, counts.invalid == 1 ? " was" : "s were");
}

txl_status token_reader_finish(struct token_reader *reader) {
    txl_status status = finish_text(reader);
    if (!status)
        token_reader_end(reader);
    return status;
}

txl_status token_reader_end_text(struct token_reader *reader) {
    txl_status status = finish_text(reader);
    reader->ids = start_of_ids(reader->ids.model);
    reader->begun = false;
    reader->n_first = 0;
    reader->prefix = reader->mark = 0;
    return status;
}

txl_status token_reader_run(struct token_reader *reader, void (*progress)(void *), void *context) {
    char buffer[READ_BYTES];
    txl_status status = TXL_OK;
    ssize_t n;
    while (!status && (n = input_read(reader->input, buffer, sizeof buffer)) != 0) {
        if (n < 0)
            return TXL_IO;
        for (size_t i = 0; !status && i < (size_t)n; i += FEED_BYTES) {
            size_t left = (size_t)n - i;
            status = token_reader_feed(reader, buffer + i, left < FEED_BYTES ? left : FEED_BYTES);
            if (progress)
                progress(context);
            if (!status && signals_stopped())
                status = TXL_STOPPED;
        }
    }
    if (!status && signals_stopped())
        return TXL_STOPPED;
    return status ? status : token_reader_finish(reader);
}

void token_reader_counts(const struct token_reader *reader, txl_encoded *counts) {
    *counts = (txl_encoded){0};
    if (reader->encoder)
        txl_encoder_counts(reader->encoder, counts);
}

void token_reader_close(struct token_reader *reader) {
    txl_encoder_free(reader->encoder);
    reader->encoder = NULL;
}
