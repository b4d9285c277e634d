/* Compares the search for stop strings with a search of the whole text, for texts that come in
 * pieces of every size. */
#include "cli/texts/endings.h"
#include "tests/unit.h"

#include <stdio.h>
#include <string.h>

enum { MAX_STOPS = 3 };

/* Where the text stops: before the stop string that is complete first, the longest of several.  The
 * text's length if it contains none. */
static size_t first_stop(const char *text, const struct string_list *stops) {
    size_t length = strlen(text);
    for (size_t end = 1; end <= length; end++) {
        size_t longest = 0;
        for (size_t k = 0; k < stops->n; k++) {
            size_t n = strlen(stops->items[k]);
            if (n <= end && n > longest && memcmp(text + end - n, stops->items[k], n) == 0)
                longest = n;
        }
        if (longest > 0)
            return end - longest;
    }
    return length;
}

/* Feeds `piece` bytes at a time and compares what comes out. */
static void check(const char *text, const struct string_list *stops, size_t piece) {
    struct stop_search search;
    struct buffer out = {0};
    size_t length = strlen(text), expected = first_stop(text, stops);
    bool found = false;
    assert_true(stop_search_new(&search, stops));
    for (size_t at = 0; at < length && !found; at += piece) {
        size_t n = length - at < piece ? length - at : piece;
        assert_true(stop_search_feed(&search, text + at, n, &out, &found));
        assert_true(out.length <= expected); /* no text is shown that may belong to a stop string */
    }
    assert_int_equal(found, expected < length);
    if (!found)
        assert_true(stop_search_finish(&search, &out));
    if (out.length != expected || memcmp(out.data ? out.data : "", text, expected) != 0)
        fail_msg("'%s' in pieces of %zu: %zu bytes, not %zu", text, piece, out.length, expected);
    buffer_free(&out);
    stop_search_free(&search);
}

TEST(strings_that_repeat_themselves_are_found) {
    static struct {
        const char *text;
        const char *stops[MAX_STOPS];
    } cases[] = {
        {"xaaabz", {"aab"}}, /* a third a takes the match back by one, not to nothing */
        {"xabababcz", {"ababc"}},      {"abaabaabab", {"abaabab"}},
        {"aaaaaaab", {"aaab", "b"}},   {"xaaabz", {"aaaa", "aab"}},
        {"xyabcab", {"abcabd", "ab"}}, {"nothing of it", {"aab", "off", "it!"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct string_list stops = {.items = cases[i].stops};
        while (stops.n < MAX_STOPS && cases[i].stops[stops.n])
            stops.n++;
        for (size_t piece = 1; piece <= strlen(cases[i].text); piece++)
            check(cases[i].text, &stops, piece);
    }
}

/* Writes the `number`-th string of `length` letters a and b. */
static void spell(char *text, size_t length, unsigned number) {
    for (size_t i = 0; i < length; i++)
        text[i] = number >> i & 1 ? 'b' : 'a';
    text[length] = '\0';
}

/* Every string of a and b of up to 5 letters in every text of 9. */
TEST(every_short_string_is_found) {
    for (size_t length = 1; length <= 5; length++) {
        for (unsigned number = 0; number < 1u << length; number++) {
            char stop[6], text[10];
            const char *items[] = {stop};
            struct string_list stops = {items, 1};
            spell(stop, length, number);
            for (unsigned t = 0; t < 1u << 9; t++) {
                spell(text, 9, t);
                check(text, &stops, 1 + t % 4);
            }
        }
    }
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
