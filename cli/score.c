/* Scores tokens segment by segment, or each from a window of its own. */
#include "score.h"

#include "signals.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Ids scored in one call: enough for the session's longest passes, and not so many that Ctrl-C
 * waits for long. */
enum { LEAST_CHUNK = 512, MOST_CHUNK = 4096 };

void score_add(struct score *score, double nats) {
    score->predicted++;
    score->nats += nats;
    double difference = nats - score->mean;
    score->mean += difference / (double)score->predicted;
    score->squares += difference * (nats - score->mean);
}

/* Chan, Golub and LeVeque (1979). */
void score_merge(struct score *score, const struct score *other) {
    if (other->predicted == 0) {
        return;
    }
    double n = (double)score->predicted, m = (double)other->predicted;
    double difference = other->mean - score->mean;
    score->predicted += other->predicted;
    score->nats += other->nats;
    score->mean += difference * m / (n + m);
    score->squares += other->squares + difference * difference * n * m / (n + m);
}

double score_standard_error(const struct score *score) {
    double n = (double)score->predicted;
    return score->predicted < 2 ? NAN : sqrt(score->squares / (n - 1) / n);
}

/* Whole segments, as models without memory must have them; those with memory may be cut. */
static size_t chunk_of(const txl_settings *settings) {
    size_t chunk = (size_t)settings->tgt_len;
    if (chunk < LEAST_CHUNK) {
        return LEAST_CHUNK / chunk * chunk;
    }
    return settings->mem_len > 0 && chunk > MOST_CHUNK ? MOST_CHUNK : chunk;
}

bool scorer_new(struct scorer *scorer, const txl_model *model, txl_session *session,
                size_t window) {
    txl_settings settings;
    txl_session_settings(session, &settings);
    size_t chunk = chunk_of(&settings);
    *scorer = (struct scorer){.model = model, .session = session, .window = window, .chunk = chunk};
    size_t held = window > 0 ? window : chunk;
    scorer->ids = calloc(held + 1, sizeof *scorer->ids);
    scorer->nats = calloc(chunk, sizeof *scorer->nats);
    return scorer->ids != NULL && scorer->nats != NULL;
}

void scorer_free(struct scorer *scorer) {
    free(scorer->ids);
    free(scorer->nats);
}

void scorer_start(struct scorer *scorer, uint64_t index) {
    txl_session_reset(scorer->session);
    scorer->n = 0;
    scorer->index = index;
}

/* A symbol in a table: what would break the table is written as in C. */
static void print_escaped(FILE *rows, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        switch (text[i]) {
        case '\t':
            fputs("\\t", rows);
            break;
        case '\n':
            fputs("\\n", rows);
            break;
        case '\r':
            fputs("\\r", rows);
            break;
        case '\\':
            fputs("\\\\", rows);
            break;
        default:
            fputc(text[i], rows);
        }
    }
}

static void record(struct scorer *scorer, uint64_t index, int32_t id, float nats) {
    score_add(&scorer->score, nats);
    if (scorer->rows != NULL) {
        size_t length = 0;
        const char *symbol = txl_model_symbol(scorer->model, id, &length);
        fprintf(scorer->rows, "%" PRIu64 "\t%" PRId32 "\t", index, id);
        print_escaped(scorer->rows, symbol, length);
        fprintf(scorer->rows, "\t%.9g\n", (double)nats);
    }
}

/* ids[n - 1] from a fresh segment of all before it. */
static txl_status score_window(struct scorer *scorer, txl_error *error) {
    size_t last = scorer->n - 1;
    float nats;
    txl_session_reset(scorer->session);
    txl_status status = TXL_OK;
    if (last > 1) {
        status = txl_session_feed(scorer->session, scorer->ids, last - 1, error);
    }
    if (status == TXL_OK) {
        status = txl_session_score(scorer->session, &scorer->ids[last - 1], 1, &scorer->ids[last],
                                   &nats, error);
    }
    if (status != TXL_OK) {
        return status;
    }
    record(scorer, scorer->index + last, scorer->ids[last], nats);
    if (last == scorer->window) {
        memmove(scorer->ids, scorer->ids + 1, last * sizeof *scorer->ids);
        scorer->n--;
        scorer->index++;
    }
    return signals_stopped() ? TXL_STOPPED : TXL_OK;
}

txl_status scorer_flush(struct scorer *scorer, txl_error *error) {
    if (scorer->window > 0 || scorer->n < 2) {
        return TXL_OK;
    }
    size_t n = scorer->n - 1;
    txl_status status =
        txl_session_score(scorer->session, scorer->ids, n, scorer->ids + 1, scorer->nats, error);
    if (status != TXL_OK) {
        return status;
    }
    for (size_t i = 0; i < n; i++) {
        record(scorer, scorer->index + i + 1, scorer->ids[i + 1], scorer->nats[i]);
    }
    scorer->ids[0] = scorer->ids[n];
    scorer->n = 1;
    scorer->index += n;
    return signals_stopped() ? TXL_STOPPED : TXL_OK;
}

txl_status scorer_push(struct scorer *scorer, int32_t id, txl_error *error) {
    scorer->ids[scorer->n++] = id;
    if (scorer->window > 0) {
        return scorer->n < 2 ? TXL_OK : score_window(scorer, error);
    }
    return scorer->n <= scorer->chunk ? TXL_OK : scorer_flush(scorer, error);
}
