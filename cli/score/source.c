/* The text that is being scored, and what is read before it. */
#include "source.h"
#include "cli/io/input.h"
#include "cli/io/terminal.h"
#include "cli/text/tokens.h"
#include "lib/base/error.h"
#include "lib/base/white_space.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reads the text a second time. */

enum { BLOCK = 1 << 16 };

static txl_status fail_source(const char *what, txl_error *error) {
    return txl_fail(error, TXL_IO, "%s: %s", what, strerror(errno));
}

bool source_open(struct source *source, const struct input *input) {
    struct stat status;
    off_t base = input->base;
    *source = (struct source){.handle = input->handle, .block = malloc(BLOCK)};
    bool again = input_is_as_stored(input) && base >= 0 && fstat(input->handle, &status) == 0 &&
                 S_ISREG(status.st_mode);
    if (again)
        source->base = (uint64_t)base;
    else if (source->block && (source->copy = tmpfile()))
        source->handle = fileno(source->copy);
    source->bytes = source->block;
    if (source->block && (again || source->copy))
        return true;
    return terminal_error("temporary file of the text: %s", strerror(errno));
}

void source_of_text(struct source *source, const char *text, size_t length) {
    *source = (struct source){.handle = -1, .bytes = text, .block_length = length};
}

void source_close(struct source *source) {
    if (source->copy)
        fclose(source->copy);
    free(source->block);
    *source = (struct source){0};
}

txl_status source_see(struct source *source, const char *text, size_t length, txl_error *error) {
    if (source->copy && fwrite(text, 1, length, source->copy) != length)
        return fail_source("temporary file of the text", error);
    return TXL_OK;
}

/* Reads the block that begins at `offset`. */
static txl_status read_block(struct source *source, uint64_t offset, txl_error *error) {
    ssize_t n;
    if (source->copy && fflush(source->copy) != 0)
        return fail_source("temporary file of the text", error);
    do
        n = pread(source->handle, source->block, BLOCK, (off_t)(source->base + offset));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return fail_source("reading the text again", error);
    source->block_begin = offset;
    source->block_length = (size_t)n;
    return TXL_OK;
}

txl_status source_get(struct source *source, uint64_t offset, uint64_t most, const char **bytes,
                      size_t *n, txl_error *error) {
    bool here =
        offset >= source->block_begin && offset - source->block_begin < source->block_length;
    if (!here && source->handle < 0) {
        *n = 0;
        return TXL_OK;
    }
    if (!here) {
        txl_status status = read_block(source, offset, error);
        if (status)
            return status;
    }
    size_t skipped = (size_t)(offset - source->block_begin);
    *bytes = source->bytes + skipped;
    *n = source->block_length - skipped;
    if (*n > most)
        *n = (size_t)most;
    return TXL_OK;
}

txl_status source_copy(struct source *source, uint64_t offset, size_t most, char *bytes, size_t *n,
                       txl_error *error) {
    size_t got = 1;
    for (*n = 0; *n < most && got > 0; *n += got) {
        const char *part;
        txl_status status = source_get(source, offset + *n, most - *n, &part, &got, error);
        if (status)
            return status;
        if (got > 0)
            memcpy(bytes + *n, part, got);
    }
    return TXL_OK;
}

/* Reads and joins what is before a text. */

void before_open(struct buffer *text, const txl_model *model) {
    bool line_end = text->length > 0 && text->data[text->length - 1] == '\n';
    text->length -= line_end;
    bool carriage = line_end && text->length > 0 && text->data[text->length - 1] == '\r';
    text->length -= carriage && !txl_kind_takes_bytes(txl_model_kind(model));
    for (size_t n; (n = space_at_end(text->data, text->length)) > 0; text->length -= n)
        if (text->data[text->length - 1] == '\n')
            break;
}

bool before_join(struct buffer *before, const char *text, size_t length) {
    bool parted = before->length == 0 || length == 0 || space_length(text, length) > 0 ||
                  space_at_end(before->data, before->length) > 0;
    return (parted || buffer_append(before, " ", 1)) && buffer_append(before, text, length);
}

static txl_status take_text(void *context, const char *text, size_t length, txl_error *error) {
    (void)error;
    return buffer_append(context, text, length) ? TXL_OK : TXL_MEMORY;
}

static txl_status take_join(void *context, unsigned bytes, txl_error *error) {
    (void)bytes; /* nobody asks where it was */
    return take_text(context, " ", 1, error);
}

/* Joins lines that were wrapped at `width`. */
static bool join_lines(struct buffer *before, unsigned width) {
    struct buffer joined = {0};
    txl_error error;
    struct unwrapper unwrapper = {
        .width = width, .text = take_text, .join = take_join, .context = &joined};
    txl_status status = unwrap_feed(&unwrapper, before->data, before->length, &error);
    if (!status)
        status = unwrap_finish(&unwrapper, width, &error);
    if (status)
        terminal_error("out of memory");
    buffer_free(before);
    *before = joined;
    return !status;
}

bool before_read(struct buffer *before, const char *path, const char *string,
                 const struct model *model, bool ids, const struct common_options *common) {
    struct input input;
    bool bytes = txl_kind_takes_bytes(txl_model_kind(model->handle));
    if (path && !tokens_open_input(&input, path, model->handle, ids, &common->form))
        return false;
    if (!path)
        input_open_string(&input, "--context-text", string);
    if (common->unwrap)
        tokens_unwrap(&input, txl_model_kind(model->handle), true);
    bool good = input_read_all(&input, before, BEFORE_MOST);
    if (good && before->length > BEFORE_MOST)
        good = terminal_error("--context: %s is longer than 16 MiB; the end of it is enough",
                              input.name);
    if (good && input.wrap > 0)
        good = join_lines(before, input.wrap);
    input_close(&input);
    if (!good)
        return false;
    if (!bytes)
        buffer_drop(before, byte_order_mark_length(before->data, before->length));
    before_open(before, model->handle);
    return true;
}
