/* Finds the words of the source again, and sums tokens over them. */
#include "words.h"
#include "cli/model/model.h"
#include "lib/base/white_space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void sums_add(struct sums *sums, const struct sums *more) {
    sums->tokens += more->tokens;
    sums->unknown += more->unknown;
    sums->nats += more->nats;
    sums->nats_other += more->nats_other;
    sums->kl += more->kl;
}

/* ---- The event B -------------------------------------------------------------------------- */

/* Whether the symbol of a model of characters or bytes is white space. */
static bool is_space_symbol(const txl_model *model, const char *symbol, size_t length) {
    int byte = 0; /* a byte's symbol is its decimal number */
    switch (txl_model_kind(model)) {
    case TXL_BYTES:
        for (size_t i = 0; i < length && byte < 256; i++)
            byte = 10 * byte + (symbol[i] - '0');
        return length > 0 && byte < 128 && is_space_byte((char)byte);
    case TXL_TEXT8:
        return length == 1 && *symbol == '_';
    default:
        return length > 0 && is_all_space(symbol, length);
    }
}

bool *words_boundaries(const txl_model *model) {
    const int32_t n = txl_model_n_token(model), eos = txl_model_eos(model);
    const bool subwords = model_unit(model) == TXL_UNIT_PIECE;
    bool *boundaries = calloc((size_t)n, sizeof *boundaries);
    for (int32_t id = 0; boundaries && id < n; id++) {
        size_t length = 0;
        const char *symbol = txl_model_symbol(model, id, &length);
        boundaries[id] = id == eos || (subwords ? begins_with_word_mark(symbol, length)
                                                : is_space_symbol(model, symbol, length));
    }
    return boundaries;
}

/* ---- The source --------------------------------------------------------------------------- */

/* Whether the word being summed is the last one of the source so far. */
static bool is_at_hand(const struct words *w) {
    return w->in_word && w->word.place.offset == w->word_begin;
}

/* Moves on by one character or byte; `*n` becomes 0 at the end of the text. */
static txl_status step_on(struct words *w, size_t *n, txl_error *error) {
    char bytes[3];
    txl_status status = source_copy(w->source, w->at, sizeof bytes, bytes, n, error);
    if (status || *n == 0)
        return status;
    if (w->at == 0 && w->has_marks && byte_order_mark_length(bytes, *n) > 0) {
        w->at = w->word_begin = w->word_end = BYTE_ORDER_MARK_BYTES;
        return TXL_OK;
    }
    const size_t space = space_length(bytes, *n);
    if (space == 0 && !w->reading_word) {
        w->word_begin = w->at;
        w->word_line = w->line;
    }
    w->reading_word = space == 0;
    w->line += bytes[0] == '\n' && w->record == 0;
    *n = space > 0 ? space : 1;
    w->at += *n;
    if (w->reading_word)
        w->word_end = w->at;
    if (w->reading_word && is_at_hand(w))
        w->word.place.bytes = w->word_end - w->word_begin;
    return TXL_OK;
}

/* Reads on to the first word that ends after `offset`, if one begins before `end`. */
static txl_status find_word(struct words *w, uint64_t offset, uint64_t end, txl_error *error) {
    size_t n = 1;
    txl_status status = TXL_OK;
    while (!status && n > 0 && w->at < end && w->word_end <= offset)
        status = step_on(w, &n, error);
    return status;
}

/* Reads to the end of the current word. */
static txl_status finish_word(struct words *w, txl_error *error) {
    size_t n = 1;
    txl_status status = TXL_OK;
    while (!status && n > 0 && w->reading_word && is_at_hand(w))
        status = step_on(w, &n, error);
    return status;
}

/* ---- Words -------------------------------------------------------------------------------- */

void words_start(struct words *w, struct source *source, uint64_t record) {
    *w = (struct words){.model = w->model,
                        .begins = w->begins,
                        .subwords = w->subwords,
                        .has_marks = w->has_marks,
                        .found = w->found,
                        .context = w->context,
                        .source = source,
                        .record = record,
                        .line = record > 0 ? record : 1,
                        .word_line = record > 0 ? record : 1};
}

/* Ends the current word.  `next` is what is known before the next row's first token, and
 * `after_it` before the first that counts with the next corrected word; NULL: nothing. */
