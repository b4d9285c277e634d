/* Reads a text and scores it whole or stream by stream, or texts in memory one by one. */
#include "evaluate.h"

#include "cli/io/clean.h"
#include "cli/io/signals.h"
#include "lib/base/error.h"
#include "lib/base/white_space.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- Streams of tokens -------------------------------------------------------------------- */

/* Adds the scorer's stream to the text's score.  Each stream is summed by itself, then the sums are
 * merged in order: so parts of a text that were scored separately can be merged to the same
 * bits. */
void evaluation_end_stream(struct evaluation *e) {
    score_merge(&e->score, &e->scorer.score);
    e->scorer.score = (struct score){0};
}

/* Whether all of --max-tokens have come. */
static bool has_enough(const struct evaluation *e) {
    return e->reading.max_tokens > 0 && e->counts.tokens == e->reading.max_tokens;
}

static txl_status fail_spool(const struct evaluation *e, txl_error *error) {
    return txl_fail(error, TXL_IO, "temporary file of token ids: %s",
                    feof(e->spool) ? "it became shorter" : strerror(errno));
}

static void show_progress(struct evaluation *e, double fraction, uint64_t tokens) {
    if (fraction >= 0)
        fraction = (e->passes.at + fmin(fraction, 1)) / e->passes.n;
    progress_update(e->progress, fraction, e->passes.tokens + tokens);
}

/* Passes on a token.  A text that is scored alone follows its context; the first token of any other
 * stream is context, which the scorer does not report. */
static txl_status push_token(struct evaluation *e, int32_t id, const struct place *place,
                             txl_error *error) {
    txl_status status = TXL_OK;
    if (e->alone && !e->start.is_scored)
        status = scorer_start_after(&e->scorer, &e->start.context, error);
    else if (e->report && e->scorer.n == 0 && !e->both_sides)
        status = report_context(e->report, e->scorer.index, id, place, error);
    e->start.is_scored = true;
    return status ? status : scorer_push(&e->scorer, id, place, error);
}

/* ---- The spool ---------------------------------------------------------------------------- */

/* Whether rows or the report show the text. */
static bool shows_text(const struct evaluation *e) {
    return e->levels || (e->report && e->report->source);
}

/* Places are only kept for the report. */
static size_t spooled_place(const struct evaluation *e) {
    return shows_text(e) ? sizeof(struct place) : sizeof(struct share);
}

static off_t spooled_bytes(const struct evaluation *e) {
    return (off_t)(sizeof(int32_t) + spooled_place(e));
}

static txl_status spool_write(struct evaluation *e, int32_t id, const struct place *place,
                              txl_error *error) {
    const void *kept = shows_text(e) ? (const void *)place : &place->share;
    bool written = fwrite(&id, sizeof id, 1, e->spool) == 1 &&
                   fwrite(kept, spooled_place(e), 1, e->spool) == 1;
    return written ? TXL_OK : fail_spool(e, error);
}

static txl_status spool_read(struct evaluation *e, int32_t *id, struct place *place,
                             txl_error *error) {
    void *kept = shows_text(e) ? (void *)place : &place->share;
    bool read =
        fread(id, sizeof *id, 1, e->spool) == 1 && fread(kept, spooled_place(e), 1, e->spool) == 1;
    return read ? TXL_OK : fail_spool(e, error);
}

static txl_status score_stream(struct evaluation *e, uint64_t first, uint64_t length, uint64_t all,
                               uint64_t done, txl_error *error) {
    scorer_start(&e->scorer, first);
    for (uint64_t i = 0; i < length; i++) {
        int32_t id;
        struct place place = {0};
        txl_status status = spool_read(e, &id, &place, error);
        if (!status)
            status = push_token(e, id, &place, error);
        if (status)
            return status;
        show_progress(e, (double)(done + i) / (double)all, done + i);
    }
    return scorer_flush(&e->scorer, error);
}

/* Streams are independent of each other, so they can be scored one after the other. */
static txl_status score_streams(struct evaluation *e, txl_error *error) {
    uint64_t length = e->counts.tokens / e->reading.streams;
    uint64_t begin = e->reading.stream > 0 ? e->reading.stream - 1 : 0;
    uint64_t end = e->reading.stream > 0 ? e->reading.stream : e->reading.streams;
    if (fflush(e->spool) != 0 ||
        fseeko(e->spool, (off_t)(begin * length) * spooled_bytes(e), SEEK_SET) != 0)
        return fail_spool(e, error);
    txl_status status = TXL_OK;
    for (uint64_t i = begin; !status && length > 0 && i < end; i++) {
        status = score_stream(e, i * length, length, (end - begin) * length, (i - begin) * length,
                              error);
        evaluation_end_stream(e);
    }
    return status;
}

