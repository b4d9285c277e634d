/* The forward pass of an XLNet, to be read beside section 2 of Yang et al. 2019.  A pass takes two
 * kinds of row through all layers, with the same weights:
 *
 *     content rows  h_i = embedding[token at i]: what others see
 *     query rows    g_i = mask: they know where they stand, not the token there; seen by nobody
 *
 *     for each layer:
 *         k, v = W_kv h, of content rows, go into the ring            [n_head, d_head] each
 *         for every row a_i, be it h_i or g_i:
 *             q = W_q a_i
 *             score[i, j] = ((q + u) . k_j + (q + v) . (W_r R_d)) / sqrt(d_head),  d = i - j
 *             a_i = LayerNorm(a_i + W_o softmax(score) v)
 *             a_i = LayerNorm(a_i + W_2 activation(W_1 a_i + b_1) + b_2)
 *
 * with i and j positions on the timeline.  The softmax of the last g_i is the distribution of the
 * token at i itself.  Both kinds go through each product together, so that weights are read once;
 * in the last layer, content rows need only k and v.  The segment term of the published code, (q +
 * s) . segment embedding, is one number for all keys of a row where a text is one segment, and
 * drops out of the softmax.
 *
 * For a head there are content rows alone, in the last layer too, and inputs have several segments:
 * xlnet_read_inputs. */
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "timeline.h"

#include <string.h>

enum {
    FEW = 2 * XLNET_MOST_BATCH
}; /* with so few rows, reading the weights takes most of the time */

/* ---- Layers ------------------------------------------------------------------------------- */

/* x = LayerNorm(x + timeline->sum) for n rows. */
static void normalise(const struct xlnet_timeline *timeline, const struct layer_norm *norm,
                      size_t n, float *x) {
    compute_norm(&timeline->base.compute, norm, (size_t)timeline->net->d_model,
                 timeline->net->network.layer_norm_eps, n, x, timeline->sum, x);
}

/* The rest of a layer after the attention: hidden[n, d_model] of the part from heads[n, n_head
 * d_head]. */
static void finish_layer(const struct xlnet_pass *p) {
    struct xlnet_timeline *timeline = p->timeline;
    const struct compute *compute = &timeline->base.compute;
    const struct xlnet_layer *layer = p->layer;
    size_t d_model = (size_t)timeline->net->d_model, d_inner = (size_t)timeline->net->d_inner,
           n = p->n;
    float *hidden = timeline->hidden + p->first * d_model;
    compute_product(compute, n, timeline->heads, xlnet_width(timeline->net), &layer->o, NULL,
                    LINEAR, timeline->sum, d_model);
    normalise(timeline, &layer->attention_norm, n, hidden);
    compute_product(compute, n, hidden, d_model, &layer->feed_forward_1, layer->feed_forward_bias_1,
                    timeline->net->activation, timeline->inner, d_inner);
    compute_product(compute, n, timeline->inner, d_inner, &layer->feed_forward_2,
                    layer->feed_forward_bias_2, LINEAR, timeline->sum, d_model);
    normalise(timeline, &layer->feed_forward_norm, n, hidden);
}

/* A layer for a few rows: queries, keys and values of all rows in one product. */
static void run_few(struct xlnet_pass *p) {
    struct xlnet_timeline *timeline = p->timeline;
    size_t width = xlnet_width(timeline->net), d_model = (size_t)timeline->net->d_model;
    p->first = 0;
    p->n = p->n_content + p->n_query;
    p->content = p->n_content;
    p->q = timeline->qkv;
    p->kv = timeline->qkv + width;
    p->ldq = p->ldkv = 3 * width;
    /* QKV[n, 3 width] = X[n, d_model] W_qkv^T */
    compute_product(&timeline->base.compute, p->n, timeline->hidden, d_model, &p->layer->qkv, NULL,
                    LINEAR, timeline->qkv, 3 * width);
    xlnet_store_and_attend(p);
    finish_layer(p);
}

/* Stores keys and values of all content rows, a part at a time. */
static void store_content(struct xlnet_pass *p) {
    struct xlnet_timeline *timeline = p->timeline;
    size_t width = xlnet_width(timeline->net), d_model = (size_t)timeline->net->d_model;
    struct matrix kv = matrix_rows(&p->layer->qkv, width, 2 * width);
    p->kv = timeline->qkv;
    p->ldkv = 2 * width;
    for (p->first = 0; p->first < p->n_content; p->first += p->content) {
        p->content = smaller(XLNET_CHUNK, p->n_content - p->first);
        compute_product(&timeline->base.compute, p->content, timeline->hidden + p->first * d_model,
                        d_model, &kv, NULL, LINEAR, timeline->qkv, 2 * width);
        xlnet_store(p);
    }
}

