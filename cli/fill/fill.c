/* txl fill: fills the gaps of a text, using the text on both sides of them. */
#include "cli/commands.h"
#include "cli/io/input.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/items/items.h"
#include "cli/text/tokens.h"
#include "cli/texts/gaps.h"

#include <inttypes.h>
#include <string.h>

extern const char fill_topics[]; /* cli/fill/fill.txt */

/* ---- The command -------------------------------------------------------------------------- */

static bool print_whole(const struct fill *f) {
    struct buffer whole = {0};
    bool good = fill_whole(&f->text, &whole) ? output_text(whole.data, whole.length)
                                             : output_lacks_memory();
    buffer_free(&whole);
    return good;
}

static bool print_object(void *context, json_t *object) {
    (void)context;
    return output_json(object);
}

static bool print_objects(const struct fill *f) {
    return fill_objects(&f->text, print_object, NULL) ||
           (!output_closed() && !output_failed() && output_lacks_memory());
}

static bool print_done(const struct fill *f) {
    return output_json(json_pack("{s:s, s:I, s:o}", "done", "filled", "seed",
                                 (json_int_t)f->random.seed, "settings", fill_settings(f)));
}

static void print_summary(const struct fill *f, uint64_t gaps, uint64_t tokens) {
    const struct run_settings run = fill_run_settings(f);
    char sampling[512], settings[8192];
    sampling_to_text(sampling, sizeof sampling, &f->options->sampling);
    settings_to_text(settings, sizeof settings, &f->model, &f->settings, &run);
    terminal_brief("%" PRIu64 " gap%s, seed %" PRIu64 ", %.2f seconds", gaps, plural(gaps),
                   f->random.seed, f->seconds);
    terminal_summary("gaps=%" PRIu64 " tokens=%" PRIu64 " pieces=%" PRId64 " seed=%" PRIu64
                     " seconds=%.2f %s allow_unk=%s text=%s %s",
                     gaps, tokens, f->options->pieces, f->random.seed, f->seconds, sampling,
                     f->options->allow_unk ? "yes" : "no", run.text, settings);
}

static void note_no_gap(const struct fill *f, const char *path) {
    const struct buffer *text = &f->text.source;
    static const char other[] = "[MASK]";
    bool looks = text->length > 0 && memmem(text->data, text->length, other, sizeof other - 1);
    terminal_note("%s: no <mask> in it, so there is nothing to fill%s", path,
                  looks ? "; [MASK] is another model's spelling of it" : "");
}

/* ---- Candidates --------------------------------------------------------------------------- */

static const char columns[] = "file line gap candidate pieces logprob rank own own_logprob *";

/* A row for each candidate of each gap. */
static bool put_candidates(struct table *table, const struct fill_text *t,
                           const struct own_columns *own) {
    struct buffer filled = {0};
    bool good = true;
    for (size_t g = 0; g < t->n_gap && good; g++) {
        const struct gap *gap = &t->gap[g];
        good = fill_own(t, g, &filled) || output_lacks_memory();
        for (size_t i = gap->first; i < gap->first + gap->n && good; i++) {
            const struct candidate *c = &t->candidate[i];
            table_text(table, t->name, strlen(t->name));
            table_integer(table, gap->line);
            table_integer(table, g);
            table_text(table, c->text, c->length);
            table_integer(table, c->n);
            table_real(table, c->logprob);
            table_integer(table, candidate_rank(t, gap, i));
            table_text(table, filled.data ? filled.data : "", filled.length);
            table_real(table, fill_logprob(t, g));
            table_own(table, own, 0);
            good = !table_end_row(table);
        }
    }
    buffer_free(&filled);
    return good;
}

static bool print_candidates(const struct fill *f) {
    struct table table;
    bool good = table_open(&table, "-", columns, NULL, TABLE_TABS) &&
                put_candidates(&table, &f->text, NULL) && outfile_commit(&table.file);
    table_abandon(&table);
    return good;
}

/* Gives the gaps without a list the lines of --candidates. */
static void use_listed(struct fill *f) {
    f->text.other = f->listed.data;
    f->text.n_other = f->listed.length;
    f->text.between = '\n';
}

static bool read_candidates(struct fill *f) {
    const char *path = f->options->candidates;
    f->text.lists = !f->options->ids;
    if (path && !input_read_list(path, &f->listed, ITEMS_RECORD))
        return false;
    use_listed(f);
    return true;
}

/* ---- Tables of texts, each with one gap ------------------------------------------------------ */

struct cloze {
    struct fill *fill;
    struct items items;
    struct table table; /* none with --json */
    struct own_value item, condition;
    uint64_t texts, tokens, lacks;
    double seconds;
};

static bool print_item(void *context, json_t *object) {
    const struct cloze *c = context;
    const struct own_value *own[] = {&c->item, &c->condition};
    bool good = true;
    for (size_t i = 0; i < 2; i++)
        good = json_object_set_new(object, i == 0 ? "item" : "condition",
                                   own[i]->text ? output_json_bytes(own[i]->text, own[i]->length)
                                                : json_null()) == 0 &&
               good;
    return output_json(output_json_if(good, object));
}

