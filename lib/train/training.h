/* Segments of a text forward and backward through a model.  All memory is one allocation that is
 * laid out before the first segment.  Which segments these are, and what becomes of the gradients,
 * is the trainer's matter, or the learner's. */
#ifndef TXL_TRAINING_H
#define TXL_TRAINING_H

#include "segment.h"

/* Trains on a text, which is cut into streams. */
struct txl_trainer {
    struct training training;
    bool keeps; /* training.beside[KEPT] holds weights */

    /* Each stream has `stream` of the text's ids; the next step begins at index `at` of each. */
    const txl_ids *ids_read;
    size_t stream, at;
    uint64_t step, epoch; /* of the next step */
};

/* What the trainer has beside the weights: [n_parameter] Adam's moments, and a copy of the best. */
enum { MOMENT_1, MOMENT_2, KEPT, N_BESIDE };

/* ---- A segment ---------------------------------------------------------------------------- */

/* TXL_UNSUPPORTED or TXL_ARGUMENT for a model or settings that this cannot do. */
txl_status training_check(const txl_model *model, const txl_training *how, txl_error *error);
/* Bytes that training_open allocates; 0 for a model of another family. */
uint64_t training_bytes(const txl_model *model, const txl_training *how, int n_beside);
/* Copies the model's weights, and is at the first memory. */
txl_status training_open(struct training *t, const txl_model *model, const txl_training *how,
                         int n_beside, txl_error *error);
void training_close(struct training *t);

/* Computes the position rows from the model's frequencies. */
void train_positions(struct training *t);
/* The first memory: none, or rows of zeros. */
void training_forget(struct training *t);
/* Says that the next segment has `length` tokens in each stream; ids and targets are the caller's
 * to set. */
void training_set_length(struct training *t, size_t length);
/* Runs the segment forward, from its ids to t->hidden; `step` is the number for dropout. */
void training_forward(struct training *t, uint64_t step);
/* Computes the nats of the targets, and the gradients of their mean as far as the softmax.  Returns
 * their sum. */
double training_score(struct training *t);
/* Computes the other gradients. */
void training_backward(struct training *t);
/* Moves the memory past the segment. */
void training_advance(struct training *t);
/* The model with today's weights; it lives as long as the training. */
const txl_model *training_model(struct training *t);

/* ---- Parts of opening --------------------------------------------------------------------- */

/* Takes the model's dimensions from its network. */
void training_set_network(struct training *t, const txl_model *model);
/* Finds out which tensors are trained, and counts their numbers. */
void training_count_weights(struct training *t, const txl_model *model);
bool training_is_trained(const struct training *t, const char *tensor);
/* Lays all memory out.  t->how, t->net, t->n_beside and the numbers of weights must be set. */
void training_lay_out(struct training *t, int threads, struct arena *arena);
/* Makes t->model, a model whose tensors lie in the training's memory. */
txl_status training_open_model(struct training *t, const txl_model *model, txl_error *error);

/* ---- Updates ------------------------------------------------------------------------------ */

/* Adam's constants for step `step`, from 0, without clipping. */
struct adam adam_of(uint64_t step, double rate, double epsilon);

/* Replace x[n], or one number, by its sum over all processes: t->how.peers must be set. */
txl_status train_sum(const struct training *t, float *x, size_t n, txl_error *error);
txl_status train_sum_double(const struct training *t, double *x, txl_error *error);

#endif
