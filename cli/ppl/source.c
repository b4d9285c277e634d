/* Reads the text a second time. */
#include "source.h"

#include "cli/io/terminal.h"
#include "lib/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
