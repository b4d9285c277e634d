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

/* Token i of a text with the ends of its tokens. */
static struct piece piece_at(const struct buffer *text, const struct buffer *token_ends, size_t i) {
    size_t begin = i > 0 ? end_at(token_ends, i - 1) : 0;
    return (struct piece){text->data ? text->data + begin : "", end_at(token_ends, i) - begin};
}

static int32_t id_of(const struct row *r, size_t token) {
    size_t prompt = row_prompt_tokens(r);
    return token < prompt ? r->ids[token + r->n_before] : r->made.ids[token - prompt];
}

static struct piece piece_of(const struct row *r, size_t token) {
    size_t prompt = row_prompt_tokens(r);
    return token < prompt ? piece_at(&r->prompt_text, &r->prompt_ends, token)
                          : piece_at(&r->spelled, &r->ends, token - prompt);
}

/* The last byte of the text before the token, 0: none. */
static char tail_before(const struct row *r, size_t token) {
    size_t prompt = row_prompt_tokens(r);
    const struct buffer *text = token < prompt ? &r->prompt_text : &r->spelled;
    const struct piece piece = piece_of(r, token);
    if (piece.text > text->data && text->data)
        return piece.text[-1];
    return token >= prompt && r->prompt_text.length > 0
               ? r->prompt_text.data[r->prompt_text.length - 1]
               : 0;
}

/* Whether the symbol is a byte of a character of several: <0x80> to <0xFF>, of a model of pieces.
 */
static bool is_byte(const struct teller *t, int32_t id, char *byte) {
    size_t length;
    unsigned value;
    const char *symbol = txl_model_symbol(t->model, id, &length);
    if (txl_model_kind(t->model) != TXL_PIECES || length != 6 ||
        sscanf(symbol, "<0x%2X>", &value) != 1 || symbol[5] != '>' || value < 0x80)
        return false;
    *byte = (char)value;
    return true;
}

/* A token that is not whole UTF-8 is told byte by byte. */
static json_t *spell(const struct teller *t, int32_t id, const struct piece *piece) {
    char text[32];
    if (t->names_ids) {
        snprintf(text, sizeof text, "token_id:%" PRId32, id);
        return json_string(text);
    }
    char byte;
    const struct piece told = is_byte(t, id, &byte) ? (struct piece){&byte, 1} : *piece;
    if (!u8_check((const uint8_t *)told.text, told.length))
        return json_stringn(told.text, told.length);
    struct buffer bytes = {0};
    bool good = buffer_append(&bytes, "bytes:", 6);
    for (size_t i = 0; i < told.length && good; i++) {
        int n = snprintf(text, sizeof text, "\\x%02x", (unsigned char)told.text[i]);
        good = buffer_append(&bytes, text, (size_t)n);
    }
    json_t *string = good ? json_stringn(bytes.data, bytes.length) : NULL;
    buffer_free(&bytes);
    return string;
}

json_t *answer_token(const struct teller *t, const struct row *r, size_t token) {
    const struct piece piece = piece_of(r, token);
    return spell(t, id_of(r, token), &piece);
}

/* ---- The likeliest ------------------------------------------------------------------------- */

static json_t *spell_alternative(const struct teller *t, const struct row *r, size_t token,
                                 int32_t id) {
    struct buffer text = {0};
    int32_t last = token > 0 ? id_of(r, token - 1) : 0;
    bool good = token_text_behind(t->scratch, &last, token > 0, tail_before(r, token), id, &text);
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

json_t *answer_top(const struct teller *t, const struct row *r, size_t token) {
    const struct scores *s = &r->scores;
    size_t place = row_score_of(r, token);
    if (isnan(s->logprob[place]))
        return json_null();
    json_t *top = json_object();
    int32_t own = id_of(r, token);
    bool good = top && add_name(top, answer_token(t, r, token), s->logprob[place]);
    for (size_t i = place * s->k; i < (place + 1) * s->k && good; i++)
        if (s->top_ids[i] != own)
            good = add_name(top, spell_alternative(t, r, token, s->top_ids[i]), s->top_logprobs[i]);
    return output_json_if(good, top);
}

json_t *answer_logprobs(const struct teller *t, struct row *r, size_t end) {
    json_t *tokens = json_array(), *own = json_array(), *top = json_array();
    json_t *offsets = json_array(), *ids = json_array();
    int bad = 0;
    for (; r->told < end; r->told++) {
        const struct piece piece = piece_of(r, r->told);
        size_t place = row_score_of(r, r->told);
        bad |= json_array_append_new(tokens, answer_token(t, r, r->told));
        bad |= json_array_append_new(own, answer_logprob(r->scores.logprob[place]));
        bad |= json_array_append_new(top, answer_top(t, r, r->told));
        bad |= json_array_append_new(offsets, json_integer((json_int_t)r->told_end));
        bad |= json_array_append_new(ids, json_integer(id_of(r, r->told)));
        r->told_end += answer_characters(piece.text, piece.length);
    }
    return output_json_if(bad == 0, json_pack("{s:o, s:o, s:o, s:o, s:o}", "tokens", tokens,
                                              "token_logprobs", own, "top_logprobs", top,
                                              "text_offset", offsets, "token_ids", ids));
}
