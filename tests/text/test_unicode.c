/* UTF-8, white space and lower case, against what Python 3.11 says of them. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/white_space.h"
#include "lib/text/unicode.h"
#include "tests/unit.h"

#define R "\xef\xbf\xbd"

static void append_code(char *out, size_t *n, uint32_t code) {
    char utf8[4];
    size_t length = unicode_encode(code, utf8);
    memcpy(out + *n, utf8, length);
    *n += length;
}

/* bytes.decode("utf-8", "replace").encode() */
TEST(test_ill_formed_sequences) {
    static const struct {
        const char *bytes, *expected;
    } rows[] = {
        {"plain", "plain"},
        {"\xc3\xa9\xe4\xb8\xad\xf0\x9d\x92\x9c", "\xc3\xa9\xe4\xb8\xad\xf0\x9d\x92\x9c"},
        {"\x80", R},
        {"a\xff\xfe"
         "b",
         "a" R R "b"},
        {"\xc0\xaf", R R},
        {"\xe0\x80\xaf", R R R},
        {"\xed\xa0\x80", R R R},
        {"\xed\x9f\xbf\xee\x80\x80", "\xed\x9f\xbf\xee\x80\x80"},
        {"\xf0\x90\x80", R},
        {"\xf0\x90\x80"
         "a",
         R "a"},
        {"\xf4\x90\x80\x80", R R R R},
        {"\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
        {"\xe2\x82", R},
        {"\xe2\x82\xe2\x82\xac", R "\xe2\x82\xac"},
        {"\xc3\xc3\xa9", R "\xc3\xa9"},
        {"\xf8\x88\x80\x80\x80", R R R R R},
        {"\xe0\xa0"
         "a",
         R "a"},
        {"\xf1\x80\x80\xff", R R},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct unicode_decoder decoder = {0};
        char out[64];
        size_t n = 0;
        for (const char *c = rows[i].bytes; *c; c++) {
            uint32_t codes[2];
            size_t n_codes = unicode_decode(&decoder, (unsigned char)*c, codes);
            for (size_t k = 0; k < n_codes; k++)
                append_code(out, &n, codes[k]);
        }
        if (unicode_decode_end(&decoder))
            append_code(out, &n, UNICODE_REPLACEMENT);
        out[n] = '\0';
        assert_string_equal(out, rows[i].expected);
        assert_false(unicode_decode_end(&decoder));
    }
}

TEST(test_first) {
    size_t length = 5;
    assert_int_equal(unicode_first("\xe4\xb8\xad!?", &length), 0x4e2d);
    assert_int_equal(length, 3);
    length = 1;
    assert_int_equal(unicode_first("a", &length), 'a');
    assert_int_equal(length, 1);
}

/* [c for c in range(0x110000) if chr(c).isspace()] */
TEST(test_white_space) {
    static const uint32_t spaces[] = {
        0x09,   0x0a,   0x0b,   0x0c,   0x0d,   0x1c,   0x1d,   0x1e,   0x1f,   0x20,
        0x85,   0xa0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006,
        0x2007, 0x2008, 0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000,
    };
    size_t next = 0;
    for (uint32_t code = 0; code < 0x110000; code++) {
        bool expected = next < sizeof spaces / sizeof *spaces && code == spaces[next];
        next += expected;
        assert_int_equal(is_space_code(code), expected);
        if (code < 0xd800 || code >= 0xe000) {
            char utf8[4];
            size_t length = unicode_encode(code, utf8);
            assert_int_equal(space_length(utf8, length), expected ? length : 0);
            assert_int_equal(space_length(utf8, length - 1), 0);
            assert_int_equal(space_at_end(utf8, length), expected ? length : 0);
        }
    }
    /* A continuation byte alone, overlong forms, four bytes, no continuation byte. */
    static const char *const not_space[] = {"\x82\x85",     "\xc0\xa0",  "\xe0\x80\xa0",
                                            "\xf2\x80\x80", "\xe2\x80H", "\xe2@\x80"};
    for (size_t i = 0; i < sizeof not_space / sizeof *not_space; i++)
        assert_int_equal(space_length(not_space[i], strlen(not_space[i])), 0);
}

TEST(test_lower_case) {
    static const char *const rows[][2] = {
        {"", ""},
        {"Plain ASCII [@`{]", "plain ascii [@`{]"},
        {"ÀÉ", "àé"},
        {"ASCII À ASCII", "ascii à ascii"},
        {"İ", "i\xcc\x87"},
        {"ẞ", "ß"},
        {"Ⱥ", "ⱥ"},
        {"\xe2\x84\xaa", "k"},
        {"Ǆ", "ǆ"},
        {"Ꭰ", "ꭰ"},
        {"𐐀", "𐐨"},
        {"中文", "中文"},
        /* A sigma is final after a cased letter and before none, whatever case ignores between. */
        {"Σ", "σ"},
        {"ΑΣ", "ας"},
        {"ΑΣΑ", "ασα"},
        {"ΟΔΥΣΣΕΥΣ", "οδυσσευς"},
        {"ΑΣ ΣΑ", "ας σα"},
        {"ΑΣ\xcc\x81", "ας\xcc\x81"},
        {"ΑΣ\xcc\x81Α", "ασ\xcc\x81α"},
        {"ΑΣ.", "ας."},
        {"ΑΣ.Α", "ασ.α"},
        {"ʰΣ", "ʰσ"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char lower[64];
        size_t length = unicode_lower(rows[i][0], strlen(rows[i][0]), lower);
        lower[length] = '\0';
        assert_string_equal(lower, rows[i][1]);
    }
}

/* What callers size their buffers by. */
TEST(test_lower_case_stays_within_its_room) {
    for (uint32_t code = 0; code < 0x110000; code++) {
        if (code >= 0xd800 && code < 0xe000)
            continue;
        char utf8[4], lower[16];
        size_t length = unicode_encode(code, utf8);
        size_t written = unicode_lower(utf8, length, lower);
        assert_in_range(written, 1, UNICODE_LOWER_ROOM(length));
        assert_true(written * UNICODE_LOWER_SHRINK >= length);
    }
}

/* A word of nothing but sigmas and ignored signs takes time in proportion. */
TEST(test_lower_case_is_not_quadratic) {
    enum { LENGTH = 1 << 20 };
    char *word = malloc(LENGTH);
    char *lower = malloc(UNICODE_LOWER_ROOM(LENGTH));
    assert_non_null(word);
    assert_non_null(lower);
    for (size_t i = 0; i < LENGTH; i += 2)
        memcpy(word + i, i % 4 ? "\xcc\x81" : "Σ", 2);
    assert_int_equal(unicode_lower(word, LENGTH, lower), LENGTH);
    memset(word + 4, '\'', LENGTH - 4);
    assert_int_equal(unicode_lower(word, LENGTH, lower), LENGTH);
    free(lower);
    free(word);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
