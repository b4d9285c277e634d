/* Fills the gaps of a text from left to right with the likeliest pieces, through the installed
 * library, as `txl fill --allow-unk` does:
 *     cc fill.c $(pkg-config --cflags --libs txl) -o fill
 *     ./fill xlnet.txl "The capital of France is <mask>." */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <txl.h>

static txl_error error;
static int32_t mask, ids[512];
static size_t n;

static void check(txl_status status) {
    if (status)
        errx(1, "%s", error.message);
}

static txl_status append_symbol(void *context, const txl_symbol *symbol, txl_error *unused) {
    (void)context, (void)unused;
    if (symbol->text && n < sizeof ids / sizeof *ids)
        ids[n++] = symbol->id == mask ? TXL_GAP : symbol->id;
    return TXL_OK;
}

int main(int argc, char **argv) {
    txl_model *model;
    txl_session *session;
    txl_settings settings;
    check(txl_model_open(argc > 1 ? argv[1] : "xlnet.txl", 0, &model, &error));
    txl_model_defaults(model, &settings);
    settings.tgt_len = sizeof ids / sizeof *ids; /* the text is one segment */
    check(txl_session_new(model, &settings, &session, &error));

    const char *text = argc > 2 ? argv[2] : "The <mask> sat.";
    txl_encoder *encoder;
    txl_encoding encoding = {.lookup = true, .symbol = append_symbol};
    mask = txl_model_id(model, "<mask>", strlen("<mask>"));
    check(txl_encoder_new(model, &encoding, &encoder, &error));
    check(txl_encoder_feed(encoder, text, strlen(text), &error));
    check(txl_encoder_finish(encoder, &error));

    check(txl_session_feed_gaps(session, ids, n, &error));
    for (size_t gap = 0; gap < n; gap++) {
        float logprob;
        if (ids[gap] != TXL_GAP)
            continue;
        check(txl_session_ask(session, &gap, 1, NULL, &error));
        check(txl_session_top(session, 1, &ids[gap], &logprob, &error));
        check(txl_session_fill(session, gap, ids[gap], &error));
        size_t length;
        const char *piece = txl_model_symbol(model, ids[gap], &length);
        printf("%.*s %.3f\n", (int)length, piece, (double)logprob);
    }
    txl_encoder_free(encoder);
    txl_session_free(session);
    txl_model_close(model);
}
