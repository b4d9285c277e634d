/* Reads texts, encodes them, and runs a head over them. */
#include "heads.h"

#include "cli/io/input.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/items/source_kind.h"
#include "cli/model/settings.h"
#include "lib/base/white_space.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The ids of <sep> and <cls> in published vocabularies, where those have no such names. */
enum { SEP = 4, CLS = 3 };

/* ---- Files -------------------------------------------------------------------------------- */

static bool has_other(const struct heads *h) {
    return h->answers ? h->options->question : h->options->pair;
}

static enum items_role other_role(const struct heads *h) {
    return h->answers ? ROLE_QUESTION : ROLE_SECOND;
}

/* What the columns of a table must be for the head. */
static bool check_table(struct heads *h, struct items_table *table) {
    const bool column = table->role[other_role(h)] != SIZE_MAX;
    if (h->head == TXL_HEAD_TOKENS && column)
        return terminal_error("%s: a column pair, but %s labels the words of one text",
                              table->input.name, h->model.name);
    if (column && has_other(h))
        return terminal_error("%s: it has a column %s, so --%s cannot be given", table->input.name,
                              h->answers ? "question" : "pair", h->answers ? "question" : "pair");
    if (h->answers && !column && !h->options->question)
        return terminal_error("%s: no question; a column question has them, or --question asks one "
                              "of all texts",
                              table->input.name);
    if (h->head != TXL_HEAD_CHOICE)
        return true;
    if (column)
        return terminal_error("%s: a column pair, but %s takes one of several choices",
                              table->input.name, h->model.name);
    if (!items_table_choices(table))
        return false;
    return table->n_choice > 1 ||
           terminal_error("%s: %s takes one of several choices, which the columns choice1, "
                          "choice2 .. are to have%s",
                          table->input.name, h->model.name,
                          table->n_choice == 1 ? "; there is one alone" : "");
}

static bool open_file(struct heads *h, const char *path) {
    const struct heads_options *o = h->options;
    struct heads_file *file = &h->files[h->n_file];
    bool is_table = false;
    if (!o->lines && !source_is_table(path, &o->columns, &o->common.form, &is_table))
        return false;
    *file = (struct heads_file){.path = path, .table = is_table ? h->items.n : -1};
    if (is_table && (!items_add(&h->items, path, &o->common.form) ||
                     !check_table(h, &h->items.tables[file->table])))
        return false;
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    if (!is_table && h->trains)
        return terminal_error("%s: a table of texts and labels is expected, whose name ends in "
                              ".csv, .tsv, .jsonl or .json",
                              name);
    if (!is_table && h->answers && !o->question)
        return terminal_error("%s: no question; --question asks one", name);
    if (!is_table && h->head == TXL_HEAD_CHOICE)
        return terminal_error("%s: %s takes one of several choices, which are columns of a table: "
                              "text, choice1, choice2 ..",
                              name, h->model.name);
    if (!is_table && !o->lines && !h->answers && source_has_sentences(path))
        terminal_note("%s: each line looks like a sentence by itself, but all of it is one text; "
                      "--lines takes each line alone",
                      name);
    h->n_file++;
    return true;
}

int heads_check(const struct command *command, struct heads *h, const struct heads_options *o) {
    h->items.names.classifies = !h->answers;
    h->items.names.answers = h->answers;
    h->items.names.labelled = h->trains;
    const char *wrong = items_names_parse(&h->items.names, &o->columns);
    if (wrong && h->items.names.lacks_memory) {
        terminal_error("out of memory");
        return STATUS_FAILURE;
    }
    if (wrong)
        return options_wrong(
            command, "--columns '%s': ROLE=NAME is expected, each ROLE once: item, text%s", wrong,
            h->answers  ? " or question"
            : h->trains ? ", pair or label"
                        : " or pair");
    if (o->output && (o->json || o->logits))
        return options_wrong(command, "--output has rows, which --%s does not print",
                             o->json ? "json" : "logits");
    return OPTIONS_RUN;
}

