/* The forward pass of a Transformer-XL, to be read beside section 3 and appendix B of Dai et al.
 * 2019.  A pass takes T tokens of one segment through all layers:
 *
 *     x = embedding                                          [T, d_model]
 *     for each layer:
 *         q, k, v = W_qkv x;  k and v go into the ring       [T, n_head, d_head] each
 *         score[i, j] = ((q_i + u) . k_j + (q_i + v) . (W_r R_d)) / sqrt(d_head),  d = i - j
 *         x = LayerNorm(x + W_o softmax(score) v)
 *         x = LayerNorm(x + W_2 relu(W_1 x + b_1) + b_2)
 *
 * with i and j positions on the timeline.  Keys and values are never computed twice: the ring holds
 * those of the memory and of the segment so far.  The position rows W_r R_d, which depend on the
 * distance alone, are not either.  With pre_lnorm the inputs of both sublayers are normalised
 * instead of their sums. */
#include "timeline.h"

#include <string.h>

/* ---- Layers ------------------------------------------------------------------------------- */

/* out = LayerNorm(x + y) for n rows; y may be NULL. */
static void normalise(const struct transformer_xl_timeline *timeline, const struct layer_norm *norm,
                      size_t n, const float *x, const float *y, float *out) {
    compute_norm(&timeline->base.compute, norm, (size_t)timeline->net->d_model,
                 timeline->net->network.layer_norm_eps, n, x, y, out);
}

static void add_rows(const struct transformer_xl_timeline *timeline, size_t n, const float *y) {
    for (size_t i = 0; i < n * (size_t)timeline->net->d_model; i++)
        timeline->hidden[i] += y[i];
}

/* Ends a sublayer (attention or feed-forward): hidden = hidden + y, normalised unless pre_lnorm. */
static void finish_sublayer(struct transformer_xl_timeline *timeline, const struct layer_norm *norm,
                            size_t n, const float *y) {
    if (timeline->net->pre_lnorm)
        add_rows(timeline, n, y);
    else
        normalise(timeline, norm, n, timeline->hidden, y, timeline->hidden);
}

/* Begins a sublayer: returns its input, normalised if pre_lnorm. */
static const float *begin_sublayer(struct transformer_xl_timeline *timeline,
                                   const struct layer_norm *norm, size_t n) {
    if (!timeline->net->pre_lnorm)
        return timeline->hidden;
    normalise(timeline, norm, n, timeline->hidden, NULL, timeline->normed);
    return timeline->normed;
}

static void attention_sublayer(struct attention *a) {
    struct transformer_xl_timeline *timeline = a->timeline;
    const struct transformer_xl *net = timeline->net;
    const struct layer *layer = a->layer;
    size_t n = a->n, width = head_width(net), d_model = (size_t)net->d_model;
    const float *input = begin_sublayer(timeline, &layer->attention_norm, n);
    /* QKV[n, 3 width] = X[n, d_model] W_qkv^T */
    compute_product(&timeline->base.compute, n, input, d_model, &layer->qkv, NULL, LINEAR,
                    timeline->qkv, 3 * width);
    if (!attention_is_relative(net->attn_type) && net->pre_lnorm) {
        /* The vanilla types' published code does not normalise the input of the queries. */
        struct matrix q = matrix_rows(&layer->qkv, 0, width);
        compute_product(&timeline->base.compute, n, timeline->hidden, d_model, &q, NULL, LINEAR,
                        timeline->qkv, 3 * width);
    }
    if (a->first) {
        const struct position_weights weights = position_weights(layer);
        positions_score_first(timeline->positions, &timeline->base.compute, &weights, n,
                              timeline->qkv, 3 * width);
    }
    attention_run(a);
    attention_read_later(a);
    compute_product(&timeline->base.compute, n, timeline->heads, width, &layer->o, NULL, LINEAR,
                    timeline->inner, d_model);
    finish_sublayer(timeline, &layer->attention_norm, n, timeline->inner);
}

