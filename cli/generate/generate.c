/* txl generate: continues a prompt. */
#include "generate.h"
#include "cli/commands.h"
#include "cli/io/clean.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern const char generate_topics[]; /* cli/generate/generate.txt */

const struct generate_options generate_defaults = {.session = SESSION_UNSET,
                                                   .own = TEXT_OPTIONS_STANDARD,
                                                   .text = CHOICE_UNSET,
                                                   .refresh = INTEGER_UNSET,
                                                   .begin_word = CHOICE_UNSET,
                                                   .samples = 1,
                                                   .draft_length = INTEGER_UNSET,
                                                   .dynamic = DYNAMIC_UNSET};

static bool open_prompt(struct generate *g) {
    const struct generate_options *options = g->options;
    struct prompt *prompt = &g->prompt;
    *prompt = (struct prompt){.model = &g->model,
                              .raw = g->rules.raw,
                              .ids = options->ids,
                              .skip_unknown = options->skip_unknown,
                              .echo = !options->no_echo && !options->json && !options->prompts,
                              .no_blank = options->ids && options->no_echo,
                              .history = g->sample.text.history,
                              .reading = &g->rules.reading,
                              .context = options->context,
                              .context_text = options->context_text,
                              .common = &options->common,
                              .turns = options->interactive,
                              .memory = g->memory,
                              .session = &g->sample.text.session,
                              .learner = g->dynamic.learner};
    if (options->prompt) {
        if (!tokens_open_text(&prompt->input, options->prompt, g->model.handle, options->ids,
                              &options->common)) {
            if (access(options->prompt, F_OK) != 0)
                terminal_note(
                    "--prompt takes the name of a file; --prompt-text takes the text itself");
            return false;
        }
    } else if (options->prompt_text) {
        if (!options->interactive && input_has_text())
            return terminal_error("--prompt-text is the prompt, but standard input has text too: "
                                  "leave out one of them (</dev/null reads nothing)");
        input_open_string(&prompt->input, "--prompt-text", options->prompt_text);
        if (options->common.unwrap)
            tokens_unwrap(&prompt->input, txl_model_kind(g->model.handle), true);
    } else if (options->interactive || options->prompts || !input_is_piped()) {
        input_open_string(&prompt->input, "the empty prompt", "");
    } else if (!tokens_open_text(&prompt->input, "-", g->model.handle, options->ids,
                                 &options->common)) {
        return false;
    }
    return options->samples == 1 || input_make_seekable(&prompt->input);
}

/* Refuses options that mean nothing to the model's family. */
static bool check_family(const struct generate *g) {
    const struct generate_options *o = g->options;
    const struct meaningless not_there[] = {
        {o->session.same_length != CHOICE_UNSET, "--same-length", "which sees both sides"},
        {o->dynamic.on, "--dynamic", "which txl cannot train"},
    };
    const struct meaningless not_here[] = {
        {o->refresh != INTEGER_UNSET, "--refresh", "which sees what is to the left alone"},
    };
    return model_allows(&g->model, not_there, sizeof not_there / sizeof *not_there) &&
           model_needs_both_sides(&g->model, not_here, sizeof not_here / sizeof *not_here);
}

/* Chooses how known tokens are read: as for the saved text, or as the options say. */
static bool choose_reading(struct generate *g) {
    const struct generate_options *o = g->options;
    txl_resume resume = {0};
    int64_t refresh = o->refresh != INTEGER_UNSET ? o->refresh : REFRESH_TOKENS;
    if (g->memory) {
        txl_memory_resume(g->memory, &resume);
        if (o->refresh != INTEGER_UNSET && o->refresh != resume.refresh) {
            return terminal_error("--refresh %" PRId64 ": %s was saved with %" PRIu32, o->refresh,
                                  o->load_memory, resume.refresh);
        }
        refresh = resume.refresh;
    }
    g->rules.reading = (struct reading){.both_sides = model_sees_both_sides(&g->model),
                                        .tgt_len = (size_t)g->rules.settings.tgt_len};
    if (!g->rules.reading.both_sides)
        return true;
    g->rules.reading.refresh = (size_t)refresh;
    if (refresh > 0 && g->rules.settings.tgt_len > PLAIN_WINDOW) {
        return terminal_error("--tgt-len %d: with --refresh it is at most %d",
                              g->rules.settings.tgt_len, PLAIN_WINDOW);
    }
    if (refresh > 0 && !g->memory)
        g->rules.settings.mem_len =
            g->rules.settings.tgt_len + (int)refresh; /* a round forgets nothing */
    return true;
}

