/* Finds each token in the text, and prints the text in colours. */
#include "heat.h"

#include "cli/system/output.h"
#include "cli/system/terminal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unictype.h>
#include <unistd.h>
#include <unistr.h>

enum {
    /* Text that may wait; more of it, which has no tokens, passes without colours. */
    MOST_TEXT = 1 << 23,
    /* How far from the last one a prose token is searched, in words and in bytes: the tokenizer
     * writes some tokens otherwise than they stand in the text. */
    PROSE_WORDS = 2,
    PROSE_BYTES = 256
};

/* ---- Colours ------------------------------------------------------------------------------ */

/* From so many nats on, a background of xterm's 256 colours. */
static const struct {
    float nats;
    int colour;
} levels[] = {{0, 0}, {0.5f, 230}, {1, 229}, {2, 222}, {4, 215}, {6, 208}, {9, 203}};

enum { N_LEVEL = sizeof levels / sizeof levels[0] };

static int level_of(float nats) {
    int level = N_LEVEL - 1;
    while (level > 0 && nats < levels[level].nats)
        level--;
    return level;
}

static bool is_set(const char *variable) {
    const char *value = getenv(variable);
    return value && *value != '\0';
}

static bool wants_colours(void) {
    if (is_set("NO_COLOR"))
        return false;
    if (is_set("CLICOLOR_FORCE"))
        return strcmp(getenv("CLICOLOR_FORCE"), "0") != 0;
    return isatty(STDOUT_FILENO);
}

static void set_level(struct heat *heat, int level) {
    if (!heat->coloured || level == heat->level)
        return;
    char escape[32] = "\033[0m";
    if (level > 0)
        snprintf(escape, sizeof escape, "\033[38;5;16;48;5;%dm", levels[level].colour);
    output_write(escape, strlen(escape));
    heat->level = level;
}

/* A line end keeps no colour, which a terminal would draw to its edge; nor does the colour change
 * within the bytes of a code point. */
static bool print(struct heat *heat, const char *text, size_t length, int level) {
    if (length == 0)
        return true;
    bool continues = ((unsigned char)text[0] & 0xc0) == 0x80;
    if (!continues)
        set_level(heat, memchr(text, '\n', length) ? 0 : level);
    return output_text(text, length);
}

void heat_print_legend(struct heat *heat) {
    if (!heat->coloured)
        return;
    output_start_line();
    output_write("nats: ", 6);
    for (int i = 0; i < N_LEVEL; i++) {
        char text[32];
        int length = i == 0 ? snprintf(text, sizeof text, " below %g ", (double)levels[1].nats)
                            : snprintf(text, sizeof text, " %g ", (double)levels[i].nats);
        print(heat, text, (size_t)length, i);
    }
    set_level(heat, 0);
    output_write("\n", 1);
}

/* ---- Which bytes a token is --------------------------------------------------------------- */

/* White space as the encoder sees it. */
static bool is_blank(ucs4_t code) {
    return uc_is_property_white_space(code) || (code >= 0x1c && code <= 0x1f);
}

/* Bytes of the white space that `text` begins with; a text's byte order mark counts. */
static size_t skip_blanks(const struct heat *heat, const char *text, size_t length) {
    size_t i = 0;
    while (i < length) {
        ucs4_t code;
        int used = u8_mbtouc(&code, (const uint8_t *)text + i, length - i);
        if (!is_blank(code) && !(code == 0xfeff && !heat->begun))
            break;
        i += (size_t)used;
    }
    return i;
}

static size_t skip_word(const char *text, size_t length) {
    size_t i = 0;
    while (i < length) {
        ucs4_t code;
        int used = u8_mbtouc(&code, (const uint8_t *)text + i, length - i);
        if (is_blank(code))
            break;
        i += (size_t)used;
    }
    return i;
}

/* Letters may have been lower-cased. */
static bool starts_with(const char *text, size_t length, const txl_symbol *symbol) {
    return symbol->length <= length && strncasecmp(text, symbol->text, symbol->length) == 0;
}

/* To the end of the line, whose boundary the symbol is. */
static struct extent find_line_end(const char *text, size_t length) {
    const char *end = memchr(text, '\n', length);
    return (struct extent){.length = end ? (size_t)(end - text) + 1 : length};
}

/* The byte of that decimal number: line ends before it have no symbol. */
static struct extent find_byte(const char *text, size_t length, const txl_symbol *symbol) {
    int byte = 0;
    for (size_t i = 0; i < symbol->length; i++)
        byte = 10 * byte + (symbol->text[i] - '0');
    const char *found = memchr(text, byte, length);
    return found ? (struct extent){(size_t)(found - text), 1} : (struct extent){0, 0};
}

