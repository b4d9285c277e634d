/* The pickle machine: every opcode that it knows, and malicious streams. */
#include "checkpoint_files.h"

#include <inttypes.h>

/* A string literal with its length: streams hold NULs. */
#define BYTES(literal) (const unsigned char *)(literal), sizeof(literal) - 1

/* ---- What a value looks like -------------------------------------------------------------- */

#define MAX_TEXT 4096

struct text {
    char at[MAX_TEXT];
    size_t length;
    int depth;
};

static void __attribute__((format(printf, 2, 3))) put(struct text *text, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text->at + text->length, MAX_TEXT - text->length, format, args);
    va_end(args);
    text->length += (size_t)n < MAX_TEXT - text->length ? (size_t)n : 0;
}

static void render(struct text *text, const struct pickle_value *value);

static void render_items(struct text *text, const char *open, const struct pickle_items *items,
                         const char *close) {
    put(text, "%s", open);
    for (size_t i = 0; i < items->count; i++) {
        put(text, "%s", i ? " " : "");
        render(text, items->at[i]);
    }
    put(text, "%s", close);
}

static void render_pairs(struct text *text, const struct pickle_pairs *pairs) {
    put(text, "{");
    for (size_t i = 0; i < pairs->count; i++) {
        put(text, "%s", i ? " " : "");
        render(text, pairs->at[i].key);
        put(text, ":");
        render(text, pairs->at[i].value);
    }
    put(text, "}");
}

static void render_object(struct text *text, const struct pickle_object *object) {
    put(text, "%s", object->class_name);
    const struct pickle_value *const parts[] = {object->args, object->state, object->items,
                                                object->pairs};
    for (size_t i = 0; i < 4; i++) {
        if (parts[i]) {
            put(text, "%c", "(!*="[i]);
            render(text, parts[i]);
        }
    }
}

static void render(struct text *text, const struct pickle_value *value) {
    if (++text->depth > 20) {
        put(text, "...");
    } else {
        switch (value->kind) {
        case PICKLE_NONE:
            put(text, "None");
            break;
        case PICKLE_BOOL:
            put(text, value->boolean ? "True" : "False");
            break;
        case PICKLE_INT:
            put(text, "%" PRId64, value->integer);
            break;
        case PICKLE_BIG_INT:
            put(text, "big%zu", value->string.length);
            break;
        case PICKLE_FLOAT:
            put(text, "%.17g", value->real);
            break;
        case PICKLE_STRING:
            put(text, "'%.*s'", (int)value->string.length, value->string.bytes);
            break;
        case PICKLE_LIST:
            render_items(text, "[", &value->items, "]");
            break;
        case PICKLE_TUPLE:
            render_items(text, "(", &value->items, ")");
            break;
        case PICKLE_SET:
            render_items(text, "set(", &value->items, ")");
            break;
        case PICKLE_DICT:
            render_pairs(text, &value->pairs);
            break;
        case PICKLE_OPAQUE:
            put(text, "unknown:");
            render_object(text, value->object);
            break;
        case PICKLE_OBJECT:
            render_object(text, value->object);
            break;
        case PICKLE_GLOBAL:
            put(text, "<%s>", value->name);
            break;
        case PICKLE_PERSISTENT:
            put(text, "@");
            render(text, value->id);
            break;
        }
    }
    text->depth--;
}

/* ---- What is understood ------------------------------------------------------------------- */

struct understood {
    const unsigned char *stream;
    size_t size;
    const char *text;
};

static void assert_all(const struct understood *streams, size_t n) {
    for (size_t i = 0; i < n; i++) {
        struct pickle *pickle;
        txl_error error;
        uint64_t end = 0;
        if (pickle_read(streams[i].stream, streams[i].size, 0, "stream", &pickle, &end, &error))
            fail_msg("%s: %s", streams[i].text, error.message);
        struct text text = {.length = 0};
        render(&text, pickle->root);
        assert_string_equal(text.at, streams[i].text);
        assert_int_equal(end, streams[i].size);
        pickle_free(pickle);
    }
}

#define ASSERT_ALL(streams) assert_all(streams, sizeof(streams) / sizeof *(streams))

