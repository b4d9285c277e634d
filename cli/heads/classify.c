/* txl classify: the label of a text, of a pair, of each word, or which of several choices. */
#include "cli/commands.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/model/settings.h"
#include "heads.h"
#include "lib/base/white_space.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const char classify_topics[]; /* cli/heads/classify.txt */

/* A text that waits until it is read with others. */
struct item {
    const char *name; /* of its file */
    uint64_t row;
    struct own_value *own; /* [own.n] and their bytes */
    size_t first, n;       /* its inputs, */
    size_t tokens, cut;    /* and what all of them have, and lack */
    bool *offered;         /* [n_choice]: of choices, those that it has; NULL: of no choices */
    size_t n_offered;      /* of `offered`: the columns of its table */
    char *text;            /* [length], of words */
    size_t length;
    struct piece *at; /* [n_piece]: tokens that are not cut away */
    size_t n_piece;
};

struct classify {
    struct heads heads;
    size_t n_label;      /* logits of an input, or of a token */
    size_t n_choice;     /* the most that any table has */
    bool words, choices; /* the head labels tokens, or takes choices */
    struct item *items;  /* [n] */
    size_t n, room;
    struct inputs inputs; /* of all items */
    float *logits;        /* [n_logit] */
    size_t n_logit;
    double *p; /* [n_label], or of choices [n_choice] */
    struct pieces text, other;
};

/* ---- Probabilities ------------------------------------------------------------------------ */

static void set_probabilities(const struct classify *c, const float *logits, size_t n) {
    if (txl_model_is_multi_label(c->heads.model.handle)) {
        for (size_t i = 0; i < n; i++)
            c->p[i] = 1 / (1 + exp(-(double)logits[i]));
        return;
    }
    heads_log_softmax(logits, n, 1, c->p);
    for (size_t i = 0; i < n; i++)
        c->p[i] = exp(c->p[i]);
}

