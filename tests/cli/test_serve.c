/* The server behind a module of HTTP that the test is: clients that do not read, and what is kept
 * of former answers. */
#include "tests/unit.h"

#include "cli/serve/server.h"

#include "tests/files.h"
#include "tests/model_cases.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* ---- A module whose one client has read all but `unread` bytes ---------------------------------
 */

struct exchange {
    atomic_int users, status, events;
    atomic_bool ended;
    pthread_t by; /* of the answer */
};

static atomic_size_t unread;

static void answer(struct exchange *e, const struct http_answer *a) {
    atomic_store(&e->status, a->status);
    e->by = pthread_self();
    atomic_store(&e->ended, true);
}

static void begin(struct exchange *e, const struct http_answer *a) {
    atomic_store(&e->status, a->status);
}

static void send_bytes(struct exchange *e, const void *bytes, size_t length) {
    atomic_fetch_add(&e->events, length >= 6 && memcmp(bytes, "data: ", 6) == 0);
}

static void end(struct exchange *e) {
    atomic_store(&e->ended, true);
}

static void keep(struct exchange *e) {
    atomic_fetch_add(&e->users, 1);
}

static void release(struct exchange *e) {
    atomic_fetch_sub(&e->users, 1);
}

static void forget(struct exchange *e) {
    (void)e;
}

static bool gone(struct exchange *e) {
    (void)e;
    return false;
}

static size_t waiting(struct exchange *e) {
    (void)e;
    return atomic_load(&unread);
}

static void mark(struct exchange *e, const char *name, const char *value) {
    (void)e;
    (void)name;
    (void)value;
}

static const struct http_module module = {.answer = answer,
                                          .begin = begin,
                                          .send = send_bytes,
                                          .end = end,
                                          .keep = keep,
                                          .release = release,
                                          .forget = forget,
                                          .gone = gone,
                                          .waiting = waiting,
                                          .mark = mark};

static struct server server;
static char model_path[4096];

static int open_server(void **state) {
    static const struct string_list none;
    txl_settings settings;
    txl_error error;
    (void)state;
    snprintf(model_path, sizeof model_path, "%s", scratch_path("serve.txl"));
    case_convert("wt103-zip", NULL, -1, model_path);
    server.http = server.work.http = &module;
    server.work.model.name = "case";
    server.guard = (struct guard){.host = "localhost", .allowed = &none, .origins = &none};
    server.usual = (struct text_options)TEXT_OPTIONS_STANDARD;
    server.usual.end = END_TOKEN;
    if (txl_model_open(model_path, 0, &server.work.model.handle, &error))
        return -1;
    sampling_choose(&server.usual.sampling, server.work.model.handle);
    txl_model_defaults(server.work.model.handle, &settings);
    settings.threads = 1;
    return background_start(&server.requests) &&
                   work_open(&server.work, &settings, TEXTS_TOGETHER) && work_start(&server.work)
               ? 0
               : -1;
}

static int close_server(void **state) {
    (void)state;
    background_end(&server.requests);
    work_end(&server.work, true);
    work_join(&server.work);
    work_close(&server.work);
    txl_model_close(server.work.model.handle);
    return unlink(model_path);
}

static void ask(struct exchange *e, const char *path, const char *body) {
    const struct http_handler handler = server_handler(&server);
    const struct http_head head = {.method = "POST",
                                   .path = path,
                                   .host = "localhost",
                                   .content_type = "application/json",
                                   .has_body = true,
                                   .length = strlen(body)};
    *e = (struct exchange){0};
    handler.head(handler.context, e, &head);
    handler.request(handler.context, e, &head, body, strlen(body));
}

/* ---- Clients that do not read ---------------------------------------------------------------- */

enum { BEHIND = 1 << 20 };

