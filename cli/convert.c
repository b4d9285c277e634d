/* txl convert: a published checkpoint becomes a weights file. */
#include "cli/io/confine.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/model/dynamic.h"
#include "cli/options/options.h"
#include "cli/text/tokens.h"
#include "commands.h"
#include "convert/converter.h"
#include "lib/base/error.h"
#include "lib/base/output_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

extern const char convert_topics[]; /* cli/convert.txt */

struct convert_command_options {
    struct common_options common;
    const char *output, *name, *vocabulary, *cutoffs, *calibrate;
    int type, embeddings, memory_start, cluster_order, activation, tokenizer;
    char type_text[WEIGHT_TYPE_TEXT]; /* of type and embeddings */
    int pre_lnorm, same_length;       /* indexes into answers */
    int reach;                        /* into reaches */
    double layer_norm_eps, dynamic_lr;
    int64_t level, n_head, attn_type, tgt_len, mem_len, clamp_len;
};

static const char *const memory_starts[] = {"empty", "zeros", NULL};
static const char *const activations[] = {"relu", "gelu-tanh", "gelu-erf", "swish", NULL};
static const char *const reaches[] = {"mem_len", "mem_len+1", NULL};
static const char *const cluster_orders[] = {"reversed", "forward", NULL};

static const char *tokenizer_name(size_t kind) {
    return txl_kind_name((txl_kind)kind);
}

static bool show_progress(void *context, uint64_t done, uint64_t total) {
    double fraction = total > 0 ? (double)done / (double)total : -1;
    progress_update(context, fraction, done >> 20);
    return !signals_stopped();
}

static const char *chosen(const char *const *choices, int choice) {
    return choice == CHOICE_UNSET ? NULL : choices[choice];
}

static enum convert_choice answered(int answer) {
    return answer == CHOICE_UNSET ? CONVERT_UNSET : answer == ANSWER_YES ? CONVERT_YES : CONVERT_NO;
}

static int number_or(int64_t number, int unset) {
    return number == INTEGER_UNSET ? unset : (int)number;
}

static void translate_options(const struct convert_command_options *given,
                              struct convert_options *options) {
    convert_options_init(options);
    options->name = given->name;
    options->vocabulary = given->vocabulary;
    options->type = given->type == CHOICE_UNSET ? NULL : given->type_text;
    options->level = number_or(given->level, -1);
    options->threads = (int)given->common.threads;
    options->n_head = number_or(given->n_head, 0);
    options->attn_type = number_or(given->attn_type, -1);
    options->cutoffs = given->cutoffs;
    options->pre_lnorm = answered(given->pre_lnorm);
    options->same_length = answered(given->same_length);
    options->memory_start = chosen(memory_starts, given->memory_start);
    options->cluster_order = chosen(cluster_orders, given->cluster_order);
    if (!isnan(given->layer_norm_eps))
        options->layer_norm_eps = given->layer_norm_eps;
    options->same_length_reach = given->reach == CHOICE_UNSET ? NULL
                                 : given->reach == 0          ? "mem_len"
                                                              : "mem_len + 1";
    options->activation = chosen(activations, given->activation);
    options->tokenizer =
        given->tokenizer == CHOICE_UNSET ? NULL : tokenizer_name((size_t)given->tokenizer);
    options->tgt_len = number_or(given->tgt_len, -1);
    options->mem_len = number_or(given->mem_len, -1);
    options->has_clamp_len = given->clamp_len != INTEGER_UNSET;
    options->clamp_len = number_or(given->clamp_len, -1);
    if (!isnan(given->dynamic_lr))
        options->dynamic_lr = given->dynamic_lr;
}

