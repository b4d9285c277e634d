/* Compares what txl surprisal says about items with what the library computes: texts after <eos>,
 * their context and what is before all of them; regions; the entropy before words. */
#include "cli/score/regions.h"
#include "tests/model_cases.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

struct ids {
    int32_t id[MOST];
    uint64_t offset[MOST];
    size_t n;
};

static txl_status take(void *context, const txl_symbol *symbol, txl_error *error) {
    struct ids *ids = context;
    (void)error;
    if (!symbol->text)
        return TXL_OK;
    assert_true(ids->n < MOST);
    ids->offset[ids->n] = symbol->offset;
    ids->id[ids->n++] = symbol->id;
    return TXL_OK;
}

static void encode(const txl_model *model, const char *text, bool prompt, struct ids *ids) {
    const txl_encoding how = {.prompt = prompt, .lookup = true, .symbol = take, .context = ids};
    txl_encoder *encoder;
    txl_error error;
    assert_int_equal(txl_encoder_new(model, &how, &encoder, &error), TXL_OK);
    assert_int_equal(txl_encoder_feed(encoder, text, strlen(text), &error), TXL_OK);
    assert_int_equal(txl_encoder_finish(encoder, &error), TXL_OK);
    txl_encoder_free(encoder);
}

/* The nats of the ids after `known` of them, and the entropy before each. */
static void score(const struct model_case *c, const struct ids *ids, size_t known, double *nats,
                  double *entropy) {
    size_t n_token = (size_t)txl_model_n_token(c->model);
    float *logprob = calloc(ids->n, n_token * sizeof *logprob);
    txl_error error;
    txl_session *session = case_session(c, NULL);
    assert_non_null(logprob);
    assert_int_equal(txl_session_distributions(session, ids->id, ids->n - 1, logprob, &error),
                     TXL_OK);
    for (size_t i = known; i < ids->n; i++) {
        const float *row = logprob + (i - 1) * n_token;
        nats[i - known] = -(double)row[ids->id[i]];
        entropy[i - known] = 0;
        for (size_t k = 0; k < n_token; k++)
            entropy[i - known] -= exp((double)row[k]) * (double)row[k];
    }
    free(logprob);
    txl_session_free(session);
}

