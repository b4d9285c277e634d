/* The adaptive embedding and the adaptive softmax of a training step (Grave et al. 2017, Baevski
 * and Auli 2019), forward and backward.  The softmax runs forward and backward for a piece of the
 * rows at a time, so that its logits need little memory. */
#include "lib/base/memory.h"
#include "training.h"

#include <math.h>
#include <string.h>

/* ---- Embedding ---------------------------------------------------------------------------- */

/* The embeddings of a band's tokens; with a projection, `wide` is their product with it. */
struct embedding {
    struct training *t;
    const struct band *band;
    size_t count;
    float *wide; /* [count, d_model] */
    float *d_embedding;
};

static void embed_task(void *context, int i, int thread) {
    (void)thread;
    const struct embedding *e = context;
    struct training *t = e->t;
    size_t d = (size_t)t->net->d_model;
    const struct task_range rows = task_range_of(e->count, ROW_PIECE, i);
    float scale = (float)sqrt((double)d);
    const float *sines = NULL; /* of absolute positions, which count from the segment's end */
    if (t->net->attn_type == ATTENTION_SINUSOID)
        sines = t->sines + (most_length(t) - t->length) * d;
    for (size_t k = rows.first; k < rows.end; k++) {
        size_t row = t->member[k];
        float *out = t->embedding + row * d;
        for (size_t j = 0; j < d; j++)
            out[j] = e->wide[k * d + j] * scale;
        if (sines)
            t->loops->add(d, sines + row % t->length * d, out);
        if (t->dropout.threshold > 0)
            t->loops->drop(&t->dropout, DROP_EMBEDDING, dropout_row(t, row), 0, d, out);
    }
}

/* out[count, d_band] = the members' rows. */
static void gather_rows(struct training *t, const struct band *band, size_t count, float *out) {
    const float *table = band->embedding.data;
    size_t width = band->embedding.n_col;
    for (size_t k = 0; k < count; k++) {
        size_t id = (size_t)t->ids[t->member[k]] - band->first;
        memcpy(out + k * width, table + id * width, width * sizeof *out);
    }
}

void train_embed(struct training *t) {
    for (int i = 0; i < t->bands->n_band; i++) {
        const struct band *band = &t->bands->band[i];
        size_t count = bands_members(t->bands, i, t->ids, t->n, t->member);
        struct embedding e = {.t = t, .band = band, .count = count, .wide = t->output};
        gather_rows(t, band, count, band->embedding_projection.data ? t->narrow : t->output);
        if (band->embedding_projection.data) {
            const struct product widen =
                linear(count, t->narrow, &band->embedding_projection, t->output);
            products_run(&t->products, &widen, 1);
        }
        pool_run(t->pool, (int)pieces(count, ROW_PIECE), embed_task, &e);
    }
}

/* wide = the gradients of the members' embeddings before scale and dropout. */
static void unembed_task(void *context, int i, int thread) {
    (void)thread;
    const struct embedding *e = context;
    struct training *t = e->t;
    size_t d = (size_t)t->net->d_model;
    const struct task_range rows = task_range_of(e->count, ROW_PIECE, i);
    float scale = (float)sqrt((double)d);
    for (size_t k = rows.first; k < rows.end; k++) {
        size_t row = t->member[k];
        float *from = e->d_embedding + row * d, *out = e->wide + k * d;
        if (t->dropout.threshold > 0)
            t->loops->drop(&t->dropout, DROP_EMBEDDING, dropout_row(t, row), 0, d, from);
        for (size_t j = 0; j < d; j++)
            out[j] = from[j] * scale;
    }
}

/* Adds the rows of one piece of columns to the table's gradient, in the order of the tokens. */
static void scatter_task(void *context, int i, int thread) {
    (void)thread;
    const struct embedding *e = context;
    struct training *t = e->t;
    size_t width = e->band->embedding.n_col;
    const struct task_range columns = task_range_of(width, COLUMN_PIECE, i);
    float *table = gradient_of(t, e->band->embedding.data);
    const float *rows = e->band->embedding_projection.data ? t->d_narrow : e->wide;
    for (size_t k = 0; k < e->count; k++) {
        size_t id = (size_t)t->ids[t->member[k]] - e->band->first;
        t->loops->add(columns.end - columns.first, rows + k * width + columns.first,
                      table + id * width + columns.first);
    }
}

void train_embed_gradient(struct training *t, float *d_embedding) {
    size_t d = (size_t)t->net->d_model;
    for (int i = 0; i < t->bands->n_band; i++) {
        const struct band *band = &t->bands->band[i];
        const struct matrix *p = &band->embedding_projection;
        size_t width = band->embedding.n_col;
        size_t count = bands_members(t->bands, i, t->ids, t->n, t->member);
        struct embedding e = {t, band, count, t->output, d_embedding};
        pool_run(t->pool, (int)pieces(count, ROW_PIECE), unembed_task, &e);
        if (p->data) {
            gather_rows(t, band, count, t->narrow);
            struct product product[] = {
                input_gradient(count, t->output, p, t->d_narrow),
                weight_gradient(t, count, t->output, d, t->narrow, p),
            };
            product[1].add = true;
            products_run(&t->products, product, 2);
        }
        pool_run(t->pool, (int)pieces(width, COLUMN_PIECE), scatter_task, &e);
    }
}

