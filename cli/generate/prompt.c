/* Reads, echoes and feeds a prompt of any size in constant memory. */
#include "prompt.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "lib/base/error.h"
#include "lib/base/white_space.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- The prompt ---------------------------------------------------------------------------- */

enum { SLICE = 512 }; /* bytes that are read, fed and echoed together */

static bool show_text(struct prompt *prompt, const char *text, size_t length) {
    if (prompt->transcript && !buffer_append(prompt->transcript, text, length))
        return output_lacks_memory();
    if (length == 0 || prompt->no_blank)
        return true;
    prompt->tail = text[length - 1];
    return !prompt->echo || output_text(text, length);
}

/* The length of the line end at the end of the text, which may be cut after CR. */
static size_t open_line_end(const struct prompt *prompt, const char *text, size_t length) {
    bool carriage = !txl_kind_takes_bytes(txl_model_kind(prompt->model->handle));
    if (length > 0 && text[length - 1] == '\n')
        return carriage && length > 1 && text[length - 2] == '\r' ? 2 : 1;
    return carriage && length > 0 && text[length - 1] == '\r' ? 1 : 0;
}

/* Shows everything except a line end that may be the prompt's last. */
static bool echo_text(struct prompt *prompt, const char *text, size_t length) {
    char joined[sizeof prompt->line_end + SLICE];
    memcpy(joined, prompt->line_end, prompt->n_line_end);
    memcpy(joined + prompt->n_line_end, text, length);
    length += prompt->n_line_end;
    prompt->n_line_end = open_line_end(prompt, joined, length);
    length -= prompt->n_line_end;
    memcpy(prompt->line_end, joined + length, prompt->n_line_end);
    return show_text(prompt, joined, length) && (!prompt->echo || output_flush());
}

/* Drops a held line end, but shows a lone CR, which is none. */
static bool finish_echo(struct prompt *prompt) {
    bool lone = prompt->n_line_end == 1 && prompt->line_end[0] == '\r';
    bool good = !lone || show_text(prompt, prompt->line_end, 1);
    prompt->after_line = prompt->n_line_end > 0 && !lone;
    prompt->n_line_end = 0;
    return good;
}

static txl_status feed_chunk(struct prompt *prompt, txl_error *error) {
    txl_status status = TXL_OK;
    if (prompt->n_chunk > 0) {
        status =
            reading_feed(prompt->reading, *prompt->session, prompt->chunk, prompt->n_chunk, error);
        prompt->n_chunk = 0;
    }
    return !status && signals_stopped() ? TXL_STOPPED : status;
}

/* Learns from a full segment, once the token after it is known too. */
static txl_status learn_segment(struct prompt *prompt, txl_error *error) {
    size_t n = prompt->chunk_size - 1;
    txl_status status =
        txl_learner_score(prompt->learner, prompt->chunk, n, prompt->chunk + 1, NULL, NULL, error);
    prompt->chunk[0] = prompt->chunk[n];
    prompt->n_chunk = 1;
    prompt->segments_learned += !status;
    return !status && signals_stopped() ? TXL_STOPPED : status;
}

/* Switches to a session of the adapted model, after the segments that it has learned from. */
static txl_status end_learning(struct prompt *prompt, txl_error *error) {
    txl_session *session;
    txl_status status = txl_learner_session(prompt->learner, &session, error);
    if (status)
        return status;
    txl_session_free(*prompt->session);
    *prompt->session = session;
    return TXL_OK;
}

/* Keeps a full chunk, and drops the oldest ones that no longer reach the last segment.  What is
 * left starts a segment and a chunk, as it would if all were fed, so that every bit is the same. */
static txl_status hold_chunk(struct prompt *prompt, txl_error *error) {
    const uint64_t tgt_len = prompt->reading->tgt_len;
    const uint64_t step = common_multiple(tgt_len, prompt->chunk_size);
    if (!buffer_append(&prompt->held, prompt->chunk, prompt->n_chunk * sizeof *prompt->chunk))
        return txl_fail_memory(error, "the prompt", prompt->held.length);
    prompt->n_chunk = 0;
    while (prompt->held.length / sizeof(int32_t) >= prompt->reach + tgt_len + 4 * step) {
        buffer_drop(&prompt->held, 4 * step * sizeof(int32_t));
        prompt->left_out += 4 * step;
    }
    return TXL_OK;
}

static txl_status add_id(struct prompt *prompt, int32_t id, txl_error *error) {
    txl_history_push(prompt->history, &id, 1);
    prompt->chunk[prompt->n_chunk++] = id;
    if (prompt->n_chunk < prompt->chunk_size)
        return TXL_OK;
    return prompt->learner               ? learn_segment(prompt, error)
           : prompt->reach == UINT64_MAX ? feed_chunk(prompt, error)
                                         : hold_chunk(prompt, error);
}

