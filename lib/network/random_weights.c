/* Random weights of a given shape.  Speed does not depend on what the weights are, as long as they
 * are ordinary numbers: deviation 0.02, which is what the published models started from. */
#include "random_weights.h"
#include "lib/base/error.h"
#include "lib/base/half.h"
#include "lib/base/json_memory.h"
#include "lib/base/limits.h"
#include "lib/base/q8.h"
#include "lib/base/threads.h"
#include "lib/text/vocabulary.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const float DEVIATION = 0.02f;
/* The scale of every block of q8: the farthest of them, 3.5 deviations, just fit. */
static const float SCALE = 0.02f / 36;

enum {
    FILL_ELEMENTS = 1 << 18, /* of one task */
    FILL_TILE = 1 << 10,     /* numbers that wait in cache to be narrowed */
    LAYER_TENSORS = 16,      /* of a layer or a band, at most */
    OTHER_TENSORS = 8
};

/* What of the settings decides which tensors there are. */
struct shape {
    json_int_t n_token, n_layer, n_head, d_head, d_model, d_embed, d_inner, attn_type, div_val;
    json_int_t max_klen;
    int tied_weights, biases_per_layer;
    size_t n_band;
    json_int_t edge[MAX_BAND + 1]; /* 0, the cutoffs, n_token */
};

struct maker {
    struct weights *weights;
    enum weights_type type; /* of the matrices */
    float *mean;            /* of each tensor's elements */
    uint64_t seed;
};

/* ---- The tensors -------------------------------------------------------------------------- */

static txl_status read_shape(const json_t *settings, struct shape *s, txl_error *error) {
    json_error_t where;
    json_t *cutoffs;
    s->max_klen = 1;
    if (json_unpack_ex((json_t *)settings, &where, 0,
                       "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s?I, s:b, s:b, s:o}",
                       "n_token", &s->n_token, "n_layer", &s->n_layer, "n_head", &s->n_head,
                       "d_head", &s->d_head, "d_model", &s->d_model, "d_embed", &s->d_embed,
                       "d_inner", &s->d_inner, "attn_type", &s->attn_type, "div_val", &s->div_val,
                       "max_klen", &s->max_klen, "tied_weights", &s->tied_weights,
                       "biases_per_layer", &s->biases_per_layer, "cutoffs", &cutoffs) != 0)
        return txl_fail(error, json_lacked_memory(&where) ? TXL_MEMORY : TXL_ARGUMENT,
                        "settings of a random model: %s", where.text);
    const struct {
        const char *key;
        json_int_t value, most;
    } size[] = {{"n_token", s->n_token, MAX_N_TOKEN}, {"n_layer", s->n_layer, MAX_N_LAYER},
                {"n_head", s->n_head, MAX_N_HEAD},    {"d_head", s->d_head, MAX_D_HEAD},
                {"d_model", s->d_model, MAX_D_MODEL}, {"d_embed", s->d_embed, MAX_D_MODEL},
                {"d_inner", s->d_inner, MAX_D_INNER}, {"div_val", s->div_val, MAX_D_MODEL},
                {"max_klen", s->max_klen, MAX_KLEN}};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        if (size[i].value < 1 || size[i].value > size[i].most)
            return txl_fail(error, TXL_ARGUMENT,
                            "settings of a random model: %s is not from 1 to %lld", size[i].key,
                            (long long)size[i].most);
    }
    s->n_band = json_array_size(cutoffs) + 1;
    if (s->n_band > MAX_BAND)
        return txl_fail(error, TXL_ARGUMENT, "settings of a random model: more than %d bands",
                        MAX_BAND);
    for (size_t i = 1; i < s->n_band; i++)
        s->edge[i] = json_integer_value(json_array_get(cutoffs, i - 1));
    s->edge[s->n_band] = s->n_token;
    for (size_t i = 0; i < s->n_band; i++) {
        if (s->edge[i] >= s->edge[i + 1])
            return txl_fail(error, TXL_ARGUMENT,
                            "settings of a random model: the cutoffs do not ascend to n_token");
    }
    return TXL_OK;
}

