/* Continues a prompt, as `txl generate --tokens 200 --seed 7` does, through the installed library:
 *     cc generate.c $(pkg-config --cflags --libs txl) -o generate
 *     ./generate model.txl "It was a dark and stormy night" */
#include <err.h>
#include <stdio.h>
#include <string.h>
#include <txl.h>

static txl_error error;
static txl_session *session;
static txl_decoder *decoder;
static const char *text; /* [length], what the decoder gave last */
static size_t length;

static void check(txl_status status) {
    if (status != TXL_OK)
        errx(1, "%s", error.message);
}

static txl_status append(int32_t id) {
    check(txl_session_feed(session, &id, 1, &error));
    check(txl_decoder_push(decoder, id, &text, &length, &error));
    fwrite(text, 1, length, stdout);
    return TXL_OK;
}

static txl_status append_symbol(void *context, const txl_symbol *symbol, txl_error *unused) {
    (void)context, (void)unused;
    return symbol->text ? append(symbol->id) : TXL_OK; /* NULL: a line ended */
}

int main(int argc, char **argv) {
    txl_model *model;
    txl_settings settings;
    check(txl_model_open(argc > 1 ? argv[1] : "model.txl", 0, &model, &error));
    txl_model_defaults(model, &settings);
    check(txl_session_new(model, &settings, &session, &error));
    check(txl_decoder_new(model, true, &decoder, &error));
    const char *prompt = argc > 2 ? argv[2] : "The";
    txl_encoder *encoder;
    txl_encoding encoding = {.raw = true, .prompt = true, .lookup = true, .symbol = append_symbol};
    check(txl_encoder_new(model, &encoding, &encoder, &error));
    check(txl_encoder_feed(encoder, prompt, strlen(prompt), &error));
    check(txl_encoder_finish(encoder, &error));

    txl_sampling sampling;
    txl_sampling_defaults(model, &sampling);
    txl_random random = {.seed = 7};
    for (int32_t id, i = 0; i < 200; i++) {
        float logprob;
        check(txl_session_sample(session, &sampling, &random, &id, &logprob, &error));
        append(id);
    }
    check(txl_decoder_finish(decoder, &text, &length, &error));
    printf("%.*s\n", (int)length, text);
    txl_encoder_free(encoder);
    txl_decoder_free(decoder);
    txl_session_free(session);
    txl_model_close(model);
}
