/* Harmless text stays unchanged, and harmful characters are replaced, however the text is cut. */
#include "cli/io/clean.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>

#define FFFD "\xef\xbf\xbd"

static const struct {
    const char *text, *line, *shown, *json;
} cases[] = {
    {"", "", "", ""},
    {"plain", "plain", "plain", "plain"},
    {"h\xc3\xa9t\xf0\x9f\x98\x80", "h\xc3\xa9t\xf0\x9f\x98\x80", "h\xc3\xa9t\xf0\x9f\x98\x80",
     "h\xc3\xa9t\xf0\x9f\x98\x80"},
    {"a\tb\nc", "a?b?c", "a\tb\nc", NULL},
    {"\x1b[2J\r\a", "?[2J??", FFFD "[2J" FFFD FFFD, NULL},
    {"\x7f", "?", FFFD, "\\u007f"},
    {"\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", "???\xc2\xa0", FFFD FFFD FFFD "\xc2\xa0",
     "\\u0080\\u009b\\u009f\xc2\xa0"},
    {"\xd8\x9c|\xe2\x80\x8e|\xe2\x80\x8f|\xe2\x80\xaa|\xe2\x80\xae|\xe2\x81\xa6|\xe2\x81\xa9",
     "?|?|?|?|?|?|?", FFFD "|" FFFD "|" FFFD "|" FFFD "|" FFFD "|" FFFD "|" FFFD,
     "\\u061c|\\u200e|\\u200f|\\u202a|\\u202e|\\u2066|\\u2069"},
    {"\xe2\x80\x8d\xe2\x80\xa9", "\xe2\x80\x8d\xe2\x80\xa9", "\xe2\x80\x8d\xe2\x80\xa9",
     "\xe2\x80\x8d\xe2\x80\xa9"},
    {"\x9b[m", "?[m", FFFD "[m", NULL},
    {"\xe2\x82z\xff\xc0\xaf", "?z???", FFFD "z" FFFD FFFD FFFD, NULL},
    {"end\xf0\x9f\x98", "end?", "end" FFFD, NULL},
};

enum { N_CASE = sizeof cases / sizeof *cases };

TEST(a_line_is_harmless) {
    for (size_t i = 0; i < N_CASE; i++) {
        char *text = strdup(cases[i].text);
        assert_non_null(text);
        assert_int_equal(clean_line(text), strlen(cases[i].line));
        assert_string_equal(text, cases[i].line);
        free(text);
    }
}

/* In parts of every size. */
TEST(a_text_is_harmless_however_it_is_cut) {
    for (size_t i = 0; i < N_CASE; i++) {
        const char *text = cases[i].text;
        size_t length = strlen(text);
        for (size_t size = 1; size <= length + 1; size++) {
            struct clean_text clean = {.n = 0};
            char out[CLEAN_TEXT_ROOM(64)];
            size_t n = 0;
            for (size_t at = 0; at < length; at += size)
                n +=
                    clean_text(&clean, text + at, length - at < size ? length - at : size, out + n);
            n += clean_text_end(&clean, out + n);
            assert_int_equal(clean.n, 0);
            assert_int_equal(n, strlen(cases[i].shown));
            assert_memory_equal(out, cases[i].shown, n);
        }
    }
}

TEST(json_spells_by_number) {
    for (size_t i = 0; i < N_CASE; i++) {
        if (!cases[i].json)
            continue;
        char *json = clean_json(strdup(cases[i].text));
        assert_string_equal(json, cases[i].json);
        free(json);
    }
    assert_null(clean_json(NULL));
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
