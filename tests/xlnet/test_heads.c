/* The heads of a fine-tuned XLNet give the reference implementation's numbers, whatever the threads
 * and whichever inputs are read together; and what is not fit for a head is refused. */
#include "lib/session/model.h"
#include "lib/xlnet/xlnet.h"
#include "tests/files.h"
#include "tests/model_cases.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* Largest difference of a logit from the reference, which computes in float64: the wrong form of
 * gelu costs 4e-4. */
static const double REFERENCE = 1e-4;
/* Largest difference between two ways to compute the same number. */
static const double AGREEMENT = 2e-5;

static const char *const cases[] = {"two-classes", "pairs",          "regression-2019", "choices",
                                    "words",       "answers-simple", "answers-beams",   NULL};

/* ---- A case ------------------------------------------------------------------------------- */

struct head_case {
    json_t *expect;
    txl_model *model;
    txl_session *session;
    txl_input *inputs;     /* [n]: all inputs of all items */
    const json_t **wanted; /* [n]: what they are expected to give: logits, or a window */
    size_t n;
};

static txl_session *new_session(const txl_model *model, int threads) {
    txl_settings settings;
    txl_session *session;
    txl_error error;
    txl_model_defaults(model, &settings);
    settings.mem_len = 0;
    settings.threads = threads;
    assert_good(txl_session_new(model, &settings, &session, &error), &error);
    return session;
}

static void add_input(struct head_case *c, const json_t *ids, const json_t *segments,
                      const json_t *wanted) {
    const size_t n = json_array_size(ids);
    int32_t *id = calloc(n + 1, sizeof *id);
    uint8_t *segment = calloc(n + 1, 1);
    c->inputs = realloc(c->inputs, (c->n + 1) * sizeof *c->inputs);
    c->wanted = realloc(c->wanted, (c->n + 1) * sizeof *c->wanted);
    assert_true(id && segment && c->inputs && c->wanted);
    for (size_t i = 0; i < n; i++) {
        id[i] = (int32_t)json_integer_value(json_array_get(ids, i));
        segment[i] = (uint8_t)json_integer_value(json_array_get(segments, i));
    }
    c->inputs[c->n] = (txl_input){.ids = id, .segments = segment, .n = n};
    c->wanted[c->n++] = wanted;
}

static void add_item(struct head_case *c, const json_t *item) {
    const json_t *windows = json_object_get(item, "windows"), *ids = json_object_get(item, "ids"),
                 *logits = json_object_get(item, "logits");
    size_t i;
    json_t *part;
    if (windows) {
        json_array_foreach(windows, i, part)
            add_input(c, json_object_get(part, "ids"), json_object_get(part, "segments"), part);
    } else if (json_object_get(item, "choice")) {
        json_array_foreach(ids, i, part)
            add_input(c, part, json_array_get(json_object_get(item, "segments"), i),
                      json_array_get(logits, i));
    } else {
        add_input(c, ids, json_object_get(item, "segments"), logits);
    }
}

static void open_case(struct head_case *c, const char *name, const char *type) {
    char path[4096], folder[64];
    size_t i;
    json_t *item;
    txl_error error;
    *c = (struct head_case){0};
    snprintf(folder, sizeof folder, "xlnet-heads/%s", name);
    snprintf(path, sizeof path, "%s", scratch_path("head.txl"));
    case_convert(folder, type, 0, path);
    assert_good(txl_model_open(path, 1, &c->model, &error), &error);
    unlink(path);
    c->expect = json_load_file(case_path(folder, "expect.json"), 0, NULL);
    json_array_foreach(json_object_get(c->expect, "items"), i, item) add_item(c, item);
    assert_true(c->n > 0);
    c->session = new_session(c->model, 2);
}

static void close_case(struct head_case *c) {
    for (size_t i = 0; i < c->n; i++) {
        free((void *)c->inputs[i].ids);
        free((void *)c->inputs[i].segments);
    }
    free(c->inputs);
    free(c->wanted);
    json_decref(c->expect);
    txl_session_free(c->session);
    txl_model_close(c->model);
}