TEST(test_numbers) {
    static const struct understood streams[] = {
        {BYTES("N."), "None"},
        {BYTES("\x80\x02\x88."), "True"},
        {BYTES("\x89."), "False"},
        {BYTES("I01\n."), "True"},
        {BYTES("I00\n."), "False"},
        {BYTES("I-7\n."), "-7"},
        {BYTES("L12L\n."), "12"},
        {BYTES("L9223372036854775808L\n."), "big19"},
        {BYTES("L"
               "1234567890123456789012345678901234567890123456789012345678901234567890L\n."),
         "big70"},
        {BYTES("I-9223372036854775808\n."), "-9223372036854775808"},
        {BYTES("K\xff."), "255"},
        {BYTES("M\x01\x02."), "513"},
        {BYTES("J\xfe\xff\xff\xff."), "-2"},
        {BYTES("\x8a\x00."), "0"},
        {BYTES("\x8a\x01\xff."), "-1"},
        {BYTES("\x8a\x08\0\0\0\0\0\0\0\x80."), "-9223372036854775808"},
        {BYTES("\x8a\x09\0\0\0\0\0\0\0\x80\0."), "big9"},
        {BYTES("\x8b\x02\0\0\0\x00\x80."), "-32768"},
        {BYTES("F2.5\n."), "2.5"},
        {BYTES("G\xc0\x04\0\0\0\0\0\0."), "-2.5"},
    };
    ASSERT_ALL(streams);
}

TEST(test_strings) {
    static const struct understood streams[] = {
        {BYTES("S'a\\n\\x41\\102\\'\\\\'\n."), "'a\nAB'\\'"},
        {BYTES("S\"it's\"\n."), "'it's'"},
        {BYTES("S''\n."), "''"},
        {BYTES("T\x02\0\0\0ab."), "'ab'"},
        {BYTES("U\x02\xc3\xa9."), "'\xc3\xa9'"},
        {BYTES("V\n."), "''"},
        {BYTES("Vcaf\xe9 \\u4e2d\\ud83d\\ude00\\U0001f600\\n\n."),
         "'caf\xc3\xa9 \xe4\xb8\xad\xf0\x9f\x98\x80\xf0\x9f\x98\x80\\n'"},
        {BYTES("X\x02\0\0\0ab."), "'ab'"},
        {BYTES("\x8c\x02\x61\x62."), "'ab'"},
        {BYTES("\x8d\x02\0\0\0\0\0\0\0ab."), "'ab'"},
        {BYTES("B\x02\0\0\0ab."), "'ab'"},
        {BYTES("C\x02\x61\x62."), "'ab'"},
        {BYTES("\x8e\x02\0\0\0\0\0\0\0ab."), "'ab'"},
        {BYTES("\x96\x02\0\0\0\0\0\0\0ab."), "'ab'"},
        {BYTES("Va\\ud83dz\\udc00\n."), "'a\xef\xbf\xbdz\xef\xbf\xbd'"},
        {BYTES("c_codecs\nencode\n(Va\xe9\nVlatin1\ntR."), "'a\xe9'"},
        {BYTES("c_codecs\nencode\n(Va\xe9\nVutf-8\ntR."), "'a\xc3\xa9'"},
    };
    ASSERT_ALL(streams);
}

