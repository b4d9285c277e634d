/* JSON of answers. */
#include "answers.h"

#include "cli/io/output.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

static const float LEAST = -9999;

json_t *answer_logprob(float logprob) {
    if (isnan(logprob))
        return json_null();
    return json_real((double)(logprob > LEAST ? logprob : LEAST));
}

static int append_part(const char *text, size_t length, void *out) {
    return buffer_append(out, text, length) ? 0 : -1;
}

bool answer_write(struct buffer *out, json_t *value) {
    bool good =
        value && json_dump_callback(value, append_part, out, ANSWER_FORM | JSON_ENCODE_ANY) == 0;
    json_decref(value);
    return good;
}

bool answer_append(struct buffer *out, const char *text) {
    return buffer_append(out, text, strlen(text));
}

bool answer_open(struct buffer *out, json_t *object) {
    bool good = answer_write(out, object);
    out->length -= good;
    return good;
}

static const char *type_of(int status) {
    switch (status) {
    case 401:
        return "authentication_error";
    case 404:
        return "not_found_error";
    case 429:
        return "rate_limit_error";
    case 501:
        return "not_implemented_error";
    default:
        return status < 500 ? "invalid_request_error" : "server_error";
    }
}

json_t *answer_error(const struct problem *p) {
    return json_pack("{s:{s:o, s:s, s:o, s:i}}", "error", "message", output_json_string(p->text),
                     "type", type_of(p->status), "param",
                     p->param ? json_string(p->param) : json_null(), "code", p->status);
}

uint64_t answer_characters(const char *text, size_t length) {
    uint64_t n = 0;
    for (size_t i = 0; i < length; i++)
        n += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n;
}

/* ---- Tokens -------------------------------------------------------------------------------- */

/* A stretch of bytes. */
struct piece {
    const char *text;
    size_t length;
};

static size_t end_at(const struct buffer *token_ends, size_t i) {
    size_t end;
    memcpy(&end, token_ends->data + i * sizeof end, sizeof end);
    return end;
}

size_t answer_token_end(const struct slot *slot, size_t token) {
    return end_at(&slot->prompt_ends, token);
}

/* Token i of a text with the ends of its tokens. */
static struct piece piece_at(const struct buffer *text, const struct buffer *token_ends, size_t i) {
    size_t begin = i > 0 ? end_at(token_ends, i - 1) : 0;
    return (struct piece){text->data ? text->data + begin : "", end_at(token_ends, i) - begin};
}

static int32_t id_of(const struct slot *slot, size_t token) {
    size_t prompt = slot_prompt_tokens(slot);
    return token < prompt ? slot->ids[token + slot->n_before] : slot->made.ids[token - prompt];
}

static struct piece piece_of(const struct slot *slot, size_t token) {
    size_t prompt = slot_prompt_tokens(slot);
    return token < prompt ? piece_at(&slot->prompt_text, &slot->prompt_ends, token)
                          : piece_at(&slot->spelled, &slot->ends, token - prompt);
}

/* The last byte of the text before the token, 0: none. */
static char tail_before(const struct slot *slot, size_t token) {
    size_t prompt = slot_prompt_tokens(slot);
    const struct buffer *text = token < prompt ? &slot->prompt_text : &slot->spelled;
    const struct piece piece = piece_of(slot, token);
    if (piece.text > text->data && text->data)
        return piece.text[-1];
    return token >= prompt && slot->prompt_text.length > 0
               ? slot->prompt_text.data[slot->prompt_text.length - 1]
               : 0;
}

/* Whether the symbol is a byte of a character of several: <0x80> to <0xFF>, of a model of pieces.
 */
static bool is_byte(const struct token_spelling *t, int32_t id, char *byte) {
    size_t length;
    unsigned value;
    const char *symbol = txl_model_symbol(t->model, id, &length);
    if (txl_model_kind(t->model) != TXL_PIECES || length != 6 ||
        sscanf(symbol, "<0x%2X>", &value) != 1 || symbol[5] != '>' || value < 0x80)
        return false;
    *byte = (char)value;
    return true;
}

