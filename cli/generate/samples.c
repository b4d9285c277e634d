/* Continues a prompt: several samples of it side by side, printed one after the other. */
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "generate.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct batch {
    struct texts texts;
    struct sample *each[TEXTS_TOGETHER]; /* [n] */
    struct sample copy[TEXTS_TOGETHER];  /* all of them except the last of all samples */
    size_t n;
    size_t turn; /* the sample whose output is printed as it comes; the others wait */
    bool begun;  /* its introduction was printed */

    struct progress progress; /* of all batches */
    uint64_t made;            /* tokens, likewise */
    int64_t samples;
};

/* The last of all samples uses the session that was fed the prompt, which no other sample needs any
 * more. */
static txl_status open_batch(struct generate *g, struct batch *b) {
    txl_error error;
    size_t most = texts_most(&g->rules);
    int64_t first = g->samples + 1;
    for (b->n = 0; b->n < most && g->samples < b->samples; g->samples++) {
        struct sample *copy = &b->copy[b->n];
        bool last = g->samples + 1 == b->samples;
        b->each[b->n++] = last ? &g->sample : copy;
        *copy = (struct sample){.number = 0};
        if (!last && !terminal_report(text_copy(&copy->text, &g->sample.text, &error), &error))
            return TXL_MEMORY;
    }
    for (size_t i = 0; i < b->n; i++) {
        if (!sample_start(g, b->each[i], first + (int64_t)i))
            return TXL_MEMORY;
        texts_add(&b->texts, &b->each[i]->text);
    }
    b->turn = 0;
    b->begun = false;
    return TXL_OK;
}

static void close_batch(struct generate *g, struct batch *b) {
    for (size_t i = 0; i < b->n; i++)
        if (b->each[i] != &g->sample)
            sample_close(b->each[i]);
    b->texts.n = 0;
}

/* ---- Printing ------------------------------------------------------------------------------ */

/* Prints what precedes a sample.  Before the first, feeding has echoed the prompt. */
static txl_status introduce_sample(struct generate *g, const struct sample *s) {
    if (s->number == 1 || g->options->json)
        return TXL_OK;
    if (!output_start_line() || !output_line("--- sample %" PRId64 " ---", s->number))
        return TXL_STOPPED;
    return prompt_repeat(&g->prompt);
}

/* Prints the new output of the sample whose turn it is; if it has ended, that of the next, and so
 * on. */
static txl_status print_samples(struct generate *g, struct batch *b) {
    for (;;) {
        struct sample *s = b->each[b->turn];
        txl_status status = b->begun ? TXL_OK : introduce_sample(g, s);
        b->begun = true;
        if (status)
            return status;
        if (g->options->interactive &&
            !buffer_append(&g->transcript, s->output.data, s->output.length))
            return terminal_lacks_memory();
        if (!g->unprinted && (!output_text(s->output.data, s->output.length) || !output_flush()))
            return TXL_STOPPED;
        s->output.length = 0;
        if (!s->text.done || b->turn + 1 == b->n)
            return TXL_OK;
        b->turn++;
        b->begun = false;
    }
}

/* Prints what was made of all samples, after a failure. */
static void print_rest(struct generate *g, struct batch *b) {
    for (size_t i = 0; i < b->n; i++)
        if (!b->each[i]->text.done)
            b->each[i]->text.done = "failed";
    print_samples(g, b);
}

/* ---- Samples side by side ------------------------------------------------------------------ */

/* Draws a token for every sample that has not ended. */
static txl_status draw_tokens(struct generate *g, struct batch *b) {
    texts_draw(&b->texts);
    for (size_t i = 0; i < b->n; i++) {
        struct sample *s = b->each[i];
        if (!terminal_report(s->text.status, &s->text.error))
            return s->text.status;
        if (!s->text.drawn)
            continue;
        b->made += !s->text.refused;
        txl_status status = sample_put(g, s);
        if (status)
            return status;
        if (s->text.done)
            g->done = s->text.done;
    }
    return TXL_OK;
}

/* Feeds them, and takes those that have ended. */
static txl_status feed_tokens(struct batch *b) {
    texts_feed(&b->texts);
    for (struct text *text; (text = texts_take(&b->texts));)
        if (!terminal_report(text->status, &text->error))
            return text->status;
    return TXL_OK;
}

/* Takes one step of all samples. */
static txl_status step_samples(struct generate *g, struct batch *b) {
    txl_status status = draw_tokens(g, b);
    if (status)
        return status;
    txl_status shown = print_samples(g, b);
    if (!shown || g->rules.keeps)
        status = feed_tokens(b);
    double all = (double)g->rules.n * (double)b->samples;
    progress_update(&b->progress, all > 0 ? (double)b->made / all : -1, b->made);
    return status ? status : shown;
}

