/* Makes the calling thread take subnormal numbers (smaller than 2^-126) as zero: some processors
 * take a hundred times as long to multiply one.  A new thread inherits the setting of the thread
 * that starts it. */
#ifndef TXL_BASE_FLOAT_ENVIRONMENT_H
#define TXL_BASE_FLOAT_ENVIRONMENT_H

#include <fenv.h>
#include <stdint.h>

#if defined(__SSE__)
#include <xmmintrin.h>

enum { SUBNORMALS_ZERO = 0x8040 }; /* of results, and of operands */

static inline uint64_t subnormals_get(void) {
    return _mm_getcsr();
}

static inline void subnormals_set(uint64_t state) {
    _mm_setcsr((unsigned)state);
}
#elif defined(__aarch64__)
enum { SUBNORMALS_ZERO = 1 << 24 };

static inline uint64_t subnormals_get(void) {
    uint64_t state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state));
    return state;
}

static inline void subnormals_set(uint64_t state) {
    __asm__ volatile("msr fpcr, %0" : : "r"(state));
}
#else
enum { SUBNORMALS_ZERO = 0 };

static inline uint64_t subnormals_get(void) {
    return 0;
}

static inline void subnormals_set(uint64_t state) {
    (void)state;
}
#endif

/* Returns the setting before, which subnormals_set restores. */
static inline uint64_t subnormals_to_zero(void) {
    uint64_t state = subnormals_get();
    subnormals_set(state | SUBNORMALS_ZERO);
    return state;
}

/* The environment that exact arithmetic needs: results are rounded to nearest, subnormal numbers
 * are kept, nothing traps.  A new thread inherits the environment of the thread that starts it. */

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
