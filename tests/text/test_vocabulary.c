/* Vocabularies: packing and opening their section, finding symbols, guessing what they are for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/text/vocabulary.h"
#include "tests/unit.h"

#define ENTRIES(...)                                                                               \
    (const struct vocabulary_entry[]) {                                                            \
        __VA_ARGS__                                                                                \
    }
#define E(text)                                                                                    \
    { text, sizeof(text) - 1 }

static void *pack(const struct vocabulary_entry *symbols, size_t n, size_t *size) {
    void *section = NULL;
    assert_int_equal(vocabulary_pack(symbols, n, &section, size, NULL), TXL_OK);
    return section;
}

static txl_status open_section(struct vocabulary *vocabulary, const void *section, size_t size,
                               int32_t n, txl_error *error) {
    const struct vocabulary_settings settings = {n, TXL_WORDS, false, -1, -1};
    return vocabulary_open(vocabulary, section, size, &settings, "made.txl", error);
}

static void assert_symbol(const struct vocabulary *vocabulary, int32_t id, const char *expected) {
    size_t length;
    const char *text = vocabulary_symbol(vocabulary, id, &length);
    assert_non_null(text);
    assert_int_equal(length, strlen(expected));
    assert_memory_equal(text, expected, length);
}

static int32_t find(const struct vocabulary *vocabulary, const char *text) {
    return vocabulary_find(vocabulary, text, strlen(text));
}

TEST(test_section_is_as_documented) {
    size_t size;
    void *section = pack(ENTRIES(E("ab"), E(""), E("c")), 3, &size);
    static const char expected[] = "\3\0\0\0\2\0\0\0\2\0\0\0\3\0\0\0abc";
    assert_int_equal(size, sizeof expected - 1);
    assert_memory_equal(section, expected, size);
    free(section);
}

TEST(test_size_has_bounds) {
    const struct vocabulary_entry huge[] = {{"", UINT32_MAX}, {"", 1}};
    void *section;
    size_t size;
    txl_error error;
    assert_int_equal(vocabulary_pack(huge, 2, &section, &size, &error), TXL_UNSUPPORTED);
    assert_string_equal(error.message, "vocabulary: 2 symbols of more than 4 GiB, or more than "
                                       "16777216 of them");
}

TEST(test_finds_every_symbol) {
    enum { N = 5000 };
    static char texts[N][8];
    static struct vocabulary_entry symbols[N];
    for (int i = 0; i < N; i++) {
        int length = snprintf(texts[i], sizeof texts[i], "w%d", i * 7);
        symbols[i] = (struct vocabulary_entry){texts[i], (size_t)length};
    }
    size_t size;
    void *section = pack(symbols, N, &size);
    struct vocabulary vocabulary;
    assert_int_equal(open_section(&vocabulary, section, size, N, NULL), TXL_OK);
    assert_int_equal(vocabulary.longest, 6);
    for (int i = 0; i < N; i++) {
        assert_int_equal(find(&vocabulary, texts[i]), i);
        assert_symbol(&vocabulary, i, texts[i]);
    }
    assert_int_equal(find(&vocabulary, "w1"), -1);
    assert_int_equal(find(&vocabulary, "w"), -1);
    assert_int_equal(find(&vocabulary, ""), -1);
    assert_int_equal(find(&vocabulary, "a word longer than any"), -1);
    size_t length;
    assert_null(vocabulary_symbol(&vocabulary, -1, &length));
    assert_null(vocabulary_symbol(&vocabulary, N, &length));
    vocabulary_close(&vocabulary);
    free(section);
}

TEST(test_first_of_equal_spellings_is_found) {
    size_t size;
    void *section = pack(ENTRIES(E("x"), E("the"), E("the"), E("x")), 4, &size);
    struct vocabulary vocabulary;
    assert_int_equal(open_section(&vocabulary, section, size, 4, NULL), TXL_OK);
    assert_int_equal(find(&vocabulary, "the"), 1);
    assert_int_equal(find(&vocabulary, "x"), 0);
    assert_symbol(&vocabulary, 2, "the");
    vocabulary_close(&vocabulary);
    free(section);
}

TEST(test_symbols_may_hold_any_bytes) {
    size_t size;
    void *section = pack(ENTRIES(E("a\0b"), E("\xff\xfe"), E("\0")), 3, &size);
    struct vocabulary vocabulary;
    assert_int_equal(open_section(&vocabulary, section, size, 3, NULL), TXL_OK);
    assert_int_equal(vocabulary_find(&vocabulary, "a\0b", 3), 0);
    assert_int_equal(vocabulary_find(&vocabulary, "a\0c", 3), -1);
    assert_int_equal(vocabulary_find(&vocabulary, "\xff\xfe", 2), 1);
    assert_int_equal(vocabulary_find(&vocabulary, "\0", 1), 2);
    vocabulary_close(&vocabulary);
    free(section);
}

TEST(test_bytes) {
    size_t size;
    void *section = pack(ENTRIES(E("32"), E("255"), E("0"), E("7")), 4, &size);
    struct vocabulary vocabulary;
    const struct vocabulary_settings settings = {4, TXL_BYTES, true, -1, -1};
    assert_int_equal(vocabulary_open(&vocabulary, section, size, &settings, "made.txl", NULL),
                     TXL_OK);
    assert_int_equal(vocabulary.byte_id[' '], 0);
    assert_int_equal(vocabulary.byte_id[255], 1);
    assert_int_equal(vocabulary.byte_id[0], 2);
    assert_int_equal(vocabulary.byte_id['7'], -1);
    assert_int_equal(find(&vocabulary, "7"), 3);
    assert_int_equal(find(&vocabulary, "8"), -1);
    vocabulary_close(&vocabulary);
    free(section);

    assert_int_equal(vocabulary_byte("0", 1), 0);
    assert_int_equal(vocabulary_byte("255", 3), 255);
    static const char *const others[] = {"", "256", "00", "07", "-1", "+1", "1 ", "0x1", "1000"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(vocabulary_byte(others[i], strlen(others[i])), -1);
}

TEST(test_damaged_sections_are_refused) {
    static const struct {
        const char *bytes;
        size_t size;
        int32_t n;
        const char *message;
    } rows[] = {
        {"", 0, 1, "made.txl: vocabulary: 0 bytes, expected 4 or more"},
        {"\1\0\0", 3, 1, "made.txl: vocabulary: 3 bytes, expected 4 or more"},
        {"\0\0\0\0", 4, 0, "made.txl: vocabulary: 0 symbols, expected the network's 0"},
        {"\2\0\0\0\1\0\0\0\1\0\0\0a", 13, 3,
         "made.txl: vocabulary: 2 symbols, expected the network's 3"},
        {"\xff\xff\xff\xff", 4, -1,
         "made.txl: vocabulary: 4294967295 symbols, expected the network's -1"},
        {"\xff\xff\xff\x7f\0\0\0\0", 8, INT32_MAX,
         "made.txl: vocabulary: 2147483647 symbols in a section of 8 bytes"},
        {"\2\0\0\0\1\0\0\0\0\0\0\0a", 13, 2,
         "made.txl: vocabulary: symbol 1 ends at byte 0, expected 1 to 1"},
        {"\1\0\0\0\2\0\0\0a", 9, 1,
         "made.txl: vocabulary: symbol 0 ends at byte 2, expected 0 to 1"},
        {"\1\0\0\0\xff\xff\xff\xff"
         "a",
         9, 1, "made.txl: vocabulary: symbol 0 ends at byte 4294967295, expected 0 to 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        /* A copy of the very size, so that a sanitizer sees a read beyond it. */
        void *section = malloc(rows[i].size + !rows[i].size);
        assert_non_null(section);
        memcpy(section, rows[i].bytes, rows[i].size);
        struct vocabulary vocabulary;
        txl_error error;
        assert_int_equal(open_section(&vocabulary, section, rows[i].size, rows[i].n, &error),
                         TXL_FORMAT);
        assert_string_equal(error.message, rows[i].message);
        vocabulary_close(&vocabulary);
        free(section);
    }
}

