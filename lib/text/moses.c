/* The Moses tokenizer, as moses.h says.  The rules are regular expressions in the order in which
 * sacremoses applies them, each to the whole line; no rule may backtrack over more than a few
 * characters, so that a line costs time in proportion to its length.
 *
 * Two things differ from sacremoses; results differ only for lines that contain its placeholders.
 * First, <eos> and the like are not replaced by placeholders.  The rules put blanks around every
 * other < and >, so a < or > without them belongs to such a name; later rules treat < as a letter
 * and > as a number, with which the placeholder began and ended.  Second, runs of full stops are
 * kept by skipping words that consist of full stops. */
#include "moses_questions.h"
#include "moses_tables.h"
#include "unicode.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

/* ---- The rules ------------------------------------------------------------------------------ */

#define LETTER "(?:" MOSES_LETTER "|<)"
#define ALNUM "(?:" MOSES_ALNUM "|[<>])"
#define NUMBER "(?:" MOSES_NUMBER "|>)"
#define NOT(class) "(?:(?!" class ").)"
#define NBSP "\\xA0"

enum stage {
    NORMALISE, /* the punctuation normaliser, then white space */
    SPLIT,     /* blanks around what becomes a token of its own */
    FINISH     /* after full stops were separated from words */
};

static const struct rule {
    enum stage stage;
    const char *pattern;
    const char *replacement;
} rules[] = {
    {NORMALISE, "\\r", ""},
    {NORMALISE, "\\(", " ("},
    {NORMALISE, "\\)", ") "},
    {NORMALISE, " +", " "},
    {NORMALISE, "\\) ([.!:?;,])", ")$1"},
    {NORMALISE, "\\( ", "("},
    {NORMALISE, " \\)", ")"},
    {NORMALISE, "(\\d) %", "$1%"},
    {NORMALISE, " :", ":"},
    {NORMALISE, " ;", ";"},
    {NORMALISE, "`", "'"},
    {NORMALISE, "''", " \" "},
    {NORMALISE, "[„“”]", "\""},
    {NORMALISE, "–", "-"},
    {NORMALISE, "—", " - "},
    {NORMALISE, " +", " "},
    {NORMALISE, "[´‘‚’]", "'"},
    {NORMALISE, "''", "\""},
    {NORMALISE, "…", "..."},
    {NORMALISE, NBSP "«" NBSP, "\""},
    {NORMALISE, "«" NBSP, "\""},
    {NORMALISE, "«", "\""},
    {NORMALISE, NBSP "»" NBSP, "\""},
    {NORMALISE, NBSP "»", "\""},
    {NORMALISE, "»", "\""},
    {NORMALISE, NBSP "%", "%"},
    {NORMALISE, "nº" NBSP, "nº "},
    {NORMALISE, NBSP ":", ":"},
    {NORMALISE, NBSP "ºC", " ºC"},
    {NORMALISE, NBSP "cm", " cm"},
    {NORMALISE, NBSP "([?!;])", "$1"},
    {NORMALISE, "," NBSP, ", "},
    {NORMALISE, " +", " "},
    {NORMALISE, "\"([,.]+)", "$1\""},
    {NORMALISE, "(\\d)" NBSP "(\\d)", "$1.$2"},
    {NORMALISE, "[" MOSES_SPACE "]+", " "},
    {NORMALISE, "[\\x00-\\x1F]+", ""},

    {SPLIT, "<(?i:eos|unk|formula)>(*SKIP)(*FAIL)|([^ .',-])(?<!" MOSES_ALNUM ")", " $1 "},
    {SPLIT, "(?<=" ALNUM ")-(?=" ALNUM ")", " @-@ "},
    {SPLIT, "\\.{2,}", " $0 "},
    {SPLIT, "(" NOT(NUMBER) "),", "$1 , "},
    {SPLIT, ",(" NOT(NUMBER) ")", " , $1"},
    {SPLIT, "(" NUMBER "),\\z", "$1 , "},
    {SPLIT, "(" NOT(LETTER) ")'(" NOT(LETTER) ")", "$1 ' $2"},
    {SPLIT, "(" NOT("(?:" LETTER "|" NUMBER ")") ")'(" LETTER ")", "$1 ' $2"},
    {SPLIT, "(" LETTER ")'(" NOT(LETTER) ")", "$1 ' $2"},
    {SPLIT, "(" LETTER ")'(" LETTER ")", "$1 '$2"},
    {SPLIT, "(" NUMBER ")'s", "$1 's"},

    {FINISH, "\\.'\\z", " . '"},
    {FINISH, "(?<=\\d)[,.](?=\\d)", " @$0@ "},
};

