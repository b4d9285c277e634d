/* English prose to the words of WikiText-103 and back: the Moses pipeline that Hugging Face's
 * tokenizer of transfo-xl-wt103 is made of (sacremoses 0.1).  It consists of the punctuation
 * normaliser and the English tokenizer, with aggressive_dash_splits and without XML escapes; <eos>,
 * <unk> and <formula> stay whole, whatever their case, and "1,000" becomes "1 @,@ 000".  The way
 * back is the detokenizer, and joining @,@ @.@ @-@ with their neighbours. */
#ifndef TXL_TEXT_MOSES_H
#define TXL_TEXT_MOSES_H

#include "txl.h"

#include <stddef.h>

/* The compiled rules, which are read-only: any number of threads may share them. */
struct moses;

txl_status moses_new(struct moses **moses, txl_error *error);
void moses_free(struct moses *moses);

/* Passes the tokens of one line, in order, to `token`; a status other than TXL_OK from it ends the
 * call.  The token stands for bytes `begin` to `end` of the line, whole code points.  Several
 * tokens may stand for the same bytes; neither bound is ever less than the previous token's.  The
 * line is valid UTF-8 without a line end.  The call allocates its memory, and its memory and time
 * are in proportion to the line's length. */
txl_status moses_tokenize(const struct moses *moses, const char *line, size_t length,
                          txl_status (*token)(void *context, const char *text, size_t length,
                                              size_t begin, size_t end, txl_error *error),
                          void *context, txl_error *error);

/* Puts a line together from its tokens as they come.  A word that consists of quotes, brackets,
 * currency signs or punctuation waits for the next token, which may be @-@; any other word is given
 * at once.  Quotes are paired within the line.  One thread at a time may use it.
 *
 * `*text` receives bytes that nothing later can change, perhaps none; they live until the next
 * call.  After an error only reset and free are allowed. */
struct moses_detokenizer;

/* `moses` must outlive the detokenizer. */
txl_status moses_detokenizer_new(const struct moses *moses, struct moses_detokenizer **detokenizer,
                                 txl_error *error);
void moses_detokenizer_free(struct moses_detokenizer *detokenizer);

/* Begins a new line. */
void moses_detokenizer_reset(struct moses_detokenizer *detokenizer);

/* Adds a token.  Any bytes are fine. */
txl_status moses_detokenizer_push(struct moses_detokenizer *detokenizer, const char *token,
                                  size_t length, const char **text, size_t *text_length,
                                  txl_error *error);

/* Gives what is left of the line, without a line end; the detokenizer is then as new. */
txl_status moses_detokenizer_finish(struct moses_detokenizer *detokenizer, const char **text,
                                    size_t *text_length, txl_error *error);

/* Tells the detokenizer that the line so far was shown by other means, and that `tail` is its last
 * byte (0: nothing was shown).  Nothing waits any more, and a blank goes before the next word
 * unless `tail` is one. */
txl_status moses_detokenizer_continue(struct moses_detokenizer *detokenizer, char tail,
                                      txl_error *error);

/* What the Moses tokenizer and its detokenizer share: questions about words, and text that grows.
 */

#define PCRE2_CODE_UNIT_WIDTH 8

#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "moses.h"

#include <pcre2.h>
#include <stdbool.h>

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

/* Whether `text`, which must be valid UTF-8, matches the question's pattern from byte `at` on;
 * `match` then has the place. */
bool moses_matches(const struct moses *moses, enum question question, const char *text,
                   size_t length, size_t at, pcre2_match_data *match);

/* Appends to a line of text, or takes room for `extra` bytes of it. */
txl_status moses_append(struct buffer *text, const char *bytes, size_t length, txl_error *error);
txl_status moses_reserve(struct buffer *text, size_t extra, txl_error *error);

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

#endif
