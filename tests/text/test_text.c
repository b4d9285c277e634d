/* Text to symbols to ids and back: each rule of each kind, however the text is cut. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "count.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/text/tokenizer.h"
#include "tests/files.h"

/* ---- Vocabularies ------------------------------------------------------------------------- */

struct made {
    struct vocabulary vocabulary;
    void *section;
};

/* A vocabulary of the symbols in `list`, which `separator` separates. */
static struct made *make_from(txl_kind kind, bool lower_case, const char *list, char separator) {
    struct vocabulary_entry *symbols = malloc((strlen(list) + 1) * sizeof *symbols);
    struct made *made = malloc(sizeof *made);
    assert_non_null(symbols);
    assert_non_null(made);
    size_t n = 0;
    for (const char *text = list;; n++) {
        const char *end = strchr(text, separator);
        symbols[n] = (struct vocabulary_entry){text, end ? (size_t)(end - text) : strlen(text)};
        if (!end)
            break;
        text = end + 1;
    }
    n++;
    size_t size;
    assert_int_equal(vocabulary_pack(symbols, n, &made->section, &size, NULL), TXL_OK);
    txl_error error;
    const struct vocabulary_settings settings = {(int32_t)n, kind, lower_case,
                                                 vocabulary_guess_unk(symbols, n),
                                                 vocabulary_guess_eos(symbols, n, kind)};
    if (vocabulary_open(&made->vocabulary, made->section, size, &settings, "made.txl", &error))
        fail_msg("%s", error.message);
    free(symbols);
    return made;
}

static struct made *make(txl_kind kind, bool lower_case, const char *list) {
    return make_from(kind, lower_case, list, '|');
}

static struct made *make_bytes(int first, int last) {
    struct buffer list = {0};
    for (int byte = first; byte <= last; byte++) {
        char decimal[8];
        int length = snprintf(decimal, sizeof decimal, "%s%d", byte > first ? "|" : "", byte);
        assert_true(buffer_append(&list, decimal, (size_t)length));
    }
    assert_true(buffer_append(&list, "", 1));
    struct made *made = make(TXL_BYTES, true, list.data);
    buffer_free(&list);
    return made;
}

#define TEXT8_SYMBOLS "_|e|t|a|o|i|n|s|r|h|l|d|c|u|m|f|p|g|w|y|b|v|k|x|j|q|z"

static struct made *make_text8(void) {
    return make(TXL_TEXT8, true, TEXT8_SYMBOLS);
}

static void unmake(struct made *made) {
    vocabulary_close(&made->vocabulary);
    free(made->section);
    free(made);
}

/* ---- Encoding ----------------------------------------------------------------------------- */

enum { CORPUS = 0, PROMPT = 1, SKIP = 2, SPLIT = 4, RAW = 8 };

/* The output of an encoder. */
struct result {
    struct buffer symbols; /* spellings, each followed by a blank; \n for a line end; white space
                              as \s \t \r \n or \x.. */
    struct buffer ids;     /* int32_t, without line ends */
    struct buffer ranges;  /* line:offset+bytes of each symbol, without line ends */
    struct buffer ends;    /* uint64_t[2] of each symbol: where it ends, in bytes and characters */
    uint64_t begin, end;   /* of the last one's bytes */
    txl_encoded counts;
    txl_error error;
};

static void add(struct result *result, const char *text, size_t length) {
    assert_true(buffer_append(&result->symbols, text, length));
}

/* Neither end of the bytes that a symbol stands for goes back. */
static void add_range(struct result *result, const txl_symbol *symbol) {
    char range[80];
    int length = snprintf(range, sizeof range, "%" PRIu64 ":%" PRIu64 "+%" PRIu64 " ", symbol->line,
                          symbol->offset, symbol->bytes);
    assert_true(buffer_append(&result->ranges, range, (size_t)length));
    assert_true(symbol->offset >= result->begin);
    assert_true(symbol->offset + symbol->bytes >= result->end);
    result->begin = symbol->offset;
    result->end = symbol->offset + symbol->bytes;
    const uint64_t ends[] = {result->end, symbol->characters};
    assert_true(buffer_append(&result->ends, (const char *)ends, sizeof ends));
}

/* To bytes models bytes are characters. */
static void check_characters(const struct result *result, const char *text, size_t length) {
    struct counted counted = {0};
    bool bytes = result->counts.characters == length;
    for (size_t i = 0; i < result->ends.length; i += 2 * sizeof(uint64_t)) {
        uint64_t ends[2];
        memcpy(ends, result->ends.data + i, sizeof ends);
        assert_int_equal(ends[1], bytes ? ends[0] : count_to(&counted, text, ends[0]));
    }
}

static txl_status record(void *context, const txl_symbol *symbol, txl_error *error) {
    (void)error;
    struct result *result = context;
    if (symbol->text)
        add_range(result, symbol);
    if (!symbol->text) {
        add(result, "\n", 1);
        return TXL_OK;
    }
    for (size_t i = 0; i < symbol->length; i++) {
        const char *named = memchr(" s\tt\rr\nn", symbol->text[i], 8);
        char escape[8];
        if ((unsigned char)symbol->text[i] > ' ')
            add(result, &symbol->text[i], 1);
        else if (named)
            add(result, (char[]){'\\', named[1]}, 2);
        else
            add(result, escape, (size_t)sprintf(escape, "\\x%02x", (unsigned)symbol->text[i]));
    }
    add(result, " ", 1);
    assert_true(buffer_append(&result->ids, &symbol->id, sizeof symbol->id));
    return TXL_OK;
}

static txl_encoding encoding_of(int how, struct result *result) {
    return (txl_encoding){.raw = how & RAW,
                          .prompt = how & PROMPT,
                          .skip_unknown = how & SKIP,
                          .lookup = !(how & SPLIT),
                          .symbol = record,
                          .context = result};
}

static void clear(struct result *result) {
    result->symbols.length = 0;
    result->ids.length = 0;
    result->ranges.length = 0;
    result->ends.length = 0;
    result->begin = result->end = 0;
}

static void free_result(struct result *result) {
    buffer_free(&result->symbols);
    buffer_free(&result->ids);
    buffer_free(&result->ranges);
    buffer_free(&result->ends);
}

/* Feeds a copy of exactly this size, so that a sanitizer detects a read beyond it. */
static txl_status feed_piece(txl_encoder *encoder, const char *text, size_t length,
                             txl_error *error) {
    char *piece = malloc(length + !length);
    assert_non_null(piece);
    memcpy(piece, text, length);
    txl_status status = txl_encoder_feed(encoder, piece, length, error);
    free(piece);
    return status;
}

static txl_encoder *new_encoder(const struct made *made, int how, struct result *result) {
    const txl_encoding encoding = encoding_of(how, result);
    txl_encoder *encoder;
    assert_int_equal(encoder_new(&made->vocabulary, &encoding, &encoder, NULL), TXL_OK);
    return encoder;
}

/* Encodes the text in pieces: one of `first` bytes, then of `rest` each.  The encoder may have had
 * other texts before. */
