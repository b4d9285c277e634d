/* The distance between names: how many letters are missing, added, wrong or exchanged. */
#include "nearest.h"

#include "lib/base/memory.h"

#include <stdint.h>
#include <string.h>

/* Longer names are not compared. */
enum { MOST = 32 };

struct nearest nearest_to(const char *typed) {
    return (struct nearest){.typed = typed, .distance = SIZE_MAX};
}

/* Optimal string alignment: the four mistakes of Damerau (1964), with no substring edited twice. */
static size_t distance(const char *a, size_t n, const char *b, size_t m) {
    size_t row[3][MOST + 1], *before = row[0], *above = row[1], *at = row[2];
    for (size_t j = 0; j <= m; j++)
        above[j] = j;
    for (size_t i = 1; i <= n; i++) {
        at[0] = i;
        for (size_t j = 1; j <= m; j++) {
            at[j] =
                smaller(above[j - 1] + (a[i - 1] != b[j - 1]), 1 + smaller(above[j], at[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                at[j] = smaller(at[j], before[j - 2] + 1);
        }
        size_t *next = before;
        before = above;
        above = at;
        at = next;
    }
    return above[m];
}

/* Prefers names with the same beginning: the word may only be cut short. */
void nearest_try(struct nearest *nearest, const char *name) {
    size_t n = strlen(nearest->typed), m = strlen(name), d;
    if (n == 0 || n > MOST || m > MOST)
        return;
    if (n >= 2 && strncmp(nearest->typed, name, n) == 0)
        d = 1;
    else
        d = distance(nearest->typed, n, name, m);
    if (d < nearest->distance) {
        nearest->distance = d;
        nearest->name = name;
    }
}

const char *nearest_name(const struct nearest *nearest) {
    size_t length = strlen(nearest->typed), most = length < 3 ? 1 : (length + 2) / 3;
    return nearest->name && nearest->distance <= most ? nearest->name : NULL;
}