/* Generating is bound by the bytes that it reads, so memory in 16 bits is the default.  A saved
 * memory has its own type. */
static void choose_memory_type(struct generate *g) {
    const struct generate_options *o = g->options;
    bool free = o->session.memory_type == CHOICE_UNSET && !g->memory && !o->dynamic.on;
    if (free && g->rules.settings.arithmetic == TXL_ARITHMETIC_FAST)
        g->rules.settings.memory_type = TXL_MEMORY_F16;
}

/* A person reads what a terminal shows, and would see a sentence cut short; text8 has none. */
static void choose_end(struct generate_options *o, txl_kind kind) {
    bool turns = o->interactive, objects = o->json || o->prompts;
    bool sentences = !turns && !objects && !o->ids && kind != TXL_TEXT8;
    if (o->own.end == CHOICE_UNSET)
        o->own.end = sentences && isatty(STDOUT_FILENO) ? END_SENTENCE : END_TOKEN;
}

/* Why a text of the run can have no drafts, or NULL. */
static const char *why_no_drafts(const struct generate *g) {
    const struct generate_options *o = g->options;
    if (txl_session_reach(g->sample.text.session) == UINT64_MAX)
        return "the model has no memory that drafts could be read into";
    if (o->samples > 1 || o->prompts)
        return "texts that are made together share each pass";
    return text_rules_read_text(&g->rules) ? "a rule against repetition makes them wrong" : NULL;
}

/* Drafts change the time that a text takes, and nothing else.  Guesses at words and subwords are
 * seldom right, so these have drafts only where they are asked for. */
static bool choose_drafts(struct generate *g) {
    const struct generate_options *o = g->options;
    const bool given = o->draft_length != INTEGER_UNSET;
    const txl_unit unit = model_unit(g->model.handle);
    const char *why = why_no_drafts(g);
    if (given && o->draft_length > 0 && why)
        terminal_note("--draft-length %" PRId64 " changes nothing: %s", o->draft_length, why);
    if (given ? o->draft_length == 0 : unit != TXL_UNIT_CHARACTER)
        return true;
    if (why && !o->interactive)
        return true;
    g->sample.text.drafts = drafts_new(unit, given ? (size_t)o->draft_length : DRAFT_MOST, given);
    return g->sample.text.drafts || terminal_error("out of memory");
}

static bool set_up(struct generate *g, struct generate_options *options) {
    txl_error error;
    int form;
    if (!model_open(&g->model, &options->common) ||
        !text_form_choose(txl_model_kind(g->model.handle), options->text, TEXT_RAW, &form) ||
        !tokens_allow_unwrap(txl_model_kind(g->model.handle), &options->common))
        return false;
    g->rules = (struct text_rules){.model = &g->model,
                                   .network = g->model.handle,
                                   .raw = form == TEXT_RAW,
                                   .ids = options->ids,
                                   .keeps = options->save_memory || options->interactive,
                                   .top = (size_t)options->logprobs};
    sampling_choose(&options->own.sampling, g->model.handle);
    choose_end(options, txl_model_kind(g->model.handle));
    txl_model_defaults(g->model.handle, &g->rules.settings);
    if (options->load_memory) {
        if (txl_memory_read(options->load_memory, g->model.handle, &g->memory, &error))
            return terminal_error("%s", error.message);
        txl_memory_settings(g->memory, &g->rules.settings);
    }
    if (!check_family(g))
        return false;
    settings_override(&g->rules.settings, &options->session, &options->common);
    choose_memory_type(g);
    if (!choose_reading(g) || !model_has_symbols(&g->model, options->logprobs))
        return false;
    txl_session *session;
    if (!generate_choose(g) || !session_open(&g->model, &g->rules.settings, &session) ||
        !terminal_report(text_open(&g->sample.text, &g->rules, session, &error), &error))
        return false;
    txl_session_settings(g->sample.text.session, &g->rules.settings);
    if (!choose_drafts(g))
        return false;
    if (!options->ids && txl_decoder_new(g->model.handle, g->rules.raw, &g->rules.scratch, &error))
        return terminal_error("%s", error.message);
    const struct dynamic_text text = {g->rules.raw, options->ids, options->skip_unknown,
                                      &options->common};
    if (options->dynamic.on &&
        !dynamic_open(&g->dynamic, &options->dynamic, &g->model, &g->rules.settings, &text, false))
        return false;
    if (options->dynamic.on)
        txl_learner_start(g->dynamic.learner);
    return open_prompt(g);
}