/* ---- Softmax ------------------------------------------------------------------------------ */

/* A band's softmax (for the head: its tokens, then its clusters) for `count` rows of hidden. */
struct softmax {
    struct training *t;
    int band;
    size_t count;        /* rows of the current piece */
    size_t first;        /* index of the first one in t->member */
    size_t n, n_cluster; /* entries: the band's tokens, and the clusters */
    const float *hidden; /* [count, d_model] */
    const float *narrow; /* [count, d_band]: the same, projected if there is a projection */
};

/* Moves to the next piece of `end` rows; false: there is none. */
static bool next_piece(struct softmax *s, size_t end) {
    s->first += s->count;
    s->count = smaller(end - s->first, s->t->softmax_rows);
    return s->count > 0;
}

/* The entry for target `id` in the softmax. */
static size_t entry_of(const struct softmax *s, int32_t id) {
    const struct bands *bands = s->t->bands;
    int band = bands_band_of(bands, (size_t)id);
    if (band == s->band)
        return (size_t)id - bands->band[band].first;
    return s->n + bands_cluster_row(bands, band);
}

/* A band's softmax_projection, or the embedding's transpose if they are tied. */
static struct product narrow_hidden(const struct softmax *s, float *narrow) {
    const struct band *band = &s->t->bands->band[s->band];
    return s->t->tied_projection[s->band]
               ? input_gradient(s->count, s->hidden, &band->embedding_projection, narrow)
               : linear(s->count, s->hidden, &band->softmax_projection, narrow);
}

/* Computes t->logit[count, n + n_cluster] of the current piece, without the biases. */
static void compute_logits(struct softmax *s) {
    struct training *t = s->t;
    const struct band *band = &t->bands->band[s->band];
    const struct product narrow = narrow_hidden(s, t->narrow);
    s->narrow = s->hidden;
    if (narrow.b.x) {
        s->narrow = t->narrow;
        products_run(&t->products, &narrow, 1);
    }
    struct product logits[] = {linear(s->count, s->narrow, &band->softmax, t->logit),
                               linear(s->count, s->narrow, &t->bands->cluster, t->logit + s->n)};
    logits[0].ldc = logits[1].ldc = s->n + s->n_cluster;
    products_run(&t->products, logits, s->n_cluster > 0 ? 2 : 1);
}

static void add_biases(const struct softmax *s, float *logit) {
    const struct bands *bands = s->t->bands;
    s->t->loops->add(s->n, bands->band[s->band].softmax_bias, logit);
    if (s->n_cluster > 0)
        s->t->loops->add(s->n_cluster, bands->cluster_bias, logit + s->n);
}

static void entropy_task(void *context, int i, int thread) {
    (void)thread;
    const struct softmax *s = context;
    struct training *t = s->t;
    size_t n = s->n + s->n_cluster;
    const struct task_range rows = task_range_of(s->count, ROW_PIECE, i);
    for (size_t k = rows.first; k < rows.end; k++) {
        float *logit = t->logit + k * n;
        size_t row = t->member[s->first + k];
        add_biases(s, logit);
        t->nats[row] +=
            t->loops->cross_entropy(n, entry_of(s, t->target[row]), 1 / (float)t->n_all, logit);
    }
}

/* Runs forward and backward for the current piece; writes d_hidden[count, d_model]. */
static void softmax_rows(struct softmax *s, float *d_hidden) {
    struct training *t = s->t;
    const struct band *band = &t->bands->band[s->band];
    const struct matrix *cluster = &t->bands->cluster;
    bool tied = t->tied_projection[s->band];
    const struct matrix *p = tied ? &band->embedding_projection : &band->softmax_projection;
    size_t d = (size_t)t->net->d_model, width = band->softmax.n_col, n = s->n + s->n_cluster;
    compute_logits(s);
    pool_run(t->pool, (int)pieces(s->count, ROW_PIECE), entropy_task, s);
    train_sum_rows(t, s->count, s->n, t->logit, n, gradient_of(t, band->softmax_bias));
    if (s->n_cluster > 0)
        t->loops->sum_rows(s->count, s->n_cluster, t->logit + s->n, n,
                           gradient_of(t, t->bands->cluster_bias));
    struct product gradients[3] = {
        input_gradient(s->count, t->logit, &band->softmax, p->data ? t->d_narrow : d_hidden),
        weight_gradient(t, s->count, t->logit, n, s->narrow, &band->softmax)};
    gradients[0].a.ld = n;
    gradients[1].add = true;
    if (s->n_cluster > 0) {
        gradients[0].more = s->n_cluster;
        gradients[0].more_a = as_is(t->logit + s->n, n);
        gradients[0].more_b = as_is(cluster->data, width);
        gradients[2] = weight_gradient(t, s->count, t->logit + s->n, n, s->narrow, cluster);
        gradients[2].add = true;
    }
    products_run(&t->products, gradients, s->n_cluster > 0 ? 3 : 2);
    if (!p->data)
        return;
    struct product widen[] = {tied ? linear(s->count, t->d_narrow, p, d_hidden)
                                   : input_gradient(s->count, t->d_narrow, p, d_hidden),
                              tied
                                  ? weight_gradient(t, s->count, s->hidden, d, t->d_narrow, p)
                                  : weight_gradient(t, s->count, t->d_narrow, width, s->hidden, p)};
    widen[1].add = true;
    products_run(&t->products, widen, 2);
}