/* Reads the record's text and its candidates; what is wrong with them is told, and `*wrong` set. */
static bool read_item(struct cloze *c, struct items_table *table, bool *wrong) {
    struct fill_text *t = &c->fill->text;
    struct own_value text, list = items_table_value(table, ROLE_CANDIDATES);
    char problem[1024] = "";
    if (!items_table_text(table, ROLE_TEXT, &text))
        return terminal_lacks_memory();
    if (list.length > 0) {
        t->other = list.text;
        t->n_other = list.length;
        t->between = '|';
    } else
        use_listed(c->fill);
    bool good = fill_read_record(t, text.text, text.length, problem, sizeof problem);
    if (!good && !*problem)
        return false;
    if (good && t->n_gap != 1)
        snprintf(problem, sizeof problem, "it has %zu gaps, where one is expected", t->n_gap);
    else if (good && t->list.n == t->pieces)
        snprintf(problem, sizeof problem, "nothing is known but the gap");
    else if (good && t->list.n > (size_t)c->fill->settings.tgt_len)
        snprintf(problem, sizeof problem, "it has %zu tokens, more than tgt_len, which is %d",
                 t->list.n, c->fill->settings.tgt_len);
    else if (good && t->n_candidate == 0)
        snprintf(problem, sizeof problem, "its gap has no candidates");
    else if (good)
        candidates_encode(c->fill, problem, sizeof problem);
    *wrong = *problem;
    if (*wrong)
        items_table_wrong(table, "%s", problem);
    else
        t->gap->line = table->record;
    return true;
}

static bool fill_item(struct cloze *c, struct items_table *table) {
    struct fill *f = c->fill;
    bool wrong = false;
    fill_forget(&f->text);
    c->condition = items_table_value(table, ROLE_CONDITION);
    if (!items_table_item(table, &c->item) ||
        !items_table_pass(table, &c->items.own, &c->item, &c->condition))
        return terminal_lacks_memory();
    if (!read_item(c, table, &wrong) || wrong)
        return wrong; /* it was told, and the next one follows */
    items_table_right(table);
    c->texts++;
    c->tokens += f->text.list.n;
    return fill_all(f) && candidates_score(f) &&
           (f->options->json ? fill_objects(&f->text, print_item, c)
                             : put_candidates(&c->table, &f->text, &c->items.own));
}

static bool fill_table(struct cloze *c, struct items_table *table) {
    struct progress progress;
    bool good = true;
    c->fill->text.name = table->input.name;
    progress_start(&progress, table->input.name, "texts");
    while (good && items_table_next(table)) {
        good = fill_item(c, table);
        c->seconds += good ? c->fill->seconds : 0;
        progress_update(&progress, input_fraction(&table->input, table->input.read), c->texts);
    }
    progress_end(&progress);
    if (good && !table->input.failed && !signals_stopped())
        items_table_end(table);
    c->lacks += table->errors.wrong;
    return good && !table->input.failed && !signals_stopped();
}

static bool open_items(struct cloze *c) {
    const struct fill_options *o = c->fill->options;
    c->items.preference.region = -1;
    if (!items_new(&c->items, o->items.n))
        return false;
    for (size_t i = 0; i < o->items.n; i++)
        if (!items_add(&c->items, o->items.items[i], &o->common.form))
            return false;
    return items_ready(&c->items) &&
           (o->json || table_open(&c->table, "-", columns, &c->items.own, TABLE_TABS));
}

static int fill_items(struct fill *f, struct fill_options *options) {
    struct cloze c = {.fill = f, .items = {.names.cloze = true}};
    bool good = model_open(&f->model, &options->common) &&
                fill_open(f, options, options->items.items[0]) && read_candidates(f) &&
                open_items(&c);
    for (int i = 0; i < c.items.n && good; i++)
        good = fill_table(&c, &c.items.tables[i]);
    f->seconds = c.seconds;
    good = good && (options->json ? print_done(f) : outfile_commit(&c.table.file));
    int status = output_finish(signals_stopped()                           ? signals_status()
                               : (good && c.lacks == 0) || output_closed() ? STATUS_OK
                                                                           : STATUS_FAILURE);
    if (good && !output_failed())
        print_summary(f, c.texts, c.tokens);
    table_abandon(&c.table);
    items_close(&c.items);
    return status;
}

/* ---- A text ---------------------------------------------------------------------------------- */

/* Reads the text.  With --json, an object stands for a file that cannot be read. */
static bool read_file(struct fill *f, const char *path) {
    const struct fill_options *options = f->options;
    struct input input;
    bool good = tokens_open_text(&input, path, f->model.handle, options->ids, &options->common);
    if (good) {
        good = fill_read(&f->text, &input);
        input_close(&input);
    }
    if (!good && options->json && !signals_stopped())
        output_json_failure(path);
    return good;
}

