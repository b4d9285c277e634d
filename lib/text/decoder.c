/* Ids to text, one symbol at a time.  After each, it gives the text that no later id can change. */
#include "decoder.h"

#include "decode.h"
#include "lib/base/error.h"

#include <inttypes.h>
#include <stdlib.h>

txl_status decode_add(txl_decoder *decoder, const char *bytes, size_t length, txl_error *error) {
    if (!buffer_append(&decoder->out, bytes, length))
        return txl_fail_memory(error, "a symbol's text", decoder->out.length + length);
    return TXL_OK;
}

static txl_status add_symbol(txl_decoder *decoder, int32_t id, txl_error *error) {
    size_t length;
    const char *spelling = vocabulary_symbol(decoder->vocabulary, id, &length);
    if (!spelling)
        return txl_fail(error, TXL_ARGUMENT, "id %" PRId32 ", expected 0 to %" PRId32, id,
                        decoder->vocabulary->n - 1);
    return decoder->kind->symbol(decoder, id, spelling, length, error);
}

static void start_text(txl_decoder *decoder) {
    if (decoder->kind->start)
        decoder->kind->start(decoder);
}

static void give_text(const txl_decoder *decoder, const char **text, size_t *length) {
    *text = decoder->out.length > 0 ? decoder->out.data : "";
    *length = decoder->out.length;
}

/* ---- The public functions ----------------------------------------------------------------- */

txl_status decoder_new(const struct vocabulary *vocabulary, bool raw, txl_decoder **decoder,
                       txl_error *error) {
    const struct kind_decoder *kind = text_kind(vocabulary->kind)->decoder;
    txl_decoder *made = calloc(1, sizeof *made + kind->own_size);
    if (!made)
        return txl_fail_memory(error, "the decoder", sizeof *made + kind->own_size);
    *made = (txl_decoder){.vocabulary = vocabulary, .kind = kind, .own = made + 1};
    txl_status status = kind->open ? kind->open(made, raw, error) : TXL_OK;
    if (status) {
        txl_decoder_free(made);
        return status;
    }
    start_text(made);
    *decoder = made;
    return TXL_OK;
}

txl_status txl_decoder_push(txl_decoder *decoder, int32_t id, const char **text, size_t *length,
                            txl_error *error) {
    decoder->out.length = 0;
    txl_status status = add_symbol(decoder, id, error);
    give_text(decoder, text, length);
    return status;
}

txl_status txl_decoder_push_spelling(txl_decoder *decoder, const char *spelling, size_t n,
                                     const char **text, size_t *length, txl_error *error) {
    decoder->out.length = 0;
    int32_t id = vocabulary_find(decoder->vocabulary, spelling, n);
    txl_status status = decoder->kind->symbol(decoder, id, spelling, n, error);
    give_text(decoder, text, length);
    return status;
}

txl_status txl_decoder_finish(txl_decoder *decoder, const char **text, size_t *length,
                              txl_error *error) {
    decoder->out.length = 0;
    txl_status status = decoder->kind->finish ? decoder->kind->finish(decoder, error) : TXL_OK;
    start_text(decoder);
    give_text(decoder, text, length);
    return status;
}

txl_status txl_decoder_continue(txl_decoder *decoder, const int32_t *ids, size_t n, char tail,
                                txl_error *error) {
    start_text(decoder);
    for (size_t i = 0; i < n; i++) {
        decoder->out.length = 0;
        txl_status status = add_symbol(decoder, ids[i], error);
        if (status)
            return status;
    }
    return decoder->kind->shown ? decoder->kind->shown(decoder, tail, error) : TXL_OK;
}

void txl_decoder_free(txl_decoder *decoder) {
    if (!decoder)
        return;
    if (decoder->kind->close)
        decoder->kind->close(decoder);
    buffer_free(&decoder->out);
    free(decoder);
}
