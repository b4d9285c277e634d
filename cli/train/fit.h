/* Whether a training fits into this machine's memory, and what would. */
#ifndef CLI_FIT_H
#define CLI_FIT_H

#include "txl.h"

/* Before a model of these settings (weights-format.md) is made.  False with the error printed. */
bool fit_new_model(const char *settings);

/* Before it is trained so; says with the error which --batch would fit, or which segments. */
bool fit_training(const txl_model *model, const txl_training *training);

#endif
