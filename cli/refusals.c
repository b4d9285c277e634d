/* Refuses what one family of networks cannot do. */
#include "refusals.h"

#include "cli/system/terminal.h"

static bool refuse(const struct model *model, const char *family, const struct meaningless *options,
                   size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (options[i].given) {
            terminal_error("%s: %s is %s, %s", options[i].option, model->name, family,
                           options[i].reason);
            return false;
        }
    }
    return true;
}

bool model_allows(const struct model *model, const struct meaningless *options, size_t n) {
    return !model_sees_both_sides(model) || refuse(model, "an XLNet", options, n);
}

bool model_needs_both_sides(const struct model *model, const struct meaningless *options,
                            size_t n) {
    return model_sees_both_sides(model) || refuse(model, "a Transformer-XL", options, n);
}
