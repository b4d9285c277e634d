/* The Moses tokenizer, as moses.h says.  The rules are regular expressions in the order in which
 * sacremoses applies them, each to the whole line; no rule may backtrack over more than a few
 * characters, so that a line costs time in proportion to its length.
 *
 * Two things differ from sacremoses; results differ only for lines that contain its placeholders.
 * First, <eos> and the like are not replaced by placeholders.  The rules put blanks around every
 * other < and >, so a < or > without them belongs to such a name; later rules treat < as a letter
 * and > as a number, with which the placeholder began and ended.  Second, runs of full stops are
 * kept by skipping words that consist of full stops. */
#include "moses.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/base/white_space.h"
#include "unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <assert.h>
#include <pcre2.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

/* Data of the Moses rules: classes of characters, as fragments of PCRE2 patterns, and the English
 * abbreviations that keep their full stop.
 *
 * sacremoses takes its classes from lists made with Unicode 7.0.  They hold only the Basic
 * Multilingual Plane, without Han characters and Hangul syllables, each of which becomes a token of
 * its own.  The models' vocabularies consist of its tokens, so the classes here are the same.
 *
 * The abbreviations are Moses' (LGPL 2.1 or later), by way of sacremoses: debian/copyright. */

/* Characters that have the property Alphabetic, Number, Currency_Symbol or Lowercase today and are
 * not in the lists.  Those of the last eight lines came to Unicode, or to the property, after
 * version 7.0. */
#define MOSES_ABSENT                                                                               \
    "\\p{Han}\\x{AC00}-\\x{D7AF}\\x{10000}-\\x{10FFFF}"                                            \
    "\\x{560}\\x{588}\\x{5EF}\\x{7FE}\\x{7FF}\\x{860}-\\x{86A}\\x{870}-\\x{887}\\x{889}-\\x{88E}"  \
    "\\x{8B3}-\\x{8C9}\\x{8D4}-\\x{8DF}\\x{8E3}\\x{9FC}\\x{AF9}-\\x{AFC}\\x{C5A}\\x{C5D}\\x{C80}"  \
    "\\x{CDD}\\x{D00}\\x{D04}\\x{D54}-\\x{D56}\\x{D58}-\\x{D5F}\\x{D76}-\\x{D78}\\x{D81}\\x{E86}"  \
    "\\x{E89}\\x{E8C}\\x{E8E}-\\x{E93}\\x{E98}\\x{EA0}\\x{EA8}\\x{EA9}\\x{EAC}\\x{1069}-\\x{106D}" \
    "\\x{1087}-\\x{108D}\\x{108F}\\x{109A}\\x{109B}\\x{13F5}\\x{13F8}-\\x{13FD}\\x{170D}\\x{171F}" \
    "\\x{1878}\\x{1ABF}\\x{1AC0}\\x{1ACC}-\\x{1ACE}\\x{1B4C}\\x{1C36}\\x{1C80}-\\x{1CBF}\\x{1CFA}" \
    "\\x{20BE}-\\x{20C0}\\x{2C2F}\\x{2C5F}\\x{312E}\\x{312F}\\x{31BB}-\\x{31BF}\\x{A69E}\\x{A78F}" \
    "\\x{A7AE}\\x{A7AF}\\x{A7B2}-\\x{A7F6}\\x{A802}\\x{A80B}\\x{A8C5}\\x{A8FD}-\\x{A8FF}"          \
    "\\x{A9E5}\\x{AA7B}-\\x{AA7D}\\x{AB60}-\\x{AB63}\\x{AB66}-\\x{AB69}\\x{AB70}-\\x{ABBF}"

/* Viramas and nuktas of the scripts of India, and the dotted circle, which is in the lists only
 * because it carries their combining marks. */
#define MOSES_MARKS                                                                                \
    "\\x{93C}\\x{94D}\\x{9BC}\\x{9CD}\\x{A3C}\\x{A4D}\\x{ABC}\\x{ACD}\\x{AFD}-\\x{AFF}\\x{B3C}"    \
    "\\x{B4D}\\x{BCD}\\x{C4D}\\x{CBC}\\x{CCD}\\x{D3B}\\x{D3C}\\x{D4D}\\x{DCA}\\x{EBA}\\x{1039}"    \
    "\\x{1714}\\x{1BAB}\\x{1C37}\\x{25CC}\\x{A8C4}\\x{A8F3}\\x{A8F4}\\x{A953}\\x{AAF6}\\x{10A3F}"  \
    "\\x{11046}\\x{110B9}\\x{110BA}\\x{11133}\\x{11173}\\x{111C0}\\x{111CA}\\x{11235}\\x{11236}"   \
    "\\x{112E9}\\x{112EA}\\x{1133C}\\x{1134D}\\x{11442}\\x{11446}\\x{114C2}\\x{114C3}\\x{115BF}"   \
    "\\x{115C0}\\x{1163F}\\x{116B6}\\x{116B7}\\x{11839}\\x{1183A}\\x{119E0}\\x{11A34}\\x{11C3F}"   \
    "\\x{11D42}\\x{11D45}\\x{11D97}\\x{1E94A}"

