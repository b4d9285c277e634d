/* What each program of unit tests includes: cmocka.h, and the headers that it needs before it. */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A test without a state of its own. */
#define TEST(name) static void name(void **unused __attribute__((unused)))

#endif