/* The largest; of equal ones the first. */
static size_t largest(const float *x, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

static const char *label(const struct classify *c, size_t i) {
    return txl_model_label(c->heads.model.handle, (int)i);
}

/* A regression: one label, whose logit is the result. */
static bool is_number(const struct classify *c) {
    return !c->choices && !c->words && c->n_label == 1;
}

/* A text has one label, the likeliest. */
static bool has_label(const struct classify *c) {
    return !is_number(c) && !txl_model_is_multi_label(c->heads.model.handle);
}

/* ---- Columns ------------------------------------------------------------------------------ */

static const char *const classify_columns[] = {
    "* label probability p_* tokens cut", "* choice probability p_* tokens cut",
    "* value tokens cut", "* word_n word offset length label probability", NULL};

/* The columns, with line feeds between them because labels have blanks. */
static bool open_table(struct classify *c) {
    char *columns = NULL;
    size_t size;
    FILE *out = open_memstream(&columns, &size);
    if (!out)
        return terminal_error("out of memory");
    fputs("*\n", out);
    if (c->words)
        fputs("word_n\nword\noffset\nlength\nlabel\nprobability", out);
    else if (is_number(c))
        fputs("value\ntokens\ncut", out);
    else
        fprintf(out, "%s\nprobability\n", c->choices ? "choice" : "label");
    for (size_t i = 0; !c->words && !is_number(c) && i < (c->choices ? c->n_choice : c->n_label);
         i++)
        if (c->choices)
            fprintf(out, "p_%zu\n", i + 1);
        else
            fprintf(out, "p_%s\n", label(c, i));
    if (!c->words && !is_number(c))
        fputs("tokens\ncut", out);
    /* Without memory fclose sets columns to NULL, and returns no error. */
    bool good = (fclose(out) == 0 && columns) || terminal_error("out of memory");
    good = good && heads_open_table(&c->heads, columns);
    free(columns);
    return good;
}

/* ---- Rows and objects of texts ------------------------------------------------------------ */

/* Begins a row with the item's own columns. */
static struct table *begin_row(struct classify *c, const struct item *item) {
    struct own_columns own = c->heads.items.own;
    own.values = item->own;
    own.by_region = false;
    table_own(&c->heads.table, &own, 0);
    return &c->heads.table;
}

/* Probabilities, of which those of choices that are not offered are unknown. */
static void put_probabilities(struct classify *c, const struct item *item) {
    const size_t n = c->choices ? c->n_choice : c->n_label;
    size_t given = 0;
    for (size_t i = 0; i < n; i++)
        if (!item->offered || item->offered[i])
            table_real(&c->heads.table, c->p[given++]);
        else
            table_unknown(&c->heads.table);
}

/* The number of the choice that is the i-th offered, from 1. */
static size_t choice_number(const struct item *item, size_t i) {
    size_t k = 0;
    for (size_t offered = 0; offered <= i; k++)
        offered += item->offered[k];
    return k;
}

static bool put_row(struct classify *c, const struct item *item, const float *logits, size_t n) {
    struct table *table = begin_row(c, item);
    const size_t best = largest(logits, n);
    if (is_number(c)) {
        table_real(table, (double)logits[0]);
    } else if (!has_label(c)) {
        table_unknown(table);
        table_unknown(table);
        put_probabilities(c, item);
    } else {
        if (c->choices)
            table_integer(table, choice_number(item, best));
        else
            table_text(table, label(c, best), strlen(label(c, best)));
        table_real(table, c->p[best]);
        put_probabilities(c, item);
    }
    table_integer(table, item->tokens);
    table_integer(table, item->cut);
    return !table_end_row(table);
}

/* The logits, or probabilities, of a text; null stands for a choice that is not offered. */
static json_t *offered_numbers(const struct classify *c, const struct item *item, size_t n,
                               const float *logits) {
    json_t *list = json_array();
    bool good = list != NULL;
    size_t given = 0;
    for (size_t i = 0; i < (item->offered ? item->n_offered : n) && good; i++) {
        json_t *number = json_null();
        if (!item->offered || item->offered[i]) {
            number = json_real(logits ? (double)logits[given] : c->p[given]);
            given++;
        }
        good = json_array_append_new(list, number) == 0;
    }
    return output_json_if(good, list);
}

static json_t *label_list(const struct classify *c) {
    json_t *list = json_array();
    bool good = list != NULL;
    for (size_t i = 0; i < c->n_label && good; i++)
        good = json_array_append_new(list, json_string(label(c, i))) == 0;
    return output_json_if(good, list);
}

static bool print_object(const struct classify *c, const struct item *item, const float *logits,
                         size_t n) {
    json_t *object = heads_object(&c->heads, item->name, item->row);
    const size_t best = largest(logits, n);
    bool good = object != NULL;
    if (c->choices) {
        good = output_json_append(object, json_pack("{s:I, s:f}", "choice",
                                                    (json_int_t)choice_number(item, best),
                                                    "probability", c->p[best]));
    } else {
        json_t *own = has_label(c) ? json_pack("{s:s, s:f}", "label", label(c, best), "probability",
                                               c->p[best])
                                   : json_pack("{s:n, s:n}", "label", "probability");
        good = output_json_append(object, own) &&
               json_object_set_new(object, "labels", label_list(c)) == 0;
    }
    good =
        good && json_object_set_new(object, "logits", offered_numbers(c, item, n, logits)) == 0 &&
        json_object_set_new(object, "probabilities",
                            is_number(c) ? json_null() : offered_numbers(c, item, n, NULL)) == 0 &&
        output_json_append(object, json_pack("{s:I, s:I}", "tokens", (json_int_t)item->tokens,
                                             "cut", (json_int_t)item->cut));
    return output_json(output_json_if(good, object));
}

/* ---- Words -------------------------------------------------------------------------------- */

/* The word, a run without white space, at this byte of the text. */
static void find_word(const struct item *item, size_t at, size_t *begin, size_t *end) {
    *begin = *end = at;
    while (*begin > 0 && space_at_end(item->text, *begin) == 0)
        --*begin;
    while (*end < item->length && space_length(item->text + *end, item->length - *end) == 0)
        ++*end;
}

static bool put_word(struct classify *c, const struct item *item, size_t number, size_t begin,
                     size_t length, size_t best) {
    struct table *table = begin_row(c, item);
    table_integer(table, number);
    table_text(table, item->text + begin, length);
    table_integer(table, begin);
    table_integer(table, length);
    table_text(table, label(c, best), strlen(label(c, best)));
    table_real(table, c->p[best]);
    return !table_end_row(table);
}

static bool add_word(const struct classify *c, const struct item *item, json_t *list, size_t begin,
                     size_t length, const float *logits, size_t best) {
    json_t *word = json_pack(
        "{s:o, s:I, s:I, s:s, s:f, s:o}", "word", output_json_bytes(item->text + begin, length),
        "offset", (json_int_t)begin, "length", (json_int_t)length, "label", label(c, best),
        "probability", c->p[best], "logits", heads_reals(logits, c->n_label, 1));
    return json_array_append_new(list, word) == 0;
}

/* A row, or an element of `list`, for each word: it has the label of its first token. */
static bool put_words(struct classify *c, const struct item *item, const float *logits,
                      json_t *list) {
    size_t number = 0, reached = 0;
    bool good = true;
    for (size_t i = 0; i < item->n_piece && good; i++) {
        const float *own = logits + i * c->n_label;
        const size_t best = largest(own, c->n_label);
        size_t begin, end;
        if ((i > 0 && !item->at[i].marked) || item->at[i].begin >= item->length)
            continue;
        find_word(item, (size_t)item->at[i].begin, &begin, &end);
        if (end <= reached) /* a space within a word, which only the vocabulary's rules see */
            continue;
        reached = end;
        set_probabilities(c, own, c->n_label);
        good = list ? add_word(c, item, list, begin, end - begin, own, best)
                    : put_word(c, item, ++number, begin, end - begin, best);
    }
    return good;
}

static bool print_words(struct classify *c, const struct item *item, const float *logits) {
    json_t *object = heads_object(&c->heads, item->name, item->row), *list = json_array();
    bool good = object && list && put_words(c, item, logits, list);
    good = json_object_set_new(object, "words", list) == 0 && good;
    good = good &&
           output_json_append(object, json_pack("{s:I, s:I}", "tokens", (json_int_t)item->tokens,
                                                "cut", (json_int_t)item->cut));
    return output_json(output_json_if(good, object));
}

/* ---- What --logits prints ----------------------------------------------------------------- */

static json_t *row_list(const struct classify *c, const float *logits, size_t n) {
    json_t *list = json_array();
    bool good = list != NULL;
    for (size_t i = 0; i < n && good; i++)
        good =
            json_array_append_new(list, heads_reals(logits + i * c->n_label, c->n_label, 1)) == 0;
    return output_json_if(good, list);
}

static bool print_logits(const struct classify *c, const struct item *item, const float *logits) {
    const txl_input *input = &c->inputs.list[item->first];
    json_t *object = heads_object(&c->heads, item->name, item->row);
    json_t *ids = c->choices ? json_array() : heads_ids(input);
    json_t *segments = c->choices ? json_array() : heads_segments(input);
    bool good = object && ids && segments;
    for (size_t i = 0; c->choices && i < item->n && good; i++)
        good = json_array_append_new(ids, heads_ids(&input[i])) == 0 &&
               json_array_append_new(segments, heads_segments(&input[i])) == 0;
    json_t *numbers = c->words ? row_list(c, logits, input->n)
                               : heads_reals(logits, c->choices ? item->n : c->n_label, 1);
    good = json_object_set_new(object, "ids", ids) == 0 && good;
    good = json_object_set_new(object, "segments", segments) == 0 && good;
    good = json_object_set_new(object, "logits", numbers) == 0 && good;
    return output_json(output_json_if(good, object));
}

/* ---- Running ------------------------------------------------------------------------------ */

static size_t logits_of(const struct classify *c, const txl_input *input) {
    return c->words ? input->n * c->n_label : c->n_label;
}

/* Computes the logits of all inputs that wait. */
static bool run_inputs(struct classify *c) {
    const struct inputs *inputs = &c->inputs;
    txl_error error;
    size_t n_logit = 0;
    for (size_t i = 0; i < inputs->n; i++)
        n_logit += logits_of(c, &inputs->list[i]);
    if (n_logit > c->n_logit) {
        free(c->logits);
        c->logits = calloc(n_logit, sizeof *c->logits);
        c->n_logit = c->logits ? n_logit : 0;
        if (!c->logits)
            return terminal_error("out of memory");
    }
    float *logits = c->logits;
    for (size_t i = 0, n; i < inputs->n; i += n) {
        n = inputs_together(&c->heads, inputs, i);
        txl_status status =
            c->words
                ? txl_session_classify_tokens(c->heads.session, inputs->list + i, n, logits, &error)
                : txl_session_classify(c->heads.session, inputs->list + i, n, logits, &error);
        if (!terminal_report(status, &error) || signals_stopped())
            return false;
        for (size_t k = i; k < i + n; k++)
            logits += logits_of(c, &inputs->list[k]);
    }
    return true;
}

static bool put_item(struct classify *c, const struct item *item, const float *logits) {
    const struct heads_options *o = c->heads.options;
    const size_t n = c->choices ? item->n : c->n_label;
    if (o->logits)
        return print_logits(c, item, logits);
    if (c->words)
        return o->json ? print_words(c, item, logits) : put_words(c, item, logits, NULL);
    set_probabilities(c, logits, n);
    return o->json ? print_object(c, item, logits, n) : put_row(c, item, logits, n);
}

static void drop_items(struct classify *c) {
    for (size_t i = 0; i < c->n; i++) {
        free(c->items[i].own);
        free(c->items[i].offered);
        free(c->items[i].text);
        free(c->items[i].at);
    }
    c->n = 0;
    inputs_clear(&c->inputs);
}

/* Reads what waits, and writes its rows. */
static bool flush(struct classify *c) {
    bool good = run_inputs(c);
    const float *logits = c->logits;
    for (size_t i = 0; i < c->n && good; i++) {
        const struct item *item = &c->items[i];
        good = put_item(c, item, logits);
        for (size_t k = item->first; k < item->first + item->n; k++)
            logits += logits_of(c, &c->inputs.list[k]);
    }
    drop_items(c);
    return good;
}

/* ---- Texts -------------------------------------------------------------------------------- */

/* Adds the input of the encoded text, and of the other if `pair`. */
static bool add_input(struct classify *c, struct item *item, bool pair) {
    size_t cut;
    if (!heads_add_input(&c->heads, &c->inputs, &c->text, pair ? &c->other : NULL, &item->n_piece,
                         &cut))
        return false;
    item->cut += cut;
    item->n++;
    item->tokens += c->inputs.list[c->inputs.n - 1].n;
    return true;
}

/* A copy of the own columns' values, with their bytes; NULL when memory is short. */
static struct own_value *copy_own(const struct own_columns *own) {
    size_t length = 0;
    for (size_t i = 0; i < own->n; i++)
        length += own->values[i].length;
    struct own_value *copy = malloc(own->n * sizeof *copy + length + 1);
    char *bytes = copy ? (char *)(copy + own->n) : NULL;
    for (size_t i = 0; copy && i < own->n; i++) {
        copy[i] = own->values[i];
        if (!copy[i].text)
            continue;
        copy[i].text = memcpy(bytes, copy[i].text, copy[i].length);
        bytes += copy[i].length;
    }
    return copy;
}

/* Keeps what words need of the text. */
static bool keep_words(struct classify *c, struct item *item, const struct record *record) {
    item->text = malloc(record->text.length + 1);
    item->at = calloc(item->n_piece + 1, sizeof *item->at);
    if (!item->text || !item->at)
        return terminal_error("out of memory");
    memcpy(item->text, record->text.text, record->text.length);
    item->length = record->text.length;
    if (item->n_piece > 0)
        memcpy(item->at, c->text.at, item->n_piece * sizeof *item->at);
    return true;
}

/* A choice that is empty or missing is not offered. */
static bool is_offered(const struct own_value *choice) {
    return choice->length > 0 && !choice->bare && !items_is_missing(choice);
}

static bool add_choices(struct classify *c, struct item *item, const struct record *record,
                        bool *wrong) {
    struct items_table *table = record->table;
    size_t n = 0;
    for (size_t i = 0; i < table->n_choice; i++) {
        const struct own_value choice = items_table_cell(table, table->choices[i]);
        n += is_offered(&choice);
    }
    *wrong = n < 2;
    if (*wrong) {
        items_table_wrong(table, "it has %zu choice%s, where two at least are expected", n,
                          plural(n));
        return true;
    }
    item->offered = calloc(c->n_choice, sizeof *item->offered);
    if (!item->offered)
        return terminal_error("out of memory");
    item->n_offered = table->n_choice;
    for (size_t i = 0; i < table->n_choice; i++) {
        const struct own_value choice = items_table_cell(table, table->choices[i]);
        item->offered[i] = is_offered(&choice);
        if (item->offered[i] &&
            !(heads_encode(&c->heads, &choice, &c->other) && add_input(c, item, true)))
            return false;
    }
    return true;
}

/* Makes room for another item, which is zero. */
static struct item *new_item(struct classify *c) {
    if (c->n == c->room) {
        const size_t room = 2 * c->room + 64;
        struct item *items = reallocarray(c->items, room, sizeof *items);
        if (!items) {
            terminal_error("out of memory");
            return NULL;
        }
        c->items = items;
        c->room = room;
    }
    c->items[c->n] = (struct item){.first = c->inputs.n};
    return &c->items[c->n];
}

/* Encodes the text and adds it to those that wait, which are read if there are enough. */
static bool add_text(struct classify *c, const struct record *record) {
    struct heads *h = &c->heads;
    struct item *item = new_item(c);
    bool wrong = false;
    if (!item || !heads_encode(h, &record->text, &c->text))
        return false;
    c->n++; /* from here on drop_items frees it */
    item->name = record->name;
    item->row = record->row;
    item->own = copy_own(&h->items.own);
    bool good = item->own || terminal_error("out of memory");
    if (good && c->choices)
        good = add_choices(c, item, record, &wrong);
    else if (good)
        good = (!record->other.text || heads_encode(h, &record->other, &c->other)) &&
               add_input(c, item, record->other.text) && (!c->words || keep_words(c, item, record));
    if (wrong) {
        free(item->own);
        c->n--;
    }
    if (!good || wrong)
        return good;
    if (record->table)
        items_table_right(record->table);
    h->texts++;
    h->tokens += item->tokens;
    h->cut += item->cut > 0;
    return c->inputs.ids < h->most || flush(c);
}

/* ---- The command -------------------------------------------------------------------------- */

static bool classify_texts(struct classify *c) {
    struct record record;
    bool good = true;
    while (good && heads_next(&c->heads, &record))
        good = add_text(c, &record);
    return good && !signals_stopped() && flush(c);
}

static bool set_up(struct classify *c, const struct heads_options *o,
                   const struct operands *files) {
    struct heads *h = &c->heads;
    if (!heads_open(h, o, files))
        return false;
    c->words = h->head == TXL_HEAD_TOKENS;
    c->choices = h->head == TXL_HEAD_CHOICE;
    c->n_label = c->choices ? 1 : (size_t)txl_model_n_label(h->model.handle);
    bool pairs = o->pair || c->choices;
    for (int i = 0; i < h->items.n; i++) {
        const struct items_table *table = &h->items.tables[i];
        pairs = pairs || table->role[ROLE_SECOND] != SIZE_MAX;
        c->n_choice = table->n_choice > c->n_choice ? table->n_choice : c->n_choice;
    }
    if (o->max_len < (pairs ? 4 : 3))
        return terminal_error("--max-len %" PRId64 " leaves no room for a text: its %d symbols "
                              "count too",
                              o->max_len, pairs ? 3 : 2);
    c->p = calloc(c->n_label + c->n_choice, sizeof *c->p);
    return (c->p || terminal_error("out of memory")) && heads_open_session(h, (size_t)o->max_len) &&
           open_table(c);
}

static int run(const struct command *command, void *values, struct operands *files) {
    const struct heads_options *o = values;
    struct classify *c = calloc(1, sizeof *c); /* too large for a stack whose growth may fail */
    if (!c) {
        terminal_error("out of memory");
        return STATUS_FAILURE;
    }
    int status = heads_check(command, &c->heads, o);
    if (status == OPTIONS_RUN)
        status = set_up(c, o, files)
                     ? heads_finish(&c->heads, classify_texts(c))
                     : output_finish(signals_stopped() ? signals_status() : STATUS_FAILURE);
    drop_items(c);
    free(c->items);
    inputs_free(&c->inputs);
    free(c->logits);
    free(c->p);
    pieces_free(&c->text);
    pieces_free(&c->other);
    heads_close(&c->heads);
    free(c);
    return status;
}

/* ---- The table ---------------------------------------------------------------------------- */

static const struct heads_options defaults = {.max_len = HEADS_MAX_LEN, .compute = CHOICE_UNSET};

#define PLACE(member) offsetof(struct heads_options, member)

static const struct option_row options[] = {
    ROWS_OUTPUT_ROW(PLACE(output), classify_columns, .section = "Output"),
    {"json", OPTION_FLAG, PLACE(json), "print an object per text"},
    {"logits", OPTION_FLAG, PLACE(logits),
     "print an object per text with its ids, segments and all logits", .excludes = "json"},
    FORCE_ROW,
    {"pair", OPTION_STRING, PLACE(pair), "classify each text together with the text STRING",
     .section = "Text", .argument = "STRING"},
    {"lines", OPTION_FLAG, PLACE(lines), "take each line of FILE as a text"},
    {"columns", OPTION_LIST, PLACE(columns),
     "what columns of a table are called: item, text and pair, such as "
     "text=sentence1,pair=sentence2",
     .argument = "ROLE=NAME,..."},
    {"max-len", OPTION_INTEGER, PLACE(max_len),
     "cut longer texts to N tokens, with those that end them", .standard = TEXT_OF(HEADS_MAX_LEN),
     .least = 1, .most = TXL_MAX_TGT_LEN},
    BINARY_ROW,
    COMPUTE_ROW(PLACE(compute)),
    MODEL_ROW,
    LOW_MEMORY_ROW,
    COMMON_ROWS,
    {0}};

static const struct operand_row operands[] = {
    {.name = "FILE",
     .help = "table (.csv, .tsv, .jsonl, .json) or text to classify",
     .optional = true,
     .standard_input = true,
     .repeats = true},
    {0}};

static const struct example examples[] = {
    {"txl classify --model sentiment.txl reviews.csv > labels.csv", "One row per text of a table"},
    {"txl classify --model sentiment.txl --lines sentences.txt", "The same of a text's lines"},
    {"txl classify --model inference.txl --pair \"It is warm.\" premise.txt",
     "A text and a second one"},
    {"txl classify --model entities.txl news.csv", "One row per word, if the model labels words"},
    {0}};

/* The options of -h. */
static const char *const brief[] = {"output", "lines",   "pair",  "columns",
                                    "json",   "max-len", "model", NULL};

const struct command classify_command = {
    .name = "classify",
    .summary = "give texts the labels of a fine-tuned XLNet",
    .description =
        "Writes a table with one row per text: its label, and the probability of each label. "
        "What is labelled is the model's to say: a text, a pair of texts, each word of a text, or "
        "which of several choices fits. A model with one label gives a number.",
    .options = options,
    .brief = brief,
    .operands = operands,
    .examples = examples,
    .topics = classify_topics,
    .shared = "heads outputs summary",
    .defaults = &defaults,
    .size = sizeof defaults,
    .run = run,
};