/* A tensor [rows, columns], or [rows] when columns is 0.  A name that could not be allocated stays
 * NULL; place_tensors finds it. */
__attribute__((format(printf, 6, 7))) static void add(struct maker *maker, enum weights_type type,
                                                      float mean, json_int_t rows,
                                                      json_int_t columns, const char *name, ...) {
    struct weights_tensor *t = &maker->weights->tensor[maker->weights->n_tensor];
    va_list arguments;
    va_start(arguments, name);
    if (vasprintf(&t->name, name, arguments) < 0)
        t->name = NULL;
    va_end(arguments);
    t->type = type == WEIGHTS_Q8 && columns < Q8_BLOCK ? WEIGHTS_F16 : type;
    t->n_dim = columns > 0 ? 2 : 1;
    t->shape[0] = (uint64_t)rows;
    t->shape[1] = columns > 0 ? (uint64_t)columns : 1;
    t->shape[2] = t->shape[3] = 1;
    t->n_element = t->shape[0] * t->shape[1];
    t->size = t->stored = weights_expanded_size(t->type, t->n_dim, t->shape);
    maker->mean[maker->weights->n_tensor++] = mean;
}

static void add_bands(struct maker *m, const struct shape *s) {
    json_int_t d_band = s->d_embed;
    bool projects = s->div_val > 1 || s->d_embed != s->d_model;
    for (size_t i = 0; i < s->n_band; i++) {
        bool own = i == 0 || s->div_val > 1; /* else one tensor has the whole vocabulary */
        json_int_t rows = s->div_val > 1 ? s->edge[i + 1] - s->edge[i] : s->n_token;
        if (own)
            add(m, m->type, 0, rows, d_band, "embedding.%zu.weight", i);
        if (own && projects)
            add(m, m->type, 0, s->d_model, d_band, "embedding.%zu.projection", i);
        if (own && !s->tied_weights)
            add(m, m->type, 0, rows, d_band, "softmax.%zu.weight", i);
        if (own)
            add(m, WEIGHTS_F32, 0, rows, 0, "softmax.%zu.bias", i);
        if (projects)
            add(m, m->type, 0, d_band, s->d_model, "softmax.%zu.projection", i);
        d_band = d_band / s->div_val > 0 ? d_band / s->div_val : 1;
    }
    json_int_t clusters = (json_int_t)s->n_band - 1;
    if (clusters > 0) {
        add(m, m->type, 0, clusters, s->d_embed, "softmax.cluster.weight");
        add(m, WEIGHTS_F32, 0, clusters, 0, "softmax.cluster.bias");
    }
}

static void add_norm(struct maker *m, const struct shape *s, int n, const char *half) {
    add(m, WEIGHTS_F32, 1, s->d_model, 0, "layer.%d.%s.norm.weight", n, half);
    add(m, WEIGHTS_F32, 0, s->d_model, 0, "layer.%d.%s.norm.bias", n, half);
}

static void add_layer(struct maker *m, const struct shape *s, int n) {
    json_int_t heads = s->n_head * s->d_head;
    add(m, m->type, 0, 3 * heads, s->d_model, "layer.%d.attention.qkv", n);
    add(m, m->type, 0, s->d_model, heads, "layer.%d.attention.o", n);
    if (s->attn_type == 0)
        add(m, m->type, 0, heads, s->d_model, "layer.%d.attention.r", n);
    if (s->attn_type == 1 || s->attn_type == 3)
        add(m, m->type == WEIGHTS_Q8 ? WEIGHTS_F16 : m->type, 0, s->max_klen, heads,
            "layer.%d.attention.r_emb", n);
    if (s->attn_type == 1)
        add(m, WEIGHTS_F32, 0, s->max_klen * s->n_head, 0, "layer.%d.attention.r_bias", n);
    if (s->attn_type <= 1 && s->biases_per_layer)
        add(m, WEIGHTS_F32, 0, heads, 0, "layer.%d.attention.u", n);
    if (s->attn_type == 0 && s->biases_per_layer)
        add(m, WEIGHTS_F32, 0, heads, 0, "layer.%d.attention.v", n);
    add_norm(m, s, n, "attention");
    add(m, m->type, 0, s->d_inner, s->d_model, "layer.%d.feed_forward.1.weight", n);
    add(m, WEIGHTS_F32, 0, s->d_inner, 0, "layer.%d.feed_forward.1.bias", n);
    add(m, m->type, 0, s->d_model, s->d_inner, "layer.%d.feed_forward.2.weight", n);
    add(m, WEIGHTS_F32, 0, s->d_model, 0, "layer.%d.feed_forward.2.bias", n);
    add_norm(m, s, n, "feed_forward");
}

