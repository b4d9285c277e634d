/* Prints a text in colours, each token where the encoder found it. */
#include "heat.h"

#include "cli/io/output.h"
#include "cli/io/terminal.h"
#include "lib/base/error.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The most text that waits; more text without tokens is printed without colours. */
enum { MOST_TEXT = 1 << 23 };

/* ---- Colours ------------------------------------------------------------------------------ */

/* The backgrounds, of xterm's 256 colours, and the nats from which on each is used. */
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

/* Line ends have no colour, because a terminal would draw it to its edge; and the colour does not
 * change inside a code point. */
static bool print_coloured(struct heat *heat, const char *text, size_t length, int level) {
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
        print_coloured(heat, text, (size_t)length, i);
    }
    set_level(heat, 0);
    output_write("\n", 1);
}

/* ---- What waits --------------------------------------------------------------------------- */

void heat_open(struct heat *heat) {
    *heat = (struct heat){.coloured = wants_colours()};
    if (!heat->coloured)
        terminal_note("the text has no colours: NO_COLOR is set, or standard output is no terminal "
                      "and CLICOLOR_FORCE=1 is not set");
}

void heat_close(struct heat *heat) {
    buffer_free(&heat->text);
    buffer_free(&heat->extents);
    *heat = (struct heat){0};
}

/* Adds to what waits, without what has gone before `*begin`. */
static txl_status add_waiting(struct buffer *waiting, size_t *begin, const void *bytes,
                              size_t length, txl_error *error) {
    buffer_drop(waiting, *begin);
    *begin = 0;
    return buffer_append(waiting, bytes, length) ? TXL_OK
                                                 : txl_fail(error, TXL_MEMORY, "out of memory");
}

/* Prints the text that was not printed yet, up to `place`. */
static bool print_to(struct heat *heat, uint64_t place, int level) {
    uint64_t waiting = heat->text.length - heat->text_begin;
    if (place <= heat->printed)
        return true;
    size_t length = (size_t)(place - heat->printed < waiting ? place - heat->printed : waiting);
    const char *text = heat->text.data + heat->text_begin;
    heat->text_begin += length;
    heat->printed += length;
    return print_coloured(heat, text, length, level);
}

static bool print_extent(struct heat *heat, int level) {
    struct extent extent;
    assert(heat->extent_begin < heat->extents.length);
    memcpy(&extent, heat->extents.data + heat->extent_begin, sizeof extent);
    heat->extent_begin += sizeof extent;
    heat->next++;
    return print_to(heat, extent.begin, 0) && print_to(heat, extent.end, level);
}

txl_status heat_text(struct heat *heat, const char *text, size_t length, txl_error *error) {
    /* Too much text waits: prints it without colours. */
    if (heat->text.length - heat->text_begin > MOST_TEXT && !print_to(heat, UINT64_MAX, 0))
        return TXL_STOPPED;
    return add_waiting(&heat->text, &heat->text_begin, text, length, error);
}

txl_status heat_symbol(struct heat *heat, const txl_symbol *symbol, txl_error *error) {
    const struct extent extent = {symbol->offset, symbol->offset + symbol->bytes};
    return add_waiting(&heat->extents, &heat->extent_begin, &extent, sizeof extent, error);
}

/* Tokens that were skipped are context. */
txl_status heat_token(void *context, const struct scored *token, txl_error *error) {
    (void)error;
    struct heat *heat = context;
    bool good = true;
    while (good && heat->next < token->index)
        good = print_extent(heat, 0);
    return good && print_extent(heat, level_of(token->nats[0])) ? TXL_OK : TXL_STOPPED;
}

void heat_end_text(struct heat *heat, bool ended) {
    while (heat->extent_begin < heat->extents.length)
        print_extent(heat, 0);
    if (ended)
        print_to(heat, UINT64_MAX, 0);
    set_level(heat, 0);
    output_flush();
    heat->text.length = heat->text_begin = 0;
    heat->extents.length = heat->extent_begin = 0;
    heat->next = heat->printed = 0;
}