static void clean_up(struct generate *g) {
    input_close(&g->prompt.input);
    sample_close(&g->sample);
    dynamic_close(&g->dynamic);
    id_list_free(&g->rules.banned);
    id_list_free(&g->first_banned);
    txl_decoder_free(g->rules.scratch);
    txl_memory_free(g->memory);
    model_close(&g->model);
}

static void choose_greedy(struct generate_options *options) {
    if (options->own.sampling.greedy)
        options->own.sampling.temperature = 0;
}

static double tokens_per_second(const struct generate *g) {
    return g->seconds > 0 ? (double)g->tokens / g->seconds : 0;
}

/* `texts`: how many, as keys and values; `seed`: with which one, likewise. */
static void print_settings(const struct generate *g, const char *texts, const char *seed) {
    const struct generate_options *options = g->options;
    char sampling[512], settings[8192], learned[48] = "", accepted[48] = "";
    sampling_to_text(sampling, sizeof sampling, &options->own.sampling);
    const struct run_settings run = generate_settings(g);
    settings_to_text(settings, sizeof settings, &g->model, &g->rules.settings, &run);
    size_t n = strlen(sampling);
    snprintf(sampling + n, sizeof sampling - n, " eos=%s%s", eos_ways[options->own.eos],
             options->own.end == END_SENTENCE ? " end=sentence" : "");
    if (options->dynamic.on)
        snprintf(learned, sizeof learned, " segments_learned=%" PRIu64, g->prompt.segments_learned);
    if (g->sample.text.drafts)
        snprintf(accepted, sizeof accepted, " accepted=%" PRIu64,
                 drafts_accepted(g->sample.text.drafts));
    terminal_summary("%s prompt_tokens=%" PRIu64 " unknown=%" PRIu64 "%s tokens=%" PRIu64
                     "%s done=%s seed=%s seconds=%.2f tokens_per_second=%.1f %s "
                     "allow_unk=%s text=%s %s",
                     texts, g->prompt.tokens, g->prompt.unknown.n, learned, g->tokens, accepted,
                     g->done, seed, g->seconds, tokens_per_second(g), sampling,
                     options->own.allow_unk ? "yes" : "no", run.text, settings);
}

static const char *brief_end(const struct generate *g) {
    return strcmp(g->done, "interrupted") == 0 ? ", interrupted" : "";
}

static void print_summary(const struct generate *g, int64_t samples) {
    char texts[64], seed[32];
    snprintf(texts, sizeof texts, "samples=%" PRId64, samples);
    snprintf(seed, sizeof seed, "%" PRIu64, g->seed);
    terminal_brief("%" PRIu64 " token%s, seed %s, %.1f tokens/s%s", g->tokens, plural(g->tokens),
                   seed, tokens_per_second(g), brief_end(g));
    print_settings(g, texts, seed);
}