TEST(test_containers) {
    static const struct understood streams[] = {
        {BYTES(")."), "()"},
        {BYTES("K\1\x85."), "(1)"},
        {BYTES("K\1K\2\x86."), "(1 2)"},
        {BYTES("K\1K\2K\3\x87."), "(1 2 3)"},
        {BYTES("(K\1K\2K\3K\4t."), "(1 2 3 4)"},
        {BYTES("(t."), "()"},
        {BYTES("]K\1a."), "[1]"},
        {BYTES("](K\1K\2K\3K\4K\5e."), "[1 2 3 4 5]"},
        {BYTES("(K\1K\2l."), "[1 2]"},
        {BYTES("}K\1K\2s."), "{1:2}"},
        {BYTES("}(K\1K\2K\3K\4u."), "{1:2 3:4}"},
        {BYTES("(K\1K\2d."), "{1:2}"},
        {BYTES("}U\1aq\0Ns}h\0K\1s\x86."), "({'a':None} {'a':1})"},
        {BYTES("}(U\1aNU\1bNU\2aaNK\1NJ\1\1\0\0Nu."),
         "{'a':None 'b':None 'aa':None 1:None 257:None}"},
        {BYTES("\x8f(K\1K\2\x90."), "set(1 2)"},
        {BYTES("(K\1K\2\x91."), "set(1 2)"},
        {BYTES("K\1K\2\x30."), "1"},
        {BYTES("K\1(0."), "1"},
        {BYTES("K\1(K\2K\3\x31."), "1"},
        {BYTES("K\1\x32\x86."), "(1 1)"},
        {BYTES("\x80\x04\x95\x02\0\0\0\0\0\0\0K\1."), "1"},
        {BYTES("]q\0h\0\x86."), "([] [])"},
        {BYTES("]p1\ng1\n\x86."), "([] [])"},
        {BYTES("]r\1\0\0\0j\1\0\0\0\x86."), "([] [])"},
        {BYTES("]\x94K\1\x94h\0h\1\x87\x86."), "([] (1 [] 1))"},
    };
    ASSERT_ALL(streams);
}

TEST(test_objects) {
    static const struct understood streams[] = {
        {BYTES("cos\nsystem\n."), "<os.system>"},
        {BYTES("\x8c\x02os\x8c\x06system\x93."), "<os.system>"},
        {BYTES("cm\nC\n)\x81."), "m.C(()"},
        {BYTES("cm\nC\n)\x81}Va\nK\1sb."), "m.C(()!{'a':1}"},
        {BYTES("cm\nC\n)}\x92."), "m.C(()"},
        {BYTES("(K\1im\nC\n."), "m.C((1)"},
        {BYTES("(cm\nC\nK\1o."), "m.C((1)"},
        {BYTES("cm\nC\n)\x81K\1a."), "m.C(()*[1]"},
        {BYTES("cm\nC\n)\x81K\1K\2s."), "m.C(()={1:2}"},
        {BYTES("ccopy_reg\n_reconstructor\n(cm\nC\nc__builtin__\nobject\nNtR}b."),
         "m.C((<m.C> <__builtin__.object> None)!{}"},
        {BYTES("ccollections\nOrderedDict\n)RVa\nK\1s."), "{'a':1}"},
        {BYTES("ccollections\nOrderedDict\n((lp0\n(lp1\nK\1aK\2aatR."), "{1:2}"},
        {BYTES("ccollections\nCounter\n(}VA\nK\1stR."), "{'A':1}"},
        {BYTES("ccollections\ndefaultdict\n(c__builtin__\nlist\ntRK\1K\2s."), "{1:2}"},
        {BYTES("c__builtin__\nset\n((lK\1atR."), "set(1)"},
        {BYTES("c__builtin__\nset\n)R."), "set()"},
        {BYTES("cbuiltins\nfrozenset\n((K\1ttR."), "set(1)"},
        {BYTES("ctorch\nSize\n((K\1K\2ttR."), "(1 2)"},
        {BYTES("ctorch\ndevice\n(Vcpu\ntR."), "torch.device(('cpu')"},
        {BYTES("ctorch._utils\n_rebuild_parameter\n(K\1\x89}tR."), "1"},
        {BYTES("ctorch.nn.parameter\nParameter\n(K\1\x89tR."), "1"},
        {BYTES("ctorch.nn.backends.thnn\n_get_thnn_function_backend\n)R."),
         "torch.nn.backends.thnn._get_thnn_function_backend(()"},
        {BYTES("ctorch._tensor\n_rebuild_from_type_v2\n(ctorch\nSize\ncm\nT\n(]t}tR."), "[]"},
        {BYTES("K\1Q."), "@1"},
        {BYTES("Pabc\n."), "@'abc'"},
        {BYTES("(Vmodule\ncm\nC\nVfile\nVsource\ntQ."), "<m.C>"},
        {BYTES("}K\1b."), "{}"},
    };
    ASSERT_ALL(streams);
}

