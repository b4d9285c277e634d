/* txl tokenize: text to symbols or ids, and back. */
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/model/model.h"
#include "cli/text/tokens.h"
#include "commands.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct tokenize_options {
    struct common_options common;
    int text;
    bool ids, decode, skip_unknown;
};

struct tokenize {
    const struct tokenize_options *options;
    struct model model;
    txl_kind kind;
    int text; /* TEXT_RAW, TEXT_TOKENS */
    struct input input;
    struct progress progress;
    struct token_reader reader;       /* unused to decode spellings */
    struct unknown lacking;           /* in the current text */
    uint64_t symbols, unknown, bytes; /* of all texts */
    bool at_end, terminated;          /* the input has ended; its last byte is a line end */
    bool spelled_line_end; /* the last symbol is a line end inside of a text of letters */

    /* To symbols. */
    bool in_line;
    /* To text. */
    txl_decoder *decoder;
    struct buffer spelling; /* of the current symbol, still escaped */
};

/* Bytes and text8 have no symbol for the line end, so the lines of the output are those of the
 * text, and back. */
static bool line_end_is_text(const struct tokenize *t) {
    return txl_kind_line_end(t->kind) == TXL_LINE_END_NONE && (!t->at_end || t->terminated);
}

/* Whether the symbol is a line end inside of a text of letters: the output breaks its line there
 * too. */
static bool is_line_end(const char *text, size_t length) {
    return length == 1 && text[0] == '\n';
}

/* Characters that separate symbols in the output, or begin an escape; models of characters and
 * letters may have them as symbols, which are escaped then. */
static const struct {
    char character;
    const char *text;
} escaped[] = {{' ', "\\x20"}, {'\n', "\\x0a"}, {'\\', "\\\\"}};

enum { N_ESCAPED = sizeof escaped / sizeof *escaped };

static bool escapes(const struct tokenize *t) {
    return txl_kind_unit(t->kind) == TXL_UNIT_CHARACTER && !txl_kind_takes_bytes(t->kind);
}

/* ---- Text to symbols ---------------------------------------------------------------------- */

static bool write_symbol(const struct tokenize *t, const txl_symbol *symbol) {
    bool single = symbol->length == 1 && escapes(t);
    for (size_t i = 0; single && i < N_ESCAPED; i++)
        if (symbol->text[0] == escaped[i].character)
            return output_write(escaped[i].text, strlen(escaped[i].text));
    return output_text(symbol->text, symbol->length);
}

/* Writes an id in decimal.  There may be one for each character, so printf would take most of the
 * time. */
static bool write_id(int32_t id) {
    char digits[16], *first = digits + sizeof digits;
    do {
        *--first = (char)('0' + id % 10);
    } while ((id /= 10) > 0);
    return output_write(first, (size_t)(digits + sizeof digits - first));
}

static bool write_line_end(struct tokenize *t) {
    bool boundary = txl_kind_line_end(t->kind) != TXL_LINE_END_NONE;
    bool breaks = boundary || line_end_is_text(t) || t->spelled_line_end;
    t->in_line = t->spelled_line_end = false;
    return !breaks || output_write("\n", 1);
}

static txl_status print_symbol(void *context, const txl_symbol *symbol, txl_error *error) {
    struct tokenize *t = context;
    (void)error;
    if (!symbol->text)
        return write_line_end(t) ? TXL_OK : TXL_STOPPED;
    bool good = !t->in_line || output_write(" ", 1);
    t->in_line = true;
    t->spelled_line_end = is_line_end(symbol->text, symbol->length);
    t->symbols++;
    good = good && (t->options->ids ? write_id(symbol->id) : write_symbol(t, symbol));
    return good ? TXL_OK : TXL_STOPPED;
}

/* ---- Symbols to text ---------------------------------------------------------------------- */