/* ---- Words -------------------------------------------------------------------------------- */

static void start_words(struct evaluation *e) {
    e->words.at.length = e->words.taken = e->words.n_held = 0;
    e->words.seen = 0;
    e->words.in_word = false;
}

/* Notes where the words of the source begin. */
static bool see_words(struct word_starts *w, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        w->held[w->n_held++] = text[i];
        for (size_t n; w->n_held > 0; w->n_held -= n) {
            enum utf8_what what;
            n = utf8_first(w->held, w->n_held, &what);
            if (what == UTF8_CUT)
                break;
            bool space = space_length(w->held, n) > 0;
            if (!space && !w->in_word && !buffer_append(&w->at, &w->seen, sizeof w->seen))
                return false;
            w->in_word = !space;
            w->seen += n;
            memmove(w->held, w->held + n, w->n_held - n);
        }
    }
    return true;
}

/* How many words begin before `end` that no token before had.  A symbol of characters that reaches
 * an incomplete one stands for what will not become one. */
static uint64_t take_words(struct evaluation *e, uint64_t end) {
    struct word_starts *w = &e->words;
    bool cut = w->n_held > 0 && !w->in_word && end > w->seen && !e->reader.takes_bytes;
    uint64_t n = cut, at;
    w->in_word = w->in_word || cut;
    for (; w->taken < w->at.length; w->taken += sizeof at, n++) {
        memcpy(&at, w->at.data + w->taken, sizeof at);
        if (at >= end)
            break;
    }
    if (w->taken > w->at.length / 2) {
        buffer_drop(&w->at, w->taken);
        w->taken = 0;
    }
    return n;
}

/* Shows progress by the bytes read, or by the tokens if their number is known. */
static void show_reading(void *context) {
    struct evaluation *e = context;
    const struct input *input = e->reader.input;
    double fraction = -1;
    if (e->both_sides)
        return; /* evaluation_token */
    if (e->reading.max_tokens > 0)
        fraction = (double)e->counts.tokens / (double)e->reading.max_tokens;
    fraction = fmax(fraction, input_fraction(input, e->reader.fed));
    show_progress(e, fraction, e->counts.tokens);
}

txl_status evaluation_token(void *context, const struct scored *token, txl_error *error) {
    struct evaluation *e = context;
    const struct input *input = e->reader.input;
    uint64_t tokens = e->score.predicted + e->scorer.score.predicted;
    (void)error;
    double fraction =
        input_fraction(input, e->items ? input->read : token->place->offset + token->place->bytes);
    if (e->reading.max_tokens > 0)
        fraction = fmax(fraction, (double)tokens / (double)e->reading.max_tokens);
    show_progress(e, fraction, tokens);
    return TXL_OK;
}

/* ---- Texts that are scored alone ---------------------------------------------------------- */

static uint64_t count_characters(const char *text, size_t length) {
    uint64_t n = 0;
    for (size_t i = 0; i < length; n++) {
        enum utf8_what what;
        i += utf8_first(text + i, length - i, &what);
    }
    return n;
}

static bool add_context(struct evaluation *e, int32_t id) {
    return id_list_add(&e->start.context, id);
}

static txl_status start_alone(struct evaluation *e, txl_error *error) {
    e->start.context.n = 0;
    e->reached.bytes = e->reached.characters = 0;
    e->start.is_open = true;
    e->start.is_scored = false;
    e->waiting.length = 0;
    if (e->items)
        start_words(e);
    e->counts.texts++;
    e->scorer.score = (struct score){0};
    return add_context(e, txl_model_first_context(e->model))
               ? TXL_OK
               : txl_fail(error, TXL_MEMORY, "out of memory");
}

/* Whether the symbol opens a line where lines stand between two boundaries (One Billion Words). */
static bool is_opening(const struct evaluation *e, const txl_symbol *symbol) {
    return txl_kind_line_end(txl_model_kind(e->model)) == TXL_LINE_END_PAIR && symbol->bytes == 0 &&
           symbol->id == txl_model_first_context(e->model);
}

/* Whether the symbol is before the text.  Of those that stand for no bytes at its start, only what
 * opens the text's line is, and what closes that of an empty text. */
