/* What each program of unit tests includes: cmocka.h, the headers that it needs before it, and the
 * list of the program's tests. */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Whether a sanitizer checks the tests.  What goes through the same code again, for its numbers, is
 * thinned then: the build without one sees all of it. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* The tests of the file, in their order, for cmocka_run_group_tests, which passes over places
 * without a test.  Whatever defines a test puts it here before main begins. */
static struct CMUnitTest tests[64] __attribute__((unused));

/* Lists a test: the members of its struct CMUnitTest in braces. */
#define LIST_TEST(name, ...)                                                                       \
    static const struct CMUnitTest name##_test = __VA_ARGS__;                                      \
    static void __attribute__((constructor)) list_##name(void) {                                   \
        tests[__COUNTER__] = name##_test;                                                          \
    }

/* A test without a state of its own, perhaps with what is called before and after it. */
#define TEST_WITH(name, set_up, tear_down)                                                         \
    static void name(void **);                                                                     \
    LIST_TEST(name, {#name, name, set_up, tear_down, NULL})                                        \
    static void name(void **unused __attribute__((unused)))
#define TEST(name) TEST_WITH(name, NULL, NULL)

#endif