static void encode_with(txl_encoder *encoder, const char *text, size_t length, size_t first,
                        size_t rest, struct result *result) {
    clear(result);
    result->error = (txl_error){0};
    txl_encoded before;
    txl_encoder_counts(encoder, &before);
    txl_status status = TXL_OK;
    for (size_t i = 0, piece = first; i < length && !status; i += piece, piece = rest) {
        if (piece > length - i)
            piece = length - i;
        status = feed_piece(encoder, text + i, piece, &result->error);
    }
    txl_status finished = txl_encoder_finish(encoder, status ? NULL : &result->error);
    assert_int_equal(status ? status : finished, result->error.status);
    txl_encoder_counts(encoder, &result->counts);
    result->counts.bytes -= before.bytes;
    result->counts.characters -= before.characters;
    result->counts.invalid -= before.invalid;
    result->counts.symbols -= before.symbols;
    result->counts.unknown -= before.unknown;
    add(result, "", 1);
    assert_true(buffer_append(&result->ranges, "", 1));
    assert_true(result->end <= length);
    if (!result->error.status)
        check_characters(result, text, length);
}

static void encode_cut(const struct made *made, int how, const char *text, size_t length,
                       size_t first, size_t rest, struct result *result) {
    txl_encoder *encoder = new_encoder(made, how, result);
    encode_with(encoder, text, length, first, rest, result);
    txl_encoder_free(encoder);
}

static void assert_same(const struct result *a, const struct result *b) {
    assert_int_equal(a->error.status, b->error.status);
    assert_string_equal(a->error.message, b->error.message);
    assert_string_equal(a->symbols.data, b->symbols.data);
    assert_int_equal(a->ids.length, b->ids.length);
    if (a->ids.length > 0)
        assert_memory_equal(a->ids.data, b->ids.data, a->ids.length);
    if (!a->error.status)
        assert_string_equal(a->ranges.data, b->ranges.data);
    if (!a->error.status)
        assert_memory_equal(&a->counts, &b->counts, sizeof a->counts);
}

/* Encodes the text whole, and checks that every cut in two and bytes one at a time do the same. */
static struct result encode_bytes(const struct made *made, int how, const char *text,
                                  size_t length) {
    struct result whole = {0}, cut = {0};
    encode_cut(made, how, text, length, length, length, &whole);
    txl_encoder *encoder = new_encoder(made, how, &cut);
    encode_with(encoder, text, length, 1, 1, &cut);
    for (size_t first = 1; first < length; first++) {
        assert_same(&whole, &cut);
        encode_with(encoder, text, length, first, length, &cut);
    }
    assert_same(&whole, &cut);
    txl_encoder_free(encoder);
    free_result(&cut);
    return whole;
}

#define IDS(...)                                                                                   \
    sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t), (int32_t[]) {                              \
        __VA_ARGS__                                                                                \
    }

static txl_decoder *new_decoder(const struct made *made, bool raw) {
    txl_decoder *decoder;
    assert_int_equal(decoder_new(&made->vocabulary, raw, &decoder, NULL), TXL_OK);
    return decoder;
}

/* Pushes the ids and finishes; '|' shows where each call's text ends. */
static void assert_decodes(txl_decoder *decoder, size_t n, const int32_t *ids,
                           const char *expected) {
    struct buffer out = {0};
    for (size_t i = 0; i <= n; i++) {
        const char *text;
        size_t length;
        txl_error error;
        txl_status status = i < n ? txl_decoder_push(decoder, ids[i], &text, &length, &error)
                                  : txl_decoder_finish(decoder, &text, &length, &error);
        assert_int_equal(status, TXL_OK);
        assert_true(buffer_append(&out, text, length));
        assert_true(buffer_append(&out, i < n ? "|" : "", 1));
    }
    assert_string_equal(out.data, expected);
    buffer_free(&out);
}

/* ---- Texts and their symbols -------------------------------------------------------------- */

struct listed {
    txl_kind kind;
    bool lower_case;
    const char *list; /* NULL: the bytes to `last` */
    int last;
};

static struct made *make_listed(const struct listed *v) {
    return v->list ? make(v->kind, v->lower_case, v->list) : make_bytes(0, v->last);
}

#define WORDS "<eos>|<unk>|the|cat|sat|The|caf\xc3\xa9"
#define TEXT8                                                                                      \
    { TXL_TEXT8, true, TEXT8_SYMBOLS }
#define BYTES_TO(last)                                                                             \
    { TXL_BYTES, true, NULL, last }

/* A text, and what is stated of it. */
struct row {
    int how;
    const char *text, *symbols, *ranges, *ids; /* as in struct result, or NULL */
    uint64_t unknown;                          /* among the ids */
    const char *refusal;                       /* a part of the message */
    bool comes_back;                           /* to the byte, when its ids are decoded */
};

#define ROWS(...)                                                                                  \
    (const struct row[]) {                                                                         \
        __VA_ARGS__, {                                                                             \
            .text = NULL                                                                           \
        }                                                                                          \
    }

