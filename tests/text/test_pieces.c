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

#include "lib/base/buffer.h"
#include "lib/text/decoder.h"
#include "lib/text/encoder.h"
#include "lib/text/piece_stream.h"
#include "lib/text/sentencepiece.h"

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
            assert_int_equal(piece_stream_add_ascii(stream, text + i, n, i, 1, NULL), TXL_OK);
            continue;
        }
        n = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
        const struct span span = {i, i + n, 1};
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

/* ---- The text of pieces ------------------------------------------------------------------- */

static void add_piece(txl_decoder *decoder, int32_t id, struct buffer *out) {
    const char *text;
    size_t length;
    assert_int_equal(txl_decoder_push(decoder, id, &text, &length, NULL), TXL_OK);
    assert_true(buffer_append(out, text, length));
}

static void test_novel_decoding(void **state) {
    (void)state;
    struct made *made = make_from_file("pieces/novels.model");
    struct buffer lines = read_file("pieces/vectors.jsonl"), out = {0};
    txl_decoder *decoder;
    assert_int_equal(decoder_new(&made->vocabulary, false, &decoder, NULL), TXL_OK);
    assert_true(buffer_append(&lines, "", 1));
    for (char *line = lines.data, *end; (end = strchr(line, '\n')); line = end + 1) {
        json_t *vector = json_loadb(line, (size_t)(end - line), 0, NULL), *id;
        const json_t *text = json_object_get(vector, "decoded");
        size_t i;
        out.length = 0;
        json_array_foreach(json_object_get(vector, "ids"), i, id)
            add_piece(decoder, (int32_t)json_integer_value(id), &out);
        add_piece(decoder, made->packed.eos, &out);
        assert_true(buffer_append(&out, "", 1));
        assert_int_equal(out.data[out.length - 2], '\n');
        out.data[out.length - 2] = '\0';
        assert_string_equal(out.data, json_string_value(text));
        json_decref(vector);
    }
    txl_decoder_free(decoder);
    buffer_free(&lines);
    buffer_free(&out);
    unmake(made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_xlnet_vectors),
        cmocka_unit_test(test_novel_vectors),
        cmocka_unit_test(test_novel_decoding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