/* A token that is not whole UTF-8 is spelled byte by byte. */
static json_t *spell(const struct token_spelling *t, int32_t id, const struct piece *piece) {
    char text[32];
    if (t->names_ids) {
        snprintf(text, sizeof text, "token_id:%" PRId32, id);
        return json_string(text);
    }
    char byte;
    const struct piece shown = is_byte(t, id, &byte) ? (struct piece){&byte, 1} : *piece;
    if (!u8_check((const uint8_t *)shown.text, shown.length))
        return json_stringn(shown.text, shown.length);
    struct buffer bytes = {0};
    bool good = buffer_append(&bytes, "bytes:", 6);
    for (size_t i = 0; i < shown.length && good; i++) {
        int n = snprintf(text, sizeof text, "\\x%02x", (unsigned char)shown.text[i]);
        good = buffer_append(&bytes, text, (size_t)n);
    }
    json_t *string = good ? json_stringn(bytes.data, bytes.length) : NULL;
    buffer_free(&bytes);
    return string;
}

json_t *answer_token(const struct token_spelling *t, const struct slot *slot, size_t token) {
    const struct piece piece = piece_of(slot, token);
    return spell(t, id_of(slot, token), &piece);
}

/* ---- The likeliest ------------------------------------------------------------------------- */

static json_t *spell_alternative(const struct token_spelling *t, const struct slot *slot,
                                 size_t token, int32_t id) {
    struct buffer text = {0};
    const struct text_end end = {.id = token > 0 ? id_of(slot, token - 1) : 0,
                                 .n = token > 0,
                                 .tail = tail_before(slot, token)};
    bool good = text_of_token(t->scratch, &end, id, &text);
    const struct piece piece = {text.data ? text.data : "", text.length};
    json_t *string = good ? spell(t, id, &piece) : NULL;
    buffer_free(&text);
    return string;
}

/* Adds a name unless a likelier one is there.  Takes the reference. */
static bool add_name(json_t *top, json_t *name, float logprob) {
    json_t *known = name ? json_object_get(top, json_string_value(name)) : NULL;
    json_t *value = answer_logprob(logprob);
    bool good = name && value;
    if (good && (!known || json_real_value(known) < json_real_value(value)))
        good = json_object_set(top, json_string_value(name), value) == 0;
    json_decref(name);
    json_decref(value);
    return good;
}

json_t *answer_top(const struct token_spelling *t, const struct slot *slot, size_t token) {
    const struct token_scores *s = &slot->scores;
    size_t place = slot_score_of(slot, token);
    if (isnan(s->logprob[place]))
        return json_null();
    json_t *top = json_object();
    int32_t own = id_of(slot, token);
    bool good = top && add_name(top, answer_token(t, slot, token), s->logprob[place]);
    for (size_t i = place * s->k; i < (place + 1) * s->k && good; i++)
        if (s->top_ids[i] != own)
            good =
                add_name(top, spell_alternative(t, slot, token, s->top_ids[i]), s->top_logprobs[i]);
    return output_json_if(good, top);
}

/* The lists of log-probabilities, in the order of their names. */
enum { TOKENS, OWN, TOP, OFFSETS, IDS, N_LISTS };

static bool list_token(const struct token_spelling *t, const struct slot *slot,
                       struct buffer lists[N_LISTS]) {
    json_t *values[N_LISTS] = {
        [TOKENS] = answer_token(t, slot, slot->listed),
        [OWN] = answer_logprob(slot->scores.logprob[slot_score_of(slot, slot->listed)]),
        [TOP] = answer_top(t, slot, slot->listed),
        [OFFSETS] = json_integer((json_int_t)slot->listed_end),
        [IDS] = json_integer(id_of(slot, slot->listed))};
    bool good = true;
    for (size_t i = 0; i < N_LISTS; i++) {
        good = good && (lists[i].length == 0 || answer_append(&lists[i], ","));
        good = answer_write(&lists[i], values[i]) && good;
    }
    return good;
}

bool answer_logprobs(const struct token_spelling *t, struct slot *slot, size_t end,
                     struct buffer *out) {
    static const char *const names[N_LISTS] = {"{\"tokens\":[", "],\"token_logprobs\":[",
                                               "],\"top_logprobs\":[", "],\"text_offset\":[",
                                               "],\"token_ids\":["};
    struct buffer lists[N_LISTS] = {0};
    bool good = true;
    for (; slot->listed < end && good; slot->listed++) {
        const struct piece piece = piece_of(slot, slot->listed);
        good = list_token(t, slot, lists);
        slot->listed_end += answer_characters(piece.text, piece.length);
    }
    for (size_t i = 0; i < N_LISTS; i++) {
        good = good && answer_append(out, names[i]) &&
               buffer_append(out, lists[i].data, lists[i].length);
        buffer_free(&lists[i]);
    }
    return good && answer_append(out, "]}");
}
