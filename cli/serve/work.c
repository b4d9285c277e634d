/* The thread that uses the model. */
#include "work.h"

#include "answers.h"
#include "cli/io/terminal.h"
#include "cli/score/words.h"
#include "lib/base/error.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A stream whose client reads slower than this much behind waits for it. */
static const size_t MOST_BEHIND = 1 << 20;
/* A silent stream says that it lives. */
enum { PING_SECONDS = 15 };
/* Numbers of an answer that is written in a thread of its own. */
enum { LONG_ANSWER = 1 << 13 };
/* The most memory that slots may take together, and kept prefixes. */
static const uint64_t ROWS_BYTES = (uint64_t)4 << 30, PREFIXES_BYTES = (uint64_t)2 << 30;

/* ---- Answers ------------------------------------------------------------------------------- */

static void answer_text(const struct http_module *http, struct exchange *exchange, int status,
                        const struct buffer *text, const struct http_header *headers, size_t n) {
    struct http_header all[8] = {{"Content-Type", "application/json"},
                                 {"X-Content-Type-Options", "nosniff"}};
    size_t n_all = 2;
    for (size_t i = 0; i < n && n_all < sizeof all / sizeof *all; i++)
        all[n_all++] = headers[i];
    http->answer(exchange, &(struct http_answer){.status = status,
                                                 .headers = all,
                                                 .n_header = n_all,
                                                 .body = text->data,
                                                 .length = text->length});
}

void http_answer_json(const struct http_module *http, struct exchange *exchange, int status,
                      json_t *object, const struct http_header *headers, size_t n) {
    static char lacks[] = HTTP_ERROR("out of memory", "server_error", "500");
    const struct buffer lack = {.data = lacks, .length = sizeof lacks - 1};
    struct buffer text = {0};
    bool good = answer_write(&text, object);
    answer_text(http, exchange, good ? status : 500, good ? &text : &lack, headers, n);
    buffer_free(&text);
}

void http_answer_problem(const struct http_module *http, struct exchange *exchange,
                         const struct problem *problem) {
    static const struct http_header again = {"Retry-After", "1"};
    http_answer_json(http, exchange, problem->status, answer_error(problem), &again,
                     problem->status == 429);
}

bool job_answer(struct job *job, json_t *object) {
    bool good = object != NULL;
    if (good)
        http_answer_json(job->work->http, job->exchange, 200, object, NULL, 0);
    return good;
}

void job_answer_text(struct job *job, const struct buffer *text) {
    answer_text(job->work->http, job->exchange, 200, text, NULL, 0);
}

/* ---- Streams ------------------------------------------------------------------------------- */

static void begin_stream(struct job *job) {
    static const struct http_header headers[] = {{"Content-Type", "text/event-stream"},
                                                 {"Cache-Control", "no-cache"},
                                                 {"X-Accel-Buffering", "no"},
                                                 {"X-Content-Type-Options", "nosniff"}};
    if (!job->begun)
        job->work->http->begin(job->exchange,
                               &(struct http_answer){.status = 200,
                                                     .headers = headers,
                                                     .n_header = sizeof headers / sizeof *headers});
    job->begun = true;
}

static void send_bytes(struct job *job, const char *bytes, size_t length) {
    job->work->http->send(job->exchange, bytes, length);
    job->sent = terminal_seconds();
}

static void send_event(struct job *job, const struct buffer *text) {
    send_bytes(job, "data: ", 6);
    send_bytes(job, text->data, text->length);
    send_bytes(job, "\n\n", 2);
}

static bool send_object(struct job *job, json_t *object) {
    struct buffer text = {0};
    bool good = answer_write(&text, object);
    if (good)
        send_event(job, &text);
    buffer_free(&text);
    return good;
}

bool job_send_text(struct job *job, const struct buffer *text) {
    begin_stream(job);
    send_event(job, text);
    return true;
}