/* On a terminal: what was recognised, its size, and what may come next. */
static void print_brief(const char *source, const char *output, long long bytes, double seconds) {
    struct convert_description description = {.settings = NULL};
    txl_error error;
    if (!model_is_built_in(source) && isatty(STDERR_FILENO))
        convert_describe(source, &description, &error);
    json_t *settings = description.settings ? json_loads(description.settings, 0, NULL) : NULL;
    const char *family = "", *head = "", *next = "ppl";
    int n_layer = 0, d_model = 0;
    json_unpack(settings, "{s:s, s:i, s:i, s?s}", "family", &family, "n_layer", &n_layer, "d_model",
                &d_model, "head", &head);
    if (strcmp(family, "xlnet") == 0)
        next = *head == '\0' ? "fill" : strncmp(head, "question", 8) == 0 ? "answer" : "classify";
    if (n_layer > 0)
        terminal_brief("%s: recognised %s%s%s, %d layers of %d", source, family, *head ? ", " : "",
                       head, n_layer, d_model);
    terminal_brief("%s: %s bytes, %.2f seconds; next: txl %s --model %s FILE", output,
                   grouped((double)bytes, 0).text, seconds, next, output);
    json_decref(settings);
    convert_description_free(&description);
}

static void print_summary(const char *source, const char *output, double seconds) {
    struct stat status;
    long long bytes = stat(output, &status) == 0 ? (long long)status.st_size : 0;
    print_brief(source, output, bytes, seconds);
    terminal_summary("bytes=%lld seconds=%.2f output=%s", bytes, seconds, output);
}

/* ---- Calibration -------------------------------------------------------------------------- */

/* The first tokens of a text: as many as are predicted, and the one before them. */
enum { CALIBRATED = 8192 };

struct first_tokens {
    int32_t ids[CALIBRATED + 1];
    size_t n;
    struct unknown unknown; /* symbols that the vocabulary lacks */
};

static txl_status take_token(void *context, const txl_symbol *symbol, txl_error *error) {
    struct first_tokens *first = context;
    (void)error;
    if (symbol->text) /* else a line ended */
        first->ids[first->n++] = symbol->id;
    return first->n > CALIBRATED ? TXL_STOPPED : TXL_OK;
}

/* Reads the text's first tokens; false with the error printed, or when a signal asked to stop. */
static bool read_tokens(const txl_model *model, const struct convert_command_options *given,
                        struct first_tokens *first) {
    char buffer[1 << 12];
    ssize_t n = 0;
    struct input input;
    struct token_reader reader = {0};
    const txl_encoding encoding = {.lookup = true,
                                   .symbol = take_token,
                                   .context = first,
                                   .unknown = unknown_add,
                                   .unknown_context = &first->unknown};
    if (!tokens_open_input(&input, given->calibrate, model, false, &given->common.form))
        return false;
    bool good = token_reader_open(&reader, model, &input, &encoding, false);
    txl_status status = TXL_OK;
    while (good && !status && (n = input_read(&input, buffer, sizeof buffer)) > 0)
        status = token_reader_feed(&reader, buffer, (size_t)n);
    if (good && !status && n == 0 && !signals_stopped())
        status = token_reader_finish(&reader);
    good = good && n >= 0 && (!status || first->n > CALIBRATED) && !signals_stopped();
    token_reader_close(&reader);
    input_close(&input);
    if (good)
        unknown_note(&first->unknown, given->calibrate, txl_model_unk(model) >= 0);
    return good;
}

static bool show_calibration(void *context, uint64_t done, uint64_t total) {
    progress_update(context, (double)done / (double)total, done / (2 * CALIBRATED));
    return !signals_stopped();
}

static bool go_on(void *context, uint64_t done, uint64_t total) {
    (void)context;
    (void)done;
    (void)total;
    return !signals_stopped();
}

/* Writes the model, rounded by what its matrices see of the text.  An error that was printed has no
 * message. */
static txl_status write_calibrated(const txl_model *model,
                                   const struct convert_command_options *given,
                                   const struct output_file *out, struct progress *progress,
                                   txl_error *error) {
    struct first_tokens *first = calloc(1, sizeof *first);
    txl_status status = TXL_OK;
    if (!first)
        return txl_fail_memory(error, "the tokens of --calibrate", sizeof *first);
    error->message[0] = '\0';
    if (!read_tokens(model, given, first))
        status = signals_stopped() ? TXL_STOPPED : TXL_IO;
    const txl_calibration calibration = {
        .ids = first->ids, .n = first->n, .progress = show_calibration, .context = progress};
    if (!status)
        status = txl_model_write_calibrated(model, out->file, out->path, given->type_text,
                                            &calibration, (int)given->common.threads, error);
    free(first);
    return status;
}

