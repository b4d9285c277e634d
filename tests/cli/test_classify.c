/* What txl classify and txl answer say of the cases' texts is what the reference says: ids,
 * segments, labels and spans exactly, and numbers within a tolerance. */
#include "tests/model_cases.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Largest difference from the reference, which computes in float64: the wrong form of gelu costs
 * 4e-4. */
static const double REFERENCE = 1e-4;

static const char *const cases[] = {"two-classes", "pairs",          "regression-2019", "choices",
                                    "words",       "answers-simple", "answers-beams",   NULL};

/* The item as a record of a table. */
static void write_record(const json_t *item, const char *path) {
    static const char *const columns[] = {"text", "pair", "question"};
    json_t *record = json_object(), *choice;
    size_t i;
    char name[32];
    for (i = 0; i < 3; i++)
        if (json_object_get(item, columns[i]))
            json_object_set(record, columns[i], json_object_get(item, columns[i]));
    json_array_foreach(json_object_get(item, "choices"), i, choice) {
        snprintf(name, sizeof name, "choice%zu", i + 1);
        json_object_set(record, name, choice);
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(json_dumpf(record, file, JSON_COMPACT), 0);
    putc('\n', file);
    assert_int_equal(fclose(file), 0);
    json_decref(record);
}

/* What the program prints of the item, with an option. */
static json_t *run(const char *model, const json_t *item, const char *option) {
    static const char *const settings[][2] = {{"max_len", "max-len"},
                                              {"stride", "stride"},
                                              {"max_question", "max-question"},
                                              {"max_answer", "max-answer"}};
    char command[4096], path[512];
    const bool answers = json_object_get(item, "question");
    snprintf(path, sizeof path, "%s", scratch_path("item.jsonl"));
    write_record(item, path);
    int n = snprintf(command, sizeof command, "'%s' %s --quiet --model '%s' %s %s", getenv("TXL"),
                     answers ? "answer --top 3" : "classify", model, option, path);
    for (size_t i = 0; i < (answers ? 4 : 1); i++)
        n += snprintf(command + n, sizeof command - (size_t)n, " --%s %d", settings[i][1],
                      (int)json_integer_value(json_object_get(item, settings[i][0])));
    FILE *out = popen(command, "r");
    assert_non_null(out);
    json_t *object = json_loadf(out, 0, NULL);
    assert_non_null(object);
    assert_int_equal(pclose(out), 0);
    unlink(path);
    return object;
}

/* Numbers of nested lists are near, all else is equal. */
static void assert_like(const char *what, const json_t *got, const json_t *want) {
    size_t i;
    json_t *part;
    if (json_is_array(want)) {
        assert_int_equal(json_array_size(got), json_array_size(want));
        json_array_foreach(want, i, part) assert_like(what, json_array_get(got, i), part);
    } else if (json_is_real(want)) {
        if (!(fabs(json_number_value(got) - json_real_value(want)) <= REFERENCE))
            fail_msg("%s: %g is not %g", what, json_number_value(got), json_real_value(want));
    } else if (!json_equal(got, want)) {
        fail_msg("%s differs", what);
    }
}

static void assert_members(const json_t *got, const json_t *want, const char *const *names) {
    for (; *names; names++)
        if (json_object_get(want, *names))
            assert_like(*names, json_object_get(got, *names), json_object_get(want, *names));
}

static void check_answers(const json_t *logits, const json_t *object, const json_t *item) {
    static const char *const of_window[] = {"start",        "length",     "ids",       "segments",
                                            "start_logits", "end_logits", "start_top", "end_top",
                                            "cls_logit",    NULL};
    const json_t *windows = json_object_get(logits, "windows"),
                 *answers = json_object_get(object, "answers");
    size_t i;
    json_t *part;
    assert_int_equal(json_array_size(windows), json_array_size(json_object_get(item, "windows")));
    json_array_foreach(json_object_get(item, "windows"), i, part)
        assert_members(json_array_get(windows, i), part, of_window);
    assert_int_equal(json_array_size(answers), json_array_size(json_object_get(item, "answers")));
    json_array_foreach(json_object_get(item, "answers"), i, part) {
        const json_t *answer = json_array_get(answers, i);
        assert_members(answer, part, (const char *const[]){"answer", "length", "logprob", NULL});
        assert_like("offset", json_object_get(answer, "offset"), json_object_get(part, "begin"));
    }
    assert_members(object, item, (const char *const[]){"cls_logit", NULL});
}

static void check_labels(const json_t *logits, const json_t *object, const json_t *item) {
    const json_t *choice = json_object_get(item, "choice"),
                 *words = json_object_get(object, "words");
    size_t i;
    json_t *part;
    assert_members(logits, item, (const char *const[]){"ids", "segments", "logits", NULL});
    if (!words)
        assert_members(object, item, (const char *const[]){"label", "logits", NULL});
    if (!words && json_is_array(json_object_get(item, "probabilities")))
        assert_members(object, item, (const char *const[]){"probabilities", NULL});
    if (choice)
        assert_int_equal(json_integer_value(json_object_get(object, "choice")),
                         json_integer_value(choice) + 1);
    assert_int_equal(json_array_size(words), json_array_size(json_object_get(item, "words")));
    json_array_foreach(json_object_get(item, "words"), i, part)
        assert_members(json_array_get(words, i), part,
                       (const char *const[]){"word", "label", "probability", NULL});
}

TEST(the_reference_is_met) {
    for (size_t k = 0; cases[k]; k++) {
        char model[512], name[64];
        size_t i;
        json_t *item;
        snprintf(name, sizeof name, "xlnet-heads/%s", cases[k]);
        snprintf(model, sizeof model, "%s", scratch_path("model.txl"));
        case_convert(name, "f32", -1, model);
        json_t *expect = json_load_file(case_path(name, "expect.json"), 0, NULL);
        assert_true(json_array_size(json_object_get(expect, "items")) > 0);
        json_array_foreach(json_object_get(expect, "items"), i, item) {
            json_t *logits = run(model, item, "--logits"), *object = run(model, item, "--json");
            if (json_object_get(item, "question"))
                check_answers(logits, object, item);
            else
                check_labels(logits, object, item);
            json_decref(logits);
            json_decref(object);
        }
        json_decref(expect);
        unlink(model);
    }
}

/* ---- Which answers count ------------------------------------------------------------------ */

enum { MOST_TOKENS = 4096 };

/* What the program prints of a question about the text, with options. */
static json_t *ask(const char *model, const char *text, const char *options) {
    char command[2048], path[512];
    snprintf(path, sizeof path, "%s", scratch_path("text.txt"));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    snprintf(command, sizeof command,
             "'%s' answer --quiet --model '%s' --question 'Who was it?' %s '%s'", getenv("TXL"),
             model, options, path);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    json_t *object = json_loadf(out, 0, NULL);
    assert_non_null(object);
    assert_int_equal(pclose(out), 0);
    unlink(path);
    return object;
}

static int descending(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x < *y) - (*x > *y);
}

