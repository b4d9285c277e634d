/* Makes the calling thread take subnormal numbers (smaller than 2^-126) as zero: some processors
 * take a hundred times as long to multiply one.  A new thread inherits the setting of the thread
 * that starts it. */
#ifndef TXL_SUBNORMALS_H
#define TXL_SUBNORMALS_H

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

#endif
