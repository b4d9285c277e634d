/* Philox4x32-10, a counter-based random generator: Salmon, Moraes, Dror and Shaw 2011, "Parallel
 * random numbers: as easy as 1, 2, 3". */
#ifndef TXL_RANDOM_H
#define TXL_RANDOM_H

#include "txl.h"

/* Computes the generator's block of four words for a counter and a key. */
void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Uniform in [0, 1), in steps of 2^-53; moves on by one draw. */
double random_uniform(txl_random *random);

#endif