static bool is_before(const struct evaluation *e, const txl_symbol *symbol) {
    uint64_t end = symbol->offset + symbol->bytes, prefix = e->reader.prefix;
    bool opening = is_opening(e, symbol);
    return end < prefix || (e->start.is_open && opening) ||
           (end == prefix && (symbol->bytes > 0 || opening || e->reader.fed == 0));
}

/* If the text begins with the first context, that is not read twice. */
static txl_status take_context(struct evaluation *e, const txl_symbol *symbol, txl_error *error) {
    bool twice = e->start.is_open && is_opening(e, symbol);
    e->start.is_open = false;
    if (twice && e->reader.prefix == 0) { /* it may come after a byte order mark */
        e->reached.bytes = symbol->offset;
        e->reached.characters = symbol->characters;
    }
    return twice || add_context(e, symbol->id) ? TXL_OK
                                               : txl_fail(error, TXL_MEMORY, "out of memory");
}

/* The share of the source that goes to the token that ends at `end` of what the encoder got. */
static struct share share_of(struct evaluation *e, const txl_symbol *symbol, uint64_t end) {
    const struct token_reader *reader = &e->reader;
    uint64_t prefix = reader->prefix;
    if (e->reached.bytes < prefix) {
        e->reached.bytes = prefix;
        e->reached.characters =
            e->reading.ids || reader->takes_bytes
                ? prefix
                : count_characters(reader->before, reader->n_before) + prefix - reader->n_before;
    }
    struct share share = {end - e->reached.bytes, symbol->characters - e->reached.characters,
                          take_words(e, end - prefix + reader->mark)};
    e->reached.bytes = end;
    e->reached.characters = symbol->characters;
    return e->reading.ids ? (struct share){0} : share;
}

/* Receives the text before its symbols. */
static txl_status see_text(void *context, const char *text, size_t length, txl_error *error) {
    struct evaluation *e = context;
    txl_status status = shows_text(e) ? source_see(&e->source, text, length, error) : TXL_OK;
    if (!status && !e->reading.ids && !see_words(&e->words, text, length))
        status = txl_fail(error, TXL_MEMORY, "out of memory");
    return !status && e->heat ? heat_text(e->heat, text, length, error) : status;
}

static bool open_reader(struct evaluation *e, struct input *input,
                        const struct txl_encoding *encoding) {
    bool good = token_reader_open(&e->reader, e->model, input, encoding, e->reading.ids);
    e->reader.see_text = see_text;
    e->reader.blanks = &e->blanks;
    e->reader.before = e->before.data;
    e->reader.n_before = e->before.length;
    return good;
}

/* The encoder cannot go on after a text that it refused. */
static bool renew_encoder(struct evaluation *e) {
    const struct txl_encoding encoding = e->reader.encoding;
    txl_encoded counts;
    token_reader_counts(&e->reader, &counts);
    e->counts.invalid += counts.invalid;
    token_reader_close(&e->reader);
    return open_reader(e, e->reader.input, &encoding);
}

/* Reads the text's tokens, which wait then. */
static txl_status read_text(struct evaluation *e, const struct lone_text *text) {
    struct token_reader *reader = &e->reader;
    const struct buffer *bytes = &text->regions->text;
    const struct blanks blanks = e->blanks;
    txl_error error = {0};
    uint64_t tokens = e->counts.tokens;
    e->blanks.line = text->line;
    if (text->n_before > text->n_shared) {
        if (text->n_shared > 0)
            blanks_go_on(&e->blanks);
        blanks_see(&e->blanks, text->before + text->n_shared, text->n_before - text->n_shared);
    }
    e->record = text->line;
    reader->before = text->before;
    reader->n_before = text->n_before;
    reader->where = text->where;
    reader->problem = text->problem;
    reader->n_problem = text->n_problem;
    txl_status status = start_alone(e, &error);
    if (!terminal_report(status, &error))
        return status;
    /* An empty text has the end of its only line all the same. */
    status = bytes->length > 0 ? token_reader_feed(reader, bytes->data, bytes->length)
                               : token_reader_feed(reader, "\n", 1);
    if (!status)
        status = token_reader_end_text(reader);
    if (!status) {
        blanks_end(&e->blanks);
        return TXL_OK;
    }
    e->counts.tokens = tokens;
    e->blanks = blanks;
    return status == TXL_TEXT && !renew_encoder(e) ? TXL_MEMORY : status;
}

