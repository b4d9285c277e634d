/* Refuses options that mean nothing to the model. */
#ifndef CLI_REFUSALS_H
#define CLI_REFUSALS_H

#include "model.h"

/* An option that was given, and why it means nothing to an XLNet. */
struct meaningless {
    bool given;
    const char *option, *reason;
};

/* False with the error printed if one of the `n` is given and the model is an XLNet. */
bool model_allows(const struct model *model, const struct meaningless *options, size_t n);

/* The same for options that mean something to an XLNet alone. */
bool model_needs_both_sides(const struct model *model, const struct meaningless *options, size_t n);

#endif
