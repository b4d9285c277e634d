/* Reads a tokenizer.json with a unigram model as the SentencePiece model that Hugging Face's
 * transformers made it from.  What that leaves out follows from the rest:
 *
 * - Types: special tokens are control pieces, but <eop> is a user-defined one of the published
 *   XLNet.  So are other pieces whose score is 0, which is no log-probability of training.
 * - Scores: those of XLNet's pieces that end in a comma after a digit are 100 lower there, so that
 *   text never becomes them.  The kind `xlnet` sees to that as the published code does.
 * - The normaliser: its steps must be those that the kind takes.
 *
 * So the text becomes what it becomes by the SentencePiece model.  Where the tokenizers library
 * differs from that, in numbers with commas and around control characters, this is not followed. */
#include "tokenizer_json.h"

#include "added_pieces.h"
#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/base/protobuf.h"
#include "lib/base/white_space.h"
#include "lib/text/sentencepiece.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 8, LOWERED = 100 };

struct reading {
    const char *path;
    txl_kind kind;
    const json_t *added, *vocabulary, *charsmap; /* borrowed; NULL: there is none */
    size_t n, n_added;                           /* pieces, and tokens added after them */
    uint64_t unk;
    unsigned char *types; /* [n] */
    const char **tokens;  /* [n_added] */
    struct buffer *model;
    txl_error *error;
};

static txl_status refuse(const char *path, const char *what, const char *which, txl_error *error) {
    return txl_fail(error, TXL_UNSUPPORTED,
                    "%s: a tokenizer.json with %s%.40s, which txl does not read; name the "
                    "SentencePiece model that it was made from with --vocab (an XLNet's is "
                    "spiece.model)",
                    path, what, which);
}

static txl_status malformed(const char *path, const char *what, txl_error *error) {
    return txl_fail(error, TXL_FORMAT, "%s: %s", path, what);
}

