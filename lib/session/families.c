/* The table of families: the only place that lists them. */
#include "families.h"
#include "lib/transformer_xl/family.h"
#include "lib/xlnet/family.h"

#include <string.h>

static const struct family *const families[] = {
    [TXL_FAMILY_TRANSFORMER_XL] = &transformer_xl_family,
    [TXL_FAMILY_XLNET] = &xlnet_family,
};

enum { N_FAMILY = sizeof families / sizeof *families };

const struct family *family_find(const char *name) {
    for (int i = 0; name && i < N_FAMILY; i++)
        if (strcmp(families[i]->name, name) == 0)
            return families[i];
    return NULL;
}

const struct family *family_of(txl_family family) {
    return families[family];
}
