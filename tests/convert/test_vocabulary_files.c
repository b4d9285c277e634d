/* Vocabularies: every container that publishers use, and what is refused. */
#include "checkpoint_files.h"

#include "convert/vocabulary_file.h"

static void assert_reads(const char *path, struct vocabulary_file *vocabulary) {
    txl_error error;
    if (vocabulary_file_read(path, vocabulary, &error))
        fail_msg("%s", error.message);
}

static void assert_refuses(const char *path, txl_status status, const char *text) {
    struct vocabulary_file vocabulary;
    txl_error error;
    assert_int_equal(vocabulary_file_read(path, &vocabulary, &error), status);
    assert_says(&error, text);
    assert_null(vocabulary.symbols);
}

static void assert_symbol(const struct vocabulary_file *vocabulary, size_t id, const char *symbol) {
    assert_in_range(id, 0, vocabulary->n_symbol - 1);
    assert_int_equal(vocabulary->symbols[id].length, strlen(symbol));
    assert_memory_equal(vocabulary->symbols[id].text, symbol, strlen(symbol));
}

/* The file has these symbols alone; they end with NULL. */
static void assert_has_symbols(const char *path, const char *const *symbols) {
    struct vocabulary_file vocabulary;
    size_t n = 0;
    assert_reads(path, &vocabulary);
    for (; symbols[n]; n++)
        assert_symbol(&vocabulary, n, symbols[n]);
    assert_int_equal(vocabulary.n_symbol, n);
    vocabulary_file_free(&vocabulary);
}
#define ASSERT_HAS_SYMBOLS(path, ...)                                                              \
    assert_has_symbols(path, (const char *const[]){__VA_ARGS__, NULL})

/* Compares with the lines of vocabularies/symbols.txt. */
static void assert_is_made_vocabulary(const struct vocabulary_file *vocabulary) {
    size_t size, n = 0;
    char *text = (char *)read_file(case_path("vocabularies/symbols.txt"), &size);
    text[size] = '\0';
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line; n++)
        assert_symbol(vocabulary, n, line);
    assert_int_equal(vocabulary->n_symbol, n);
    free(text);
}

TEST(test_every_container) {
    static const struct {
        const char *file;
        bool states_settings;
        const char *dataset;
    } files[] = {
        {"cache-legacy.pt", true, "wt103"},  {"cache-python2.pkl", true, "wt103"},
        {"cache-zip.pt", true, "wt103"},     {"vocab-legacy.bin", true, NULL},
        {"vocab-protocol0.pkl", true, NULL}, {"vocab-protocol2.pkl", true, NULL},
        {"vocab-protocol4.pkl", true, NULL}, {"vocab-zip.bin", true, NULL},
        {"vocab.json", false, NULL},         {"vocab.txt", false, NULL},
        {"symbols.txt", false, NULL},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = case_file("vocabularies", files[i].file);
        struct vocabulary_file vocabulary;
        assert_reads(path, &vocabulary);
        assert_string_equal(vocabulary.map.path, path);
        assert_is_made_vocabulary(&vocabulary);
        assert_int_equal(vocabulary.unk, files[i].states_settings ? 22 : -1);
        assert_false(vocabulary.lower_case);
        assert_false(vocabulary.characters);
        if (files[i].dataset)
            assert_string_equal(vocabulary.dataset, files[i].dataset);
        else
            assert_null(vocabulary.dataset);
        vocabulary_file_free(&vocabulary);
    }
}

TEST(test_settings_of_the_kinds) {
    struct vocabulary_file vocabulary;
    assert_reads(case_path("characters/cache.pt"), &vocabulary);
    assert_true(vocabulary.characters);
    assert_false(vocabulary.lower_case);
    assert_int_equal(vocabulary.unk, 1);
    assert_symbol(&vocabulary, 0, "<eos>");
    vocabulary_file_free(&vocabulary);

    assert_reads(case_path("enwik8-legacy/cache.pt"), &vocabulary);
    assert_true(vocabulary.lower_case);
    assert_false(vocabulary.characters);
    assert_int_equal(vocabulary.unk, -1);
    assert_string_equal(vocabulary.dataset, "enwik8");
    vocabulary_file_free(&vocabulary);
}

