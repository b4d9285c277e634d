/* A text, token by token. */
#include "text.h"

#include "cli/io/signals.h"
#include "lib/base/error.h"
#include "lib/base/white_space.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unictype.h>
#include <unistr.h>

static txl_status lacks_memory(txl_error *error) {
    return txl_fail(error, TXL_MEMORY, "out of memory");
}

static txl_status or_lacks_memory(bool good, txl_error *error) {
    return good ? TXL_OK : lacks_memory(error);
}

/* ---- How tokens are drawn ----------------------------------------------------------------- */

/* Lists the ids that are never drawn. */
static bool list_banned(struct text_rules *r) {
    const txl_model *model = r->model->handle;
    int32_t eos = txl_model_eos(model);
    size_t n;
    const int32_t *banned = txl_model_banned(model, &n);
    bool good = eos < 0 || r->options->eos != EOS_BAN || id_list_add(&r->banned, eos);
    for (size_t i = 0; !r->options->allow_unk && i < n && good; i++)
        good = id_list_add(&r->banned, banned[i]);
    return good;
}

txl_status text_rules_choose(struct text_rules *r, txl_error *error) {
    const struct text_options *o = r->options;
    r->n = o->n != INTEGER_UNSET                                ? (uint64_t)o->n
           : model_unit(r->model->handle) == TXL_UNIT_CHARACTER ? CHARACTERS_N
                                                                : WORDS_N;
    r->sampling = sampling_terms(&o->sampling);
    id_list_free(&r->banned); /* of the options before */
    if (!list_banned(r))
        return lacks_memory(error);
    r->sampling.banned = r->banned.ids;
    r->sampling.n_banned = r->banned.n;
    return TXL_OK;
}

/* Whether a piece without a word mark goes on with the word before it: a letter, a digit, a hyphen
 * or an apostrophe does, and other punctuation does not. */
static bool continues_word(const char *piece, size_t length) {
    ucs4_t code;
    bool hyphen = length > 0 && piece[0] == '-' && !(length > 1 && piece[1] == '-');
    if (hyphen || (length > 0 && piece[0] == '\'') ||
        (length > 2 && memcmp(piece, "\u2019", 3) == 0))
        return true;
    return length > 0 && u8_mbtoucr(&code, (const uint8_t *)piece, length) > 0 && uc_is_alnum(code);
}

txl_status text_list_first(struct id_list *list, const struct id_list *banned,
                           const txl_model *model, bool after_blank, txl_error *error) {
    bool good = true;
    list->n = 0;
    for (size_t i = 0; i < banned->n && good; i++)
        good = id_list_add(list, banned->ids[i]);
    for (int32_t id = 0, n = txl_model_n_token(model); id < n && good; id++) {
        size_t length;
        const char *piece = txl_model_symbol(model, id, &length);
        bool continues = id != txl_model_eos(model) && continues_word(piece, length);
        if (!begins_with_word_mark(piece, length) && (after_blank || continues))
            good = id_list_add(list, id);
    }
    return or_lacks_memory(good, error);
}

/* ---- Beginning and end -------------------------------------------------------------------- */

txl_status text_open(struct text *t, const struct text_rules *rules, txl_session *session,
                     txl_error *error) {
    *t = (struct text){.rules = rules, .session = session};
    txl_status status =
        rules->ids ? TXL_OK : txl_decoder_new(rules->model->handle, rules->raw, &t->decoder, error);
    if (status)
        return status;
    t->top_ids = calloc(rules->top + 1, sizeof *t->top_ids);
    t->top_logprobs = calloc(rules->top + 1, sizeof *t->top_logprobs);
    if (!t->top_ids || !t->top_logprobs || !stop_search_new(&t->stops, &rules->options->stop))
        return lacks_memory(error);
    return sampling_history(&rules->options->sampling, &t->history, error);
}

txl_status text_copy(struct text *copy, const struct text *from, txl_error *error) {
    struct id_list recent;
    txl_session *session;
    *copy = (struct text){.rules = from->rules};
    txl_status status = txl_session_copy(from->session, &session, error);
    if (!status)
        status = text_open(copy, from->rules, session, error);
    if (!status)
        status = recent_copy(&recent, from->history, error);
    if (status)
        return status;
    txl_history_push(copy->history, recent.ids, recent.n);
    id_list_free(&recent);
    return TXL_OK;
}