static const struct {
    struct listed vocabulary;
    const struct row *row;
} texts[] = {
    {{TXL_WORDS, false, WORDS},
     ROWS({CORPUS, "", ""}, {CORPUS, "\n", "<eos> \n"}, {CORPUS, "the cat\n", "the cat <eos> \n"},
          {CORPUS, " the \t cat \nsat\n", "the cat <eos> \nsat <eos> \n"},
          {CORPUS, "the\n\n  \ncat\n", "the <eos> \n<eos> \n<eos> \ncat <eos> \n"},
          {CORPUS, "The cat saw the caf\xc3\xa9\n", .ids = "5 3 1 2 6 0", .unknown = 1},
          /* An unterminated last line gets its <eos> too, even of blanks alone. */
          {CORPUS, "the\ncat", "the <eos> \ncat <eos> \n"},
          {CORPUS, "the\n ", "the <eos> \n<eos> \n"},
          {CORPUS, "the <unk> <eos> dog\n", .ids = "2 1 0 1 0", .unknown = 1},
          {CORPUS, "the\r\ncat\r\n", "the <eos> \ncat <eos> \n"},
          {CORPUS, "the\rcat\r", "the cat <eos> \n"},
          {CORPUS, "the\r\r\ncat\r\n\r\n", "the <eos> \ncat <eos> \n<eos> \n"},
          {CORPUS, "\r", "<eos> \n"},
          /* What other languages take for line ends is white space. */
          {SPLIT,
           "the\x1c"
           "cat\x0b"
           "sat\x0c"
           "the\xc2\x85"
           "cat\xc2\xa0"
           "sat\xe2\x80\xa8"
           "the\xe3\x80\x80"
           "cat\xe2\x80\x8bsat",
           "the cat sat the cat sat the cat\xe2\x80\x8bsat <eos> \n"},
          {CORPUS, "\xef\xbb\xbf", ""}, {CORPUS, "\xef\xbb\xbfthe cat\n", "the cat <eos> \n"},
          {SPLIT, "the \xef\xbb\xbf\n", "the \xef\xbb\xbf <eos> \n"},
          {SPLIT, "\xef\xbb\xbf\xef\xbb\xbfthe\n", "\xef\xbb\xbfthe <eos> \n"},
          {SPLIT, "\xef\xbbthe\n", "\xef\xbf\xbdthe <eos> \n"})},
    {BYTES_TO(255),
     ROWS({CORPUS, "a \r\n\xff", "97 32 13 \n255 \n"}, {CORPUS, "\n\n", "\n\n"},
          {PROMPT, " a \t\r\n", "32 97 32 9 13 \n"}, {CORPUS, "Ab\nc", .ids = "65 98 99"},
          {CORPUS, "\xef\xbb\xbf", "239 187 191 \n"})},
    {{TXL_WORDS, false, WORDS},
     ROWS({SPLIT, "a\xff\xe2\x82 b\xe2\x82",
           "a\xef\xbf\xbd\xef\xbf\xbd b\xef\xbf\xbd "
           "<eos> \n"})},
    {{TXL_WORDS, true, "<eos>|<unk>|the|cat|οδος|i\xcc\x87|k"},
     ROWS({CORPUS, "The CAT ΟΔΟΣ \xc4\xb0 \xe2\x84\xaa\n", .ids = "2 3 4 5 6 0"},
          /* Python lower-cases before it looks up: a literal in capitals is the symbol. */
          {CORPUS, "<UNK> <EOS>\n", .ids = "1 0 0"})},
    {{TXL_CHARACTERS, true, "<eos>|<unk>|a|α|ς|σ| "},
     ROWS({CORPUS, "Aa ΑΣ ΣΑ\n", .ids = "2 2 6 3 4 6 5 3 0"})},
    {{TXL_WORDS, false, WORDS},
     ROWS({PROMPT, "", ""}, {PROMPT, "\n", ""}, {PROMPT, "\r\n", ""}, {PROMPT, "  ", ""},
          {PROMPT, "the cat", "the cat "}, {PROMPT, "the cat\n", "the cat "},
          {PROMPT, "the cat \r\n", "the cat "}, {PROMPT, "the cat\n\n", "the cat <eos> \n"},
          {PROMPT, "the\n\ncat\nsat\n", "the <eos> \n<eos> \ncat <eos> \nsat "})},
    {{TXL_LM1B, false, "<S>|<UNK>|the|cat"},
     ROWS({CORPUS, "", ""}, {CORPUS, "the cat\n", "<S> the cat <S> \n"},
          {CORPUS, "the\n\ncat", "<S> the <S> \n<S> <S> \n<S> cat <S> \n"},
          {CORPUS, " the dog <UNK>\n", .ids = "0 2 1 1 0", .unknown = 1}, {PROMPT, "", ""},
          {PROMPT, "\n", ""}, {PROMPT, "the", "<S> the "}, {PROMPT, "the cat\n", "<S> the cat "},
          {PROMPT, "the\ncat\n", "<S> the <S> \n<S> cat "},
          {PROMPT, "the\n\n", "<S> the <S> \n<S> "})},
    {TEXT8,
     ROWS({CORPUS, "", ""}, {CORPUS, " \n \n", ""},
          {CORPUS, " \n the  cat \n ", "t h e _ _ c a t \n"}, {CORPUS, "et a", .ids = "1 2 0 3"},
          {PROMPT, " the \n", "t h e _ "}, {PROMPT, "the  ", "t h e _ _ "},
          {SPLIT, "a A\nb\n\n", "a _ A \\n \nb \n"}, {SKIP, "a A\r\n\tb\n", "a _ \nb \n"},
          {CORPUS, "a A", .refusal = "line 1, column 3: the symbol \"A\" "},
          {CORPUS, "\n a\nb", .refusal = "line 2, column 3: the symbol \"\\n\" "},
          {CORPUS, "a \t b", .refusal = "line 1, column 3: the symbol \"\\x09\" "})},
    {{TXL_CHARACTERS, false, "<eos>|<unk>|a|b| |\xc3\xa9|<|u|n|k|>|e|o|s"},
     ROWS({CORPUS, "", ""}, {CORPUS, "a\n\nb", "a <eos> \n<eos> \nb <eos> \n"},
          {CORPUS, " \t a  \xc3\xa9 \t \n", "a \\s \\s \xc3\xa9 <eos> \n"},
          {CORPUS, "a\xe4\xb8\xad\tb\xc3\xa9\n", .ids = "2 1 1 3 5 0", .unknown = 2},
          /* A literal special is spelled out. */
          {CORPUS, "<unk>\n", .ids = "6 7 8 9 10 0"}, {CORPUS, "<eos>\n", .ids = "6 11 12 13 10 0"},
          {PROMPT, "", ""}, {PROMPT, " a b \t \n", "a \\s b \\s \\t \\s "},
          {PROMPT, "a \nb ", "a <eos> \nb \\s "}, {PROMPT, "a\r", "a \\r "},
          {PROMPT, "a\n\n", "a <eos> \n"})},
    {{TXL_WORDS, false, "<eos>|the|cat"},
     ROWS({CORPUS, "the\n caf\xc3\xa9 dog\n",
           .refusal =
               "line 2, column 2: the symbol \"caf\xc3\xa9\" is not in the vocabulary, which "
               "has no <unk> for it; skip_unknown leaves such symbols out"},
          {CORPUS, "the \xc3\xa9\n", .refusal = "line 1, column 5: "},
          {CORPUS, "\xef\xbb\xbfx", .refusal = "line 1, column 1: the symbol \"x\" "},
          {CORPUS, "the a\"\\\x01\x7f\n", .refusal = "the symbol \"a\\\"\\\\\\x01\\x7f\" "},
          {CORPUS, "\xe2\x80\xae\n", .refusal = "the symbol \"\\U0000202e\" "},
          {CORPUS, "123456789012345678901234567890123456789012345",
           .refusal = "the symbol \"1234567890123456789012345678901234567890...\" "},
          {SKIP, "the dog cat\nbird\n", .ids = "1 2 0 0", .unknown = 2})},
    {{TXL_WORDS, false, "the|cat"},
     ROWS({CORPUS, "the\n", .refusal = "line 1, column 4: the symbol \"<eos>\" "},
          {SKIP, "the\ncat\n", .ids = "0 1", .unknown = 2})},
    {{TXL_CHARACTERS, false, "<eos>|a|b"},
     ROWS({CORPUS, "a\nbab c\n", .refusal = "line 2, column 4: the symbol \" \" "},
          {CORPUS, "a\nab\xe4\xb8\xad\n",
           .refusal = "line 2, column 3: the symbol \"\xe4\xb8\xad\" "},
          {SKIP, "a c b\n", .ids = "1 2 0", .unknown = 3})},
    {BYTES_TO(199),
     ROWS({CORPUS, "a\n\xc3\xa9\xe4\n", .refusal = "line 2, column 3: the symbol \"228\" "},
          {SKIP, "a\xff\n", .ids = "97", .unknown = 1})},
    {{TXL_WORDS, false, "<eos>|<unk>|He|said|,|.|\"|well-known|@-@|cats"},
     ROWS({RAW, "He said, \"cats.\"\r\n\n", "He said , \" cats . \" <eos> \n<eos> \n"},
          {RAW, "He said <unk>, dogs.", .ids = "2 3 1 4 1 5 0", .unknown = 1},
          {RAW | PROMPT, "cats.\nHe said,\n", "cats . <eos> \nHe said , "},
          {RAW | SPLIT, "\xef\xbb\xbf well-known\xff", "well @-@ known \xef\xbf\xbd <eos> \n"})},
    {{TXL_LM1B, true, "<S>|<UNK>|he|said|,|."},
     ROWS({RAW, "HE said, he said.\n", .ids = "0 2 3 4 2 3 5 0"})},
    {{TXL_WORDS, false, "<eos>|He|said|,"},
     ROWS({RAW, "He said\nHe said, caf\xc3\xa9!\n",
           .refusal = "line 2, column 10: the symbol \"caf\xc3\xa9\" "})},
    /* Elsewhere there is nothing raw about text. */
    {{TXL_CHARACTERS, false, "<eos>|<unk>|a|."}, ROWS({RAW, "a.\n", "a . <eos> \n"})},
    {{TXL_WORDS, true, WORDS},
     ROWS(
         /* White space belongs to no word; a line end is LF or CR LF. */
         {CORPUS, " the  CAT \r\n\ncaf\xc3\xa9",
          .ranges = "1:1+3 1:6+3 1:10+2 2:12+1 3:13+5 3:18+0 "},
         {CORPUS, "\xef\xbb\xbfthe \n", .ranges = "1:3+3 1:7+1 "},
         {CORPUS, "the ", .ranges = "1:0+3 1:4+0 "},
         /* What was replaced, or is longer than any symbol, is as long as it was. */
         {CORPUS,
          "\xff"
          "a\xe2\x82 \xf0\x9f\x98\n",
          .ranges = "1:0+4 1:5+3 1:8+1 "},
         {PROMPT, "the\r\n\ncat\n", .ranges = "1:0+3 1:3+2 2:5+1 3:6+3 "})},
    {{TXL_WORDS, false, "the"}, ROWS({SKIP, "a the b the", .ranges = "1:2+3 1:8+3 "})},
    {{TXL_LM1B, false, "<S>|<UNK>|the"},
     ROWS({CORPUS, " the\n\nthe", .ranges = "1:0+0 1:1+3 1:4+1 2:5+0 2:5+1 3:6+0 3:6+3 3:9+0 "})},
    {{TXL_CHARACTERS, true, "<eos>|<unk>|a|b|i|\xcc\x87| "},
     ROWS({CORPUS, "  aB  b \n", .ranges = "1:2+1 1:3+1 1:4+1 1:5+1 1:6+1 1:8+1 "},
          /* U+0130 becomes two characters, each of which stands for it; what was replaced may be as
             long * as what replaces it, or not. */
          {CORPUS,
           "a\xc4\xb0\xff\xef\xbf\xbd\xf0\x9f\x98"
           "b\xe2\x80\xa8"
           "a\r\n",
           .ranges = "1:0+1 1:1+2 1:1+2 1:3+1 1:4+3 1:7+3 1:10+1 1:11+3 1:14+1 1:15+2 "})},
    {TEXT8, ROWS({SKIP, " a b\r\n c\n\n", .ranges = "1:1+1 1:2+1 1:3+1 2:6+1 2:7+1 "},
                 {SPLIT, "a\r\n\nb", .ranges = "1:0+1 1:1+2 2:3+1 3:4+1 "})},
    {BYTES_TO(255), ROWS({CORPUS, "a\n\nb\r\n", .ranges = "1:0+1 3:3+1 3:4+1 "})},
    /* A token names the bytes that it was made from; swapped text, and a single character, are
       named * whole. */
    {{TXL_WORDS, false, WORDS},
     ROWS({RAW | SPLIT, "He didn't, 1,000 well-known.\n",
           "He didn 't , 1 @,@ 000 well @-@ known . <eos> \n"},
          {RAW | SPLIT, "He didn't, 1,000 well-known.\n",
           .ranges =
               "1:0+2 1:3+4 1:7+2 1:9+1 1:11+1 1:12+1 1:13+3 1:17+4 1:21+1 1:22+5 1:27+1 1:28+1 "},
          {RAW | SPLIT, "\xe2\x80\x9cYes\xe2\x80\x9d, \xff 5 % \xe2\x80\xa6",
           "\" Yes , \" \xef\xbf\xbd 5 % ... <eos> \n"},
          {RAW | SPLIT, "\xe2\x80\x9cYes\xe2\x80\x9d, \xff 5 % \xe2\x80\xa6",
           .ranges = "1:0+3 1:3+3 1:6+4 1:6+4 1:11+1 1:13+1 1:14+2 1:17+3 1:20+0 "})},
    {{TXL_WORDS, false, "<eos>|<unk>|the|cat|,|.|\"|He|said"},
     ROWS({CORPUS, "the cat\n\nthe <unk>\n", .comes_back = true},
          {PROMPT, "the cat\n\nthe <unk>", .comes_back = true},
          {RAW, "He said, \"the cat, the cat.\"\n\nthe cat.\n", .comes_back = true})},
    {{TXL_LM1B, false, "<S>|<UNK>|the|cat|,|."},
     ROWS({CORPUS, "the cat\n\nthe <UNK>\n", .comes_back = true},
          {PROMPT, "the cat\n\nthe", .comes_back = true},
          {RAW, "the cat, the cat.\n\nthe.\n", .comes_back = true})},
    {{TXL_CHARACTERS, false, "<eos>|<unk>|a|b| |\xc3\xa9|\t"},
     ROWS({CORPUS, "a \t b\n\n\xc3\xa9\n", .comes_back = true},
          {PROMPT, "a b\n\n\xc3\xa9 \t ", .comes_back = true})},
    {BYTES_TO(255), ROWS({CORPUS, " any \t \xff\xfe\xc3\xa9\r bytes ", .comes_back = true})},
    {TEXT8, ROWS({CORPUS, "the  cat sat", .comes_back = true},
                 {PROMPT, "the  cat sat ", .comes_back = true})},
};