bool job_send(struct job *job, json_t *object) {
    if (object)
        begin_stream(job);
    return send_object(job, object);
}

static void end_stream(struct job *job) {
    static const char done[] = "data: [DONE]\n\n";
    send_bytes(job, done, sizeof done - 1);
    job->work->http->end(job->exchange);
}

/* ---- Jobs ---------------------------------------------------------------------------------- */

/* Whether it takes long to list these tokens. */
static bool is_much(uint64_t tokens, int64_t top) {
    return tokens * (uint64_t)(top + 2) > LONG_ANSWER;
}

struct job *job_new(struct work *work, struct exchange *exchange, const struct job_kind *kind) {
    struct job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->work = work;
    job->exchange = exchange;
    job->kind = kind;
    job->created = (int64_t)time(NULL);
    work->http->keep(exchange);
    return job;
}

/* ---- What was learned ---------------------------------------------------------------------- */

void learned_name(uint64_t name, char text[LEARNED_NAME]) {
    snprintf(text, LEARNED_NAME, "learned-%016" PRIx64, name);
}

void learned_free(struct learned *learned) {
    if (learned)
        txl_learner_free(learned->learner);
    free(learned);
}

static void learned_leave(struct work *w, struct learned *learned) {
    pthread_mutex_lock(&w->lock);
    if (learned)
        learned->users--;
    pthread_mutex_unlock(&w->lock);
}

void learned_install(struct work *w, struct learned *learned) {
    pthread_mutex_lock(&w->lock);
    assert(!w->learned);
    w->learned = learned;
    pthread_mutex_unlock(&w->lock);
}

bool learned_forget(struct work *w) {
    pthread_mutex_lock(&w->lock);
    struct learned *before = w->learned;
    bool free = !before || before->users == 0;
    if (free)
        w->learned = NULL;
    pthread_mutex_unlock(&w->lock);
    if (free)
        learned_free(before);
    return free;
}

/* The one of that name gets a user more; NULL: it is not kept. */
static struct learned *learned_take(struct work *w, const char *name) {
    char own[LEARNED_NAME];
    struct learned *found = NULL;
    pthread_mutex_lock(&w->lock);
    if (w->learned) {
        learned_name(w->learned->name, own);
        found = strcmp(own, name) == 0 ? w->learned : NULL;
    }
    if (found)
        found->users++;
    pthread_mutex_unlock(&w->lock);
    return found;
}

bool job_choose_model(struct job *job, const char *learned, bool compares,
                      struct problem *problem) {
    struct work *w = job->work;
    if (compares && learned)
        return problem_set(problem, 400, "compare", "compare and learned are of different models");
    if (compares && !w->compared.handle)
        return problem_set(problem, 400, "compare",
                           "there is no second model here; txl serve --compare names one");
    if (compares) {
        txl_settings settings = w->compared_settings;
        settings.arithmetic = job->settings.arithmetic;
        if (job->own_settings && job->settings.mem_len < w->pool.settings.mem_len)
            settings.mem_len = job->settings.mem_len;
        job->settings = settings;
        job->other = w->compared.handle;
    }
    if (learned && !(job->learned = learned_take(w, learned)))
        return problem_set(problem, 400, "learned",
                           "learned: '%.40s' is not kept; /v1/learn learns anew", learned);
    if (learned) {
        job->settings.compute = TXL_COMPUTE_F32; /* of weights in f32 */
        job->other = job->learned->model;
    }
    job->own_settings = job->own_settings || job->other;
    return true;
}

/* ---- The end of a job ---------------------------------------------------------------------- */

void job_free(struct job *job) {
    for (size_t i = 0; i < job->n_slot; i++)
        slot_close(&job->slots[i]);
    free(job->slots);
    if (job->kind->free)
        job->kind->free(job);
    learned_leave(job->work, job->learned);
    id_list_free(&job->rules.banned);
    id_list_free(&job->after_blank);
    txl_decoder_free(job->rules.scratch);
    request_free(&job->c);
    job->work->http->release(job->exchange);
    free(job);
}

