/* Recognising an XLNet in a checkpoint: its settings, and which tensors make up each parameter. */
#ifndef CONVERT_XLNET_H
#define CONVERT_XLNET_H

#include "convert.h"
#include "convert/containers/checkpoint.h"
#include "lib/xlnet/parameters.h"

enum { XLNET_MAX_PREFIX = 256, XLNET_MAX_PIECE = 3 };

struct xlnet_recognised {
    const struct checkpoint *checkpoint;
    struct xlnet_settings settings;     /* without those of the text and the type */
    char prefix[XLNET_MAX_PREFIX];      /* before "word_embedding.", "layer." ... */
    char head_prefix[XLNET_MAX_PREFIX]; /* before "lm_loss." */
};

/* Whether the tensors are those of an XLNet. */
bool xlnet_is_in(const struct checkpoint *checkpoint);

/* Finds all facts, from config.json beside the checkpoint and from the shapes; the options take
 * precedence.  `*config_path` receives the path of that file; the caller frees it. */
txl_status xlnet_recognise(const struct checkpoint *checkpoint,
                           const struct convert_options *options,
                           struct xlnet_recognised *recognised, char **config_path,
                           txl_error *error);

/* The pieces of parameter `number` of layer i: views of the checkpoint's tensors, one after the
 * other, each in the order of the weights file.  They must be of floating point and have the shapes
 * that follow from the settings. */
struct xlnet_pieces {
    struct checkpoint_tensor view[XLNET_MAX_PIECE];
    int n;
};
txl_status xlnet_find(const struct xlnet_recognised *recognised, enum xlnet_parameter number, int i,
                      struct xlnet_pieces *pieces, txl_error *error);

#endif