struct decoded {
    size_t n;
    const int32_t *ids;
    const char *text; /* | shows where each call's ends */
    size_t n_before;  /* > 0: goes on after these ids, whose text ended with `tail` */
    const int32_t *before;
    char tail;
};

#define DECODED(...)                                                                               \
    (const struct decoded[]) {                                                                     \
        __VA_ARGS__, {                                                                             \
            .ids = NULL                                                                            \
        }                                                                                          \
    }

static const struct {
    struct listed vocabulary;
    bool raw;
    const struct decoded *row;
} decoded[] = {
    {{TXL_WORDS, false, WORDS},
     false,
     DECODED({IDS(2, 3, 0, 0, 5, 1), "the| cat|\n|\n|The| <unk>|"}, {IDS(2), "the|"})},
    {{TXL_LM1B, false, "<S>|<UNK>|the|cat"},
     false,
     DECODED({IDS(0, 2, 3, 0, 0, 3, 1, 0), "|the| cat|\n||cat| <UNK>|\n|"},
             {IDS(2, 0, 0, 0, 0, 3), "the|\n||\n||cat|"})},
    {{TXL_CHARACTERS, false, "<eos>|<unk>|a| |\xc3\xa9"},
     true,
     DECODED({IDS(2, 3, 4, 0, 1), "a| |\xc3\xa9|\n|<unk>|"})},
    {TEXT8, false, DECODED({IDS(1, 0, 2), "e| |t|"})},
    {BYTES_TO(255), false, DECODED({IDS(97, 195, 169, 13), "a|\xc3|\xa9|\r|"})},
    {{TXL_WORDS, false, WORDS},
     false,
     DECODED({IDS(3, 4), " cat| sat|", IDS(2), 'e'}, {IDS(3, 4), "cat| sat|", IDS(2), ' '},
             {IDS(3), "cat|", IDS(2), '\t'},
             {IDS(3), " cat|", IDS(6), '\xa0'}, /* the last byte of "à" */
             {IDS(3), "cat|", IDS(2, 0), '\n'}, {IDS(3), "cat|", IDS(0), '\0'},
             {IDS(0, 3), "\n|cat|", IDS(2), 'e'})},
    {{TXL_WORDS, false, WORDS},
     true,
     DECODED({IDS(3), " cat|", IDS(2), 'e'}, {IDS(3), "cat|", IDS(2), ' '},
             {IDS(3), "cat|", IDS(0), '\0'})},
    {{TXL_LM1B, false, "<S>|<UNK>|the|cat"},
     false,
     DECODED({IDS(0, 0, 3), "\n||cat|", IDS(0), '\0'}, {IDS(3, 0), " cat|\n|", IDS(0, 2), 'e'},
             {IDS(0, 3),
              "|"
              " cat|",
              IDS(0, 2, 0), 'e'})},
};

