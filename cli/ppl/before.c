/* Reads and joins what is before a text. */
#include "before.h"

#include "cli/system/signals.h"
#include "cli/system/terminal.h"
#include "cli/tokens.h"
#include "lib/base/white_space.h"
#include "source.h"

#include <string.h>

void before_open(struct buffer *text, const txl_model *model) {
    if (text->length == 0 || text->data[text->length - 1] != '\n')
        return;
    text->length--;
    bool carriage = text->length > 0 && text->data[text->length - 1] == '\r';
    text->length -= carriage && !txl_kind_takes_bytes(txl_model_kind(model));
}

bool before_join(struct buffer *before, const char *text, size_t length) {
    bool parted = before->length == 0 || length == 0 || space_length(text, length) > 0 ||
                  space_at_end(before->data, before->length);
    return (parted || buffer_append(before, " ", 1)) && buffer_append(before, text, length);
}

static bool read_all(struct buffer *before, struct input *input) {
    char chunk[4096];
    ssize_t n;
    while ((n = input_read(input, chunk, sizeof chunk)) > 0) {
        if (before->length + (size_t)n > BEFORE_MOST) {
            terminal_error("--before: %s is longer than 16 MiB; the end of it is enough",
                           input->name);
            return false;
        }
        if (!buffer_append(before, chunk, (size_t)n)) {
            terminal_error("out of memory");
            return false;
        }
    }
    return n == 0 && !signals_stopped();
}

bool before_read(struct buffer *before, const char *path, const char *string,
                 const struct model *model, bool ids, bool binary) {
    struct input input;
    bool bytes = txl_kind_takes_bytes(txl_model_kind(model->handle));
    if (path && !tokens_open_input(&input, path, model->handle, ids, binary))
        return false;
    if (!path)
        input_open_string(&input, "--before-text", string);
    bool good = read_all(before, &input);
    input_close(&input);
    if (!good)
        return false;
    if (!bytes && before->length >= strlen(SOURCE_MARK) &&
        memcmp(before->data, SOURCE_MARK, strlen(SOURCE_MARK)) == 0)
        buffer_drop(before, strlen(SOURCE_MARK));
    before_open(before, model->handle);
    return true;
}
