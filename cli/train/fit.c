/* Compares the memory of a training with the memory that is free. */
#include "fit.h"

#include "cli/io/terminal.h"
#include "cli/model/model.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

static double size_of(const json_t *settings, const char *key) {
    return (double)json_integer_value(json_object_get(settings, key));
}

/* A lower bound: counts only the layers' matrices and the first embedding, as weights, and in
 * training also a copy, gradients and two moments. */
bool fit_new_model(const char *settings) {
    json_t *object = json_loads(settings, 0, NULL);
    double d = size_of(object, "d_model"), free_bytes = free_memory();
    double width = size_of(object, "n_head") * size_of(object, "d_head");
    double layer = 5 * d * width + 2 * d * size_of(object, "d_inner");
    const json_t *cutoff = json_array_get(json_object_get(object, "cutoffs"), 0);
    double first = cutoff ? (double)json_integer_value(cutoff) : size_of(object, "n_token");
    double weights = size_of(object, "n_layer") * layer + first * size_of(object, "d_embed");
    json_decref(object);
    double bytes = 5 * sizeof(float) * weights;
    if (bytes <= free_bytes)
        return true;
    return terminal_error(
        "%.1f million weights take at least %.1f GB to be trained, and %.1f GB are "
        "free: a model of at most %.0f million would fit",
        weights / 1e6, bytes / 1e9, free_bytes / 1e9, free_bytes / (5e6 * sizeof(float)));
}

static bool fits_memory(const txl_model *model, const txl_training *how, int batch, int part,
                        double bytes) {
    txl_training less = *how;
    less.batch = batch;
    less.tgt_len = how->tgt_len / part > 0 ? how->tgt_len / part : 1;
    less.mem_len = how->mem_len / part;
    return (double)txl_trainer_bytes(model, &less) <= bytes;
}

/* The largest batch that fits; 0: none fits. */
static int largest_batch(const txl_model *model, const txl_training *how, double bytes) {
    int low = 0, high = how->batch; /* low fits, or is 0; high does not */
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (fits_memory(model, how, middle, 1, bytes))
            low = middle;
        else
            high = middle;
    }
    return low;
}

bool fit_training(const txl_model *model, const txl_training *how) {
    double bytes = (double)txl_trainer_bytes(model, how), free_bytes = free_memory();
    if (bytes <= free_bytes)
        return true;
    int least = how->peers ? how->peers->n : 1, part = 2;
    int batch = largest_batch(model, how, free_bytes);
    char advice[128] = "no batch and no segment would fit: a smaller model would";
    while (part < how->tgt_len && !fits_memory(model, how, least, part, free_bytes))
        part *= 2;
    if (batch >= least)
        snprintf(advice, sizeof advice, "--batch %d would fit", batch);
    else if (fits_memory(model, how, least, part, free_bytes))
        snprintf(advice, sizeof advice, "--batch %d --tgt-len %d --mem-len %d would fit", least,
                 how->tgt_len / part, how->mem_len / part);
    return terminal_error("training takes %.1f GB, and %.1f GB are free: %s", bytes / 1e9,
                          free_bytes / 1e9, advice);
}