/* The content decides, not the name. */
TEST(test_misleading_names) {
    static const char *const named[][2] = {{"vocab-protocol0.pkl", "vocab.txt"},
                                           {"cache-zip.pt", "vocab.pkl"}};
    for (size_t i = 0; i < 2; i++) {
        size_t size;
        unsigned char *data = read_file(case_file("vocabularies", named[i][0]), &size);
        struct vocabulary_file vocabulary;
        assert_reads(write_file(named[i][1], data, size), &vocabulary);
        assert_is_made_vocabulary(&vocabulary);
        vocabulary_file_free(&vocabulary);
        free(data);
    }
}

TEST(test_text) {
    /* A byte order mark, CR LF, a no-break space as white space, a count behind, a repeated
     * symbol, the last line unterminated. */
    static const char text[] = "\xef\xbb\xbf{\r\n  the 12\n\xc2\xa0of\xe3\x80\x80x\nthe\n\"in";
    ASSERT_HAS_SYMBOLS(write_file("symbols", text, sizeof text - 1), "{", "the", "of", "\"in");
    ASSERT_HAS_SYMBOLS(write_file("blank-end", "a\nb\n\n \n", 7), "a", "b");
    assert_refuses(write_file("blank", "a\n\nb\n", 5), TXL_FORMAT, "line 2: expected a symbol");
    assert_refuses(write_file("white", " \n\n", 3), TXL_FORMAT, "without symbols");
    assert_refuses(write_file("binary", "a\n\0\n", 4), TXL_UNSUPPORTED, "no vocabulary");
}

