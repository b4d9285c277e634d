/* SentencePiece models: their files, the pieces of a text, the text of pieces. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "count.h"
#include "lib/base/memory.h"
#include "lib/text/pieces.h"
#include "lib/text/sentencepiece.h"
#include "lib/text/tokenizer.h"
#include "lib/text/unicode.h"
#include "lib/text/vocabulary.h"
#include "tests/files.h"

/* ---- Models ------------------------------------------------------------------------------- */

static struct buffer read_case(const char *name) {
    char path[1024];
    const char *cases = getenv("TXL_TEST_CASES");
    struct buffer content = {0};
    snprintf(path, sizeof path, "%s/%s", cases ? cases : "tests/cases", name);
    content.data = read_file(path, &content.length);
    return content;
}

struct made {
    struct vocabulary vocabulary;
    struct packed_pieces packed;
};

static txl_status open_packed(struct vocabulary *vocabulary, const struct packed_pieces *packed,
                              txl_kind kind, bool lower_case, txl_error *error) {
    const struct vocabulary_settings settings = {packed->n, kind, lower_case, packed->unk,
                                                 packed->eos};
    return vocabulary_open(vocabulary, packed->section, packed->size, &settings, "made.txl", error);
}

static struct made *make(const void *model, size_t size) {
    struct made *made = malloc(sizeof *made);
    assert_non_null(made);
    txl_error error;
    if (sentencepiece_pack(model, size, TXL_PIECES, "made.model", &made->packed, &error) ||
        open_packed(&made->vocabulary, &made->packed, TXL_PIECES, false, &error))
        fail_msg("%s", error.message);
    return made;
}

static struct made *make_from_file(const char *name) {
    struct buffer model = read_case(name);
    assert_true(sentencepiece_recognise(model.data, model.length));
    struct made *made = make(model.data, model.length);
    buffer_free(&model);
    return made;
}

static void unmake(struct made *made) {
    vocabulary_close(&made->vocabulary);
    free(made->packed.section);
    free(made);
}

/* ---- The pieces of a text ----------------------------------------------------------------- */

struct cut {
    json_t *ids, *pieces;
    uint64_t begin, end; /* of the last piece's source */
    size_t length;       /* of the source */
};

/* Each piece stands for what is in the text, and neither end of it goes back. */
static txl_status take(void *context, const struct piece *piece, txl_error *error) {
    (void)error;
    struct cut *cut = context;
    json_array_append_new(cut->ids, json_integer(piece->id));
    json_array_append_new(cut->pieces, json_stringn(piece->text, piece->length));
    assert_true(piece->span.begin >= cut->begin && piece->span.end >= cut->end);
    assert_true(piece->span.end >= piece->span.begin && piece->span.end <= cut->length);
    if (piece->spans) {
        assert_int_equal(piece->spans[0].begin, piece->span.begin);
        assert_int_equal(piece->spans[piece->length - 1].end, piece->span.end);
    }
    cut->begin = piece->span.begin;
    cut->end = piece->span.end;
    return TXL_OK;
}

/* Adds the code points of a text one by one, or with the runs of ASCII whole. */
static void add_text(struct piece_stream *stream, const char *text, size_t length, bool runs) {
    for (size_t i = 0, n; i < length; i += n) {
        unsigned char first = (unsigned char)text[i];
        for (n = 0; runs && i + n < length && (unsigned char)text[i + n] < 0x80;)
            n++;
        if (n > 0) {
            assert_int_equal(piece_stream_add_ascii(stream, text + i, n,
                                                    &(struct span){i, i + 1, 1, i + 1, i, i + 1},
                                                    NULL),
                             TXL_OK);
            continue;
        }
        n = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
        const struct span span = {i, i + n, 1, i + 1, i, i + n};
        assert_int_equal(piece_stream_add(stream, text + i, n, &span, NULL), TXL_OK);
    }
}

static void cut_text(struct piece_stream *stream, const char *text, size_t length, bool runs,
                     struct cut *cut) {
    json_decref(cut->ids);
    json_decref(cut->pieces);
    *cut = (struct cut){.ids = json_array(), .pieces = json_array(), .length = length};
    add_text(stream, text, length, runs);
    assert_int_equal(piece_stream_finish(stream, NULL), TXL_OK);
}

