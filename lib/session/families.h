/* Finds the row of a family, by name or by number. */
#ifndef TXL_FAMILIES_H
#define TXL_FAMILIES_H

#include "lib/network/family.h"

/* The family of that name, or NULL. */
const struct family *family_find(const char *name);

/* By its number in txl.h. */
const struct family *family_of(txl_family family);

#endif