void text_close(struct text *t) {
    buffer_free(&t->decoded);
    buffer_free(&t->output);
    free(t->top_ids);
    free(t->top_logprobs);
    stop_search_free(&t->stops);
    drafts_free(t->drafts);
    txl_decoder_free(t->decoder);
    txl_history_free(t->history);
    txl_session_free(t->session);
}

/* Tells the decoder the line that it continues. */
static txl_status continue_decoder(struct text *t, txl_error *error) {
    const txl_model *model = t->rules->model->handle;
    struct id_list recent;
    if (!t->decoder)
        return TXL_OK;
    txl_status status = recent_copy(&recent, t->history, error);
    if (status)
        return status;
    size_t line = recent_line(recent.ids, recent.n, model);
    status = txl_decoder_continue(t->decoder, recent.ids + line, recent.n - line, t->tail, error);
    id_list_free(&recent);
    return status;
}

bool text_rules_read_text(const struct text_rules *r) {
    const txl_sampling *p = &r->sampling;
    return (p->repetition_penalty != 0 && p->repetition_penalty != 1) ||
           r->options->sampling.no_repeat_ngram > 0;
}

static txl_status start_drafts(struct text *t, txl_error *error) {
    struct id_list recent;
    if (!t->drafts)
        return TXL_OK;
    txl_status status = recent_copy(&recent, t->history, error);
    if (status)
        return status;
    drafts_start(t->drafts, recent.ids, recent.n);
    id_list_free(&recent);
    return TXL_OK;
}

txl_status text_start(struct text *t, const struct text_start *start, txl_error *error) {
    t->random = start->random;
    t->tail = start->tail;
    t->round = start->round;
    t->first_banned = start->first_banned;
    t->made = 0;
    t->done = NULL;
    t->status = TXL_OK;
    t->refused = t->drawn = false;
    t->sentence = (struct sentence){0};
    t->output.length = 0;
    stop_search_reset(&t->stops);
    txl_status status = start_drafts(t, error);
    return status ? status : continue_decoder(t, error);
}

txl_status text_save(const struct text *t, txl_memory **memory, txl_error *error) {
    struct id_list recent;
    txl_status status = recent_copy(&recent, t->history, error);
    if (status)
        return status;
    const txl_resume resume = {.random = t->random,
                               .recent = recent.ids,
                               .n_recent = recent.n,
                               .tail = t->tail,
                               .refresh = (uint32_t)t->rules->reading.refresh,
                               .round = (uint32_t)t->round};
    status = txl_session_save(t->session, &resume, memory, error);
    id_list_free(&recent);
    return status;
}

/* ---- A token ------------------------------------------------------------------------------- */

bool text_of_token(txl_decoder *scratch, const struct text_end *end, int32_t id,
                   struct buffer *text) {
    const char *part;
    size_t length;
    return !txl_decoder_continue(scratch, &end->id, end->n, end->tail, NULL) &&
           !txl_decoder_push(scratch, id, &part, &length, NULL) &&
           buffer_append(text, part, length) &&
           !txl_decoder_finish(scratch, &part, &length, NULL) && buffer_append(text, part, length);
}

static bool ends_at_sentence(const struct text_rules *r) {
    return r->options->end == END_SENTENCE && r->n > 0;
}

/* Sets whether the turn, or after -n tokens the text, ends before the token just drawn: it is white
 * space after a sentence, or a line end. */
static txl_status see_turn(struct text *t, txl_error *error) {
    const struct text_rules *r = t->rules;
    struct buffer text = {0};
    if (r->turn == TURN_NONE && !ends_at_sentence(r))
        return TXL_OK;
    bool good = text_of_token(r->scratch, &t->before, t->id, &text);
    bool line_end =
        t->id == txl_model_eos(r->model->handle) || (text.length > 0 && text.data[0] == '\n');
    bool blank = line_end || (text.length > 0 && is_space_byte(text.data[0]));
    bool wanted = r->turn == TURN_SENTENCE || (ends_at_sentence(r) && t->made >= r->n);
    t->refused = (wanted && blank && sentence_ended(&t->sentence)) ||
                 (r->turn == TURN_LINE && line_end && t->made > 0);
    if (good && !t->refused)
        sentence_add(&t->sentence, line_end ? "\n" : text.data, line_end ? 1 : text.length);
    buffer_free(&text);
    return or_lacks_memory(good, error);
}

