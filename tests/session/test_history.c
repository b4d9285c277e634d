/* The history: what it remembers, and its index of n-grams against a search of all that was pushed,
 * with ids leaving the window, and in a long text. */
#include "lib/session/session.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>

enum { N_ID = 6, LENGTH = 700 };

static txl_history *open_history(size_t window, size_t n) {
    txl_history *history;
    txl_error error;
    assert_int_equal(txl_history_new(window, n, &history, &error), TXL_OK);
    return history;
}

/* Numbers that look random, the same ones in every run (Knuth's MMIX constants). */
static uint32_t next_number(uint64_t *state) {
    *state = *state * 6364136223846793005 + 1442695040888963407;
    return (uint32_t)(*state >> 33);
}

/* Marks what follows, within the last `window` ids, the n - 1 ids that end the text. */
static void search(const int32_t *ids, size_t length, size_t window, size_t n, bool *follows) {
    memset(follows, 0, N_ID * sizeof *follows);
    size_t start = length > window ? length - window : 0;
    for (size_t i = start; i + n <= length; i++)
        if (memcmp(ids + i, ids + length - (n - 1), (n - 1) * sizeof *ids) == 0)
            follows[ids[i + n - 1]] = true;
}

static void check_repeats(const txl_history *history, const bool *expected) {
    bool found[N_ID] = {false};
    int32_t id;
    for (uint64_t at = 0; (at = history_next_repeat(history, at, &id)) != 0;) {
        assert_in_range(id, 0, N_ID - 1);
        assert_false(found[id]);
        found[id] = true;
    }
    assert_memory_equal(found, expected, sizeof found);
}

TEST(repeats_are_those_of_the_window) {
    static const size_t windows[] = {1, 2, 3, 7, 16, 100, 5000};
    int32_t ids[LENGTH];
    uint64_t random = 1;
    for (size_t i = 0; i < LENGTH; i++)
        ids[i] = (int32_t)(next_number(&random) % N_ID);
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        for (size_t n = 1; n <= 5 && n <= windows[w]; n++) {
            txl_history *history = open_history(windows[w], n);
            bool expected[N_ID];
            for (size_t length = 0; length <= LENGTH; length++) {
                if (length + 1 >= n)
                    search(ids, length, windows[w], n, expected);
                else
                    memset(expected, 0, sizeof expected);
                check_repeats(history, expected);
                if (length < LENGTH)
                    txl_history_push(history, ids + length, 1);
            }
            txl_history_free(history);
        }
    }
}

/* A saved memory relies on this, at every length around the window's. */
TEST(recent_ids_make_the_same_history) {
    enum { WINDOW = 50 };
    int32_t ids[LENGTH], recent[WINDOW];
    uint64_t random = 2;
    for (size_t i = 0; i < LENGTH; i++)
        ids[i] = (int32_t)(next_number(&random) % N_ID);
    for (size_t length = 0; length < 3 * WINDOW; length++) {
        txl_history *history = open_history(WINDOW, 2), *again = open_history(WINDOW, 2);
        txl_history_push(history, ids, length);
        size_t n = txl_history_recent(history, recent, WINDOW);
        assert_int_equal(n, length < WINDOW ? length : WINDOW);
        assert_memory_equal(recent, ids + length - n, n * sizeof *ids);
        txl_history_push(again, recent, n);
        for (size_t i = 0; i < 10; i++) {
            bool expected[N_ID] = {false};
            int32_t id;
            for (uint64_t at = 0; (at = history_next_repeat(history, at, &id)) != 0;)
                expected[id] = true;
            check_repeats(again, expected);
            txl_history_push(history, ids + length + i, 1);
            txl_history_push(again, ids + length + i, 1);
        }
        assert_int_equal(txl_history_recent(history, recent, 3), 3);
        assert_memory_equal(recent, ids + length + 7, 3 * sizeof *ids);
        txl_history_free(history);
        txl_history_free(again);
    }
}

TEST(reset_forgets) {
    static const int32_t ids[] = {1, 2, 1};
    int32_t id;
    txl_history *history = open_history(10, 2);
    txl_history_push(history, ids, 3);
    assert_int_not_equal(history_next_repeat(history, 0, &id), 0);
    assert_int_equal(id, 2);
    txl_history_reset(history);
    assert_int_equal(history_length(history), 0);
    txl_history_push(history, ids, 1);
    assert_int_equal(history_next_repeat(history, 0, &id), 0);
    txl_history_free(history);
}

/* Two million ids of two kinds, where every n-gram has been seen a great many times: a second where
 * a search of the history would take hours. */
TEST(a_long_history_is_fast) {
    enum { MANY = 2000000 };
    int32_t id;
    uint64_t random = 3;
    txl_history *history = open_history(1 << 20, 3);
    for (size_t i = 0; i < MANY; i++) {
        int repeats = 0;
        for (uint64_t at = 0; (at = history_next_repeat(history, at, &id)) != 0;)
            repeats++;
        assert_in_range(repeats, 0, 2);
        id = (int32_t)(next_number(&random) % 2);
        txl_history_push(history, &id, 1);
    }
    assert_int_equal(history_length(history), 1 << 20);
    txl_history_free(history);
}

TEST(nonsense_is_refused) {
    txl_history *history;
    txl_error error;
    assert_int_equal(txl_history_new(0, 0, &history, &error), TXL_ARGUMENT);
    assert_int_equal(txl_history_new(4, 5, &history, &error), TXL_ARGUMENT);
    txl_history_free(NULL);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
