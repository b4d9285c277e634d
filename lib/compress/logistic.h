/* Probabilities and their logits, the domain in which predictions are mixed, in integers alone:
 * what depends on them is the same on every machine. */
#ifndef TXL_COMPRESS_LOGISTIC_H
#define TXL_COMPRESS_LOGISTIC_H

#include <assert.h>
#include <stdint.h>

/* A probability is a share of 65,536.  A logit ln(p / (1 - p)) is in 1/256. */
enum { PROBABILITY_ONE = 1 << 16, LOGIT_ONE = 256, LOGIT_LIMIT = 2880 };

static_assert((-1 >> 1) == -1, "a shift of a negative number rounds down");

struct logistic {
    uint16_t squash[2 * LOGIT_LIMIT + 1]; /* 1 / (1 + exp(-x)) of logit x, at x + LOGIT_LIMIT */
    int16_t stretch[PROBABILITY_ONE];     /* the least logit that squashes to p or more */
};

void logistic_start(struct logistic *logistic);

static inline int squash(const struct logistic *logistic, int x) {
    return logistic->squash[LOGIT_LIMIT + x];
}

static inline int stretch(const struct logistic *logistic, unsigned p) {
    return logistic->stretch[p];
}

/* The logit of a sum of products by weights, of which 65,536 is 1. */
static inline int logit_of_sum(int64_t sum) {
    const int64_t x = sum >> 16;
    return x >= LOGIT_LIMIT ? LOGIT_LIMIT - 1 : x <= -LOGIT_LIMIT ? 1 - LOGIT_LIMIT : (int)x;
}

/* The finaliser of SplitMix64 (Steele, Lea and Flood 2014), and of two numbers a key. */
static inline uint64_t hash(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    return x ^ x >> 31;
}

static inline uint64_t hash_pair(uint64_t a, uint64_t b) {
    return hash(a) + b;
}

#define GOLDEN_RATIO 0x9E3779B97F4A7C15 /* of 2^64: multiples of it are far apart */

#endif
