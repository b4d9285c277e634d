/* Text to ids.
 *
 * Bytes come in pieces of any size and go through three stages, each of which keeps the little
 * state that a cut anywhere needs:
 *
 *   bytes        -> code points            ill-formed sequences replaced, the byte order mark gone
 *   code points  -> letters, white space,  CR LF is one line end; a CR alone is white space; a
 *                   line ends              prompt's line end waits for what follows it
 *   those        -> symbols                by the kind, at the ends of words and lines
 *
 * The bytes kind goes straight from the first to the last.  What is held never grows with the text:
 * a word that is looked up is kept only as far as the longest symbol needs, a raw line is cut at
 * RAW_LINE bytes, and of a line's closing white space at most BLANK_RUNS runs are held.  Without
 * lookup a word is passed on whole, however long.
 */
#include "encoder.h"

#include "lib/base/buffer.h"
#include "lib/base/error.h"
#include "lib/session/model.h"
#include "moses.h"
#include "unicode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unictype.h>

enum {
    /* Characters gathered to be lower-cased together: a final sigma is told by what is among
     * them. */
    FOLDED_PIECE = 1 << 16,
    /* A raw line this long is cut at the next white space, or after twice as much without any. */
    RAW_LINE = 1 << 20,
    /* White space beyond this many runs of one character each is taken to be inside the line. */
    BLANK_RUNS = 1 << 16,
    /* What is kept of a word beyond recognition, for messages. */
    LEAST_WORD = 256,
    /* ASCII characters taken at once. */
    PLAIN_RUN = 4096,
    /* Code points of a symbol that a message shows. */
    QUOTED = 40,
};

struct place {
    uint64_t line, column; /* from 1; columns in code points, in the bytes kind in bytes */
};

/* The same white space character `count` times. */
struct blank_run {
    uint32_t code;
    uint64_t count;
};

/* What is known in the middle of a text. */
struct position {
    struct unicode_decoder utf8;
    bool begun;         /* a code point was seen, so that U+FEFF is one like any other */
    bool cr_held;       /* a CR that may belong to a LF */
    bool line_end_held; /* of a prompt: dropped if nothing follows */
    bool line_begun;    /* the line has code points (and lm1b's opening <S>) */
    bool in_text;       /* character kinds: white space is no longer leading */
    bool word_cut;      /* the word is longer than any symbol; its end is not kept */
    struct place here;  /* of the next code point */
    struct place word;  /* of the first of the word, or of the raw line's piece */
    struct place blank; /* of the first held blank */
};

struct txl_encoder {
    const struct vocabulary *vocabulary;
    txl_encoding how;
    txl_encoded counts;
    struct moses *moses; /* NULL: text that is split already */
    size_t word_limit;   /* bytes kept of a word */
    struct position at;
    struct buffer word; /* UTF-8; in raw mode the line */
    struct buffer lower;
    struct blank_run *blanks; /* BLANK_RUNS of them */
    size_t n_blanks;
};

/* ---- Passing symbols on ------------------------------------------------------------------- */

static txl_status emit(txl_encoder *encoder, const char *text, size_t length, int32_t id,
                       txl_error *error) {
    encoder->counts.symbols += id >= 0;
    const txl_symbol symbol = {.text = text, .length = length, .id = id};
    return encoder->how.symbol(encoder->how.context, &symbol, error);
}

static txl_status emit_line_end(txl_encoder *encoder, txl_error *error) {
    return emit(encoder, NULL, 0, -1, error);
}

/* Writes the beginning of a spelling so that it can stand in a message: at most QUOTED code points,
 * quotes, backslashes and what a terminal cannot show as in C. */
static void quote(const char *text, size_t length, char out[QUOTED * 10 + 4]) {
    const uint32_t unseen = UC_CATEGORY_MASK_C | UC_CATEGORY_MASK_Z;
    size_t n = 0;
    size_t bytes;
    for (size_t i = 0, shown = 0; i < length; i += bytes, shown++) {
        if (shown == QUOTED) {
            memcpy(out + n, "...", 3);
            n += 3;
            break;
        }
        bytes = length - i;
        uint32_t code = unicode_first(text + i, &bytes);
        if (code == '\n')
            n += (size_t)sprintf(out + n, "\\n");
        else if (code == '"' || code == '\\')
            n += (size_t)sprintf(out + n, "\\%c", (char)code);
        else if (code == ' ' || !uc_is_general_category_withtable(code, unseen))
            n += unicode_encode(code, out + n);
        else
            n += (size_t)sprintf(out + n, code < 0x80 ? "\\x%02x" : "\\U%08x", (unsigned)code);
    }
    out[n] = '\0';
}

