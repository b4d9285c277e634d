/* Reads and joins what is before a text. */
#include "before.h"

#include "cli/io/input.h"
#include "cli/io/terminal.h"
#include "cli/text/tokens.h"
#include "lib/base/white_space.h"
#include "source.h"

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