static void assert_array(const char *text, const json_t *made, const json_t *expected) {
    if (json_equal(made, expected))
        return;
    char *a = json_dumps(made, JSON_COMPACT), *b = json_dumps(expected, JSON_COMPACT);
    print_error("%s\n%s\nexpected\n%s\n", text, a, b);
    free(a);
    free(b);
    fail();
}

/* All lines of vectors: `ids` names the field that holds the library's own ids, `pieces` the one
 * of its pieces or is NULL. */
static void check_vectors(const char *model, const char *vectors, const char *ids,
                          const char *pieces) {
    struct made *made = make_from_file(model);
    struct buffer lines = read_case(vectors);
    struct cut cut = {0};
    struct piece_stream *stream;
    assert_int_equal(piece_stream_new(made->vocabulary.pieces, take, &cut, &stream, NULL), TXL_OK);
    size_t n = 0;
    assert_true(buffer_append(&lines, "", 1));
    for (char *line = lines.data, *end; (end = strchr(line, '\n')); line = end + 1, n++) {
        json_t *vector = json_loadb(line, (size_t)(end - line), 0, NULL);
        assert_non_null(vector);
        const json_t *text = json_object_get(vector, "text");
        for (int runs = 0; runs < 2; runs++) {
            cut_text(stream, json_string_value(text), json_string_length(text), runs, &cut);
            assert_array(json_string_value(text), cut.ids, json_object_get(vector, ids));
            if (pieces)
                assert_array(json_string_value(text), cut.pieces, json_object_get(vector, pieces));
        }
        json_decref(vector);
    }
    assert_true(n > 300);
    json_decref(cut.ids);
    json_decref(cut.pieces);
    piece_stream_free(stream);
    buffer_free(&lines);
    unmake(made);
}

TEST(test_xlnet_vectors) {
    check_vectors("spm/spiece.model", "spm/vectors.jsonl", "spm", NULL);
}

TEST(test_novel_vectors) {
    check_vectors("pieces/novels.model", "pieces/vectors.jsonl", "ids", "pieces");
}

/* ---- Made models -------------------------------------------------------------------------- */

struct made_piece {
    const char *text;
    float score;
    char type; /* as the protobuf numbers them: 1 normal, 2 unknown, 3 control, 4 user-defined */
};

/* A message of fields of fewer than 128 bytes each; the normaliser's is empty but for its rules. */
static struct made *make_of(const struct made_piece *pieces, size_t n, const struct buffer *rules) {
    static const struct made_piece first[] = {{"<unk>", 0, 2}, {"</s>", 0, 3}};
    struct buffer model = {0};
    for (size_t i = 0; i < n + 2; i++) {
        const struct made_piece *piece = i < 2 ? &first[i] : &pieces[i - 2];
        char length = (char)strlen(piece->text);
        const char head[] = {0x0a, (char)(length + 9), 0x0a, length}, score = 0x15;
        const char type[] = {0x18, piece->type};
        assert_true(buffer_append(&model, head, sizeof head));
        assert_true(buffer_append(&model, piece->text, (size_t)length));
        assert_true(buffer_append(&model, &score, 1));
        assert_true(buffer_append(&model, &piece->score, sizeof piece->score));
        assert_true(buffer_append(&model, type, sizeof type));
    }
    /* No word mark before a text. */
    size_t size = 2 + (rules ? 4 + rules->length : 0);
    const char head[] = {0x1a, (char)(0x80 | (size & 0x7f)), (char)(size >> 7), 0x18, 0};
    assert_true(buffer_append(&model, head, sizeof head));
    if (rules) {
        const char inner[] = {0x12, (char)(0x80 | (rules->length & 0x7f)),
                              (char)(0x80 | (rules->length >> 7 & 0x7f)),
                              (char)(rules->length >> 14)};
        assert_true(buffer_append(&model, inner, sizeof inner));
        assert_true(buffer_append(&model, rules->data, rules->length));
    }
    struct made *made = make(model.data, model.length);
    buffer_free(&model);
    return made;
}

