/* The relative effective context length. */
#include "recl.h"
#include "cli/io/output.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double shares[RECL_SHARES] = {0.1, 0.5, 1};
static const double least_gain = 0.01;

struct hard {
    float best; /* b(c, t) */
    size_t token;
};

/* The hardest come first, of equally hard ones the earlier. */
static int harder(const void *a, const void *b) {
    const struct hard *x = a, *y = b;
    if (x->best != y->best)
        return x->best < y->best ? 1 : -1;
    return (x->token > y->token) - (x->token < y->token);
}

static const float *nats_of(const struct recl *recl, size_t model, size_t length, size_t n) {
    return (const float *)(const void *)recl->nats.data + (model * recl->n_length + length) * n;
}

static double *gains(const struct recl *recl, size_t model, size_t c) {
    return recl->gain + (model * (recl->n_length - 1) + c) * RECL_SHARES;
}

/* The gains of a model at length `c`, whose tokens are in order of b, which is the least of
 * min(b, l_i): f_i(c, c) is its mean. */
static void gain_at(struct recl *recl, size_t model, size_t c, const struct hard *hard, size_t n) {
    const float *next = nats_of(recl, model, c + 1, n);
    double change = 0; /* sum of min(b(c, t), l_i(c', t)) - b(c, t) */
    for (size_t r = 0, i = 0; r < RECL_SHARES; r++) {
        size_t part = (size_t)ceil(shares[r] * (double)n);
        for (; i < part; i++)
            change += fmin(0, (double)next[hard[i].token] - (double)hard[i].best);
        gains(recl, model, c)[r] = 1 - exp(change / (double)part);
    }
}

bool recl_compute(struct recl *recl, size_t n) {
    struct hard *hard = calloc(n, sizeof *hard);
    recl->gain = calloc(recl->n_model * recl->n_length * RECL_SHARES, sizeof *recl->gain);
    bool good = hard && recl->gain;
    for (size_t c = 0; c + 1 < recl->n_length && good; c++) {
        for (size_t t = 0; t < n; t++) {
            hard[t] = (struct hard){INFINITY, t};
            for (size_t model = 0; model < recl->n_model; model++)
                hard[t].best = fminf(hard[t].best, nats_of(recl, model, c, n)[t]);
        }
        qsort(hard, n, sizeof *hard, harder);
        for (size_t model = 0; model < recl->n_model; model++)
            gain_at(recl, model, c, hard, n);
    }
    free(hard);
    return good;
}

int recl_length(const struct recl *recl, size_t model, size_t r) {
    for (size_t c = recl->n_length - 1; c-- > 0;)
        if (gains(recl, model, c)[r] >= least_gain)
            return recl->length[c];
    return -1;
}

void recl_free(struct recl *recl) {
    buffer_free(&recl->nats);
    free(recl->gain);
    free(recl->model);
    *recl = (struct recl){0};
}

bool recl_print(const struct recl *recl) {
    bool good = output_line("%8s  %8s  %9s  %9s  %9s  gain among the hardest", "mem_len", "next",
                            "10 %", "50 %", "all");
    for (size_t m = 0; m < recl->n_model && good; m++) {
        char length[RECL_SHARES][16];
        for (size_t c = 0; c + 1 < recl->n_length && good; c++) {
            const double *gain = gains(recl, m, c);
            good = output_line("%8d  %8d  %7.3f %%  %7.3f %%  %7.3f %%  %s", recl->length[c],
                               recl->length[c + 1], 100 * gain[0], 100 * gain[1], 100 * gain[2],
                               recl->model[m]);
        }
        for (size_t r = 0; r < RECL_SHARES; r++) {
            int found = recl_length(recl, m, r);
            snprintf(length[r], sizeof length[r], found < 0 ? "none" : "%d", found);
        }
        good = good && output_line("%s: relative effective context length %s, %s, %s (10 %%, 50 "
                                   "%%, all)",
                                   recl->model[m], length[0], length[1], length[2]);
    }
    return good && output_flush();
}

json_t *recl_to_json(const struct recl *recl) {
    json_t *list = json_array();
    bool good = list;
    for (size_t m = 0; m < recl->n_model && good; m++) {
        json_t *lengths = json_array(), *steps = json_array();
        for (size_t r = 0; r < RECL_SHARES; r++) {
            int found = recl_length(recl, m, r);
            json_t *one = json_pack("{s:f, s:o}", "share", shares[r], "length",
                                    found < 0 ? json_null() : json_integer(found));
            good = json_array_append_new(lengths, one) == 0 && good;
        }
        for (size_t c = 0; c + 1 < recl->n_length; c++) {
            const double *gain = gains(recl, m, c);
            json_t *one = json_pack("{s:i, s:i, s:[f, f, f]}", "mem_len", recl->length[c], "next",
                                    recl->length[c + 1], "gains", gain[0], gain[1], gain[2]);
            good = json_array_append_new(steps, one) == 0 && good;
        }
        json_t *one = json_pack("{s:o, s:o, s:o}", "model", output_json_string(recl->model[m]),
                                "lengths", lengths, "steps", steps);
        good = json_array_append_new(list, one) == 0 && good;
    }
    return output_json_if(good, list);
}
