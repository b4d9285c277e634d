/* The bytes kind: each byte but the line feed is the symbol of its decimal number. */
#include "lib/base/error.h"
#include "tokenizer.h"

static size_t spell_byte(unsigned char byte, char decimal[3]) {
    size_t n = 0;
    if (byte >= 100)
        decimal[n++] = (char)('0' + byte / 100);
    if (byte >= 10)
        decimal[n++] = (char)('0' + byte / 10 % 10);
    decimal[n++] = (char)('0' + byte % 10);
    return n;
}

static txl_status bytes_feed(txl_encoder *encoder, const char *text, size_t length,
                             txl_error *error) {
    txl_status status = TXL_OK;
    struct position *at = &encoder->at;
    encoder->counts.characters += length;
    for (size_t i = 0; i < length && !status; i++) {
        unsigned char byte = (unsigned char)text[i];
        at->line_begun = byte != '\n';
        if (byte == '\n') {
            status = encode_line_end(encoder, error);
            at->here =
                (struct place){at->here.line + 1, 1, at->here.offset + 1, at->here.character + 1};
            continue;
        }
        char decimal[3];
        size_t n = spell_byte(byte, decimal);
        int32_t id = encoder->how.lookup ? encoder->vocabulary->byte_id[byte] : -1;
        const struct span span = encode_span(&at->here, 1, 1);
        status = encode_found(encoder, decimal, n, id, &span, error);
        at->here.column++;
        at->here.offset++;
        at->here.character++;
    }
    return status;
}

const struct kind_encoder bytes_encoder = {.undecoded = bytes_feed, .line_end = encode_line_end};

static txl_status bytes_push(txl_decoder *decoder, int32_t id, const char *spelling, size_t length,
                             txl_error *error) {
    int value = vocabulary_byte(spelling, length);
    /* The vocabulary's line boundary becomes a line feed. */
    if (id >= 0 && id == decoder->vocabulary->eos)
        return decode_add(decoder, "\n", 1, error);
    if (value < 0)
        return txl_fail(error, TXL_TEXT, "'%.*s' is not a byte's decimal number",
                        length < 40 ? (int)length : 40, spelling);
    const char byte = (char)value;
    return decode_add(decoder, &byte, 1, error);
}

const struct kind_decoder bytes_decoder = {.symbol = bytes_push};