/* The digits of an id. */
static struct extent find_id(const char *text, size_t length) {
    struct extent extent = {0};
    while (extent.skipped < length && !strchr("0123456789", text[extent.skipped]))
        extent.skipped++;
    extent.length = skip_word(text + extent.skipped, length - extent.skipped);
    return extent;
}

/* A word between white space; when some may have been left out, the first that is spelled so. */
static struct extent find_word(const struct heat *heat, const char *text, size_t length,
                               const txl_symbol *symbol) {
    struct extent first = {.skipped = skip_blanks(heat, text, length)};
    first.length = skip_word(text + first.skipped, length - first.skipped);
    if (!heat->skip_unknown)
        return first;
    struct extent word = first;
    while (word.length > 0 && !starts_with(text + word.skipped, word.length, symbol)) {
        size_t end = word.skipped + word.length;
        word.skipped = end + skip_blanks(heat, text + end, length - end);
        word.length = skip_word(text + word.skipped, length - word.skipped);
    }
    return word.length > 0 ? word : first;
}

/* A token of prose where it is spelled so in the next words, else nothing. */
static struct extent find_in_prose(const struct heat *heat, const char *text, size_t length,
                                   const txl_symbol *symbol) {
    size_t end = 0;
    length = length < PROSE_BYTES + symbol->length ? length : PROSE_BYTES + symbol->length;
    for (int i = 0; i < PROSE_WORDS; i++) {
        end += skip_blanks(heat, text + end, length - end);
        end += skip_word(text + end, length - end);
    }
    for (size_t i = 0; i < end; i++)
        if (starts_with(text + i, end - i, symbol))
            return (struct extent){i, symbol->length};
    return (struct extent){0, 0};
}

static struct extent one_code_point(size_t skipped, const char *text, size_t length) {
    ucs4_t code;
    size_t left = length - skipped;
    return (struct extent){
        skipped, left == 0 ? 0 : (size_t)u8_mbtouc(&code, (const uint8_t *)text + skipped, left)};
}

/* A code point; white space at the ends of a line, or of the text, has no symbol. */
static struct extent find_character(const struct heat *heat, const char *text, size_t length,
                                    const txl_symbol *symbol) {
    bool space = length > 0 && text[0] == ' ' && symbol->length == 1 && symbol->text[0] == '_' &&
                 txl_model_kind(heat->model) == TXL_TEXT8;
    if (space || starts_with(text, length, symbol))
        return one_code_point(0, text, length);
    size_t blanks = skip_blanks(heat, text, length);
    for (size_t i = blanks; heat->skip_unknown && i < length;) {
        if (starts_with(text + i, length - i, symbol))
            return one_code_point(i, text, length);
        i += one_code_point(i, text, length).length;
    }
    return one_code_point(blanks, text, length);
}

/* Whether the symbol stands for a line's end, or its beginning, and is not spelled out there. */
static bool is_boundary(const struct heat *heat, const char *text, size_t length,
                        const txl_symbol *symbol) {
    size_t spelled;
    const char *spelling = txl_model_symbol(heat->model, symbol->id, &spelled);
    txl_kind kind = txl_model_kind(heat->model);
    if (symbol->id != txl_model_eos(heat->model) || kind == TXL_BYTES || kind == TXL_TEXT8 ||
        symbol->length != spelled || memcmp(symbol->text, spelling, spelled) != 0)
        return false;
    size_t blanks = skip_blanks(heat, text, length);
    const char *line_end = memchr(text, '\n', blanks);
    return kind == TXL_CHARACTERS || line_end ||
           !starts_with(text + blanks, length - blanks, symbol);
}

static struct extent find(struct heat *heat, const char *text, size_t length,
                          const txl_symbol *symbol) {
    txl_kind kind = txl_model_kind(heat->model);
    if (heat->ids)
        return find_id(text, length);
    if (kind == TXL_BYTES)
        return find_byte(text, length, symbol);
    if (kind == TXL_LM1B && !heat->in_line) {
        heat->in_line = true;
        return (struct extent){0, 0};
    }
    if (is_boundary(heat, text, length, symbol)) {
        heat->in_line = false;
        return find_line_end(text, length);
    }
    if (kind == TXL_CHARACTERS || kind == TXL_TEXT8)
        return find_character(heat, text, length, symbol);
    return heat->raw ? find_in_prose(heat, text, length, symbol)
                     : find_word(heat, text, length, symbol);
}

/* ---- What waits --------------------------------------------------------------------------- */