/* A layer for many rows: first all keys and values, because the rows of a block see each other,
 * then the rest part by part. */
static void run_many(struct xlnet_pass *p) {
    struct xlnet_timeline *timeline = p->timeline;
    size_t width = xlnet_width(timeline->net), d_model = (size_t)timeline->net->d_model;
    size_t rows = p->n_content + p->n_query;
    struct matrix q = matrix_rows(&p->layer->qkv, 0, width);
    bool last = p->l + 1 == timeline->net->n_layer && !p->segment;
    store_content(p);
    p->q = timeline->qkv;
    p->ldq = width;
    for (p->first = last ? p->n_content : 0; p->first < rows; p->first += p->n) {
        p->n = smaller(XLNET_CHUNK, rows - p->first);
        p->content = p->first < p->n_content ? smaller(p->n, p->n_content - p->first) : 0;
        compute_product(&timeline->base.compute, p->n, timeline->hidden + p->first * d_model,
                        d_model, &q, NULL, LINEAR, timeline->qkv, width);
        xlnet_attend(p);
        finish_layer(p);
    }
}

/* ---- A pass ------------------------------------------------------------------------------- */

/* Of inputs: those of the longest. */
static void need_input_distances(const struct xlnet_pass *p) {
    int64_t most = 0;
    for (size_t t = 0; t < p->n_content; t++) {
        const struct xlnet_row *row = &p->timeline->row[t];
        int64_t length = (int64_t)(row->end - row->begin);
        most = length > most ? length : most;
    }
    most = distances_clamp(p->timeline->distances, most - 1);
    distances_need(p->timeline->distances, &p->timeline->base.compute,
                   distances_clamp(p->timeline->distances, -most), most);
}

static void need_distances(const struct xlnet_pass *p) {
    for (size_t t = 0; t < p->n_timeline; t++) {
        struct xlnet_timeline *timeline = xlnet_pass_timeline(p, t);
        int64_t least, most;
        xlnet_distances_seen(p, timeline, xlnet_pass_rows(p, t), &least, &most);
        distances_need(timeline->distances, &p->timeline->base.compute, least, most);
    }
}

static void embed_rows(const struct xlnet_pass *p, const int32_t *ids) {
    struct xlnet_timeline *timeline = p->timeline;
    size_t d_model = (size_t)timeline->net->d_model, rows = p->n_content + p->n_query;
    for (size_t t = 0; t < p->n_content; t += XLNET_QUERIES)
        adaptive_embed(&timeline->base.adaptive, &timeline->base.compute, ids + t,
                       smaller(XLNET_QUERIES, p->n_content - t), timeline->hidden + t * d_model);
    for (size_t t = p->n_content; t < rows; t++)
        memcpy(timeline->hidden + t * d_model, timeline->net->mask,
               d_model * sizeof *timeline->hidden);
}

/* Passes the rows that timeline->row describes through the layers; ids[n_content]. */
static txl_status forward_pass(struct xlnet_pass *p, const int32_t *ids, txl_error *error) {
    struct xlnet_timeline *timeline = p->timeline;
    if (p->segment)
        need_input_distances(p);
    else
        need_distances(p);
    embed_rows(p, ids);
    for (p->l = 0; p->l < timeline->net->n_layer; p->l++) {
        const void *layer;
        txl_status status = layers_get(&timeline->base.layers, p->l, &layer, error);
        if (status)
            return status;
        p->layer = layer;
        for (size_t t = 0; t < p->n_timeline; t++)
            distances_fill(xlnet_pass_timeline(p, t)->distances, &timeline->base.compute, p->l,
                           p->layer);
        if (p->n_content + p->n_query <= FEW && !p->segment)
            run_few(p);
        else
            run_many(p);
    }
    for (size_t t = 0; t < p->n_timeline; t++)
        distances_finish(xlnet_pass_timeline(p, t)->distances);
    return TXL_OK;
}

/* Runs a pass of one timeline; `hidden`, unless NULL, receives the query rows. */
static txl_status run_pass(struct xlnet_timeline *timeline, const int32_t *ids, size_t n_content,
                           size_t n_query, const float **hidden, txl_error *error) {
    struct xlnet_pass pass = {
        .timeline = timeline, .n_timeline = 1, .n_content = n_content, .n_query = n_query};
    if (hidden)
        *hidden = timeline->hidden + n_content * (size_t)timeline->net->d_model;
    return n_content + n_query > 0 ? forward_pass(&pass, ids, error) : TXL_OK;
}

/* ---- Rows --------------------------------------------------------------------------------- */

static struct xlnet_row content_left(uint64_t at) {
    return (struct xlnet_row){.at = at, .end = at + 1};
}

