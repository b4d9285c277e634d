/* An open model: the weights file, its vocabulary, and the network of its family. */
#ifndef TXL_SESSION_MODEL_H
#define TXL_SESSION_MODEL_H

#include "lib/base/memory.h"
#include "lib/kernels/kernels.h"
#include "lib/network/family.h"
#include "lib/text/vocabulary.h"
#include "txl.h"

#include <jansson.h>

struct txl_model {
    struct weights *weights;
    json_t *json; /* the settings as in the file */
    const struct family *family;
    void *settings; /* the settings as the family reads them; begins with struct model_settings */
    struct vocabulary vocabulary;
    struct id_list banned;            /* what txl_model_banned returns */
    struct kernels kernels, rounding; /* `rounding`: with TXL_COMPUTE_INT8 and _BF16 */
    struct kernels exact, integers;   /* those arithmetics, with the tiles of `kernels` */
    bool compressed;                  /* the matrices of layers stay compressed */
    struct tensors tensors;
    struct network *network;
};

/* Opens a model over weights, `compressed` as txl_model_open_compressed does.  The model takes
 * ownership of the weights, which are freed even if it cannot be opened. */
txl_status model_open_weights(struct weights *weights, bool compressed, int threads,
                              txl_model **model, txl_error *error);

/* Whether the arithmetic in integers covers the model. */
bool model_has_integers(const txl_model *model);

struct random_model;

/* Makes a model in memory of settings as JSON, as txl_model_new does. */
txl_status model_make(const char *settings_json, const struct random_model *how, txl_model **model,
                      txl_error *error);

/* A head for sequence classification: logits = L tanh(S x + s) + l, x being an input's last row. */
struct sequence_head {
    int n_label;
    const char *const *labels;           /* [n_label] */
    const float *summary, *summary_bias; /* [d_model, d_model], [d_model] */
    const float *logits, *logits_bias;   /* [n_label, d_model], [n_label] */
};

/* Writes the model with this head in the place of any other; all else is copied as the model's file
 * stores it.  The model must be an XLNet that was opened from a file. */
txl_status model_write_head(const txl_model *model, const struct sequence_head *head,
                            const char *path, int threads, txl_error *error);

/* Finds the row of a family, by name or by number. */

/* The family of that name, or NULL. */
const struct family *family_find(const char *name);

/* By its number in txl.h. */
const struct family *family_of(txl_family family);

/* ---- Calibration -------------------------------------------------------------------------- */

/* Calibration of rounding to q4 and q5 (Frantar et al. 2023, "GPTQ"): from the inputs that a
 * model's matrices have while it reads a text follows how much an error in each column matters, and
 * which columns can make up for it. */

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