static txl_status run_batch(struct generate *g, struct batch *b) {
    txl_status status = TXL_OK;
    while (!status && b->texts.n > 0)
        status = step_samples(g, b);
    if (status == TXL_STOPPED)
        g->done = "closed";
    else if (status)
        print_rest(g, b);
    return status;
}

static txl_status continue_text(struct generate *g, int64_t samples) {
    struct batch batch = {.samples = samples};
    txl_status status;
    progress_start(&batch.progress, "generating", "tokens");
    batch.progress.off = !output_is_file() && !g->unprinted; /* the text itself is seen */
    do {
        status = open_batch(g, &batch);
        if (!status)
            status = run_batch(g, &batch);
        close_batch(g, &batch);
    } while (!status && g->samples < samples && !signals_stopped());
    progress_end(&batch.progress);
    g->tokens += batch.made;
    g->seconds += terminal_seconds() - batch.progress.start;
    return status;
}

/* ---- After the prompt ---------------------------------------------------------------------- */

/* A signal during the prompt ends a sample without tokens. */
static void interrupt_prompt(struct generate *g) {
    struct sample *s = &g->sample;
    g->done = "interrupted";
    if (sample_start(g, s, 1) && !sample_end(g, s, g->done) &&
        output_text(s->output.data, s->output.length))
        output_flush();
}

bool generate_choose_first(struct generate *g) {
    const struct generate_options *o = g->options;
    const struct prompt *prompt = &g->prompt;
    const txl_model *model = g->model.handle;
    const unsigned char tail = (unsigned char)prompt->tail;
    const bool in_word = isalnum(tail) || tail >= 0x80, typed = o->interactive;
    const bool begins =
        o->begin_word == CHOICE_UNSET ? prompt->after_line || typed : o->begin_word == ANSWER_YES;
    txl_error error;
    g->first_banned.n = 0;
    if (txl_kind_unit(txl_model_kind(model)) != TXL_UNIT_PIECE || o->ids || prompt->tokens == 0 ||
        !(prompt->after_blank || (begins && in_word)))
        return true;
    return terminal_report(
        text_list_first(&g->first_banned, &g->rules.banned, model, prompt->after_blank, &error),
        &error);
}

txl_status continue_prompt(struct generate *g, int64_t samples) {
    g->samples = 0;
    txl_status status = prompt_feed(&g->prompt);
    if (!status && !generate_choose_first(g))
        status = TXL_MEMORY;
    if (status) {
        if (signals_stopped())
            interrupt_prompt(g);
        return status;
    }
    unknown_note(&g->prompt.unknown, g->prompt.input.name, txl_model_unk(g->model.handle) >= 0);
    if (g->options->dynamic.on && g->prompt.segments_learned == 0)
        terminal_note("--dynamic: nothing was learned: the context and the prompt have %" PRIu64
                      " tokens, a segment and the token after it %d",
                      g->prompt.before + g->prompt.tokens, g->rules.settings.tgt_len + 1);
    return continue_text(g, samples);
}

/* ---- How tokens are drawn ----------------------------------------------------------------- */

/* Reads "sentence", which NULL is too, "line", or a number of tokens, to which `*n` is lowered. */
static bool choose_turn(const char *name, enum turn *turn, uint64_t *n) {
    *turn = !name || strcmp(name, "sentence") == 0 ? TURN_SENTENCE
            : strcmp(name, "line") == 0            ? TURN_LINE
                                                   : TURN_TOKENS;
    if (*turn != TURN_TOKENS)
        return true;
    unsigned long long most = strtoull(name, NULL, 10);
    if (name[strspn(name, "0123456789")] != '\0' || strlen(name) > 15 || most == 0)
        return false;
    *n = *n == 0 || most < *n ? most : *n;
    return true;
}

int generate_check_turn(const struct command *command, const char *name) {
    enum turn turn;
    uint64_t n = 0;
    if (choose_turn(name, &turn, &n))
        return OPTIONS_RUN;
    return options_wrong(command, "--turn '%s': sentence, line or a number of tokens is expected",
                         name);
}

bool generate_choose(struct generate *g) {
    const struct generate_options *o = g->options;
    txl_error error;
    g->rules.options = &o->own;
    if (!terminal_report(text_rules_choose(&g->rules, &error), &error))
        return false;
    if (txl_model_eos(g->model.handle) < 0 && o->own.eos != EOS_NEWLINE && g->line == 0)
        terminal_note("--eos %s changes nothing: this model has no <eos>", eos_ways[o->own.eos]);
    if (o->interactive)
        choose_turn(o->turn, &g->rules.turn, &g->rules.n);
    if (o->own.seed != INTEGER_UNSET || !g->memory)
        return sampling_seed(o->own.seed, &g->seed);
    txl_resume resume;
    txl_memory_resume(g->memory, &resume);
    g->seed = resume.random.seed;
    return true;
}