static const char *const questions[N_QUESTIONS] = {
    [HAS_LETTER] = MOSES_LETTER,
    [STARTS_LOWER] = "\\A" MOSES_LOWER,
    [WORD] = "[^" MOSES_SPACE "]+",
    [STARTS_CJK] = "\\A" MOSES_CJK,
    [ENDS_CJK] = MOSES_CJK "\\z",
    [OPENS] = "\\A(?:" MOSES_CURRENCY "|[(\\[{¿¡])++\\z",
    [CLOSES] = "\\A[,.?!:;\\\\%}\\])]+\\z",
    [CONTRACTS] = "\\A'" MOSES_LETTER,
    [QUOTES] = "\\A['\"„“`]+\\z",
    [CURLY_QUOTES] = "\\A[„“]+\\z",
};

#define N_RULES (sizeof rules / sizeof *rules)

struct moses {
    pcre2_code *rules[N_RULES];
    pcre2_code *questions[N_QUESTIONS];
};

static txl_status compile(const char *pattern, pcre2_code **code, txl_error *error) {
    int number;
    PCRE2_SIZE offset;
    *code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_UCP | PCRE2_DOTALL, &number, &offset, NULL);
    if (!*code) {
        char message[256];
        pcre2_get_error_message(number, (PCRE2_UCHAR *)message, sizeof message);
        return txl_fail(error, number == PCRE2_ERROR_HEAP_FAILED ? TXL_MEMORY : TXL_UNSUPPORTED,
                        "a rule of the Moses tokenizer does not compile: %s at %zu", message,
                        offset);
    }
    /* Failure is harmless: without JIT the interpreter gives the same results. */
    pcre2_jit_compile(*code, PCRE2_JIT_COMPLETE);
    return TXL_OK;
}

txl_status moses_new(struct moses **moses, txl_error *error) {
    struct moses *made = *moses = calloc(1, sizeof *made);
    if (!made)
        return txl_fail_memory(error, "the Moses tokenizer", sizeof *made);
    txl_status status = TXL_OK;
    for (size_t i = 0; i < N_RULES && !status; i++)
        status = compile(rules[i].pattern, &made->rules[i], error);
    for (size_t i = 0; i < N_QUESTIONS && !status; i++)
        status = compile(questions[i], &made->questions[i], error);
    if (status) {
        moses_free(made);
        *moses = NULL;
    }
    return status;
}

void moses_free(struct moses *moses) {
    if (!moses)
        return;
    for (size_t i = 0; i < N_RULES; i++)
        pcre2_code_free(moses->rules[i]);
    for (size_t i = 0; i < N_QUESTIONS; i++)
        pcre2_code_free(moses->questions[i]);
    free(moses);
}

bool moses_matches(const struct moses *moses, enum question question, const char *text,
                   size_t length, size_t at, pcre2_match_data *match) {
    return pcre2_match(moses->questions[question], (PCRE2_SPTR)text, length, at, PCRE2_NO_UTF_CHECK,
                       match, NULL) >= 0;
}

txl_status moses_reserve(struct buffer *text, size_t extra, txl_error *error) {
    return buffer_reserve(text, extra) ? TXL_OK : txl_fail_memory(error, "a line of text", extra);
}

txl_status moses_append(struct buffer *text, const char *bytes, size_t length, txl_error *error) {
    return buffer_append(text, bytes, length) ? TXL_OK
                                              : txl_fail_memory(error, "a line of text", length);
}