static void assert_cut(const struct made *made, const char *text, const char *expected) {
    struct cut cut = {0};
    struct piece_stream *stream;
    assert_int_equal(piece_stream_new(made->vocabulary.pieces, take, &cut, &stream, NULL), TXL_OK);
    cut_text(stream, text, strlen(text), false, &cut);
    json_t *pieces = json_loads(expected, 0, NULL);
    assert_array(text, cut.pieces, pieces);
    json_decref(pieces);
    json_decref(cut.ids);
    json_decref(cut.pieces);
    piece_stream_free(stream);
}

/* An unknown character scores 10 less than the worst piece: its neighbour's score decides from
 * where on it is worth that. */
TEST(test_unknown_penalty) {
    for (int more = 0; more < 2; more++) {
        const struct made_piece pieces[] = {{"xy", more ? 10.125F : 9.875F, 1}, {"xyz", -3, 1}};
        struct made *made = make_of(pieces, 2, NULL);
        assert_cut(made, "xyz", more ? "[\"xy\",\"z\"]" : "[\"xyz\"]");
        unmake(made);
    }
}

/* A user-defined piece scores, for each of its bytes, the best normal piece's score, or nothing if
 * that is negative, less 0.1. */
TEST(test_user_defined_score) {
    static const struct {
        float a, b, c;
        bool whole;
    } scores[] = {{1, 1, 0.9375F, false},
                  {1, 1, 0.875F, true},
                  {-0.03125F, -0.03125F, -0.03125F, false},
                  {-0.03125F, -0.03125F, -0.0625F, true}};
    for (size_t i = 0; i < sizeof scores / sizeof *scores; i++) {
        const struct made_piece pieces[] = {
            {"a", scores[i].a, 1}, {"b", scores[i].b, 1}, {"c", scores[i].c, 1}, {"abc", 7, 4}};
        struct made *made = make_of(pieces, 4, NULL);
        assert_cut(made, "abc", scores[i].whole ? "[\"abc\"]" : "[\"a\",\"b\",\"c\"]");
        unmake(made);
    }
}

/* Unknown characters that follow each other are one piece, of at most PIECES_EXACT bytes. */
TEST(test_most_unknown) {
    static const struct {
        const char *character;
        size_t n, most; /* bytes of the longest piece */
    } texts[] = {{"\xf0\x90\x90\x80", 20000, PIECES_EXACT},
                 {"\xe4\xb8\xad", 30000, PIECES_EXACT / 3 * 3}};
    const struct made_piece pieces[] = {{"a", -1, 1}};
    struct made *made = make_of(pieces, 1, NULL);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct cut cut = {0};
        struct buffer text = {0};
        struct piece_stream *stream;
        size_t width = strlen(texts[i].character);
        for (size_t k = 0; k < texts[i].n; k++)
            assert_true(buffer_append(&text, texts[i].character, width));
        assert_int_equal(piece_stream_new(made->vocabulary.pieces, take, &cut, &stream, NULL),
                         TXL_OK);
        cut_text(stream, text.data, text.length, false, &cut);
        assert_int_equal(json_array_size(cut.pieces), 2);
        assert_int_equal(json_string_length(json_array_get(cut.pieces, 0)), texts[i].most);
        assert_int_equal(json_string_length(json_array_get(cut.pieces, 1)),
                         text.length - texts[i].most);
        json_decref(cut.ids);
        json_decref(cut.pieces);
        piece_stream_free(stream);
        buffer_free(&text);
    }
    unmake(made);
}

/* Spaces at a text's end are dropped if they are at most PIECES_EXACT bytes. */
TEST(test_most_spaces) {
    const struct made_piece pieces[] = {{"a", -1, 1}, {"\xe2\x96\x81", -1, 1}};
    struct made *made = make_of(pieces, 2, NULL);
    struct buffer text = {0};
    assert_true(buffer_append(&text, "a", 1));
    for (size_t n = 1; n <= PIECES_EXACT / 3 + 1; n++) {
        assert_true(buffer_append(&text, "\xe2\x96\x81", 3));
        if (n < PIECES_EXACT / 3)
            continue;
        struct cut cut = {0};
        struct piece_stream *stream;
        assert_int_equal(piece_stream_new(made->vocabulary.pieces, take, &cut, &stream, NULL),
                         TXL_OK);
        cut_text(stream, text.data, text.length, false, &cut);
        assert_int_equal(json_array_size(cut.pieces), 3 * n <= PIECES_EXACT ? 1 : n + 1);
        json_decref(cut.ids);
        json_decref(cut.pieces);
        piece_stream_free(stream);
    }
    buffer_free(&text);
    unmake(made);
}