static txl_status push_waiting(struct evaluation *e, uint64_t length, txl_error *error) {
    struct waiting_token token;
    txl_status status = TXL_OK;
    for (size_t i = 0; i < e->waiting.length && !status; i += sizeof token) {
        memcpy(&token, e->waiting.data + i, sizeof token);
        struct place *place = &token.place;
        if (place->offset + place->bytes > length) /* the line end of an empty text */
            place->bytes = place->share.bytes = place->share.characters = 0;
        status = push_token(e, token.id, place, error);
    }
    return !status && e->start.is_scored ? scorer_flush(&e->scorer, error) : status;
}

txl_status evaluation_text(struct evaluation *e, const struct lone_text *text) {
    const struct buffer *bytes = &text->regions->text;
    txl_error error = {TXL_STOPPED, ""};
    source_of_text(&e->source, bytes->data ? bytes->data : "", bytes->length);
    if (e->levels && levels_start(e->levels, &e->source, text->regions, text->parted, text->line))
        return TXL_IO;
    txl_status status = read_text(e, text);
    if (status)
        return status;
    status = push_waiting(e, bytes->length, &error);
    if (!status && e->levels)
        status = levels_end(e->levels, false, &error);
    if (status && status != TXL_STOPPED)
        terminal_error("%s: %s%s", e->reader.input->name, text->where, error.message);
    return status;
}

/* ---- The text ----------------------------------------------------------------------------- */

/* Where in the source the symbol stands, and what it takes of it. */
static struct place place_of(struct evaluation *e, const txl_symbol *symbol) {
    const struct token_reader *reader = &e->reader;
    const uint64_t prefix = reader->prefix, end = symbol->offset + symbol->bytes,
                   begin = symbol->offset > prefix ? symbol->offset : prefix;
    return (struct place){.line = e->record > 0 ? e->record : symbol->line - e->start.lines,
                          .offset = begin - prefix + reader->mark,
                          .bytes = end - begin,
                          .share = share_of(e, symbol, end)};
}

/* Whether the symbol is a byte of a character of several: <0x80> to <0xFF>, of a model of pieces.
 */
static bool is_lone_byte(const txl_symbol *symbol) {
    return symbol->length == 6 && memcmp(symbol->text, "<0x", 3) == 0 && symbol->text[5] == '>' &&
           strchr("89ABCDEF", symbol->text[3]) && isxdigit((unsigned char)symbol->text[4]);
}

/* Receives the symbols of the text, and of what is before it: counts and places them, and passes
 * them on to the spool, to what waits, or to the scorer. */
static txl_status take_symbol(void *context, const txl_symbol *symbol, txl_error *error) {
    struct evaluation *e = context;
    if (!symbol->text && e->report && !e->reading.ids && !e->items)
        report_line_end(e->report, e->counts.tokens);
    if (!symbol->text)
        return TXL_OK;
    if (e->alone && is_before(e, symbol))
        return take_context(e, symbol, error);
    if (has_enough(e))
        return TXL_STOPPED;
    const struct waiting_token token = {symbol->id, place_of(e, symbol)};
    e->start.is_open = false;
    e->counts.tokens++;
    e->counts.spelled += is_lone_byte(symbol);
    if (e->spool)
        return spool_write(e, symbol->id, &token.place, error);
    if (e->items)
        return buffer_append(&e->waiting, &token, sizeof token)
                   ? TXL_OK
                   : txl_fail(error, TXL_MEMORY, "out of memory");
    txl_status status = e->heat ? heat_symbol(e->heat, symbol, error) : TXL_OK;
    return status ? status : push_token(e, symbol->id, &token.place, error);
}

/* Scores what still waits at the end of the text. */
static txl_status finish_text(struct evaluation *e, txl_error *error) {
    if (e->spool)
        return score_streams(e, error);
    if (e->alone && !e->start.is_scored)
        return TXL_OK;
    return scorer_flush(&e->scorer, error);
}

static txl_status score_text(struct evaluation *e, const struct input *input) {
    txl_error error = {0};
    txl_status status = TXL_OK;
    if (!e->alone || !(status = start_alone(e, &error)))
        status = token_reader_run(&e->reader, show_reading, e);
    if (status == TXL_STOPPED && !signals_stopped() && !output_closed() && !output_failed())
        status = TXL_OK; /* --max-tokens */
    if (!status)
        status = finish_text(e, &error);
    else if (!error.status)
        return status; /* the reader printed the error */
    if (status && status != TXL_STOPPED)
        terminal_error("%s: %s", input->name, error.message);
    return status;
}