/* Where a token of the raw line stands: where the line is first spelled so.  (An earlier occurrence
 * as a token would have been the error.) */
static struct place find_in_line(const txl_encoder *encoder, const char *text, size_t length) {
    struct place place = encoder->at.word;
    const char *found = memmem(encoder->word.data, encoder->word.length, text, length);
    for (const char *c = encoder->word.data; found && c < found; c++)
        place.column += ((unsigned char)*c & 0xc0) != 0x80;
    return place;
}

static txl_status fail_unknown(const txl_encoder *encoder, const char *text, size_t length,
                               const struct place *place, txl_error *error) {
    struct place found = place ? *place : find_in_line(encoder, text, length);
    char quoted[QUOTED * 10 + 4];
    quote(text, length, quoted);
    return txl_fail(error, TXL_TEXT,
                    "line %" PRIu64 ", column %" PRIu64
                    ": the symbol \"%s\" is not in the vocabulary, which has no <unk> for it; "
                    "--skip-unknown leaves such symbols out",
                    found.line, found.column, quoted);
}

/* Passes on a symbol that was looked up as `id`, or -1.  `place` NULL: it is in the raw line. */
static txl_status emit_found(txl_encoder *encoder, const char *text, size_t length, int32_t id,
                             const struct place *place, txl_error *error) {
    if (id < 0 && encoder->how.lookup) {
        id = encoder->vocabulary->unk;
        if (id < 0 && !encoder->how.skip_unknown)
            return fail_unknown(encoder, text, length, place, error);
        encoder->counts.unknown++;
        if (id < 0)
            return TXL_OK;
    }
    return emit(encoder, text, length, id, error);
}

/* Looks a symbol up and passes it on.  Not for the bytes kind. */
static txl_status emit_spelling(txl_encoder *encoder, const char *text, size_t length,
                                const struct place *place, txl_error *error) {
    int32_t id = -1;
    if (encoder->how.lookup)
        id = length == 1 ? encoder->vocabulary->byte_id[(unsigned char)text[0]]
                         : vocabulary_find(encoder->vocabulary, text, length);
    return emit_found(encoder, text, length, id, place, error);
}

/* lm1b's <S> before and after a line, or <eos> after it. */
static txl_status emit_boundary(txl_encoder *encoder, txl_error *error) {
    const char *text = encoder->vocabulary->kind == TXL_LM1B ? "<S>" : "<eos>";
    int32_t id = encoder->how.lookup ? encoder->vocabulary->eos : -1;
    return emit_found(encoder, text, strlen(text), id, &encoder->at.here, error);
}

/* ---- Words -------------------------------------------------------------------------------- */

/* In text8 a capital is no letter, though its published vocabularies are marked lower_case. */
static bool folds_case(const txl_encoder *encoder) {
    return encoder->vocabulary->lower_case && encoder->vocabulary->kind != TXL_TEXT8;
}

static txl_status fold(txl_encoder *encoder, const char **text, size_t *length, txl_error *error) {
    if (!folds_case(encoder))
        return TXL_OK;
    size_t room = UNICODE_LOWER_ROOM(*length);
    if (!buffer_reserve(&encoder->lower, room))
        return txl_fail_memory(error, "a word in lower case", room);
    *length = unicode_lower(*text, *length, encoder->lower.data);
    *text = encoder->lower.data;
    return TXL_OK;
}

