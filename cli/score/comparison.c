/* Differences between two models' predictions of the same tokens. */
#include "comparison.h"
#include "cli/io/output.h"
#include "cli/io/terminal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- Sums --------------------------------------------------------------------------------- */

static void note_largest(struct divergence *divergence, double difference, uint64_t index) {
    if (divergence->difference.predicted == 0 || fabs(difference) > fabs(divergence->largest)) {
        divergence->largest = difference;
        divergence->largest_index = index;
    }
}

void divergence_merge(struct divergence *divergence, const struct divergence *other) {
    if (other->difference.predicted == 0)
        return;
    note_largest(divergence, other->largest, other->largest_index);
    score_merge(&divergence->other, &other->other);
    score_merge(&divergence->difference, &other->difference);
    divergence->kl += other->kl;
    divergence->agreed += other->agreed;
}

/* For two distributions p, q over n tokens, given as logarithms: the sum of p (log p - log q), and
 * whether both have the same likeliest token (ties: the lowest id). */
static double divergence_of(const float *p, const float *q, size_t n, bool *agreed) {
    double sum = 0;
    size_t best_p = 0, best_q = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)(expf(p[i]) * (p[i] - q[i]));
        best_p = p[i] > p[best_p] ? i : best_p;
        best_q = q[i] > q[best_q] ? i : best_q;
    }
    *agreed = best_p == best_q;
    return fmax(sum, 0); /* only rounding makes it negative */
}

txl_status comparison_token(void *context, const struct scored *token, txl_error *error) {
    (void)error;
    struct comparison *comparison = context;
    struct divergence *divergence = &comparison->divergence;
    double difference = (double)token->nats[1] - (double)token->nats[0];
    bool agreed;
    comparison->last_divergence =
        divergence_of(token->logprob[0], token->logprob[1], comparison->n_token, &agreed);
    note_largest(divergence, difference, token->index);
    score_add(&divergence->other, token->nats[1]);
    score_add(&divergence->difference, difference);
    divergence->kl += comparison->last_divergence;
    divergence->agreed += agreed;
    return TXL_OK;
}

/* ---- Vocabularies ------------------------------------------------------------------------- */

bool comparison_possible(const struct model *model, const struct model *other) {
    int32_t n = txl_model_n_token(model->handle), n_other = txl_model_n_token(other->handle);
    if (n != n_other) {
        return terminal_error("--compare: %s has %" PRId32 " symbols, %s has %" PRId32
                              "; only models of one vocabulary can be compared",
                              model->name, n, other->name, n_other);
    }
    if (txl_model_kind(model->handle) != txl_model_kind(other->handle)) {
        return terminal_error(
            "--compare: %s and %s are of different kinds of text; only models of one "
            "vocabulary can be compared",
            model->name, other->name);
    }
    for (int32_t id = 0; id < n; id++) {
        size_t length, length_other;
        const char *symbol = txl_model_symbol(model->handle, id, &length);
        const char *symbol_other = txl_model_symbol(other->handle, id, &length_other);
        if (length != length_other || memcmp(symbol, symbol_other, length) != 0) {
            return terminal_error(
                "--compare: symbol %" PRId32
                " differs between %s and %s; only models of one vocabulary can be "
                "compared",
                id, model->name, other->name);
        }
    }
    return true;
}

/* ---- Telling ------------------------------------------------------------------------------ */

bool divergence_to_json(json_t *object, const struct divergence *divergence) {
    double n = (double)divergence->difference.predicted;
    return output_json_append(
        object,
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:I}", "difference",
                  output_json_number(divergence->difference.mean), "difference_standard_error",
                  output_json_number(score_standard_error(&divergence->difference)),
                  "kl_divergence", output_json_number(divergence->kl / n), "top_agreement",
                  output_json_number((double)divergence->agreed / n), "largest_difference",
                  output_json_number(divergence->largest), "largest_difference_index",
                  (json_int_t)divergence->largest_index));
}
