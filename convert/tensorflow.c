/* The published evaluations (tf/sota of the authors' code), and its datasets. */
#include "tensorflow.h"

#include <string.h>

static const struct evaluation evaluations[] = {
    {"enwik8 or text8", 24, 1024, 8, 128, 3072, 1, {0}, 128, 3800, 1000},
    {"WikiText-103", 18, 1024, 16, 64, 4096, 4, {20000, 40000, 200000}, 128, 1600, 1000},
    {"One Billion Words", 24, 1280, 16, 80, 8192, 4, {60000, 100000, 640000}, 32, 128, -1},
};

static const struct {
    const char *dataset, *tokenizer;
} datasets[] = {{"enwik8", "bytes"}, {"text8", "text8"}, {"wt103", "words"},
                {"wt2", "words"},    {"ptb", "words"},   {"lm1b", "lm1b"}};

static bool has_cutoffs(const struct transformer_xl_settings *s, const int *cutoff) {
    int n = 0;
    while (n < 3 && cutoff[n] > 0)
        n++;
    return s->n_band == n + 1 && memcmp(s->cutoff, cutoff, (size_t)n * sizeof *cutoff) == 0;
}

const struct evaluation *tensorflow_evaluation(const struct transformer_xl_settings *s,
                                               const char *dataset) {
    const bool letters =
        dataset && (strcmp(dataset, "enwik8") == 0 || strcmp(dataset, "text8") == 0);
    for (size_t i = 0; i < sizeof evaluations / sizeof *evaluations; i++) {
        const struct evaluation *e = &evaluations[i];
        if (s->n_layer == e->n_layer && s->d_model == e->d_model && s->n_head == e->n_head &&
            s->d_head == e->d_head && s->d_inner == e->d_inner && s->div_val == e->div_val &&
            has_cutoffs(s, e->cutoff) && (s->n_band > 1 || letters))
            return e;
    }
    return NULL;
}

const char *tensorflow_tokenizer(const char *dataset) {
    for (size_t i = 0; dataset && i < sizeof datasets / sizeof *datasets; i++)
        if (strcmp(datasets[i].dataset, dataset) == 0)
            return datasets[i].tokenizer;
    return NULL;
}
