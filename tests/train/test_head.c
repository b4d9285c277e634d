/* Training of a head: its gradients against finite differences in float64, Adam's first steps, any
 * number of threads; the file that it writes has the body's bytes; and rows in files. */
#include "lib/network/family.h"
#include "lib/session/model.h"
#include "lib/train/head.h"
#include "lib/weights/weights.h"
#include "tests/files.h"
#include "tests/kernels_at.h"
#include "tests/model_cases.h"

#include <math.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

static const char *const names[] = {"negative", "neutral", "positive"};

/* A body of this width; nothing of it counts but that. */
static txl_model *new_body_of(int d_model, int n_token) {
    char text[1024];
    txl_model *model;
    txl_error error;
    snprintf(text, sizeof text,
             "{\"family\": \"xlnet\", \"tokenizer\": \"words\", \"lower_case\": false, \"unk_id\": "
             "null, \"eos_id\": null, \"n_token\": %d, \"n_layer\": 1, \"n_head\": 2, \"d_head\": "
             "4, \"d_model\": %d, \"d_inner\": 12, \"ff_activation\": \"relu\", \"attn_type\": "
             "\"bi\", \"layer_norm_eps\": 1e-12, \"tied_weights\": true, \"memory_start\": "
             "\"empty\", \"tgt_len\": 16, \"mem_len\": 0, \"clamp_len\": -1, \"same_length\": "
             "false}",
             n_token, d_model);
    assert_good(txl_model_random(text, "f32", 1, 1, &model, &error), &error);
    return model;
}

static txl_model *new_body(int d_model) {
    return new_body_of(d_model, 40);
}

static const txl_head_training usual = {
    .n_label = 3, .batch = 5, .rate = 1e-3, .epsilon = 1e-8, .decay = 0.01, .threads = 2};

static txl_head_trainer *new_trainer(const txl_model *model, const txl_head_training *how) {
    txl_head_trainer *t;
    txl_error error;
    assert_good(txl_head_trainer_new(model, how, &t, &error), &error);
    return t;
}

/* Numbers between -1 and 1. */
static void fill(size_t n, unsigned seed, float *x) {
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / (float)(1 << 23) - 1;
    }
}

static void step(txl_head_trainer *t, const float *rows, const int32_t *labels, size_t n,
                 double *nats) {
    txl_error error;
    assert_good(txl_head_trainer_step(t, rows, labels, n, nats, &error), &error);
}

/* ---- Gradients ---------------------------------------------------------------------------- */

/* The logits of a row, by weights that lie as the trainer's do. */
static void logits_of(const double *w, size_t d, size_t n_label, const float *x, double *z) {
    const double *bias = w + d * d, *last = bias + d, *last_bias = last + n_label * d;
    for (size_t k = 0; k < n_label; k++)
        z[k] = last_bias[k];
    for (size_t i = 0; i < d; i++) {
        double sum = bias[i];
        for (size_t j = 0; j < d; j++)
            sum += w[i * d + j] * (double)x[j];
        for (size_t k = 0; k < n_label; k++)
            z[k] += last[k * d + i] * tanh(sum);
    }
}

enum { D = 8, LABELS = 3, ROWS = 5, WEIGHTS = D * D + D + LABELS * D + LABELS };

static double loss_of(const double *w, const float *rows, const int32_t *labels, double decay) {
    double loss = 0, squares = 0, z[LABELS];
    for (size_t i = 0; i < ROWS; i++) {
        double sum = 0;
        logits_of(w, D, LABELS, rows + i * D, z);
        for (size_t k = 0; k < LABELS; k++)
            sum += exp(z[k]);
        loss += (log(sum) - z[labels[i]]) / ROWS;
    }
    for (size_t i = 0; i < WEIGHTS; i++)
        if (i < D * D || (i >= D * D + D && i < WEIGHTS - LABELS))
            squares += w[i] * w[i];
    return loss + decay / 2 * squares;
}

static const int32_t some_labels[ROWS] = {2, 0, 1, 1, 2};

