/* When a text looks wrapped: each condition at its limit. */
#include "cli/io/input.h"
#include "lib/base/memory.h"
#include "tests/unit.h"

#include <string.h>

/* Adds n + 1 lines alike, so that n line ends are looked at, and a blank one, which ends them. */
static void add_lines(struct buffer *text, const char *line, int n) {
    for (int i = 0; i <= n && n > 0; i++)
        assert_true(buffer_append(text, line, strlen(line)) && buffer_append(text, "\n", 1));
    assert_true(buffer_append(text, "\n", 1));
}

/* A text of line ends that join words, join unbroken text, and end a paragraph, and of lines that
 * are too wide. */
static struct wrap measure(int words, int unbroken, int ended, int wide) {
    static const char full[] = "ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab ab cd";
    struct buffer text = {0};
    char line[WRAP_MOST + 2] = "";
    add_lines(&text, full, words);
    memset(line, 'x', sizeof full - 1);
    add_lines(&text, line, unbroken);
    add_lines(&text, "a short line", ended);
    memset(line, 'x', WRAP_MOST + 1);
    for (int i = 0; i < wide; i++) {
        add_lines(&text, "", 0);
        assert_true(buffer_append(&text, line, WRAP_MOST + 1) && buffer_append(&text, "\n", 1));
    }
    const struct wrap wrap = wrap_measure(text.data, text.length);
    buffer_free(&text);
    return wrap;
}

TEST(most_line_ends_join_words) {
    static const struct {
        int words, unbroken, ended, wide;
        bool seen;
    } texts[] = {
        {10, 0, 0, 0, true},  {9, 0, 0, 0, false},   /* enough */
        {11, 10, 0, 0, true}, {10, 10, 0, 0, false}, /* most of those that join have words */
        {10, 0, 19, 0, true}, {10, 0, 20, 0, false}, /* more than half as many as end */
        {16, 0, 0, 1, true},  {16, 0, 0, 2, false},  /* one of 16 is too wide */
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const struct wrap wrap =
            measure(texts[i].words, texts[i].unbroken, texts[i].ended, texts[i].wide);
        assert_int_equal(wrap.width, 50);
        assert_int_equal(wrap.seen, texts[i].seen);
    }
}

/* Of 20 line ends and more, fewer than a quarter join. */
TEST(few_that_join_are_doubtful) {
    static const struct {
        int words, ended;
        bool doubtful;
    } texts[] = {{4, 16, true}, {3, 16, false}, {5, 15, false}, {5, 19, true}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_int_equal(measure(texts[i].words, 0, texts[i].ended, 0).doubtful, texts[i].doubtful);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
