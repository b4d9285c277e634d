/* Random weights of a given shape.  Speed does not depend on the weights, as long as none is
 * subnormal or not finite; they have a standard deviation of 0.02, like the published models'
 * initial weights. */
#include "family.h"
#include "lib/base/error.h"
#include "lib/base/files.h"
#include "lib/base/memory.h"
#include "lib/base/numbers.h"
#include "lib/base/threads.h"
#include "lib/text/vocabulary.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const float DEVIATION = 0.02f;
/* The scale of every q8 block: the largest number, 3.5 deviations, just fits. */
static const float SCALE = 0.02f / 36;

enum {
    FILL_ELEMENTS = 1 << 18, /* of one task */
    FILL_TILE = 1 << 10      /* numbers that are narrowed together, while they are in the cache */
};

struct maker {
    const struct family *family;
    void *settings; /* the family's */
    struct weights *weights;
    float *mean; /* the mean of each tensor's elements */
    const struct random_model *how;
};

/* ---- The tensors -------------------------------------------------------------------------- */

static txl_status read_settings(struct maker *maker, const json_t *object, txl_error *error) {
    static const char name[] = "the new model's settings";
    maker->settings = calloc(1, maker->family->settings_size);
    if (!maker->settings)
        return txl_fail_memory(error, name, maker->family->settings_size);
    txl_status status =
        settings_read(&settings_of_text, object, name, TXL_ARGUMENT, maker->settings, error);
    if (!status)
        status =
            family_read_settings(maker->family, object, name, TXL_ARGUMENT, maker->settings, error);
    ((struct model_settings *)maker->settings)->type = (int)maker->how->types.matrices;
    return status;
}

static size_t count_tensors(const struct maker *maker) {
    struct parameter_walk walk = parameter_walk(maker->family->parameters, maker->settings);
    struct parameter_tensor t;
    size_t n = 0;
    while (parameter_next(&walk, &t))
        n++;
    return n;
}

static txl_status list_tensors(struct maker *maker, txl_error *error) {
    struct weights *w = maker->weights;
    size_t n = count_tensors(maker);
    w->tensor = calloc(n, sizeof *w->tensor);
    maker->mean = calloc(n, sizeof *maker->mean);
    if (!w->tensor || !maker->mean)
        return txl_fail_memory(error, "random weights", n * sizeof *w->tensor);
    struct parameter_walk walk = parameter_walk(maker->family->parameters, maker->settings);
    struct parameter_tensor t;
    while (parameter_next(&walk, &t)) {
        enum weights_type type = parameter_type(t.parameter, t.n_column, maker->how->types);
        struct weights_tensor *tensor = &w->tensor[w->n_tensor];
        *tensor = (struct weights_tensor){.name = strdup(t.name),
                                          .type = type,
                                          .n_dim = t.parameter->kind == PARAMETER_VECTOR ? 1 : 2,
                                          .shape = {t.n_row, t.n_column, 1, 1},
                                          .n_element = t.n_row * t.n_column};
        if (!tensor->name)
            return txl_fail_memory(error, "a tensor's name", sizeof t.name);
        tensor->size = tensor->stored = weights_expanded_size(type, tensor->n_dim, tensor->shape);
        maker->mean[w->n_tensor++] = t.parameter->mean;
    }
    return TXL_OK;
}

/* ---- Their places ------------------------------------------------------------------------- */

/* The vocabulary section and the tensors lie one after the other in one allocation. */
static txl_status place_tensors(struct weights *w, const void *vocabulary, size_t vocabulary_size,
                                uint64_t most, txl_error *error) {
    const uint64_t most_each = (uint64_t)1 << 46; /* a sum of MAX_TENSOR such cannot overflow */
    uint64_t total = 0;
    for (size_t i = 0; i < w->n_tensor; i++) {
        if (w->tensor[i].size > most_each)
            return txl_fail_memory(error, w->tensor[i].name, w->tensor[i].size);
        total += weights_aligned(w->tensor[i].size);
    }
    if (total > most)
        return txl_fail(error, TXL_FORMAT,
                        "the settings ask for %" PRIu64 " bytes of weights, and there are %" PRIu64,
                        total, most);
    total += weights_aligned(vocabulary_size);
    void *memory = total <= SIZE_MAX / 2 ? pages_map((size_t)total) : NULL;
    if (!memory)
        return txl_fail_memory(error, "random weights", total);
    w->data = w->pages = memory;
    w->size = (size_t)total;
    memcpy(memory, vocabulary, vocabulary_size);
    w->vocabulary = memory;
    w->vocabulary_size = vocabulary_size;
    const uint8_t *next = w->data + weights_aligned(vocabulary_size);
    for (size_t i = 0; i < w->n_tensor; i++) {
        w->tensor[i].raw = next;
        next += weights_aligned(w->tensor[i].size);
    }
    return TXL_OK;
}