static const char *text_in(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* The type of a part of the file; "null" if there is none. */
static const char *type_of(const json_t *part) {
    const char *type = text_in(part, "type");
    return *type ? type : "null";
}

static bool is_type(const json_t *part, const char *type) {
    return strcmp(type_of(part), type) == 0;
}

/* ---- Counting ----------------------------------------------------------------------------- */

txl_status tokenizer_json_count(const char *path, const json_t *file, size_t *n, size_t *n_added,
                                txl_error *error) {
    const json_t *model = json_object_get(file, "model"),
                 *added = json_object_get(file, "added_tokens"),
                 *vocabulary = json_object_get(model, "vocab"), *token;
    /* Files of 2020 state no type. */
    if (!is_type(model, "Unigram") && (!is_type(model, "null") || !json_is_array(vocabulary)))
        return refuse(path, "a model of type ", type_of(model), error);
    if (!json_is_array(vocabulary) || (added && !json_is_null(added) && !json_is_array(added)))
        return malformed(path, "expected lists \"vocab\" and \"added_tokens\"", error);
    const size_t n_piece = json_array_size(vocabulary);
    *n_added = 0;
    size_t i;
    json_array_foreach(added, i, token) {
        const json_t *id = json_object_get(token, "id");
        if (!json_is_integer(id) || json_integer_value(id) < 0)
            return malformed(path, "an added token without an id", error);
        *n_added += (uint64_t)json_integer_value(id) >= n_piece;
    }
    *n = n_piece + *n_added;
    if (n_piece == 0)
        return malformed(path, "a vocabulary without symbols", error);
    if (*n > MAX_N_TOKEN)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: more than %d symbols", path, MAX_N_TOKEN);
    return TXL_OK;
}

/* ---- Rules of the text -------------------------------------------------------------------- */

/* A letter for a step of the normaliser; 0: one that is not read. */
static char replace_letter(const json_t *step) {
    const json_t *pattern = json_object_get(step, "pattern");
    const char *content = text_in(step, "content"), *string = text_in(pattern, "String");
    if (strcmp(text_in(pattern, "Regex"), " {2,}") == 0)
        return strcmp(content, " ") == 0 || strcmp(content, WORD_MARK) == 0 ? 's' : '\0';
    if (strcmp(content, "\"") != 0)
        return '\0';
    return strcmp(string, "``") == 0 ? '`' : strcmp(string, "''") == 0 ? '\'' : '\0';
}

static char step_letter(const json_t *step) {
    if (is_type(step, "Replace"))
        return replace_letter(step);
    if (is_type(step, "Strip"))
        return json_is_true(json_object_get(step, "strip_right")) ? 't' : '\0';
    return is_type(step, "NFKD")           ? 'd'
           : is_type(step, "StripAccents") ? 'a'
           : is_type(step, "Precompiled")  ? 'c'
                                           : '\0';
}

static bool takes(const char **steps, char letter) {
    const bool is_next = **steps == letter;
    *steps += is_next;
    return is_next;
}

/* Spaces at the end and in a row are removed by the normaliser, or by `split` into words. */
static txl_status read_normalizer(struct reading *r, const json_t *normalizer, bool split) {
    const json_t *list = json_object_get(normalizer, "normalizers"), *step;
    const bool is_list = is_type(normalizer, "Sequence"), is_xlnet = r->kind == TXL_XLNET;
    const size_t n = is_list ? json_array_size(list) : !is_type(normalizer, "null");
    char letters[MAX_STEPS + 1] = "";
    for (size_t i = 0; i < n; i++) {
        step = is_list ? json_array_get(list, i) : normalizer;
        char letter = step_letter(step);
        if (!letter || i == MAX_STEPS)
            return refuse(r->path, "a normalizer's step ", type_of(step), r->error);
        if (letter == 'c' && !(r->charsmap = json_object_get(step, "precompiled_charsmap")))
            return malformed(r->path, "a Precompiled normalizer without its charsmap", r->error);
        letters[i] = letter;
    }
    const char *steps = letters;
    if (is_xlnet !=
        (takes(&steps, '`') && takes(&steps, '\'') && takes(&steps, 'd') && takes(&steps, 'a')))
        return refuse(r->path, "a normalizer that is ",
                      is_xlnet ? "not XLNet's" : "XLNet's, of another model", r->error);
    const bool rules = takes(&steps, 'c'), ends = takes(&steps, 't'), runs = takes(&steps, 's');
    /* Rules make all white space that splits words spaces. */
    if (*steps || !(split ? rules || is_xlnet : runs && (ends || is_xlnet)))
        return refuse(r->path, "a normalizer that treats spaces in another way", "", r->error);
    return TXL_OK;
}

/* Whether words begin with a mark, the first too. */
static bool marks_words(const json_t *part) {
    const char *scheme = text_in(part, "prepend_scheme");
    return is_type(part, "Metaspace") && strcmp(text_in(part, "replacement"), WORD_MARK) == 0 &&
           !json_is_false(json_object_get(part, "add_prefix_space")) &&
           !json_is_false(json_object_get(part, "split")) &&
           (!*scheme || strcmp(scheme, "always") == 0);
}

static txl_status read_rules(struct reading *r, const json_t *file) {
    const json_t *whole = json_object_get(file, "pre_tokenizer"), *cut = whole,
                 *list = json_object_get(whole, "pretokenizers"),
                 *decoder = json_object_get(file, "decoder");
    bool split = false;
    if (is_type(whole, "Sequence")) {
        split = is_type(json_array_get(list, 0), "WhitespaceSplit");
        cut = json_array_size(list) == 1u + split ? json_array_get(list, split) : NULL;
    }
    if (!marks_words(cut))
        return refuse(r->path,
                      "a pre-tokenizer other than Metaspace before all words: ", type_of(whole),
                      r->error);
    if (decoder && !json_is_null(decoder) && !marks_words(decoder))
        return refuse(r->path,
                      "a decoder other than Metaspace before all words: ", type_of(decoder),
                      r->error);
    return read_normalizer(r, json_object_get(file, "normalizer"), split);
}

/* ---- Pieces ------------------------------------------------------------------------------- */

static txl_status bad_piece(const struct reading *r, size_t id, const char *what) {
    return txl_fail(r->error, TXL_FORMAT, "%s: piece %zu %s", r->path, id, what);
}

/* The spelling of piece `id`, which was checked. */
static const json_t *spelling(const struct reading *r, size_t id) {
    return json_array_get(json_array_get(r->vocabulary, id), 0);
}

static txl_status check_pieces(struct reading *r) {
    for (size_t id = 0; id < r->n; id++) {
        const json_t *pair = json_array_get(r->vocabulary, id), *score = json_array_get(pair, 1);
        const char *text = json_string_value(spelling(r, id));
        if (json_array_size(pair) != 2 || !text || !*text || !json_is_number(score))
            return bad_piece(r, id, "is not a spelling with a score");
        if (strstr(text + 1, WORD_MARK))
            return bad_piece(r, id, "has a word mark within it");
        r->types[id] = json_number_value(score) != 0 ? PIECE_NORMAL : PIECE_USER_DEFINED;
    }
    return TXL_OK;
}

static txl_status take_added(struct reading *r, const json_t *token) {
    const json_t *content = json_object_get(token, "content");
    const size_t id = (size_t)json_integer_value(json_object_get(token, "id"));
    const char *text = json_string_value(content);
    if (!text)
        return bad_piece(r, id, "is added without a spelling");
    if (json_is_true(json_object_get(token, "single_word")))
        return refuse(r->path, "a token that is found as a word alone: ", text, r->error);
    if (id < r->n) {
        if (!json_equal(content, spelling(r, id)))
            return bad_piece(r, id, "is spelled in another way as an added token");
        if (!json_is_true(json_object_get(token, "special")))
            return refuse(r->path, "a token after which a new word begins: ", text, r->error);
        const bool is_eop = r->kind == TXL_XLNET && strcmp(text, "<eop>") == 0;
        r->types[id] = is_eop ? PIECE_USER_DEFINED : PIECE_CONTROL;
        return TXL_OK;
    }
    if (id - r->n >= r->n_added || r->tokens[id - r->n])
        return bad_piece(r, id, "is added, but not as one of those that follow the vocabulary");
    r->tokens[id - r->n] = text;
    return TXL_OK;
}

static txl_status read_pieces(struct reading *r) {
    const json_t *token;
    size_t i;
    txl_status status = check_pieces(r);
    if (!status)
        json_array_foreach(r->added, i, token) {
            status = take_added(r, token);
            if (status)
                break;
        }
    r->types[r->unk] = PIECE_UNKNOWN;
    bool good = true;
    for (size_t id = 0; id < r->n && good && !status; id++) {
        const char *text = json_string_value(spelling(r, id));
        double score = json_number_value(json_array_get(json_array_get(r->vocabulary, id), 1));
        if (r->kind == TXL_XLNET && score <= -LOWERED)
            score += LOWERED;
        good = piece_append(r->model, text, (float)score, r->types[id]);
    }
    for (i = 0; i < r->n_added && good && !status; i++)
        good = piece_append(r->model, r->tokens[i], 0, PIECE_USER_DEFINED);
    return good ? status : txl_fail_memory(r->error, "the pieces", r->model->length);
}

/* ---- The model ---------------------------------------------------------------------------- */

/* The bytes that base64 stands for; `bytes` has room for 3 of 4 characters. */
static bool decode_base64(const char *text, size_t length, unsigned char *bytes, size_t *n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t padding = 0;
    while (padding < 2 && length > padding && text[length - padding - 1] == '=')
        padding++;
    uint32_t group = 0;
    *n = 0;
    for (size_t i = 0; i < length; i++) {
        const char *digit = i < length - padding ? memchr(digits, text[i], 64) : digits;
        if (!digit)
            return false;
        group = group << 6 | (uint32_t)(digit - digits);
        for (int shift = 16; i % 4 == 3 && shift >= 0; shift -= 8)
            bytes[(*n)++] = (unsigned char)(group >> shift);
    }
    *n -= length % 4 == 0 ? padding : 0;
    return length % 4 == 0;
}

static txl_status append_charsmap(struct reading *r) {
    const size_t length = json_string_length(r->charsmap);
    unsigned char *bytes = malloc(length / 4 * 3 + 3);
    struct buffer normaliser = {0};
    size_t n;
    txl_status status = TXL_OK;
    if (!bytes)
        status = txl_fail_memory(r->error, "the normaliser", length);
    else if (!json_is_string(r->charsmap) ||
             !decode_base64(json_string_value(r->charsmap), length, bytes, &n))
        status = malformed(r->path, "expected base64 in \"precompiled_charsmap\"", r->error);
    else if (!protobuf_append_bytes(&normaliser, 2, bytes, n) ||
             !protobuf_append_bytes(r->model, 3, normaliser.data, normaliser.length))
        status = txl_fail_memory(r->error, "the normaliser", n);
    buffer_free(&normaliser);
    free(bytes);
    return status;
}

static txl_status read_model(struct reading *r, const json_t *file) {
    txl_status status = read_rules(r, file);
    if (!status)
        status = read_pieces(r);
    return status || !r->charsmap ? status : append_charsmap(r);
}

txl_status tokenizer_json_model(const char *path, const json_t *file, txl_kind kind,
                                struct buffer *model, txl_error *error) {
    const json_t *parts = json_object_get(file, "model"), *unk = json_object_get(parts, "unk_id");
    struct reading r = {.path = path,
                        .kind = kind,
                        .added = json_object_get(file, "added_tokens"),
                        .vocabulary = json_object_get(parts, "vocab"),
                        .unk = (uint64_t)json_integer_value(unk),
                        .model = model,
                        .error = error};
    size_t n;
    txl_status status = tokenizer_json_count(path, file, &n, &r.n_added, error);
    if (status)
        return status;
    r.n = n - r.n_added;
    if (json_is_true(json_object_get(parts, "byte_fallback")))
        return refuse(path, "unknown characters in bytes", "", error);
    if (!json_is_integer(unk) || r.unk >= r.n)
        return malformed(path, "\"unk_id\" is not the id of a piece", error);
    r.types = calloc(r.n, sizeof *r.types);
    r.tokens = calloc(r.n_added + 1, sizeof *r.tokens);
    if (r.types && r.tokens)
        status = read_model(&r, file);
    else
        status = txl_fail_memory(error, "the pieces", n * sizeof *r.tokens);
    free(r.types);
    free(r.tokens);
    return status;
}
