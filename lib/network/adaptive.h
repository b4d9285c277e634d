/* The token embedding and the softmax head, adaptive or plain (a plain one has one band of the
 * vocabulary).  Grave et al. 2017, "Efficient softmax approximation for GPUs"; Baevski & Auli 2019,
 * "Adaptive Input Representations for Neural Language Modeling". */
#ifndef TXL_NETWORK_ADAPTIVE_H
#define TXL_NETWORK_ADAPTIVE_H

#include "compute.h"

/* A band of the vocabulary, [first, first + n_token), in the adaptive input and softmax. */
struct band {
    size_t first, n_token;
    struct matrix embedding;            /* [n_token, d_band] */
    struct matrix embedding_projection; /* [d_model, d_band], or none */
    struct matrix softmax;              /* [n_token, d_band] */
    struct matrix softmax_projection;   /* [d_band, d_model], or none */
    const float *softmax_bias;          /* [n_token] */
};

/* The embedding and the softmax head of a network. */
struct bands {
    size_t d_model;
    float scale; /* of embeddings */
    int n_band;
    struct band *band;         /* the first is the widest */
    struct matrix cluster;     /* [n_band - 1, d_band 0]: the head's entries of the other bands */
    const float *cluster_bias; /* [n_band - 1] */
    bool forward_order;        /* band i is cluster i - 1, not the i-th from the end */
};

/* The number of tokens of all bands. */
static inline size_t bands_n_token(const struct bands *bands) {
    const struct band *last = &bands->band[bands->n_band - 1];
    return last->first + last->n_token;
}

/* The band of a token. */
static inline int bands_band_of(const struct bands *bands, size_t id) {
    int i = 0;
    while (id >= bands->band[i].first + bands->band[i].n_token)
        i++;
    return i;
}

/* Lists in member[] which of ids[n] are in band i; returns their number. */
size_t bands_members(const struct bands *bands, int i, const int32_t *ids, size_t n,
                     size_t *member);

/* The row of the head's clusters that stands for band i >= 1. */
static inline size_t bands_cluster_row(const struct bands *bands, int i) {
    return (size_t)(bands->forward_order ? i - 1 : bands->n_band - 1 - i);
}

/* The number of entries of band i's softmax: its tokens, and for band 0 the other bands too. */
static inline size_t bands_entries(const struct bands *bands, int i) {
    return bands->band[i].n_token + (i == 0 ? (size_t)bands->n_band - 1 : 0);
}

/* The most entries of a band's softmax. */
size_t bands_most_entries(const struct bands *bands);

/* What one token needs of both, in bytes and in additions and multiplications: one row of the
 * embedding, and the first band of the softmax with the entries of the other bands. */
void bands_costs(const struct bands *bands, uint64_t *bytes, uint64_t *products);

/* Extra products, of one multiplication and one addition each, to score target `id`: its band's
 * logits; none in the first band. */
uint64_t bands_target_products(const struct bands *bands, int32_t id);

/* Working memory for up to max_x tokens at a time. */
struct adaptive {
    const struct bands *bands;
    size_t max_x;
    float *narrow;   /* [max_x, d_embed]: rows of a band, before or after its projection */
    float *gather;   /* [max_x, d_model] */
    size_t *member;  /* [max_x]: which tokens belong to the current band */
    size_t *entry;   /* [max_x]: their targets' places in its softmax */
    float *partial;  /* [blocks, max_x, 2]: largest logit of a block, and its sum of exponentials */
    float *logit;    /* [max_x]: of the targets */
    float *nats;     /* [max_x]: of waiting positions in their band */
    double *cluster; /* [max_x, n_band]: room for adaptive_head */
    float *cluster_logit; /* [max_x, n_band - 1] */
    /* Positions whose targets are in other bands than the first wait to be scored together. */
    size_t n_waiting;
    int32_t *waiting_target; /* [max_x] */
    float **waiting_nats;    /* [max_x]: those of the band's entry in the head, to be added to */
    float *waiting_hidden;   /* [max_x, d_model] */
    /* Of the exact arithmetic: */
    double *waiting_cluster; /* [max_x]: the log-probability of the band's entry in the head */
    double *found; /* [max_x]: the log-probabilities of the targets' entries in the head */
    float *logits; /* [most_logits]: whole rows of a softmax */
    size_t most_logits;
};

/* Takes the memory from the arena. */
void adaptive_lay_out(struct adaptive *adaptive, const struct bands *bands, size_t max_x,
                      bool exact, struct arena *arena);
/* Names the head's matrices to compute_order; they are BANDS_ORDER at most. */
enum { BANDS_ORDER = 3 };
void adaptive_order(const struct bands *bands, struct compute *compute);
/* Floats of scratch that each thread needs. */
size_t adaptive_scratch(const struct bands *bands, size_t max_x);

/* out[n, d_model] = the embeddings of ids[n], scaled. */
void adaptive_embed(struct adaptive *adaptive, const struct compute *compute, const int32_t *ids,
                    size_t n, float *out);

/* nats[i] = -log softmax(hidden[i])[targets[i]]: hidden[n, d_model], computing the head and only
 * the bands that contain a target.  Positions with a target beyond the first band wait until they
 * are many: nats[] must stay valid until adaptive_score_end, which completes it. */
void adaptive_score(struct adaptive *adaptive, const struct compute *compute, const float *hidden,
                    size_t n, const int32_t *targets, float *nats);
void adaptive_score_end(struct adaptive *adaptive, const struct compute *compute);

/* Computes distributions in two steps, for hidden[n, d_model], n <= max_x.  adaptive_head gives the
 * log-probabilities of band 0's tokens, and of each other band as a whole in cluster[n, n_band]
 * (entry 0 is unused).  adaptive_tail gives those of band i's tokens.  Each fills only its band's
 * part of logprob[n, n_token]. */
void adaptive_head(struct adaptive *adaptive, const struct compute *compute, const float *hidden,
                   size_t n, float *logprob, double *cluster);
void adaptive_tail(struct adaptive *adaptive, const struct compute *compute, const float *hidden,
                   size_t n, int band, const double *cluster, float *logprob);

/* Computes the softmax of band i for hidden[n, d_model], n <= max_x, before its division: with
 * entries x_j, e[t, j] = exp(x_j - max x), and sum[t] is their sum.  Row t of e begins at e[t lde];
 * lde >= bands_entries(i).  Of band 0, the entries after its tokens are bands 1, 2 and so on.
 * For the exact arithmetic only. */
void adaptive_weights(struct adaptive *adaptive, const struct compute *compute, const float *hidden,
                      size_t n, int i, float *e, size_t lde, double *sum);

#endif