/* ---- What is refused ---------------------------------------------------------------------- */

static void assert_refused(const unsigned char *stream, size_t size, txl_status status,
                           const char *message) {
    /* A copy of its own size: the address sanitizer sees every byte read beyond. */
    unsigned char *exact = malloc(size ? size : 1);
    assert_non_null(exact);
    memcpy(exact, stream, size);
    struct pickle *pickle;
    txl_error error = {0};
    if (pickle_read(exact, size, 0, "stream", &pickle, NULL, &error) != status)
        fail_msg("expected \"%s\", found \"%s\"", message, error.message);
    assert_null(pickle);
    assert_says(&error, message);
    free(exact);
}

TEST(test_refused) {
    static const struct {
        const unsigned char *stream;
        size_t size;
        txl_status status;
        const char *message;
    } streams[] = {
        {BYTES(""), TXL_FORMAT, "stream: offset 0: the pickle is cut short"},
        {BYTES("N"), TXL_FORMAT, "offset 1: the pickle is cut short"},
        {BYTES("."), TXL_FORMAT, "too few values"},
        {BYTES("(."), TXL_FORMAT, "too few values"},
        {BYTES("N(."), TXL_FORMAT, "too few values"},
        {BYTES("N(\x85."), TXL_FORMAT, "too few values"},
        {BYTES("t."), TXL_FORMAT, "needs a mark"},
        {BYTES("\x80\x06N."), TXL_UNSUPPORTED, "pickle protocol 6"},
        {BYTES("N\xff."), TXL_UNSUPPORTED, "offset 1: unknown pickle opcode 0xff"},
        {BYTES("\x82\x01."), TXL_UNSUPPORTED, "unknown pickle opcode 0x82"},
        {BYTES("\x97."), TXL_UNSUPPORTED, "unknown pickle opcode 0x97"},
        {BYTES("cposix\nsystem\n(Vid\ntR."), TXL_UNSUPPORTED, "calls posix.system"},
        {BYTES("c__builtin__\neval\n(V1\ntR."), TXL_UNSUPPORTED, "calls __builtin__.eval"},
        {BYTES("ctorch.storage\n_load_from_bytes_\n(V1\ntR."), TXL_UNSUPPORTED,
         "calls torch.storage._load_from_bytes_"},
        {BYTES("ctorch.storage\n_load_from_bytes\n(I1\ntR."), TXL_FORMAT,
         "calls torch.storage._load_from_bytes with an integer"},
        {BYTES("ctorch.storage\n_load_from_bytes\n(tR."), TXL_FORMAT,
         "calls torch.storage._load_from_bytes with"},
        {BYTES("ctorch._tensor\n_rebuild_from_type_v2\n(cos\nsystem\ncm\nT\n)}tR."),
         TXL_UNSUPPORTED, "calls os.system"},
        {BYTES("ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._tensor\n_rebuild_from_type_v2\ncm"
               "\nT\n)}tR."),
         TXL_FORMAT, "_rebuild_from_type_v2 with nothing"},
        {BYTES("ctorch._tensor\n_rebuild_from_type_v2\n(cm\nf\ncm\nT\nNtR."), TXL_FORMAT,
         "_rebuild_from_type_v2 with a class"},
        {BYTES("ccopy_reg\n_reconstructor\n(NNNtR."), TXL_FORMAT, "_reconstructor with None"},
        {BYTES("ccollections\nOrderedDict\n(K\1tR."), TXL_FORMAT, "with an integer"},
        {BYTES("ccollections\nOrderedDict\n((K\1ltR."), TXL_FORMAT, "with a list"},
        {BYTES("c__builtin__\nset\n(K\1tR."), TXL_FORMAT, "with an integer"},
        {BYTES("ctorch\nSize\n)R."), TXL_FORMAT, "with nothing"},
        {BYTES("c_codecs\nencode\n(V\\u4e2d\nVlatin1\ntR."), TXL_FORMAT,
         "latin1 with characters beyond it"},
        {BYTES("c_codecs\nencode\n(K\1tR."), TXL_FORMAT, "_codecs.encode with an integer"},
        {BYTES("c_codecs\nencode\n(Va\nVrot13\ntR."), TXL_UNSUPPORTED, "another encoding"},
        {BYTES("N)R."), TXL_FORMAT, "expected a function and a tuple"},
        {BYTES("cm\nC\nNR."), TXL_FORMAT, "expected a function and a tuple"},
        {BYTES("N)\x81."), TXL_FORMAT, "expected a class"},
        {BYTES("(o."), TXL_FORMAT, "expected a class above the mark"},
        {BYTES("NN\x93."), TXL_FORMAT, "a class is named by None and None"},
        {BYTES("\x8c\x01\0\x8c\x01x\x93."), TXL_FORMAT, "a class name holds a NUL"},
        {BYTES("cm\nC"), TXL_FORMAT, "expected a line feed"},
        {BYTES("Pabc."), TXL_FORMAT, "expected a line feed"},
        {BYTES("NNa."), TXL_FORMAT, "cannot add to None"},
        {BYTES("}Na."), TXL_FORMAT, "cannot add to a dict"},
        {BYTES("](K\1\x90."), TXL_FORMAT, "cannot add to a list"},
        {BYTES("]NNs."), TXL_FORMAT, "cannot add to a list"},
        {BYTES("}(NNNu."), TXL_FORMAT, "a key has no value"},
        {BYTES("(Nd."), TXL_FORMAT, "a key has no value"},
        {BYTES("h\0."), TXL_FORMAT, "nothing was stored as the memo's entry 0"},
        {BYTES("Nq\1h\0."), TXL_FORMAT, "nothing was stored as the memo's entry 0"},
        {BYTES("Nr\xff\xff\xff\xff."), TXL_FORMAT, "the memo's entry 4294967295 is beyond"},
        {BYTES("Np99999999999999999999999\n."), TXL_FORMAT, "is beyond"},
        {BYTES("Np-1\n."), TXL_FORMAT, "expected a decimal number"},
        {BYTES("q\0."), TXL_FORMAT, "too few values"},
        {BYTES("\x8b\xff\xff\xff\xffx."), TXL_FORMAT, "expected 4294967295 more bytes, 2 are left"},
        {BYTES("\x8d\xff\xff\xff\xff\xff\xff\xff\xffx."), TXL_FORMAT, "cut short"},
        {BYTES("X\xff\xff\xff\xffx."), TXL_FORMAT, "cut short"},
        {BYTES("\x95\xff\xff\xff\xff\xff\xff\xff\xffN."), TXL_FORMAT,
         "expected 18446744073709551615 more bytes"},
        {BYTES("I1x\n."), TXL_FORMAT, "expected a decimal number"},
        {BYTES("I\n."), TXL_FORMAT, "expected a decimal number"},
        {BYTES("Fx\n."), TXL_FORMAT, "expected a floating-point number"},
        {BYTES("F\n."), TXL_FORMAT, "expected a number"},
        {BYTES("Sabc\n."), TXL_FORMAT, "expected a string in quotes"},
        {BYTES("S'\n."), TXL_FORMAT, "expected a string in quotes"},
        {BYTES("S'\\x4'\n."), TXL_FORMAT, "unknown escape"},
        {BYTES("S'\\'\n."), TXL_FORMAT, "unknown escape"},
        {BYTES("V\\u12\n."), TXL_FORMAT, "bad \\u escape"},
        {BYTES("V\\U00110000\n."), TXL_FORMAT, "bad \\u escape"},
    };
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        assert_refused(streams[i].stream, streams[i].size, streams[i].status, streams[i].message);
}