static void assert_comes_back(const struct made *made, bool raw, const struct result *result,
                              const char *text) {
    txl_decoder *decoder = new_decoder(made, raw);
    struct buffer out = {0};
    const int32_t *ids = (const int32_t *)(const void *)result->ids.data;
    size_t n = result->ids.length / sizeof *ids;
    for (size_t i = 0; i <= n; i++) {
        const char *piece;
        size_t length;
        assert_int_equal(i < n ? txl_decoder_push(decoder, ids[i], &piece, &length, NULL)
                               : txl_decoder_finish(decoder, &piece, &length, NULL),
                         TXL_OK);
        assert_true(buffer_append(&out, piece, length));
    }
    assert_true(buffer_append(&out, "", 1));
    assert_string_equal(out.data, text);
    buffer_free(&out);
    txl_decoder_free(decoder);
}

static void assert_ids(const struct result *result, const char *expected) {
    struct buffer spelled = {0};
    for (size_t i = 0; i < result->ids.length; i += sizeof(int32_t)) {
        char number[16];
        int32_t id;
        memcpy(&id, result->ids.data + i, sizeof id);
        int length = snprintf(number, sizeof number, "%s%d", i > 0 ? " " : "", (int)id);
        assert_true(buffer_append(&spelled, number, (size_t)length));
    }
    assert_true(buffer_append(&spelled, "", 1));
    assert_string_equal(spelled.data, expected);
    buffer_free(&spelled);
}

static void check_row(const struct made *made, const struct row *row) {
    struct result result = encode_bytes(made, row->how, row->text, strlen(row->text));
    assert_true(row->symbols || row->ranges || row->ids || row->refusal || row->comes_back);
    assert_int_equal(result.error.status, row->refusal ? TXL_TEXT : TXL_OK);
    if (row->refusal && !strstr(result.error.message, row->refusal))
        fail_msg("\"%s\" is refused with: %s", row->text, result.error.message);
    if (row->symbols)
        assert_string_equal(result.symbols.data, row->symbols);
    if (row->ranges)
        assert_string_equal(result.ranges.data, row->ranges);
    if (row->ids) {
        assert_ids(&result, row->ids);
        assert_int_equal(result.counts.symbols, result.ids.length / sizeof(int32_t));
        assert_int_equal(result.counts.unknown, row->unknown);
    }
    if (row->comes_back)
        assert_comes_back(made, row->how & RAW, &result, row->text);
    free_result(&result);
}

TEST(test_texts) {
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct made *made = make_listed(&texts[i].vocabulary);
        for (const struct row *row = texts[i].row; row->text; row++)
            check_row(made, row);
        unmake(made);
    }
}

/* One decoder has all texts of a vocabulary, one after another. */
TEST(test_decoded_texts) {
    for (size_t i = 0; i < sizeof decoded / sizeof *decoded; i++) {
        struct made *made = make_listed(&decoded[i].vocabulary);
        txl_decoder *decoder = new_decoder(made, decoded[i].raw);
        for (const struct decoded *row = decoded[i].row; row->ids; row++) {
            if (row->n_before > 0)
                assert_int_equal(
                    txl_decoder_continue(decoder, row->before, row->n_before, row->tail, NULL),
                    TXL_OK);
            assert_decodes(decoder, row->n, row->ids, row->text);
        }
        txl_decoder_free(decoder);
        unmake(made);
    }
}

/* ---- Words -------------------------------------------------------------------------------- */

/* A word is kept only as far as a symbol may need, unless it has to be passed on. */
TEST(test_long_words) {
    enum { LENGTH = 3000000 };
    char *text = malloc(LENGTH);
    assert_non_null(text);
    memset(text, 'a', LENGTH);
    memcpy(text + LENGTH - 5, " the\n", 5);
    struct made *made = make(TXL_WORDS, true, WORDS);
    struct result result = {0};
    encode_cut(made, CORPUS, text, LENGTH, 1000, 1000, &result);
    assert_int_equal(result.ids.length, 3 * sizeof(int32_t));
    assert_memory_equal(result.ids.data, ((int32_t[]){1, 2, 0}), 3 * sizeof(int32_t));
    assert_in_range(result.symbols.length, 1, 1000);
    encode_cut(made, SPLIT, text, LENGTH, 1000, 1000, &result);
    assert_int_equal(result.symbols.length, LENGTH + strlen(" <eos> \n"));
    memset(text, '\xe4', LENGTH - 5); /* each a U+FFFD */
    encode_cut(made, CORPUS, text, LENGTH, 1000, 1000, &result);
    assert_in_range(result.symbols.length, 1, 1000);
    assert_int_equal(result.counts.unknown, 1);
    free_result(&result);

    char word[2000];
    memset(word, 'x', sizeof word);
    memcpy(word + sizeof word - 9, " the the", 9);
    check_row(made, &(struct row){CORPUS, word, .ranges = "1:0+1991 1:1992+3 1:1996+3 1:1999+0 "});
    unmake(made);
    free(text);

    /* In lower case a word may be of fewer bytes than as it stands. */
    made = make(TXL_WORDS, true, "<eos>|<unk>|kkkkkkkk");
    check_row(made, &(struct row){CORPUS,
                                  "\xe2\x84\xaa\xe2\x84\xaa\xe2\x84\xaa\xe2\x84\xaa"
                                  "\xe2\x84\xaa\xe2\x84\xaa\xe2\x84\xaa\xe2\x84\xaa\n",
                                  .ids = "2 0"});
    unmake(made);
}

