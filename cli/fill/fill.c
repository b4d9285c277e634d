/* txl fill: fills the gaps of a text, using the text on both sides of them. */
#include "cli/commands.h"
#include "cli/io/input.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/text/tokens.h"
#include "filling.h"

#include <inttypes.h>
#include <string.h>

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

static void print_summary(const struct fill *f) {
    const struct run_settings run = fill_run_settings(f);
    char sampling[512], settings[8192];
    sampling_to_text(sampling, sizeof sampling, &f->options->sampling);
    settings_to_text(settings, sizeof settings, &f->model, &f->settings, &run);
    terminal_brief("%zu gaps, seed %" PRIu64 ", %.2f seconds", f->text.n_gap, f->random.seed,
                   f->seconds);
    terminal_summary("gaps=%zu tokens=%zu pieces=%" PRId64 " seed=%" PRIu64
                     " seconds=%.2f %s allow_unk=%s text=%s %s",
                     f->text.n_gap, f->text.list.n, f->options->pieces, f->random.seed, f->seconds,
                     sampling, f->options->allow_unk ? "yes" : "no", run.text, settings);
}

static void note_no_gap(const struct fill *f, const char *path) {
    const struct buffer *text = &f->text.source;
    static const char other[] = "[MASK]";
    bool looks = text->length > 0 && memmem(text->data, text->length, other, sizeof other - 1);
    terminal_note("%s: no <mask> in it, so there is nothing to fill%s", path,
                  looks ? "; [MASK] is another model's spelling of it" : "");
}

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
    bool good = model_open(&f->model, &options->common) && fill_open(f, options, path) &&
                read_file(f, path);
    if (good && f->text.n_gap == 0)
        note_no_gap(f, path);
    good = good && fill_all(f);
    if (!good)
        return output_finish(signals_stopped() ? signals_status() : STATUS_FAILURE);
    good = f->options->json ? print_objects(f) && print_done(f) : print_whole(f);
    int status = output_finish(good || output_closed() ? STATUS_OK : STATUS_FAILURE);
    if (!output_failed())
        print_summary(f);
    return status;
}

static const struct fill_options defaults = {
    .session = SESSION_UNSET, .sampling = SAMPLING_STANDARD(0), .pieces = 1, .seed = INTEGER_UNSET};

static int run(const struct command *command, void *values, struct operands *files) {
    struct fill_options *options = values;
    if (sampling_check(command, &options->sampling) != OPTIONS_RUN)
        return STATUS_USAGE;
    if (options->common.unwrap && options->ids)
        return options_wrong(command, "--unwrap cannot be combined with --ids");
    if (options->logprobs > 0 && !options->json)
        return options_wrong(command, "--logprobs needs --json");
    if (options->sampling.greedy)
        options->sampling.temperature = 0;
    struct fill fill = {.options = options};
    output_set_raw(options->raw_output);
    int status = fill_file(&fill, options, files->items[0]);
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
    {"pieces", OPTION_INTEGER, PLACE(pieces), "fill each gap with N pieces of the vocabulary",
     .standard = "1", .least = 1, .most = 64},
    {"ids", OPTION_FLAG, PLACE(ids), "read decimal ids; a gap is the id of <mask>"},
    BINARY_ROW,
    UNWRAP_ROW,
    SAMPLING_ROWS(struct fill_options, sampling, "0"),
    SEED_ROW(struct fill_options, seed),
    {"allow-unk", OPTION_FLAG, PLACE(allow_unk), "let <unk> and control symbols fill gaps"},
    {"json", OPTION_FLAG, PLACE(json), "print an object for each gap, and one at the end",
     .section = "Output"},
    {"logprobs", OPTION_INTEGER, PLACE(logprobs),
     "with --json: list the K likeliest pieces for each gap with their log-probabilities",
     .argument = "K", .standard = "0", .most = INT32_MAX - 1},
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
                                               .standard_input = true},
                                              {0}};

static const struct note notes[] = {
    UNWRAP_NOTE,
    {"Gaps", "A gap sees the known tokens of its segment on both sides, the memory before the "
             "segment, and the gaps that were filled before it; it sees nothing behind the "
             "segment. If its piece begins a word, the white space before the gap stays, and a "
             "blank is added if there is none. Any other piece continues the word before the gap: "
             "blanks and tabs between them are dropped, a line end stays. With --order surest all "
             "open gaps of the segment are predicted anew after each one that is filled; the next "
             "is the one whose likeliest piece has the highest log-probability, of equal ones the "
             "leftmost. The likeliest piece is taken, unless --temperature is above 0."},
    SAMPLING_NOTE,
    {"JSON",
     "Each gap gives {\"file\", \"line\", \"offset\", \"length\", \"gap\", \"ids\", \"text\", "
     "\"logprob\", \"top\"}. line counts from 1, gap from 0. offset and length are the "
     "replaced bytes of the text: <mask>, and the blanks before it that are dropped. text "
     "is their replacement. logprob is the sum over the gap's pieces, at temperature 1 "
     "and before any ban. top lists the --logprobs likeliest as {\"id\", \"text\", "
     "\"logprob\"}; it is null without --logprobs, and with --pieces a list of such lists. "
     "The last object is {\"done\", \"seed\", \"settings\"}. A file that cannot be read gives "
     "only {\"file\", \"error\"}."},
    SUMMARY_NOTE(
        " txl fill: gaps tokens pieces seed seconds temperature top_k top_p [min_p]\n"
        "     [typical] [repetition_penalty repeat_last] [no_repeat_ngram]\n"
        "     allow_unk text tgt_len mem_len clamp_len layer_norm_eps memory_start\n"
        "     [unwrap] family activation order type memory_type compute threads\n"
        "     streams kernels blas model",
        "Keys in brackets appear if their option is on. The model's name runs to the end of "
        "the line."),
    {0}};

static const struct example examples[] = {
    {"echo \"The capital of France is <mask>.\" | txl fill --model xlnet.txl", "one gap"},
    {"txl fill --model xlnet.txl --order surest --pieces 2 letter.txt",
     "gaps of two pieces, the surest first"},
    {"txl fill --model xlnet.txl --json --logprobs 5 letter.txt",
     "what else could stand there, for a program to read"},
    {0}};

const struct command fill_command = {
    .name = "fill",
    .summary = "fill the gaps of a text",
    .description =
        "Prints the text of FILE with each <mask> filled by the model, which sees the text "
        "on both sides. Only blanks before a gap change besides: they are dropped if its "
        "piece continues a word. Filling needs an XLNet, because a Transformer-XL sees only "
        "the text to the left.",
    .options = rows,
    .operands = operands,
    .examples = examples,
    .notes = notes,
    .defaults = &defaults,
    .size = sizeof defaults,
    .run = run,
};