/* A function and its arguments, a tuple, with which five bytes call it as often as one likes. */
static void assert_copies_are_bounded(const char *function, const void *arguments, size_t length) {
    enum { N_COPY = 1000, CALL = 5 };
    static unsigned char stream[2000 + CALL * N_COPY];
    size_t size = (size_t)sprintf((char *)stream, "%sq", function) + 1;
    assert_true(size + length < 1900);
    memcpy(stream + size, arguments, length);
    size += length;
    memcpy(stream + size, "q\1", 2);
    size += 2;
    for (int i = 0; i < N_COPY; i++, size += CALL)
        memcpy(stream + size, "h\0h\1R", CALL);
    stream[size++] = '.';
    assert_refused(stream, size, TXL_FORMAT, "expands to more than the stream holds");
}

/* Python would keep the last value of such a key. */
TEST(test_repeated_keys) {
    static const struct {
        const unsigned char *stream;
        size_t size;
        const char *message;
    } streams[] = {
        {BYTES("}(U\1aK\1U\1aK\2u."), "stream: a dict has the key \"a\" twice"},
        {BYTES("}U\1aNsU\1bNsX\1\0\0\0aNs."), "a dict has the key \"a\" twice"},
        {BYTES("}U\1aq\1Nsh\1Ns."), "a dict has the key \"a\" twice"},
        {BYTES("(K\1NJ\1\0\0\0Nd."), "a dict has the key 1 twice"},
        {BYTES("(I-7\nNI-7\nNd."), "a dict has the key -7 twice"},
        {BYTES("}}U\1aNs}(U\1bNU\1bNu\x87."), "a dict has the key \"b\" twice"},
        {BYTES("ccollections\nOrderedDict\n](](U\1aNe](U\1aNee\x85R."),
         "a dict has the key \"a\" twice"},
        {BYTES("ca\nB\n)\x81}(U\1wNU\1wNub."), "a dict has the key \"w\" twice"},
        {BYTES("}(U\105"
               "0123456789012345678901234567890123456789012345678901234567890123rest!N"
               "U\105"
               "0123456789012345678901234567890123456789012345678901234567890123rest!Nu."),
         "the key \"0123456789012345678901234567890123456789012345678901234567890123\"... twice"},
    };
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        assert_refused(streams[i].stream, streams[i].size, TXL_FORMAT, streams[i].message);
}

