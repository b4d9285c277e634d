/* Reading texts with their end held back. */
#include "train_text.h"

#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "lib/base/white_space.h"

#include <stdlib.h>
#include <string.h>

enum {
    READ_BYTES = 1 << 16,
    MOST_HELD = 1 << 20, /* most bytes of the held-out part */
    HELD_SHARE = 50,     /* the held-out part is at most one of this many */
    SLACK = 1 << 18      /* bytes read beyond what is held back before they are moved */
};

bool train_text_open(struct train_text *text, char **paths, int n) {
    bool bytes = txl_kind_takes_bytes(text->kind) && !text->ids;
    text->input = calloc((size_t)n, sizeof *text->input);
    text->begin = calloc((size_t)n, sizeof *text->begin);
    if (!text->input || !text->begin)
        return terminal_error("out of memory");
    for (int i = 0; i < n; i++) {
        text->input[i].handle = -1;
        text->n = i + 1;
        struct input *input = &text->input[i];
        if (!input_open_text(input, paths[i], bytes, &text->common.form))
            return false;
        if (!text->ids)
            tokens_unwrap(input, text->kind, text->common.unwrap);
        if (text->seekable && !input_make_seekable(input))
            return false;
    }
    return true;
}

void train_text_close(struct train_text *text) {
    for (int i = 0; i < text->n; i++)
        input_close(&text->input[i]);
    free(text->input);
    free(text->begin);
    buffer_free(&text->tail);
    *text = (struct train_text){0};
}

/* Where the held-out part begins in the tail: after the next line end; if there is none, where a
 * character or an id ends. */
static size_t find_cut(const struct train_text *text) {
    const char *tail = text->tail.data;
    size_t length = text->tail.length;
    uint64_t held = text->bytes / HELD_SHARE;
    held = held < MOST_HELD ? held : MOST_HELD;
    size_t cut = length - (size_t)(held < length ? held : length);
    const char *line_end = cut < length ? memchr(tail + cut, '\n', length - cut) : NULL;
    if (line_end && line_end + 1 < tail + length)
        return (size_t)(line_end + 1 - tail);
    while (cut < length && ((unsigned char)tail[cut] & 0xc0) == 0x80)
        cut++;
    while (text->ids && cut < length && !is_space_byte(tail[cut]))
        cut++;
    return cut;
}

/* Passes on the text before the last `keep` bytes. */
static txl_status pass_on(struct train_text *text, size_t keep,
                          txl_status (*take)(void *, const char *, size_t), void *context) {
    size_t n = text->tail.length > keep ? text->tail.length - keep : 0;
    txl_status status = n > 0 ? take(context, text->tail.data, n) : TXL_OK;
    buffer_drop(&text->tail, n);
    return status;
}

static txl_status read_input(struct train_text *text, struct input *input,
                             txl_status (*take)(void *, const char *, size_t), void *context) {
    char buffer[READ_BYTES];
    txl_status status = TXL_OK;
    ssize_t n;
    while (!status && (n = input_read(input, buffer, sizeof buffer)) != 0) {
        if (n < 0)
            return TXL_IO;
        text->bytes += (uint64_t)n;
        if (!buffer_append(&text->tail, buffer, (size_t)n))
            return terminal_lacks_memory();
        if (text->tail.length > MOST_HELD + SLACK)
            status = pass_on(text, MOST_HELD, take, context);
        if (!status && signals_stopped())
            return TXL_STOPPED;
    }
    return !status && signals_stopped() ? TXL_STOPPED : status;
}

txl_status train_text_read(struct train_text *text,
                           txl_status (*take)(void *, const char *, size_t), void *context) {
    txl_status status = TXL_OK;
    text->bytes = 0;
    text->tail.length = 0;
    for (int i = 0; i < text->n; i++)
        text->begin[i] = UINT64_MAX;
    for (int i = 0; i < text->n && !status; i++) {
        text->begin[i] = text->bytes;
        if (text->input[i].read > 0 && !input_rewind(&text->input[i]))
            return TXL_IO;
        status = read_input(text, &text->input[i], take, context);
    }
    if (!status) {
        size_t cut = text->holds_out ? find_cut(text) : text->tail.length;
        status = pass_on(text, text->tail.length - cut, take, context);
    }
    return status;
}

txl_status train_text_feed(const struct train_text *text, uint64_t first,
                           struct token_reader *reader, const char *bytes, size_t length) {
    txl_status status = TXL_OK;
    if (!text->common.unwrap)
        return token_reader_feed(reader, bytes, length);
    for (size_t i = 0, n; i < length && !status; i += n) {
        const uint64_t at = first + reader->fed;
        int in = 0, next = 0;
        for (; next < text->n && text->begin[next] <= at; next++)
            in = next;
        n = length - i;
        if (next < text->n && text->begin[next] - at < n)
            n = (size_t)(text->begin[next] - at);
        if (reader->fed == 0 || text->begin[in] == at)
            status = token_reader_next_text(reader, text->input[in].wrap);
        if (!status)
            status = token_reader_feed(reader, bytes + i, n);
    }
    return status;
}