/* Rules that make 32 bytes, "abab...", of each x: a double array of one key. */
static struct buffer make_rules(void) {
    enum { UNITS = 512, STATE = 256 };
    uint32_t units[UNITS + 1] = {[0] = UNITS * 4};
    for (uint32_t i = 1; i < UNITS; i++)
        units[1 + i] = (i ^ 0x55) & 0xff; /* a label that leads nowhere */
    units[1] = STATE << 10;
    units[1 + (STATE ^ 'x')] = 1U << 10 | 1U << 8 | 'x';
    units[1 + (STATE ^ 'x' ^ 1)] = 1U << 31;
    struct buffer rules = {0};
    assert_true(buffer_append(&rules, units, sizeof units));
    for (int i = 0; i < 16; i++)
        assert_true(buffer_append(&rules, "ab", 2));
    assert_true(buffer_append(&rules, "", 1));
    return rules;
}

/* Of n characters, x or "abab...", and an "a" behind them, the number of pieces "ab" before the
 * first other one. */
static size_t count_ab(const struct made *made, bool x, size_t n) {
    struct cut cut = {0};
    struct buffer text = {0};
    struct piece_stream *stream;
    for (size_t i = 0; i < n; i++)
        assert_true(buffer_append(&text, x ? "x" : &"ab"[i % 2], 1));
    assert_true(buffer_append(&text, "a", 1));
    assert_int_equal(piece_stream_new(made->vocabulary.pieces, take, &cut, &stream, NULL), TXL_OK);
    cut_text(stream, text.data, text.length, false, &cut);
    size_t ab = 0;
    while (strcmp(json_string_value(json_array_get(cut.pieces, ab)), "ab") == 0)
        ab++;
    assert_string_equal(json_string_value(json_array_get(cut.pieces, ab)), "a");
    assert_int_equal(json_array_size(cut.pieces), (x ? 16 * n : n / 2) + 1);
    json_decref(cut.ids);
    json_decref(cut.pieces);
    piece_stream_free(stream);
    buffer_free(&text);
    return ab;
}

/* "abab...a" is best cut into a ba ba, but as far as every b into ab ab: the ways agree on no
 * place. So it is cut after PIECES_EXACT bytes of the source; where rules make many bytes of one,
 * after four times as many bytes. */
TEST(test_most_uncut) {
    const struct made_piece pieces[] = {
        {"a", -10, 1}, {"b", -10, 1}, {"ab", -0x1p-10F, 1}, {"ba", -0x1p-10F + 0x1p-14F, 1}};
    struct buffer rules = make_rules();
    struct made *made = make_of(pieces, 4, &rules);
    assert_int_equal(count_ab(made, false, PIECES_EXACT - 2), 0);
    assert_int_equal(count_ab(made, false, PIECES_EXACT), PIECES_EXACT / 2);
    assert_int_equal(count_ab(made, true, 4 * PIECES_EXACT / 32 - 1), 0);
    assert_int_equal(count_ab(made, true, 4 * PIECES_EXACT / 32), 4 * PIECES_EXACT / 2);
    buffer_free(&rules);
    unmake(made);
}

/* ---- What symbols stand for --------------------------------------------------------------- */

struct recorded {
    struct buffer symbols; /* spelling@line:offset+bytes of each, \n for a line end */
    size_t n;
    const char *text; /* NULL: its characters are not counted */
    struct counted counted;
};

static txl_status record(void *context, const txl_symbol *symbol, txl_error *error) {
    (void)error;
    struct recorded *recorded = context;
    char range[80] = "\n";
    if (symbol->text)
        snprintf(range, sizeof range, "@%" PRIu64 ":%" PRIu64 "+%" PRIu64 " ", symbol->line,
                 symbol->offset, symbol->bytes);
    recorded->n++;
    if (symbol->text && recorded->text)
        assert_int_equal(symbol->characters, count_to(&recorded->counted, recorded->text,
                                                      symbol->offset + symbol->bytes));
    assert_true(
        buffer_append(&recorded->symbols, symbol->text ? symbol->text : "", symbol->length));
    assert_true(buffer_append(&recorded->symbols, range, strlen(range)));
    return TXL_OK;
}