static void assert_logprobs(const json_t *object, double *want, size_t n) {
    const json_t *answers = json_object_get(object, "answers");
    qsort(want, n, sizeof *want, descending);
    assert_int_equal(json_array_size(answers), n);
    for (size_t i = 0; i < n; i++)
        if (!(fabs(number_of(json_array_get(answers, i), "logprob") - want[i]) < 1e-5))
            fail_msg("answer %zu: %g is not %g", i,
                     number_of(json_array_get(answers, i), "logprob"), want[i]);
}

static double real_at(const json_t *object, const char *key, size_t i) {
    return json_real_value(json_array_get(json_object_get(object, key), i));
}

/* log P of token i of the window, among its tokens and <cls>. */
static double logprob_at(const json_t *window, const char *key, size_t i) {
    const size_t length = (size_t)number_of(window, "length"),
                 last = json_array_size(json_object_get(window, key)) - 1;
    double sum = exp(real_at(window, key, last));
    for (size_t k = 0; k < length; k++)
        sum += exp(real_at(window, key, k));
    return real_at(window, key, i) - log(sum);
}

/* Answers of one token, each in the window where it has the most context on its shorter side, plus
 * 0.01 times the window's length, in the earlier of equally good ones. */
static void check_shares(const char *model, const char *text, const char *settings) {
    static double want[MOST_TOKENS], most[MOST_TOKENS];
    char options[200];
    size_t w, n = 0;
    json_t *window;
    snprintf(options, sizeof options, "--logits %s", settings);
    json_t *logits = ask(model, text, options);
    snprintf(options, sizeof options, "--json --max-answer 1 --top 10000 %s", settings);
    json_t *answers = ask(model, text, options);
    json_array_foreach(json_object_get(logits, "windows"), w, window) {
        const size_t start = (size_t)number_of(window, "start"),
                     length = (size_t)number_of(window, "length");
        for (size_t i = 0; i < length; i++) {
            const size_t right = length - 1 - i;
            const double share = (double)(i < right ? i : right) + 0.01 * (double)length;
            assert_true(start + i < MOST_TOKENS);
            if (start + i < n && share <= most[start + i])
                continue;
            most[start + i] = share;
            want[start + i] =
                logprob_at(window, "start_logits", i) + logprob_at(window, "end_logits", i);
        }
        n = start + length;
    }
    assert_true(w > 2);
    assert_logprobs(answers, want, n);
    json_decref(logits);
    json_decref(answers);
}