TEST(gradients_are_those_of_the_loss) {
    txl_model *model = new_body(D);
    for (size_t v = 0; use_kernels(v); v++) {
        txl_model *body = new_body(D);
        txl_head_trainer *t = new_trainer(body, &usual);
        float rows[ROWS * D];
        double w[WEIGHTS];
        fill(ROWS * D, 1, rows);
        assert_int_equal(t->n_weight, WEIGHTS);
        fill(WEIGHTS, 2, t->weight); /* biases too, which are zero at first */
        for (size_t i = 0; i < WEIGHTS; i++)
            w[i] = (double)t->weight[i];
        head_gradient(t, rows + D, some_labels, ROWS - 1); /* nothing of it stays */
        const double nats = head_gradient(t, rows, some_labels, ROWS);
        assert_true(fabs(nats - loss_of(w, rows, some_labels, 0)) < 1e-6);
        for (size_t i = 0; i < WEIGHTS; i++) {
            const double by = 1e-5, at = w[i];
            w[i] = at + by;
            double difference = loss_of(w, rows, some_labels, usual.decay);
            w[i] = at - by;
            difference -= loss_of(w, rows, some_labels, usual.decay);
            w[i] = at;
            if (!(fabs((double)t->gradient[i] - difference / (2 * by)) < 1e-6))
                fail_msg("gradient %zu is %g, not %g", i, (double)t->gradient[i],
                         difference / (2 * by));
        }
        txl_head_trainer_free(t);
        txl_model_close(body);
    }
    txl_model_close(model);
}

/* The steps are Adam's (Kingma and Ba 2015, algorithm 1), of the gradients above. */
TEST(steps_are_those_of_adam) {
    txl_model *model = new_body(D);
    txl_head_trainer *t = new_trainer(model, &usual), *other = new_trainer(model, &usual);
    float rows[ROWS * D];
    double w[WEIGHTS], m[WEIGHTS] = {0}, v[WEIGHTS] = {0}, nats;
    fill(ROWS * D, 1, rows);
    for (size_t i = 0; i < WEIGHTS; i++)
        w[i] = (double)t->weight[i];
    for (int s = 1; s <= 3; s++) {
        for (size_t i = 0; i < WEIGHTS; i++)
            other->weight[i] = (float)w[i];
        head_gradient(other, rows, some_labels, ROWS);
        for (size_t i = 0; i < WEIGHTS; i++) {
            const double g = (double)other->gradient[i];
            m[i] = 0.9 * m[i] + 0.1 * g;
            v[i] = 0.999 * v[i] + 0.001 * g * g;
            w[i] -= 1e-3 * m[i] / (1 - pow(0.9, s)) / (sqrt(v[i] / (1 - pow(0.999, s))) + 1e-8);
        }
        step(t, rows, some_labels, ROWS, &nats);
        for (size_t i = 0; i < WEIGHTS; i++)
            assert_true(fabs((double)t->weight[i] - w[i]) < 2e-5); /* a step moves by 1e-3 */
    }
    txl_head_trainer_free(t);
    txl_head_trainer_free(other);
    txl_model_close(model);
}

TEST(first_weights_are_normal) {
    enum { WIDE = 64 };
    txl_model *model = new_body(WIDE);
    txl_head_training how = usual;
    txl_head_trainer *t = new_trainer(model, &how), *same = new_trainer(model, &how);
    how.seed = 1;
    txl_head_trainer *other = new_trainer(model, &how);
    double sum = 0, squares = 0, beyond = 0;
    for (size_t i = 0; i < WIDE * WIDE; i++) {
        const double x = (double)t->weight[i] / 0.02;
        sum += x;
        squares += x * x;
        beyond += fabs(x) > 2;
    }
    assert_true(fabs(sum / (WIDE * WIDE)) < 0.08); /* five standard errors */
    assert_true(fabs(squares / (WIDE * WIDE) - 1) < 0.12);
    assert_true(fabs(beyond / (WIDE * WIDE) - 0.0455) < 0.017);
    for (size_t i = 0; i < WIDE; i++)
        assert_true(t->weight[summary_bias_at(t) + i] == 0);
    for (size_t i = 0; i < 3; i++)
        assert_true(t->weight[logits_bias_at(t) + i] == 0);
    assert_true(t->weight[logits_at(t)] != 0 && t->weight[logits_bias_at(t) - 1] != 0);
    assert_memory_equal(t->weight, same->weight, t->n_weight * sizeof *t->weight);
    assert_memory_not_equal(t->weight, other->weight, WIDE);
    txl_head_trainer_free(t);
    txl_head_trainer_free(same);
    txl_head_trainer_free(other);
    txl_model_close(model);
}

/* ---- Training ----------------------------------------------------------------------------- */

