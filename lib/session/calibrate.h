/* Calibration of rounding to q4 and q5 (Frantar et al. 2023, "GPTQ"): from the inputs that a
 * model's matrices have while it reads a text follows how much an error in each column matters, and
 * which columns can make up for it. */
#ifndef TXL_CALIBRATE_H
#define TXL_CALIBRATE_H

#include "model.h"

struct calibrator;

/* A calibrator of the tensors with `wanted`.  Everything it finds is the same on every processor
 * and for any number of threads. */
txl_status calibrator_new(const txl_model *model, const txl_calibration *how, const bool *wanted,
                          int threads, struct calibrator **calibrator, txl_error *error);
void calibrator_free(struct calibrator *calibrator);

/* Sets *calibration to the tensor's, until the next call; NULL if the text never reached the
 * matrix.  Runs the text through the model for this and as many later tensors as there is room for.
 */
txl_status calibrator_get(struct calibrator *calibrator, size_t tensor,
                          const struct tile_calibration **calibration, txl_error *error);

#endif