/* Whether more events come while so much is unread. */
static bool continues(const struct exchange *e, size_t bytes) {
    atomic_store(&unread, bytes);
    usleep(200000); /* what is being drawn */
    int before = atomic_load(&e->events);
    for (int i = 0; i < 100 && atomic_load(&e->events) == before; i++)
        usleep(3000);
    return atomic_load(&e->events) > before;
}

static const char *const streams[] = {
    "{\"prompt\":\"a\",\"max_tokens\":1000000,\"stream\":true,\"seed\":1}",
    "{\"prompt\":\"a\",\"max_tokens\":40000,\"logprobs\":100,\"stream\":true,\"seed\":1,\"n\":1}",
};

TEST_EACH(a_stream_waits_for_who_is_a_megabyte_behind, streams) {
    struct exchange e;
    atomic_store(&unread, 0);
    ask(&e, "/v1/completions", *row);
    assert_true(continues(&e, BEHIND));
    assert_false(continues(&e, BEHIND + 1));
    assert_true(continues(&e, 0));
    work_end(&server.work, true);
    while (!work_has_ended(&server.work) || atomic_load(&e.users) > 0)
        usleep(1000);
    assert_true(atomic_load(&e.ended));
    close_server(NULL);
    server = (struct server){0};
    assert_int_equal(open_server(NULL), 0);
}

/* A prompt that is told as it is read waits, too. */
TEST(a_long_prompt_waits_for_who_is_behind) {
    enum { N = 4000 };
    static char body[8 * N + 200];
    int n =
        snprintf(body, sizeof body,
                 "{\"max_tokens\":0,\"echo\":true,\"logprobs\":20,\"stream\":true,\"prompt\":[3");
    for (int i = 1; i < N; i++)
        n += snprintf(body + n, sizeof body - (size_t)n, ",%d", 3 + i % 20);
    snprintf(body + n, sizeof body - (size_t)n, "]}");
    struct exchange e;
    atomic_store(&unread, BEHIND + 1);
    ask(&e, "/v1/completions", body);
    usleep(300000);
    int before = atomic_load(&e.events);
    assert_true(before < N / 64);
    usleep(300000);
    assert_int_equal(atomic_load(&e.events), before);
    atomic_store(&unread, 0);
    while (!atomic_load(&e.ended) || atomic_load(&e.users) > 0)
        usleep(1000);
    assert_true(atomic_load(&e.events) >= N / 64);
}

/* ---- Large answers --------------------------------------------------------------------------- */

enum { MOST_READ = 9000 };

/* Prompts of `read` ids, and `made` drawn tokens each, with the `top` likeliest of each (-1: no
 * log-probabilities): those of more than 8,192 numbers, two beside the likeliest of a token, are
 * written in a thread of their own. */
static const struct {
    int prompts, read, made, top;
    bool large;
} told[] = {
    {1, 4096, 0, 0, false},       {1, 4097, 0, 0, true},   {1, 81, 0, 99, false},
    {1, 82, 0, 99, true},         {2, 2048, 0, 0, false},  {2, 2049, 0, 0, true},
    {1, MOST_READ, 0, -1, false}, {1, 4000, 96, 0, false}, {1, 4000, 97, 0, true},
};

TEST_EACH(an_answer_of_many_numbers_is_written_apart, told) {
    static char body[12 * MOST_READ];
    struct exchange e;
    int n = snprintf(body, sizeof body, "{\"max_tokens\":%d,\"echo\":true,\"seed\":1,", row->made);
    if (row->top >= 0)
        n += snprintf(body + n, sizeof body - (size_t)n, "\"logprobs\":%d,", row->top);
    n += snprintf(body + n, sizeof body - (size_t)n, "\"prompt\":[");
    for (int i = 0; i < row->prompts * row->read; i++)
        n += snprintf(body + n, sizeof body - (size_t)n, "%s%d",
                      i % row->read > 0 ? ","
                      : i > 0           ? "],["
                                        : "[",
                      3 + i % 20);
    snprintf(body + n, sizeof body - (size_t)n, "]]}");
    ask(&e, "/v1/completions", body);
    while (!atomic_load(&e.ended) || atomic_load(&e.users) > 0)
        usleep(1000);
    assert_int_equal(atomic_load(&e.status), 200);
    assert_int_equal(pthread_equal(e.by, server.work.answers.thread) != 0, row->large);
    assert_int_equal(pthread_equal(e.by, server.work.thread) != 0, !row->large);
}