/* The model to train a head for: any XLNet. */
static bool open_body(struct heads *h) {
    if (!model_open_any(&h->model, &h->options->common))
        return false;
    h->head = TXL_HEAD_SEQUENCE;
    return model_sees_both_sides(&h->model) ||
           terminal_error("%s: a Transformer-XL; a head is trained for an XLNet, which txl convert "
                          "makes of a checkpoint",
                          h->model.name);
}

static bool open_model(struct heads *h) {
    if (h->trains)
        return open_body(h);
    if (!model_open_head(&h->model, &h->options->common, h->answers))
        return false;
    h->head = txl_model_head(h->model.handle);
    return true;
}

bool heads_open(struct heads *h, const struct heads_options *o, const struct operands *files) {
    h->options = o;
    h->items.preference.region = -1;
    h->start = terminal_seconds();
    h->input.handle = -1;
    if (!open_model(h))
        return false;
    h->sep = txl_model_id(h->model.handle, "<sep>", 5);
    h->cls = txl_model_id(h->model.handle, "<cls>", 5);
    h->sep = h->sep >= 0 ? h->sep : SEP;
    h->cls = h->cls >= 0 ? h->cls : CLS;
    if (o->pair && h->head == TXL_HEAD_TOKENS)
        return terminal_error("--pair: %s labels the words of one text", h->model.name);
    if (o->pair && h->head == TXL_HEAD_CHOICE)
        return terminal_error("--pair: %s takes one of several choices", h->model.name);
    h->files = calloc((size_t)files->n + 1, sizeof *h->files);
    if (!h->files || !items_new(&h->items, (size_t)files->n + 1))
        return terminal_error("out of memory");
    h->items.names_files = files->n > 1;
    for (int i = 0; i < files->n && !signals_stopped(); i++)
        if (!open_file(h, files->items[i])) {
            h->failed = true;
            if (o->json || o->logits)
                output_json_failure(files->items[i]);
        }
    return h->n_file > 0 && !signals_stopped() && items_ready(&h->items);
}

bool heads_open_table(struct heads *h, const char *columns) {
    const struct heads_options *o = h->options;
    return o->json || o->logits ||
           table_open(&h->table, o->output ? o->output : "-", columns, &h->items.own, TABLE_COMMAS);
}

/* More ids than an input may have are read at once if inputs are shorter: products of many rows are
 * faster. */
bool heads_open_session(struct heads *h, size_t most) {
    enum { TOGETHER = 512 };
    txl_settings settings;
    txl_model_defaults(h->model.handle, &settings);
    h->most = most > TOGETHER ? most : TOGETHER;
    settings.tgt_len = (int)h->most;
    settings.mem_len = 0;
    settings.threads = (int)h->options->common.threads;
    if (h->options->compute != CHOICE_UNSET)
        settings.compute = (txl_compute)h->options->compute;
    return session_open(&h->model, &settings, &h->session);
}

void heads_close(struct heads *h) {
    token_reader_close(&h->reader);
    if (h->open)
        progress_end(&h->progress);
    if (h->input.handle >= 0)
        input_close(&h->input);
    table_abandon(&h->table);
    txl_session_free(h->session);
    items_close(&h->items);
    buffer_free(&h->text);
    free(h->files);
    model_close(&h->model);
}

/* ---- Tokens ------------------------------------------------------------------------------- */