/* Nor do characters without a blank have to be kept to be lower-cased. */
TEST(test_long_lines_in_lower_case) {
    enum { LENGTH = 200000 };
    char *text = malloc(LENGTH);
    assert_non_null(text);
    memset(text, 'A', LENGTH);
    text[LENGTH - 1] = '\n';
    struct made *made = make(TXL_CHARACTERS, true, "<eos>|<unk>|a");
    struct result result = {0};
    encode_cut(made, CORPUS, text, LENGTH, 1000, 1000, &result);
    assert_int_equal(result.ids.length, LENGTH * sizeof(int32_t));
    const int32_t *ids = (const int32_t *)(const void *)result.ids.data;
    for (int i = 0; i < LENGTH; i++)
        assert_int_equal(ids[i], i < LENGTH - 1 ? 2 : 0);
    free_result(&result);
    unmake(made);
    free(text);
}

/* ---- Bytes -------------------------------------------------------------------------------- */

TEST(test_bytes) {
    struct made *made = make_bytes(0, 255);
    struct result result = encode_bytes(made, CORPUS, "\0\n\xc3\xa9", 4);
    assert_string_equal(result.symbols.data, "0 \n195 169 \n");
    assert_int_equal(result.counts.bytes, 4);
    assert_int_equal(result.counts.characters, 4);
    assert_int_equal(result.counts.symbols, 3);
    free_result(&result);
    unmake(made);
}

/* ---- Characters --------------------------------------------------------------------------- */

static size_t encode_repeated(const struct made *made, const char *begin, const char *repeated,
                              size_t times, const char *end) {
    struct result result = {0};
    const txl_encoding encoding = encoding_of(CORPUS, &result);
    txl_encoder *encoder;
    assert_int_equal(encoder_new(&made->vocabulary, &encoding, &encoder, NULL), TXL_OK);
    assert_int_equal(txl_encoder_feed(encoder, begin, strlen(begin), NULL), TXL_OK);
    for (size_t i = 0; i < times; i++)
        assert_int_equal(txl_encoder_feed(encoder, repeated, strlen(repeated), NULL), TXL_OK);
    assert_int_equal(txl_encoder_feed(encoder, end, strlen(end), NULL), TXL_OK);
    assert_int_equal(txl_encoder_finish(encoder, NULL), TXL_OK);
    txl_encoder_free(encoder);
    size_t n = result.ids.length / sizeof(int32_t);
    free_result(&result);
    return n;
}

/* Closing white space is held back in whatever length, in bounded memory if it varies. */
TEST(test_much_white_space) {
    struct made *made = make(TXL_CHARACTERS, false, "<eos>|<unk>|a|b| |\t");
    assert_int_equal(encode_repeated(made, "a", " ", 1000000, "b"), 1000003);
    assert_int_equal(encode_repeated(made, "a", " ", 1000000, "\nb"), 4);
    assert_int_equal(encode_repeated(made, "a", " \t", 30000, "b"), 60003);
    assert_int_equal(encode_repeated(made, "a", " \t", 30000, "\nb"), 4);
    assert_int_equal(encode_repeated(made, "a", " \t", 70000, "b"), 140003);
    assert_int_equal(encode_repeated(made, "a", " \t", 70000, "\nb"), 4 + 2 * 65536);
    unmake(made);
}

/* ---- Unknown symbols ---------------------------------------------------------------------- */

static txl_status refuse(void *context, const txl_symbol *symbol, txl_error *error) {
    int *left = context;
    (void)symbol;
    return (*left)-- > 0 ? TXL_OK : txl_fail(error, TXL_STOPPED, "enough");
}

TEST(test_caller_may_stop) {
    static const char text[] = "a b  a\n";
    struct made *kinds[] = {
        make(TXL_WORDS, false, "<eos>|<unk>|a|b"), make(TXL_LM1B, false, "<S>|<UNK>|a|b"),
        make(TXL_CHARACTERS, true, "<eos>|<unk>|a|b"), make_bytes(0, 255), make_text8()};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        for (int n = 0; n < 4; n++) {
            int left = n;
            const txl_encoding encoding = {.lookup = true, .symbol = refuse, .context = &left};
            txl_encoder *encoder;
            txl_error error;
            assert_int_equal(encoder_new(&kinds[i]->vocabulary, &encoding, &encoder, NULL), TXL_OK);
            txl_status status = txl_encoder_feed(encoder, text, strlen(text), &error);
            if (!status)
                status = txl_encoder_finish(encoder, &error);
            assert_int_equal(status, TXL_STOPPED);
            assert_string_equal(error.message, "enough");
            txl_encoder_free(encoder);
        }
        unmake(kinds[i]);
    }
}

/* ---- Joined lines ------------------------------------------------------------------------- */

/* Encodes a text of which each / stands for a line end that joins lines: ` /` for it and a blank
 * before it.  In `text` itself a / is LF.  A ~ stands for a line end that stays, and drops it. */
static struct result encode_joined(const struct made *made, int how, const char *text) {
    struct result result = {0};
    txl_encoder *encoder = new_encoder(made, how, &result);
    size_t length = strlen(text);
    for (size_t i = 0; i < length; i++) {
        size_t bytes = 1 + (text[i] == ' ' && text[i + 1] != '\0' && strchr("/~", text[i + 1]));
        char end = text[i + bytes - 1];
        if (end == '/')
            assert_int_equal(txl_encoder_join(encoder, (unsigned)bytes, NULL), TXL_OK);
        else if (end == '~')
            assert_int_equal(txl_encoder_end_line(encoder, (unsigned)bytes, NULL), TXL_OK);
        else
            assert_int_equal(feed_piece(encoder, text + i, 1, NULL), TXL_OK);
        i += end == '/' || end == '~' ? bytes - 1 : 0;
    }
    assert_int_equal(txl_encoder_finish(encoder, NULL), TXL_OK);
    txl_encoder_counts(encoder, &result.counts);
    assert_int_equal(result.counts.bytes, length);
    add(&result, "", 1);
    assert_true(buffer_append(&result.ranges, "", 1));
    check_characters(&result, text, length);
    txl_encoder_free(encoder);
    return result;
}

static void assert_joins(struct made *made, int how, const char *text, const char *symbols,
                         const char *ranges) {
    struct result result = encode_joined(made, how, text);
    assert_string_equal(result.symbols.data, symbols);
    assert_string_equal(result.ranges.data, ranges);
    free_result(&result);
}

