/* SentencePiece models: their files, the pieces of a text, the text of pieces. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "count.h"
#include "lib/base/buffer.h"
#include "lib/text/decoder.h"
#include "lib/text/encoder.h"
#include "lib/text/piece_stream.h"
#include "lib/text/sentencepiece.h"
#include "lib/text/unicode.h"
#include "lib/text/vocabulary.h"
#include "lib/text/xlnet_text.h"

/* ---- Models ------------------------------------------------------------------------------- */

static struct buffer read_file(const char *name) {
    char path[1024];
    const char *cases = getenv("TXL_TEST_CASES");
    snprintf(path, sizeof path, "%s/%s", cases ? cases : "tests/cases", name);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s: cannot be opened", path);
    struct buffer content = {0};
    char bytes[4096];
    size_t n;
    while ((n = fread(bytes, 1, sizeof bytes, file)) > 0)
        assert_true(buffer_append(&content, bytes, n));
    fclose(file);
    return content;
}

struct made {
    struct vocabulary vocabulary;
    struct packed_pieces packed;
};

static struct made *make(const void *model, size_t size) {
    struct made *made = malloc(sizeof *made);
    assert_non_null(made);
    txl_error error;
    if (sentencepiece_pack(model, size, TXL_PIECES, "made.model", &made->packed, &error) ||
        vocabulary_open(&made->vocabulary, made->packed.section, made->packed.size, made->packed.n,
                        TXL_PIECES, false, made->packed.unk, made->packed.eos, "made.txl", &error))
        fail_msg("%s", error.message);
    return made;
}

static struct made *make_from_file(const char *name) {
    struct buffer model = read_file(name);
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
    struct buffer lines = read_file(vectors);
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

static void test_xlnet_vectors(void **state) {
    (void)state;
    check_vectors("spm/spiece.model", "spm/vectors.jsonl", "spm", NULL);
}

static void test_novel_vectors(void **state) {
    (void)state;
    check_vectors("pieces/novels.model", "pieces/vectors.jsonl", "ids", "pieces");
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

static void test_ranges(void **state) {
    (void)state;
    struct made *made = make_from_file("pieces/novels.model");
    /* A mark before the line stands for nothing alone; each byte of a character for all of it. */
    assert_symbols(made, (txl_encoding){0}, "\xe2\x80\x9cyes\xe2\x80\x9d, \xe4\xb8\xad\r\n\n a",
                   "\xe2\x96\x81\"@1:0+3 y@1:3+1 es@1:4+2 \"@1:6+3 ,@1:9+1 \xe2\x96\x81@1:10+1 "
                   "<0xE4>@1:11+3 <0xB8>@1:11+3 <0xAD>@1:11+3 </s>@1:14+2 \n</s>@2:16+1 \n"
                   "\xe2\x96\x81@3:17+0 \xe2\x96\x81"
                   "a@3:17+2 </s>@3:19+0 \n");
    assert_symbols(made, (txl_encoding){.prompt = true, .goes_on = true}, "land\n", "land@1:0+4 ");
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
static void test_long_line(void **state) {
    (void)state;
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
    assert_int_equal(vocabulary_open(&vocabulary, section, size, packed->n, TXL_PIECES, false,
                                     packed->unk, packed->eos, "made.txl", &error),
                     TXL_FORMAT);
    assert_non_null(strstr(error.message, "made.txl: vocabulary: "));
    vocabulary_close(&vocabulary);
}

/* Offsets behind the spellings: flags 0, rules' size 8, scores 12, types behind them, then the
 * surface and the rules. */
static void test_damaged_sections(void **state) {
    (void)state;
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
    struct buffer lines = read_file("spm/vectors.jsonl");
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

static void test_xlnet_spelled(void **state) {
    (void)state;
    check_xlnet(XLNET_SPELLED, "ids", "pieces", 400);
}

static void test_xlnet_split(void **state) {
    (void)state;
    check_xlnet(XLNET_SPLIT, "hf_ids", NULL, 20);
}

static void test_xlnet_gaps(void **state) {
    (void)state;
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
    struct buffer lines = read_file(vectors), out = {0};
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
        assert_memory_equal(out.data + size, tail, strlen(tail));
        json_decref(vector);
    }
    assert_true(n >= least);
    txl_decoder_free(decoder);
    buffer_free(&lines);
    buffer_free(&out);
}

static void test_novel_decoding(void **state) {
    (void)state;
    struct made *made = make_from_file("pieces/novels.model");
    check_decoding(made, "pieces/vectors.jsonl", made->packed.eos, "\n", 300);
    unmake(made);
}

static void test_xlnet_decoding(void **state) {
    (void)state;
    struct made *made = make_from_file("spm/spiece.model");
    made->vocabulary.kind = TXL_XLNET;
    check_decoding(made, "spm/vectors.jsonl", -1, "", 450);
    unmake(made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_xlnet_vectors),  cmocka_unit_test(test_novel_vectors),
        cmocka_unit_test(test_xlnet_spelled),  cmocka_unit_test(test_xlnet_split),
        cmocka_unit_test(test_xlnet_gaps),     cmocka_unit_test(test_novel_decoding),
        cmocka_unit_test(test_xlnet_decoding), cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_long_line),      cmocka_unit_test(test_damaged_sections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