static txl_status take_symbol(void *context, const txl_symbol *symbol, txl_error *error) {
    static const char mark[] = "\xe2\x96\x81";
    struct pieces *p = ((struct heads *)context)->target;
    if (!symbol->text)
        return TXL_OK;
    if (p->n == p->room) {
        const size_t room = 2 * p->room + 64;
        int32_t *ids = reallocarray(p->ids, room, sizeof *ids);
        p->ids = ids ? ids : p->ids;
        struct piece *at = ids ? reallocarray(p->at, room, sizeof *at) : NULL;
        p->at = at ? at : p->at;
        if (!at) {
            *error = (txl_error){TXL_MEMORY, "out of memory"};
            return TXL_MEMORY;
        }
        p->room = room;
    }
    p->ids[p->n] = symbol->id;
    const bool marked = symbol->length >= 3 && memcmp(symbol->text, mark, 3) == 0;
    p->at[p->n++] = (struct piece){.begin = symbol->offset,
                                   .end = symbol->offset + symbol->bytes,
                                   .marked = marked,
                                   .bare = marked && symbol->length == 3};
    return TXL_OK;
}

static void see_unknown(void *context, const txl_symbol *symbol, uint64_t column) {
    struct heads *h = context;
    txl_symbol moved = *symbol;
    moved.line = h->record_line > 0 ? h->record_line : symbol->line;
    unknown_add(&h->unknown, &moved, column);
}

static bool open_reader(struct heads *h, struct input *input) {
    const txl_encoding encoding = {.lookup = true,
                                   .symbol = take_symbol,
                                   .context = h,
                                   .unknown = see_unknown,
                                   .unknown_context = h};
    unknown_reset(&h->unknown);
    return token_reader_open(&h->reader, h->model.handle, input, &encoding, false);
}

/* The white space before a word is no part of its first token; a word mark alone has no bytes. */
static void drop_spaces(const struct own_value *text, struct pieces *pieces) {
    uint64_t next = text->length;
    for (size_t i = pieces->n; i-- > 0;) {
        struct piece *piece = &pieces->at[i];
        for (size_t n = 1; n > 0 && piece->begin < piece->end; piece->begin += n)
            n = space_length(text->text + piece->begin, (size_t)(piece->end - piece->begin));
        if (piece->bare)
            piece->begin = piece->end = next;
        next = piece->begin;
    }
}

bool heads_encode(struct heads *h, const struct own_value *text, struct pieces *pieces) {
    txl_status status = TXL_OK;
    pieces->n = 0;
    h->target = pieces;
    if (text->length > 0)
        status = token_reader_feed(&h->reader, text->text, text->length);
    if (!status)
        status = token_reader_end_text(&h->reader);
    if (!status)
        drop_spaces(text, pieces);
    return !status;
}

void pieces_free(struct pieces *p) {
    free(p->ids);
    free(p->at);
    *p = (struct pieces){0};
}

/* ---- Records ------------------------------------------------------------------------------ */

static struct items_table *current_table(struct heads *h) {
    const int table = h->files[h->file].table;
    return table >= 0 ? &h->items.tables[table] : NULL;
}

static struct input *current_input(struct heads *h) {
    struct items_table *table = current_table(h);
    return table ? &table->input : &h->input;
}

/* Opens the current file. */
static bool begin_file(struct heads *h) {
    h->line = h->empty = h->at = h->text.length = 0;
    if (!current_table(h) && !tokens_open_input(&h->input, h->files[h->file].path, h->model.handle,
                                                false, &h->options->common.form))
        return false;
    if (!open_reader(h, current_input(h))) {
        if (!current_table(h))
            input_close(&h->input);
        h->input.handle = -1;
        return false;
    }
    h->open = true;
    progress_start(&h->progress, current_input(h)->name, h->answers ? "windows" : "texts");
    return true;
}

/* Ends the current file, of which all was read, and tells what of it changed the result. */
static void end_file(struct heads *h) {
    struct items_table *table = current_table(h);
    struct input *input = current_input(h);
    progress_end(&h->progress);
    h->failed = h->failed || input->failed;
    if (!input->failed && !signals_stopped()) {
        token_reader_end(&h->reader);
        if (table)
            items_table_end(table);
        if (table)
            items_table_note(table);
    }
    if (h->empty > 0)
        terminal_note("%s: %" PRIu64 " line%s without a word ha%s no row", input->name, h->empty,
                      plural(h->empty), h->empty == 1 ? "s" : "ve");
    unknown_note(&h->unknown, input->name, true);
    h->lacks += table ? table->errors.wrong : 0;
    token_reader_close(&h->reader);
    if (!table)
        input_close(&h->input);
    h->input.handle = -1;
    h->open = false;
    h->file++;
}