/* Converts into `memory`, with the checkpoint's own type, and writes what that file's model
 * becomes. */
static txl_status convert_calibrated(const char *source,
                                     const struct convert_command_options *given,
                                     const struct convert_options *options,
                                     const struct output_file *out, int memory, txl_error *error) {
    struct output_file plain = {.path = given->output, .file = memory};
    struct convert_options own = *options;
    struct stat converted = {0};
    txl_model *model = NULL;
    void *file = MAP_FAILED;
    own.type = NULL;
    own.level = 0;
    own.progress = go_on;
    txl_status status = memory < 0 ? txl_fail_memory(error, "the converted model", 0)
                                   : convert_into(source, &plain, &own, error);
    if (!status && fstat(memory, &converted) == 0)
        file = mmap(NULL, (size_t)converted.st_size, PROT_READ, MAP_SHARED, memory, 0);
    if (!status && file == MAP_FAILED)
        status = txl_fail_memory(error, "the converted model", (uint64_t)converted.st_size);
    if (!status)
        status = txl_model_open_memory(file, (size_t)converted.st_size, source,
                                       (int)given->common.threads, &model, error);
    if (!status)
        status = write_calibrated(model, given, out, options->progress_context, error);
    txl_model_close(model);
    if (file != MAP_FAILED)
        munmap(file, (size_t)converted.st_size);
    return status;
}

/* Writes the built-in model: as it is, unless another type or rate is asked for. */
static txl_status write_built_in(const struct convert_command_options *given,
                                 struct progress *progress, txl_error *error) {
    static const char name[] = "the built-in model";
    const int threads = (int)given->common.threads;
    const char *type = given->type == CHOICE_UNSET ? NULL : given->type_text;
    txl_model *model = NULL;
    size_t size;
    const void *file = model_built_in(&size);
    void *restated = NULL;
    txl_status status = TXL_OK;
    if (!isnan(given->dynamic_lr)) {
        status = convert_restate(file, size, name, given->dynamic_lr, &restated, &size, error);
        file = restated;
    }
    if (!status)
        status = txl_model_open_memory(file, size, name, threads, &model, error);
    if (!status && type && strcmp(type, txl_model_type(model)) != 0 && !given->calibrate) {
        status = txl_model_write(model, given->output, type, threads, error);
    } else if (!status) {
        struct output_file output;
        status = output_file_open(&output, given->output, error);
        if (!status)
            status = given->calibrate ? write_calibrated(model, given, &output, progress, error)
                                      : output_file_write(&output, file, size, 0, error);
        if (!status)
            status = output_file_commit(&output, error);
        output_file_close(&output);
    }
    txl_model_close(model);
    free(restated);
    return status;
}

static void print_note(void *context, const char *text) {
    (void)context;
    terminal_note("%s", text);
}

/* Converts in a process that can write the open output, and put no file into place. */
static txl_status convert_confined(const char *source, const struct convert_command_options *given,
                                   const struct convert_options *options, txl_error *error) {
    struct output_file out;
    struct output_keeper keeper;
    txl_status status = output_file_open(&out, given->output, error);
    if (!status)
        status = output_keeper_start(&keeper, &out, error);
    if (!status) {
        const char *alone[2];
        const int memory = given->calibrate ? memfd_create("txl", MFD_CLOEXEC) : -1;
        size_t n_alone = 0;
        if (given->vocabulary)
            alone[n_alone++] = given->vocabulary;
        if (given->calibrate)
            alone[n_alone++] = given->calibrate;
        confine(&(struct confinement){
            .sources = &source, .n_source = 1, .alone = alone, .n_alone = n_alone});
        status = given->calibrate ? convert_calibrated(source, given, options, &out, memory, error)
                                  : convert_into(source, &out, options, error);
        if (!status)
            status = output_keeper_commit(&keeper, error);
        output_keeper_end(&keeper);
        if (memory >= 0)
            close(memory);
    }
    output_file_close(&out);
    return status;
}

