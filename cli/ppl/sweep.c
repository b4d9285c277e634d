/* The list of memory lengths, and the table of their results. */
#include "sweep.h"
#include "cli/io/output.h"
#include "cli/io/terminal.h"
#include "cli/options/options.h"
#include "lib/base/error.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool sweep_parse(struct sweep *sweep, const char *list) {
    size_t n;
    *sweep = (struct sweep){.mem_len = number_list(list, &n)};
    sweep->n = sweep->mem_len ? (int)n : 0;
    return sweep->mem_len;
}

void sweep_free(struct sweep *sweep) {
    free(sweep->mem_len);
    if (sweep->nats)
        fclose(sweep->nats);
    recl_free(&sweep->recl);
    *sweep = (struct sweep){0};
}

int sweep_longest(const struct sweep *sweep) {
    int longest = 0;
    for (int i = 1; i < sweep->n; i++)
        longest = sweep->mem_len[i] > sweep->mem_len[longest] ? i : longest;
    return longest;
}

static txl_status fail_nats(const struct sweep *sweep, txl_error *error) {
    bool ended = sweep->nats && feof(sweep->nats);
    return txl_fail(error, TXL_IO, "temporary file of nats: %s",
                    ended ? "it became shorter" : strerror(errno));
}

bool sweep_start(struct sweep *sweep, bool first) {
    sweep->first = first;
    sweep->difference = (struct score){0};
    if (!sweep->nats)
        sweep->nats = tmpfile();
    if (sweep->nats && fseeko(sweep->nats, 0, SEEK_SET) == 0)
        return true;
    txl_error error;
    fail_nats(sweep, &error);
    return terminal_error("%s", error.message);
}

txl_status sweep_token(void *context, const struct scored *token, txl_error *error) {
    struct sweep *sweep = context;
    float nats = token->nats[0];
    if (sweep->keeps && !buffer_append(&sweep->recl.nats, &nats, sizeof nats))
        return txl_fail(error, TXL_MEMORY, "out of memory");
    if (sweep->first)
        return fwrite(&nats, sizeof nats, 1, sweep->nats) == 1 ? TXL_OK : fail_nats(sweep, error);
    if (fread(&nats, sizeof nats, 1, sweep->nats) != 1)
        return fail_nats(sweep, error);
    score_add(&sweep->difference, (double)token->nats[0] - (double)nats);
    return TXL_OK;
}

bool sweep_to_json(json_t *object, const struct sweep *sweep) {
    json_t *mean = sweep->first ? json_null() : json_real(sweep->difference.mean);
    double error = score_standard_error(&sweep->difference);
    return output_json_append(object,
                              json_pack("{s:o, s:o}", "difference", mean,
                                        "difference_standard_error", output_json_number(error)));
}

bool sweep_print_header(const struct setup *setup, const struct result *result) {
    const struct headline headline = result_headline(setup, result);
    return output_line("%8s  %18s  %8s  %14s  %8s", "mem_len", headline_name(&headline), "+/-",
                       "nats per token", "tokens/s") &&
           output_flush();
}

bool sweep_print_row(const struct setup *setup, const struct result *result, int mem_len,
                     const struct sweep *sweep) {
    const struct headline headline = result_headline(setup, result);
    char spread[32] = "-";
    /* In the headline's unit: its own error is that of the nats, scaled. */
    double scale = headline.error / score_standard_error(&result->score);
    double error = score_standard_error(&sweep->difference) * scale;
    if (score_error_shows(error, 5))
        snprintf(spread, sizeof spread, "%.5f", error);
    return output_line("%8d  %18.5f  %8s  %14.5f  %8.0f", mem_len, headline.value, spread,
                       result_nats_per_token(result), result_tokens_per_second(result)) &&
           output_flush();
}