/* ---- Text to tokens ------------------------------------------------------------------------- */

/* The bytes of the original line, from `begin` to `end`, that a byte of the text stands for.  The
 * two are equal for a byte that a rule added. */
struct origin {
    uint32_t begin, end;
};

/* A text with the origin of each byte. */
struct traced {
    struct buffer text;
    struct origin *origins; /* [capacity] */
    size_t capacity;
};

/* Room for `extra` bytes. */
static txl_status traced_reserve(struct traced *traced, size_t extra, txl_error *error) {
    txl_status status = moses_reserve(&traced->text, extra, error);
    if (status || traced->capacity == traced->text.capacity)
        return status;
    size_t size = traced->text.capacity * sizeof *traced->origins;
    struct origin *origins = realloc(traced->origins, size);
    if (!origins)
        return txl_fail_memory(error, "a line of text", size);
    traced->origins = origins;
    traced->capacity = traced->text.capacity;
    return TXL_OK;
}

static txl_status traced_append(struct traced *traced, const char *bytes,
                                const struct origin *origins, size_t length, txl_error *error) {
    size_t n = traced->text.length;
    txl_status status = traced_reserve(traced, length, error);
    if (!status && length) {
        memcpy(traced->text.data + n, bytes, length);
        memcpy(traced->origins + n, origins, length * sizeof *origins);
        traced->text.length += length;
    }
    return status;
}

static void traced_free(struct traced *traced) {
    buffer_free(&traced->text);
    free(traced->origins);
}

/* A line being tokenized: each rule reads `now` and writes `next`, then the two are swapped. */
struct line {
    const struct moses *moses;
    struct traced now;
    struct traced next;
    pcre2_match_data *match;
};

static void swap_texts(struct line *line) {
    struct traced now = line->now;
    line->now = line->next;
    line->next = now;
}

/* The origin of bytes `begin` to `end` of the text; for an empty range, the place between its
 * neighbours. */
static struct origin origin_of(const struct traced *traced, size_t begin, size_t end) {
    if (begin == end) {
        uint32_t at = begin > 0 ? traced->origins[begin - 1].end : 0;
        return (struct origin){at, at};
    }
    struct origin origin = traced->origins[begin];
    for (size_t i = begin + 1; i < end; i++) {
        if (traced->origins[i].begin < origin.begin)
            origin.begin = traced->origins[i].begin;
        if (traced->origins[i].end > origin.end)
            origin.end = traced->origins[i].end;
    }
    return origin;
}

static txl_status copy_span(struct line *line, size_t begin, size_t end, txl_error *error) {
    return traced_append(&line->next, line->now.text.data + begin, line->now.origins + begin,
                         end - begin, error);
}

/* Whether the replacement begins with a group before which the match has text that the replacement
 * does not keep there.  Then text moves, and the whole replacement gets the match's origin. */
static bool reorders(const char *replacement, const PCRE2_SIZE *group) {
    return replacement[0] == '$' && replacement[1] != '0' && group[2] > group[0];
}

/* Writes the replacement of a match.  Text that it adds before, between or after the groups gets
 * the origin of the match's text in the same place. */
static txl_status append_replacement(struct line *line, const char *replacement,
                                     const PCRE2_SIZE *group, txl_error *error) {
    const size_t first = line->next.text.length;
    size_t done = group[0]; /* of the match */
    txl_status status = TXL_OK;
    for (const char *c = replacement; *c && !status;) {
        if (*c == '$') {
            const PCRE2_SIZE *copied = group + 2 * (c[1] - '0');
            status = copy_span(line, copied[0], copied[1], error);
            done = copied[1];
            c += 2;
            continue;
        }
        size_t n = strcspn(c, "$");
        size_t behind = c[n] ? group[2 * (c[n + 1] - '0')] : group[1];
        struct origin origin = origin_of(&line->now, done, behind > done ? behind : done);
        for (; n > 0 && !status; n--, c++)
            status = traced_append(&line->next, c, &origin, 1, error);
    }
    if (reorders(replacement, group)) {
        struct origin origin = origin_of(&line->now, group[0], group[1]);
        for (size_t i = first; i < line->next.text.length; i++)
            line->next.origins[i] = origin;
    }
    return status;
}