TEST(threads_change_nothing) {
    enum { WIDE = 200, MANY = 40 };
    txl_model *model = new_body(WIDE);
    static float rows[MANY * WIDE];
    int32_t labels[MANY];
    txl_head_trainer *trainer[3];
    fill(MANY * WIDE, 3, rows);
    for (int i = 0; i < MANY; i++)
        labels[i] = i * 7 % 3;
    for (int k = 0; k < 3; k++) {
        txl_head_training how = usual;
        double nats;
        how.batch = MANY;
        how.threads = k + 1;
        trainer[k] = new_trainer(model, &how);
        for (int s = 0; s < 3; s++)
            step(trainer[k], rows, labels, MANY, &nats);
        assert_memory_equal(trainer[0]->weight, trainer[k]->weight,
                            trainer[0]->n_weight * sizeof(float));
    }
    for (int k = 0; k < 3; k++)
        txl_head_trainer_free(trainer[k]);
    txl_model_close(model);
}

/* What can be told apart is learned, and the logits of more rows than a batch has are theirs. */
TEST(labels_are_learned) {
    txl_model *model = new_body(D);
    txl_head_training how = usual;
    how.decay = 0;
    how.rate = 0.01;
    txl_head_trainer *t = new_trainer(model, &how);
    float rows[3 * ROWS * D], logits[3 * ROWS * LABELS];
    int32_t labels[3 * ROWS];
    double nats = 0, first = 0;
    fill(3 * ROWS * D, 4, rows);
    for (size_t i = 0; i < 3 * ROWS; i++)
        labels[i] = (int32_t)(i % 3);
    for (int s = 0; s < 3000; s++) {
        const size_t at = (size_t)s % 3 * ROWS;
        step(t, rows + at * D, labels + at, ROWS, &nats);
        first = s == 0 ? nats : first;
    }
    if (!(first > 1 && nats < 0.01))
        fail_msg("%g, then %g nats", first, nats);
    txl_head_trainer_logits(t, rows, 3 * ROWS - 2, logits);
    for (size_t i = 0; i < 3 * ROWS - 2; i++) {
        double w[WEIGHTS], z[LABELS];
        for (size_t k = 0; k < WEIGHTS; k++)
            w[k] = (double)t->weight[k];
        logits_of(w, D, LABELS, rows + i * D, z);
        for (size_t k = 0; k < LABELS; k++) {
            assert_true(fabs((double)logits[i * LABELS + k] - z[k]) < 1e-4);
            assert_true(logits[i * LABELS + k] <= logits[i * LABELS + (size_t)labels[i]]);
        }
    }
    txl_head_trainer_free(t);
    txl_model_close(model);
}

static void assert_refused(txl_status status, txl_status expected, const txl_error *error,
                           const char *message) {
    assert_int_equal(status, expected);
    if (!strstr(error->message, message))
        fail_msg("\"%s\" lacks \"%s\"", error->message, message);
}