/* Feeds the chunks that were held. */
static txl_status feed_held(struct prompt *prompt, struct progress *progress, txl_error *error) {
    const int32_t *ids = (const int32_t *)(const void *)prompt->held.data;
    size_t n = prompt->held.length / sizeof *ids, part;
    txl_status status = TXL_OK;
    for (size_t done = 0; done < n && !status; done += part) {
        part = n - done < prompt->chunk_size ? n - done : prompt->chunk_size;
        status = reading_feed(prompt->reading, *prompt->session, ids + done, part, error);
        if (!status && signals_stopped())
            status = TXL_STOPPED;
        progress_update(progress, (double)(done + part) / (double)n, prompt->tokens);
    }
    if (prompt->left_out > 0 && !status)
        terminal_note("%s: the first %" PRIu64
                      " tokens cannot reach what follows the prompt, and were "
                      "left out",
                      prompt->input.name, prompt->left_out);
    return status;
}

/* Receives a token of the context or the prompt. */
static txl_status take_symbol(void *context, const txl_symbol *symbol, txl_error *error) {
    struct prompt *prompt = context;
    if (!symbol->text)
        return TXL_OK;
    if (prompt->in_line) { /* lm1b begins every text with the <S> of a new line */
        prompt->in_line = false;
        return TXL_OK;
    }
    const int32_t blank = prompt->blank_piece;
    if (blank >= 0 && symbol->id == blank) {
        prompt->blanks++;
        return TXL_OK;
    }
    txl_status status = TXL_OK;
    for (; prompt->blanks > 0 && !status; prompt->blanks--) {
        prompt->tokens++;
        status = add_id(prompt, blank, error);
    }
    prompt->tokens++;
    return status ? status : add_id(prompt, symbol->id, error);
}

static txl_status read_all(struct prompt *prompt, struct token_reader *reader,
                           struct progress *progress) {
    char slice[SLICE];
    ssize_t n;
    while ((n = input_read(&prompt->input, slice, sizeof slice)) > 0) {
        txl_status status = token_reader_feed(reader, slice, (size_t)n);
        if (status)
            return status;
        if (!echo_text(prompt, slice, (size_t)n))
            return TXL_STOPPED;
        const struct input *input = &prompt->input;
        if (prompt->reach == UINT64_MAX)
            progress_update(progress, input_fraction(input, input->read), prompt->tokens);
    }
    if (n < 0)
        return TXL_IO;
    if (signals_stopped())
        return TXL_STOPPED;
    txl_status status = token_reader_finish(reader);
    return !status && !finish_echo(prompt) ? TXL_STOPPED : status;
}

/* Feeds a line end that is no part of the input. */
static void end_line(struct prompt *prompt) {
    int32_t id = recent_line_end(prompt->model->handle);
    if (id >= 0 && !prompt->reading->both_sides) { /* XLNet has no line ends */
        txl_history_push(prompt->history, &id, 1);
        prompt->chunk[prompt->n_chunk++] = id;
    }
}

/* Feeds a blank before the input, where the encoder would drop it. */
static void begin_with_blank(struct prompt *prompt) {
    int32_t id = recent_blank(prompt->model->handle);
    if (!prompt->blank || id < 0)
        return;
    txl_history_push(prompt->history, &id, 1);
    prompt->chunk[prompt->n_chunk++] = id;
    prompt->tokens++;
}

/* Feeds what is left in the chunk, or the context of an empty prompt. */
static txl_status feed_rest(struct prompt *prompt, struct progress *progress) {
    txl_error error;
    txl_status status = feed_held(prompt, progress, &error);
    prompt->after_blank = prompt->blanks > 0;
    prompt->blanks = 0;
    if (prompt->tokens + prompt->before == 0 && !prompt->memory) {
        int32_t first = txl_model_first_context(prompt->model->handle);
        prompt->chunk[prompt->n_chunk++] = first;
        if (prompt->reading->both_sides) /* known tokens are read again with the rest */
            txl_history_push(prompt->history, &first, 1);
    }
    if (prompt->ends_line) {
        end_line(prompt);
        prompt->tail = '\n';
    }
    if (!status && prompt->learner)
        status = end_learning(prompt, &error);
    if (!status)
        status = feed_chunk(prompt, &error);
    bool continues = prompt->memory && prompt->tokens == 0 && !prompt->turns;
    if (!status && prompt->reading->refresh > 0 && !continues) {
        prompt->round = 0;
        status = reading_refresh(prompt->reading, *prompt->session, prompt->history, &error);
    }
    if (status && status != TXL_STOPPED)
        terminal_error("%s: %s", prompt->input.name, error.message);
    return status;
}

static void start_empty(struct prompt *prompt) {
    txl_session_reset(*prompt->session);
    txl_history_reset(prompt->history);
    prompt->tail = 0;
    prompt->in_line = prompt->continues = false;
}

