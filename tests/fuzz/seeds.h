/* The inputs that the fuzzers start from: the test cases, and small inputs of every kind that a
 * reader reads. */
#ifndef FUZZ_SEEDS_H
#define FUZZ_SEEDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Calls `take` with each input that the harness of that name starts from.  `cases` is the folder
 * tests/cases.  False: there is no such harness. */
bool seeds_make(const char *harness, const char *cases,
                void (*take)(void *context, const uint8_t *data, size_t size), void *context);

#endif