/* However the text is cut. */
static void assert_symbols(const struct made *made, txl_encoding how, const char *text,
                           const char *expected) {
    struct recorded recorded = {0};
    txl_encoder *encoder;
    how.symbol = record;
    how.context = &recorded;
    assert_int_equal(encoder_new(&made->vocabulary, &how, &encoder, NULL), TXL_OK);
    size_t length = strlen(text);
    for (size_t first = 0; first <= length; first++) {
        recorded.symbols.length = 0;
        recorded.text = text;
        recorded.counted = (struct counted){0};
        assert_int_equal(txl_encoder_feed(encoder, text, first, NULL), TXL_OK);
        assert_int_equal(txl_encoder_feed(encoder, text + first, length - first, NULL), TXL_OK);
        assert_int_equal(txl_encoder_finish(encoder, NULL), TXL_OK);
        assert_true(buffer_append(&recorded.symbols, "", 1));
        assert_string_equal(recorded.symbols.data, expected);
    }
    txl_encoder_free(encoder);
    buffer_free(&recorded.symbols);
}

TEST(test_ranges) {
    struct made *made = make_from_file("pieces/novels.model");
    /* A mark before the line stands for nothing alone; each byte of a character for all of it. */
    assert_symbols(made, (txl_encoding){0}, "\xe2\x80\x9cyes\xe2\x80\x9d, \xe4\xb8\xad\r\n\n a",
                   "\xe2\x96\x81\"@1:0+3 y@1:3+1 es@1:4+2 \"@1:6+3 ,@1:9+1 \xe2\x96\x81@1:10+1 "
                   "<0xE4>@1:11+3 <0xB8>@1:11+3 <0xAD>@1:11+3 </s>@1:14+2 \n</s>@2:16+1 \n"
                   "\xe2\x96\x81@3:17+0 \xe2\x96\x81"
                   "a@3:17+2 </s>@3:19+0 \n");
    assert_symbols(made, (txl_encoding){.prompt = true, .continues = true}, "land\n",
                   "land@1:0+4 ");
    unmake(made);
    made = make_from_file("spm/spiece.model");
    made->vocabulary.kind = TXL_XLNET;
    assert_symbols(made, (txl_encoding){0},
                   " A\xc2\xad  be\xcc\x81 \r\n\nin 2010, ``c'' is <mask>. <mask> "
                   "\xe4\xb8\xad\xe6\x96\x87\xe2\x80\xa6 ",
                   "\xe2\x96\x81"
                   "A@1:0+2 \xc2\xad@1:2+2 \xe2\x96\x81"
                   "be@1:4+6 \xe2\x96\x81in@1:10+6 "
                   "\xe2\x96\x81"
                   "2010@3:16+5 ,@3:21+1 \xe2\x96\x81@3:22+1 \"@3:23+2 c@3:25+1 \"@3:26+2 "
                   "\xe2\x96\x81is@3:28+4 <mask>@3:32+6 .@3:38+2 <mask>@3:40+6 \xe2\x96\x81@3:46+1 "
                   "\xe4\xb8\xad\xe6\x96\x87@3:47+6 .@3:53+3 .@3:53+3 .@3:53+4 \n");
    unmake(made);
}

/* A line of one letter takes no more memory than a short one, and no more time for each byte. */
TEST(test_long_line) {
    static const char *const pieces[] = {"a", "ab", "\xe2\x96\x81", "\xe4\xb8\xad", "the "};
    struct made *made = make_from_file("pieces/novels.model");
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        struct recorded recorded = {0};
        const txl_encoding how = {.symbol = record, .context = &recorded};
        txl_encoder *encoder;
        assert_int_equal(encoder_new(&made->vocabulary, &how, &encoder, NULL), TXL_OK);
        for (size_t n = 0; n < 300000; n++) {
            recorded.symbols.length = 0;
            assert_int_equal(txl_encoder_feed(encoder, pieces[i], strlen(pieces[i]), NULL), TXL_OK);
        }
        /* Nearly all of it was passed on. */
        assert_true(recorded.n > 30000);
        recorded.n = 0;
        assert_int_equal(txl_encoder_finish(encoder, NULL), TXL_OK);
        assert_true(recorded.n < 70000);
        txl_encoder_free(encoder);
        buffer_free(&recorded.symbols);
    }
    unmake(made);
}