/* Each text has a seed of its own, unless the command line gives one. */
static void print_prompts_summary(const struct generate *g, const struct prompts_result *result) {
    char texts[96], seed[32] = "-", failed[48] = "";
    snprintf(texts, sizeof texts, "prompts=%" PRIu64 " failed=%" PRIu64, result->prompts,
             result->failed);
    if (g->options->own.seed != INTEGER_UNSET)
        snprintf(seed, sizeof seed, "%" PRId64, g->options->own.seed);
    if (result->failed > 0)
        snprintf(failed, sizeof failed, ", %" PRIu64 " failed", result->failed);
    terminal_brief("%" PRIu64 " prompt%s%s, %" PRIu64 " token%s, %.1f tokens/s%s", result->prompts,
                   result->prompts == 1 ? "" : "s", failed, g->tokens, plural(g->tokens),
                   tokens_per_second(g), brief_end(g));
    print_settings(g, texts, seed);
}

/* Saves the memory; between the turns of an interactive text it exists already. */
static bool save_memory(const struct generate *g) {
    txl_error error;
    txl_memory *made = NULL;
    if (!g->options->interactive &&
        !terminal_report(text_save(&g->sample.text, &made, &error), &error))
        return false;
    const txl_memory *memory = made ? made : g->memory;
    txl_status status = TXL_OK;
    if (memory)
        status = txl_memory_write(memory, g->options->save_memory, &error);
    txl_memory_free(made);
    return terminal_report(status, &error);
}

/* Whether the memory is saved.  It is that of the last whole turn, whatever came then; else nothing
 * of the text or its output has failed. */
static bool is_saved(const struct generate *g, txl_status status) {
    if (!g->options->save_memory || g->tokens == 0)
        return false;
    output_flush();
    return g->options->interactive || ((!status || status == TXL_STOPPED) && !output_failed());
}

static int finish_generation(const struct generate *g, txl_status status, int64_t samples) {
    if (is_saved(g, status) && !save_memory(g))
        return output_finish(STATUS_FAILURE);
    int exit_status = STATUS_OK;
    if (signals_stopped())
        exit_status = signals_status();
    else if (status && status != TXL_STOPPED)
        return output_finish(STATUS_FAILURE);
    exit_status = output_finish(exit_status);
    if (!output_failed())
        print_summary(g, samples);
    return exit_status;
}

static int generate_samples(struct generate *g) {
    txl_status status = continue_prompt(g, g->options->samples);
    if (g->options->save_memory)
        output_end_line();
    else
        output_start_line();
    return finish_generation(g, status, g->samples);
}

static int generate_prompts(struct generate *g, struct generate_options *options,
                            const struct command *command) {
    struct prompts_result result;
    txl_status status = prompts_run(g, command, &result);
    int exit_status = signals_stopped() ? signals_status() : STATUS_OK;
    bool broken = status && status != TXL_STOPPED;
    if (exit_status == STATUS_OK && (broken || result.failed > 0))
        exit_status = STATUS_FAILURE;
    exit_status = output_finish(exit_status);
    choose_greedy(options);
    if (!output_failed() && !broken)
        print_prompts_summary(g, &result);
    return exit_status;
}

static int generate_by_turns(struct generate *g, struct generate_options *options,
                             const struct command *command) {
    int64_t texts;
    txl_status status = interactive_run(g, options, command, &texts);
    return finish_generation(g, status, texts);
}

/* Hints that '\n' is a backslash and an n: neither the shell nor txl makes it a line feed. */
static void note_backslash(const char *option, const char *text) {
    const char *backslash = text ? strchr(text, '\\') : NULL;
    if (backslash && backslash[1] != '\0' && strchr("ntr", backslash[1]))
        terminal_note(
            "%s '%s' is taken literally, with its backslash; --escapes takes \\%c for the "
            "character that it stands for",
            option, text, backslash[1]);
}

/* Replaces the escapes of a text in its own memory, which is an argument of the program. */
static void take_escapes(const char *option, const char *text, bool escapes) {
    if (escapes && text)
        unescape((char *)(uintptr_t)text);
    else
        note_backslash(option, text);
}

static void take_all_escapes(const struct generate_options *options) {
    for (size_t i = 0; i < options->own.stop.n; i++)
        take_escapes("--stop", options->own.stop.items[i], options->escapes);
    take_escapes("--prompt-text", options->prompt_text, options->escapes);
    take_escapes("--context-text", options->context_text, options->escapes);
}