static txl_status end_word(struct words *w, const struct moment *next,
                           const struct moment *after_it, txl_error *error) {
    struct found_word *word = &w->word;
    if (!w->in_word)
        return TXL_OK;
    w->in_word = false;
    if (!w->begins)
        word->corrected = word->sums.nats;
    else if (w->subwords)
        word->corrected += w->first.begins - (after_it ? after_it->begins : 0);
    word->reduction = next ? word->entropy - next->entropy : NAN;
    return w->found(w->context, word, error);
}

/* Adds a token that is only white space.  A word mark alone waits for its word, unless the line
 * ends before. */
static void take_white(struct words *w, const struct scored *token, const struct sums *sums,
                       const struct moment *before) {
    const bool stays = w->subwords && token->id != txl_model_eos(w->model);
    if (w->white.tokens == 0)
        w->before_white = *before;
    sums_add(&w->white, sums);
    if (stays) {
        if (!w->has_lead)
            w->before_lead = *before;
        w->has_lead = true;
        w->lead += sums->nats;
    } else {
        w->tail += w->lead + sums->nats;
        w->lead = 0;
        w->has_lead = false;
    }
}

/* Where the token before this one ends. */
static uint64_t end_before(const struct scored *token) {
    const struct place *place = token->place;
    return place->offset + place->bytes - place->share.bytes;
}

/* Adds the first token of a new word, the last one of the source so far. */
static txl_status begin_word(struct words *w, const struct scored *token, const struct sums *sums,
                             const struct moment *before, txl_error *error) {
    const struct moment first = w->has_lead ? w->before_lead : *before;
    const struct moment row = w->white.tokens > 0 ? w->before_white : *before;
    const uint64_t number = w->word.number + 1;
    if (w->begins)
        w->word.corrected += w->tail; /* of no word, before the first */
    txl_status status = end_word(w, &row, &first, error);
    w->word = (struct found_word){.number = number,
                                  .place = {.line = w->word_line,
                                            .offset = w->word_begin,
                                            .bytes = w->word_end - w->word_begin},
                                  .sums = w->white,
                                  .corrected = w->lead + sums->nats,
                                  .entropy = row.entropy};
    sums_add(&w->word.sums, sums);
    w->first = first;
    if (end_before(token) > w->word_begin) /* that stands for part of the word too */
        w->first.begins = 0;
    w->in_word = true;
    w->white = (struct sums){0};
    w->tail = w->lead = 0;
    w->has_lead = false;
    return status;
}

txl_status words_token(struct words *w, const struct scored *token, const struct sums *sums,
                       const struct moment *before, txl_error *error) {
    const uint64_t offset = token->place->offset, end = offset + token->place->bytes;
    txl_status status = find_word(w, offset, end, error);
    if (status)
        return status;
    const bool is_white = !(w->word_begin < end && w->word_end > offset);
    if (is_white) {
        take_white(w, token, sums, before);
        return find_word(w, end > 0 ? end - 1 : 0, UINT64_MAX, error); /* which comes next? */
    }
    w->reached = end;
    if (!is_at_hand(w))
        return begin_word(w, token, sums, before, error);
    /* White space within the word is a token that stands for none of its bytes. */
    sums_add(&w->word.sums, &w->white);
    sums_add(&w->word.sums, sums);
    w->word.corrected += w->tail + w->lead + sums->nats;
    w->white = (struct sums){0};
    w->tail = w->lead = 0;
    w->has_lead = false;
    return TXL_OK;
}

uint64_t words_number(const struct words *w) {
    if (w->white.tokens == 0)
        return w->word.number;
    const bool follows = w->word_end > w->word_begin && !(w->in_word && is_at_hand(w));
    return follows ? w->word.number + 1 : 0;
}

txl_status words_end(struct words *w, bool cut, txl_error *error) {
    txl_status status = finish_word(w, error);
    const bool whole = !cut || w->reached >= w->word.place.offset + w->word.place.bytes;
    const struct moment *after = w->white.tokens > 0 ? &w->before_white : NULL;
    if (!status && w->in_word && !whole) {
        sums_add(&w->word.sums, &w->white);
        w->white = w->word.sums;
        w->in_word = false;
    }
    if (w->begins && !after && cut)
        w->word.corrected = NAN; /* what follows is not known */
    else if (w->begins && !w->subwords && after)
        w->word.corrected -= after->begins;
    return status ? status : end_word(w, after, after, error);
}
