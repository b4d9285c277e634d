/* The object in a torch.save file, without the tensors in it. */
#ifndef CONVERT_TORCH_SAVE_H
#define CONVERT_TORCH_SAVE_H

#include "lib/base/files.h"
#include "pickle_value.h"

/* Reads the pickle in a torch.save file, or a plain pickle.  Strings may point into the file, which
 * must stay open as long as the pickle. */
txl_status torch_save_read_pickle(const struct mapped_file *file, struct pickle **pickle,
                                  txl_error *error);

#endif
