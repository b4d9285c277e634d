/* Checks whether a training fits into this machine's memory, and finds sizes that would. */
#ifndef CLI_FIT_H
#define CLI_FIT_H

#include "txl.h"

/* Checks before a model with these settings (weights-format.md) is made.  False with the error
 * printed. */
bool fit_new_model(const char *settings);

/* Checks before the training; the error says which --batch would fit, or which segments. */
bool fit_training(const txl_model *model, const txl_training *training);

#endif
