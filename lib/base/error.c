/* Fills in a txl_error; never prints. */
#include "error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

txl_status txl_fail(txl_error *error, txl_status status, const char *format, ...) {
    if (error) {
        va_list args;
        va_start(args, format);
        vsnprintf(error->message, sizeof error->message, format, args);
        va_end(args);
        error->status = status;
        /* The message may quote a hostile file, whose control characters could break the line or
         * drive a terminal. */
        for (unsigned char *c = (unsigned char *)error->message; *c; c++)
            if (*c < ' ' || *c == 0x7f)
                *c = '?';
    }
    return status;
}

txl_status txl_fail_memory(txl_error *error, const char *purpose, uint64_t bytes) {
    return txl_fail(error, TXL_MEMORY, "out of memory: %s needs %" PRIu64 " bytes", purpose, bytes);
}

void txl_before_callback(txl_error *error) {
    if (error)
        error->message[0] = '\0';
}

txl_status txl_after_callback(txl_error *error, txl_status status, const char *message) {
    if (status && error && error->message[0] == '\0')
        return txl_fail(error, status, "%s", message);
    if (status && error)
        error->status = status;
    return status;
}
