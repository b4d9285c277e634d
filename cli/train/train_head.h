/* txl train --task: a head for a body that stays as it is. */
#ifndef CLI_TRAIN_TRAIN_HEAD_H
#define CLI_TRAIN_TRAIN_HEAD_H

#include "train_options.h"

/* Trains a head on the tables, and returns the exit status. */
int train_head(const struct command *command, const struct train_options *options,
               const struct operands *tables);

#endif