static struct xlnet_row query_left(uint64_t at) {
    return (struct xlnet_row){.at = at, .end = at};
}

/* Content rows that see both sides of their segment, which ends before `end`. */
static struct xlnet_row content_block(const struct xlnet *net, uint64_t at, uint64_t end) {
    return (struct xlnet_row){.at = at, .end = net->uni ? at + 1 : end};
}

static struct xlnet_row query_block(const struct xlnet *net, uint64_t at, uint64_t end) {
    return (struct xlnet_row){.at = at, .end = net->uni ? at : end};
}

/* ---- Inputs of a head --------------------------------------------------------------------- */

/* Inputs stand one after the other, from position 0 on, and see nothing of each other. */
txl_status xlnet_read_inputs(struct timeline *t, const txl_input *inputs, size_t n,
                             const float **hidden, txl_error *error) {
    struct xlnet_timeline *timeline = xlnet_timeline(t);
    struct xlnet_pass pass = {.timeline = timeline, .n_timeline = 1, .segment = timeline->segment};
    xlnet_reset(t);
    for (size_t i = 0; i < n; i++) {
        const size_t begin = pass.n_content;
        for (size_t k = 0; k < inputs[i].n; k++, pass.n_content++) {
            timeline->row[pass.n_content] =
                content_block(timeline->net, pass.n_content, begin + inputs[i].n);
            timeline->row[pass.n_content].begin = begin;
            timeline->segment[pass.n_content] = inputs[i].segments[k];
            timeline->pending[pass.n_content] = inputs[i].ids[k];
        }
    }
    *hidden = timeline->hidden;
    return forward_pass(&pass, timeline->pending, error);
}

/* ---- Segments with gaps ------------------------------------------------------------------- */

/* Runs a pass of the pending content rows and of query rows at n gaps. */
static txl_status run_gaps(struct xlnet_timeline *timeline, const size_t *gaps, size_t n,
                           const float **hidden, txl_error *error) {
    const struct timeline *t = &timeline->base;
    for (size_t i = 0; i < timeline->n_pending; i++)
        timeline->row[i] = content_block(timeline->net, timeline->where[i], t->next);
    for (size_t i = 0; i < n; i++)
        timeline->row[timeline->n_pending + i] =
            query_block(timeline->net, t->segment_start + gaps[i], t->next);
    txl_status status =
        run_pass(timeline, timeline->pending, timeline->n_pending, n, hidden, error);
    if (!status)
        timeline->n_pending = 0;
    timeline->base.unfinished = timeline->n_gap + timeline->n_pending > 0;
    return status;
}

/* Before another pass: ends the segment if it has gaps, which must all be filled. */
static txl_status finish_gaps(struct xlnet_timeline *timeline, txl_error *error) {
    if (timeline->n_gap > 0)
        return txl_fail(error, TXL_ARGUMENT, "%zu gaps of the current segment are not filled",
                        timeline->n_gap);
    if (timeline->n_pending == 0)
        return TXL_OK;
    txl_status status = run_gaps(timeline, NULL, 0, NULL, error);
    timeline->base.segment_start = timeline->base.next;
    return status;
}

static txl_status feed_gaps(struct timeline *t, const int32_t *ids, size_t n, txl_error *error) {
    struct xlnet_timeline *timeline = xlnet_timeline(t);
    size_t known = 0;
    txl_status status = finish_gaps(timeline, error);
    if (status)
        return status;
    for (size_t i = 0; i < n; i++)
        known += ids[i] >= 0;
    if (known == 0 && (t->next == 0 || t->settings.mem_len == 0))
        return txl_fail(error, TXL_ARGUMENT,
                        "nothing is known of a segment of %zu gap%s, and nothing precedes it", n,
                        n == 1 ? "" : "s");
    t->segment_start = t->next;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0) {
            timeline->gap[timeline->n_gap++] = t->next + i;
        } else {
            timeline->where[timeline->n_pending] = t->next + i;
            timeline->pending[timeline->n_pending++] = ids[i];
        }
    }
    t->next += n;
    t->unfinished = true;
    return TXL_OK;
}

/* The index of an open gap in the list of gaps, or n_gap. */
static size_t find_gap(const struct xlnet_timeline *timeline, size_t gap) {
    size_t i = 0;
    while (i < timeline->n_gap && timeline->gap[i] != timeline->base.segment_start + gap)
        i++;
    return i;
}

static txl_status no_gap(size_t gap, txl_error *error) {
    return txl_fail(error, TXL_ARGUMENT, "position %zu of the segment is no open gap", gap);
}