/* How the slots are drawn, as txl generate would. */
static bool open_rules(struct job *job, struct problem *problem) {
    struct request *c = &job->c;
    const struct work *w = job->work;
    txl_error error;
    struct text_rules *rules = &job->rules;
    *rules = (struct text_rules){.options = &c->options,
                                 .model = &w->model,
                                 .network = job->other ? job->other : w->model.handle,
                                 .settings = job->own_settings ? job->settings : w->pool.settings,
                                 .raw = c->raw,
                                 .top = c->top > 0 ? (size_t)c->top : 0};
    rules->reading = (struct reading){.both_sides = model_sees_both_sides(&w->model),
                                      .tgt_len = (size_t)rules->settings.tgt_len};
    if (rules->reading.both_sides) { /* as txl generate: a round forgets nothing */
        rules->reading.refresh = REFRESH_TOKENS;
        rules->settings.mem_len = rules->settings.tgt_len + REFRESH_TOKENS;
    }
    c->options.seed = (int64_t)c->seed;
    if (txl_model_eos(w->model.handle) < 0)
        c->options.eos = EOS_NEWLINE;
    return (!text_rules_choose(rules, &error) &&
            !txl_decoder_new(w->model.handle, c->raw, &rules->scratch, &error)) ||
           problem_set(problem, 500, NULL, "%s", error.message);
}

bool job_open_slots(struct job *job, bool scoring, bool detailed, struct problem *problem) {
    struct request *c = &job->c;
    txl_error error;
    if (!open_rules(job, problem))
        return false;
    size_t n = c->n_prompt * (size_t)c->n;
    job->slots = calloc(n, sizeof *job->slots);
    if (!job->slots)
        return problem_lacks_memory(problem);
    for (job->n_slot = 0; job->n_slot < n;) {
        struct slot *slot = &job->slots[job->n_slot];
        size_t prompt = job->n_slot++ / (size_t)c->n;
        *slot = (struct slot){.prompt = prompt,
                              .number = (job->n_slot - 1) % (size_t)c->n,
                              .rules = &job->rules,
                              .tokens = &c->prompts[prompt],
                              .scoring = scoring,
                              .in_parts = c->stream && scoring &&
                                          is_much(c->prompts[prompt].list.n, c->top),
                              .own_settings = job->own_settings,
                              .top = c->top,
                              .most = (uint64_t)c->max_tokens};
        if (slot->tokens->blank && job->after_blank.n == 0 &&
            text_list_first(&job->after_blank, &job->rules.banned, job->work->model.handle, true,
                            &error))
            return problem_lacks_memory(problem);
        slot->first_banned = slot->tokens->blank ? &job->after_blank : NULL;
        slot->scores.k = c->top > 0 ? (size_t)c->top : 0;
        slot->scores.detailed = detailed;
        slot->scores.of = detailed ? job->work->pool.begins : NULL;
        if (slot_open(slot, &job->work->model, &c->former, c->special, &error))
            return problem_set(problem, 500, NULL, "%s", error.message);
        job->read += slot_prompt_tokens(slot);
    }
    return true;
}

/* Takes the job's slots from those that are worked on. */
static void forget_slots(struct work *w, const struct job *job) {
    for (size_t i = 0; i < job->n_slot; i++)
        texts_remove(&w->texts, &job->slots[i].text);
    size_t kept = 0;
    for (size_t i = 0; i < w->n_active; i++)
        if (w->active[i].job != job)
            w->active[kept++] = w->active[i];
    w->n_active = kept;
    atomic_store(&w->sessions, kept);
}

static void count_started(struct work *w, size_t n) {
    pthread_mutex_lock(&w->lock);
    w->waiting -= n;
    pthread_mutex_unlock(&w->lock);
}

