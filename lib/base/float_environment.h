/* The environment that exact arithmetic needs: results are rounded to nearest, subnormal numbers
 * are kept, nothing traps.  A new thread inherits the environment of the thread that starts it. */
#ifndef TXL_FLOAT_ENVIRONMENT_H
#define TXL_FLOAT_ENVIRONMENT_H

#include "subnormals.h"

#include <fenv.h>

struct float_environment {
    fenv_t whole;     /* what the C library knows of it */
    uint64_t control; /* the register of vector arithmetic, where the processor has one */
};

/* Sets the environment of the calling thread, and returns the one before. */
static inline struct float_environment float_environment_set(void) {
    struct float_environment before;
    before.control = subnormals_get();
#if defined(__SSE__)
    subnormals_set(0x1f80); /* all exceptions masked, none raised */
#elif defined(__aarch64__)
    subnormals_set(0);
#else
    fegetenv(&before.whole);
    fesetenv(FE_DFL_ENV);
#endif
    return before;
}

static inline void float_environment_restore(const struct float_environment *before) {
#if defined(__SSE__) || defined(__aarch64__)
    subnormals_set(before->control);
#else
    fesetenv(&before->whole);
#endif
}

#endif