/* Passes on each code point, the first being at `place`. */
static txl_status emit_characters(txl_encoder *encoder, const char *text, size_t length,
                                  struct place place, txl_error *error) {
    txl_status status = TXL_OK;
    bool text8 = encoder->vocabulary->kind == TXL_TEXT8;
    for (size_t i = 0; i < length && status == TXL_OK; place.column++) {
        size_t bytes = 1;
        if ((unsigned char)text[i] >= 0x80) {
            bytes = length - i;
            unicode_first(text + i, &bytes);
        }
        const char *spelling = text8 && text[i] == ' ' ? "_" : text + i;
        status = emit_spelling(encoder, spelling, bytes, &place, error);
        i += bytes;
    }
    return status;
}

static bool splits_words(const txl_encoder *encoder) {
    return encoder->vocabulary->kind == TXL_WORDS || encoder->vocabulary->kind == TXL_LM1B;
}

static txl_status end_word(txl_encoder *encoder, txl_error *error) {
    if (encoder->word.length == 0)
        return TXL_OK;
    const char *text = encoder->word.data;
    size_t length = encoder->word.length;
    txl_status status = fold(encoder, &text, &length, error);
    if (status != TXL_OK)
        return status;
    if (!splits_words(encoder))
        status = emit_characters(encoder, text, length, encoder->at.word, error);
    else if (encoder->at.word_cut)
        status = emit_found(encoder, text, length, -1, &encoder->at.word, error);
    else
        status = emit_spelling(encoder, text, length, &encoder->at.word, error);
    encoder->word.length = 0;
    encoder->at.word_cut = false;
    return status;
}

static txl_status append(txl_encoder *encoder, const char *bytes, size_t length, txl_error *error) {
    if (encoder->word.length == 0)
        encoder->at.word = encoder->at.here;
    if (!buffer_append(&encoder->word, bytes, length))
        return txl_fail_memory(error, "a word", encoder->word.length + length);
    return TXL_OK;
}

/* Adds to a word as much as can matter. */
static txl_status append_to_word(txl_encoder *encoder, const char *bytes, size_t length,
                                 txl_error *error) {
    if (encoder->at.word_cut)
        return TXL_OK;
    size_t room = encoder->word_limit - encoder->word.length;
    if (encoder->how.lookup && length > room) {
        encoder->at.word_cut = true;
        /* ASCII may be cut anywhere; a code point of several bytes comes alone. */
        length = (unsigned char)bytes[0] < 0x80 ? room : 0;
    }
    return append(encoder, bytes, length, error);
}

/* ---- Raw lines ---------------------------------------------------------------------------- */

static txl_status take_token(void *context, const char *text, size_t length, txl_error *error) {
    txl_encoder *encoder = context;
    txl_status status = fold(encoder, &text, &length, error);
    return status == TXL_OK ? emit_spelling(encoder, text, length, NULL, error) : status;
}

static txl_status end_raw_line(txl_encoder *encoder, txl_error *error) {
    if (encoder->word.length == 0)
        return TXL_OK;
    txl_status status = moses_tokenize(encoder->moses, encoder->word.data, encoder->word.length,
                                       take_token, encoder, error);
    encoder->word.length = 0;
    return status;
}

static txl_status append_to_raw_line(txl_encoder *encoder, const char *bytes, size_t length,
                                     bool space, txl_error *error) {
    txl_status status = append(encoder, bytes, length, error);
    if (status == TXL_OK && encoder->word.length >= RAW_LINE * (space ? (size_t)1 : 2))
        status = end_raw_line(encoder, error);
    return status;
}

/* ---- White space of the character kinds --------------------------------------------------- */

static txl_status emit_blank(txl_encoder *encoder, uint32_t code, txl_error *error) {
    bool text8 = encoder->vocabulary->kind == TXL_TEXT8;
    char utf8[4];
    size_t length = unicode_encode(text8 && code == ' ' ? '_' : code, utf8);
    struct place *place = &encoder->at.blank;
    txl_status status = emit_spelling(encoder, utf8, length, place, error);
    place->column++;
    if (code == '\n' && status == TXL_OK) {
        *place = (struct place){place->line + 1, 1};
        status = emit_line_end(encoder, error);
    }
    return status;
}

