/* Ranks and sums in a distribution. */
#include "distribution.h"

#include <math.h>

/* Whether `a` comes before `b` in the order of likelihood. */
static bool comes_before(const float *logprob, int32_t a, int32_t b) {
    return logprob[a] > logprob[b] || (logprob[a] == logprob[b] && a < b);
}

/* Restores the heap below ids[at]: each element comes after its two children in the order. */
static void sift_down(const float *logprob, int32_t *ids, int32_t k, int32_t at) {
    for (;;) {
        int32_t child = 2 * at + 1;
        if (child >= k)
            return;
        if (child + 1 < k && comes_before(logprob, ids[child], ids[child + 1]))
            child++;
        if (!comes_before(logprob, ids[at], ids[child]))
            return;
        int32_t id = ids[at];
        ids[at] = ids[child];
        ids[child] = id;
        at = child;
    }
}

/* Keeps a heap of the k best so far with the worst of them on top; then sorts it by removing the
 * top again and again. */
void likeliest(const float *logprob, int32_t n, int32_t *ids, int32_t k) {
    for (int32_t i = 0; i < k; i++)
        ids[i] = i;
    for (int32_t i = k / 2; i-- > 0;)
        sift_down(logprob, ids, k, i);
    for (int32_t i = k; i < n && k > 0; i++) {
        if (comes_before(logprob, i, ids[0])) {
            ids[0] = i;
            sift_down(logprob, ids, k, 0);
        }
    }
    for (int32_t left = k; left > 1; left--) {
        int32_t worst = ids[0];
        ids[0] = ids[left - 1];
        ids[left - 1] = worst;
        sift_down(logprob, ids, left - 1, 0);
    }
}

int32_t rank_of(int32_t id, const float *logprob, int32_t n) {
    int32_t rank = 1;
    for (int32_t other = 0; other < n; other++)
        rank += comes_before(logprob, other, id);
    return rank;
}

double entropy_of(const float *logprob, int32_t n) {
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        if (isfinite(logprob[i]))
            sum -= (double)(expf(logprob[i]) * logprob[i]);
    return fmax(sum, 0); /* -0 if one token is certain */
}

double log_mass(const bool *of, const float *logprob, int32_t n) {
    double sum = 0;
    for (int32_t id = 0; id < n; id++)
        if (of[id])
            sum += exp((double)logprob[id]);
    return log(sum);
}

struct moment moment_of(const txl_model *model, const bool *begins, bool entropy,
                        const struct scored *token) {
    const float *logprob = token->logprob[0];
    const int32_t n = txl_model_n_token(model);
    return (struct moment){.begins = begins ? log_mass(begins, logprob, n) : 0,
                           .entropy = entropy ? entropy_of(logprob, n) : 0};
}