TEST(what_cannot_be_trained_is_refused) {
    txl_model *model = new_body(D);
    static const struct {
        txl_head_training how;
        const char *message;
    } wrong[] = {
        {{.n_label = 1, .batch = 5, .rate = 1e-3, .epsilon = 1e-8}, "n_label 1 is not from 2"},
        {{.n_label = 65537, .batch = 5, .rate = 1e-3, .epsilon = 1e-8}, "n_label"},
        {{.n_label = 2, .rate = 1e-3, .epsilon = 1e-8}, "batch 0"},
        {{.n_label = 2, .batch = 5, .rate = NAN, .epsilon = 1e-8}, "rate"},
        {{.n_label = 2, .batch = 5, .rate = 1e-3}, "epsilon"},
        {{.n_label = 2, .batch = 5, .rate = 1e-3, .epsilon = 1e-8, .decay = -1}, "decay"},
        {{.n_label = 2, .batch = 5, .rate = 1e-3, .epsilon = 1e-8, .reserved = {1}}, "reserved"},
    };
    txl_head_trainer *t;
    txl_error error;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_refused(txl_head_trainer_new(model, &wrong[i].how, &t, &error), TXL_ARGUMENT, &error,
                       wrong[i].message);
    t = new_trainer(model, &usual);
    float rows[6 * D] = {0};
    int32_t labels[6] = {0, 1, 2, 3, 0, 0};
    double nats;
    assert_refused(txl_head_trainer_step(t, rows, labels, 0, &nats, &error), TXL_ARGUMENT, &error,
                   "0 rows");
    assert_refused(txl_head_trainer_step(t, rows, labels, 6, &nats, &error), TXL_ARGUMENT, &error,
                   "6 rows");
    assert_refused(txl_head_trainer_step(t, rows, labels, 5, &nats, &error), TXL_ARGUMENT, &error,
                   "label 3");
    labels[3] = -1;
    assert_refused(txl_head_trainer_step(t, rows, labels, 5, &nats, &error), TXL_ARGUMENT, &error,
                   "label -1");
    float before[WEIGHTS];
    memcpy(before, t->weight, sizeof before);
    rows[1] = NAN;
    assert_refused(txl_head_trainer_step(t, rows, labels, 1, &nats, &error), TXL_FORMAT, &error,
                   "no number");
    assert_memory_equal(before, t->weight, sizeof before);
    assert_refused(txl_head_trainer_write_kept(t, model, names, "none", 1, &error), TXL_ARGUMENT,
                   &error, "no weights were kept");
    txl_head_trainer_keep(t);
    assert_refused(txl_head_trainer_write_kept(t, model, names, "none", 1, &error), TXL_ARGUMENT,
                   &error, "in no file");
    txl_head_trainer_free(t);
    txl_model_close(model);
    struct model_case c;
    case_open(&c, "text8", NULL, -1);
    assert_refused(txl_head_trainer_new(c.model, &usual, &t, &error), TXL_UNSUPPORTED, &error,
                   "only an XLNet");
    case_close(&c);
}

/* ---- The file ----------------------------------------------------------------------------- */

static const int32_t ids[] = {20, 21, 22, 23, 24, 25, 26, 4, 3};
static const uint8_t segments[] = {0, 0, 0, 0, 0, 0, 0, 0, 2};
static const txl_input input = {.ids = ids, .segments = segments, .n = 9};

static txl_session *new_session(const txl_model *model) {
    txl_settings settings;
    txl_session *session;
    txl_error error;
    txl_model_defaults(model, &settings);
    settings.mem_len = 0;
    settings.threads = 1;
    assert_good(txl_session_new(model, &settings, &session, &error), &error);
    return session;
}

static float *hidden_rows(const txl_model *model) {
    float *rows = calloc(input.n * (size_t)txl_model_d_model(model), sizeof *rows);
    txl_session *session = new_session(model);
    txl_error error;
    assert_good(txl_session_hidden(session, &input, 1, rows, &error), &error);
    txl_session_free(session);
    return rows;
}

/* A body, in a file of some type. */
static const struct body {
    const char *name, *type;
    int level;
} bodies[] = {{"xlnet/base-legacy", "f32", 0},        {"xlnet/base-legacy", "f32", 3},
              {"xlnet/base-legacy", "q8", 3},         {"xlnet/base-legacy", "q4", 3},
              {"xlnet-heads/answers-beams", "q8", 0}, {"xlnet-heads/pairs", "bf16", 3}};

/* Every tensor of the body is there with its stored bytes, and no other head's. */
static void check_tensors(const txl_model *body, const txl_model *model) {
    const struct weights *w = model->weights, *from = body->weights;
    size_t n = 0;
    for (size_t i = 0; i < from->n_tensor; i++) {
        const struct weights_tensor *a = &from->tensor[i], *b = weights_find(w, a->name);
        if (strncmp(a->name, "head.", 5) == 0)
            continue;
        n++;
        assert_non_null(b);
        assert_int_equal(a->type, b->type);
        assert_int_equal(a->n_block, b->n_block);
        assert_int_equal(!a->raw, !b->raw);
        for (uint32_t k = 0; k < a->n_block; k++) {
            const struct layout_block *p = &from->block[a->first_block + k],
                                      *q = &w->block[b->first_block + k];
            assert_int_equal(p->stored, q->stored);
            assert_int_equal(p->encoding, q->encoding);
            assert_memory_equal(from->data + p->offset, w->data + q->offset, p->stored);
        }
    }
    assert_int_equal(w->n_tensor, n + 4);
}