static void feed_forward_sublayer(struct transformer_xl_timeline *timeline,
                                  const struct layer *layer, size_t n) {
    size_t d_model = (size_t)timeline->net->d_model, d_inner = (size_t)timeline->net->d_inner;
    const float *input = begin_sublayer(timeline, &layer->feed_forward_norm, n);
    compute_product(&timeline->base.compute, n, input, d_model, &layer->feed_forward_1,
                    layer->feed_forward_bias_1, RELU, timeline->inner, d_inner);
    compute_product(&timeline->base.compute, n, timeline->inner, d_inner, &layer->feed_forward_2,
                    layer->feed_forward_bias_2, LINEAR, timeline->normed, d_model);
    finish_sublayer(timeline, &layer->feed_forward_norm, n, timeline->normed);
}

/* The vanilla types number positions from the end of the current segment. */
static void add_sinusoid(struct transformer_xl_timeline *timeline, size_t n) {
    position_sines(timeline->net->inv_freq, (size_t)timeline->net->d_model,
                   timeline->base.settings.clamp_len, n - 1, -1, n, timeline->normed);
    add_rows(timeline, n, timeline->normed);
}

static void add_learned_positions(struct transformer_xl_timeline *timeline,
                                  const struct layer *layer, size_t n) {
    const struct matrix *r = &layer->r_emb;
    compute_widen(&timeline->base.compute, r, r->n_row - n, n, timeline->normed);
    add_rows(timeline, n, timeline->normed);
}

/* How many distances the n next tokens of a timeline see. */
static size_t distances_seen(const struct transformer_xl_timeline *timeline, size_t n) {
    return (size_t)(timeline->base.next + n - 1 -
                    first_visible(&timeline->base, timeline->base.next)) +
           1;
}

/* The layers of a pass, over hidden[n, d_model]. */
static txl_status run_layers(struct attention *a, txl_error *error) {
    struct transformer_xl_timeline *timeline = a->timeline;
    for (a->l = 0; a->l < timeline->net->n_layer; a->l++) {
        const void *layer;
        txl_status status = layers_get(&timeline->base.layers, a->l, &layer, error);
        if (status)
            return status;
        a->layer = layer;
        const struct position_weights weights = position_weights(a->layer);
        for (size_t t = 0; t < (a->each ? a->n : 1); t++)
            positions_fill(attention_timeline(a, t)->positions, &timeline->base.compute, a->l,
                           &weights);
        if (timeline->net->attn_type == ATTENTION_LEARNED_POSITION)
            add_learned_positions(timeline, a->layer, a->n);
        attention_sublayer(a);
        feed_forward_sublayer(timeline, a->layer, a->n);
    }
    return TXL_OK;
}

/* Whether the n next tokens of a timeline do without position rows. */
static bool scores_first(const struct transformer_xl_timeline *timeline, size_t n) {
    return positions_are_first(timeline->positions,
                               timeline->base.next - first_position(&timeline->base), n);
}

/* The next `n` tokens, which a pass has read, become part of the timeline. */
static void append(struct transformer_xl_timeline *timeline, size_t n) {
    timeline->base.next += n;
    timeline_forget(timeline);
}

/* n tokens of the timeline, of which it keeps the first `keep`, or one token of each of n
 * timelines: hidden[n, d_model]. */
static txl_status forward_pass(struct transformer_xl_timeline *timeline,
                               struct timeline *const *each, const int32_t *ids, size_t n,
                               size_t keep, txl_error *error) {
    struct attention attention = {.timeline = timeline, .each = each, .n = n};
    size_t n_timeline = each ? n : 1, n_each = each ? 1 : n;
    attention.first = !each && scores_first(timeline, n);
    for (size_t t = 0; t < n_timeline; t++) {
        struct transformer_xl_timeline *each_timeline = attention_timeline(&attention, t);
        positions_need(each_timeline->positions, &timeline->base.compute,
                       attention.first ? 0 : distances_seen(each_timeline, n_each));
    }
    adaptive_embed(&timeline->base.adaptive, &timeline->base.compute, ids, n, timeline->hidden);
    if (timeline->net->attn_type == ATTENTION_SINUSOID)
        add_sinusoid(timeline, n);
    if (each)
        attention_group(&attention);
    txl_status status = run_layers(&attention, error);
    for (size_t t = 0; t < n_timeline && !status; t++) {
        struct transformer_xl_timeline *each_timeline = attention_timeline(&attention, t);
        positions_finish(each_timeline->positions);
        append(each_timeline, keep);
    }
    return status;
}

