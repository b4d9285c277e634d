/* The list of memory lengths, and the table of their results. */
#include "sweep.h"

#include "cli/options/numbers.h"
#include "cli/system/output.h"

#include <math.h>
#include <stdlib.h>

bool sweep_parse(struct sweep *sweep, const char *list) {
    size_t n;
    *sweep = (struct sweep){.mem_len = number_list(list, &n)};
    sweep->n = sweep->mem_len ? (int)n : 0;
    return sweep->mem_len;
}

void sweep_free(struct sweep *sweep) {
    free(sweep->mem_len);
    *sweep = (struct sweep){0};
}

int sweep_longest(const struct sweep *sweep) {
    int longest = 0;
    for (int i = 1; i < sweep->n; i++)
        longest = sweep->mem_len[i] > sweep->mem_len[longest] ? i : longest;
    return longest;
}

bool sweep_print_header(const struct run_facts *facts, const struct result *result) {
    char line[128];
    const struct headline headline = result_headline(facts, result);
    int length = snprintf(line, sizeof line, "%8s  %18s  %8s  %14s  %8s\n", "mem_len",
                          headline_name(&headline), "+/-", "nats per token", "tokens/s");
    return output_write(line, (size_t)length) && output_flush();
}

bool sweep_print_row(const struct run_facts *facts, const struct result *result, int mem_len) {
    const struct headline headline = result_headline(facts, result);
    char line[256], spread[32] = "-";
    if (isfinite(headline.error))
        snprintf(spread, sizeof spread, "%.5f", headline.error);
    int length =
        snprintf(line, sizeof line, "%8d  %18.5f  %8s  %14.5f  %8.0f\n", mem_len, headline.value,
                 spread, result_nats_per_token(result), result_tokens_per_second(result));
    return output_write(line, (size_t)length) && output_flush();
}