TEST(test_joined_lines) {
    struct made *made = make(TXL_WORDS, false, WORDS);
    assert_joins(made, CORPUS, "the/cat /sat\n", "the cat sat <eos> \n",
                 "1:0+3 2:4+3 3:9+3 3:12+1 ");
    assert_joins(made, RAW | SPLIT, "\xff the/cat /sat.", "\xef\xbf\xbd the cat sat . <eos> \n",
                 "1:0+1 1:2+3 2:6+3 3:11+3 3:14+1 3:15+0 ");
    /* A sequence that the line end cuts off, and what a prompt holds back. */
    assert_joins(made, SPLIT, "\xc3/cat\r/sat", "\xef\xbf\xbd cat sat <eos> \n",
                 "1:0+1 2:2+3 3:7+3 3:10+0 ");
    assert_joins(made, PROMPT, "the\n/cat", "the <eos> \ncat ", "1:0+3 1:3+1 3:5+3 ");
    unmake(made);
    made = make(TXL_LM1B, false, "<S>|<UNK>|the");
    assert_joins(made, CORPUS, "the/the", "<S> the the <S> \n", "1:0+0 1:0+3 2:4+3 2:7+0 ");
    unmake(made);
    made = make(TXL_CHARACTERS, true, "<eos>|<unk>|a|b| ");
    assert_joins(made, CORPUS, "A /b//a\n", "a \\s b \\s \\s a <eos> \n",
                 "1:0+1 1:1+2 2:3+1 2:4+1 3:5+1 4:6+1 4:7+1 ");
    assert_joins(made, CORPUS, "a/", "a <eos> \n", "1:0+1 2:2+0 ");
    unmake(made);
    made = make_text8();
    assert_joins(made, CORPUS, "a /b\n", "a _ b \n", "1:0+1 1:1+2 2:3+1 ");
    unmake(made);
    made = make_bytes(0, 255);
    struct result result = {0};
    txl_error error;
    txl_encoder *encoder = new_encoder(made, CORPUS, &result);
    assert_int_equal(txl_encoder_join(encoder, 1, &error), TXL_ARGUMENT);
    assert_int_equal(txl_encoder_end_line(encoder, 1, &error), TXL_ARGUMENT);
    txl_encoder_free(encoder);
    unmake(made);
    made = make_text8();
    encoder = new_encoder(made, CORPUS, &result);
    assert_int_equal(txl_encoder_join(encoder, 0, &error), TXL_ARGUMENT);
    assert_int_equal(txl_encoder_end_line(encoder, 0, &error), TXL_ARGUMENT);
    txl_encoder_free(encoder);
    unmake(made);
}

TEST(test_ended_lines) {
    struct made *made = make(TXL_WORDS, false, WORDS);
    assert_joins(made, CORPUS, "the ~cat~", "the <eos> \ncat <eos> \n", "1:0+3 1:3+2 2:5+3 2:8+1 ");
    /* A sequence that the line end cuts off, and what a prompt holds back. */
    assert_joins(made, SPLIT, "\xc3 ~\xc3~cat",
                 "\xef\xbf\xbd <eos> \n\xef\xbf\xbd <eos> \ncat <eos> \n",
                 "1:0+1 1:1+2 2:3+1 2:4+1 3:5+3 3:8+0 ");
    assert_joins(made, PROMPT, "the ~ ~cat ~", "the <eos> \n<eos> \ncat ",
                 "1:0+3 1:3+2 2:5+2 3:7+3 ");
    unmake(made);
    made = make(TXL_LM1B, false, "<S>|<UNK>|the");
    assert_joins(made, CORPUS, "the ~the", "<S> the <S> \n<S> the <S> \n",
                 "1:0+0 1:0+3 1:3+2 2:5+0 2:5+3 2:8+0 ");
    unmake(made);
    made = make(TXL_CHARACTERS, true, "<eos>|<unk>|a|b| ");
    assert_joins(made, CORPUS, "A ~b", "a <eos> \nb <eos> \n", "1:0+1 1:1+2 2:3+1 2:4+0 ");
    unmake(made);
    /* To text8 a line end is a character, which its vocabulary can have, and blanks before it too.
     */
    made = make(TXL_TEXT8, true, "_|\n|a|b");
    assert_joins(made, CORPUS, "a ~b ~", "a \\n \nb \n", "1:0+1 1:1+2 2:3+1 ");
    unmake(made);
}

/* ---- Counts, texts one after another ------------------------------------------------------ */

TEST(test_counts_and_reuse) {
    struct made *made = make(TXL_WORDS, false, WORDS);
    struct result result = {0};
    const txl_encoding encoding = encoding_of(CORPUS, &result);
    txl_encoder *encoder;
    assert_int_equal(encoder_new(&made->vocabulary, &encoding, &encoder, NULL), TXL_OK);
    txl_encoded counts;
    for (uint64_t i = 1; i <= 3; i++) {
        static const char text[] = "\xef\xbb\xbfthe caf\xc3\xa9 dog\r\nsat\xff";
        clear(&result);
        assert_int_equal(txl_encoder_feed(encoder, text, sizeof text - 1, NULL), TXL_OK);
        assert_int_equal(txl_encoder_finish(encoder, NULL), TXL_OK);
        txl_encoder_counts(encoder, &counts);
        assert_int_equal(counts.bytes, i * 22);
        assert_int_equal(counts.characters, i * 19);
        assert_int_equal(counts.symbols, i * 6);
        assert_int_equal(counts.unknown, i * 2);
        assert_int_equal(counts.invalid, i);
    }
    /* U+FFFD itself is valid; what is cut off by another character or the end is not. */
    clear(&result);
    static const char replaced[] = "\xef\xbf\xbd \xf0\x9f\x98\xe2\x82 \xe2\xff\xef\xbf";
    assert_int_equal(txl_encoder_feed(encoder, replaced, sizeof replaced - 1, NULL), TXL_OK);
    assert_int_equal(txl_encoder_finish(encoder, NULL), TXL_OK);
    txl_encoder_counts(encoder, &counts);
    assert_int_equal(counts.invalid, 3 + 5);
    txl_encoder_free(encoder);
    free_result(&result);
    unmake(made);
}

/* ---- Raw text ----------------------------------------------------------------------------- */

TEST(test_long_raw_lines) {
    struct made *made = make(TXL_WORDS, false, "<eos>|<unk>|ab");
    assert_int_equal(encode_repeated(made, "", "ab ", 800000, "ab"), 800002);
    struct result result = {0};
    size_t length = 3 * 800000;
    char *text = malloc(length);
    assert_non_null(text);
    for (size_t i = 0; i < length; i += 3)
        memcpy(text + i, "ab ", 3);
    encode_cut(made, RAW, text, length, 1000, 100000, &result);
    assert_int_equal(result.counts.symbols, 800001);
    assert_int_equal(result.counts.unknown, 0);
    memset(text, 'a', length);
    encode_cut(made, RAW, text, length, 1000, 100000, &result);
    assert_int_equal(result.counts.symbols, 3); /* cut in two, and <eos> */
    free(text);
    free_result(&result);
    unmake(made);
}

/* ---- Decoding ----------------------------------------------------------------------------- */

TEST(test_decodes_raw) {
    struct made *made = make(TXL_WORDS, false, "<eos>|<unk>|He|said|,|.|\"|1|@,@|000");
    txl_decoder *decoder = new_decoder(made, true);
    struct buffer out = {0};
    static const int32_t ids[] = {2, 3, 4, 6, 7, 8, 9, 5, 6, 0, 2, 5, 0};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const char *text;
        size_t length;
        assert_int_equal(txl_decoder_push(decoder, ids[i], &text, &length, NULL), TXL_OK);
        assert_true(buffer_append(&out, text, length));
        if (ids[i] == 0)
            assert_int_equal(text[length - 1], '\n');
    }
    assert_true(buffer_append(&out, "", 1));
    assert_string_equal(out.data, "He said, \"1,000.\"\nHe.\n");
    buffer_free(&out);
    txl_decoder_free(decoder);
    unmake(made);
}