/* Nothing more is done for the job; it is freed in its turn. */
static void end_job(struct work *w, struct job *job) {
    forget_slots(w, job);
    if (job->n_started == 0)
        count_started(w, 1);
    job->n_started = job->n_slot;
    job->over = true;
}

void job_fail(struct job *job, const struct problem *problem) {
    struct work *w = job->work;
    if (job->over)
        return;
    atomic_fetch_add(&w->failed, 1);
    if (!job->begun) {
        http_answer_problem(w->http, job->exchange, problem);
    } else {
        send_object(job, answer_error(problem));
        end_stream(job);
    }
    end_job(w, job);
}

static void fail_job_for(struct job *job, txl_status status, const txl_error *error) {
    struct problem problem;
    bool asked = status == TXL_ARGUMENT || status == TXL_TEXT || status == TXL_UNSUPPORTED;
    problem_set(&problem, asked ? 400 : 500, NULL, "%s", error->message);
    job_fail(job, &problem);
}

static void fail_for_memory(struct job *job) {
    fail_job_for(job, TXL_MEMORY, &(txl_error){.message = "out of memory"});
}

/* ---- Rows ---------------------------------------------------------------------------------- */

/* The job of the fewest active slots that has more to start; the first of several.  NULL: none. */
static struct job *next_job(struct work *w) {
    struct job *best = NULL;
    for (struct job *job = w->jobs; job; job = job->next) {
        bool has = job->n_started < job->n_slot;
        if (has && (!best || job->n_started - job->n_done < best->n_started - best->n_done))
            best = job;
    }
    return best;
}

/* A session with other settings than the others is none of the pool. */
static txl_status start_slot(struct work *w, struct job *job, struct slot *slot, txl_error *error) {
    if (!job->own_settings)
        return slot_start(slot, &w->pool, error);
    pool_drop_idle(&w->pool);
    struct session_pool other = w->pool;
    other.of = job->other ? job->other : w->model.handle;
    other.settings = job->settings;
    other.own_settings = true;
    other.prefixes = (struct prefix_cache){0};
    other.n_idle = 0;
    return slot_start(slot, &other, error);
}

static void start_slots(struct work *w) {
    struct job *job;
    txl_error error;
    while (w->n_active < w->parallel && (job = next_job(w))) {
        struct slot *slot = &job->slots[job->n_started];
        if (job->n_started++ == 0)
            count_started(w, 1);
        txl_status status = start_slot(w, job, slot, &error);
        if (status) {
            fail_job_for(job, status, &error);
            continue;
        }
        w->active[w->n_active++] = (struct active){job, slot};
        atomic_store(&w->sessions, w->n_active);
    }
}

/* ---- Large answers ------------------------------------------------------------------------- */

/* Whether to write the answer would hold up the texts of others. */
static bool is_long(const struct job *job) {
    return !job->begun && is_much(job->made + (job->slots[0].scoring ? job->read : 0), job->c.top);
}

/* In the thread of large answers. */
static void finish_long(void *context) {
    struct job *job = context;
    struct problem problem;
    if (!job->kind->finish(job)) {
        problem_lacks_memory(&problem);
        atomic_fetch_add(&job->work->failed, 1);
        http_answer_problem(job->work->http, job->exchange, &problem);
    }
    job_free(job);
}

/* All slots are done. */
static void finish_job(struct work *w, struct job *job) {
    if (!job->kind->finish(job)) {
        fail_for_memory(job);
        return;
    }
    if (job->begun)
        end_stream(job);
    end_job(w, job);
}

/* Gives away the jobs whose answers are long; nobody here knows them any more. */
static void hand_over(struct work *w) {
    for (struct job **place = &w->jobs; *place;) {
        struct job *job = *place;
        if (job->is_long && !job->over && background_do(&w->answers, finish_long, job)) {
            *place = job->next;
            continue;
        }
        if (job->is_long && !job->over)
            finish_job(w, job);
        place = &job->next;
    }
}

