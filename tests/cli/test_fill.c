/* `txl fill` against the plainest way to the same: it asks for one gap at a time, through txl.h. */
#include "tests/model_cases.h"
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MASK = 6, MOST = 512 };

struct way {
    bool surest;
    int clamp_len; /* < 0: the model's */
};

/* What the plain way met. */
struct met {
    size_t ties, beyond; /* choices among equally sure gaps, and of one behind 64 others */
};

static char model_path[4096], text_path[4096];
static txl_model *model;
static float *logprob; /* [n_token] */

static float surest(const int32_t *banned, size_t n_banned) {
    float best = -INFINITY;
    for (int32_t id = 0; id < txl_model_n_token(model); id++) {
        bool allowed = true;
        for (size_t i = 0; i < n_banned; i++)
            allowed = allowed && banned[i] != id;
        if (allowed && logprob[id] > best)
            best = logprob[id];
    }
    return best;
}

/* The next gap, the first of equals. */
static size_t choose(txl_session *session, const int32_t *ids, size_t n, const struct way *way,
                     const txl_sampling *sampling, struct met *met) {
    float best = -INFINITY;
    size_t next = n, open = 0, rank = 0;
    txl_error error;
    bool tie = false;
    for (size_t i = 0; i < n && (way->surest || next == n); i++) {
        if (ids[i] != TXL_GAP)
            continue;
        assert_int_equal(txl_session_ask(session, &i, 1, logprob, &error), TXL_OK);
        float sure = surest(sampling->banned, sampling->n_banned);
        if (sure > best) {
            best = sure;
            next = i;
            rank = open;
            tie = false;
        } else if (sure == best) {
            tie = true;
        }
        open++;
    }
    met->ties += tie;
    met->beyond += rank >= 64;
    return next;
}

static void fill_plainly(int32_t *ids, size_t n, const struct way *way, struct met *met) {
    txl_session *session;
    txl_settings settings;
    txl_error error;
    txl_random random = {0};
    float chosen;
    txl_model_defaults(model, &settings);
    settings.tgt_len = MOST;
    if (way->clamp_len >= 0)
        settings.clamp_len = way->clamp_len;
    assert_int_equal(txl_session_new(model, &settings, &session, &error), TXL_OK);
    txl_sampling sampling = {0};
    sampling.banned = txl_model_banned(model, &sampling.n_banned);
    assert_int_equal(txl_session_feed_gaps(session, ids, n, &error), TXL_OK);
    for (size_t gap; (gap = choose(session, ids, n, way, &sampling, met)) < n;) {
        assert_int_equal(txl_session_ask(session, &gap, 1, NULL, &error), TXL_OK);
        assert_int_equal(
            txl_session_sample(session, &sampling, &random, &ids[gap], &chosen, &error), TXL_OK);
        assert_int_equal(txl_session_fill(session, gap, ids[gap], &error), TXL_OK);
    }
    txl_session_free(session);
}

static void fill_by_program(int32_t *ids, size_t n, const struct way *way) {
    char command[16384];
    FILE *file = fopen(text_path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < n; i++)
        fprintf(file, "%d ", ids[i] == TXL_GAP ? MASK : (int)ids[i]);
    fclose(file);
    int length = snprintf(command, sizeof command,
                          "%s fill --model %s --ids --quiet --tgt-len %d --order %s ",
                          getenv("TXL"), model_path, MOST, way->surest ? "surest" : "left");
    if (way->clamp_len >= 0)
        length += snprintf(command + length, sizeof command - (size_t)length, "--clamp-len %d ",
                           way->clamp_len);
    snprintf(command + length, sizeof command - (size_t)length, "%s", text_path);
    file = popen(command, "r");
    assert_non_null(file);
    for (size_t i = 0; i < n; i++) {
        int id;
        assert_int_equal(fscanf(file, "%d", &id), 1);
        ids[i] = id;
    }
    assert_int_equal(pclose(file), 0);
}

/* Each ? is a gap, and each letter a known id. */
static void read_pattern(const char *pattern, int32_t *ids) {
    for (size_t i = 0; pattern[i] != '\0'; i++)
        ids[i] = pattern[i] == '?' ? TXL_GAP : 20 + (pattern[i] - 'a') * 7;
}

/* Fills the gaps in both ways. */
static void check(const char *pattern, const struct way *way, struct met *met) {
    int32_t plain[MOST], program[MOST];
    size_t n = strlen(pattern);
    read_pattern(pattern, plain);
    read_pattern(pattern, program);
    fill_plainly(plain, n, way, met);
    fill_by_program(program, n, way);
    assert_memory_equal(plain, program, n * sizeof *plain);
}

static int open_model(void **state) {
    txl_error error;
    (void)state;
    snprintf(model_path, sizeof model_path, "%s", scratch_path("fill.txl"));
    snprintf(text_path, sizeof text_path, "%s", scratch_path("fill.txt"));
    case_convert("xlnet/base-zip", NULL, -1, model_path);
    if (txl_model_open(model_path, 0, &model, &error))
        return -1;
    logprob = calloc((size_t)txl_model_n_token(model), sizeof *logprob);
    return logprob ? 0 : -1;
}

static int close_model(void **state) {
    (void)state;
    free(logprob);
    txl_model_close(model);
    return unlink(model_path) + unlink(text_path);
}

/* More gaps than are asked for at a time, and as many. */
TEST(the_surest_of_many_is_next) {
    char pattern[240] = "";
    struct met met = {0};
    for (size_t n = 63; n < 80; n += n < 66 ? 1 : 13) {
        size_t length = 0;
        for (size_t i = 0; i < n; i++) {
            pattern[length++] = '?';
            if (i % 3 == 0 || i > 64)
                pattern[length++] = (char)('a' + i * i % 23);
        }
        pattern[length] = '\0';
        check(pattern, &(struct way){.surest = true, .clamp_len = -1}, &met);
    }
    assert_true(met.beyond > 0);
}

/* Where all tokens seem equally far, the gaps are equally sure. */
TEST(the_first_of_equals_is_next) {
    struct met met = {0};
    check("???abc", &(struct way){.surest = true, .clamp_len = 1}, &met);
    check("def????", &(struct way){.surest = true, .clamp_len = 1}, &met);
    assert_true(met.ties > 0);
}

int main(void) {
    return cmocka_run_group_tests(tests, open_model, close_model);
}
