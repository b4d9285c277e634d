/* Text to ids and back: the input is two bytes of choices, then the text, in which JOIN stands for
 * a line end that joins lines and END for one that drops what is before it.  However the text is
 * cut, it must give the same result as in one piece, with a blank for each JOIN and LF for each END
 * the same ids, and the text of its ids must be read as the same ids. */
#include "symbols.h"

#include "lib/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

/* The first byte. */
enum { KIND = 7, RAW = 8, PROMPT = 16, SKIP_UNKNOWN = 32, LOOKUP = 64, LOWER_CASE = 128 };

/* The second: whether there is <unk>; all of it says how the text is cut. */
enum { HAS_UNK = 1 };

/* In the text of all kinds but bytes. */
enum { JOIN = 0x1e, END = 0x1d };

/* ---- Vocabularies ------------------------------------------------------------------------- */

enum { N_KIND = 5, MAX_SYMBOL = 256 };

static const char *const words[] = {
    "<unk>", "<eos>", "<S>", "the", "a",   "b",    "word", "Mr", "1", "000",  ".",
    ",",     "...",   "'s",  "n't", "'",   "\"",   "&",    "(",  ")", "[",    "]",
    "|",     "$",     "%",   "-",   "@-@", "@,@",  "@.@",  "?",  "é", "ς",    "σ",
    "i̇",     "…",     "中",  "문",  " ",   "\x01", "\r",   "�",  "ﬁ", "&amp;"};

static size_t list_symbols(txl_kind kind, struct vocabulary_entry *entries,
                           char text[MAX_SYMBOL][4]) {
    size_t n = 0;
    for (unsigned i = 0; i < MAX_SYMBOL; i++)
        if (kind == TXL_BYTES)
            snprintf(text[n++], sizeof text[0], "%u", i);
        else if (kind == TXL_TEXT8 && ((i >= 'a' && i <= 'z') || i == '_'))
            snprintf(text[n++], sizeof text[0], "%c", (char)i);
    for (size_t i = 0; i < n; i++)
        entries[i] = (struct vocabulary_entry){text[i], strlen(text[i])};
    for (size_t i = 0; n == i && i < sizeof words / sizeof *words; i++)
        entries[n++] = (struct vocabulary_entry){words[i], strlen(words[i])};
    return n;
}

/* The one that the choices name; it is made once. */
static const struct vocabulary *choose_vocabulary(const uint8_t *choices) {
    static struct vocabulary made[N_KIND][2][2];
    txl_kind kind = (txl_kind)((choices[0] & KIND) % N_KIND);
    bool lower_case = choices[0] & LOWER_CASE, has_unk = choices[1] & HAS_UNK;
    struct vocabulary *vocabulary = &made[kind][lower_case][has_unk];
    if (vocabulary->n > 0)
        return vocabulary;
    struct vocabulary_entry entries[MAX_SYMBOL];
    char text[MAX_SYMBOL][4];
    void *section; /* stays */
    size_t size, n = list_symbols(kind, entries, text);
    const struct vocabulary_settings settings = {(int32_t)n, kind, lower_case,
                                                 has_unk ? vocabulary_guess_unk(entries, n) : -1,
                                                 vocabulary_guess_eos(entries, n, kind)};
    txl_error error;
    fuzz_require_ok(vocabulary_pack(entries, n, &section, &size, &error), &error);
    fuzz_require_ok(vocabulary_open(vocabulary, section, size, &settings, "symbols", &error),
                    &error);
    return vocabulary;
}

/* ---- Encoding ----------------------------------------------------------------------------- */

/* An encoder, and what it gave of one text until the end or a failure. */
struct encoding {
    txl_encoder *encoder;
    struct symbols symbols;
    txl_status status;
    txl_error error;
    txl_encoded counts;
};

/* An input is encoded as it is, in pieces, with blanks for JOIN, and from what its ids are shown
 * as. */
enum purpose { WHOLE, CUT, BLANKS, SHOWN, N_PURPOSE };

/* Encoders of raw text are kept for the next input: compiling their rules takes far longer than
 * using them. */
