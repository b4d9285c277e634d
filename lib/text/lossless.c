/* Texts as tokens and literals.  The encoder's symbols are a proposal: a symbol is taken where its
 * bytes stand in the text.  So the elements write the text, whatever the encoder did. */
#include "lossless.h"
#include "lib/base/white_space.h"

static void add_literals(struct lossless *lossless, size_t end) {
    while (lossless->at < end) {
        const unsigned char byte = (unsigned char)lossless->text[lossless->at++];
        lossless->loose = loose_behind(lossless->loose, byte);
        lossless->elements[lossless->n++] = literal_of(byte);
    }
}

/* Takes a token that ends at `end` or before, if its bytes come next. */
static bool take_token(struct lossless *lossless, const txl_symbol *symbol, size_t end) {
    size_t n;
    const char *bytes = token_bytes_at(lossless->table, lossless->loose, symbol->id, &n),
               *text = lossless->text + lossless->at;
    const size_t room = end - lossless->at;
    if (!bytes || n > room || (n < room && lossless->at < symbol->offset) ||
        memcmp(bytes, text, n) != 0)
        return false;
    for (size_t i = 0; i < n; i++)
        lossless->loose = loose_behind(lossless->loose, (unsigned char)text[i]);
    lossless->at += n;
    lossless->elements[lossless->n++] = symbol->id;
    return true;
}

/* What comes before a symbol, and blanks that its token does not write, are literals.  So is the
 * whole symbol if it is not what the text has. */
static txl_status take_symbol(void *context, const txl_symbol *symbol, txl_error *error) {
    struct lossless *lossless = context;
    const uint64_t behind = symbol->offset + symbol->bytes;
    const size_t end = behind < lossless->size ? (size_t)behind : lossless->size;
    (void)error;
    if (symbol->id < 0)
        return TXL_OK;
    while (lossless->at < end && !take_token(lossless, symbol, end)) {
        bool alone = lossless->at < symbol->offset || is_space_byte(lossless->text[lossless->at]);
        add_literals(lossless, alone ? lossless->at + 1 : end);
    }
    return TXL_OK;
}

txl_status lossless_open(struct lossless *lossless, const struct vocabulary *vocabulary,
                         const struct token_bytes *table, txl_error *error) {
    *lossless = (struct lossless){.table = table};
    const txl_encoding encoding = {
        .lookup = true, .skip_unknown = true, .symbol = take_symbol, .context = lossless};
    return encoder_new(vocabulary, &encoding, &lossless->encoder, error);
}

void lossless_close(struct lossless *lossless) {
    txl_encoder_free(lossless->encoder);
    lossless->encoder = NULL;
}

txl_status lossless_parse(struct lossless *lossless, const char *text, size_t size,
                          int32_t *elements, size_t *n, txl_error *error) {
    lossless->text = text;
    lossless->size = size;
    lossless->at = lossless->n = 0;
    lossless->loose = true;
    lossless->elements = elements;
    txl_status status = txl_encoder_feed(lossless->encoder, text, size, error);
    if (!status)
        status = txl_encoder_finish(lossless->encoder, error);
    add_literals(lossless, size);
    *n = lossless->n;
    return status;
}