static void add_tensors(struct maker *m, const struct shape *s) {
    add_bands(m, s);
    if (s->attn_type == 0 || s->attn_type == 2)
        add(m, WEIGHTS_F32, 0, s->d_model / 2, 0, "position.inv_freq");
    if (s->attn_type <= 1 && !s->biases_per_layer)
        add(m, WEIGHTS_F32, 0, s->n_head * s->d_head, 0, "attention.u");
    if (s->attn_type == 0 && !s->biases_per_layer)
        add(m, WEIGHTS_F32, 0, s->n_head * s->d_head, 0, "attention.v");
    for (int n = 0; n < (int)s->n_layer; n++)
        add_layer(m, s, n);
}

/* ---- Their places ------------------------------------------------------------------------- */

static uint64_t aligned(uint64_t size) {
    return (size + WEIGHTS_ALIGNMENT - 1) / WEIGHTS_ALIGNMENT * WEIGHTS_ALIGNMENT;
}

/* The vocabulary's section and the tensors follow each other in one piece of memory. */
static txl_status place_tensors(struct weights *w, const void *vocabulary, size_t vocabulary_size,
                                txl_error *error) {
    const uint64_t most = (uint64_t)1 << 46; /* so many of them cannot overflow the sum */
    uint64_t total = aligned(vocabulary_size);
    for (size_t i = 0; i < w->n_tensor; i++) {
        if (!w->tensor[i].name)
            return txl_fail_memory(error, "a tensor's name", WEIGHTS_MAX_NAME);
        if (w->tensor[i].size > most)
            return txl_fail_memory(error, w->tensor[i].name, w->tensor[i].size);
        total += aligned(w->tensor[i].size);
    }
    void *memory = MAP_FAILED;
    if (total <= SIZE_MAX / 2)
        memory =
            mmap(NULL, (size_t)total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return txl_fail_memory(error, "random weights", total);
    madvise(memory, (size_t)total, MADV_HUGEPAGE);
    w->data = memory;
    w->size = (size_t)total;
    w->mapped = true;
    memcpy(memory, vocabulary, vocabulary_size);
    w->vocabulary = memory;
    w->vocabulary_size = vocabulary_size;
    const uint8_t *next = w->data + aligned(vocabulary_size);
    for (size_t i = 0; i < w->n_tensor; i++) {
        w->tensor[i].raw = next;
        next += aligned(w->tensor[i].size);
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

/* splitmix64's output function (Steele, Lea and Flood 2014): 64 random bits of a counter. */
static uint64_t mix(uint64_t counter) {
    uint64_t z = counter * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* Near to normal with mean 0 and deviation 1: the sum of four uniform 16-bit numbers. */
static float near_normal(uint64_t bits) {
    uint32_t sum =
        (uint32_t)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
    return ((float)(int32_t)sum - 131070.0f) * (1 / 37837.23f);
}

static void narrow(enum weights_type type, const float *in, size_t n, void *out) {
    uint16_t *half = out;
    int8_t *q = out;
    if (type == WEIGHTS_F32)
        memcpy(out, in, n * sizeof *in);
    for (size_t i = 0; i < n && type == WEIGHTS_F16; i++)
        half[i] = f16_of_float(in[i]);
    for (size_t i = 0; i < n && type == WEIGHTS_BF16; i++)
        half[i] = bf16_of_float(in[i]);
    for (size_t i = 0; i < n && type == WEIGHTS_Q8; i++)
        q[i] = q8_of_float(in[i], SCALE);
}

struct filling {
    const struct weights_tensor *tensor;
    uint64_t counter; /* of the first element */
    float mean;
};

static void fill_task(void *context, int i, int thread) {
    (void)thread;
    const struct filling *f = context;
    size_t element_size = weights_type_size(f->tensor->type);
    uint64_t first = (uint64_t)i * FILL_ELEMENTS, end = first + FILL_ELEMENTS;
    char *out = (char *)f->tensor->raw; /* not read-only yet */
    float tile[FILL_TILE];
    if (end > f->tensor->n_element)
        end = f->tensor->n_element;
    for (; first < end; first += FILL_TILE) {
        size_t n = end - first < FILL_TILE ? (size_t)(end - first) : FILL_TILE;
        for (size_t k = 0; k < n; k++)
            tile[k] = f->mean + DEVIATION * near_normal(mix(f->counter + first + k));
        narrow(f->tensor->type, tile, n, out + first * element_size);
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

static txl_status fill_tensors(const struct maker *maker, int threads, txl_error *error) {
    const struct weights *w = maker->weights;
    struct pool *pool = pool_new(threads);
    if (!pool)
        return txl_fail(error, TXL_MEMORY, "threads cannot be started");
    uint64_t counter = mix(maker->seed);
    for (size_t i = 0; i < w->n_tensor; i++) {
        const struct weights_tensor *t = &w->tensor[i];
        struct filling filling = {t, counter, maker->mean[i]};
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

static txl_status make(struct maker *maker, json_t *settings, int threads, txl_error *error) {
    struct weights *w = maker->weights;
    struct shape shape = {0};
    txl_status status = read_shape(settings, &shape, error);
    if (status)
        return status;
    size_t room = ((size_t)shape.n_layer + shape.n_band) * LAYER_TENSORS + OTHER_TENSORS;
    w->name = strdup("random weights");
    w->tensor = calloc(room, sizeof *w->tensor);
    maker->mean = calloc(room, sizeof *maker->mean);
    if (json_object_set_new(settings, "type", json_string(weights_type_name(maker->type))) == 0)
        w->settings = json_text(settings, JSON_COMPACT);
    if (!w->name || !w->tensor || !maker->mean || !w->settings)
        return txl_fail_memory(error, "random weights", room * sizeof *w->tensor);
    add_tensors(maker, &shape);
    void *vocabulary = NULL;
    size_t vocabulary_size = 0;
    status = make_vocabulary((size_t)shape.n_token, &vocabulary, &vocabulary_size, error);
    if (!status)
        status = place_tensors(w, vocabulary, vocabulary_size, error);
    free(vocabulary);
    return status ? status : fill_tensors(maker, threads, error);
}

txl_status random_weights(const char *settings, enum weights_type type, uint64_t seed, int threads,
                          struct weights **weights, txl_error *error) {
    json_error_t where;
    json_t *object = json_loads(settings, 0, &where);
    if (!json_is_object(object)) {
        txl_status status = !object && json_lacked_memory(&where) ? TXL_MEMORY : TXL_ARGUMENT;
        json_decref(object);
        return txl_fail(error, status, "settings of a random model: %s",
                        object ? "no object" : where.text);
    }
    struct maker maker = {.weights = calloc(1, sizeof *maker.weights), .type = type, .seed = seed};
    txl_status status = maker.weights ? make(&maker, object, threads, error)
                                      : txl_fail_memory(error, "weights", sizeof *maker.weights);
    json_decref(object);
    free(maker.mean);
    if (status) {
        weights_close(maker.weights);
        return status;
    }
    *weights = maker.weights;
    return TXL_OK;
}
