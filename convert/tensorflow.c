/* The published evaluations that TensorFlow checkpoints are of, and the datasets. */
#include "tensorflow.h"

#include <string.h>

static const struct {
    const char *dataset, *tokenizer;
} datasets[] = {{"enwik8", "bytes"}, {"text8", "text8"}, {"wt103", "words"},
                {"wt2", "words"},    {"ptb", "words"},   {"lm1b", "lm1b"}};

static bool has_cutoffs(const struct transformer_xl_settings *s, const struct published *p) {
    return s->n_band == p->n_cutoff + 1 &&
           memcmp(s->cutoff, p->cutoffs, (size_t)p->n_cutoff * sizeof *p->cutoffs) == 0;
}

const struct published *tensorflow_evaluation(const struct transformer_xl_settings *s,
                                              const char *dataset) {
    const bool letters =
        dataset && (strcmp(dataset, "enwik8") == 0 || strcmp(dataset, "text8") == 0);
    for (size_t i = 0; i < published_n_model; i++) {
        const struct published *p = &published_models[i];
        if (p->by_tensorflow && s->n_layer == p->n_layer && s->d_model == p->d_model &&
            s->n_head == p->n_head && s->d_head == p->d_head && s->d_inner == p->d_inner &&
            s->div_val == p->div_val && has_cutoffs(s, p) && (s->n_band > 1 || letters))
            return p;
    }
    return NULL;
}

const char *tensorflow_tokenizer(const char *dataset) {
    for (size_t i = 0; dataset && i < sizeof datasets / sizeof *datasets; i++)
        if (strcmp(datasets[i].dataset, dataset) == 0)
            return datasets[i].tokenizer;
    return NULL;
}
