/* SentencePiece models and their texts: the input is a byte of choices, two bytes that say how long
 * the text at the end is and how it is cut, then a model file or a vocabulary section.  A text cut
 * anywhere has to give the same pieces, each of which stands for bytes of the text; and their ids
 * some text. */
#include "symbols.h"

#include "lib/text/sentencepiece.h"
#include "lib/text/tokenizer.h"
#include "lib/text/vocabulary.h"

#include <stdlib.h>
#include <string.h>

/* The first byte. */
enum { XLNET = 1, SECTION = 2, PROMPT = 4, GOES_ON = 8, LOOKUP = 32, RAW = 64 };

enum { HEAD = 3 };

struct encoding {
    struct symbols symbols;
    txl_status status;
};

static void encode(const struct vocabulary *vocabulary, const uint8_t *choices, bool cut,
                   const char *text, size_t length, struct encoding *e) {
    const txl_encoding how = {.prompt = choices[0] & PROMPT,
                              .lookup = choices[0] & LOOKUP,
                              .continues = choices[0] & GOES_ON,
                              .symbol = symbols_add,
                              .context = &e->symbols};
    txl_error error;
    txl_encoder *encoder;
    e->status = TXL_OK;
    symbols_open(&e->symbols);
    fuzz_require_ok(encoder_new(vocabulary, &how, &encoder, &error), &error);
    unsigned cuts = choices[2];
    for (size_t at = 0, n; at < length && !e->status; at += n) {
        n = cut ? 1 + cuts % 7 * (cuts % 5) : length;
        n = n < length - at ? n : length - at;
        cuts = cuts * 5 + 3;
        e->status = txl_encoder_feed(encoder, text + at, n, &error);
    }
    if (!e->status)
        e->status = txl_encoder_finish(encoder, &error);
    fuzz_require(e->symbols.end <= length, "a piece stands for what is behind the text");
    txl_encoder_free(encoder);
    symbols_close(&e->symbols);
}

static void decode(const struct vocabulary *vocabulary, bool raw, const struct id_list *list) {
    txl_decoder *decoder;
    txl_error error;
    const char *text;
    size_t length;
    fuzz_require_ok(decoder_new(vocabulary, raw, &decoder, &error), &error);
    for (size_t i = 0; i < list->n; i++)
        fuzz_require_ok(txl_decoder_push(decoder, list->ids[i], &text, &length, &error), &error);
    for (int32_t id = 0; id < vocabulary->n && id < 300; id++)
        fuzz_require_ok(txl_decoder_push(decoder, id, &text, &length, &error), &error);
    fuzz_require_ok(txl_decoder_finish(decoder, &text, &length, &error), &error);
    fuzz_require_ok(txl_decoder_continue(decoder, list->ids, list->n, ' ', &error), &error);
    txl_decoder_free(decoder);
}

static void use(const struct vocabulary *vocabulary, const uint8_t *choices, const char *text,
                size_t length) {
    struct encoding whole, cut;
    encode(vocabulary, choices, false, text, length, &whole);
    encode(vocabulary, choices, true, text, length, &cut);
    fuzz_require(!whole.status && !cut.status, "a text has no pieces");
    fuzz_require(symbols_equal(&whole.symbols, &cut.symbols), "cut text gives other pieces");
    decode(vocabulary, choices[0] & RAW, &whole.symbols.list);
    symbols_free(&whole.symbols);
    symbols_free(&cut.symbols);
}

/* A copy of its own size, so that a sanitizer sees a read beyond it. */
static void *copy(const uint8_t *data, size_t size) {
    void *made = malloc(size + !size);
    fuzz_require(made, "out of memory");
    memcpy(made, data, size);
    return made;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < HEAD || data[1] > size - HEAD)
        return 0;
    const txl_kind kind = data[0] & XLNET ? TXL_XLNET : TXL_PIECES;
    size_t length = data[1], model_size = size - HEAD - length;
    void *model = copy(data + HEAD, model_size);
    struct packed_pieces packed = {.n = -1};
    txl_error error;
    sentencepiece_recognise(model, model_size);
    if (data[0] & SECTION && model_size >= 4) {
        uint32_t n;
        memcpy(&n, model, sizeof n);
        packed = (struct packed_pieces){.section = model,
                                        .size = model_size,
                                        .n = n < 1 << 20 ? (int32_t)n : 0,
                                        .unk = 0,
                                        .eos = 1};
        model = NULL;
    } else if (sentencepiece_pack(model, model_size, kind, "model", &packed, &error)) {
        free(model);
        return 0;
    }
    struct vocabulary vocabulary;
    const struct vocabulary_settings settings = {packed.n, kind, false, packed.unk, packed.eos};
    if (!vocabulary_open(&vocabulary, packed.section, packed.size, &settings, "section", &error))
        use(&vocabulary, data, (const char *)data + size - length, length);
    vocabulary_close(&vocabulary);
    free(packed.section);
    free(model);
    return 0;
}