TEST(test_decoder_refuses_ids) {
    struct made *made = make(TXL_WORDS, false, WORDS);
    txl_decoder *decoder = new_decoder(made, false);
    static const int32_t wrong[] = {-1, 7, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *text;
        size_t length;
        txl_error error;
        assert_int_equal(txl_decoder_push(decoder, wrong[i], &text, &length, &error), TXL_ARGUMENT);
        assert_int_equal(txl_decoder_continue(decoder, &wrong[i], 1, 'x', &error), TXL_ARGUMENT);
    }
    txl_decoder_free(decoder);
    unmake(made);

    made = make(TXL_BYTES, false, "97|a");
    decoder = new_decoder(made, false);
    const char *text;
    size_t length;
    txl_error error;
    assert_int_equal(txl_decoder_push(decoder, 1, &text, &length, &error), TXL_TEXT);
    assert_string_equal(error.message, "'a' is not a byte's decimal number");
    txl_decoder_free(decoder);
    unmake(made);
}

/* ---- The cases ---------------------------------------------------------------------------- */

static char *read_case(const char *name, const char *file, size_t *length) {
    const char *cases = getenv("TXL_TEST_CASES");
    char path[4096];
    snprintf(path, sizeof path, "%s/%s/%s", cases ? cases : "tests/cases", name, file);
    return read_file(path, length);
}

static json_t *case_tokens(const char *name, char tokenizer[16]) {
    size_t length;
    char *text = read_case(name, "expect.json", &length);
    json_t *expect = json_loads(text, 0, NULL);
    free(text);
    assert_non_null(expect);
    snprintf(tokenizer, 16, "%s", json_string_value(json_object_get(expect, "tokenizer")));
    json_t *tokens = json_incref(json_object_get(expect, "tokens"));
    json_decref(expect);
    return tokens;
}

TEST(test_lm1b_case) {
    size_t length;
    char *list = read_case("lm1b", "1b_word_vocab.txt", &length);
    list[length - 1] = '\0'; /* the last line end separates nothing */
    struct made *made = make_from(TXL_LM1B, false, list, '\n');
    free(list);
    char *text = read_case("lm1b", "text.txt", &length);
    struct result result = encode_bytes(made, CORPUS, text, length);
    char tokenizer[16];
    json_t *tokens = case_tokens("lm1b", tokenizer);
    assert_int_equal(result.ids.length, json_array_size(tokens) * sizeof(int32_t));
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        int32_t id;
        memcpy(&id, result.ids.data + i * sizeof id, sizeof id);
        assert_int_equal(id, json_integer_value(json_array_get(tokens, i)));
    }
    assert_int_equal(result.counts.unknown, 2);
    json_decref(tokens);
    free(text);
    free_result(&result);
    unmake(made);
}

/* Without the vocabulary: there must be as many symbols as tokens, one spelling always the same id,
 * and no two spellings the same id, but for <unk>'s. */
static void check_case(const char *name) {
    char tokenizer[16];
    json_t *tokens = case_tokens(name, tokenizer);
    txl_kind kind = TXL_WORDS;
    while (strcmp(txl_kind_name(kind), tokenizer) != 0)
        kind++;
    struct made *made = make(kind, false, "a");
    size_t length;
    char *text = read_case(name, "text.txt", &length);
    struct result result = {0};
    encode_cut(made, SPLIT, text, length, length, length, &result);

    json_t *id_of = json_object();
    json_t *spelling_of = json_object();
    size_t n_token = 0;
    json_int_t unk = -1;
    for (char *symbol = strtok(result.symbols.data, " \n"); symbol; symbol = strtok(NULL, " \n")) {
        json_int_t id = json_integer_value(json_array_get(tokens, n_token++));
        json_t *known = json_object_get(id_of, symbol);
        if (known)
            assert_int_equal(json_integer_value(known), id);
        json_object_set_new(id_of, symbol, json_integer(id));
        char number[24];
        snprintf(number, sizeof number, "%d", (int)id);
        const char *other = json_string_value(json_object_get(spelling_of, number));
        if (other && strcmp(other, symbol) != 0) {
            assert_true(kind == TXL_WORDS || kind == TXL_LM1B || kind == TXL_CHARACTERS);
            assert_true(unk < 0 || unk == id);
            unk = id;
        }
        json_object_set_new(spelling_of, number, json_string(symbol));
    }
    assert_int_equal(n_token, json_array_size(tokens));
    json_decref(id_of);
    json_decref(spelling_of);
    json_decref(tokens);
    free(text);
    free_result(&result);
    unmake(made);
}

TEST(test_cases) {
    static const char *const cases[] = {"absolute-learned",
                                        "absolute-sinusoid",
                                        "characters",
                                        "enwik8-legacy",
                                        "enwik8-zip",
                                        "half-precision",
                                        "hf-bin",
                                        "hf-safetensors",
                                        "hf-sharded",
                                        "lm1b",
                                        "pre-lnorm",
                                        "projected-div1",
                                        "text8",
                                        "untied",
                                        "wt103-legacy",
                                        "wt103-zip",
                                        "learnable-positions"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_case(cases[i]);
}

/* ---- Noise -------------------------------------------------------------------------------- */

TEST(test_noise) {
    struct made *kinds[] = {
        make(TXL_WORDS, false, WORDS),
        make(TXL_WORDS, true, "a|b"),
        make(TXL_LM1B, true, "<S>|<UNK>|a"),
        make(TXL_CHARACTERS, true, "<eos>|a|b"),
        make(TXL_CHARACTERS, false, "<eos>|<unk>|a| "),
        make_bytes(0, 127),
        make_text8(),
    };
    uint32_t random = 1;
    struct result whole = {0}, cut = {0};
    for (int i = 0; i < 20000; i++) {
        char noise[48];
        size_t length = 0;
        while (length < sizeof noise - 4 && (random >> 24) != 0) {
            static const char *const pieces[] = {
                " ",        "\n",           "\r", "\r\n",         "a",
                "\xce\xa3", "\xef\xbb\xbf", "\t", "\xe2\x80\xa8", "'"};
            random = random * 1664525 + 1013904223;
            const char *piece = pieces[(random >> 8) % 10];
            if (random >> 31) {
                memcpy(noise + length, piece, strlen(piece));
                length += strlen(piece);
            } else {
                noise[length++] = (char)(random >> 16);
            }
        }
        random = random * 1664525 + 1013904223;
        const struct made *made = kinds[(random >> 8) % (sizeof kinds / sizeof *kinds)];
        int how = (int)(random >> 20) & (PROMPT | SKIP | SPLIT);
        if (i % 64 == 0)
            how |= RAW;
        encode_cut(made, how, noise, length, length, length, &whole);
        encode_cut(made, how, noise, length, random >> 30, 1 + (random >> 28), &cut);
        assert_same(&whole, &cut);
    }
    free_result(&whole);
    free_result(&cut);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        unmake(kinds[i]);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