TEST_EACH(the_file_has_the_body_and_the_head, bodies) {
    char path[4096], made[4096];
    txl_model *body, *model;
    txl_error error;
    snprintf(path, sizeof path, "%s", scratch_path("body.txl"));
    snprintf(made, sizeof made, "%s", scratch_path("made.txl"));
    case_convert(row->name, row->type, row->level, path);
    assert_good(txl_model_open(path, 1, &body, &error), &error);
    const size_t d = (size_t)txl_model_d_model(body);
    txl_head_trainer *t = new_trainer(body, &usual);
    fill(t->n_weight, 5, t->weight);
    txl_head_trainer_keep(t);
    fill(t->n_weight, 6, t->weight); /* which is not written */
    const char *const bad[] = {"a", "b\n", "c"};
    assert_refused(txl_head_trainer_write_kept(t, body, bad, made, 1, &error), TXL_ARGUMENT, &error,
                   "label 1 is not 1 to 255 bytes");
    assert_good(txl_head_trainer_write_kept(t, body, names, made, 1, &error), &error);
    assert_good(txl_file_verify(made, NULL, NULL, &error), &error);
    assert_good(txl_model_open(made, 1, &model, &error), &error);
    check_tensors(body, model);
    assert_int_equal(txl_model_head(model), TXL_HEAD_SEQUENCE);
    assert_int_equal(txl_model_n_label(model), 3);
    assert_string_equal(txl_model_label(model, 2), "positive");
    assert_int_equal(txl_model_is_language_model(model), txl_model_is_language_model(body));
    assert_string_equal(txl_model_type(model), txl_model_type(body));

    /* The body gives the same, with the head that it had or none. */
    float *rows = hidden_rows(body), *again = hidden_rows(model), logits[3];
    double w[200000], z[3];
    assert_memory_equal(rows, again, input.n * d * sizeof *rows);
    txl_session *session = new_session(model);
    assert_good(txl_session_classify(session, &input, 1, logits, &error), &error);
    assert_true(t->n_weight < sizeof w / sizeof *w);
    fill(t->n_weight, 5, t->weight); /* as they were when they were kept */
    for (size_t i = 0; i < t->n_weight; i++)
        w[i] = (double)t->weight[i];
    logits_of(w, d, 3, rows + (input.n - 1) * d, z);
    for (size_t k = 0; k < 3; k++)
        assert_true(fabs((double)logits[k] - z[k]) < 1e-4);
    free(rows);
    free(again);
    txl_session_free(session);
    txl_head_trainer_free(t);
    txl_model_close(model);
    txl_model_close(body);
    unlink(path);
    unlink(made);
}

/* A tensor of several blocks. */
TEST(large_tensors_are_copied) {
    char path[4096], made[4096];
    txl_model *large = new_body_of(D, 80000), *body, *model;
    txl_error error;
    snprintf(path, sizeof path, "%s", scratch_path("body.txl"));
    snprintf(made, sizeof made, "%s", scratch_path("made.txl"));
    assert_good(txl_model_write(large, path, "f32", 1, &error), &error);
    assert_good(txl_model_open(path, 1, &body, &error), &error);
    assert_true(body->weights->tensor[0].n_block > 2);
    txl_head_trainer *t = new_trainer(body, &usual);
    txl_head_trainer_keep(t);
    assert_good(txl_head_trainer_write_kept(t, body, names, made, 1, &error), &error);
    assert_good(txl_model_open(made, 1, &model, &error), &error);
    check_tensors(body, model);
    txl_head_trainer_free(t);
    txl_model_close(model);
    txl_model_close(body);
    txl_model_close(large);
    unlink(path);
    unlink(made);
}

/* A block that was damaged is not passed on as if it were whole. */
TEST(a_damaged_body_is_not_copied) {
    char path[4096];
    size_t size;
    txl_model *body;
    txl_error error;
    snprintf(path, sizeof path, "%s", scratch_path("body.txl"));
    case_convert("xlnet/base-legacy", "f32", 0, path);
    char *file = read_file(path, &size);
    file[size - 1] ^= 1; /* of a raw block, which is not checked when it is used */
    put_file(path, file, size);
    assert_good(txl_model_open(path, 1, &body, &error), &error);
    txl_head_trainer *t = new_trainer(body, &usual);
    txl_head_trainer_keep(t);
    assert_refused(txl_head_trainer_write_kept(t, body, names, scratch_path("made.txl"), 1, &error),
                   TXL_FORMAT, &error, "damaged");
    assert_int_not_equal(access(scratch_path("made.txl"), F_OK), 0);
    txl_head_trainer_free(t);
    txl_model_close(body);
    unlink(path);
    free(file);
}