/* ---- The timeline ------------------------------------------------------------------------- */

size_t transformer_xl_room(const struct timeline *t) {
    if (is_same_length(&t->settings))
        return t->chunk;
    return smaller(t->chunk, (size_t)t->settings.tgt_len - (size_t)timeline_segment_length(t));
}

/* Moves a full segment into the memory. */
static void begin_pass(struct timeline *t) {
    if (is_same_length(&t->settings) || timeline_segment_length(t) == 0)
        t->segment_start = t->next;
}

/* Positions depend on the segment's length, and there is no memory: computes the whole segment
 * again. */
static txl_status advance_anew(struct transformer_xl_timeline *timeline, const int32_t *ids,
                               size_t n, const float **hidden, txl_error *error) {
    struct timeline *t = &timeline->base;
    uint64_t next = t->next;
    size_t length = (size_t)timeline_segment_length(t);
    memcpy(t->segment + length, ids, n * sizeof *ids);
    t->next = t->segment_start = 0;
    txl_status status = forward_pass(timeline, NULL, t->segment, length + n, length + n, error);
    if (status)
        t->next = next;
    *hidden = timeline->hidden + length * (size_t)timeline->net->d_model;
    return status;
}

txl_status transformer_xl_advance(struct timeline *t, const int32_t *ids, size_t n, bool every,
                                  const float **hidden, txl_error *error) {
    struct transformer_xl_timeline *timeline = xl_timeline(t);
    txl_status status;
    *hidden = timeline->hidden;
    if (t->network->has_memory) {
        begin_pass(t);
        status = forward_pass(timeline, NULL, ids, n, n, error);
    } else {
        status = advance_anew(timeline, ids, n, hidden, error);
    }
    if (!every)
        *hidden += (n - 1) * (size_t)timeline->net->d_model;
    return status;
}

bool transformer_xl_differs_in_batch(const struct timeline *t) {
    return scores_first((const struct transformer_xl_timeline *)t, 1);
}

txl_status transformer_xl_advance_each(struct timeline *const *each, const int32_t *ids, size_t n,
                                       const float **hidden, txl_error *error) {
    struct transformer_xl_timeline *lead = xl_timeline(each[0]);
    for (size_t t = 0; t < n; t++)
        begin_pass(each[t]);
    *hidden = lead->hidden;
    return forward_pass(lead, each, ids, n, 1, error);
}

/* ---- Tokens on trial ---------------------------------------------------------------------- */

/* A pass of few rows gives each the bits of a pass of its own.  Its rows see the same keys as then:
 * they are in one segment, and the ring holds what the first of them sees beside the last. */

size_t transformer_xl_trial(const struct timeline *t) {
    const struct transformer_xl_timeline *timeline = (const struct transformer_xl_timeline *)t;
    if (!t->network->has_memory || positions_may_be_first(timeline->positions))
        return 1;
    return smaller(transformer_xl_room(t), ALIKE_ROWS);
}

txl_status transformer_xl_advance_trial(struct timeline *t, const int32_t *ids, size_t n,
                                        const float **hidden, txl_error *error) {
    struct transformer_xl_timeline *timeline = xl_timeline(t);
    begin_pass(t);
    *hidden = timeline->hidden;
    return forward_pass(timeline, NULL, ids, n, 1, error);
}

void transformer_xl_keep_trial(struct timeline *t) {
    begin_pass(t);
    append(xl_timeline(t), 1);
}