/* ---- Numbers ------------------------------------------------------------------------------ */

/* The numbers of nested lists, one after the other. */
static size_t flatten(const json_t *value, float *out) {
    size_t n = 0, i;
    json_t *part;
    if (!json_is_array(value)) {
        *out = (float)json_number_value(value);
        return 1;
    }
    json_array_foreach(value, i, part) n += flatten(part, out + n);
    return n;
}

static void assert_close(const char *what, size_t n, const float *a, const float *b, double most) {
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= most))
            fail_msg("%s: number %zu is %.7g, not %.7g", what, i, (double)a[i], (double)b[i]);
}

/* What is expected of the inputs from `first` on, as the library gives it; returns how many. */
static size_t expected(const struct head_case *c, size_t first, size_t n, float *out) {
    size_t k = 0;
    for (size_t i = first; i < first + n; i++) {
        const json_t *start = json_object_get(c->wanted[i], "start_logits"),
                     *end = json_object_get(c->wanted[i], "end_logits");
        for (size_t j = 0; end && j < c->inputs[i].n; j++) {
            out[k++] = (float)json_real_value(json_array_get(start, j));
            out[k++] = (float)json_real_value(json_array_get(end, j));
        }
        if (!start)
            k += flatten(c->wanted[i], out + k);
    }
    return k;
}

enum { MOST_NUMBERS = 1 << 16 };

/* The logits of inputs that are read together. */
static void run_together(const struct head_case *c, txl_session *session, size_t first, size_t n,
                         float *out) {
    const txl_input *inputs = c->inputs + first;
    txl_error error;
    txl_status status = TXL_OK;
    switch (txl_model_head(c->model)) {
    case TXL_HEAD_TOKENS:
        status = txl_session_classify_tokens(session, inputs, n, out, &error);
        break;
    case TXL_HEAD_SPANS:
        status = txl_session_spans(session, inputs, n, out, &error);
        break;
    default:
        status = txl_session_classify(session, inputs, n, out, &error);
    }
    assert_good(status, &error);
}

static void check_beams(const struct head_case *c, size_t i) {
    const json_t *want = c->wanted[i];
    const size_t text = (size_t)json_integer_value(json_object_get(want, "length"));
    const json_t *starts = json_object_get(want, "start_top"),
                 *ends = json_object_get(want, "end_top");
    static float logits[MOST_NUMBERS];
    const txl_beams *b;
    txl_error error;
    assert_good(txl_session_beams(c->session, &c->inputs[i], text, &b, &error), &error);
    flatten(json_object_get(want, "start_logits"), logits);
    assert_close("starts", c->inputs[i].n, b->start_logits, logits, REFERENCE);
    assert_true(fabs((double)b->no_answer - number_of(want, "cls_logit")) <= REFERENCE);
    assert_int_equal(json_array_size(starts), b->n_start);
    for (size_t k = 0; k < b->n_start; k++) {
        const json_t *start = json_array_get(starts, k), *own = json_array_get(ends, k);
        assert_int_equal(json_integer_value(json_array_get(start, 0)), b->start[k]);
        assert_true(fabs(exp(b->start_logprob[k]) - json_real_value(json_array_get(start, 1))) <=
                    REFERENCE);
        assert_int_equal(json_array_size(own), b->n_end);
        for (size_t l = 0; l < b->n_end; l++) {
            const json_t *end = json_array_get(own, l);
            assert_int_equal(json_integer_value(json_array_get(end, 0)), b->end[k * b->n_end + l]);
            assert_true(fabs(exp(b->end_logprob[k * b->n_end + l]) -
                             json_real_value(json_array_get(end, 1))) <= REFERENCE);
        }
    }
    txl_beams_free(b);
}

/* ---- Tests -------------------------------------------------------------------------------- */