static void assert_read(const unsigned char *stream, size_t size) {
    struct pickle *pickle;
    txl_error error;
    if (pickle_read(stream, size, 0, "stream", &pickle, NULL, &error))
        fail_msg("%s", error.message);
    pickle_free(pickle);
}

/* Comparing each key with every other takes minutes. */
TEST(test_many_keys) {
    enum { N_KEY = 500000, ENTRY = 7 };
    unsigned char *stream = malloc(1 + ENTRY * (N_KEY + 1) + 1);
    assert_non_null(stream);
    size_t size = 0;
    stream[size++] = '}';
    for (uint32_t i = 0; i < N_KEY; i++, size += ENTRY) /* a string of three bytes, None */
        memcpy(stream + size, (unsigned char[]){'U', 3, i & 255, i >> 8 & 255, i >> 16, 'N', 's'},
               ENTRY);
    stream[size] = '.';
    assert_read(stream, size + 1);
    memcpy(stream + size, stream + 1, ENTRY);
    size += ENTRY;
    stream[size] = '.';
    assert_refused(stream, size + 1, TXL_FORMAT, "a dict has the key \"");
    free(stream);
}

/* So does comparing two long keys anew for each dict that has them. */
TEST(test_long_keys) {
    enum { LONG = 1 << 20, STRING = 5 + LONG + 3, N_DICT = 200000, DICT = 10 };
    unsigned char *stream = malloc(1 + 2 * STRING + DICT * N_DICT + 1);
    assert_non_null(stream);
    size_t size = 0;
    stream[size++] = ']';
    for (unsigned char i = 0; i < 2; i++, size += STRING) { /* put into the memo, and dropped */
        memcpy(stream + size, (unsigned char[]){'X', 0, 0, LONG >> 16, 0}, 5);
        memset(stream + size + 5, 'a', LONG - 1);
        memcpy(stream + size + 5 + LONG - 1, (unsigned char[]){i, 'q', i, '0'}, 4);
    }
    for (int i = 0; i < N_DICT; i++, size += DICT)
        memcpy(stream + size, "}(h\0Nh\1Nua", DICT);
    stream[size++] = '.';
    assert_read(stream, size);
    free(stream);
}

