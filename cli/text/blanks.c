/* Counts blanks that change a number unseen. */
#include "blanks.h"

#include "cli/io/clean.h"
#include "cli/io/terminal.h"
#include "lib/base/memory.h"
#include "lib/base/white_space.h"

#include <inttypes.h>
#include <string.h>
#include <unistr.h>

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
    [WIDE] = {"tabs and wide blanks", {"a\ta", "a a"}, {"a\ta", "a a"}},
    [NO_BREAK] = {"no-break spaces", {"a\u00a0a", "a a"}, {"a\u00a0a", "a a"}},
    [ZERO_WIDTH] = {"zero-width spaces", {"a\u200ba", "aa"}, {"a\u200ba", "aa"}},
    [SOFT_HYPHEN] = {"soft hyphens", {"a\u00ada", "aa"}, {"a\u00ada", "aa"}},
};

/* ---- Counting ----------------------------------------------------------------------------- */

void blanks_start(struct blanks *b, bool by_line, bool inside) {
    *b = (struct blanks){.by_line = by_line, .inside = inside, .line = 1};
}

static void end_line(struct blanks *b) {
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
        end_line(b);
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
    end_line(b);
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
    if (n > 0)
        terminal_note("%s: %" PRIu64 " of %" PRIu64 " %s ha%s blanks that change the result: %s; "
                      "the first in line %" PRIu64,
                      name, n, b->units, b->by_line ? "lines" : "texts", n == 1 ? "s" : "ve", list,
                      first);
    return true;
}