/* The held white space turns out to be inside the line. */
static txl_status release_blanks(txl_encoder *encoder, txl_error *error) {
    txl_status status = TXL_OK;
    for (size_t i = 0; i < encoder->n_blanks; i++)
        for (uint64_t n = encoder->blanks[i].count; n > 0 && status == TXL_OK; n--)
            status = emit_blank(encoder, encoder->blanks[i].code, error);
    encoder->n_blanks = 0;
    return status;
}

static txl_status hold_blank(txl_encoder *encoder, uint32_t code, txl_error *error) {
    size_t n = encoder->n_blanks;
    if (n > 0 && encoder->blanks[n - 1].code == code) {
        encoder->blanks[n - 1].count++;
        return TXL_OK;
    }
    txl_status status = n == BLANK_RUNS ? release_blanks(encoder, error) : TXL_OK;
    if (encoder->n_blanks == 0)
        encoder->at.blank = encoder->at.here;
    encoder->blanks[encoder->n_blanks++] = (struct blank_run){code, 1};
    return status;
}

/* ---- Letters, white space, line ends ------------------------------------------------------ */

static txl_status begin_line(txl_encoder *encoder, txl_error *error) {
    if (encoder->at.line_begun)
        return TXL_OK;
    encoder->at.line_begun = true;
    return encoder->vocabulary->kind == TXL_LM1B ? emit_boundary(encoder, error) : TXL_OK;
}

/* Characters inside a line: they are kept only where lower case needs to see more of them. */
static txl_status take_characters(txl_encoder *encoder, const char *utf8, size_t length,
                                  txl_error *error) {
    encoder->at.in_text = true;
    txl_status status = release_blanks(encoder, error);
    if (status != TXL_OK)
        return status;
    if (!folds_case(encoder))
        return emit_characters(encoder, utf8, length, encoder->at.here, error);
    if (encoder->word.length > FOLDED_PIECE - PLAIN_RUN)
        status = end_word(encoder, error);
    return status == TXL_OK ? append(encoder, utf8, length, error) : status;
}

/* Takes one code point that is not white space, or a plain run. */
static txl_status take_letters(txl_encoder *encoder, const char *utf8, size_t length, size_t n,
                               txl_error *error) {
    txl_status status = begin_line(encoder, error);
    if (status != TXL_OK)
        return status;
    if (encoder->moses)
        status = append_to_raw_line(encoder, utf8, length, false, error);
    else if (splits_words(encoder))
        status = append_to_word(encoder, utf8, length, error);
    else
        status = take_characters(encoder, utf8, length, error);
    encoder->at.here.column += n;
    return status;
}

static txl_status take_space(txl_encoder *encoder, uint32_t code, txl_error *error) {
    txl_status status = begin_line(encoder, error);
    if (status != TXL_OK)
        return status;
    if (encoder->moses) {
        char utf8[4];
        status = append_to_raw_line(encoder, utf8, unicode_encode(code, utf8), true, error);
    } else {
        status = end_word(encoder, error);
        if (status == TXL_OK && encoder->at.in_text)
            status = hold_blank(encoder, code, error);
    }
    encoder->at.here.column++;
    return status;
}

/* The symbols that are left of a line, without its boundary. */
static txl_status end_line_text(txl_encoder *encoder, txl_error *error) {
    txl_status status = begin_line(encoder, error);
    if (status != TXL_OK)
        return status;
    return encoder->moses ? end_raw_line(encoder, error) : end_word(encoder, error);
}

static txl_status end_line(txl_encoder *encoder, txl_error *error) {
    struct position *at = &encoder->at;
    txl_status status = end_line_text(encoder, error);
    if (status == TXL_OK && encoder->vocabulary->kind == TXL_TEXT8) {
        /* A line end inside the text is one of its characters. */
        if (at->in_text)
            status = hold_blank(encoder, '\n', error);
    } else if (status == TXL_OK) {
        encoder->n_blanks = 0;
        at->in_text = false;
        status = emit_boundary(encoder, error);
        if (status == TXL_OK)
            status = emit_line_end(encoder, error);
    }
    at->line_begun = false;
    at->here = (struct place){at->here.line + 1, 1};
    return status;
}

/* ---- Code points -------------------------------------------------------------------------- */