/* ---- Rows in a file ----------------------------------------------------------------------- */

/* Replaces a digit of the facts of a state, with valid checksums. */
static void alter_facts(const char *path, const char *facts, char digit) {
    enum { FACTS = 128, SIZE = 24, CHECKSUM = 32, HEADER_CHECKSUM = 120 };
    size_t size;
    char *file = read_file(path, &size),
         *at = memmem(file + FACTS, size - FACTS, facts, strlen(facts));
    uint64_t length, checksum;
    assert_non_null(at);
    at[strlen(facts)] = digit;
    memcpy(&length, file + SIZE, sizeof length);
    checksum = XXH3_64bits(file + FACTS, length);
    memcpy(file + CHECKSUM, &checksum, sizeof checksum);
    checksum = XXH3_64bits(file, HEADER_CHECKSUM);
    memcpy(file + HEADER_CHECKSUM, &checksum, sizeof checksum);
    put_file(path, file, size);
    free(file);
}

/* A state of a model's training is none of a head's, and the reverse is tested below. */
TEST(other_states_are_refused) {
    const txl_training how = {
        .batch = 1, .tgt_len = 4, .mem_len = 4, .epsilon = 1e-8, .threads = 1};
    char path[4096];
    const int32_t text[] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct model_case c;
    txl_ids *list;
    txl_trainer *trainer;
    txl_rows *rows;
    txl_error error;
    snprintf(path, sizeof path, "%s", scratch_path("rows.state"));
    case_open(&c, "text8", NULL, -1);
    assert_good(txl_ids_new(txl_model_n_token(c.model), &list, &error), &error);
    assert_good(txl_ids_add(list, text, 8, &error), &error);
    assert_good(txl_trainer_new(c.model, list, &how, &trainer, &error), &error);
    assert_good(txl_trainer_save(trainer, path, "note", &error), &error);
    assert_refused(txl_rows_open(path, &rows, &error), TXL_FORMAT, &error, "another training");
    txl_trainer_free(trainer);
    txl_ids_free(list);
    case_close(&c);
    unlink(path);
}

TEST(rows_come_back) {
    char path[4096];
    float rows[4 * D];
    size_t n, width, size;
    txl_rows *back;
    txl_error error;
    fill(4 * D, 7, rows);
    snprintf(path, sizeof path, "%s", scratch_path("rows.state"));
    assert_good(txl_rows_save(path, "{\"a\": 1}", rows, 4, D, &error), &error);
    assert_good(txl_rows_open(path, &back, &error), &error);
    assert_string_equal(txl_rows_note(back), "{\"a\": 1}");
    const float *got = txl_rows_get(back, &n, &width);
    assert_int_equal(n, 4);
    assert_int_equal(width, D);
    assert_memory_equal(got, rows, sizeof rows);
    txl_rows_free(back);

    /* Rows are no state of a model's training, nor the reverse. */
    txl_saved *saved;
    assert_refused(txl_saved_open(path, &saved, &error), TXL_FORMAT, &error,
                   "the state of a head's training");
    char *file = read_file(path, &size);
    alter_facts(path, "\"rows\":", '3');
    assert_refused(txl_rows_open(path, &back, &error), TXL_FORMAT, &error, "does not fit");
    alter_facts(path, "\"rows\":", '5');
    assert_refused(txl_rows_open(path, &back, &error), TXL_FORMAT, &error, "does not fit");
    alter_facts(path, "\"width\":", '0');
    assert_refused(txl_rows_open(path, &back, &error), TXL_FORMAT, &error, "does not fit");
    put_file(path, file, size - 1);
    assert_refused(txl_rows_open(path, &back, &error), TXL_FORMAT, &error, "damaged");
    put_file(path, "text", 4);
    assert_refused(txl_rows_open(path, &back, &error), TXL_FORMAT, &error, "not a training's");
    rows[5] = INFINITY;
    assert_good(txl_rows_save(path, "", rows, 4, D, &error), &error);
    assert_refused(txl_rows_open(path, &back, &error), TXL_FORMAT, &error, "no number");
    assert_good(txl_rows_save(path, "", rows, 0, D, &error), &error); /* none yet */
    assert_good(txl_rows_open(path, &back, &error), &error);
    txl_rows_free(back);
    txl_rows_free(NULL);
    unlink(path);
    free(file);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
