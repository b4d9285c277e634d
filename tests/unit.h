/* What each program of unit tests includes: cmocka.h, the headers that it needs before it, and the
 * list of the program's tests. */
#ifndef TESTS_UNIT_H
#define TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* Whether a sanitizer checks the tests.  What goes through the same code again, for its numbers, is
 * thinned then: the build without one sees all of it. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

/* The tests of the file, in their order, for cmocka_run_group_tests, which passes over places
 * without a test.  Whatever defines tests puts them here before main begins. */
enum { MOST_TEST_ROWS = 64 };
static struct CMUnitTest tests[64 * MOST_TEST_ROWS] __attribute__((unused));

/* Lists a test: the members of its struct CMUnitTest in braces. */
#define LIST_TEST(name, ...)                                                                       \
    static const struct CMUnitTest name##_test = __VA_ARGS__;                                      \
    static void __attribute__((constructor)) list_##name(void) {                                   \
        tests[__COUNTER__ * MOST_TEST_ROWS] = name##_test;                                         \
    }

/* A test without a state of its own, perhaps with what is called before and after it. */
#define TEST_WITH(name, set_up, tear_down)                                                         \
    static void name(void **);                                                                     \
    LIST_TEST(name, {#name, name, set_up, tear_down, NULL})                                        \
    static void name(void **unused __attribute__((unused)))
#define TEST(name) TEST_WITH(name, NULL, NULL)

/* A test for each row of a table, which the body reads as `row`; they are numbered from 1. */
#define TEST_EACH(name, table)                                                                     \
    static void name(const __typeof__(*(table)) *row);                                             \
    static void name##_at(void **row) {                                                            \
        name(*row);                                                                                \
    }                                                                                              \
    static void __attribute__((constructor)) list_##name(void) {                                   \
        list_rows(#name, name##_at, __COUNTER__, table, sizeof *(table),                           \
                  sizeof(table) / sizeof *(table));                                                \
    }                                                                                              \
    static void name(const __typeof__(*(table)) *row)

static inline void list_rows(const char *name, CMUnitTestFunction test, size_t place,
                             const void *table, size_t size, size_t n) {
    char *numbered;
    for (size_t i = 0; i < n; i++) {
        if (i == MOST_TEST_ROWS || asprintf(&numbered, "%s %zu", name, i + 1) < 0)
            abort();
        tests[place * MOST_TEST_ROWS + i] =
            (struct CMUnitTest){numbered, test, NULL, NULL, (void *)((uintptr_t)table + i * size)};
    }
}

#endif