static txl_status fail_rule(int number, txl_error *error) {
    char message[256];
    pcre2_get_error_message(number, (PCRE2_UCHAR *)message, sizeof message);
    return txl_fail(error, TXL_MEMORY, "a rule of the Moses tokenizer: %s", message);
}

/* Replaces every match of the rule; rules have no empty matches. */
static txl_status apply_rule(struct line *line, size_t rule, txl_error *error) {
    const PCRE2_SIZE *group = pcre2_get_ovector_pointer(line->match);
    size_t done = 0;
    bool found = false;
    txl_status status = TXL_OK;
    line->next.text.length = 0;
    while (!status) {
        const struct buffer *text = &line->now.text;
        int count = pcre2_match(line->moses->rules[rule], (PCRE2_SPTR)text->data, text->length,
                                done, PCRE2_NO_UTF_CHECK, line->match, NULL);
        if (count == PCRE2_ERROR_NOMATCH)
            break;
        if (count < 0)
            return fail_rule(count, error);
        found = true;
        status = copy_span(line, done, group[0], error);
        if (!status)
            status = append_replacement(line, rules[rule].replacement, group, error);
        done = group[1];
    }
    if (!status && found) {
        status = copy_span(line, done, line->now.text.length, error);
        swap_texts(line);
    }
    return status;
}

static txl_status apply_stage(struct line *line, enum stage stage, txl_error *error) {
    txl_status status = TXL_OK;
    for (size_t i = 0; i < N_RULES && !status; i++)
        if (rules[i].stage == stage)
            status = apply_rule(line, i, error);
    return status;
}

static void strip_blanks(struct traced *traced) {
    struct buffer *text = &traced->text;
    size_t start = 0;
    while (start < text->length && text->data[start] == ' ')
        start++;
    while (text->length > start && text->data[text->length - 1] == ' ')
        text->length--;
    text->length -= start;
    memmove(text->data, text->data + start, text->length);
    memmove(traced->origins, traced->origins + start, text->length * sizeof *traced->origins);
}

struct word {
    const char *text;
    size_t length; /* 0: there is none */
};

/* Returns the first word from offset `*at` on, and moves `*at` behind it. */
static struct word next_word(const struct buffer *text, size_t *at) {
    size_t start = *at;
    while (start < text->length && text->data[start] == ' ')
        start++;
    size_t end = start;
    while (end < text->length && text->data[end] != ' ')
        end++;
    *at = end;
    return (struct word){text->data + start, end - start};
}

static bool is_listed(struct word word, const char *const *list) {
    for (; *list; list++)
        if (strlen(*list) == word.length && memcmp(*list, word.text, word.length) == 0)
            return true;
    return false;
}

/* Whether the full stop behind `prefix` is part of the word: in "U.S.", "Dr.", "No. 5", and where
 * a sentence cannot end because the next word is in lower case. */
static bool keeps_full_stop(const struct line *line, struct word prefix, struct word next) {
    if (memchr(prefix.text, '.', prefix.length) &&
        moses_matches(line->moses, HAS_LETTER, prefix.text, prefix.length, 0, line->match))
        return true;
    if (next.length &&
        moses_matches(line->moses, STARTS_LOWER, next.text, next.length, 0, line->match))
        return true;
    bool number = next.length && next.text[0] >= '0' && next.text[0] <= '9';
    return is_listed(prefix, moses_abbreviations) ||
           (number && is_listed(prefix, moses_numeric_abbreviations));
}