/* ---- Damage ------------------------------------------------------------------------------- */

static void assert_refused(const void *section, size_t size, const struct packed_pieces *packed) {
    struct vocabulary vocabulary;
    txl_error error = {0};
    struct packed_pieces altered = *packed;
    altered.section = (void *)section;
    altered.size = size;
    assert_int_equal(open_packed(&vocabulary, &altered, TXL_PIECES, false, &error), TXL_FORMAT);
    assert_non_null(strstr(error.message, "made.txl: vocabulary: "));
    vocabulary_close(&vocabulary);
}

/* Offsets behind the spellings: flags 0, rules' size 8, scores 12, types behind them, then the
 * surface and the rules. */
TEST(test_damaged_sections) {
    struct made *made = make_from_file("pieces/small.model");
    const struct packed_pieces *packed = &made->packed;
    size_t n = (size_t)packed->n, tail = 4 + 4 * n;
    const unsigned char *ends = (const unsigned char *)packed->section + tail - 4;
    tail += ends[0] | ends[1] << 8 | ends[2] << 16;
    tail = (tail + 3) & ~(size_t)3;
    unsigned char *section = malloc(packed->size);
    assert_non_null(section);
    const size_t rules = tail + 12 + 5 * n + strlen(" \xe2\x81\x87 ");
    const struct {
        size_t at;
        unsigned char byte;
    } damage[] = {
        {tail + 4, 7},                   /* a surface of another size */
        {tail + 8, 7},                   /* rules of another size */
        {tail + 12 + 4 * 300 + 3, 0x7f}, /* a score that is infinite or none */
        {tail + 12 + 4 * n + 300, 0},    /* an unknown type */
        {tail + 12 + 4 * n + 300, 2},    /* a second unknown piece */
        {tail + 12 + 4 * n + 300, 6},    /* a byte piece that is spelled otherwise */
        {tail + 12 + 4 * n, 1},          /* no unknown piece */
        {tail + 12 + 4 * n + 1, 1},      /* a line end that is no control piece */
        {tail + 12 + 4 * n + 2, 1},      /* a byte without a piece */
        {rules, 3},                      /* a trie of no whole number of units */
        {rules + 3, 1},                  /* a trie larger than the rules */
        {packed->size - 1, 'x'},         /* a string without an end */
        {packed->size - 2, 0xff},        /* one that is not UTF-8 */
        {4 + 4 * n + 40, 0},             /* a piece with a NUL */
    };
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        memcpy(section, packed->section, packed->size);
        if (i == 2)
            section[damage[i].at - 1] |= 0x80;
        section[damage[i].at] = damage[i].byte;
        assert_refused(section, packed->size, packed);
    }
    for (size_t size = tail - 4; size < packed->size; size += 1 + size % 97) {
        memcpy(section, packed->section, size);
        assert_refused(section, size, packed);
    }
    free(section);
    unmake(made);
}

TEST(test_lower_case_is_refused) {
    struct made *made = make_from_file("pieces/small.model");
    const struct packed_pieces *packed = &made->packed;
    for (txl_kind kind = TXL_PIECES; kind <= TXL_XLNET; kind++) {
        struct vocabulary vocabulary;
        txl_error error = {0};
        assert_int_equal(open_packed(&vocabulary, packed, kind, true, &error), TXL_UNSUPPORTED);
        assert_non_null(strstr(error.message, "made.txl: lower_case is true; "));
        vocabulary_close(&vocabulary);
    }
    unmake(made);
}

/* ---- XLNet's steps ------------------------------------------------------------------------ */

static void cut_for_xlnet(struct xlnet_stream *stream, const char *text, size_t length,
                          struct cut *cut) {
    json_decref(cut->ids);
    json_decref(cut->pieces);
    *cut = (struct cut){.ids = json_array(), .pieces = json_array(), .length = length};
    for (size_t i = 0, n; i < length; i += n) {
        n = length - i;
        uint32_t code = unicode_first(text + i, &n);
        const struct span span = {i, i + n, 1, i + 1, i, i + n};
        assert_int_equal(xlnet_stream_add(stream, code, &span, NULL), TXL_OK);
    }
    assert_int_equal(xlnet_stream_finish(stream, NULL), TXL_OK);
}

