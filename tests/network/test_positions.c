/* Sinusoids of positions, against sin and cos. */
#include "lib/transformer_xl/positions.h"
#include "tests/unit.h"

#include <math.h>

enum { MOST = 200, WIDTH = 82 }; /* not a multiple of the frequencies computed together */

static float inv_freq[WIDTH / 2], row[MOST][WIDTH];

/* Rounding to float takes 2^-25 at most. */
static void check(float found, double expected, double p, size_t i) {
    if (!(fabs((double)found - expected) <= 0x1p-25 + 1e-12))
        fail_msg("position %g, frequency %zu: %.9g, expected %.12g", p, i, (double)found, expected);
}

static void check_rows(size_t first, int step, size_t n, int clamp_len) {
    position_sines(inv_freq, WIDTH, clamp_len, first, step, n, row[0]);
    for (size_t t = 0; t < n; t++) {
        double p = (double)first + step * (double)t;
        if (clamp_len > 0 && p > clamp_len)
            p = clamp_len;
        for (size_t i = 0; i < WIDTH / 2; i++) {
            check(row[t][i], sin(p * (double)inv_freq[i]), p, i);
            check(row[t][WIDTH / 2 + i], cos(p * (double)inv_freq[i]), p, i);
        }
    }
}

TEST(sinusoids) {
    for (size_t i = 0; i < WIDTH / 2; i++)
        inv_freq[i] = (float)pow(10000, -2 * (double)i / WIDTH);
    check_rows(63, -1, 64, -1);
    for (size_t i = 0; i < WIDTH / 2; i++) {
        assert_float_equal(row[63][i], 0, 0);
        assert_float_equal(row[63][WIDTH / 2 + i], 1, 0);
    }
    check_rows(MOST - 1, -1, MOST, 70);  /* beyond clamp_len first, then within */
    check_rows(0, 1, MOST, 70);          /* the other way */
    check_rows(100000, -1, MOST, -1);    /* far away */
    check_rows(5, 0, 3, -1);             /* the same position again */
    check_rows(MOST - 1, -1, MOST, 199); /* the first is clamp_len itself */
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
