/* Decimal ids (--ids): the input is a byte of choices, then the text.  However it is cut, it must
 * give the same ids or the same message as in one piece, and the ids that strtol reads. */
#include "fuzz.h"
#include "tiny.h"

#include "cli/text/tokens.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The first byte; what is left of it says how the text is cut. */
enum { PROMPT = 1 };

enum { MAX_TEXT = 1000 };

/* The result of a text: ids, -1 for a line end, and the message of a failure. */
struct reading {
    int32_t ids[MAX_TEXT + 1];
    size_t n;
    txl_status status;
    char *message;
    size_t length;
};

static txl_status take_id(void *context, const txl_symbol *symbol, txl_error *error) {
    (void)error;
    struct reading *reading = context;
    fuzz_require(reading->n <= MAX_TEXT, "more ids than characters");
    fuzz_require((symbol->id < 0) == !symbol->text, "an id without its symbol");
    reading->ids[reading->n++] = symbol->id;
    return TXL_OK;
}

static void read_ids(struct reading *reading, bool prompt, const char *text, size_t length,
                     size_t piece) {
    struct token_reader reader;
    struct input input;
    const txl_encoding encoding = {.prompt = prompt, .symbol = take_id, .context = reading};
    FILE *before = stderr;
    reading->n = 0;
    stderr = open_memstream(&reading->message, &reading->length);
    fuzz_require(stderr, "out of memory");
    input_open_string(&input, "input", "");
    fuzz_require(token_reader_open(&reader, tiny_model(0), &input, &encoding, true), "not opened");
    reading->status = TXL_OK;
    for (size_t at = 0; at < length && !reading->status; at += piece) {
        size_t left = length - at;
        reading->status = token_reader_feed(&reader, text + at, left < piece ? left : piece);
    }
    if (!reading->status)
        reading->status = token_reader_finish(&reader);
    token_reader_close(&reader);
    fclose(stderr);
    stderr = before;
}

static void require_same(const struct reading *a, const struct reading *b) {
    fuzz_require(a->status == b->status && a->n == b->n &&
                     memcmp(a->ids, b->ids, a->n * sizeof *a->ids) == 0,
                 "cut text gives other ids");
    fuzz_require(a->length == b->length && memcmp(a->message, b->message, a->length) == 0,
                 "cut text gives another message");
    fuzz_require((a->length == 0) == (!a->status), "a failure without a message");
}

/* Text that was accepted is numbers and white space alone. */
static void require_right(const struct reading *reading, const char *text) {
    for (size_t i = 0; i < reading->n; i++) {
        if (reading->ids[i] < 0)
            continue;
        char *end;
        long id = strtol(text, &end, 10);
        fuzz_require(id == reading->ids[i] && id < TINY_TOKENS, "another id than was written");
        text = end;
    }
    while (isspace((unsigned char)*text))
        text++;
    fuzz_require(*text == '\0', "not all of the text was read");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct reading whole, cut;
    if (size < 1 || size > MAX_TEXT)
        return 0;
    size_t length = size - 1;
    char *text = malloc(size); /* ended, for strtol */
    fuzz_require(text, "out of memory");
    memcpy(text, data + 1, length);
    text[length] = '\0';
    read_ids(&whole, data[0] & PROMPT, text, length, length);
    read_ids(&cut, data[0] & PROMPT, text, length, 1 + data[0] / 2 % 16);
    require_same(&whole, &cut);
    if (!whole.status)
        require_right(&whole, text);
    free(whole.message);
    free(cut.message);
    free(text);
    return 0;
}