/* Whether the file can be read again for every prompt. */
static bool is_regular(const char *path) {
    struct stat status;
    return strcmp(path, "-") != 0 && (stat(path, &status) != 0 || S_ISREG(status.st_mode));
}

static int check_prompts(const struct command *command, const struct generate_options *o) {
    if (o->prompts && o->own.n == 0)
        return options_wrong(command, "--prompts cannot be combined with --tokens 0: each text "
                                      "must end");
    if (o->prompts && o->context && !is_regular(o->context))
        return options_wrong(command, "--prompts reads --context for every prompt: name a file");
    return OPTIONS_RUN;
}

static int check_options(const struct command *command, const struct generate_options *options) {
    if (check_prompts(command, options) != OPTIONS_RUN)
        return STATUS_USAGE;
    if (options->interactive && options->prompt && strcmp(options->prompt, "-") == 0) {
        return options_wrong(command,
                             "--interactive reads standard input: name a file to --prompt");
    }
    if (dynamic_check(command, &options->dynamic) != OPTIONS_RUN)
        return STATUS_USAGE;
    if (generate_check_turn(command, options->turn) != OPTIONS_RUN)
        return STATUS_USAGE;
    const char *wrong = text_options_wrong(&options->own, options->ids, options->interactive);
    if (wrong)
        return options_wrong(command, "%s", wrong);
    take_all_escapes(options);
    return OPTIONS_RUN;
}

static int run(const struct command *command, void *values, struct operands *operands) {
    struct generate_options *options = values;
    (void)operands;
    int status = check_options(command, options);
    if (status != OPTIONS_RUN)
        return status;
    if (!options->prompts) /* whose lines may have another temperature */
        choose_greedy(options);
    output_set_raw(options->raw_output);
    struct generate *g = calloc(1, sizeof *g); /* too large for a stack whose growth may fail */
    if (!g) {
        terminal_error("out of memory");
        return STATUS_FAILURE;
    }
    g->options = options;
    g->done = "length";
    g->prompt.input.handle = -1;
    status = !set_up(g, options)    ? STATUS_FAILURE
             : options->interactive ? generate_by_turns(g, options, command)
             : options->prompts     ? generate_prompts(g, options, command)
                                    : generate_samples(g);
    clean_up(g);
    free(g);
    return status;
}

/* ---- The table ---------------------------------------------------------------------------- */

#define PLACE(member) offsetof(struct generate_options, member)