static bool start_from_memory(struct prompt *prompt) {
    const txl_model *model = prompt->model->handle;
    txl_error error;
    txl_resume resume;
    if (txl_session_load(*prompt->session, prompt->memory, &error))
        return terminal_error("%s", error.message);
    txl_memory_resume(prompt->memory, &resume);
    txl_history_reset(prompt->history);
    txl_history_push(prompt->history, resume.recent, resume.n_recent);
    prompt->tail = resume.tail;
    prompt->round = resume.round;
    bool open = recent_line_is_open(resume.recent, resume.n_recent, model);
    prompt->continues = open && !prompt->blank;
    bool pair = txl_kind_line_end(txl_model_kind(model)) == TXL_LINE_END_PAIR;
    prompt->in_line = open && !prompt->ids && pair;
    return true;
}

/* The piece that is a blank alone, or -1. */
static int32_t find_blank_piece(const struct prompt *prompt) {
    const txl_model *model = prompt->model->handle;
    bool pieces = !prompt->ids && txl_kind_unit(txl_model_kind(model)) == TXL_UNIT_PIECE;
    return pieces ? txl_model_id(model, WORD_MARK, WORD_MARK_BYTES) : -1;
}

static bool start_prompt(struct prompt *prompt) {
    /* Has room for a blank before the typed text and a line end after it. */
    prompt->chunk_size =
        prompt->learner ? prompt->reading->tgt_len + 1 : reading_chunk(prompt->reading);
    prompt->chunk = calloc(prompt->chunk_size + 2, sizeof *prompt->chunk);
    prompt->n_chunk = prompt->n_line_end = 0;
    prompt->blank_piece = find_blank_piece(prompt);
    prompt->blanks = 0;
    prompt->after_blank = prompt->after_line = false;
    prompt->tokens = prompt->before = prompt->round = prompt->left_out = 0;
    prompt->held.length = 0;
    prompt->reach = UINT64_MAX;
    if (!prompt->chunk)
        return terminal_error("out of memory");
    if (prompt->memory)
        return start_from_memory(prompt);
    start_empty(prompt);
    if (!prompt->learner)
        prompt->reach = txl_session_reach(*prompt->session);
    return true;
}

/* Feeds the context: a text of whole lines before the prompt, which is not shown. */
static txl_status feed_context(struct prompt *prompt) {
    const txl_encoding encoding = {.raw = prompt->raw,
                                   .skip_unknown = prompt->skip_unknown,
                                   .lookup = true,
                                   .symbol = take_symbol,
                                   .context = prompt};
    struct token_reader reader;
    struct input input;
    if ((!prompt->context && !prompt->context_text) || prompt->memory)
        return TXL_OK;
    if (prompt->context_text) {
        input_open_string(&input, "--context-text", prompt->context_text);
        if (prompt->common->unwrap)
            tokens_unwrap(&input, txl_model_kind(prompt->model->handle), true);
    } else if (!tokens_open_text(&input, prompt->context, prompt->model->handle, prompt->ids,
                                 prompt->common)) {
        return TXL_IO;
    }
    txl_status status = TXL_MEMORY;
    if (token_reader_open(&reader, prompt->model->handle, &input, &encoding, prompt->ids)) {
        status = token_reader_run(&reader, NULL, NULL);
        token_reader_close(&reader);
    }
    prompt->before = prompt->tokens;
    prompt->tokens = 0;
    input_close(&input);
    return status;
}

txl_status prompt_feed(struct prompt *prompt) {
    txl_encoding encoding = {.raw = prompt->raw,
                             .prompt = true,
                             .skip_unknown = prompt->skip_unknown,
                             .lookup = true,
                             .symbol = take_symbol,
                             .context = prompt,
                             .unknown = unknown_add,
                             .unknown_context = &prompt->unknown};
    unknown_reset(&prompt->unknown);
    struct token_reader reader;
    struct progress progress;
    txl_status status = TXL_MEMORY;
    bool started = start_prompt(prompt);
    encoding.continues = prompt->continues;
    if (started &&
        token_reader_open(&reader, prompt->model->handle, &prompt->input, &encoding, prompt->ids)) {
        progress_start(&progress, prompt->input.name, "prompt tokens");
        progress.off = prompt->echo && !output_is_file();
        status = feed_context(prompt);
        if (!status) {
            begin_with_blank(prompt);
            status = read_all(prompt, &reader, &progress);
        }
        if (!status)
            status = feed_rest(prompt, &progress);
        progress_end(&progress);
        token_reader_close(&reader);
    }
    free(prompt->chunk);
    buffer_free(&prompt->held);
    prompt->chunk = NULL;
    return status;
}

txl_status prompt_repeat(struct prompt *prompt) {
    char slice[SLICE];
    ssize_t n;
    if (!prompt->echo)
        return TXL_OK;
    if (!input_rewind(&prompt->input))
        return TXL_IO;
    prompt->input.to_end = true;
    while ((n = input_read(&prompt->input, slice, sizeof slice)) > 0)
        if (!echo_text(prompt, slice, (size_t)n))
            return TXL_STOPPED;
    if (n < 0)
        return TXL_IO;
    return finish_echo(prompt) ? TXL_OK : TXL_STOPPED;
}