void heat_open(struct heat *heat, const txl_model *model, bool raw, bool ids, bool skip_unknown) {
    *heat = (struct heat){.model = model,
                          .raw = raw,
                          .ids = ids,
                          .skip_unknown = skip_unknown,
                          .coloured = wants_colours()};
    if (!heat->coloured) {
        terminal_note("the text has no colours: NO_COLOR is set, or standard output is no terminal "
                      "and CLICOLOR_FORCE=1 is not set");
    }
}

void heat_close(struct heat *heat) {
    free(heat->text);
    free(heat->extents);
    *heat = (struct heat){0};
}

static txl_status fail_memory(txl_error *error) {
    error->status = TXL_MEMORY;
    snprintf(error->message, sizeof error->message, "out of memory");
    return TXL_MEMORY;
}

/* Moves what waits to the array's beginning, and makes the array larger where that is not enough:
 * `more` elements fit after *end.  `*middle` moves along. */
static bool make_room(void **array, size_t *room, size_t size, size_t *begin, size_t *middle,
                      size_t *end, size_t more) {
    if (*room - *end >= more)
        return true;
    if (*begin > 0) {
        memmove(*array, (char *)*array + *begin * size, (*end - *begin) * size);
        *middle -= *begin;
        *end -= *begin;
        *begin = 0;
    }
    if (*room - *end >= more && *end < *room / 2)
        return true;
    size_t larger = 2 * (*end + more) + 64;
    void *grown = realloc(*array, larger * size);
    if (!grown)
        return false;
    *array = grown;
    *room = larger;
    return true;
}

static bool print_extent(struct heat *heat, int level) {
    assert(heat->extent_begin < heat->extent_end);
    struct extent extent = heat->extents[heat->extent_begin++];
    const char *text = heat->text + heat->text_begin;
    heat->text_begin += extent.skipped + extent.length;
    heat->next++;
    return print(heat, text, extent.skipped, 0) &&
           print(heat, text + extent.skipped, extent.length, level);
}

/* Too much text waits: it goes out as it is, and its tokens then have none of it. */
static bool let_pass(struct heat *heat) {
    bool good = print(heat, heat->text + heat->text_begin, heat->text_end - heat->text_begin, 0);
    for (size_t i = heat->extent_begin; i < heat->extent_end; i++)
        heat->extents[i] = (struct extent){0, 0};
    heat->text_begin = heat->placed = heat->text_end = 0;
    return good;
}

txl_status heat_text(struct heat *heat, const char *text, size_t length, txl_error *error) {
    if (heat->text_end - heat->text_begin > MOST_TEXT && !let_pass(heat))
        return TXL_STOPPED;
    void *array = heat->text;
    bool good = make_room(&array, &heat->text_room, 1, &heat->text_begin, &heat->placed,
                          &heat->text_end, length);
    heat->text = array;
    if (!good)
        return fail_memory(error);
    memcpy(heat->text + heat->text_end, text, length);
    heat->text_end += length;
    return TXL_OK;
}

txl_status heat_symbol(struct heat *heat, const txl_symbol *symbol, txl_error *error) {
    void *array = heat->extents;
    size_t none = heat->extent_begin;
    bool good = make_room(&array, &heat->extent_room, sizeof *heat->extents, &heat->extent_begin,
                          &none, &heat->extent_end, 1);
    heat->extents = array;
    if (!good)
        return fail_memory(error);
    struct extent extent =
        find(heat, heat->text + heat->placed, heat->text_end - heat->placed, symbol);
    heat->placed += extent.skipped + extent.length;
    heat->begun = heat->begun || extent.length > 0;
    heat->extents[heat->extent_end++] = extent;
    return TXL_OK;
}

/* Tokens that were passed over are context. */
txl_status heat_token(void *context, const struct scored *token, txl_error *error) {
    (void)error;
    struct heat *heat = context;
    bool good = true;
    while (good && heat->next < token->index)
        good = print_extent(heat, 0);
    return good && print_extent(heat, level_of(token->nats[0])) ? TXL_OK : TXL_STOPPED;
}

void heat_end_text(struct heat *heat, bool ended) {
    while (heat->extent_begin < heat->extent_end)
        print_extent(heat, 0);
    if (ended)
        print(heat, heat->text + heat->text_begin, heat->text_end - heat->text_begin, 0);
    set_level(heat, 0);
    output_flush();
    heat->text_begin = heat->placed = heat->text_end = 0;
    heat->extent_begin = heat->extent_end = 0;
    heat->next = 0;
    heat->in_line = heat->begun = false;
}