/* The value that the option has for all texts. */
static struct own_value option_value(const struct heads *h) {
    const char *text = h->answers ? h->options->question : h->options->pair;
    return (struct own_value){.text = text, .length = text ? strlen(text) : 0};
}

static bool next_of_table(struct heads *h, struct items_table *table, struct record *r) {
    const size_t column = table->role[other_role(h)];
    while (items_table_next(table)) {
        const struct own_value none = {0};
        struct own_value item;
        *r = (struct record){.name = table->input.name,
                             .row = table->row,
                             .text = items_table_value(table, ROLE_TEXT),
                             .other = option_value(h),
                             .label = items_table_value(table, ROLE_LABEL),
                             .table = table};
        if (column != SIZE_MAX)
            r->other = items_table_cell(table, column);
        if (items_table_missing(table, &r->text) ||
            (column != SIZE_MAX && items_table_missing(table, &r->other)))
            continue;
        h->record_line = table->record;
        if (items_table_item(table, &item) &&
            items_table_pass(table, &h->items.own, &item, &none)) {
            items_pass_file(&h->items, table->input.name);
            return true;
        }
        table->input.failed = !output_lacks_memory();
    }
    return false;
}

/* Reads on until there is a whole line from `at` on; its length, or at the end what is left. */
static size_t read_line(struct heads *h, bool *ended) {
    char chunk[1 << 16];
    size_t searched = 0;
    for (;;) {
        const char *from = h->text.data ? h->text.data + h->at : NULL;
        const size_t n = h->text.length - h->at;
        const char *feed = n > searched ? memchr(from + searched, '\n', n - searched) : NULL;
        *ended = !feed;
        if (feed)
            return (size_t)(feed - from);
        searched = n;
        if (n > 0)
            memmove(h->text.data, from, n);
        h->text.length = n;
        h->at = 0;
        if (n >= HEADS_TEXT) {
            h->input.failed = !terminal_error("%s: line %" PRIu64 ": a text is longer than 64 MiB",
                                              h->input.name, h->line + 1);
            return 0;
        }
        const ssize_t got = input_read(&h->input, chunk, sizeof chunk);
        if (got <= 0)
            return n;
        if (!buffer_append(&h->text, chunk, (size_t)got)) {
            h->input.failed = !output_lacks_memory();
            return 0;
        }
    }
}

static bool pass_plain(struct heads *h, struct record *r) {
    char row[24];
    const struct own_value item = {.text = row,
                                   .length = (size_t)snprintf(row, sizeof row, "%" PRIu64, r->row)};
    r->name = h->input.name;
    r->other = option_value(h);
    if (items_pass_plain(&h->items, h->files[h->file].path, &item)) {
        /* The number must live as long as the record. */
        struct own_value *value = &h->items.own.values[h->items.own.item];
        value->text = memcpy(h->row, row, sizeof row);
        return true;
    }
    h->input.failed = !output_lacks_memory();
    return false;
}

static bool next_line(struct heads *h, struct record *r) {
    bool ended = false;
    while (!ended) {
        size_t length = read_line(h, &ended);
        if (h->input.failed)
            return false;
        const char *text = h->text.data + h->at;
        if (ended && length == 0)
            return false;
        h->at += length + !ended;
        h->line++;
        const size_t mark = h->line == 1 ? byte_order_mark_length(text, length) : 0;
        text += mark;
        length -= mark;
        length -= length > 0 && text[length - 1] == '\r';
        if (is_all_space(text, length)) {
            h->empty++;
            continue;
        }
        *r = (struct record){.row = h->line, .text = {.text = text, .length = length}};
        h->record_line = h->line;
        return pass_plain(h, r);
    }
    return false;
}