TEST(test_json) {
    ASSERT_HAS_SYMBOLS(write_file("v.json", "{\"b\": 1, \"\\u00e9\": 0}", 21), "\xc3\xa9", "b");

    static const struct {
        const char *json, *message;
    } refused[] = {
        {"{\"a\": 0, \"b\": 2}", "symbol \"b\" has id 2, expected each id from 0 to 1 once"},
        {"{\"a\": 0, \"b\": 0}", "symbol \"b\" has id 0"},
        {"{\"a\": -1}", "symbol \"a\" has id -1"},
        {"{\"a\": 0.5}", "symbol \"a\": expected an id"},
        {"{\"a\": 0, \"a\": 1}", "expected a JSON object"},
        {"{}", "without symbols"},
        {"[\"a\"]", "expected a JSON object"},
        {"{\"a\": 0", "line 1: expected a JSON object"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_refuses(write_file("bad.json", refused[i].json, strlen(refused[i].json)), TXL_FORMAT,
                       refused[i].message);
}

/* Protocol 0 pickles, which can be written by hand. */
TEST(test_pickles) {
    static const struct {
        const char *pickle, *message;
    } refused[] = {
        {"(dVidx2sym\n(lVa\naVb\nasVsym2idx\n(dVa\nI0\nsVb\nI0\nss.", "sym2idx has \"b\" as id 0"},
        {"(dVidx2sym\n(lVa\naVb\nasVsym2idx\n(dVa\nI0\nss.", "\"b\" as id 1, sym2idx lacks it"},
        {"(dVidx2sym\n(lVa\naVa\nasVsym2idx\n(dVa\nI1\nss.", "\"a\" as id 0, sym2idx lacks it"},
        {"(dVidx2sym\n(lVa\naI1\nas.", "id 1: expected a symbol's string, not an integer"},
        {"(dVsym2idx\n(dVa\nI5\nss.", "symbol \"a\" has id 5"},
        {"(dVidx2sym\n(lVa\nasVunk_idx\nI7\ns.", "unk_idx is not the id of a symbol"},
        {"(dVidx2sym\nNs.", "expected the list idx2sym or the dict sym2idx"},
        {"(dVvocab\nI7\ns.", "symbol \"vocab\" has id 7"},
        {"(lp0\n.", "without symbols"},
        {"(lp0\nVmuch longer than its share\np1\nag1\nag1\nag1\nag1\nag1\na.",
         "symbols are longer than the whole file"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_refuses(write_file("bad.pkl", refused[i].pickle, strlen(refused[i].pickle)),
                       TXL_FORMAT, refused[i].message);

    static const char *const accepted[] = {
        "(dVb\nI1\nsVa\nI0\ns.",
        "(lVa\naVb\na.",
        "(dVsym2idx\n(dVb\nI1\nsVa\nI0\nss.",
        "(dVvocab\n(dVsym2idx\n(dVb\nI1\nsVa\nI0\nsss.",
    };
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++)
        ASSERT_HAS_SYMBOLS(write_file("good.pkl", accepted[i], strlen(accepted[i])), "a", "b");

    /* A repeated spelling stands for its lowest id. */
    static const char repeated[] = "(dVidx2sym\n(lVa\naVa\nasVsym2idx\n(dVa\nI0\nss.";
    ASSERT_HAS_SYMBOLS(write_file("repeated.pkl", repeated, sizeof repeated - 1), "a", "a");
}

/* A packed vocabulary has what its file states; the rest is guessed from the symbols. */
TEST(test_packed) {
    static const char stated[] =
        "(dVidx2sym\n(lV<eos>\naV<unk>\naVb\nasVunk_idx\nI2\nsVlower_case\nI01\ns.";
    static const char bare[] = "(lV<eos>\naV<unk>\naVb\na.";
    struct convert_vocabulary packed;
    txl_error error;
    const char *path = write_file("packed.pkl", stated, sizeof stated - 1);
    assert_int_equal(convert_vocabulary_read(path, &packed, &error), TXL_OK);
    assert_true(packed.n == 3 && packed.unk == 2 && packed.eos == 0 && packed.lower_case);
    free(packed.section);
    path = write_file("packed.pkl", bare, sizeof bare - 1);
    assert_int_equal(convert_vocabulary_read(path, &packed, &error), TXL_OK);
    assert_true(packed.n == 3 && packed.unk == 1 && packed.eos == 0 && !packed.lower_case);
    free(packed.section);
}

TEST(test_other_files) {
    static const char lfs[] = "version https://git-lfs.github.com/spec/v1\noid sha256:00\n";
    assert_refuses(write_file("lfs.bin", lfs, sizeof lfs - 1), TXL_UNSUPPORTED, "git-LFS pointer");
    static const char page[] = "\n<!DOCTYPE html><html></html>";
    assert_refuses(write_file("page.txt", page, sizeof page - 1), TXL_UNSUPPORTED, "a web page");
    assert_refuses(write_file("empty.txt", "", 0), TXL_FORMAT, "the file is empty");
    assert_refuses(scratch_path("missing.txt"), TXL_IO, "No such file");
    assert_refuses(scratch, TXL_IO, "Is a directory");
    assert_refuses(case_path("hf-safetensors/model.safetensors"), TXL_UNSUPPORTED, "no vocabulary");
    assert_refuses(case_path("enwik8-zip/model.pt"), TXL_FORMAT,
                   "found mem_transformer.MemTransformerLM");
}

TEST(test_find) {
    static const struct {
        const char *source, *found;
    } expected[] = {
        {"hf-bin", "hf-bin/vocab.bin"},
        {"hf-bin/", "hf-bin/vocab.bin"},
        {"hf-safetensors/model.safetensors", "hf-safetensors/vocab.pkl"},
        {"enwik8-zip/model.pt", "enwik8-zip/cache.pt"},
        {"lm1b/model.pt", "lm1b/1b_word_vocab.txt"},
        {"vocabularies/symbols.txt", "vocabularies/vocab.json"},
    };
    char *path;
    txl_error error;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        assert_int_equal(vocabulary_file_find(case_path(expected[i].source), &path, &error),
                         TXL_OK);
        assert_string_equal(path, case_path(expected[i].found));
        free(path);
    }
    assert_int_equal(vocabulary_file_find(case_path("moses"), &path, &error), TXL_IO);
    assert_says(&error, "no vocabulary beside it");
    assert_int_equal(vocabulary_file_find(scratch_path("missing"), &path, &error), TXL_IO);
}

static void open_vocabulary(const char *path) {
    struct vocabulary_file vocabulary;
    txl_error error = {0};
    if (!vocabulary_file_read(path, &vocabulary, &error))
        vocabulary_file_free(&vocabulary);
    else
        assert_int_not_equal(error.message[0], '\0');
}

TEST(test_damage) {
    static const char *const files[] = {
        "cache-legacy.pt",     "cache-python2.pkl",   "cache-zip.pt", "vocab-protocol0.pkl",
        "vocab-protocol2.pkl", "vocab-protocol4.pkl", "vocab.json",   "vocab.txt",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        abuse_file(case_file("vocabularies", files[i]), files[i], 4096, 1500, open_vocabulary);
}

int main(void) {
    return cmocka_run_group_tests_name("vocabulary files", tests, make_scratch, remove_scratch);
}