TEST(the_reference_is_met) {
    static float got[MOST_NUMBERS], want[MOST_NUMBERS];
    for (size_t k = 0; cases[k]; k++) {
        struct head_case c;
        open_case(&c, cases[k], NULL);
        assert_string_equal(txl_head_name(txl_model_head(c.model)),
                            json_string_value(json_object_get(c.expect, "head")));
        for (size_t i = 0; i < c.n; i++) {
            if (txl_model_head(c.model) == TXL_HEAD_BEAMS) {
                check_beams(&c, i);
                continue;
            }
            run_together(&c, c.session, i, 1, got);
            assert_close(cases[k], expected(&c, i, 1, want), got, want, REFERENCE);
        }
        close_case(&c);
    }
}

/* Inputs see nothing of each other, also where one goes over the end of a product's rows. */
TEST(inputs_can_be_read_together) {
    static float together[MOST_NUMBERS], alone[MOST_NUMBERS], threads[MOST_NUMBERS];
    for (size_t k = 0; k + 2 < sizeof cases / sizeof *cases; k++) {
        struct head_case c;
        open_case(&c, cases[k], NULL);
        size_t rows = 0, n = 0;
        while (n < c.n && rows + c.inputs[n].n <= 512)
            rows += c.inputs[n++].n;
        assert_true(n > 1);
        txl_session *other = new_session(c.model, 3);
        run_together(&c, c.session, 0, n, together);
        run_together(&c, other, 0, n, threads);
        const size_t count = expected(&c, 0, n, alone);
        assert_memory_equal(together, threads, count * sizeof *threads);
        for (size_t i = 0, at = 0; i < n; i++) {
            run_together(&c, c.session, i, 1, alone + at);
            at += expected(&c, i, 1, threads);
        }
        assert_close(cases[k], count, together, alone, AGREEMENT);
        txl_session_free(other);
        close_case(&c);
    }
}

/* The order of segments counts, so the term of segments is there; their numbers do not. */
TEST(segments_are_same_or_other) {
    struct head_case c;
    float first[8], second[8];
    txl_error error;
    open_case(&c, "pairs", NULL);
    txl_input input = c.inputs[0];
    uint8_t *segments = (uint8_t *)input.segments;
    run_together(&c, c.session, 0, 1, first);
    for (size_t i = 0; i < input.n; i++)
        segments[i] = (uint8_t)(200 - segments[i]);
    assert_good(txl_session_classify(c.session, &input, 1, second, &error), &error);
    assert_close("renamed", 3, first, second, 0);
    memset(segments, 7, input.n);
    assert_good(txl_session_classify(c.session, &input, 1, second, &error), &error);
    double most = 0;
    for (size_t i = 0; i < 3; i++)
        most = fmax(most, fabs((double)first[i] - (double)second[i]));
    assert_true(most > 0.3); /* thousands of times what rounding costs */
    close_case(&c);
}

/* Hidden rows are those that the head sees: of the last one follow the pair's logits. */
TEST(hidden_rows_can_be_had) {
    struct head_case c;
    txl_error error;
    float want[8], got[8];
    open_case(&c, "pairs", NULL);
    const struct xlnet *net = (const struct xlnet *)c.model->network;
    const size_t d = (size_t)net->d_model;
    float *rows = calloc((c.inputs[0].n + c.inputs[1].n) * d, sizeof *rows);
    assert_good(txl_session_hidden(c.session, c.inputs, 2, rows, &error), &error);
    for (size_t k = 0; k < 2; k++) {
        const float *last = rows + (c.inputs[0].n + k * c.inputs[1].n - 1) * d;
        const float *w = net->head.summary.data, *v = net->head.logits.data;
        for (size_t l = 0; l < 3; l++)
            got[l] = net->head.logits_bias[l];
        for (size_t i = 0; i < d; i++) {
            double sum = (double)net->head.summary_bias[i];
            for (size_t j = 0; j < d; j++)
                sum += (double)w[i * d + j] * (double)last[j];
            for (size_t l = 0; l < 3; l++)
                got[l] += v[l * d + i] * (float)tanh(sum);
        }
        assert_close("hidden", expected(&c, k, 1, want), got, want, REFERENCE);
    }
    free(rows);
    close_case(&c);
}