static int convert_source(const char *source, const struct convert_command_options *given) {
    struct convert_options options;
    struct progress progress;
    txl_error error = {0};
    translate_options(given, &options);
    options.note = print_note;
    options.progress = show_progress;
    options.progress_context = &progress;
    struct stat before;
    bool replaces = stat(given->output, &before) == 0 && S_ISREG(before.st_mode);
    progress_start(&progress, source, given->calibrate ? "matrices" : "MiB");
    signals_set_mapped(source);
    txl_status status = model_is_built_in(source)
                            ? write_built_in(given, &progress, &error)
                            : convert_confined(source, given, &options, &error);
    signals_set_mapped(NULL);
    progress_end(&progress);
    if (status && error.message[0] == '\0') /* it was printed */
        return status == TXL_STOPPED ? signals_status() : STATUS_FAILURE;
    if (!terminal_report(status, &error))
        return status == TXL_STOPPED ? signals_status() : STATUS_FAILURE;
    if (replaces)
        terminal_note("%s existed and was replaced", given->output);
    print_summary(source, given->output, terminal_seconds() - progress.start);
    return STATUS_OK;
}

static int run(const struct command *command, void *values, struct operands *operands) {
    struct convert_command_options *given = values;
    if (!given->output)
        return options_wrong(command, "--output is missing");
    size_t n;
    int *cutoffs = number_list(given->cutoffs ? given->cutoffs : "", &n);
    free(cutoffs);
    if (given->cutoffs && *given->cutoffs != '\0' && !cutoffs) {
        return options_wrong(command, "--cutoffs '%s' is not a list of whole numbers",
                             given->cutoffs);
    }
    if (given->type != CHOICE_UNSET)
        weight_type_text(given->type, given->embeddings, given->type_text);
    if (given->calibrate && (given->type_text[0] != 'q' || given->type_text[1] == '8'))
        return options_wrong(command, "--calibrate needs --type q4 or q5");
    if (model_is_built_in(operands->items[0]) &&
        options_any_given(command, values,
                          (const char *[]){"output", "type", "embeddings", "calibrate",
                                           "dynamic-lr", COMMON_NAMES, NULL},
                          false))
        return options_wrong(command,
                             BUILT_IN " is converted with --output, --type, --embeddings, "
                                      "--calibrate and --dynamic-lr alone: it is a weights file, "
                                      "which states everything else");
    return convert_source(operands->items[0], given);
}

/* ---- The table ---------------------------------------------------------------------------- */

#define PLACE(member) offsetof(struct convert_command_options, member)

