/* Steps of training, to be timed. */
#include "training.h"

#include "cli/io/signals.h"
#include "cli/io/terminal.h"

/* Steps of an epoch: the first ones have an empty memory, but they are few. */
enum { EPOCH_STEPS = 1000 };

static bool make_text(struct bench_training *b, const txl_model *model,
                      int32_t (*draw)(void *context), void *context) {
    txl_error error;
    size_t n = (size_t)b->how.batch * ((size_t)b->how.tgt_len * EPOCH_STEPS + 1);
    if (txl_ids_new(txl_model_n_token(model), &b->ids, &error))
        return terminal_error("%s", error.message);
    for (size_t i = 0; i < n; i++) {
        int32_t id = draw(context);
        if (!terminal_report(txl_ids_add(b->ids, &id, 1, &error), &error))
            return false;
    }
    return true;
}

static bool fill_memory(struct bench_training *b) {
    size_t steps = ((size_t)b->how.mem_len + (size_t)b->how.tgt_len - 1) / (size_t)b->how.tgt_len;
    struct progress progress;
    bool good = true;
    progress_start(&progress, "filling the memory", "steps");
    for (size_t s = 0; s < steps && good && !signals_stopped(); s++) {
        size_t tokens;
        txl_error error;
        good = terminal_report(bench_training_step(b, &tokens, &error), &error);
        progress_update(&progress, (double)(s + 1) / (double)steps, s + 1);
    }
    progress_end(&progress);
    return good && !signals_stopped();
}

bool bench_training_open(struct bench_training *b, const txl_model *model, const txl_training *how,
                         int32_t (*draw)(void *context), void *context) {
    txl_error error;
    *b = (struct bench_training){.how = *how,
                                 .flops = txl_trainer_flops(model, how),
                                 .bytes = txl_trainer_bytes(model, how)};
    if (!make_text(b, model, draw, context))
        return false;
    if (txl_trainer_new(model, b->ids, how, &b->trainer, &error))
        return terminal_error("%s", error.message);
    return fill_memory(b);
}

void bench_training_close(struct bench_training *b) {
    txl_trainer_free(b->trainer);
    txl_ids_free(b->ids);
    *b = (struct bench_training){.ids = NULL};
}

txl_status bench_training_step(struct bench_training *b, size_t *tokens, txl_error *error) {
    txl_step step;
    txl_status status = txl_trainer_step(b->trainer, 1e-4, &step, error);
    *tokens = status ? 0 : (size_t)step.tokens;
    return status;
}