/* Of equally likely starts and ends the first come first; there are no more than places. */
TEST(ties_go_to_the_first) {
    char path[4096];
    size_t size;
    txl_model *model;
    txl_error error;
    const txl_beams *b;
    snprintf(path, sizeof path, "%s", scratch_path("ties.txl"));
    case_convert("xlnet-heads/answers-beams", "f32", 0, path);
    void *file = read_file(path, &size);
    unlink(path);
    assert_good(txl_model_open_memory(file, size, "ties", 1, &model, &error), &error);
    const struct xlnet *net = (const struct xlnet *)model->network; /* in `file`, as it is raw */
    memset((void *)net->head.logits.data, 0, (size_t)net->d_model * sizeof(float));
    memset((void *)net->head.end.data, 0, (size_t)net->d_model * sizeof(float));
    txl_session *session = new_session(model, 1);
    static const int32_t ids[] = {20, 21, 22, 23, 24, 25, 26, 4, 30, 4, 3};
    static const uint8_t segments[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2};
    const txl_input input = {.ids = ids, .segments = segments, .n = 11};
    assert_good(txl_session_beams(session, &input, 7, &b, &error), &error);
    assert_int_equal(b->n_start, 5);
    assert_int_equal(b->n_end, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(b->start[i], i);
        assert_int_equal(b->end[5 + i], i);
        assert_true(fabs(b->start_logprob[i] + log(8)) < 1e-9);
    }
    txl_beams_free(b);
    assert_good(txl_session_beams(session, &input, 1, &b, &error), &error);
    assert_int_equal(b->n_start, 2);
    assert_int_equal(b->start[1], 10);
    txl_beams_free(b);
    assert_int_equal(txl_session_beams(session, &input, 11, &b, &error), TXL_ARGUMENT);
    txl_session_free(session);
    txl_model_close(model);
    free(file);
}

/* Heads stay in f32, and answer much the same over 8-bit and 4-bit weights; compressed layers give
 * the same bits. */
TEST(narrow_weights_leave_heads_alone) {
    static const char *const types[] = {"q8", "q4", "f16"};
    char path[4096];
    float want[8], got[8];
    for (size_t k = 0; k < 3; k++) {
        struct head_case c;
        txl_tensor tensor;
        txl_error error;
        txl_model *compressed;
        int heads = 0;
        open_case(&c, "words", types[k]);
        for (size_t i = 0; i < txl_model_n_tensor(c.model); i++) {
            txl_model_tensor(c.model, i, &tensor);
            if (strncmp(tensor.name, "head.", 5) == 0) {
                assert_string_equal(tensor.type, "f32");
                heads++;
            }
        }
        assert_int_equal(heads, 2);
        close_case(&c);
        open_case(&c, "pairs", types[k]);
        run_together(&c, c.session, 0, 1, got);
        assert_close(types[k], expected(&c, 0, 1, want), got, want, k == 1 ? 1 : 0.1);
        snprintf(path, sizeof path, "%s", scratch_path("compressed.txl"));
        assert_good(txl_model_write(c.model, path, types[k], 1, &error), &error);
        assert_good(txl_model_open_compressed(path, 1, &compressed, &error), &error);
        unlink(path);
        assert_true(txl_model_head(compressed) == TXL_HEAD_SEQUENCE &&
                    !txl_model_is_language_model(compressed));
        assert_string_equal(txl_model_label(compressed, 2), "contradiction");
        txl_session *session = new_session(compressed, 2);
        assert_good(txl_session_classify(session, c.inputs, 1, want, &error), &error);
        assert_memory_equal(want, got, 3 * sizeof *got);
        txl_session_free(session);
        txl_model_close(compressed);
        close_case(&c);
    }
}

/* ---- Refusals ----------------------------------------------------------------------------- */