/* Separates full stops from words; leaves one blank between words, and none at the ends. */
static txl_status part_full_stops(struct line *line, txl_error *error) {
    const struct buffer *text = &line->now.text;
    size_t at = 0;
    line->next.text.length = 0;
    struct word word = next_word(text, &at);
    txl_status status = TXL_OK;
    while (word.length && !status) {
        size_t begin = (size_t)(word.text - text->data), last = begin + word.length - 1;
        struct word next = next_word(text, &at);
        struct origin blank = origin_of(&line->now, begin, begin);
        if (line->next.text.length > 0)
            status = traced_append(&line->next, " ", &blank, 1, error);
        struct word prefix = {word.text, word.length - 1};
        /* A word of several full stops stays as it is. */
        bool parts = prefix.length && word.text[prefix.length] == '.' &&
                     word.text[prefix.length - 1] != '.' && !keeps_full_stop(line, prefix, next);
        if (!status)
            status = copy_span(line, begin, last, error);
        blank = origin_of(&line->now, last, last);
        if (!status && parts)
            status = traced_append(&line->next, " ", &blank, 1, error);
        if (!status)
            status = copy_span(line, last, last + 1, error);
        word = next;
    }
    swap_texts(line);
    return status;
}

static txl_status tokenize_line(struct line *line, txl_error *error) {
    txl_status status = apply_stage(line, NORMALISE, error);
    if (status)
        return status;
    strip_blanks(&line->now);
    status = apply_stage(line, SPLIT, error);
    if (!status)
        status = part_full_stops(line, error);
    if (!status)
        status = apply_stage(line, FINISH, error);
    return status;
}

/* The bytes that a token stands for.  Bytes that rules added do not count, unless there are no
 * others. */
static struct origin origin_of_token(const struct traced *traced, struct word word) {
    size_t begin = (size_t)(word.text - traced->text.data), end = begin + word.length;
    struct origin whole = {traced->origins[begin].begin, traced->origins[begin].begin};
    bool found = false;
    for (size_t i = begin; i < end; i++) {
        struct origin origin = traced->origins[i];
        if (origin.begin == origin.end)
            continue;
        if (!found || origin.begin < whole.begin)
            whole.begin = origin.begin;
        if (!found || origin.end > whole.end)
            whole.end = origin.end;
        found = true;
    }
    return whole;
}

/* Starts with the line as it was given; each byte of a code point stands for all of its bytes. */
static txl_status start_line(struct line *line, const char *bytes, size_t length,
                             txl_error *error) {
    txl_status status = traced_reserve(&line->next, 2 * length + 64, error);
    if (!status)
        status = traced_reserve(&line->now, length + 1, error);
    if (status || !length)
        return status;
    memcpy(line->now.text.data, bytes, length);
    line->now.text.length = length;
    for (size_t i = 0, n; i < length; i += n) {
        n = length - i;
        unicode_first(bytes + i, &n);
        for (size_t k = i; k < i + n; k++)
            line->now.origins[k] = (struct origin){(uint32_t)i, (uint32_t)(i + n)};
    }
    return TXL_OK;
}

txl_status moses_tokenize(const struct moses *moses, const char *line, size_t length,
                          txl_status (*token)(void *context, const char *text, size_t length,
                                              size_t begin, size_t end, txl_error *error),
                          void *context, txl_error *error) {
    assert(!u8_check((const uint8_t *)line, length));
    if (length >= UINT32_MAX)
        return txl_fail(error, TXL_UNSUPPORTED, "a line of %zu bytes, expected less than 4 GiB",
                        length);
    struct line work = {.moses = moses, .match = pcre2_match_data_create(4, NULL)};
    txl_status status = TXL_OK;
    if (!work.match)
        status = txl_fail_memory(error, "a line of text", sizeof work);
    if (!status)
        status = start_line(&work, line, length, error);
    if (!status)
        status = tokenize_line(&work, error);
    size_t at = 0;
    while (!status) {
        struct word word = next_word(&work.now.text, &at);
        if (!word.length)
            break;
        struct origin origin = origin_of_token(&work.now, word);
        status = token(context, word.text, word.length, origin.begin, origin.end, error);
    }
    traced_free(&work.now);
    traced_free(&work.next);
    pcre2_match_data_free(work.match);
    return status;
}