static void softmax_head(struct training *t, float *d_hidden) {
    size_t d = (size_t)t->net->d_model;
    struct softmax s = {
        .t = t, .n = t->bands->band[0].n_token, .n_cluster = (size_t)t->bands->n_band - 1};
    for (size_t k = 0; k < t->n_target; k++)
        t->member[k] = k;
    while (next_piece(&s, t->n_target)) {
        s.hidden = t->hidden + s.first * d;
        softmax_rows(&s, d_hidden + s.first * d);
    }
}

static void softmax_tail(struct training *t, int i, float *d_hidden) {
    size_t d = (size_t)t->net->d_model;
    size_t count = bands_members(t->bands, i, t->target, t->n_target, t->member);
    struct softmax s = {.t = t, .band = i, .n = t->bands->band[i].n_token, .hidden = t->gather};
    while (next_piece(&s, count)) {
        for (size_t k = 0; k < s.count; k++)
            memcpy(t->gather + k * d, t->hidden + t->member[s.first + k] * d,
                   d * sizeof *t->gather);
        softmax_rows(&s, t->d_gather);
        for (size_t k = 0; k < s.count; k++)
            t->loops->add(d, t->d_gather + k * d, d_hidden + t->member[s.first + k] * d);
    }
}

void train_softmax(struct training *t, float *d_hidden) {
    memset(t->nats, 0, t->n_target * sizeof *t->nats);
    softmax_head(t, d_hidden);
    for (int i = 1; i < t->bands->n_band; i++)
        softmax_tail(t, i, d_hidden);
}

/* ---- Distributions ------------------------------------------------------------------------ */

struct distributions {
    struct softmax softmax; /* `first`: of the current piece's rows */
    float *out;             /* [n, n_token] */
    float *cluster;         /* [n, n_band - 1]: of the bands after the first */
};

static void distribution_task(void *context, int i, int thread) {
    (void)thread;
    const struct distributions *o = context;
    const struct softmax *s = &o->softmax;
    const struct training *t = s->t;
    const struct band *band = &t->bands->band[s->band];
    size_t n = s->n + s->n_cluster, n_band = (size_t)t->bands->n_band;
    size_t n_token = bands_n_token(t->bands);
    const struct task_range rows = task_range_of(s->count, ROW_PIECE, i);
    for (size_t k = rows.first; k < rows.end; k++) {
        float *logit = t->logit + k * n, *cluster = o->cluster + (s->first + k) * (n_band - 1);
        float *out = o->out + (s->first + k) * n_token + band->first;
        add_biases(s, logit);
        memcpy(out, logit, s->n * sizeof *out);
        if (s->n_cluster > 0)
            memcpy(cluster, logit + s->n, s->n_cluster * sizeof *cluster);
        /* The band's own part, as the nats of its first token say, and the band's in the head. */
        float whole = logit[0];
        whole += t->loops->cross_entropy(n, 0, 1, logit);
        if (s->band > 0)
            whole -= cluster[bands_cluster_row(t->bands, s->band)];
        for (size_t c = 0; c < s->n; c++)
            out[c] -= whole;
        for (size_t c = 0; c < s->n_cluster; c++)
            cluster[c] -= whole;
    }
}

void train_distributions(struct training *t, float *out) {
    size_t d = (size_t)t->net->d_model;
    for (int i = 0; i < t->bands->n_band; i++) {
        struct distributions o = {.out = out, .cluster = t->cluster};
        struct softmax *s = &o.softmax;
        *s = (struct softmax){.t = t,
                              .band = i,
                              .n = t->bands->band[i].n_token,
                              .n_cluster = i == 0 ? (size_t)t->bands->n_band - 1 : 0};
        while (next_piece(s, t->n_target)) {
            s->hidden = t->hidden + s->first * d;
            compute_logits(s);
            pool_run(t->pool, (int)pieces(s->count, ROW_PIECE), distribution_task, &o);
        }
    }
}
