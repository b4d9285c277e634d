/* Continues a text: makes several samples together, so that the weights are read once for all of
 * them. */
#include "continue.h"

#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "sample.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Samples that are made together ------------------------------------------------------- */

struct batch {
    struct sample *each[SAMPLES_TOGETHER]; /* [n] */
    struct sample copy[SAMPLES_TOGETHER];  /* all of them except the last of all samples */
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
    size_t most = sample_most_together(g);
    int64_t first = g->samples + 1;
    for (b->n = 0; b->n < most && g->samples < b->samples; g->samples++) {
        struct sample *copy = &b->copy[b->n];
        bool last = g->samples + 1 == b->samples;
        b->each[b->n++] = last ? &g->sample : copy;
        if (!last && !sample_copy(g, &g->sample, copy))
            return TXL_MEMORY;
    }
    txl_status status = TXL_OK;
    for (size_t i = 0; i < b->n && !status; i++)
        status = sample_start(g, b->each[i], first + (int64_t)i, g->prompt.tail);
    b->turn = 0;
    b->begun = false;
    return status;
}

static void close_batch(struct generate *g, struct batch *b) {
    for (size_t i = 0; i < b->n; i++)
        if (b->each[i] != &g->sample)
            sample_close(b->each[i]);
}

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
        if (!output_text(s->output.data, s->output.length) || !output_flush())
            return TXL_STOPPED;
        s->output.length = 0;
        if (!s->done || b->turn + 1 == b->n)
            return TXL_OK;
        b->turn++;
        b->begun = false;
    }
}

/* Prints what was made of all samples, after a failure. */
static void show_rest(struct generate *g, struct batch *b) {
    for (size_t i = 0; i < b->n; i++)
        if (!b->each[i]->done)
            b->each[i]->done = "failed";
    print_samples(g, b);
}

/* Draws another token for every sample that has not ended. */
static txl_status make_tokens(struct generate *g, struct batch *b) {
    for (size_t i = 0; i < b->n; i++) {
        struct sample *s = b->each[i];
        if (s->done)
            continue;
        uint64_t before = s->made;
        txl_status status = sample_token(g, s);
        if (status)
            return status;
        b->made += s->made - before;
        if (s->done)
            g->done = s->done;
    }
    return TXL_OK;
}

/* Feeds the tokens to the `n` samples that go on. */
static txl_status feed_tokens(const struct generate *g, const struct batch *b, size_t *n) {
    struct sample *fed[SAMPLES_TOGETHER];
    size_t n_fed = 0;
    *n = 0;
    for (size_t i = 0; i < b->n; i++) {
        struct sample *s = b->each[i];
        *n += !s->done;
        if (!s->done || (g->keeps && !s->refused))
            fed[n_fed++] = s;
    }
    return sample_feed_each(&g->reading, fed, n_fed);
}

/* Takes one step of all samples.  `*left` receives how many have not ended. */
static txl_status step_samples(struct generate *g, struct batch *b, size_t *left) {
    txl_status status = make_tokens(g, b);
    if (status)
        return status;
    txl_status shown = print_samples(g, b);
    if (!shown || g->keeps)
        status = feed_tokens(g, b, left);
    double all = (double)g->n * (double)b->samples;
    progress_update(&b->progress, all > 0 ? (double)b->made / all : -1, b->made);
    return status ? status : shown;
}

static txl_status run_batch(struct generate *g, struct batch *b) {
    txl_status status = TXL_OK;
    size_t left = b->n;
    while (!status && left > 0)
        status = step_samples(g, b, &left);
    if (status == TXL_STOPPED)
        g->done = "closed";
    else if (status)
        show_rest(g, b);
    return status;
}

/* ---- A text ------------------------------------------------------------------------------- */

static txl_status continue_text(struct generate *g, int64_t samples) {
    struct batch batch = {.samples = samples};
    txl_status status;
    progress_start(&batch.progress, "generating", "tokens");
    batch.progress.off = !output_is_file(); /* the text itself is seen */
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

/* A signal during the prompt ends a sample without tokens. */
static void interrupt_prompt(struct generate *g) {
    struct sample *s = &g->sample;
    g->done = "interrupted";
    if (!sample_start(g, s, 1, g->prompt.tail) && !sample_end(g, s, g->done) &&
        output_text(s->output.data, s->output.length))
        output_flush();
}

txl_status continue_prompt(struct generate *g, int64_t samples) {
    g->samples = 0;
    txl_status status = prompt_feed(&g->prompt);
    if (status) {
        if (signals_stopped())
            interrupt_prompt(g);
        return status;
    }
    unknown_note(&g->prompt.unknown, g->prompt.input.name, txl_model_unk(g->model.handle) >= 0);
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

int continue_check_turn(const struct command *command, const char *name) {
    enum turn turn;
    uint64_t n = 0;
    if (choose_turn(name, &turn, &n))
        return OPTIONS_RUN;
    return options_wrong(command, "--turn '%s': sentence, line or a number of tokens is expected",
                         name);
}

/* Lists the ids that are never drawn. */
static bool list_banned(struct generate *g, int32_t eos) {
    const struct generate_options *options = g->options;
    size_t n;
    const int32_t *banned = txl_model_banned(g->model.handle, &n);
    bool good = eos < 0 || options->eos != EOS_BAN || id_list_add(&g->banned, eos);
    for (size_t i = 0; !options->allow_unk && i < n && good; i++)
        good = id_list_add(&g->banned, banned[i]);
    return good;
}

bool continue_choose_sampling(struct generate *g) {
    const struct generate_options *options = g->options;
    int32_t eos = txl_model_eos(g->model.handle);
    g->sampling = sampling_terms(&options->sampling);
    id_list_free(&g->banned); /* from the settings before */
    if (!list_banned(g, eos))
        return terminal_error("out of memory");
    g->sampling.banned = g->banned.ids;
    g->sampling.n_banned = g->banned.n;
    if (eos < 0 && options->eos != EOS_NEWLINE && g->line == 0)
        terminal_note("--eos %s changes nothing: this model has no <eos>", eos_ways[options->eos]);
    g->n = options->n != INTEGER_UNSET                         ? (uint64_t)options->n
           : model_unit(g->model.handle) == TXL_UNIT_CHARACTER ? CHARACTERS_N
                                                               : WORDS_N;
    if (options->interactive)
        choose_turn(options->turn, &g->turn, &g->n);
    g->seed = (uint64_t)options->seed;
    if (options->seed == INTEGER_UNSET && g->memory) {
        txl_resume resume;
        txl_memory_resume(g->memory, &resume);
        g->seed = resume.random.seed;
        return true;
    }
    return sampling_seed(options->seed, &g->seed);
}
