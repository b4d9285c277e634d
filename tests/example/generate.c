/* Continues a prompt, as `txl generate --tokens 200 --seed 7 --memory-type f32` does, through the
 * installed library: cc generate.c $(pkg-config --cflags --libs txl) -o generate
 *     ./generate model.txl "It was a dark and stormy night" */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <txl.h>

enum { TOKENS = 200, REFRESH = 16 };

static txl_error error;
static txl_session *session;
static txl_decoder *decoder;
static bool in_line;     /* the text printed so far does not end with a line end */
static const char *text; /* [length], what the decoder gave last */
static size_t length;
static bool both_sides; /* the model is an XLNet */
static size_t block;    /* tokens that it reads together */
static int32_t *known;  /* [n_known], the text so far */
static size_t n_known;

static void check(txl_status status) {
    if (status)
        errx(1, "%s", error.message);
}

static void add(int32_t id) {
    known = realloc(known, (n_known + 1) * sizeof *known);
    if (!known)
        errx(1, "out of memory");
    known[n_known++] = id;
}

/* The tokens of an XLNet see both sides: with every 16 new ones all known ones are read again, as
 * one block. */
static void read_again(void) {
    size_t n = n_known < block ? n_known : block;
    txl_session_reset(session);
    check(txl_session_feed_block(session, known + n_known - n, n, &error));
}

static void feed(int32_t id, int made) {
    add(id);
    if (both_sides && made % REFRESH == 0) {
        read_again();
        return;
    }
    if (both_sides)
        txl_session_end_segment(session);
    check(txl_session_feed(session, &id, 1, &error));
}

static void show(void) {
    fwrite(text, 1, length, stdout);
    if (length > 0)
        in_line = text[length - 1] != '\n';
}

static void print(int32_t id) {
    check(txl_decoder_push(decoder, id, &text, &length, &error));
    show();
}

static txl_status take_symbol(void *context, const txl_symbol *symbol, txl_error *unused) {
    (void)context, (void)unused;
    if (symbol->text) { /* NULL: a line ended */
        add(symbol->id);
        print(symbol->id);
    }
    return TXL_OK;
}

int main(int argc, char **argv) {
    txl_model *model;
    txl_settings settings;
    check(txl_model_open(argc > 1 ? argv[1] : "model.txl", 0, &model, &error));
    txl_model_defaults(model, &settings);
    both_sides = txl_model_family(model) == TXL_FAMILY_XLNET;
    block = (size_t)settings.tgt_len;
    if (both_sides)
        settings.mem_len = settings.tgt_len + REFRESH; /* nothing is forgotten in between */
    check(txl_session_new(model, &settings, &session, &error));
    check(txl_decoder_new(model, true, &decoder, &error));

    const char *prompt = argc > 2 ? argv[2] : "";
    txl_encoder *encoder;
    txl_encoding encoding = {.raw = true, .prompt = true, .lookup = true, .symbol = take_symbol};
    check(txl_encoder_new(model, &encoding, &encoder, &error));
    check(txl_encoder_feed(encoder, prompt, strlen(prompt), &error));
    check(txl_encoder_finish(encoder, &error));
    if (n_known == 0)
        add(txl_model_first_context(model));
    if (both_sides)
        read_again();
    else
        check(txl_session_feed(session, known, n_known, &error));

    txl_sampling sampling; /* bans what stands for no text */
    txl_sampling_defaults(model, &sampling);
    txl_random random = {.seed = 7};
    for (int made = 1; made <= TOKENS; made++) {
        int32_t id;
        float logprob;
        check(txl_session_sample(session, &sampling, &random, &id, &logprob, &error));
        print(id);
        feed(id, made);
    }
    check(txl_decoder_finish(decoder, &text, &length, &error));
    show();
    if (in_line)
        putchar('\n');
    txl_encoder_free(encoder);
    txl_decoder_free(decoder);
    txl_session_free(session);
    txl_model_close(model);
    free(known);
}
