/* The heads of a fine-tuned XLNet: what it says of inputs, by their rows after the last layer. */
#include "timeline.h"

#include <math.h>
#include <string.h>

static const struct xlnet_settings *settings_of(const struct xlnet_timeline *timeline) {
    return timeline->net->network.settings;
}

/* ---- Logits of rows ----------------------------------------------------------------------- */

static void row_logits(struct timeline *t, const float *hidden, size_t n, float *out) {
    const struct xlnet *net = xlnet_timeline(t)->net;
    size_t d_model = (size_t)net->d_model, n_logit = (size_t)net->network.n_logit;
    for (size_t first = 0; first < n; first += XLNET_CHUNK)
        compute_product(&t->compute, smaller(XLNET_CHUNK, n - first), hidden + first * d_model,
                        d_model, &net->head.logits, net->head.logits_bias, LINEAR,
                        out + first * n_logit, n_logit);
}

/* ---- Logits of inputs --------------------------------------------------------------------- */

/* out[d_model] = what stands for an input of n rows. */
static void summarize(const struct xlnet_timeline *timeline, const float *hidden, size_t n,
                      float *out) {
    size_t d_model = (size_t)timeline->net->d_model;
    const int kind = settings_of(timeline)->summary;
    if (kind != XLNET_MEAN) {
        memcpy(out, hidden + (kind == XLNET_LAST ? n - 1 : 0) * d_model, d_model * sizeof *out);
        return;
    }
    for (size_t k = 0; k < d_model; k++) {
        double sum = 0;
        for (size_t t = 0; t < n; t++)
            sum += (double)hidden[t * d_model + k];
        out[k] = (float)(sum / (double)n);
    }
}

static void activate(const struct kernels *kernels, int activation, size_t n, float *x) {
    static const enum activation shared[] = {[XLNET_SUMMARY_RELU] = RELU,
                                             [XLNET_SUMMARY_GELU_ERF] = GELU_ERF,
                                             [XLNET_SUMMARY_GELU_TANH] = GELU_TANH,
                                             [XLNET_SUMMARY_SWISH] = SWISH};
    if (activation >= XLNET_SUMMARY_RELU && activation <= XLNET_SUMMARY_SWISH)
        kernels->activate(shared[activation], n, x);
    for (size_t i = 0; i < n && activation == XLNET_SUMMARY_TANH; i++)
        x[i] = tanhf(x[i]);
    for (size_t i = 0; i < n && activation == XLNET_SUMMARY_SIGMOID; i++)
        x[i] = 1 / (1 + expf(-x[i]));
}

/* logits = logits activation(summary x), for as many inputs as there is room for at a time. */
static void input_logits(struct timeline *t, const float *hidden, const txl_input *inputs, size_t n,
                         float *out) {
    struct xlnet_timeline *timeline = xlnet_timeline(t);
    const struct xlnet_head *head = &timeline->net->head;
    const struct xlnet_settings *s = settings_of(timeline);
    size_t d_model = (size_t)timeline->net->d_model;
    for (size_t first = 0, m; first < n; first += m) {
        float *x = timeline->results;
        m = smaller(XLNET_CHUNK, n - first);
        for (size_t i = first; i < first + m; i++) {
            summarize(timeline, hidden, inputs[i].n, x + (i - first) * d_model);
            hidden += inputs[i].n * d_model;
        }
        if (s->summary_projected) {
            compute_product(&t->compute, m, x, d_model, &head->summary, head->summary_bias, LINEAR,
                            timeline->sum, d_model);
            x = timeline->sum;
        }
        activate(t->compute.kernels, s->summary_activation, m * d_model, x);
        row_logits(t, x, m, out + first * (size_t)timeline->net->network.n_logit);
    }
}

/* ---- Answers ------------------------------------------------------------------------------ */

static void pair_rows(const struct xlnet_timeline *timeline, size_t i, const float *first,
                      const float *second) {
    size_t d_model = (size_t)timeline->net->d_model;
    float *pair = timeline->pair + i * 2 * d_model;
    memcpy(pair, first, d_model * sizeof *pair);
    memcpy(pair + d_model, second, d_model * sizeof *pair);
}

/* results[n, d_model] = tanh(W pair + bias). */
static void join_pairs(struct xlnet_timeline *timeline, size_t n, const struct matrix *w,
                       const float *bias) {
    size_t d_model = (size_t)timeline->net->d_model;
    compute_product(&timeline->base.compute, n, timeline->pair, 2 * d_model, w, bias, LINEAR,
                    timeline->results, d_model);
    activate(timeline->base.compute.kernels, XLNET_SUMMARY_TANH, n * d_model, timeline->results);
}

static void end_logits(struct timeline *t, const float *hidden, const size_t *row, size_t n,
                       size_t start, float *out) {
    struct xlnet_timeline *timeline = xlnet_timeline(t);
    const struct xlnet_head *head = &timeline->net->head;
    size_t d_model = (size_t)timeline->net->d_model;
    for (size_t first = 0, m; first < n; first += m) {
        m = smaller(XLNET_CHUNK, n - first);
        for (size_t i = 0; i < m; i++)
            pair_rows(timeline, i, hidden + row[first + i] * d_model, hidden + start * d_model);
        join_pairs(timeline, m, &head->end_hidden, head->end_hidden_bias);
        compute_norm(&t->compute, &head->end_norm, d_model, timeline->net->network.layer_norm_eps,
                     m, timeline->results, NULL, timeline->results);
        compute_product(&t->compute, m, timeline->results, d_model, &head->end, head->end_bias,
                        LINEAR, out + first, 1);
    }
}

static float no_answer_logit(struct timeline *t, const float *mean, const float *last) {
    struct xlnet_timeline *timeline = xlnet_timeline(t);
    const struct xlnet_head *head = &timeline->net->head;
    float logit;
    pair_rows(timeline, 0, mean, last);
    join_pairs(timeline, 1, &head->answer_hidden, head->answer_hidden_bias);
    compute_product(&t->compute, 1, timeline->results, (size_t)timeline->net->d_model,
                    &head->answer, NULL, LINEAR, &logit, 1);
    return logit;
}

static void count_kept(const struct network *network, size_t *starts, size_t *ends) {
    const struct xlnet_settings *s = network->settings;
    *starts = (size_t)s->start_n_top;
    *ends = (size_t)s->end_n_top;
}

const struct head_functions xlnet_heads = {.read = xlnet_read_inputs,
                                           .rows = row_logits,
                                           .inputs = input_logits,
                                           .ends = end_logits,
                                           .no_answer = no_answer_logit,
                                           .kept = count_kept};
