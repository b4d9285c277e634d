/* Reads a text and scores it whole, line by line or stream by stream. */
#include "evaluate.h"

#include "cli/system/signals.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- Streams of tokens -------------------------------------------------------------------- */

/* Adds the scorer's stream to the text's score.  Each stream is summed by itself, then the sums are
 * merged in order: so parts of a text that were scored separately can be merged to the same
 * bits. */
static void end_stream(struct evaluation *e) {
    score_merge(&e->score, &e->scorer.score);
    e->scorer.score = (struct score){0};
}

static txl_status fail_spool(txl_error *error) {
    error->status = TXL_IO;
    snprintf(error->message, sizeof error->message, "temporary file of token ids: %s",
             strerror(errno));
    return TXL_IO;
}

static void show_progress(struct evaluation *e, double fraction, uint64_t tokens) {
    if (fraction >= 0)
        fraction = (e->pass + fmin(fraction, 1)) / e->passes;
    progress_update(e->progress, fraction, e->passed + tokens);
}

/* Passes on a token.  The first one of a stream is context, which the scorer does not report. */
static txl_status push(struct evaluation *e, int32_t id, const struct place *place,
                       txl_error *error) {
    txl_status status = TXL_OK;
    if (e->report && e->scorer.n == 0)
        status = report_context(e->report, e->scorer.index, id, place, error);
    if (status != TXL_OK)
        return status;
    return scorer_push(&e->scorer, id, place, error);
}

/* ---- The spool ---------------------------------------------------------------------------- */

/* Places are only kept for the tables. */
static size_t spooled_place(const struct evaluation *e) {
    return tables_any(e->tables) ? sizeof(struct place) : sizeof(struct share);
}

static off_t spooled_bytes(const struct evaluation *e) {
    return (off_t)(sizeof(int32_t) + spooled_place(e));
}

static txl_status spool_write(struct evaluation *e, int32_t id, const struct place *place,
                              txl_error *error) {
    const void *kept = tables_any(e->tables) ? (const void *)place : &place->share;
    bool written = fwrite(&id, sizeof id, 1, e->spool) == 1 &&
                   fwrite(kept, spooled_place(e), 1, e->spool) == 1;
    return written ? TXL_OK : fail_spool(error);
}

static txl_status spool_read(struct evaluation *e, int32_t *id, struct place *place,
                             txl_error *error) {
    void *kept = tables_any(e->tables) ? (void *)place : &place->share;
    bool read =
        fread(id, sizeof *id, 1, e->spool) == 1 && fread(kept, spooled_place(e), 1, e->spool) == 1;
    return read ? TXL_OK : fail_spool(error);
}

static txl_status score_stream(struct evaluation *e, uint64_t first, uint64_t length, uint64_t all,
                               uint64_t done, txl_error *error) {
    scorer_start(&e->scorer, first);
    for (uint64_t i = 0; i < length; i++) {
        int32_t id;
        struct place place = {0};
        txl_status status = spool_read(e, &id, &place, error);
        if (status == TXL_OK)
            status = push(e, id, &place, error);
        if (status != TXL_OK)
            return status;
        show_progress(e, (double)(done + i) / (double)all, done + i);
    }
    return scorer_flush(&e->scorer, error);
}

/* Streams are independent of each other, so they can be scored one after the other. */
static txl_status score_streams(struct evaluation *e, txl_error *error) {
    uint64_t length = e->tokens / e->options.streams;
    uint64_t begin = e->options.stream > 0 ? e->options.stream - 1 : 0;
    uint64_t end = e->options.stream > 0 ? e->options.stream : e->options.streams;
    if (fflush(e->spool) != 0 ||
        fseeko(e->spool, (off_t)(begin * length) * spooled_bytes(e), SEEK_SET) != 0)
        return fail_spool(error);
    txl_status status = TXL_OK;
    for (uint64_t i = begin; status == TXL_OK && length > 0 && i < end; i++) {
        status = score_stream(e, i * length, length, (end - begin) * length, (i - begin) * length,
                              error);
        end_stream(e);
    }
    return status;
}

/* ---- Lines -------------------------------------------------------------------------------- */

/* The context of every line is the model's first context.  If the line begins with it (One Billion
 * Words), it is not scored. */
static txl_status push_in_line(struct evaluation *e, int32_t id, const struct place *place,
                               txl_error *error) {
    if (!e->in_line) {
        int32_t context = txl_model_first_context(e->model);
        bool opening =
            txl_kind_line_end(txl_model_kind(e->model)) == TXL_LINE_END_PAIR && id == context;
        e->in_line = true;
        /* The line's own first token is number 0. */
        scorer_start(&e->scorer, opening ? 0 : UINT64_MAX);
        txl_status status = scorer_push(&e->scorer, context, place, error);
        if (status != TXL_OK || opening)
            return status;
    }
    return scorer_push(&e->scorer, id, place, error);
}

/* `end` is where the line end is. */
static txl_status end_line(struct evaluation *e, uint64_t end, txl_error *error) {
    txl_status status = TXL_OK;
    if (e->in_line) {
        e->in_line = false;
        status = scorer_flush(&e->scorer, error);
    }
    if (status == TXL_OK)
        status = tables_line(e->tables, &e->line, end, &e->scorer.score, error);
    end_stream(e);
    return status;
}

/* ---- The text ----------------------------------------------------------------------------- */