static int fill_file(struct fill *f, struct fill_options *options, const char *path) {
    char problem[1024];
    bool good = model_open(&f->model, &options->common) && fill_open(f, options, path) &&
                read_candidates(f) && read_file(f, path);
    if (good && f->text.n_gap == 0)
        note_no_gap(f, path);
    if (good && !candidates_encode(f, problem, sizeof problem))
        good = terminal_error("%s: %s", strcmp(path, "-") == 0 ? "standard input" : path, problem);
    good = good && fill_all(f) && candidates_score(f);
    if (!good)
        return output_finish(signals_stopped() ? signals_status() : STATUS_FAILURE);
    good = f->options->json          ? print_objects(f) && print_done(f)
           : f->text.n_candidate > 0 ? print_candidates(f)
                                     : print_whole(f);
    int status = output_finish(good || output_closed() ? STATUS_OK : STATUS_FAILURE);
    if (!output_failed())
        print_summary(f, f->text.n_gap, f->text.list.n);
    return status;
}

static const struct fill_options defaults = {
    .session = SESSION_UNSET, .sampling = SAMPLING_STANDARD(0), .pieces = 1, .seed = INTEGER_UNSET};

static int run(const struct command *command, void *values, struct operands *files) {
    (void)command;
    struct fill_options *options = values;
    const bool items = options->items.n > 0;
    struct fill fill = {.options = options};
    output_set_raw(options->raw_output);
    int status = items ? fill_items(&fill, options) : fill_file(&fill, options, files->items[0]);
    fill_close(&fill);
    model_close(&fill.model);
    return status;
}

/* ---- The table ---------------------------------------------------------------------------- */

#define PLACE(member) offsetof(struct fill_options, member)

static const struct option_row rows[] = {
    {"order", OPTION_CHOICE, PLACE(order),
     "fill the gaps from left to right, or always next the one that the model is surest of",
     .section = "Gaps", .choices = fill_orders, .standard = "left"},
    {"pieces", OPTION_INTEGER, PLACE(pieces), "fill each gap with N subwords of the vocabulary",
     .standard = "1", .least = 1, .most = 64},
    {"candidates", OPTION_STRING, PLACE(candidates),
     "score each line of FILE in every gap that names no candidates of its own; see Candidates "
     "below",
     .argument = "FILE", .file = FILE_READ},
    {"items", OPTION_LIST, PLACE(items),
     "fill the gap of each text of a table: .csv, .tsv or .jsonl with the columns text and "
     "candidates; may be repeated",
     .file = FILE_READ, .excludes = "unwrap FILE"},
    {"ids", OPTION_FLAG, PLACE(ids), "read decimal ids; a gap is the id of <mask>",
     .excludes = "unwrap items candidates"},
    BINARY_ROW,
    UNWRAP_ROW,
    TEMPERATURE_ROW(struct fill_options, sampling, "0"),
    SEED_ROW(struct fill_options, seed),
    {"allow-unk", OPTION_FLAG, PLACE(allow_unk), "let <unk> and control symbols fill gaps"},
    {"json", OPTION_FLAG, PLACE(json), "print an object for each gap, and one at the end",
     .section = "Output"},
    {"logprobs", OPTION_INTEGER, PLACE(logprobs),
     "with --json: list the K most likely subwords for each gap with their log-probabilities",
     .argument = "K", .standard = "0", .most = INT32_MAX - 1, .needs = "json"},
    RAW_OUTPUT_ROW(struct fill_options, raw_output),
    LENGTH_ROWS(struct fill_options, session),
    MEMORY_TYPE_ROW(.standard = "f32", .offset = PLACE(session.memory_type)),
    COMPUTE_ROW(PLACE(session.compute)),
    MODEL_ROW,
    LOW_MEMORY_ROW,
    COMMON_ROWS,
    {0}};

static const struct operand_row operands[] = {{.name = "FILE",
                                               .help = "text, with <mask> where its gaps are",
                                               .optional = true,
                                               .standard_input = true,
                                               .instead = "items"},
                                              {0}};

static const struct example examples[] = {
    {"echo \"The capital of France is <mask>.\" | txl fill --model xlnet.txl", "one gap"},
    {"txl fill --model xlnet.txl --order surest --pieces 2 letter.txt",
     "gaps of two subwords, the surest first"},
    {"echo \"<mask:New York|Boston> is a city.\" | txl fill --model xlnet.txl",
     "how likely each candidate is"},
    {"txl fill --model xlnet.txl --items cloze.csv", "the candidates of a table of texts"},
    {"txl fill --model xlnet.txl --json --logprobs 5 letter.txt",
     "what else could stand there, for a program to read"},
    {0}};

/* The options of -h. */
static const char *const brief[] = {"pieces",     "order",       "items", "logprobs",
                                    "candidates", "temperature", "seed",  "json",
                                    "tgt-len",    "model",       NULL};

const struct command fill_command = {
    .name = "fill",
    .summary = "fill the gaps of a text",
    .description =
        "Prints the text of FILE with each <mask> filled by the model, which sees the text "
        "on both sides. Only spaces before a gap change besides: they are dropped if its "
        "subword continues a word. Filling needs an XLNet, because a Transformer-XL sees only "
        "the text to the left.",
    .options = rows,
    .brief = brief,
    .operands = operands,
    .examples = examples,
    .topics = fill_topics,
    .shared = "wrapped summary",
    .defaults = &defaults,
    .size = sizeof defaults,
    .run = run,
};
