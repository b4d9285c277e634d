/* The Moses detokenizer: puts lines together from their words, as moses.h says. */
#include "lib/base/white_space.h"
#include "moses_questions.h"

#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

/* A quotation mark (of any length) that was opened and not yet closed. */
struct quote {
    size_t length;
    char text[];
};

struct moses_detokenizer {
    const struct moses *moses;
    pcre2_match_data *match;
    struct buffer out;     /* text that the current call gives */
    struct buffer spelled; /* the current token with its XML escapes undone */
    struct buffer held;    /* a word that waits; `held_as` is OPENS, CLOSES or QUOTES */
    enum question held_as;
    bool started;      /* the line has a word */
    bool blank;        /* a blank goes before the next word, unless it joins the last one */
    bool joining;      /* @-@ came last: the next token belongs to the same word */
    bool after_s;      /* the last word ends in s */
    bool after_cjk;    /* the last word ends in a character of MOSES_CJK */
    void *open_quotes; /* a tree of struct quote (tsearch) */
};

txl_status moses_detokenizer_new(const struct moses *moses, struct moses_detokenizer **detokenizer,
                                 txl_error *error) {
    struct moses_detokenizer *made = *detokenizer = calloc(1, sizeof *made);
    if (made) {
        made->moses = moses;
        made->match = pcre2_match_data_create(1, NULL);
    }
    if (!made || !made->match) {
        moses_detokenizer_free(made);
        *detokenizer = NULL;
        return txl_fail_memory(error, "the Moses detokenizer", sizeof *made);
    }
    return TXL_OK;
}

void moses_detokenizer_free(struct moses_detokenizer *detokenizer) {
    if (!detokenizer)
        return;
    moses_detokenizer_reset(detokenizer);
    buffer_free(&detokenizer->out);
    buffer_free(&detokenizer->spelled);
    buffer_free(&detokenizer->held);
    pcre2_match_data_free(detokenizer->match);
    free(detokenizer);
}

void moses_detokenizer_reset(struct moses_detokenizer *d) {
    tdestroy(d->open_quotes, free);
    d->open_quotes = NULL;
    d->held.length = 0;
    d->started = d->blank = d->joining = d->after_s = d->after_cjk = false;
}

static int compare_quotes(const void *left, const void *right) {
    const struct quote *a = left;
    const struct quote *b = right;
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    return memcmp(a->text, b->text, a->length);
}

/* Writes a word, a blank before it if `set_off` and one is due. */
static txl_status append_word(struct moses_detokenizer *d, bool set_off, const char *word,
                              size_t length, txl_error *error) {
    txl_status status = TXL_OK;
    if (set_off && d->blank)
        status = moses_append(&d->out, " ", 1, error);
    if (!status)
        status = moses_append(&d->out, word, length, error);
    return status;
}

/* Remembers what later words need to know of this one. */
static void end_word(struct moses_detokenizer *d, const char *word, size_t length, bool valid) {
    d->started = true;
    d->after_s = length && word[length - 1] == 's';
    d->after_cjk = valid && moses_matches(d->moses, ENDS_CJK, word, length, 0, d->match);
}

/* Every second mark of the same spelling in a line closes; one ' after an s is possessive unless
 * it closes. */
static txl_status put_quotes(struct moses_detokenizer *d, const char *word, size_t length,
                             txl_error *error) {
    bool possessive = length == 1 && word[0] == '\'' && d->started && d->after_s;
    bool curly = moses_matches(d->moses, CURLY_QUOTES, word, length, 0, d->match);
    size_t key_length = curly ? 1 : length;
    struct quote *key = malloc(sizeof *key + key_length);
    if (!key)
        return txl_fail_memory(error, "a quotation mark", sizeof *key + key_length);
    key->length = key_length;
    memcpy(key->text, curly ? "\"" : word, key_length);

    struct quote **open = tfind(key, &d->open_quotes, compare_quotes);
    bool opens = !open && !possessive;
    if (open) {
        struct quote *closed = *open;
        tdelete(key, &d->open_quotes, compare_quotes);
        free(closed);
    }
    if (!opens) {
        free(key);
    } else if (!tsearch(key, &d->open_quotes, compare_quotes)) {
        free(key);
        return txl_fail_memory(error, "a quotation mark", sizeof *key + key_length);
    }
    txl_status status = append_word(d, opens, word, length, error);
    d->blank = !opens;
    return status;
}

/* Writes the word that waited: no @-@ followed it. */
static txl_status put_held(struct moses_detokenizer *d, txl_error *error) {
    const char *word = d->held.data;
    size_t length = d->held.length;
    if (!length)
        return TXL_OK;
    txl_status status;
    if (d->held_as == QUOTES) {
        status = put_quotes(d, word, length, error);
    } else {
        status = append_word(d, d->held_as == OPENS, word, length, error);
        d->blank = d->held_as == CLOSES;
    }
    end_word(d, word, length, true);
    d->held.length = 0;
    return status;
}

/* @-@ joins its neighbours into one word, whatever class each has alone. */
static txl_status put_hyphen(struct moses_detokenizer *d, txl_error *error) {
    txl_status status = TXL_OK;
    if (d->held.length)
        status = append_word(d, true, d->held.data, d->held.length, error);
    if (!status)
        status = moses_append(&d->out, "-", 1, error);
    d->held.length = 0;
    d->joining = true;
    d->blank = true;
    end_word(d, "-", 1, true);
    return status;
}

