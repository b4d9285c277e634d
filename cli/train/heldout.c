/* Scoring the held-out text. */
#include "heldout.h"

#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/text/tokens.h"
#include "lib/base/error.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SCORED = 512 }; /* ids of one call */

static txl_status add_heldout_symbol(void *context, const txl_symbol *symbol, txl_error *error) {
    struct heldout *h = context;
    if (!symbol->text)
        return TXL_OK;
    if (id_list_add(&h->list, symbol->id))
        return TXL_OK;
    return txl_fail(error, TXL_MEMORY, "out of memory");
}

bool heldout_read(struct heldout *h, const txl_model *model, const char *path,
                  const struct train_text *text, bool raw, bool skip_unknown) {
    const bool ids = text->ids;
    struct input input = {.name = path ? path : "the held-out text", .handle = -1};
    struct token_reader reader = {0};
    const txl_encoding encoding = {.raw = raw,
                                   .skip_unknown = skip_unknown,
                                   .lookup = true,
                                   .symbol = add_heldout_symbol,
                                   .context = h,
                                   .unknown = unknown_add,
                                   .unknown_context = &h->unknown};
    *h = (struct heldout){.name = input.name,
                          .letters = txl_kind_unit(txl_model_kind(model)) == TXL_UNIT_CHARACTER};
    bool good = (!path || tokens_open_text(&input, path, model, ids, &text->common)) &&
                token_reader_open(&reader, model, &input, &encoding, ids);
    if (good && path)
        good = !token_reader_run(&reader, NULL, NULL);
    else if (good)
        good = !train_text_feed(text, text->bytes - text->tail.length, &reader, text->tail.data,
                                text->tail.length) &&
               !token_reader_finish(&reader);
    token_reader_counts(&reader, &h->counts);
    token_reader_close(&reader);
    input_close(&input);
    if (good)
        unknown_note(&h->unknown, h->name, txl_model_unk(model) >= 0);
    if (good && h->list.n < 2) {
        terminal_error("%s: fewer than two tokens, so there is nothing to score", h->name);
        good = false;
    }
    return good;
}

void heldout_free(struct heldout *h) {
    id_list_free(&h->list);
    *h = (struct heldout){0};
}

txl_status heldout_score(const struct heldout *h, const txl_model *model,
                         const txl_settings *settings, struct heldout_score *score,
                         txl_error *error) {
    txl_session *session;
    float nats[SCORED];
    *score = (struct heldout_score){0};
    txl_status status = txl_session_new(model, settings, &session, error);
    if (status)
        return status;
    for (size_t i = 0; i + 1 < h->list.n && !status;) {
        size_t left = h->list.n - 1 - i, n = left < SCORED ? left : SCORED;
        status = txl_session_score(session, h->list.ids + i, n, h->list.ids + i + 1, nats, error);
        for (size_t k = 0; k < n && !status; k++)
            score->nats += nats[k];
        score->predicted += n;
        i += n;
        if (!status && signals_stopped())
            status = TXL_STOPPED;
    }
    txl_session_free(session);
    return status;
}

double heldout_bits(const struct heldout *h, const struct heldout_score *score) {
    uint64_t characters = h->letters ? 0 : h->counts.characters;
    return score->nats / log(2) / (double)(characters > 0 ? characters : score->predicted);
}