static const struct option_row options[] = {
    {"prompt", OPTION_STRING, PLACE(prompt), "continue the text of FILE; -: of standard input",
     .section = "Prompt", .letter = 'p', .standard = "standard input, unless it is a terminal",
     .file = FILE_READ},
    {"prompt-text", OPTION_STRING, PLACE(prompt_text), "continue STRING", .argument = "STRING",
     .excludes = "prompt"},
    {"escapes", OPTION_FLAG, PLACE(escapes),
     "take \\n, \\t, \\\\, \\xHH in --prompt-text, --context-text and --stop for characters",
     .letter = 'e'},
    {"begin-word", OPTION_CHOICE, PLACE(begin_word),
     "subword models: begin a new word after the prompt", .choices = answers,
     .standard = "yes after a line end and typed ones"},
    {"prompts", OPTION_STRING, PLACE(prompts), "continue each line of FILE; see txl help prompts",
     .file = FILE_READ, .excludes = "prompt prompt-text interactive samples save-memory dynamic"},
    TEXT_ROW(.standard = "raw", .offset = PLACE(text)),
    {"context", OPTION_STRING, PLACE(context), "read FILE, whole lines, before the prompt",
     .file = FILE_READ, .excludes = "load-memory"},
    {"context-text", OPTION_STRING, PLACE(context_text), "the same with STRING, lines of their own",
     .argument = "STRING", .excludes = "context load-memory"},
    {"refresh", OPTION_INTEGER, PLACE(refresh),
     "XLNet: read the last tgt-len tokens again before every R new ones; 0: never", .argument = "R",
     .standard = TEXT_OF(REFRESH_TOKENS), .most = TXL_MAX_TGT_LEN / 2},
    SKIP_UNKNOWN_ROW("", PLACE(skip_unknown)),
    BINARY_ROW,
    UNWRAP_ROW,
    {"no-echo", OPTION_FLAG, PLACE(no_echo), "do not print the prompt before its continuation"},
    {"interactive", OPTION_FLAG, PLACE(interactive),
     "write alternately: your line, then the model's turn; /help lists commands", .letter = 'i',
     .excludes = "json ids samples"},
    {"turn", OPTION_STRING, PLACE(turn), "with --interactive: end the model's turn there",
     .argument = "sentence|line|N", .standard = "sentence", .needs = "interactive"},
    TEXT_LENGTH_ROWS(PLACE(own)),
    {"samples", OPTION_INTEGER, PLACE(samples), "generate N texts from the prompt", .standard = "1",
     .least = 1, .most = INT32_MAX},
    {"draft-length", OPTION_INTEGER, PLACE(draft_length),
     "check N guessed tokens at a time, for speed; 0: none", .standard = "for characters what pays",
     .most = DRAFT_MOST},
    TEXT_DRAW_ROWS(struct generate_options, own),
    {"json", OPTION_FLAG, PLACE(json),
     "print an object for each token, and one at the end of each sample", .section = "Output"},
    {"logprobs", OPTION_INTEGER, PLACE(logprobs),
     "with --json: list the K most likely tokens of each step with their log-probabilities",
     .argument = "K", .standard = "0", .most = INT32_MAX - 1, .needs = "json"},
    {"ids", OPTION_FLAG, PLACE(ids), "read and print decimal ids", .excludes = "unwrap"},
    RAW_OUTPUT_ROW(struct generate_options, raw_output),
    SESSION_ROWS(struct generate_options, session,
                 "f16, or f32 with --arithmetic exact or --dynamic"),
    ARITHMETIC_ROW(PLACE(session.arithmetic)),
    {"save-memory", OPTION_STRING, PLACE(save_memory),
     "write to FILE at the end what --load-memory needs", .file = FILE_WHOLE,
     .output = OUTPUT_MEMORY, .over = "load-memory", .excludes = "samples"},
    FORCE_ROW,
    {"load-memory", OPTION_STRING, PLACE(load_memory),
     "continue the text that --save-memory wrote to FILE", .file = FILE_READ},
    DYNAMIC_ROW(struct generate_options, dynamic,
                "learn from the prompt before continuing it; see txl help learning",
                DYNAMIC_EXCLUDES " save-memory load-memory interactive refresh"),
    DYNAMIC_LR_ROW(struct generate_options, dynamic),
    STATISTICS_ROW(struct generate_options, dynamic),
    MODEL_ROW,
    LOW_MEMORY_ROW,
    COMMON_ROWS,
    {0}};

static const struct example examples[] = {
    {"echo \"It was a dark and stormy night\" | txl generate -n 300",
     "continue a sentence with the built-in model"},
    {"txl generate --prompt chapter.txt --seed 7 --samples 3", "three continuations of a file"},
    {"txl generate --model wt103.txl --prompt-text \"The tower\" --stop $'\\n'",
     "to the end of the line, in a shell such as bash"},
    {"txl generate --prompts prompts.jsonl -n 50 --seed 1 > texts.jsonl",
     "continue every line's prompt, {\"prompt\": \"She said\"}"},
    {0}};

/* The options of -h. */
static const char *const brief[] = {"prompt", "prompt-text", "interactive", "tokens",
                                    "end",    "samples",     "temperature", "seed",
                                    "json",   "model",       NULL};

const struct command generate_command = {
    .name = "generate",
    .summary = "continue a prompt with generated text",
    .description =
        "Prints the prompt and continues it with text that the model generates, token by token. "
        "Without a prompt it starts a new text.",
    .operand_hint = "--prompt FILE continues the text of a file, --prompt-text STRING one of your "
                    "own",
    .options = options,
    .brief = brief,
    .examples = examples,
    .topics = generate_topics,
    .shared = "wrapped outputs summary",
    .defaults = &generate_defaults,
    .size = sizeof generate_defaults,
    .run = run,
};
