/* An instruction of the processor that multiplies and adds, to be repeated with operands in
 * registers: its peak limits a product.  Part of the tables that use it. */
#ifndef TXL_INSTRUCTION_H
#define TXL_INSTRUCTION_H

#include "kernels.h"
#include "vectors.h"

enum { REPEATED_SUMS = 16 }; /* independent sums, which hide the instruction's latency */

/* Defines the instruction `name` of vectors of the lanes' size, which does `n` operations, two for
 * each product.  Every operand is zero: no sum overflows. */
#define VECTOR_INSTRUCTION(name, n)                                                                \
    static void repeat_##name(size_t rounds) {                                                     \
        vec sum[REPEATED_SUMS] = {{0}}, x = {0}, y = {0};                                          \
        for (; rounds > 0; rounds--) {                                                             \
            UNROLL for (int i = 0; i < REPEATED_SUMS; i++) __asm__ volatile(                       \
                #name " %2, %1, %0" : "+v"(sum[i]) : "v"(x), "v"(y));                              \
        }                                                                                          \
    }                                                                                              \
    static const struct instruction name = {#name, REPEATED_SUMS * (n), repeat_##name}

#endif