static txl_status push_id(struct tokenize *t, int32_t id, txl_error *error) {
    const char *text;
    size_t length;
    t->symbols++;
    txl_status status = txl_decoder_push(t->decoder, id, &text, &length, error);
    if (status)
        return status;
    return output_text(text, length) ? TXL_OK : TXL_STOPPED;
}

static txl_status finish_decoder(struct tokenize *t, txl_error *error) {
    const char *text;
    size_t length;
    txl_status status = txl_decoder_finish(t->decoder, &text, &length, error);
    return !status && !output_text(text, length) ? TXL_STOPPED : status;
}

/* For kinds whose text has no line ends, each line of symbols or ids is a text. */
static bool lines_are_texts(const struct tokenize *t) {
    return txl_kind_line_end(t->kind) == TXL_LINE_END_SPACE;
}

static txl_status end_text(struct tokenize *t, txl_error *error) {
    txl_status status = finish_decoder(t, error);
    return !status && !output_write("\n", 1) ? TXL_STOPPED : status;
}

static txl_status print_id(void *context, const txl_symbol *symbol, txl_error *error) {
    struct tokenize *t = context;
    if (symbol->text)
        return push_id(t, symbol->id, error);
    if (lines_are_texts(t))
        return end_text(t, error);
    return !line_end_is_text(t) || output_write("\n", 1) ? TXL_OK : TXL_STOPPED;
}

/* Replaces escapes such as \x20 in place; any other backslash stands for itself. */
static void unescape(struct buffer *spelling) {
    size_t n = 0;
    for (size_t i = 0, used; i < spelling->length; i += used) {
        char character = spelling->data[i];
        used = 1;
        for (size_t k = 0; k < N_ESCAPED; k++) {
            size_t length = strlen(escaped[k].text);
            if (length <= spelling->length - i &&
                memcmp(spelling->data + i, escaped[k].text, length) == 0) {
                character = escaped[k].character;
                used = length;
            }
        }
        spelling->data[n++] = character;
    }
    spelling->length = n;
}

/* Decodes a symbol.  One that the vocabulary lacks becomes its spelling, a byte's number that
 * byte. */
static txl_status end_spelling(struct tokenize *t, txl_error *error) {
    struct buffer *spelling = &t->spelling;
    if (spelling->length == 0)
        return TXL_OK;
    if (escapes(t))
        unescape(spelling);
    t->spelled_line_end = is_line_end(spelling->data, spelling->length);
    const char *text;
    size_t length;
    txl_status status = txl_decoder_push_spelling(t->decoder, spelling->data, spelling->length,
                                                  &text, &length, error);
    t->symbols++;
    t->unknown += txl_model_id(t->model.handle, spelling->data, spelling->length) < 0;
    if (!status && !output_text(text, length))
        status = TXL_STOPPED;
    spelling->length = 0;
    return status;
}

/* Ends a line of symbols where it is a line of the text, unless its line end was a symbol. */
static txl_status end_output_line(struct tokenize *t) {
    bool writes = line_end_is_text(t) && !t->spelled_line_end;
    t->spelled_line_end = false;
    return !writes || output_write("\n", 1) ? TXL_OK : TXL_STOPPED;
}

static txl_status feed_spellings(struct tokenize *t, const char *text, size_t length,
                                 txl_error *error) {
    txl_status status = TXL_OK;
    for (size_t i = 0; i < length && !status;) {
        size_t n = 0;
        while (i + n < length && text[i + n] != ' ' && text[i + n] != '\n')
            n++;
        if (!buffer_append(&t->spelling, text + i, n))
            return txl_fail(error, TXL_MEMORY, "out of memory");
        i += n;
        if (i < length) {
            status = end_spelling(t, error);
            if (!status && text[i] == '\n')
                status = lines_are_texts(t) ? end_text(t, error) : end_output_line(t);
            i++;
        }
    }
    return status;
}

/* ---- The command -------------------------------------------------------------------------- */

static bool decodes_spellings(const struct tokenize *t) {
    return t->options->decode && !t->options->ids;
}