static struct encoding *start(const struct vocabulary *vocabulary, const uint8_t *choices,
                              enum purpose purpose) {
    static struct encoding kept[256][2][N_PURPOSE];
    struct encoding *e = &kept[choices[0]][choices[1] & HAS_UNK][purpose];
    const txl_encoding how = {.raw = choices[0] & RAW,
                              .prompt = choices[0] & PROMPT,
                              .skip_unknown = choices[0] & SKIP_UNKNOWN,
                              .lookup = choices[0] & LOOKUP,
                              .symbol = symbols_add,
                              .context = &e->symbols};
    symbols_free(&e->symbols);
    *e = (struct encoding){.encoder = e->encoder};
    symbols_open(&e->symbols);
    if (!e->encoder)
        fuzz_require_ok(encoder_new(vocabulary, &how, &e->encoder, &e->error), &e->error);
    return e;
}

static void finish(const uint8_t *choices, const txl_encoded *before, struct encoding *e) {
    symbols_close(&e->symbols);
    txl_encoder_counts(e->encoder, &e->counts);
    e->counts.characters -= before->characters;
    e->counts.symbols -= before->symbols;
    e->counts.unknown -= before->unknown;
    if (!e->status && choices[0] & RAW)
        return;
    txl_encoder_free(e->encoder);
    e->encoder = NULL;
}

/* Feeds a part of the text; `*source` grows by the bytes that it stands for. */
static void feed(struct encoding *e, const char *text, size_t length, bool joins, size_t *source) {
    while (length > 0 && !e->status) {
        size_t n = 0;
        while (n < length && !(joins && (text[n] == JOIN || text[n] == END)))
            n++;
        const bool ends = n < length;
        e->status = txl_encoder_feed(e->encoder, text, n, &e->error);
        *source += n;
        if (ends && !e->status) {
            unsigned bytes = 1 + (unsigned)(*source % 3);
            e->status = text[n] == JOIN ? txl_encoder_join(e->encoder, bytes, &e->error)
                                        : txl_encoder_end_line(e->encoder, bytes, &e->error);
            *source += bytes;
            n++;
        }
        text += n;
        length -= n;
    }
}

/* The result lives until the next text with these choices and this purpose. */
static const struct encoding *encode(const struct vocabulary *vocabulary, const uint8_t *choices,
                                     enum purpose purpose, const char *text, size_t length) {
    struct encoding *e = start(vocabulary, choices, purpose);
    txl_encoded before;
    txl_encoder_counts(e->encoder, &before);
    bool joins = vocabulary->kind != TXL_BYTES && (purpose == WHOLE || purpose == CUT);
    size_t source = 0;
    unsigned cuts = choices[1];
    for (size_t at = 0, n; at < length && !e->status; at += n) {
        n = purpose == CUT ? 1 + cuts % 7 * (cuts % 5) : length;
        n = n < length - at ? n : length - at;
        cuts = cuts * 5 + 3;
        feed(e, text + at, n, joins, &source);
    }
    if (!e->status)
        e->status = txl_encoder_finish(e->encoder, &e->error);
    fuzz_require(e->symbols.end <= source, "a symbol stands for what is behind the text");
    finish(choices, &before, e);
    return e;
}

static void require_same(const struct encoding *a, const struct encoding *b) {
    fuzz_require(a->status == b->status && symbols_equal(&a->symbols, &b->symbols),
                 "cut text gives other symbols");
    fuzz_require(!a->status || strcmp(a->error.message, b->error.message) == 0,
                 "cut text gives another message");
    fuzz_require(a->status || (a->counts.characters == b->counts.characters &&
                               a->counts.symbols == b->counts.symbols &&
                               a->counts.unknown == b->counts.unknown),
                 "cut text gives other counts");
}

/* ---- Decoding ----------------------------------------------------------------------------- */

/* Like encoders, decoders are kept. */
static txl_decoder *choose_decoder(const struct vocabulary *vocabulary, const uint8_t *choices) {
    static txl_decoder *kept[256][2];
    txl_decoder **decoder = &kept[choices[0]][choices[1] & HAS_UNK];
    txl_error error;
    if (!*decoder)
        fuzz_require_ok(decoder_new(vocabulary, choices[0] & RAW, decoder, &error), &error);
    return *decoder;
}

