/* Joins wrapped lines, and measures how a text is wrapped. */
#include "unwrap.h"

#include "lib/base/white_space.h"

#include <string.h>

/* Whether the byte begins a code point. */
static bool begins_character(char c) {
    return ((unsigned char)c & 0xc0) != 0x80;
}

/* ---- Joining ------------------------------------------------------------------------------ */

static txl_status pass_blanks(struct unwrapper *u, txl_error *error) {
    const size_t n = u->n_blanks;
    u->n_blanks = 0;
    return n > 0 ? u->text(u->context, u->blanks, n, error) : TXL_OK;
}

/* Takes a part of a line; white space at its end is held. */
static txl_status take_part(struct unwrapper *u, const char *text, size_t length,
                            txl_error *error) {
    enum { ROOM = sizeof u->blanks - 1 }; /* for the line end */
    size_t n = length;
    for (size_t i = 0; i < length; i++)
        u->column += begins_character(text[i]);
    while (n > 0 && is_space_byte(text[n - 1]) && length - n < ROOM)
        n--;
    u->begun = u->begun || n > 0;
    txl_status status = TXL_OK;
    if (n > 0 || u->n_blanks + length > ROOM)
        status = pass_blanks(u, error);
    if (!status && n > 0)
        status = u->text(u->context, text, n, error);
    memcpy(u->blanks + u->n_blanks, text + n, length - n);
    u->n_blanks += (unsigned)(length - n);
    return status;
}

/* Passes on the held line end, which joins lines or not, and what is known of the next line. */
static txl_status end_line(struct unwrapper *u, bool joins, txl_error *error) {
    const unsigned bytes = u->n_blanks;
    const size_t n = u->n_word;
    txl_status status = TXL_OK;
    if (joins) {
        u->n_blanks = 0;
        status = u->join(u->context, bytes, error);
    } else if (bytes > 2 || (bytes == 2 && u->blanks[0] != '\r')) {
        u->n_blanks = 0;
        status = u->end(u->context, bytes, error);
    } else {
        status = pass_blanks(u, error);
    }
    u->ended = u->begun = false;
    u->column = u->n_word = u->word_width = 0;
    return !status && n > 0 ? take_part(u, u->word, n, error) : status;
}

/* Takes a byte of the next line's first word, or the one after it, which may decide whether the
 * line end joins.  `*taken`: the byte is not to be taken again. */
static txl_status decide_line_end(struct unwrapper *u, char byte, bool *taken, txl_error *error) {
    *taken = !is_space_byte(byte) && u->begun;
    if (!*taken)
        return end_line(u, false, error);
    u->word[u->n_word++] = byte;
    u->word_width += begins_character(byte);
    bool fits = u->column + 1 + u->word_width <= u->width && u->n_word < sizeof u->word;
    return fits ? TXL_OK : end_line(u, true, error);
}

/* Takes a line as far as it goes, and its end, which is held.  `*n` receives the bytes taken. */
static txl_status take_line(struct unwrapper *u, const char *text, size_t length, size_t *n,
                            txl_error *error) {
    const char *end = memchr(text, '\n', length);
    size_t part = end ? (size_t)(end - text) : length;
    txl_status status = take_part(u, text, part, error);
    *n = part + !!end;
    if (!status && end) {
        u->column -= u->n_blanks; /* which are ASCII */
        u->blanks[u->n_blanks++] = '\n';
        u->ended = true;
    }
    return status;
}

txl_status unwrap_feed(struct unwrapper *u, const char *text, size_t length, txl_error *error) {
    txl_status status = TXL_OK;
    if (u->width == 0)
        return u->text(u->context, text, length, error);
    for (size_t i = 0, n; i < length && !status; i += n) {
        bool taken = false;
        if (u->ended)
            status = decide_line_end(u, text[i], &taken, error);
        n = taken;
        if (!status && !taken)
            status = take_line(u, text + i, length - i, &n, error);
    }
    return status;
}

txl_status unwrap_finish(struct unwrapper *u, unsigned width, txl_error *error) {
    txl_status status = u->ended ? end_line(u, false, error) : TXL_OK;
    if (!status)
        status = pass_blanks(u, error);
    u->begun = false;
    u->column = 0;
    u->width = width;
    return status;
}

/* ---- How a text is wrapped ---------------------------------------------------------------- */

struct line {
    const char *begin, *end; /* without its line end */
    size_t width;
    size_t word; /* the width of its first word; 0: it is blank or indented */
    bool words;  /* it has white space */
};

/* Reads the line that begins at `text`; returns where the next one does. */
static const char *read_line(const char *text, const char *end, struct line *line) {
    const char *line_end = memchr(text, '\n', (size_t)(end - text));
    const char *last = line_end ? line_end : end;
    const char *next = line_end ? line_end + 1 : end;
    *line = (struct line){.begin = text, .end = last};
    while (line->end > text && is_space_byte(line->end[-1]))
        line->end--;
    for (const char *c = text; c < line->end; c++) {
        line->words = line->words || is_space_byte(*c);
        line->width += begins_character(*c);
        line->word += begins_character(*c) && !line->words;
    }
    return next;
}

/* The longest line that is no wider than WRAP_MOST. */
static struct wrap find_width(const char *text, const char *end) {
    struct wrap wrap = {.width = 0};
    struct line line;
    for (uint64_t number = 1; text < end; number++) {
        text = read_line(text, end, &line);
        if (line.width > wrap.width && line.width <= WRAP_MOST) {
            wrap.width = (unsigned)line.width;
            wrap.line = number;
        }
    }
    wrap.width = wrap.width > 0 ? wrap.width : WRAP_MOST;
    return wrap;
}

struct wrap wrap_measure(const char *text, size_t length) {
    enum { LEAST = 10, FEW = 16 }; /* joined lines; one of so many may be too wide */
    enum { MANY = 20, DOUBTFUL = 4 };
    const char *end = text + length;
    struct wrap wrap = find_width(text, end);
    uint64_t joined = 0, of_words = 0, ended = 0, wide = 0, unbroken = 0;
    struct line line = {0}, next;
    for (; text < end; line = next) {
        text = read_line(text, end, &next);
        bool open = line.width > 0 && line.width <= WRAP_MOST && next.word > 0;
        bool joins = open && line.width + 1 + next.word > wrap.width;
        unbroken += line.width > WRAP_MOST && next.word > 0;
        wide += next.width > WRAP_MOST;
        joined += joins;
        of_words += joins && line.words;
        ended += open && !joins;
    }
    wrap.seen = wrap.width >= WRAP_LEAST && of_words >= LEAST && of_words > joined / 2 &&
                joined > ended / 2 && wide <= joined / FEW;
    wrap.unbroken = unbroken >= LEAST && unbroken > joined;
    wrap.doubtful = joined + ended >= MANY && joined < (joined + ended) / DOUBTFUL;
    return wrap;
}