static void assert_refused(txl_status status, txl_status expected_status, const txl_error *error,
                           const char *part) {
    assert_int_equal(status, expected_status);
    if (!strstr(error->message, part))
        fail_msg("'%s' does not say '%s'", error->message, part);
}

TEST(what_fits_no_head_is_refused) {
    struct head_case c;
    txl_error error;
    float out[64], nats[1];
    const txl_beams *b;
    open_case(&c, "pairs", NULL);
    txl_session *s = c.session;
    txl_input input = c.inputs[0], none = {.ids = input.ids, .segments = input.segments};
    const int32_t wrong[] = {5, 340};
    txl_input outside = {.ids = wrong, .segments = input.segments, .n = 2},
              unknown = {.ids = wrong, .segments = input.segments, .n = 1, .reserved = {0, 1}};
    assert_refused(txl_session_classify(s, &none, 1, out, &error), TXL_ARGUMENT, &error,
                   "1 to 512");
    assert_refused(txl_session_classify(s, &input, 0, out, &error), TXL_ARGUMENT, &error,
                   "no input");
    assert_refused(txl_session_classify(s, &outside, 1, out, &error), TXL_ARGUMENT, &error,
                   "id 340 is not from 0 to 339");
    assert_refused(txl_session_classify(s, &unknown, 1, out, &error), TXL_ARGUMENT, &error,
                   "txl_input");
    input.n = 513;
    assert_refused(txl_session_classify(s, &input, 1, out, &error), TXL_ARGUMENT, &error,
                   "1 to 512");
    assert_refused(txl_session_classify_tokens(s, c.inputs, 1, out, &error), TXL_UNSUPPORTED,
                   &error, "its head is \"sequence-classification\", not \"token-classification\"");
    assert_refused(txl_session_spans(s, c.inputs, 1, out, &error), TXL_UNSUPPORTED, &error,
                   "question-answering-simple");
    assert_refused(txl_session_beams(s, c.inputs, 1, &b, &error), TXL_UNSUPPORTED, &error,
                   "question-answering");
    assert_refused(txl_session_feed(s, wrong, 1, &error), TXL_UNSUPPORTED, &error,
                   "no language model: its head is \"sequence-classification\"");
    assert_refused(txl_session_score(s, wrong, 1, wrong, nats, &error), TXL_UNSUPPORTED, &error,
                   "no language model");
    assert_refused(txl_session_feed_block(s, wrong, 1, &error), TXL_UNSUPPORTED, &error,
                   "no language model");
    assert_refused(txl_session_feed_gaps(s, wrong, 1, &error), TXL_UNSUPPORTED, &error,
                   "no language model");
    txl_beams_free(NULL);
    close_case(&c);
}

/* A language model has no head; a model with both has both. */
TEST(a_model_may_have_both) {
    static const char settings[] =
        "{\"family\": \"xlnet\", \"tokenizer\": \"words\", \"lower_case\": false, \"unk_id\": null,"
        " \"eos_id\": null, \"n_token\": 40, \"n_layer\": 2, \"n_head\": 2, \"d_head\": 4,"
        " \"d_model\": 8, \"d_inner\": 12, \"ff_activation\": \"relu\", \"attn_type\": \"%s\","
        " \"layer_norm_eps\": 1e-12, \"tied_weights\": true, \"memory_start\": \"empty\","
        " \"tgt_len\": 16, \"mem_len\": 0, \"clamp_len\": %d, \"same_length\": false%s}";
    static const char head[] = ", \"head\": \"token-classification\", \"labels\": [\"a\", \"b\"]";
    const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const uint8_t segments[12] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2};
    const txl_input inputs[] = {{.ids = ids, .segments = segments, .n = 12},
                                {.ids = ids, .segments = segments, .n = 7}};
    for (int k = 0; k < 3; k++) {
        char text[1024];
        txl_model *model;
        txl_error error;
        float logits[24], part[14], nats[1];
        snprintf(text, sizeof text, settings, k == 2 ? "uni" : "bi", k == 1 ? 3 : -1,
                 k == 0 ? "" : head);
        assert_good(txl_model_random(text, "f32", 1, 1, &model, &error), &error);
        txl_session *s = new_session(model, 1);
        assert_good(txl_session_score(s, ids, 1, ids + 1, nats, &error), &error);
        assert_true(txl_model_is_language_model(model));
        if (k == 0) {
            assert_refused(txl_session_classify_tokens(s, inputs, 1, logits, &error),
                           TXL_UNSUPPORTED, &error, "its head is \"none\"");
        } else {
            assert_good(txl_session_classify_tokens(s, inputs, 1, logits, &error), &error);
            assert_good(txl_session_classify_tokens(s, inputs + 1, 1, part, &error), &error);
            /* With uni a row does not change by what comes after it. */
            assert_int_equal(fabs((double)part[0] - (double)logits[0]) < 1e-6, k == 2);
            /* The session is at its beginning. */
            float again;
            assert_good(txl_session_score(s, ids, 1, ids + 1, &again, &error), &error);
            assert_true(again == nats[0]);
        }
        txl_session_free(s);
        txl_model_close(model);
    }
}