static txl_status ask_gaps(struct timeline *t, const size_t *gaps, size_t n, const float **hidden,
                           txl_error *error) {
    struct xlnet_timeline *timeline = xlnet_timeline(t);
    for (size_t i = 0; i < n; i++)
        if (find_gap(timeline, gaps[i]) == timeline->n_gap)
            return no_gap(gaps[i], error);
    return run_gaps(timeline, gaps, n, hidden, error);
}

/* Pending tokens get their keys first: in one pass, tokens of different ranks would see each
 * other. */
static txl_status fill_gap(struct timeline *t, size_t gap, int32_t id, txl_error *error) {
    struct xlnet_timeline *timeline = xlnet_timeline(t);
    size_t i = find_gap(timeline, gap);
    if (i == timeline->n_gap)
        return no_gap(gap, error);
    txl_status status = timeline->n_pending > 0 ? run_gaps(timeline, NULL, 0, NULL, error) : TXL_OK;
    if (status)
        return status;
    timeline->n_gap--;
    memmove(timeline->gap + i, timeline->gap + i + 1,
            (timeline->n_gap - i) * sizeof *timeline->gap);
    timeline->where[0] = t->segment_start + gap;
    timeline->pending[0] = id;
    timeline->n_pending = 1;
    t->unfinished = true;
    return TXL_OK;
}

/* ---- Left to right, and blocks ------------------------------------------------------------ */

size_t xlnet_room(const struct timeline *t) {
    return smaller(t->chunk, (size_t)t->settings.tgt_len - (size_t)timeline_segment_length(t));
}

static txl_status begin_pass(struct timeline *t, txl_error *error) {
    txl_status status = finish_gaps(xlnet_timeline(t), error);
    if (timeline_segment_length(t) == 0)
        t->segment_start = t->next;
    return status;
}

txl_status xlnet_advance(struct timeline *t, const int32_t *ids, size_t n, bool every,
                         const float **hidden, txl_error *error) {
    struct xlnet_timeline *timeline = xlnet_timeline(t);
    txl_status status = begin_pass(t, error);
    if (status)
        return status;
    for (size_t i = 0; i < n; i++) {
        timeline->row[i] = content_left(t->next + i);
        timeline->row[n + i] = query_left(t->next + i + 1);
    }
    if (!every)
        timeline->row[n] = query_left(t->next + n);
    status = run_pass(timeline, ids, n, every ? n : 1, hidden, error);
    if (!status)
        t->next += n;
    return status;
}

txl_status xlnet_advance_each(struct timeline *const *each, const int32_t *ids, size_t n,
                              const float **hidden, txl_error *error) {
    struct xlnet_timeline *lead = xlnet_timeline(each[0]);
    struct xlnet_pass pass = {
        .timeline = lead, .each = each, .n_timeline = n, .n_content = n, .n_query = n};
    for (size_t t = 0; t < n; t++) {
        txl_status status = begin_pass(each[t], error);
        if (status)
            return status;
        lead->row[t] = content_left(each[t]->next);
        lead->row[n + t] = query_left(each[t]->next + 1);
    }
    *hidden = lead->hidden + n * (size_t)lead->net->d_model;
    txl_status status = forward_pass(&pass, ids, error);
    for (size_t t = 0; t < n && !status; t++)
        each[t]->next++;
    return status;
}

static txl_status feed_block(struct timeline *t, const int32_t *ids, size_t n, const float **hidden,
                             txl_error *error) {
    struct xlnet_timeline *timeline = xlnet_timeline(t);
    txl_status status = finish_gaps(timeline, error);
    if (status)
        return status;
    t->segment_start = t->next;
    for (size_t i = 0; i < n; i++)
        timeline->row[i] = content_block(timeline->net, t->next + i, t->next + n);
    timeline->row[n] = query_left(t->next + n);
    status = run_pass(timeline, ids, n, 1, hidden, error);
    if (!status)
        t->next = t->segment_start = t->next + n;
    return status;
}

static txl_status feed_block_then_left(struct timeline *t, const int32_t *ids, size_t known,
                                       size_t n, const float **hidden, txl_error *error) {
    struct xlnet_timeline *timeline = xlnet_timeline(t);
    size_t content = known + n - 1;
    xlnet_reset(t);
    for (size_t i = 0; i < known; i++)
        timeline->row[i] = content_block(timeline->net, i, known);
    for (size_t i = known; i < content; i++)
        timeline->row[i] = content_left(i);
    for (size_t i = 0; i < n; i++)
        timeline->row[content + i] = query_left(known + i);
    txl_status status = run_pass(timeline, ids, content, n, hidden, error);
    t->next = t->segment_start = content;
    return status;
}

const struct both_sides xlnet_both_sides = {
    .block = feed_block,
    .block_then_left = feed_block_then_left,
    .gaps = feed_gaps,
    .ask = ask_gaps,
    .fill = fill_gap,
};