/* The inside of a number: , or . with no blank on either side. */
static txl_status put_separator(struct moses_detokenizer *d, const char *separator,
                                txl_error *error) {
    txl_status status = put_held(d, error);
    if (!status)
        status = moses_append(&d->out, separator, 1, error);
    d->joining = false;
    d->blank = false;
    end_word(d, separator, 1, true);
    return status;
}

/* A word that is not valid UTF-8 belongs to no class. */
static txl_status put_word(struct moses_detokenizer *d, const char *word, size_t length, bool valid,
                           txl_error *error) {
    if (d->joining) {
        d->joining = false;
        end_word(d, word, length, valid);
        return moses_append(&d->out, word, length, error);
    }
    txl_status status = put_held(d, error);
    if (status)
        return status;
    bool cjk = valid && moses_matches(d->moses, STARTS_CJK, word, length, 0, d->match);
    static const enum question waiting[] = {OPENS, CLOSES, QUOTES};
    for (size_t i = 0; valid && !cjk && i < sizeof waiting / sizeof *waiting; i++) {
        if (moses_matches(d->moses, waiting[i], word, length, 0, d->match)) {
            d->held_as = waiting[i];
            return moses_append(&d->held, word, length, error);
        }
    }
    bool attached =
        cjk ? d->after_cjk
            : d->started && valid && moses_matches(d->moses, CONTRACTS, word, length, 0, d->match);
    status = append_word(d, !attached, word, length, error);
    d->blank = true;
    end_word(d, word, length, valid);
    return status;
}

static txl_status put_token(struct moses_detokenizer *d, const char *word, size_t length,
                            bool valid, txl_error *error) {
    if (length == 3 && word[0] == '@' && word[2] == '@') {
        if (word[1] == '-')
            return put_hyphen(d, error);
        if (word[1] == ',' || word[1] == '.')
            return put_separator(d, &word[1], error);
    }
    return put_word(d, word, length, valid, error);
}

/* Undoes XML escapes, as the detokenizer of sacremoses does by default. */
static txl_status unescape(struct buffer *out, const char *token, size_t length, txl_error *error) {
    static const struct {
        const char *escape;
        char plain;
    } escapes[] = {{"&bar;", '|'}, {"&#124;", '|'}, {"&lt;", '<'},   {"&gt;", '>'},
                   {"&bra;", '['}, {"&ket;", ']'},  {"&quot;", '"'}, {"&apos;", '\''},
                   {"&#91;", '['}, {"&#93;", ']'},  {"&amp;", '&'}};
    out->length = 0;
    txl_status status = moses_reserve(out, length, error);
    for (size_t i = 0; i < length && !status;) {
        char plain = token[i];
        size_t taken = 1;
        for (size_t e = 0; token[i] == '&' && e < sizeof escapes / sizeof *escapes; e++) {
            size_t n = strlen(escapes[e].escape);
            if (n <= length - i && memcmp(token + i, escapes[e].escape, n) == 0) {
                plain = escapes[e].plain;
                taken = n;
            }
        }
        out->data[out->length++] = plain;
        i += taken;
    }
    return status;
}

/* A token is one word, unless it has white space in it. */
static txl_status put_words(struct moses_detokenizer *d, txl_error *error) {
    const char *bytes = d->spelled.data;
    size_t length = d->spelled.length;
    if (u8_check((const uint8_t *)bytes, length))
        return put_token(d, bytes, length, false, error);
    txl_status status = TXL_OK;
    size_t at = 0;
    while (!status && at < length && moses_matches(d->moses, WORD, bytes, length, at, d->match)) {
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(d->match);
        size_t start = found[0];
        at = found[1];
        status = put_token(d, bytes + start, at - start, true, error);
    }
    return status;
}

static void give_text(const struct moses_detokenizer *d, const char **text, size_t *text_length) {
    *text = d->out.length ? d->out.data : "";
    *text_length = d->out.length;
}

txl_status moses_detokenizer_push(struct moses_detokenizer *d, const char *token, size_t length,
                                  const char **text, size_t *text_length, txl_error *error) {
    d->out.length = 0;
    txl_status status = unescape(&d->spelled, token, length, error);
    if (!status && d->spelled.length)
        status = put_words(d, error);
    give_text(d, text, text_length);
    return status;
}

txl_status moses_detokenizer_finish(struct moses_detokenizer *d, const char **text,
                                    size_t *text_length, txl_error *error) {
    d->out.length = 0;
    txl_status status = put_held(d, error);
    moses_detokenizer_reset(d);
    give_text(d, text, text_length);
    return status;
}

txl_status moses_detokenizer_continue(struct moses_detokenizer *d, char tail, txl_error *error) {
    txl_status status = put_held(d, error);
    d->out.length = 0;
    if (tail == 0) {
        moses_detokenizer_reset(d);
    } else if (is_space_byte(tail)) {
        d->blank = false;
        d->joining = false;
    } else if (!d->started) {
        d->blank = true;
        d->started = true;
    }
    return status;
}