static bool next_text(struct heads *h, struct record *r) {
    if (h->line++ > 0)
        return false;
    if (!input_read_all(&h->input, &h->text, HEADS_TEXT)) {
        h->input.failed = true;
        return false;
    }
    if (h->text.length >= HEADS_TEXT) {
        h->input.failed = !terminal_error("%s: a text is longer than 64 MiB", h->input.name);
        return false;
    }
    h->record_line = 0;
    *r = (struct record){
        .row = 1, .text = {.text = h->text.data ? h->text.data : "", .length = h->text.length}};
    return pass_plain(h, r);
}

bool heads_next(struct heads *h, struct record *r) {
    while (h->file < h->n_file && !signals_stopped() && !output_closed()) {
        struct items_table *table = current_table(h);
        if (!h->open && !begin_file(h)) {
            h->failed = true;
            if (h->options->json || h->options->logits)
                output_json_failure(h->files[h->file].path);
            h->file++;
            continue;
        }
        if (table               ? next_of_table(h, table, r)
            : h->options->lines ? next_line(h, r)
                                : next_text(h, r)) {
            const struct input *input = current_input(h);
            progress_update(&h->progress, input_fraction(input, input->read),
                            h->answers ? h->windows : h->texts);
            return true;
        }
        end_file(h);
    }
    return false;
}

/* ---- Inputs ------------------------------------------------------------------------------- */

void inputs_clear(struct inputs *inputs) {
    for (size_t i = 0; i < inputs->n; i++)
        free((void *)inputs->list[i].ids);
    inputs->n = inputs->ids = 0;
}

void inputs_free(struct inputs *inputs) {
    inputs_clear(inputs);
    free(inputs->list);
    *inputs = (struct inputs){0};
}

bool inputs_add(const struct heads *h, struct inputs *inputs, const int32_t *a, size_t n_a,
                const int32_t *b, size_t n_b) {
    const size_t n = n_a + 2 + (b ? n_b + 1 : 0);
    if (inputs->n == inputs->room) {
        const size_t room = 2 * inputs->room + 16;
        txl_input *list = reallocarray(inputs->list, room, sizeof *list);
        if (!list)
            return false;
        inputs->list = list;
        inputs->room = room;
    }
    int32_t *ids = malloc(n * (sizeof *ids + 1));
    if (!ids)
        return false;
    uint8_t *segments = (uint8_t *)(ids + n);
    memset(segments, 0, n_a + 1);
    memset(segments + n_a + 1, 1, n - n_a - 1);
    segments[n - 1] = 2;
    if (n_a > 0)
        memcpy(ids, a, n_a * sizeof *ids);
    ids[n_a] = h->sep;
    if (b && n_b > 0)
        memcpy(ids + n_a + 1, b, n_b * sizeof *ids);
    ids[n - 2] = h->sep;
    ids[n - 1] = h->cls;
    inputs->list[inputs->n++] = (txl_input){.ids = ids, .segments = segments, .n = n};
    inputs->ids += n;
    return true;
}

/* Cuts pieces from the right end, one at a time, from the longer of the two texts, from the second
 * where they are equal.  Returns how many. */
static size_t cut_pieces(size_t room, size_t *a, size_t *b) {
    const size_t before = *a + *b;
    while (*a + *b > room)
        --*(*a > *b ? a : b);
    return before - *a - *b;
}

bool heads_add_input(struct heads *h, struct inputs *inputs, const struct pieces *a,
                     const struct pieces *b, size_t *n_a, size_t *cut) {
    static const int32_t nothing;
    size_t n_b = b ? b->n : 0;
    *n_a = a->n;
    *cut = cut_pieces((size_t)h->options->max_len - (b ? 3 : 2), n_a, &n_b);
    return inputs_add(h, inputs, a->ids, *n_a,
                      !b       ? NULL
                      : b->ids ? b->ids
                               : &nothing,
                      n_b) ||
           terminal_error("out of memory");
}