TEST(test_copies_are_bounded) {
    enum { N = 900 };
    unsigned char list[N + 4] = "](", pairs[N + 4] = "](", text[N + 14] = "X\x84\3\0\0";
    memset(list + 2, 'N', N);
    memcpy(list + 2 + N, "e\x85", 2);
    assert_copies_are_bounded("c__builtin__\nset\n", list, sizeof list);
    for (int i = 0; i < N; i += 3)
        memcpy(pairs + 2 + i, "NN\x86", 3);
    memcpy(pairs + 2 + N, "e\x85", 2);
    assert_copies_are_bounded("ccollections\nOrderedDict\n", pairs, sizeof pairs);
    memset(text + 5, 'a', N);
    memcpy(text + 5 + N, "\x8c\6latin1\x86", 9);
    assert_copies_are_bounded("c_codecs\nencode\n", text, sizeof text);
}

/* ---- Graphs ------------------------------------------------------------------------------- */

static txl_status open_stream(const void *stream, size_t size, txl_error *error) {
    struct checkpoint *checkpoint;
    txl_status status = checkpoint_open(write_file("stream.pkl", stream, size), &checkpoint, error);
    checkpoint_close(checkpoint);
    return status;
}

TEST(test_cycles) {
    txl_error error;
    assert_int_equal(open_stream(BYTES("\x80\2]q\0h\0a."), &error), TXL_OK);
    assert_int_equal(open_stream(BYTES("\x80\2}q\0Va\nh\0s."), &error), TXL_OK);
    assert_int_equal(open_stream(BYTES("\x80\2"
                                       "cm\nC\n)\x81q\0}Va\n]h\0asb."),
                                 &error),
                     TXL_OK);
}

/* Forty lists.  Each holds the one before it twice. */
TEST(test_shared_values) {
    unsigned char stream[512] = "\x80\2]q\0";
    size_t size = 5;
    for (unsigned char i = 0; i < 40; i++) {
        const unsigned char level[] = {']', '(', 'h', i, 'h', i, 'e', 'q', (unsigned char)(i + 1)};
        memcpy(stream + size, level, sizeof level);
        size += sizeof level;
    }
    stream[size++] = '.';
    txl_error error;
    assert_int_equal(open_stream(stream, size, &error), TXL_FORMAT);
    assert_says(&error, "refer to each other more often");
}

TEST(test_depth) {
    enum { DEPTH = 100000 };
    unsigned char *stream = malloc(2 * DEPTH + 2);
    assert_non_null(stream);
    stream[0] = 0x80;
    stream[1] = 2;
    memset(stream + 2, ']', DEPTH);
    memset(stream + 2 + DEPTH, 'a', DEPTH - 1);
    stream[2 * DEPTH + 1] = '.';
    txl_error error;
    assert_int_equal(open_stream(stream, 2 * DEPTH + 2, &error), TXL_UNSUPPORTED);
    assert_says(&error, "nested deeper than");
    free(stream);
}

/* Random opcodes: most streams end soon, some go far. */
TEST(test_random_streams) {
    static const char opcodes[] = "().012NI]}aetlduhqsbRQo\x81\x85\x86\x87\x8f\x90\x91\x94\x88KU";
    uint64_t random = 1;
    for (int i = 0; i < 50000; i++) {
        unsigned char stream[64];
        size_t size = 1 + next_random(&random) % sizeof stream;
        for (size_t k = 0; k < size; k++) {
            uint64_t draw = next_random(&random);
            stream[k] = draw % 8 == 0 ? (unsigned char)(draw >> 8 & 3)
                                      : (unsigned char)opcodes[(draw >> 8) % (sizeof opcodes - 1)];
        }
        struct pickle *pickle;
        txl_error error = {0};
        txl_status status = pickle_read(stream, size, 0, "stream", &pickle, NULL, &error);
        assert_true(!status || error.message[0]);
        if (!status) {
            struct text text = {.length = 0};
            render(&text, pickle->root);
        }
        pickle_free(pickle);
    }
}

int main(void) {
    return cmocka_run_group_tests_name("pickle", tests, make_scratch, remove_scratch);
}