static const struct wrong_head {
    const char *settings, *message;
} wrong_heads[] = {
    {"\"language_model\": false", "neither a language model nor a head"},
    {"\"head\": \"sequence\"", "\"head\""},
    {"\"head\": \"token-classification\"", "\"labels\" is missing"},
    {"\"labels\": [\"a\"]", "\"labels\" is there, but the head is none"},
    {"\"head\": \"token-classification\", \"labels\": []", "\"labels\""},
    {"\"head\": \"token-classification\", \"labels\": {\"0\": \"a\"}", "\"labels\""},
    {"\"head\": \"token-classification\", \"labels\": [\"a\", 1]", "\"labels\""},
    {"\"head\": \"token-classification\", \"labels\": [\"a\\nb\"]", "control characters"},
    {"\"head\": \"token-classification\", \"labels\": [\"\"]", "\"labels\""},
    {"\"head\": \"token-classification\", \"labels\": [\"a\"], \"multi_label\": true",
     "\"multi_label\" is there"},
    {"\"head\": \"sequence-classification\", \"labels\": [\"a\"]", "\"summary\" is missing"},
    {"\"head\": \"sequence-classification\", \"labels\": [\"a\"], \"summary\": \"attn\"",
     "\"summary\""},
    {"\"head\": \"multiple-choice\", \"summary\": \"last\", \"labels\": [\"a\"]",
     "\"labels\" is there"},
    {"\"head\": \"question-answering-simple\", \"summary_projected\": true",
     "\"summary_projected\" is there"},
    {"\"head\": \"question-answering-simple\", \"start_n_top\": 5", "\"start_n_top\" is there"},
    {"\"head\": \"question-answering\", \"start_n_top\": 5", "\"end_n_top\" is missing"},
    {"\"head\": \"question-answering\", \"start_n_top\": 4097, \"end_n_top\": 5", "0 to 4096"},
};

TEST_EACH(wrong_settings_are_refused, wrong_heads) {
    static const char settings[] =
        "{\"family\": \"xlnet\", \"tokenizer\": \"words\", \"lower_case\": false, \"unk_id\": null,"
        " \"eos_id\": null, \"n_token\": 40, \"n_layer\": 1, \"n_head\": 2, \"d_head\": 4,"
        " \"d_model\": 8, \"d_inner\": 12, \"ff_activation\": \"relu\", \"attn_type\": \"bi\","
        " \"layer_norm_eps\": 1e-12, \"tied_weights\": true, \"memory_start\": \"empty\","
        " \"tgt_len\": 16, \"mem_len\": 0, \"clamp_len\": -1, \"same_length\": false, %s}";
    char text[1024];
    txl_model *model;
    txl_error error;
    snprintf(text, sizeof text, settings, row->settings);
    assert_refused(txl_model_random(text, "f32", 1, 1, &model, &error), TXL_ARGUMENT, &error,
                   row->message);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