/* Symbol i is the decimal number i. */
static txl_status make_vocabulary(size_t n, void **section, size_t *size, txl_error *error) {
    enum { DIGITS = 12 };
    char(*spelling)[DIGITS] = calloc(n, sizeof *spelling);
    struct vocabulary_entry *entry = calloc(n, sizeof *entry);
    txl_status status = TXL_OK;
    if (!spelling || !entry)
        status = txl_fail_memory(error, "a vocabulary", n * (DIGITS + sizeof *entry));
    for (size_t i = 0; i < n && !status; i++) {
        int length = snprintf(spelling[i], DIGITS, "%zu", i);
        entry[i] = (struct vocabulary_entry){spelling[i], (size_t)length};
    }
    if (!status)
        status = vocabulary_pack(entry, n, section, size, error);
    free(entry);
    free(spelling);
    return status;
}

/* ---- Their elements ----------------------------------------------------------------------- */

/* splitmix64's output function (Steele, Lea and Flood 2014): 64 random bits from a counter. */
static uint64_t mix(uint64_t counter) {
    uint64_t z = counter * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* Approximately normal with mean 0 and deviation 1: the sum of four uniform 16-bit numbers. */
static float near_normal(uint64_t bits) {
    uint32_t sum =
        (uint32_t)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
    return ((float)(int32_t)sum - 131070.0f) * (1 / 37837.23f);
}

static void narrow_elements(enum weights_type type, const float *in, size_t n, void *out) {
    int8_t *q = out;
    for (size_t i = 0; i < n && type == WEIGHTS_Q8; i++)
        q[i] = q8_of_float(in[i], SCALE);
    if (type != WEIGHTS_Q8)
        weights_narrow(type, in, n, out);
}

/* Normal with mean 0 and deviation 1: Box and Muller 1958. */
static float normal_number(uint64_t counter) {
    const double pi = acos(-1);
    double radius = ((double)(mix(2 * counter) >> 11) + 0.5) * 0x1p-53;
    double angle = (double)(mix(2 * counter + 1) >> 11) * 0x1p-53;
    return (float)(sqrt(-2 * log(radius)) * cos(2 * pi * angle));
}

/* The published training code's initial weights: biases but u and v are 0, the embedding's and the
 * softmax's projections are narrower than the rest. */
static float initial_deviation(const char *name) {
    return ends_with(name, "bias") ? 0 : ends_with(name, ".projection") ? 0.01f : DEVIATION;
}

struct filling {
    const struct weights_tensor *tensor;
    uint64_t counter; /* of the first element */
    float mean;
    bool initial;
};

/* Rounds rows of 16 by steps that do not depend on the elements, as q8's above. */
static void fill_tiles_task(void *context, int i, int thread) {
    (void)thread;
    const struct filling *f = context;
    const struct weights_tensor *t = f->tensor;
    const int top = weights_top(t->type);
    const uint64_t n_col = t->shape[1], first = (uint64_t)i * TILE_HEIGHT;
    const float step = 7 * DEVIATION / (float)top, least = -3.5f * DEVIATION;
    uint8_t *tiles = (uint8_t *)t->raw + (uint64_t)i * tile_row_bytes(top, (size_t)n_col);
    float *factors = (float *)((char *)t->raw + tiles_bytes(top, t->shape[0], n_col)) + 2 * first;
    memset(tiles, 0, tile_row_bytes(top, (size_t)n_col));
    for (size_t k = 0; k < tiles_across((size_t)n_col); k++)
        memset(tiles + k * tile_bytes(top), 255, TILE_LINES);
    for (size_t r = 0; r < TILE_HEIGHT && first + r < t->shape[0]; r++) {
        factors[2 * r] = step / 255;
        factors[2 * r + 1] = -least / 255;
        for (uint64_t k = 0; k < n_col; k++) {
            float x = DEVIATION * near_normal(mix(f->counter + (first + r) * n_col + k));
            float level = rintf((x - least) / step);
            level = level < 0 ? 0 : level > (float)top ? (float)top : level;
            tile_set_level(tiles + k / TILE_WIDTH * tile_bytes(top), top, r, k % TILE_WIDTH,
                           (int)level);
        }
    }
}

static void fill_task(void *context, int i, int thread) {
    (void)thread;
    const struct filling *f = context;
    size_t element_size = weights_type_size(f->tensor->type);
    uint64_t first = (uint64_t)i * FILL_ELEMENTS, end = first + FILL_ELEMENTS;
    char *out = (char *)f->tensor->raw; /* the maker's own memory, which is still writable */
    float tile[FILL_TILE], deviation = initial_deviation(f->tensor->name);
    if (end > f->tensor->n_element)
        end = f->tensor->n_element;
    for (; first < end; first += FILL_TILE) {
        size_t n = end - first < FILL_TILE ? (size_t)(end - first) : FILL_TILE;
        for (size_t k = 0; k < n && !f->initial; k++)
            tile[k] = f->mean + DEVIATION * near_normal(mix(f->counter + first + k));
        for (size_t k = 0; k < n && f->initial; k++)
            tile[k] = f->mean + deviation * normal_number(f->counter + first + k);
        narrow_elements(f->tensor->type, tile, n, out + first * element_size);
    }
}

/* f_i = 1 / 10000^(2 i / d_model): Vaswani et al. 2017, section 3.5. */
static void fill_frequencies(const struct weights_tensor *tensor) {
    float *out = (float *)tensor->raw;
    for (size_t i = 0; i < tensor->n_element; i++)
        out[i] = (float)pow(10000, -(double)i / (double)tensor->n_element);
}

static void fill_scales(const struct weights_tensor *tensor) {
    float *scale = (float *)((char *)tensor->raw + weights_scales_offset(tensor->n_element));
    uint64_t n = tensor->shape[0] * q8_blocks(tensor->shape[1]);
    for (uint64_t i = 0; i < n; i++)
        scale[i] = SCALE;
}

static txl_status fill_tensors(const struct maker *maker, txl_error *error) {
    const struct weights *w = maker->weights;
    struct pool *pool = pool_new(maker->how->threads);
    if (!pool)
        return txl_fail(error, TXL_MEMORY, "threads cannot be started");
    uint64_t counter = mix(maker->how->seed);
    for (size_t i = 0; i < w->n_tensor; i++) {
        const struct weights_tensor *t = &w->tensor[i];
        struct filling filling = {t, counter, maker->mean[i], maker->how->vocabulary != NULL};
        if (weights_in_tiles(t->type))
            pool_run(pool, (int)((t->shape[0] + TILE_HEIGHT - 1) / TILE_HEIGHT), fill_tiles_task,
                     &filling);
        else
            pool_run(pool, (int)((t->n_element + FILL_ELEMENTS - 1) / FILL_ELEMENTS), fill_task,
                     &filling);
        counter += t->n_element;
        if (strcmp(t->name, "position.inv_freq") == 0)
            fill_frequencies(t);
        if (t->type == WEIGHTS_Q8)
            fill_scales(t);
    }
    pool_free(pool);
    mprotect((void *)w->data, w->size, PROT_READ);
    return TXL_OK;
}

/* ---- The whole ---------------------------------------------------------------------------- */

static txl_status build_weights(struct maker *maker, const json_t *object, txl_error *error) {
    struct weights *w = maker->weights;
    const void *vocabulary = maker->how->vocabulary;
    size_t vocabulary_size = maker->how->vocabulary_size;
    txl_status status = read_settings(maker, object, error);
    if (status)
        return status;
    w->name = strdup("random weights");
    /* The symbols are numbers, so the kind is words, whatever the real model's is. */
    if (!vocabulary)
        ((struct model_settings *)maker->settings)->tokenizer = TXL_WORDS;
    w->settings = family_settings_text(maker->family, maker->settings);
    if (!w->name || !w->settings)
        return txl_fail_memory(error, "random weights", 4096);
    status = list_tensors(maker, error);
    size_t n_token = (size_t)((struct model_settings *)maker->settings)->n_token;
    void *numbers = NULL;
    if (!status && !vocabulary)
        status = make_vocabulary(n_token, &numbers, &vocabulary_size, error);
    if (!status)
        status = place_tensors(w, numbers ? numbers : vocabulary, vocabulary_size, maker->how->most,
                               error);
    free(numbers);
    return status ? status : fill_tensors(maker, error);
}

txl_status random_weights(const struct family *family, const json_t *settings,
                          const struct random_model *how, struct weights **weights,
                          txl_error *error) {
    struct maker maker = {.family = family, .how = how};
    maker.weights = calloc(1, sizeof *maker.weights);
    txl_status status = maker.weights ? build_weights(&maker, settings, error)
                                      : txl_fail_memory(error, "weights", sizeof *maker.weights);
    free(maker.settings);
    free(maker.mean);
    if (status) {
        weights_close(maker.weights);
        return status;
    }
    *weights = maker.weights;
    return TXL_OK;
}