static txl_status receive(void *context, const txl_symbol *symbol, txl_error *error) {
    struct evaluation *e = context;
    if (!symbol->text && e->report && !e->options.ids)
        report_line_end(e->report, e->tokens);
    if (!symbol->text)
        return e->options.per_line ? end_line(e, symbol->offset, error) : TXL_OK;
    if (e->options.max_tokens > 0 && e->tokens == e->options.max_tokens)
        return TXL_STOPPED;
    const uint64_t end = symbol->offset + symbol->bytes;
    struct place place = {.line = symbol->line, .offset = symbol->offset, .bytes = symbol->bytes};
    if (!e->options.ids)
        place.share = (struct share){end - e->end, symbol->characters - e->characters};
    e->tokens++;
    e->end = end;
    e->characters = symbol->characters;
    if (e->spool)
        return spool_write(e, symbol->id, &place, error);
    if (e->options.per_line)
        return push_in_line(e, symbol->id, &place, error);
    txl_status status = e->heat ? heat_symbol(e->heat, symbol, error) : TXL_OK;
    return status == TXL_OK ? push(e, symbol->id, &place, error) : status;
}

/* Receives the text before its symbols. */
static txl_status see_text(void *context, const char *text, size_t length, txl_error *error) {
    struct evaluation *e = context;
    txl_status status = tables_see(e->tables, text, length, error);
    return status == TXL_OK && e->heat ? heat_text(e->heat, text, length, error) : status;
}

/* Shows progress by the bytes read, or by the tokens if their number is known. */
static void show_reading(void *context) {
    struct evaluation *e = context;
    const struct input *input = e->reader.input;
    double fraction = -1;
    if (e->options.max_tokens > 0)
        fraction = (double)e->tokens / (double)e->options.max_tokens;
    fraction = fmax(fraction, input_fraction(input, e->reader.fed));
    show_progress(e, fraction, e->tokens);
}

/* Scores what still waits at the end of the text. */
static txl_status finish_text(struct evaluation *e, txl_error *error) {
    if (e->spool)
        return score_streams(e, error);
    if (e->in_line)
        return end_line(e, e->end, error);
    return scorer_flush(&e->scorer, error);
}

static txl_status score_text(struct evaluation *e, const struct input *input) {
    txl_error error = {0};
    txl_status status = token_reader_run(&e->reader, show_reading, e);
    if (status == TXL_STOPPED && !signals_stopped() && !output_closed() && !output_failed())
        status = TXL_OK; /* --max-tokens */
    if (status != TXL_OK)
        return status; /* the reader printed the error */
    status = finish_text(e, &error);
    if (status != TXL_OK && status != TXL_STOPPED)
        terminal_error("%s: %s", input->name, error.message);
    return status;
}

static bool start_text(struct evaluation *e, struct input *input) {
    const txl_encoding encoding = {.raw = e->options.raw,
                                   .skip_unknown = e->options.skip_unknown,
                                   .lookup = true,
                                   .lines = e->options.per_line,
                                   .symbol = receive,
                                   .context = e,
                                   .unknown = unknown_add,
                                   .unknown_context = &e->unknown};
    unknown_reset(&e->unknown);
    e->score = (struct score){0};
    e->tokens = 0;
    e->line = (struct place){.line = 1};
    e->end = e->characters = 0;
    e->in_line = false;
    if (e->comparison)
        e->comparison->divergence = (struct divergence){0};
    scorer_start(&e->scorer, 0);
    if (e->options.streams > 1) {
        e->spool = tmpfile();
        if (!e->spool) {
            terminal_error("temporary file of token ids: %s", strerror(errno));
            return false;
        }
    }
    if (!token_reader_open(&e->reader, e->model, input, &encoding, e->options.ids))
        return false;
    e->reader.see_text = see_text;
    return true;
}

static void end_text(struct evaluation *e, struct result *result) {
    txl_encoded counts;
    token_reader_counts(&e->reader, &counts);
    end_stream(e);
    if (e->heat)
        heat_end_text(e->heat, e->reader.ended);
    *result = (struct result){.score = e->score,
                              .tokens = e->tokens,
                              .unknown = counts.unknown,
                              .invalid = counts.invalid};
    if (e->comparison)
        result->divergence = e->comparison->divergence;
    token_reader_close(&e->reader);
}

static txl_status fail_short(const struct evaluation *e, const char *name,
                             const struct result *result) {
    if (e->options.streams > 1) {
        terminal_error("%s: %" PRIu64 " tokens leave fewer than two for each of %" PRIu64
                       " streams",
                       name, result->tokens, e->options.streams);
    } else {
        terminal_error("%s: fewer than two tokens, so there is nothing to score", name);
    }
    return TXL_TEXT;
}

/* Ends the tables' rows of the text, which include what was scored before a signal. */
static txl_status end_tables(struct evaluation *e, const char *name, struct result *result,
                             txl_status status) {
    txl_error error;
    bool good = status == TXL_OK || status == TXL_STOPPED;
    bool cut = !e->reader.ended || e->options.streams > 1;
    if (good && tables_finish_text(e->tables, cut, &error) != TXL_OK) {
        status = error.status;
        good = false;
        if (status != TXL_STOPPED)
            terminal_error("%s: %s", name, error.message);
    }
    result->word_correction = e->tables->words.correction;
    tables_end_text(e->tables, good);
    return status;
}

txl_status evaluate(struct evaluation *e, const char *file, struct input *input,
                    struct result *result) {
    double start = terminal_seconds();
    txl_status status = TXL_IO;
    *result = (struct result){.file = file};
    if (tables_start_text(e->tables, file, input) && start_text(e, input)) {
        status = score_text(e, input);
        end_text(e, result);
        result->seconds = terminal_seconds() - start;
    }
    if (e->spool) {
        fclose(e->spool);
        e->spool = NULL;
    }
    if (status == TXL_OK && result->score.predicted == 0)
        status = fail_short(e, input->name, result);
    result->file = file;
    return end_tables(e, input->name, result, status);
}
