/* The work of txl bench --mode train: steps of training on random tokens. */
#ifndef CLI_BENCH_TRAINING_H
#define CLI_BENCH_TRAINING_H

#include "txl.h"

struct bench_training {
    txl_training how;
    uint64_t flops, bytes; /* for one token; and of memory */
    txl_ids *ids;
    txl_trainer *trainer;
};

/* Prepares steps of the sizes in `how` on tokens from `draw`, and takes steps until the memory is
 * full.  False with the error printed, or at a signal; end with bench_training_close. */
bool bench_training_open(struct bench_training *training, const txl_model *model,
                         const txl_training *how, int32_t (*draw)(void *context), void *context);
void bench_training_close(struct bench_training *training);

/* One step, of *tokens tokens. */
txl_status bench_training_step(struct bench_training *training, size_t *tokens, txl_error *error);

#endif