static txl_status tokenize_report(const struct tokenize *t, txl_status status,
                                  const txl_error *error) {
    if (status && status != TXL_STOPPED)
        terminal_error("%s: %s", t->input.name, error->message);
    return status;
}

static txl_status feed_text(struct tokenize *t, const char *text, size_t length) {
    txl_error error = {0};
    t->terminated = text[length - 1] == '\n';
    if (decodes_spellings(t))
        return tokenize_report(t, feed_spellings(t, text, length, &error), &error);
    return token_reader_feed(&t->reader, text, length);
}

static txl_status finish_file(struct tokenize *t) {
    txl_error error = {0};
    txl_status status = TXL_OK;
    t->at_end = true;
    if (decodes_spellings(t))
        status = tokenize_report(t, end_spelling(t, &error), &error);
    else
        status = token_reader_finish(&t->reader);
    if (!status && t->decoder)
        status = tokenize_report(t, finish_decoder(t, &error), &error);
    return status;
}

static txl_status convert_text(struct tokenize *t) {
    char buffer[1 << 12];
    ssize_t n;
    progress_start(&t->progress, t->input.name, "symbols");
    while ((n = input_read(&t->input, buffer, sizeof buffer)) > 0) {
        txl_status status = feed_text(t, buffer, (size_t)n);
        if (status)
            return status;
        const struct input *input = &t->input;
        progress_update(&t->progress, input_fraction(input, input->read), t->symbols);
    }
    if (n < 0)
        return TXL_IO;
    return signals_stopped() ? TXL_STOPPED : finish_file(t);
}

/* Opens the input and what converts it; each FILE is a text of its own. */
static bool open_text(struct tokenize *t, const char *path) {
    const struct tokenize_options *options = t->options;
    txl_error error;
    t->at_end = t->terminated = t->in_line = t->spelled_line_end = false;
    t->spelling.length = 0;
    unknown_reset(&t->lacking);
    if (!tokens_open_input(&t->input, path, t->model.handle, options->decode,
                           &options->common.form))
        return false;
    if (options->decode &&
        txl_decoder_new(t->model.handle, t->text == TEXT_RAW, &t->decoder, &error))
        return terminal_error("%s", error.message);
    const txl_encoding encoding = {.raw = t->text == TEXT_RAW,
                                   .skip_unknown = options->skip_unknown,
                                   .lookup = options->ids,
                                   .symbol = options->decode ? print_id : print_symbol,
                                   .context = t,
                                   .unknown = unknown_add,
                                   .unknown_context = &t->lacking};
    return decodes_spellings(t) ||
           token_reader_open(&t->reader, t->model.handle, &t->input, &encoding, options->decode);
}

/* Adds the text's counts to those of all texts. */
static void close_text(struct tokenize *t) {
    txl_encoded counts;
    token_reader_counts(&t->reader, &counts);
    t->unknown += counts.unknown;
    t->bytes += t->input.read;
    token_reader_close(&t->reader);
    input_close(&t->input);
    txl_decoder_free(t->decoder);
    t->decoder = NULL;
}

/* False with the error printed; a signal or a closed pipe ends it without an error. */
static bool tokenize_file(struct tokenize *t, const char *path) {
    txl_status status = TXL_IO;
    /* Symbols of two texts never share a line; decoded texts follow each other directly. */
    if (!t->options->decode)
        output_start_line();
    t->reader = (struct token_reader){0};
    t->input = (struct input){.handle = -1};
    if (open_text(t, path))
        status = convert_text(t);
    progress_end(&t->progress);
    unknown_note(&t->lacking, t->input.name, txl_model_unk(t->model.handle) >= 0);
    close_text(t);
    return !status || status == TXL_STOPPED;
}

