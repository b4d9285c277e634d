/* Each option of sampling reaches the library, and is stated in results. */
#include "cli/texts/text_options.h"
#include "tests/unit.h"

#include <string.h>

/* What a draw is told, in words. */
static void state(const struct sampling_options *options, char *text, size_t size,
                  json_t **object) {
    sampling_to_text(text, size, options);
    *object = json_object();
    assert_non_null(*object);
    assert_true(sampling_to_json(*object, options));
}

static bool is_sampling(const struct option_row *row) {
    return (row->kind == OPTION_REAL || row->kind == OPTION_INTEGER) &&
           row->offset < offsetof(struct text_options, sampling) + sizeof(struct sampling_options);
}

TEST(every_row_changes_the_draw_and_is_stated) {
    const struct text_options usual = {.sampling = {.temperature = 1,
                                                    .top_p = 1,
                                                    .typical = 1,
                                                    .repetition_penalty = 2,
                                                    .repeat_last = 64}};
    size_t rows = 0;
    char before[256], after[256];
    json_t *told, *changed;
    state(&usual.sampling, before, sizeof before, &told);
    for (const struct option_row *row = text_option_rows; row->name; row++) {
        struct text_options options = usual;
        struct option_problem problem;
        if (!is_sampling(row))
            continue;
        rows++;
        assert_true(
            options_set_value(row, row->kind == OPTION_REAL ? "0.5" : "3", &options, &problem));
        state(&options.sampling, after, sizeof after, &changed);
        if (strcmp(before, after) == 0 || json_equal(told, changed))
            fail_msg("--%s is not stated", row->name);
        json_decref(changed);
        const txl_sampling a = sampling_terms(&usual.sampling), b = sampling_terms(&usual.sampling),
                           c = sampling_terms(&options.sampling);
        assert_memory_equal(&a, &b, sizeof a);
        /* The history has its n-grams. */
        if (strcmp(row->name, "no-repeat-ngram") != 0 && memcmp(&a, &c, sizeof a) == 0)
            fail_msg("--%s does not reach the library", row->name);
    }
    json_decref(told);
    assert_true(rows >= 8);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
