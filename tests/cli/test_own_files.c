/* Which tables are txl's own, by their columns. */
#include "cli/options/own_files.h"
#include "cli/score/levels.h"
#include "tests/unit.h"

#include <string.h>

enum { ROOM = 40 };

/* The names of a header in which blanks part them. */
static size_t part(char *header, const char **names) {
    size_t n = 0;
    for (char *name = strtok(header, " "); name; name = strtok(NULL, " "))
        names[n++] = name;
    return n;
}

static const struct {
    const char *columns, *header;
    bool match;
} headers[] = {
    {"a b", "a b", true},
    {"a b", "a", false},
    {"a b", "b", false},
    {"a b", "b a", false},
    {"a b", "a b c", false},
    {"a b", "c a b", false},
    {"a b", "ab", false},
    {"a b", "a bc", false},
    {"a b", "a B", false},
    /* What may be missing together. */
    {"a [ b c ] d", "a b c d", true},
    {"a [ b c ] d", "a d", true},
    {"a [ b c ] d", "a b d", false},
    {"a [ b c ] [ d e ]", "a d e", true},
    {"a [ b c ] [ d e ]", "a b c d e", true},
    {"a [ b c ] [ d e ]", "a", true},
    {"a [ b c ] [ d e ]", "a d e b c", false},
    {"a top*", "a", true},
    {"a top*", "a top1 top1_nats top2", true},
    {"a top*", "a top1 rt", false},
    /* A person's columns before: any. */
    {"* a b", "a b", true},
    {"* a b", "rt subject a b", true},
    {"* a b", "a b a b", true},
    {"* a b", "a b rt", false},
    {"* a b", "", false},
    {"* a [ b ]", "a a a", true},
    /* And after: those of items, but no more. */
    {"a *", "a", true},
    {"a *", "a item condition", true},
    {"a *", "a rt item condition", true},
    {"a *", "a condition", false},
    {"a *", "a rt", false},
    {"a *", "a item condition rt", false},
    {"a *", "a condition item", false},
};

TEST_EACH(columns_of_a_table, headers) {
    char header[200];
    const char *names[ROOM];
    strcpy(header, row->header);
    const size_t n = part(header, names);
    if (own_columns_match(names, n, row->columns) != row->match)
        fail_msg("'%s' and '%s'", row->columns, row->header);
}

/* The columns of no level of txl surprisal are those of another. */
TEST(levels_differ) {
    for (enum level level = 0; level < N_LEVEL; level++) {
        char header[300];
        const char *names[ROOM], **last = names;
        size_t n = 0;
        strcpy(header, levels_columns[level]);
        n = part(header, names);
        for (size_t i = 0; i < n; i++)
            if (!strchr("[]*", names[i][0]) && strcmp(names[i], "top*") != 0)
                *last++ = names[i];
        for (enum level other = 0; other < N_LEVEL; other++)
            assert_int_equal(
                own_columns_match(names, (size_t)(last - names), levels_columns[other]),
                other == level);
    }
    assert_null(levels_columns[N_LEVEL]);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
