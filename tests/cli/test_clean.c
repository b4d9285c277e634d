/* Harmless text stays unchanged, and harmful characters are replaced, however the text is cut; and
 * numbers as people read them. */
#include "cli/io/clean.h"
#include "cli/io/terminal.h"
#include "cli/score/scorer.h"
#include "tests/unit.h"

#include <math.h>
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

TEST(thousands_are_parted) {
    static const struct {
        double number;
        int decimals;
        const char *text;
    } numbers[] = {{0, 0, "0"},
                   {999, 0, "999"},
                   {1000, 0, "1,000"},
                   {-999, 0, "-999"},
                   {-123456, 0, "-123,456"},
                   {1234567.891, 2, "1,234,567.89"},
                   {999.99, 1, "1,000.0"},
                   {12.3456, 6, "12.345600"},
                   {999999999999999, 0, "999,999,999,999,999"},
                   {1e15, 2, "1.00e+15"},
                   {1.819e67, 0, "1.82e+67"},
                   {INFINITY, 0, "inf"}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        assert_string_equal(grouped(numbers[i].number, numbers[i].decimals).text, numbers[i].text);
}

TEST(estimates_have_the_digits_that_their_errors_allow) {
    static const struct {
        double value, error;
        const char *text;
    } estimates[] = {{1.30810, 0.01908, "1.308 (standard error 0.019)"},
                     {1.30810, 0.0996, "1.308 (standard error 0.100)"},
                     {-5.52493, 0.7066, "-5.52 (standard error 0.71)"},
                     {12345.6, 999.7, "12,346 (standard error 1,000)"},
                     {20.25, 9.94, "20.2 (standard error 9.9)"},
                     {20.25, 10, "20 (standard error 10)"},
                     {3.25, 0.0000051, "3.250000 (standard error 0.000005)"},
                     {3.25, 0.0000004, "3.250"},
                     {3.25, 0, "3.250"},
                     {1234.5678, NAN, "1,234.568"},
                     {1234.5678, INFINITY, "1,234.568"}};
    for (size_t i = 0; i < sizeof estimates / sizeof *estimates; i++) {
        const struct estimate e = estimate(estimates[i].value, estimates[i].error);
        char text[128];
        snprintf(text, sizeof text, "%s%s", e.value, e.error);
        assert_string_equal(text, estimates[i].text);
    }
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