/* With windows of even and of odd lengths, which have places of equal context, and last ones that
 * are shorter by 100 tokens and more. */
TEST(each_start_counts_in_one_window) {
    static const char *const settings[] = {"", "--max-len 383", "--max-len 210 --stride 150",
                                           "--max-len 211 --stride 160",
                                           "--max-len 310 --stride 280"};
    static char text[1 << 14];
    char model[512];
    snprintf(model, sizeof model, "%s", scratch_path("model.txl"));
    case_convert("xlnet-heads/answers-simple", "f32", -1, model);
    for (int i = 0; i < 60; i++)
        snprintf(text + strlen(text), 64, "The %d hounds of the moor ran. ", i);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        check_shares(model, text, settings[i]);
    unlink(model);
}

/* Of the starts and ends that are kept those pairs that are an answer, of so many tokens at most.
 */
TEST(beams_are_paired) {
    static const char text[] = "The hound ran over the moor, and Sir Henry, who saw it, cried.";
    static const size_t longest[] = {1, 3, 64};
    char model[512], options[64];
    snprintf(model, sizeof model, "%s", scratch_path("model.txl"));
    case_convert("xlnet-heads/answers-beams", "f32", -1, model);
    json_t *logits = ask(model, text, "--logits");
    const json_t *window = json_array_get(json_object_get(logits, "windows"), 0),
                 *starts = json_object_get(window, "start_top");
    for (size_t l = 0; l < 3; l++) {
        double want[32];
        size_t n = 0, k, m;
        json_t *start, *end;
        json_array_foreach(starts, k, start) {
            json_array_foreach(json_array_get(json_object_get(window, "end_top"), k), m, end) {
                const json_int_t i = json_integer_value(json_array_get(start, 0)),
                                 j = json_integer_value(json_array_get(end, 0));
                if (i <= j && j < (json_int_t)number_of(window, "length") &&
                    j - i < (json_int_t)longest[l])
                    want[n++] = log(json_real_value(json_array_get(start, 1))) +
                                log(json_real_value(json_array_get(end, 1)));
            }
        }
        snprintf(options, sizeof options, "--json --top 99 --max-answer %zu", longest[l]);
        json_t *answers = ask(model, text, options);
        assert_logprobs(answers, want, n);
        json_decref(answers);
    }
    json_decref(logits);
    unlink(model);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