/* Counts what is before the texts once, and places what is after it where it stands. */
static void see_unknown(void *context, const txl_symbol *symbol, uint64_t column) {
    struct evaluation *e = context;
    txl_symbol moved = *symbol;
    if (e->alone && e->counts.texts > 1 && symbol->offset + symbol->bytes <= e->before.length)
        return;
    if (e->record > 0)
        moved.line = e->record;
    else if (symbol->line > e->start.lines)
        moved.line = symbol->line - e->start.lines;
    unknown_add(&e->unknown, &moved, column);
}

bool evaluation_begin(struct evaluation *e, struct input *input) {
    const txl_encoding encoding = {.raw = e->reading.raw,
                                   .skip_unknown = e->reading.skip_unknown,
                                   .lookup = true,
                                   .symbol = take_symbol,
                                   .context = e,
                                   .unknown = see_unknown,
                                   .unknown_context = e};
    unknown_reset(&e->unknown);
    e->counts.spelled = 0;
    e->score = (struct score){0};
    e->counts.tokens = 0;
    e->reached.bytes = e->reached.characters = 0;
    e->counts.texts = e->counts.invalid = 0;
    start_words(e);
    e->record = 0;
    e->start.lines = 0;
    for (size_t i = 0; i < e->before.length; i++)
        e->start.lines += e->before.data[i] == '\n';
    if (e->comparison)
        e->comparison->divergence = (struct divergence){0};
    scorer_start(&e->scorer, 0);
    if (e->reading.streams > 1) {
        e->spool = tmpfile();
        if (!e->spool)
            return terminal_error("temporary file of token ids: %s", strerror(errno));
    }
    blanks_start(&e->blanks, !e->items, e->items);
    return open_reader(e, input, &encoding);
}

void evaluation_end(struct evaluation *e, struct result *result) {
    txl_encoded counts;
    token_reader_counts(&e->reader, &counts);
    if (!e->items && e->reader.ended)
        blanks_end(&e->blanks);
    evaluation_end_stream(e);
    if (e->heat)
        heat_end_text(e->heat, e->reader.ended);
    *result = (struct result){.score = e->score,
                              .tokens = e->counts.tokens,
                              .unknown = e->unknown.n,
                              .invalid = counts.invalid + e->counts.invalid};
    if (e->comparison)
        result->divergence = e->comparison->divergence;
    token_reader_close(&e->reader);
}

void evaluation_free(struct evaluation *e) {
    buffer_free(&e->before);
    id_list_free(&e->start.context);
    buffer_free(&e->waiting);
    buffer_free(&e->words.at);
}

static txl_status fail_short(const struct evaluation *e, const char *name,
                             const struct result *result) {
    if (e->reading.streams > 1) {
        terminal_error("%s: %" PRIu64 " token%s fewer than two for each of %" PRIu64 " streams",
                       name, result->tokens, result->tokens == 1 ? " leaves" : "s leave",
                       e->reading.streams);
    } else if (e->alone) {
        terminal_error("%s: no token to score", name);
    } else {
        terminal_error("%s: fewer than two tokens, so there is nothing to score", name);
    }
    return TXL_TEXT;
}

/* Opens what rows and the report show of the text. */
static bool start_rows(struct evaluation *e, const struct input *input) {
    return !shows_text(e) || (source_open(&e->source, input) &&
                              (!e->levels || !levels_start(e->levels, &e->source, NULL, false, 0)));
}

/* Writes the rows that wait, also of what was scored before a signal. */
static txl_status end_rows(struct evaluation *e, const char *name, txl_status status) {
    txl_error error = {TXL_STOPPED, ""};
    const bool cut = !e->reader.ended || e->reading.streams > 1;
    if (e->levels && (!status || status == TXL_STOPPED) && levels_end(e->levels, cut, &error)) {
        status = error.status;
        if (status != TXL_STOPPED)
            terminal_error("%s: %s", name, error.message);
    }
    source_close(&e->source);
    return status;
}

txl_status evaluate(struct evaluation *e, const char *file, struct input *input,
                    struct result *result) {
    double start = terminal_seconds();
    txl_status status = TXL_IO;
    *result = (struct result){.file = file};
    if (start_rows(e, input) && evaluation_begin(e, input)) {
        status = score_text(e, input);
        evaluation_end(e, result);
        result->seconds = terminal_seconds() - start;
    }
    if (e->spool) {
        fclose(e->spool);
        e->spool = NULL;
    }
    if (!status && result->score.predicted == 0)
        status = fail_short(e, input->name, result);
    result->file = file;
    return end_rows(e, input->name, status);
}
