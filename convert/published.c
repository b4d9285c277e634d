/* Dai et al. 2019, Transformer-XL: the released models, the scripts that evaluate them, and their
 * datasets. */
#include "published.h"
#include "lib/transformer_xl/parameters.h"

#include <string.h>

static const int plain[1], wt103[] = {20000, 40000, 200000}, lm1b[] = {60000, 100000, 640000};

const struct published published_models[] = {
    {"enwik8 or text8, base", "1.06 bits per character of enwik8", false, 12, 512, 8, 64, 2048, 80,
     2100, 820, 10, "bytes", 204, 1, 0, plain},
    {"enwik8 or text8, large", "0.99 bits per character of enwik8, 1.08 of text8", true, 24, 1024,
     8, 128, 3072, 128, 3800, 1000, 10, "bytes", 204, 1, 0, plain},
    {"WikiText-103, base", "perplexity 24.0", false, 16, 410, 10, 41, 2100, 64, 640, 400, 10,
     "words", 267735, 1, 3, wt103},
    {"WikiText-103, large", "perplexity 18.3", true, 18, 1024, 16, 64, 4096, 128, 1600, 1000, 10,
     "words", 267735, 4, 3, wt103},
    {"One Billion Words, base", "perplexity 23.5", false, 18, 1024, 8, 128, 4096, 32, 128, -1, 64,
     "lm1b", 793471, 4, 3, lm1b},
    {"One Billion Words, large", "perplexity 21.8", true, 24, 1280, 16, 80, 8192, 32, 128, -1, 8,
     "lm1b", 793471, 4, 3, lm1b},
};
const size_t published_n_model = sizeof published_models / sizeof *published_models;

static const struct {
    const char *dataset, *tokenizer;
} datasets[] = {{"enwik8", "bytes"}, {"text8", "text8"}, {"wt103", "words"},
                {"wt2", "words"},    {"ptb", "words"},   {"lm1b", "lm1b"}};

const struct published *published_evaluation(const struct transformer_xl_settings *s,
                                             const char *dataset) {
    const bool letters =
        dataset && (strcmp(dataset, "enwik8") == 0 || strcmp(dataset, "text8") == 0);
    for (size_t i = 0; i < published_n_model; i++) {
        const struct published *p = &published_models[i];
        if (p->by_tensorflow && s->n_layer == p->n_layer && s->d_model == p->d_model &&
            s->n_head == p->n_head && s->d_head == p->d_head && s->d_inner == p->d_inner &&
            s->div_val == p->div_val && s->n_band == p->n_cutoff + 1 &&
            memcmp(s->cutoff, p->cutoffs, (size_t)p->n_cutoff * sizeof *p->cutoffs) == 0 &&
            (s->n_band > 1 || letters))
            return p;
    }
    return NULL;
}

const char *published_tokenizer(const char *dataset) {
    for (size_t i = 0; dataset && i < sizeof datasets / sizeof *datasets; i++)
        if (strcmp(datasets[i].dataset, dataset) == 0)
            return datasets[i].tokenizer;
    return NULL;
}