/* What is to be sent of a slot that went on, and what its end brings. */
static void send_slot(struct work *w, struct active a) {
    struct job *job = a.job;
    if (job->over)
        return;
    if (job->c.stream && !job->kind->send(job, a.slot)) {
        fail_for_memory(job);
        return;
    }
    if (a.slot->state != SLOT_DONE)
        return;
    slot_release_session(a.slot, &w->pool);
    job->made += a.slot->made.n;
    if (++job->n_done < job->n_slot)
        return;
    job->is_long = is_long(job);
    if (!job->is_long)
        finish_job(w, job);
}

/* Forgets slots that are done. */
static void sweep_slots(struct work *w) {
    size_t kept = 0;
    for (size_t i = 0; i < w->n_active; i++)
        if (w->active[i].slot->state != SLOT_DONE)
            w->active[kept++] = w->active[i];
        else
            texts_remove(&w->texts, &w->active[i].slot->text);
    w->n_active = kept;
    atomic_store(&w->sessions, kept);
}

static bool is_behind(const struct work *w, const struct job *job) {
    return job->begun && w->http->waiting(job->exchange) > MOST_BEHIND;
}

/* Reads a stretch of one prompt, of one after the other. */
static bool read_some(struct work *w) {
    txl_error error;
    for (size_t i = 0; i < w->n_active; i++) {
        struct active a = w->active[(w->turn + i) % w->n_active];
        if (a.slot->state != SLOT_READING || is_behind(w, a.job))
            continue;
        w->turn = (w->turn + i + 1) % w->n_active;
        size_t before = a.slot->done;
        txl_status status = slot_read(a.slot, &w->pool, &error);
        atomic_fetch_add(&w->tokens_read, a.slot->done - before);
        if (status)
            fail_job_for(a.job, status, &error);
        else
            send_slot(w, a);
        if (!a.job->over && a.slot->state == SLOT_WRITING)
            texts_add(&w->texts, &a.slot->text);
        return true;
    }
    return false;
}

/* What was drawn for a slot, or why it failed. */
static void take_token(struct work *w, struct active a) {
    struct text *text = &a.slot->text;
    if (text->status)
        fail_job_for(a.job, text->status, &text->error);
    else if (!slot_note(a.slot))
        fail_for_memory(a.job);
    else
        send_slot(w, a);
    atomic_fetch_add(&w->tokens_made, !text->status && !text->refused);
}

/* Draws a token for each slot that writes, and feeds those that go on. */
static bool write_some(struct work *w) {
    struct active drawn[MOST_PARALLEL];
    size_t n = 0;
    for (size_t i = 0; i < w->n_active; i++)
        w->active[i].slot->text.paused = is_behind(w, w->active[i].job);
    texts_draw(&w->texts);
    for (size_t i = 0; i < w->n_active; i++)
        if (w->active[i].slot->text.drawn || w->active[i].slot->text.status)
            drawn[n++] = w->active[i];
    for (size_t i = 0; i < n; i++)
        if (!drawn[i].job->over)
            take_token(w, drawn[i]);
    texts_feed(&w->texts);
    return n > 0;
}

/* Whether a job has to wait for another one of a kind that runs one at a time. */
static bool has_to_wait(const struct work *w, const struct job *job) {
    const struct job *other = w->jobs;
    if (!job->kind->one_at_a_time || job->runs > 0)
        return false;
    while (other && (other->over || !other->kind->one_at_a_time || other->runs == 0))
        other = other->next;
    return other != NULL;
}

/* Does some of a job that is no slots: of the one of which the least was done. */
static bool run_one(struct work *w) {
    struct job *best = NULL;
    for (struct job *job = w->jobs; job; job = job->next) {
        if (job->over || job->n_slot > 0 || has_to_wait(w, job))
            continue;
        if (!best || job->runs < best->runs)
            best = job;
    }
    if (!best)
        return false;
    best->runs++;
    if (best->kind->run(best) && !best->over) {
        if (best->begun)
            end_stream(best);
        end_job(w, best);
    }
    return true;
}