/* The rows of the table that the program writes for `arguments`, one object each. */
static json_t *run(const char *model, const char *items, const char *arguments) {
    char command[2048], line[4096], table[512];
    snprintf(table, sizeof table, "%s", scratch_path("rows.jsonl"));
    FILE *file = fopen(scratch_path("items.csv"), "w");
    assert_non_null(file);
    fputs(items, file);
    assert_int_equal(fclose(file), 0);
    snprintf(command, sizeof command, "'%s' surprisal --quiet --model '%s' '%s' %s='%s' >/dev/null",
             getenv("TXL"), model, scratch_path("items.csv"), arguments, table);
    remove(table); /* which may be of another level */
    assert_int_equal(system(command), 0);
    json_t *rows = json_array();
    file = fopen(table, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        assert_int_equal(json_array_append_new(rows, json_loads(line, 0, NULL)), 0);
    fclose(file);
    return rows;
}

static double value(const json_t *rows, size_t i, const char *key) {
    return json_number_value(json_object_get(json_array_get(rows, i), key));
}

static void assert_near(double a, double b) {
    if (!(fabs(a - b) < 2e-4)) /* the division into calls rounds differently */
        fail_msg("%.9g is not %.9g", a, b);
}

/* The text "of all |clean fowls" after what is before it. */
static void check(const char *name, const char *before, const char *context, const char *option) {
    struct model_case c;
    struct ids ids = {.n = 0};
    double nats[MOST], entropy[MOST], regions[3] = {0};
    char path[512], items[256], arguments[256], joined[256];
    snprintf(path, sizeof path, "%s", scratch_path("model.txl"));
    case_convert(name, NULL, -1, path);
    case_open(&c, name, NULL, -1);
    ids.id[ids.n++] = txl_model_first_context(c.model);
    snprintf(joined, sizeof joined, "%s%s%s", before, *before && *context ? " " : "", context);
    encode(c.model, joined, true, &ids);
    size_t known = ids.n;
    struct ids whole = {.n = 0};
    snprintf(joined + strlen(joined), sizeof joined - strlen(joined), "%sof all clean fowls",
             *joined ? " " : "");
    size_t begin = strlen(joined) - strlen("of all clean fowls");
    encode(c.model, joined, false, &whole);
    /* Characters have the blank between as a symbol of its own, which is before the text. */
    known = 1;
    while (whole.offset[known - 1] < begin)
        known++;
    for (size_t i = 0; i < whole.n; i++) {
        ids.id[1 + i] = whole.id[i];
        ids.offset[1 + i] = whole.offset[i];
    }
    ids.n = whole.n + 1;
    score(&c, &ids, known, nats, entropy);
    for (size_t i = known; i < ids.n; i++) {
        /* The blank before a region's first byte is that region's. */
        bool second = ids.offset[i] + 1 >= begin + strlen("of all ");
        regions[i + 1 == ids.n ? 0 : second ? 2 : 1] += nats[i - known];
    }
    snprintf(items, sizeof items, "item,condition,text,context\n1,a,of all |clean fowls,%s\n",
             context);
    snprintf(arguments, sizeof arguments, "%s --per region", option);
    json_t *rows = run(path, items, arguments);
    assert_int_equal(json_array_size(rows), 2);
    assert_near(value(rows, 0, "nats"), regions[1]);
    assert_near(value(rows, 1, "nats"), regions[2]);
    json_decref(rows);
    snprintf(arguments, sizeof arguments, "%s --per text", option);
    rows = run(path, items, arguments);
    assert_int_equal(json_array_size(rows), 1);
    assert_near(value(rows, 0, "nats"), regions[1] + regions[2]);
    assert_near(value(rows, 0, "bits_end") * log(2), regions[0]);
    json_decref(rows);
    snprintf(arguments, sizeof arguments, "%s --entropy --per word", option);
    rows = run(path, items, arguments);
    size_t at = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        size_t next = at + (size_t)value(rows, i, "tokens");
        double sum = 0;
        for (size_t k = at; k < next; k++)
            sum += nats[k];
        assert_near(value(rows, i, "nats"), sum);
        assert_near(value(rows, i, "entropy"), entropy[at]);
        if (next < ids.n - known)
            assert_near(value(rows, i, "reduction"), entropy[at] - entropy[next]);
        at = next;
    }
    assert_int_equal(at + 1, ids.n - known); /* but for what closes the text */
    json_decref(rows);
    case_close(&c);
}

TEST(items_are_scored_as_the_library_scores) {
    static const char *const names[] = {"wt103-zip", "characters"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        check(names[i], "", "", "");
        check(names[i], "", "Ye may eat", "");
        check(names[i], "Ye may", "", "--context-text 'Ye may'");
        check(names[i], "Ye may", "eat", "--context-text 'Ye may'");
    }
}

/* Bars part a text; a seam keeps one blank, the space if there is one, between two words alone. */
TEST(bars_part_a_text) {
    static const char *const cases[][2] = {
        {"a\\|", "a|"},     {"a\\", "a\\"},       {"| a", "/a"},  {"a\t| b", "a/ b"},
        {"a |\tb", "a/ b"}, {"a\t|\tb", "a/\tb"}, {"a | ", "a/"}, {"a|b", "a/b"},
        {"a||b", "a//b"},   {"a \n| b", "a/\nb"},
    };
    struct regions regions = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char parts[64] = "";
        assert_true(regions_part(&regions, cases[i][0], strlen(cases[i][0])));
        for (size_t k = 1, begin = 0; k < regions.n; begin = regions.list[k++].end)
            snprintf(parts + strlen(parts), sizeof parts - strlen(parts), "%s%.*s",
                     k > 1 ? "/" : "", (int)(regions.list[k].end - begin),
                     regions.text.data + begin);
        assert_string_equal(parts, cases[i][1]);
    }
    regions_free(&regions);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