static txl_status take_content(txl_encoder *encoder, uint32_t code, txl_error *error) {
    if (encoder->at.line_end_held) {
        encoder->at.line_end_held = false;
        txl_status status = end_line(encoder, error);
        if (status != TXL_OK)
            return status;
    }
    if (unicode_is_space(code))
        return take_space(encoder, code, error);
    char utf8[4];
    return take_letters(encoder, utf8, unicode_encode(code, utf8), 1, error);
}

static txl_status take_line_end(txl_encoder *encoder, txl_error *error) {
    if (encoder->how.prompt && !encoder->at.line_end_held) {
        encoder->at.line_end_held = true;
        return TXL_OK;
    }
    return end_line(encoder, error);
}

/* A held CR turns out to stand alone. */
static txl_status release_cr(txl_encoder *encoder, txl_error *error) {
    if (!encoder->at.cr_held)
        return TXL_OK;
    encoder->at.cr_held = false;
    return take_content(encoder, '\r', error);
}

static txl_status take_code_point(txl_encoder *encoder, uint32_t code, txl_error *error) {
    bool first = !encoder->at.begun;
    encoder->at.begun = true;
    encoder->counts.characters++;
    if (first && code == UNICODE_BYTE_ORDER_MARK)
        return TXL_OK;
    if (code == '\n') {
        encoder->at.cr_held = false;
        return take_line_end(encoder, error);
    }
    txl_status status = release_cr(encoder, error);
    if (status != TXL_OK)
        return status;
    if (code == '\r') {
        encoder->at.cr_held = true;
        return TXL_OK;
    }
    return take_content(encoder, code, error);
}

/* How many ASCII characters come next that need no look at the stages in between: letters, and in
 * the character kinds spaces between them. */
static size_t plain_run(const txl_encoder *encoder, const char *text, size_t length) {
    const struct position *at = &encoder->at;
    if (!at->begun || at->cr_held || at->line_end_held || at->utf8.missing > 0 || text[0] == ' ')
        return 0;
    const char least = splits_words(encoder) ? '!' : ' ';
    size_t limit = length < PLAIN_RUN ? length : PLAIN_RUN;
    size_t n = 0;
    while (n < limit && text[n] >= least && text[n] < 0x7f)
        n++;
    while (n > 0 && text[n - 1] == ' ')
        n--;
    return n;
}

static txl_status feed_utf8(txl_encoder *encoder, const char *text, size_t length,
                            txl_error *error) {
    txl_status status = TXL_OK;
    for (size_t i = 0; i < length && status == TXL_OK;) {
        size_t run = plain_run(encoder, text + i, length - i);
        if (run > 0) {
            encoder->counts.characters += run;
            status = take_letters(encoder, text + i, run, run, error);
            i += run;
            continue;
        }
        uint32_t codes[2];
        size_t n = unicode_decode(&encoder->at.utf8, (unsigned char)text[i++], codes);
        for (size_t k = 0; k < n && status == TXL_OK; k++)
            status = take_code_point(encoder, codes[k], error);
    }
    return status;
}

/* ---- Bytes -------------------------------------------------------------------------------- */

static size_t spell_byte(unsigned char byte, char decimal[3]) {
    size_t n = 0;
    if (byte >= 100)
        decimal[n++] = (char)('0' + byte / 100);
    if (byte >= 10)
        decimal[n++] = (char)('0' + byte / 10 % 10);
    decimal[n++] = (char)('0' + byte % 10);
    return n;
}

static txl_status feed_bytes(txl_encoder *encoder, const char *text, size_t length,
                             txl_error *error) {
    txl_status status = TXL_OK;
    struct position *at = &encoder->at;
    encoder->counts.characters += length;
    for (size_t i = 0; i < length && status == TXL_OK; i++) {
        unsigned char byte = (unsigned char)text[i];
        at->line_begun = byte != '\n';
        if (byte == '\n') {
            status = emit_line_end(encoder, error);
            at->here = (struct place){at->here.line + 1, 1};
            continue;
        }
        char decimal[3];
        size_t n = spell_byte(byte, decimal);
        int32_t id = encoder->how.lookup ? encoder->vocabulary->byte_id[byte] : -1;
        status = emit_found(encoder, decimal, n, id, &at->here, error);
        at->here.column++;
    }
    return status;
}