/* ---- The thread ---------------------------------------------------------------------------- */

/* Jobs whose client has gone are ended; streams that are silent say that they live. */
static void look_after(struct work *w) {
    for (struct job *job = w->jobs; job; job = job->next) {
        if (job->over)
            continue;
        if (w->http->gone(job->exchange)) {
            if (job->begun)
                w->http->end(job->exchange);
            else
                http_answer_problem(w->http, job->exchange,
                                    &(struct problem){.status = 503, .text = "closed"});
            end_job(w, job);
        } else if (job->begun && terminal_seconds() - job->sent > PING_SECONDS) {
            send_bytes(job, ": ping\n\n", 8);
        }
    }
}

static void free_jobs(struct work *w) {
    for (struct job **place = &w->jobs; *place;) {
        struct job *job = *place;
        if (job->over) {
            *place = job->next;
            job_free(job);
        } else {
            place = &job->next;
        }
    }
}

/* Takes the jobs that have come; waits for one if there is nothing to do.  False: that is all. */
static bool take_jobs(struct work *w, bool *abandoned) {
    struct job **end = &w->jobs;
    while (*end)
        end = &(*end)->next;
    pthread_mutex_lock(&w->lock);
    while (!w->jobs && !w->first && !w->closing)
        pthread_cond_wait(&w->changed, &w->lock);
    *end = w->first;
    w->first = NULL;
    w->end = &w->first;
    *abandoned = w->abandoned;
    w->ended = !w->jobs;
    pthread_mutex_unlock(&w->lock);
    return w->jobs != NULL;
}

static void abandon_jobs(struct work *w) {
    struct problem problem;
    problem_set(&problem, 503, NULL, "the server is stopping");
    for (struct job *job = w->jobs; job; job = job->next)
        job_fail(job, &problem);
}

/* Waits a little, for clients that read slowly. */
static void pause_work(void) {
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    nanosleep(&pause, NULL);
}

static void *work_thread(void *context) {
    struct work *w = context;
    bool abandoned;
    while (take_jobs(w, &abandoned)) {
        double start = terminal_seconds();
        if (abandoned)
            abandon_jobs(w);
        start_slots(w);
        bool some = run_one(w);
        some = read_some(w) || some;
        sweep_slots(w);
        some = write_some(w) || some;
        sweep_slots(w);
        hand_over(w);
        look_after(w);
        free_jobs(w);
        if (!some && w->jobs)
            pause_work();
        atomic_fetch_add(&w->microseconds, (uint64_t)((terminal_seconds() - start) * 1e6));
    }
    return NULL;
}

/* ---- Opening and closing ------------------------------------------------------------------- */