static const struct option_row options[] = {
    {"output", OPTION_STRING, PLACE(output),
     "write the weights file OUT.txl; it appears when it is complete", .section = "Files",
     .letter = 'o', .argument = "OUT.txl", .file = FILE_PRODUCT, .output = OUTPUT_WEIGHTS},
    FORCE_ROW,
    {"vocab", OPTION_STRING, PLACE(vocabulary),
     "take the vocabulary of FILE: cache.pt, cache.pkl, vocab.bin, vocab.pkl, vocab.json, "
     "a SentencePiece model, a tokenizer.json made from one, or a text file with one symbol per "
     "line",
     .standard = "the one beside the checkpoint", .file = FILE_READ},
    MODEL_NAME_ROW(PLACE(name)),
    {"type", OPTION_CHOICE, PLACE(type),
     "store the weights in this type; q8: 8-bit integers with a scale for each 64; q5 and q4: 5 "
     "and 4 bits with a scale and a minimum for each 32",
     .choices = weight_types, .standard = "the checkpoint's; float64 becomes f32"},
    EMBEDDINGS_ROW(PLACE(embeddings)),
    {"calibrate", OPTION_STRING, PLACE(calibrate),
     "with --type q4 or q5: round so that errors cancel in what the model sees of the first 8,192 "
     "tokens of TEXT, which takes minutes; not for an XLNet",
     .argument = "TEXT", .file = FILE_READ},
    {"level", OPTION_INTEGER, PLACE(level),
     "compress with zstd at level N; 0: not at all, so that the weights are used in the "
     "file",
     .standard = "the fastest that saves space", .most = 22},
    {"n-head", OPTION_INTEGER, PLACE(n_head), "attention heads of a layer",
     .section = "Facts of the model, which override the checkpoint", .least = 1, .most = INT32_MAX},
    {"cutoffs", OPTION_STRING, PLACE(cutoffs),
     "first ids of the softmax's bands except the first, with commas between them; "
     "empty: there is one band",
     .argument = "LIST"},
    PRE_LNORM_ROW(.offset = PLACE(pre_lnorm)),
    {"attn-type", OPTION_INTEGER, PLACE(attn_type),
     "attention: 0: the paper's; 1: learned distances; 2: absolute positions by "
     "sinusoids; 3: learned absolute positions",
     .most = 3},
    {"memory-start", OPTION_CHOICE, PLACE(memory_start),
     "memory before the first token: empty, as in PyTorch, or zeros, as in TensorFlow",
     .choices = memory_starts},
    {"activation", OPTION_CHOICE, PLACE(activation),
     "XLNet: activation of the feed-forward part. For gelu in config.json convert takes "
     "gelu-tanh, which the published weights were trained with, but gelu-erf for a head that "
     "Hugging Face's transformers wrote; other models trained with 3.3 or later need gelu-erf",
     .choices = activations, .standard = "the checkpoint's"},
    {"cluster-order", OPTION_CHOICE, PLACE(cluster_order),
     "order of the bands in the softmax's head: reversed, as in PyTorch, or forward, as "
     "in TensorFlow",
     .choices = cluster_orders},
    {"layer-norm-eps", OPTION_REAL, PLACE(layer_norm_eps),
     "epsilon of layer normalisation; TensorFlow's code has 1e-12",
     .standard = "the checkpoint's, else 1e-5", .most = 1},
    {"tokenizer", OPTION_CHOICE, PLACE(tokenizer), "how text becomes symbols",
     .choice = tokenizer_name},
    TGT_LEN_ROW(.section = "Default settings of a run", .offset = PLACE(tgt_len)),
    MEM_LEN_ROW(.offset = PLACE(mem_len)),
    CLAMP_LEN_ROW(.offset = PLACE(clamp_len)),
    SAME_LENGTH_ROW(.offset = PLACE(same_length)),
    {"same-length-reach", OPTION_CHOICE, PLACE(reach),
     "positions that a token sees with --same-length yes, itself included", .choices = reaches,
     .standard = "mem_len, of TensorFlow's checkpoints mem_len+1"},
    {"dynamic-lr", OPTION_REAL, PLACE(dynamic_lr),
     "learning rate of adam in dynamic evaluation; not for an XLNet",
     .standard = "the program's, " TEXT_OF(DYNAMIC_ADAM_LR), .least = 1e-30, .most = 1},
    COMMON_ROWS,
    {0}};

static const struct operand_row operands[] = {
    {.name = "SOURCE",
     .help = "checkpoint: a folder or a file; " BUILT_IN
             ": the model within the program, which takes no other option than --output, --type, "
             "--embeddings, --calibrate and --dynamic-lr",
     .model = true},
    {0}};

static const struct example examples[] = {
    {"txl convert transfo-xl-wt103/ -o wt103.txl", "a directory from Hugging Face"},
    {"txl convert xlnet_cased_L-12_H-768_A-12/ -o xlnet.txl", "the authors' TensorFlow archive"},
    {"txl convert model.pt -o enwik8.txl --type bf16", "half the size of f32"},
    {"txl convert model.pt -o enwik8.txl --type q8", "little more than a quarter of it"},
    {"txl convert model.pt -o enwik8.txl --type q4", "little more than a seventh of it"},
    {"txl convert state.pt --vocab cache.pt --pre-lnorm no --memory-start empty --tgt-len 80 "
     "--mem-len 2100 --clamp-len 820 --same-length yes -o mine.txl",
     "a bare state dict, with the facts that it does not have"},
    {0}};

/* The options of -h. */
static const char *const brief[] = {"output",     "vocab",     "tokenizer", "type",
                                    "embeddings", "calibrate", "level",     "name",
                                    "tgt-len",    "mem-len",   NULL};

const struct command convert_command = {
    .name = "convert",
    .summary = "make a weights file from a published checkpoint",
    .description =
        "Reads the checkpoint and the vocabulary of SOURCE and writes them to one weights "
        "file, for the --model of the other commands.",
    .options = options,
    .brief = brief,
    .operands = operands,
    .examples = examples,
    .topics = convert_topics,
    .shared = "heads outputs summary",
    .size = sizeof(struct convert_command_options),
    .run = run,
};