/* Each class matches one character; ASCII comes first because it is tested fastest. */
#define MOSES_LETTER "(?:[A-Za-z]|(?![" MOSES_ABSENT "])\\p{Alphabetic}|[" MOSES_MARKS "])"
#define MOSES_ALNUM                                                                                \
    "(?:[0-9A-Za-z]|(?![" MOSES_ABSENT "])[\\p{Alphabetic}\\p{Nd}]|[" MOSES_MARKS "])"
#define MOSES_NUMBER "(?:[0-9]|(?![" MOSES_ABSENT "])\\p{N})"
#define MOSES_CURRENCY "(?:\\$|(?![" MOSES_ABSENT "])\\p{Sc})"
/* Georgian letters became lower case after Unicode 7.0. */
#define MOSES_LOWER "(?:[a-z]|(?![" MOSES_ABSENT "\\x{10D0}-\\x{10FF}])\\p{Lowercase}|\\x{25CC})"
/* The blocks of Chinese, Japanese and Korean whose words join without a blank. */
#define MOSES_CJK                                                                                  \
    "[\\x{1100}-\\x{11FF}\\x{2E80}-\\x{A4CF}\\x{A840}-\\x{A87F}\\x{AC00}-\\x{D7AF}"                \
    "\\x{F900}-\\x{FAFF}\\x{FE30}-\\x{FE4F}\\x{FF65}-\\x{FFDC}\\x{20000}-\\x{2FFFF}]"
/* White space as Python's str.isspace has it. */
#define MOSES_SPACE                                                                                \
    "\\x09-\\x0D\\x1C-\\x20\\x85\\xA0\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}"      \
    "\\x{205F}\\x{3000}"

/* Words that keep their full stop. */
static const char *const moses_abbreviations[] = {
    "A",    "B",    "C",      "D",    "E",     "F",    "G",    "H",    "I",    "J",    "K",
    "L",    "M",    "N",      "O",    "P",     "Q",    "R",    "S",    "T",    "U",    "V",
    "W",    "X",    "Y",      "Z",    "Adj",   "Adm",  "Adv",  "Asst", "Bart", "Bldg", "Brig",
    "Bros", "Capt", "Cmdr",   "Col",  "Comdr", "Con",  "Corp", "Cpl",  "DR",   "Dr",   "Drs",
    "Ens",  "Gen",  "Gov",    "Hon",  "Hr",    "Hosp", "Insp", "Lt",   "MM",   "MR",   "MRS",
    "MS",   "Maj",  "Messrs", "Mlle", "Mme",   "Mr",   "Mrs",  "Ms",   "Msgr", "Op",   "Ord",
    "Pfc",  "Ph",   "Prof",   "Pvt",  "Rep",   "Reps", "Res",  "Rev",  "Rt",   "Sen",  "Sens",
    "Sfc",  "Sgt",  "Sr",     "St",   "Supt",  "Surg", "v",    "vs",   "i.e",  "rev",  "e.g",
    "Rs",   "Nos",  "Nr",     "Jan",  "Feb",   "Mar",  "Apr",  "Jun",  "Jul",  "Aug",  "Sep",
    "Oct",  "Nov",  "Dec",    NULL};

/* Words that keep it before a number only. */
static const char *const moses_numeric_abbreviations[] = {"No", "Art", "pp", NULL};

/* Patterns that a word is matched against; WORD finds the words in a token. */
enum question {
    HAS_LETTER,
    STARTS_LOWER,
    WORD,
    STARTS_CJK,
    ENDS_CJK,
    OPENS,
    CLOSES,
    CONTRACTS,
    QUOTES,
    CURLY_QUOTES,
    N_QUESTIONS
};

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

/* Whether `text`, which must be valid UTF-8, matches the question's pattern from byte `at` on;
 * `match` then has the place. */
static bool moses_matches(const struct moses *moses, enum question question, const char *text,
                          size_t length, size_t at, pcre2_match_data *match) {
    return pcre2_match(moses->questions[question], (PCRE2_SPTR)text, length, at, PCRE2_NO_UTF_CHECK,
                       match, NULL) >= 0;
}

/* Takes room for `extra` bytes of a line. */
static txl_status moses_reserve(struct buffer *text, size_t extra, txl_error *error) {
    return buffer_reserve(text, extra) ? TXL_OK : txl_fail_memory(error, "a line of text", extra);
}

static txl_status moses_append(struct buffer *text, const char *bytes, size_t length,
                               txl_error *error) {
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

/* Returns the first word from offset `*at` on, and moves `*at` after it. */
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

/* Whether the full stop after `prefix` is part of the word: in "U.S.", "Dr.", "No. 5", and where
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

/* The Moses detokenizer: puts lines together from their words, as moses.h says. */

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