static bool queue_job(struct work *w, struct job *job) {
    pthread_mutex_lock(&w->lock);
    bool good = w->waiting < MOST_WAITING && !w->closing;
    if (good) {
        w->waiting++;
        atomic_fetch_add(&w->requests, 1);
        *w->end = job;
        w->end = &job->next;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return good;
}

bool work_take(struct work *w, struct job *job, bool good, struct problem *problem) {
    if (good && !queue_job(w, job))
        good = problem_set(problem, 429, NULL, "%d requests wait already; try again", MOST_WAITING);
    if (!good)
        job_free(job);
    return good;
}

void work_end(struct work *w, bool abandon) {
    pthread_mutex_lock(&w->lock);
    w->closing = true;
    w->abandoned = abandon;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

bool work_has_ended(struct work *w) {
    pthread_mutex_lock(&w->lock);
    bool ended = w->ended;
    pthread_mutex_unlock(&w->lock);
    return ended && background_left(&w->answers) == 0;
}

/* 64 tokens: 69 MB for 267,735 words.  Where positions count from a segment's end, whole segments.
 */
static void choose_chunk(struct session_pool *pool, size_t n_token) {
    enum { USUAL = 64, MOST_NUMBERS = 1 << 26 };
    size_t tgt_len = (size_t)pool->settings.tgt_len;
    pool->by_segment = txl_session_reach(pool->unfed) == UINT64_MAX;
    pool->chunk = USUAL;
    if (pool->by_segment && tgt_len <= USUAL)
        pool->chunk = USUAL / tgt_len * tgt_len;
    else if (pool->by_segment && tgt_len * n_token <= MOST_NUMBERS)
        pool->chunk = tgt_len;
}

static bool open_pool(struct work *w, const txl_settings *settings) {
    struct session_pool *pool = &w->pool;
    size_t n_token = (size_t)txl_model_n_token(w->model.handle);
    *pool = (struct session_pool){.model = &w->model, .of = w->model.handle, .settings = *settings};
    if (!session_open(&w->model, settings, &pool->unfed))
        return false;
    txl_session_settings(pool->unfed, &pool->settings);
    /* The first copy has the position rows computed, which all share: no text waits for them. */
    txl_error error;
    if (!terminal_report(txl_session_copy(pool->unfed, &pool->idle[0], &error), &error))
        return false;
    pool->n_idle = 1;
    choose_chunk(pool, n_token);
    pool->logprob = calloc(pool->chunk * n_token, sizeof *pool->logprob);
    const bool parts = model_unit(w->model.handle) != TXL_UNIT_WORD;
    pool->begins = parts ? words_boundaries(w->model.handle) : NULL;
    if (parts && !pool->begins)
        return terminal_error("out of memory");
    if (!pool->logprob)
        return terminal_error("out of memory");
    return true;
}

/* The other model is read in the same calls. */
static bool check_compared(struct work *w) {
    txl_session *session;
    if (!w->compared.handle)
        return true;
    if (!session_open(&w->compared, &w->compared_settings, &session))
        return false;
    txl_session_settings(session, &w->compared_settings);
    bool by_segment = txl_session_reach(session) == UINT64_MAX;
    txl_session_free(session);
    return by_segment == w->pool.by_segment ||
           terminal_error("--compare: the positions of %s and %s count from different places",
                          w->model.name, w->compared.name);
}

bool work_open(struct work *w, const txl_settings *settings, size_t parallel) {
    w->end = &w->first;
    former_texts_open(&w->former_texts);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    if (!open_pool(w, settings) || !check_compared(w))
        return false;
    uint64_t bytes = txl_session_bytes(w->model.handle, settings);
    uint64_t fit = ROWS_BYTES / bytes, kept = PREFIXES_BYTES / bytes;
    w->parallel = fit < parallel ? (size_t)(fit > 0 ? fit : 1) : parallel;
    if (w->parallel < parallel)
        terminal_note("%zu texts at a time instead of %zu: the memory of each takes %.1f GB",
                      w->parallel, parallel, (double)bytes / 1e9);
    w->pool.prefixes.most = kept < MOST_PREFIXES ? (size_t)kept : MOST_PREFIXES;
    return true;
}

bool work_start(struct work *w) {
    if (!background_start(&w->answers))
        return false;
    int failed = pthread_create(&w->thread, NULL, work_thread, w);
    return failed == 0 || terminal_error("cannot start a thread: %s", strerror(failed));
}

void work_join(struct work *w) {
    pthread_join(w->thread, NULL);
    background_end(&w->answers);
}

void work_close(struct work *w) {
    prefix_cache_free(&w->pool.prefixes);
    former_texts_close(&w->former_texts);
    for (size_t i = 0; i < w->pool.n_idle; i++)
        txl_session_free(w->pool.idle[i]);
    learned_free(w->learned);
    txl_session_free(w->pool.unfed);
    free(w->pool.begins);
    free(w->pool.logprob);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
}