/* Field `ids` of all vectors that have it, and `pieces` unless NULL. */
static void check_xlnet(enum xlnet_names names, const char *ids, const char *pieces, size_t least) {
    struct made *made = make_from_file("spm/spiece.model");
    struct buffer lines = read_case("spm/vectors.jsonl");
    struct cut cut = {0};
    struct xlnet_stream *stream;
    assert_int_equal(xlnet_stream_new(&made->vocabulary, names, take, &cut, &stream, NULL), TXL_OK);
    xlnet_stream_start(stream, false);
    size_t n = 0;
    assert_true(buffer_append(&lines, "", 1));
    for (char *line = lines.data, *end; (end = strchr(line, '\n')); line = end + 1) {
        json_t *vector = json_loadb(line, (size_t)(end - line), 0, NULL);
        const json_t *text = json_object_get(vector, "text");
        const json_t *expected = json_object_get(vector, ids);
        if (expected) {
            n++;
            cut_for_xlnet(stream, json_string_value(text), json_string_length(text), &cut);
            assert_array(json_string_value(text), cut.ids, expected);
            if (pieces)
                assert_array(json_string_value(text), cut.pieces, json_object_get(vector, pieces));
        }
        json_decref(vector);
    }
    assert_true(n >= least);
    json_decref(cut.ids);
    json_decref(cut.pieces);
    xlnet_stream_free(stream);
    buffer_free(&lines);
    unmake(made);
}

TEST(test_xlnet_spelled) {
    check_xlnet(XLNET_SPELLED, "ids", "pieces", 400);
}

TEST(test_xlnet_split) {
    check_xlnet(XLNET_SPLIT, "hf_ids", NULL, 20);
}

TEST(test_xlnet_gaps) {
    check_xlnet(XLNET_GAPS, "gap_ids", NULL, 20);
}

/* ---- The text of pieces ------------------------------------------------------------------- */

static void add_piece(txl_decoder *decoder, int32_t id, struct buffer *out) {
    const char *text;
    size_t length;
    assert_int_equal(txl_decoder_push(decoder, id, &text, &length, NULL), TXL_OK);
    assert_true(buffer_append(out, text, length));
}

/* The text of all vectors' `ids`, and of `end` behind them unless it is negative, is `decoded` and
 * `tail`. */
static void check_decoding(const struct made *made, const char *vectors, int32_t end,
                           const char *tail, size_t least) {
    struct buffer lines = read_case(vectors), out = {0};
    txl_decoder *decoder;
    const char *text;
    size_t n = 0, length;
    assert_int_equal(decoder_new(&made->vocabulary, false, &decoder, NULL), TXL_OK);
    assert_true(buffer_append(&lines, "", 1));
    for (char *line = lines.data, *stop; (stop = strchr(line, '\n')); line = stop + 1, n++) {
        json_t *vector = json_loadb(line, (size_t)(stop - line), 0, NULL), *id;
        const json_t *decoded = json_object_get(vector, "decoded");
        size_t i, size = json_string_length(decoded);
        out.length = 0;
        json_array_foreach(json_object_get(vector, "ids"), i, id)
            add_piece(decoder, (int32_t)json_integer_value(id), &out);
        if (end >= 0)
            add_piece(decoder, end, &out);
        assert_int_equal(txl_decoder_finish(decoder, &text, &length, NULL), TXL_OK);
        assert_true(buffer_append(&out, text, length));
        assert_int_equal(out.length, size + strlen(tail));
        assert_memory_equal(out.data, json_string_value(decoded), size);
        if (*tail)
            assert_memory_equal(out.data + size, tail, strlen(tail));
        json_decref(vector);
    }
    assert_true(n >= least);
    txl_decoder_free(decoder);
    buffer_free(&lines);
    buffer_free(&out);
}

TEST(test_novel_decoding) {
    struct made *made = make_from_file("pieces/novels.model");
    check_decoding(made, "pieces/vectors.jsonl", made->packed.eos, "\n", 300);
    unmake(made);
}

TEST(test_xlnet_decoding) {
    struct made *made = make_from_file("spm/spiece.model");
    made->vocabulary.kind = TXL_XLNET;
    check_decoding(made, "spm/vectors.jsonl", -1, "", 450);
    unmake(made);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