/* The text of the ids, which the caller frees. */
static char *decode(const struct vocabulary *vocabulary, const uint8_t *choices,
                    const struct encoding *e, size_t *length) {
    txl_decoder *decoder = choose_decoder(vocabulary, choices);
    char *text = NULL;
    FILE *out = open_memstream(&text, length);
    const char *piece;
    size_t n;
    txl_error error;
    fuzz_require(out, "out of memory");
    for (size_t i = 0; i < e->symbols.list.n; i++) {
        fuzz_require_ok(txl_decoder_push(decoder, e->symbols.list.ids[i], &piece, &n, &error),
                        &error);
        fwrite(piece, 1, n, out);
    }
    fuzz_require_ok(txl_decoder_finish(decoder, &piece, &n, &error), &error);
    fwrite(piece, 1, n, out);
    fuzz_require_ok(
        txl_decoder_continue(decoder, e->symbols.list.ids, e->symbols.list.n, ' ', &error), &error);
    fuzz_require_ok(txl_decoder_finish(decoder, &piece, &n, &error), &error);
    fclose(out);
    return text;
}

/* Whether the text of this text's ids gives the same ids again.  It does not where an unknown
 * character becomes several, text8's _ a space, or lm1b's literal <S> a line end. */
static bool is_reversible(const struct vocabulary *vocabulary, uint8_t choices, const char *text,
                          size_t length, const struct encoding *e) {
    if (!(choices & LOOKUP) || choices & (RAW | PROMPT))
        return false;
    switch (vocabulary->kind) {
    case TXL_WORDS:
    case TXL_BYTES:
        return true;
    case TXL_LM1B:
        return !memmem(text, length, "<S>", 3) && !memmem(text, length, "<s>", 3);
    case TXL_CHARACTERS:
        return e->counts.unknown == 0;
    case TXL_TEXT8:
    case TXL_PIECES:
    case TXL_XLNET:
        break;
    }
    return false;
}

static void reverse(const struct vocabulary *vocabulary, const uint8_t *choices, const char *text,
                    size_t length, const struct encoding *e) {
    size_t shown_length;
    char *shown = decode(vocabulary, choices, e, &shown_length);
    if (is_reversible(vocabulary, choices[0], text, length, e)) {
        const struct encoding *again = encode(vocabulary, choices, SHOWN, shown, shown_length);
        fuzz_require(!again->status && again->symbols.list.n == e->symbols.list.n &&
                         memcmp(again->symbols.list.ids, e->symbols.list.ids,
                                e->symbols.list.n * sizeof *e->symbols.list.ids) == 0,
                     "shown ids are read as others");
    }
    free(shown);
}

/* Whether the text has line ends of its own kind.  CR before END is white space, but not before LF.
 */
static bool has_ends(const char *text, size_t length) {
    bool has = false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] == END && i > 0 && text[i - 1] == '\r')
            return false;
        has = has || text[i] == JOIN || text[i] == END;
    }
    return has;
}

/* A line end that joins lines is a blank, and one that drops blanks is another line end. */
static void join(const struct vocabulary *vocabulary, const uint8_t *choices, const char *text,
                 size_t length, const struct encoding *e) {
    if (vocabulary->kind == TXL_BYTES || !has_ends(text, length))
        return;
    char *blanks = malloc(length);
    fuzz_require(blanks, "out of memory");
    for (size_t i = 0; i < length; i++)
        blanks[i] = text[i] == JOIN ? ' ' : text[i] == END ? '\n' : text[i];
    const struct encoding *other = encode(vocabulary, choices, BLANKS, blanks, length);
    free(blanks);
    fuzz_require(other->status == e->status, "joined lines are read otherwise than with a blank");
    if (!e->status)
        fuzz_require(other->symbols.list.n == e->symbols.list.n &&
                         (e->symbols.list.n == 0 ||
                          memcmp(other->symbols.list.ids, e->symbols.list.ids,
                                 e->symbols.list.n * sizeof *e->symbols.list.ids) == 0),
                     "joined lines have other ids than with a blank");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2)
        return 0;
    const struct vocabulary *vocabulary = choose_vocabulary(data);
    const char *text = (const char *)data + 2;
    const struct encoding *whole = encode(vocabulary, data, WHOLE, text, size - 2);
    const struct encoding *cut = encode(vocabulary, data, CUT, text, size - 2);
    require_same(whole, cut);
    join(vocabulary, data, text, size - 2, whole);
    if (!whole->status && whole->symbols.list.n > 0)
        reverse(vocabulary, data, text, size - 2, whole);
    return 0;
}