static void print_summary(const struct tokenize *t) {
    terminal_brief("%" PRIu64 " symbol%s", t->symbols, plural(t->symbols));
    terminal_summary("symbols=%" PRIu64 " unknown=%" PRIu64 " bytes=%" PRIu64 " text=%s model=%s",
                     t->symbols, t->unknown, t->bytes, text_form(t->model.handle, t->text, false),
                     t->model.name);
}

static int tokenize_files(struct tokenize *t, char **files, int n) {
    int failed = 0;
    for (int i = 0; i < n && !signals_stopped() && !output_closed() && !output_failed(); i++)
        failed += !tokenize_file(t, files[i]);
    if (failed < n)
        output_end_line();
    int status = output_finish(signals_stopped() ? signals_status()
                               : failed > 0      ? STATUS_FAILURE
                                                 : STATUS_OK);
    if (failed < n)
        print_summary(t);
    return status;
}

static const struct tokenize_options defaults = {.text = CHOICE_UNSET};

static int run(const struct command *command, void *values, struct operands *files) {
    const struct tokenize_options *options = values;
    struct tokenize *t = calloc(1, sizeof *t); /* too large for a stack whose growth may fail */
    int status = STATUS_FAILURE;
    (void)command;
    if (!t) {
        terminal_error("out of memory");
        return STATUS_FAILURE;
    }
    t->options = options;
    if (model_open_any(&t->model, &options->common)) {
        t->kind = txl_model_kind(t->model.handle);
        if (text_form_choose(t->kind, options->text, TEXT_TOKENS, &t->text))
            status = tokenize_files(t, files->items, files->n);
    }
    buffer_free(&t->spelling);
    model_close(&t->model);
    free(t);
    return status;
}

/* ---- The table ---------------------------------------------------------------------------- */

#define PLACE(member) offsetof(struct tokenize_options, member)

static const struct option_row options[] = {
    TEXT_ROW(.section = "Text", .standard = "tokens", .offset = PLACE(text)),
    {"ids", OPTION_FLAG, PLACE(ids),
     "print decimal ids instead of symbols; with --decode read them"},
    {"decode", OPTION_FLAG, PLACE(decode), "put symbols, or with --ids ids, together to text",
     .letter = 'd'},
    SKIP_UNKNOWN_ROW("with --ids: ", PLACE(skip_unknown)),
    BINARY_ROW,
    FILES_FROM_ROW(NULL),
    MODEL_ROW,
    COMMON_ROWS,
    {0}};

static const struct operand_row operands[] = {
    {.name = "FILE",
     .help = "text to split, or with --decode to put together",
     .optional = true,
     .standard_input = true,
     .repeats = true},
    {0}};

static const struct note notes[] = {
    {"Symbols", "Symbols are printed before the vocabulary is asked for them. Models of characters "
                "write a space \\x20 and a backslash \\\\. Models of bytes and of letters have no "
                "symbol for the line end, so that each line of the output is a line of the text."},
    {0}};

static const struct example examples[] = {
    {"txl tokenize --model wt103.txl --text raw < essay.txt", "prose as the model splits it"},
    {"txl tokenize --ids novel.txt | txl ppl --ids -", "what ppl reads, by way of ids"},
    {"echo 1 2 3 | txl tokenize --ids --decode", "the text of three ids"},
    {0}};

/* The options of -h. */
static const char *const brief[] = {"text",    "ids",      "decode",     "skip-unknown",
                                    "binary",  "encoding", "files-from", "model",
                                    "threads", "quiet",    NULL};

const struct command tokenize_command = {
    .name = "tokenize",
    .summary = "split text into symbols or ids, and put it together again",
    .description =
        "Splits each FILE as the model does, and prints its symbols with spaces between "
        "them, a line for each line of the text. The symbols of line boundaries are printed "
        "too. A FILE that cannot be read is reported and skipped; the exit status is then 1.",
    .options = options,
    .brief = brief,
    .operands = operands,
    .examples = examples,
    .notes = notes,
    .shared = "summary",
    .defaults = &defaults,
    .size = sizeof defaults,
    .run = run,
};