/* ---- The text's end ----------------------------------------------------------------------- */

/* A prompt's last line stays open: the text goes on from there. */
static txl_status finish_prompt(txl_encoder *encoder, txl_error *error) {
    if (!encoder->at.line_begun && encoder->at.here.line == 1)
        return TXL_OK;
    txl_status status = end_line_text(encoder, error);
    return status == TXL_OK ? release_blanks(encoder, error) : status;
}

static txl_status finish_corpus(txl_encoder *encoder, txl_error *error) {
    const struct position *at = &encoder->at;
    txl_status status = at->line_begun ? end_line(encoder, error) : TXL_OK;
    /* text8's line ends at the text's end are stripped, so its last line has not ended yet. */
    if (status == TXL_OK && encoder->vocabulary->kind == TXL_TEXT8 && at->in_text)
        status = emit_line_end(encoder, error);
    return status;
}

static txl_status finish(txl_encoder *encoder, txl_error *error) {
    if (encoder->vocabulary->kind == TXL_BYTES)
        return encoder->at.line_begun && !encoder->how.prompt ? emit_line_end(encoder, error)
                                                              : TXL_OK;
    txl_status status = TXL_OK;
    if (unicode_decode_end(&encoder->at.utf8))
        status = take_code_point(encoder, UNICODE_REPLACEMENT, error);
    if (status == TXL_OK)
        status = release_cr(encoder, error);
    if (status != TXL_OK)
        return status;
    return encoder->how.prompt ? finish_prompt(encoder, error) : finish_corpus(encoder, error);
}

static void start_text(txl_encoder *encoder) {
    encoder->at = (struct position){.here = {1, 1}};
    encoder->word.length = 0;
    encoder->n_blanks = 0;
}

/* ---- The public functions ----------------------------------------------------------------- */

txl_status encoder_new(const struct vocabulary *vocabulary, const txl_encoding *encoding,
                       txl_encoder **encoder, txl_error *error) {
    txl_encoder *made = calloc(1, sizeof *made);
    if (!made)
        return txl_fail_memory(error, "the encoder", sizeof *made);
    made->vocabulary = vocabulary;
    made->how = *encoding;
    /* A word that is longer stays longer than any symbol in lower case too. */
    made->word_limit = UNICODE_LOWER_SHRINK * vocabulary->longest + LEAST_WORD;
    start_text(made);
    txl_status status = TXL_OK;
    if (vocabulary->kind == TXL_CHARACTERS || vocabulary->kind == TXL_TEXT8) {
        made->blanks = malloc(BLANK_RUNS * sizeof *made->blanks);
        if (!made->blanks)
            status = txl_fail_memory(error, "the encoder", BLANK_RUNS * sizeof *made->blanks);
    } else if (encoding->raw && vocabulary->kind != TXL_BYTES) {
        status = moses_new(&made->moses, error);
    }
    if (status != TXL_OK) {
        txl_encoder_free(made);
        return status;
    }
    *encoder = made;
    return TXL_OK;
}

txl_status txl_encoder_new(const txl_model *model, const txl_encoding *encoding,
                           txl_encoder **encoder, txl_error *error) {
    return encoder_new(model_vocabulary(model), encoding, encoder, error);
}

txl_status txl_encoder_feed(txl_encoder *encoder, const char *text, size_t length,
                            txl_error *error) {
    encoder->counts.bytes += length;
    return encoder->vocabulary->kind == TXL_BYTES ? feed_bytes(encoder, text, length, error)
                                                  : feed_utf8(encoder, text, length, error);
}

txl_status txl_encoder_finish(txl_encoder *encoder, txl_error *error) {
    txl_status status = finish(encoder, error);
    start_text(encoder);
    return status;
}

void txl_encoder_counts(const txl_encoder *encoder, txl_encoded *counts) {
    *counts = encoder->counts;
}

void txl_encoder_free(txl_encoder *encoder) {
    if (!encoder)
        return;
    moses_free(encoder->moses);
    buffer_free(&encoder->word);
    buffer_free(&encoder->lower);
    free(encoder->blanks);
    free(encoder);
}
