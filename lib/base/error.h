/* How lib/ and convert/ report failures: one line into the caller's txl_error. */
#ifndef TXL_ERROR_H
#define TXL_ERROR_H

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

#endif