/* The echo of a prompt of as many numbers is one event, that of a longer one many; one more is at
 * the text's end, and one at the stream's. */
TEST(the_echo_of_many_numbers_comes_in_parts) {
    static char body[12 * MOST_READ];
    for (int read = 4096; read <= 4097; read++) {
        struct exchange e;
        int n = snprintf(
            body, sizeof body,
            "{\"max_tokens\":0,\"echo\":true,\"logprobs\":0,\"stream\":true,\"prompt\":[3");
        for (int i = 1; i < read; i++)
            n += snprintf(body + n, sizeof body - (size_t)n, ",%d", 3 + i % 20);
        snprintf(body + n, sizeof body - (size_t)n, "]}");
        ask(&e, "/v1/completions", body);
        while (!atomic_load(&e.ended) || atomic_load(&e.users) > 0)
            usleep(1000);
        if (read == 4096)
            assert_int_equal(atomic_load(&e.events), 3);
        else
            assert_true(atomic_load(&e.events) > 4096 / 64);
    }
}

/* ---- Bounds that the module has ----------------------------------------------------------------
 */

TEST(bodies_and_answers_have_the_bounds_that_help_states) {
    const struct http_handler handler = server_handler(&server);
    assert_int_equal(handler.most_body, 16 << 20);
    assert_int_equal(handler.most_bodies, 256 << 20);
    assert_int_equal(handler.most_answers, 512 << 20);
}

/* ---- Former answers ----------------------------------------------------------------------------
 */

static void put(struct former_texts *texts, uint64_t name, size_t n) {
    struct former_text former = {
        .list = {.ids = calloc(n, sizeof(int32_t)), .n = n, .capacity = n}};
    assert_non_null(former.list.ids);
    former_texts_keep(texts, name, 0, &former);
}

static size_t length_of(struct former_texts *texts, uint64_t name) {
    char text[ANSWER_NAME];
    struct former_text former;
    answer_name(name, text);
    assert_true(former_texts_find(texts, text, &former));
    size_t n = former.list.n;
    former_text_free(&former);
    return n;
}

TEST(the_last_1024_texts_are_kept) {
    struct former_texts *texts = calloc(1, sizeof *texts);
    assert_non_null(texts);
    former_texts_open(texts);
    for (uint64_t name = 1; name <= 1024; name++)
        put(texts, name, 1);
    assert_int_equal(length_of(texts, 1), 1);
    put(texts, 1025, 1);
    assert_int_equal(length_of(texts, 1), 0);
    assert_int_equal(length_of(texts, 2), 1);
    assert_int_equal(length_of(texts, 1025), 1);
    former_texts_close(texts);
    free(texts);
}

TEST(the_kept_texts_have_4194304_tokens) {
    struct former_texts *texts = calloc(1, sizeof *texts);
    assert_non_null(texts);
    former_texts_open(texts);
    put(texts, 1, 1 << 20);
    put(texts, 2, 3 << 20);
    assert_int_equal(length_of(texts, 1), 1 << 20);
    put(texts, 3, 1);
    assert_int_equal(length_of(texts, 1), 0);
    assert_int_equal(length_of(texts, 2), 3 << 20);
    put(texts, 4, (1 << 20) - 1);
    assert_int_equal(length_of(texts, 2), 3 << 20);
    former_texts_close(texts);
    free(texts);
}

int main(void) {
    return cmocka_run_group_tests(tests, open_server, close_server);
}
