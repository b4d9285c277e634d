/* How lib/ and convert/ report failures: one line into the caller's txl_error. */
#ifndef TXL_BASE_ERROR_H
#define TXL_BASE_ERROR_H

#include "txl.h"

/* Formats the message into `error` (unless NULL) and returns `status`, so that
 * `return txl_fail(error, TXL_FORMAT, "%s: ...", path)` is the way to fail. */
txl_status txl_fail(txl_error *error, txl_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a failed allocation of `bytes`, for the purpose named. */
txl_status txl_fail_memory(txl_error *error, const char *purpose, uint64_t bytes);

/* Around a callback of the caller, which may return a failure without filling in `error`.  The
 * first clears the message; the second returns `status`, and if it is a failure completes the error
 * with it and, unless the callback wrote a message, with this one. */
void txl_before_callback(txl_error *error);
txl_status txl_after_callback(txl_error *error, txl_status status, const char *message);

/* Refuses structures whose `reserved` is not zero: a later version may give it a meaning. */

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

/* A macro's number as text, so that help and messages name the number that the code has. */

#define TEXT_OF(number) TEXT_OF_EXPANDED(number)
#define TEXT_OF_EXPANDED(number) #number

#endif
