/* Rounds a softmax to integer frequencies, in one order of operations. */
#include "quantised.h"

enum { FEW_ENTRIES = 65536 };

uint64_t quantise(const float *e, size_t n, double sum, const unsigned char *used,
                  uint64_t *frequency) {
    const double whole = n > FEW_ENTRIES ? 1 << 30 : 1 << 24, unit = (whole - (double)n) / sum;
    if (!(sum >= 1 && unit > 0)) /* NaN neither */
        return 0;
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++)
        frequency[i] = (uint64_t)(1 + (int32_t)((double)e[i] * unit));
    for (size_t i = 0; used && i < n; i++)
        frequency[i] = used[i] ? frequency[i] : 0;
    for (size_t i = n; i < quantised_room(n); i++)
        frequency[i] = 0;
    for (size_t i = 0; i < n; i++)
        total += frequency[i];
    return total;
}

uint64_t quantised_mix(uint64_t *frequency, size_t n, uint64_t total, uint32_t share,
                       const uint32_t *count, uint32_t unit, const uint32_t *extra, double scale) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        frequency[i] =
            share * frequency[i] + quantised_given(count[i] * unit + extra[i], scale, total);
    for (size_t i = 0; i < n; i++)
        sum += frequency[i];
    return sum;
}

uint64_t quantised_below(const uint64_t *frequency, size_t i) {
    uint64_t below = 0;
    for (size_t j = 0; j < i; j++)
        below += frequency[j];
    return below;
}

size_t quantised_find(const uint64_t *frequency, uint64_t place, uint64_t *below) {
    size_t i = 0;
    *below = 0;
    for (uint64_t sum; *below + (sum = quantised_below(frequency + i, 64)) <= place; i += 64)
        *below += sum;
    while (*below + frequency[i] <= place)
        *below += frequency[i++];
    return i;
}