TEST(test_special_ids_are_checked) {
    size_t size;
    void *section = pack(ENTRIES(E("a"), E("b")), 2, &size);
    static const int32_t wrong[] = {2, -2, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct vocabulary vocabulary;
        const struct vocabulary_settings unk = {2, TXL_WORDS, false, wrong[i], -1};
        const struct vocabulary_settings eos = {2, TXL_WORDS, false, 1, wrong[i]};
        assert_int_equal(vocabulary_open(&vocabulary, section, size, &unk, "made.txl", NULL),
                         TXL_FORMAT);
        assert_int_equal(vocabulary_open(&vocabulary, section, size, &eos, "made.txl", NULL),
                         TXL_FORMAT);
    }
    free(section);
}

static void assert_kind(txl_kind expected, const struct vocabulary_entry *symbols, size_t n) {
    assert_int_equal(vocabulary_guess_kind(symbols, n, false), expected);
}

TEST(test_guesses) {
    assert_kind(TXL_BYTES, ENTRIES(E("32"), E("101"), E("0")), 3);
    assert_kind(TXL_WORDS, ENTRIES(E("32"), E("101"), E("256")), 3);
    assert_kind(TXL_TEXT8, ENTRIES(E("a"), E("z"), E("_")), 3);
    assert_kind(TXL_CHARACTERS, ENTRIES(E("a"), E("z"), E("A")), 3);
    assert_kind(TXL_CHARACTERS, ENTRIES(E("<eos>"), E("<unk>"), E("\xe4\xb8\xad"), E(" ")), 4);
    assert_kind(TXL_WORDS, ENTRIES(E("<eos>"), E("<unk>")), 2);
    assert_kind(TXL_WORDS, ENTRIES(E("<eos>"), E("\xe4\xb8"), E("a")), 3);
    assert_kind(TXL_LM1B, ENTRIES(E("<S>"), E("<UNK>"), E("the")), 3);
    assert_kind(TXL_WORDS, ENTRIES(E("<S>"), E("<eos>"), E("the")), 3);
    assert_kind(TXL_WORDS, ENTRIES(E("the")), 1);
    assert_kind(TXL_WORDS, NULL, 0);
    assert_int_equal(vocabulary_guess_kind(ENTRIES(E("the")), 1, true), TXL_CHARACTERS);

    const struct vocabulary_entry symbols[] = {E("<S>"), E("<UNK>"), E("<eos>"), E("<unk>")};
    assert_int_equal(vocabulary_guess_unk(symbols, 4), 3);
    assert_int_equal(vocabulary_guess_unk(symbols, 3), 1);
    assert_int_equal(vocabulary_guess_unk(symbols, 1), -1);
    assert_int_equal(vocabulary_guess_eos(symbols, 4, TXL_WORDS), 2);
    assert_int_equal(vocabulary_guess_eos(symbols, 4, TXL_CHARACTERS), 2);
    assert_int_equal(vocabulary_guess_eos(symbols, 4, TXL_LM1B), 0);
    assert_int_equal(vocabulary_guess_eos(symbols, 4, TXL_BYTES), -1);
    assert_int_equal(vocabulary_guess_eos(symbols, 4, TXL_TEXT8), -1);
    assert_int_equal(vocabulary_guess_eos(symbols, 2, TXL_WORDS), -1);
}

/* No section made of noise may be read beyond its end. */
TEST(test_noise) {
    uint32_t random = 1;
    for (int i = 0; i < 20000; i++) {
        unsigned char noise[24];
        for (size_t k = 0; k < sizeof noise; k++) {
            random = random * 1664525 + 1013904223;
            noise[k] = (unsigned char)(random >> 29);
            if (k % 4 > 0 && random >> 16 & 63)
                noise[k] = 0;
        }
        size_t size = (random >> 8) % (sizeof noise + 1);
        unsigned char *section = malloc(size + !size);
        assert_non_null(section);
        memcpy(section, noise, size);
        struct vocabulary vocabulary;
        if (!open_section(&vocabulary, section, size, size < 4 ? 1 : noise[0], NULL)) {
            for (int32_t id = 0; id < vocabulary.n; id++) {
                size_t length;
                const char *text = vocabulary_symbol(&vocabulary, id, &length);
                int32_t found = vocabulary_find(&vocabulary, text, length);
                assert_in_range(found, 0, id);
            }
            vocabulary_close(&vocabulary);
        }
        free(section);
    }
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