static txl_status draw_id(struct text *t, txl_error *error) {
    txl_sampling sampling = t->rules->sampling;
    sampling.history = t->history;
    if (t->made == 0 && t->first_banned) {
        sampling.banned = t->first_banned->ids;
        sampling.n_banned = t->first_banned->n;
    }
    t->before = (struct text_end){.tail = t->tail};
    t->before.n = txl_history_recent(t->history, &t->before.id, 1);
    txl_status status = TXL_OK;
    if (t->rules->top > 0)
        status =
            txl_session_top(t->session, (int)t->rules->top, t->top_ids, t->top_logprobs, error);
    if (!status)
        status = txl_session_sample(t->session, &sampling, &t->random, &t->id, &t->logprob, error);
    if (!status)
        status = see_turn(t, error);
    if (!status && !t->refused) {
        txl_history_push(t->history, &t->id, 1);
        t->made++;
    }
    return status;
}

/* ---- From ids to what is printed ---------------------------------------------------------- */

/* Appends the id as a number, with a blank before it if needed. */
static bool append_id(struct text *t) {
    char text[16];
    bool blank = t->tail != 0 && !is_space_byte(t->tail);
    int length = snprintf(text, sizeof text, "%s%" PRId32, blank ? " " : "", t->id);
    return buffer_append(&t->decoded, text, (size_t)length);
}

static bool ends_text(const struct text *t) {
    return t->id == txl_model_eos(t->rules->model->handle) && t->rules->options->eos == EOS_STOP;
}

/* Takes the text of the id just drawn, unless it is no part of it; with `last` also what the
 * decoder still holds. */
static txl_status decode_token(struct text *t, bool last, txl_error *error) {
    const char *text;
    size_t length;
    t->decoded.length = 0;
    if (!t->decoder)
        return or_lacks_memory(append_id(t), error);
    if (!t->refused && !ends_text(t)) {
        txl_status status = txl_decoder_push(t->decoder, t->id, &text, &length, error);
        if (status || !buffer_append(&t->decoded, text, length))
            return status ? status : lacks_memory(error);
    }
    if (!last)
        return TXL_OK;
    txl_status status = txl_decoder_finish(t->decoder, &text, &length, error);
    return status ? status : or_lacks_memory(buffer_append(&t->decoded, text, length), error);
}

/* Moves the decoded text past the stop strings; `*done` becomes "stop" when one is found. */
static bool search_stops(struct text *t, const char **done) {
    bool found;
    size_t length = t->output.length;
    if (!stop_search_feed(&t->stops, t->decoded.data, t->decoded.length, &t->output, &found))
        return false;
    if (found)
        *done = "stop";
    bool good = found || !*done || stop_search_finish(&t->stops, &t->output);
    if (t->output.length > length)
        t->tail = t->output.data[t->output.length - 1];
    return good;
}

size_t complete_characters(const struct buffer *text) {
    size_t least = text->length > 3 ? text->length - 3 : 0;
    for (size_t i = text->length; i > least; i--) {
        ucs4_t character;
        const uint8_t *start = (const uint8_t *)text->data + i - 1;
        if (*start >= 0xC0) {
            size_t left = text->length - (i - 1);
            return u8_mbtoucr(&character, start, left) == -2 ? i - 1 : text->length;
        }
    }
    return text->length;
}

/* Why the text ends with this token, or NULL. */
static const char *reason_to_end(const struct text *t) {
    const struct text_rules *r = t->rules;
    if (t->refused)
        return r->turn == TURN_NONE ? "sentence" : "turn";
    if (ends_text(t))
        return "eos";
    if (r->n > 0 && t->made >= r->n + (ends_at_sentence(r) ? SENTENCE_TOKENS : 0))
        return "length";
    return signals_stopped() ? "interrupted" : NULL;
}

txl_status text_draw(struct text *t, txl_error *error) {
    txl_status status = draw_id(t, error);
    if (status)
        return status;
    const char *done = reason_to_end(t);
    status = decode_token(t, done, error);
    if (!status)
        status = or_lacks_memory(search_stops(t, &done), error);
    if (!status)
        t->done = done;
    return status;
}
