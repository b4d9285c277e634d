/* Dai et al. 2019, Transformer-XL: the released models, and the scripts that evaluate them. */
#include "published.h"

#define PLAIN                                                                                      \
    1, 0, {                                                                                        \
        0                                                                                          \
    }
#define WT103_BANDS                                                                                \
    3, {                                                                                           \
        20000, 40000, 200000                                                                       \
    }
#define LM1B_BANDS                                                                                 \
    3, {                                                                                           \
        60000, 100000, 640000                                                                      \
    }

const struct published published_models[] = {
    {"enwik8 or text8, base", false, 12, 512, 8, 64, 2048, 80, 2100, 820, 10, "bytes", 204, PLAIN},
    {"enwik8 or text8, large", true, 24, 1024, 8, 128, 3072, 128, 3800, 1000, 10, "bytes", 204,
     PLAIN},
    {"WikiText-103, base", false, 16, 410, 10, 41, 2100, 64, 640, 400, 10, "words", 267735, 1,
     WT103_BANDS},
    {"WikiText-103, large", true, 18, 1024, 16, 64, 4096, 128, 1600, 1000, 10, "words", 267735, 4,
     WT103_BANDS},
    {"One Billion Words, base", false, 18, 1024, 8, 128, 4096, 32, 128, -1, 64, "lm1b", 793471, 4,
     LM1B_BANDS},
    {"One Billion Words, large", true, 24, 1280, 16, 80, 8192, 32, 128, -1, 8, "lm1b", 793471, 4,
     LM1B_BANDS},
};
const size_t published_n_model = sizeof published_models / sizeof *published_models;