size_t inputs_together(const struct heads *h, const struct inputs *inputs, size_t first) {
    size_t n = 1, ids = inputs->list[first].n;
    while (first + n < inputs->n && inputs->list[first + n].n <= h->most - ids)
        ids += inputs->list[first + n++].n;
    return n;
}

/* ---- Results ------------------------------------------------------------------------------ */

void heads_log_softmax(const float *logits, size_t n, size_t apart, double *logprob) {
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, (double)logits[i * apart]);
    for (size_t i = 0; i < n; i++)
        sum += exp((double)logits[i * apart] - most);
    for (size_t i = 0; i < n; i++)
        logprob[i] = (double)logits[i * apart] - most - log(sum);
}

json_t *heads_object(const struct heads *h, const char *name, uint64_t row) {
    json_t *object = json_object();
    bool good = object != NULL;
    if (h->items.names_files)
        good = json_object_set_new(object, "file", output_json_string(name)) == 0 && good;
    good = json_object_set_new(object, "row", json_integer((json_int_t)row)) == 0 && good;
    return output_json_if(good, object);
}

json_t *heads_ids(const txl_input *input) {
    json_t *list = json_array();
    bool good = list != NULL;
    for (size_t i = 0; i < input->n && good; i++)
        good = json_array_append_new(list, json_integer(input->ids[i])) == 0;
    return output_json_if(good, list);
}

json_t *heads_segments(const txl_input *input) {
    json_t *list = json_array();
    bool good = list != NULL;
    for (size_t i = 0; i < input->n && good; i++)
        good = json_array_append_new(list, json_integer(input->segments[i])) == 0;
    return output_json_if(good, list);
}

json_t *heads_reals(const float *numbers, size_t n, size_t apart) {
    json_t *list = json_array();
    bool good = list != NULL;
    for (size_t i = 0; i < n && good; i++)
        good = json_array_append_new(list, json_real((double)numbers[i * apart])) == 0;
    return output_json_if(good, list);
}

void heads_note_cut(const struct heads *h) {
    if (h->cut > 0 && h->trains) /* which has no --max-len */
        terminal_note("%" PRIu64 " text%s more than %d tokens and %s cut", h->cut,
                      h->cut == 1 ? " has" : "s have", HEADS_MAX_LEN, h->cut == 1 ? "was" : "were");
    else if (h->cut > 0)
        terminal_note("%" PRIu64 " %s%s longer than --%s %" PRId64 " and %s cut", h->cut,
                      h->answers ? "question" : "text", h->cut == 1 ? " is" : "s are",
                      h->answers ? "max-question" : "max-len",
                      h->answers ? h->options->max_question : h->options->max_len,
                      h->cut == 1 ? "was" : "were");
}

int heads_finish(struct heads *h, bool good) {
    const double seconds = terminal_seconds() - h->start;
    const bool lacks = h->failed || h->lacks > 0;
    good = (good || signals_stopped()) && !output_failed() && !(lacks && h->texts == 0);
    if (good && h->table.file.stream) /* after a signal it has what was read until then */
        good = outfile_commit(&h->table.file);
    heads_note_cut(h);
    const int status = output_finish(signals_stopped()                     ? signals_status()
                                     : (good && !lacks) || output_closed() ? STATUS_OK
                                                                           : STATUS_FAILURE);
    if (good && h->texts > 0) {
        terminal_brief("%" PRIu64 " text%s, %.1f per second", h->texts, plural(h->texts),
                       (double)h->texts / seconds);
        terminal_summary("texts=%" PRIu64 " tokens=%" PRIu64 " cut=%" PRIu64
                         " seconds=%.2f head=%s max_len=%" PRId64 " model=%s",
                         h->texts, h->tokens, h->cut, seconds, txl_head_name(h->head),
                         h->options->max_len, h->model.name);
    }
    return status;
}
