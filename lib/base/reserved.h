/* Refuses structures whose `reserved` is not zero: a later version may give it a meaning. */
#ifndef TXL_RESERVED_H
#define TXL_RESERVED_H

#include "error.h"

/* Refuses (TXL_ARGUMENT) a caller's structure that was not set to zero first, or that uses members
 * of a later version. */
static inline txl_status check_reserved(const uint64_t *reserved, size_t n, const char *structure,
                                        txl_error *error) {
    for (size_t i = 0; i < n; i++)
        if (reserved[i] != 0)
            return txl_fail(error, TXL_ARGUMENT,
                            "%s: a reserved member is not 0; zero the structure first", structure);
    return TXL_OK;
}

/* check_reserved of *structure, with its type for the name. */
#define CHECK_RESERVED(type, structure, error)                                                     \
    check_reserved((structure)->reserved,                                                          \
                   sizeof(structure)->reserved / sizeof *(structure)->reserved, #type, error)

#endif
