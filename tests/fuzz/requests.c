/* Bodies of requests to txl serve: the first byte chooses the path and the model; from 0xc0 on the
 * path is /v1/learn.  Every request is answered once, by JSON or events of JSON that agree with
 * themselves, and a wrong one by its fault. */
#include "fuzz.h"
#include "tiny.h"

#include "cli/serve/server.h"

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MODELS = 6, PATIENCE = 40 };

/* The other side of the module: what a client would have got. */
struct exchange {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int users, status, asked;
    bool streams, ended;
    struct buffer body;
};

static void answer(struct exchange *e, const struct http_answer *a) {
    pthread_mutex_lock(&e->lock);
    if (e->status == 0) {
        e->status = a->status;
        e->ended = true;
        fuzz_require(buffer_append(&e->body, a->body, a->length), "out of memory");
    }
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

static void begin(struct exchange *e, const struct http_answer *a) {
    pthread_mutex_lock(&e->lock);
    fuzz_require(e->status == 0, "a stream after an answer");
    e->status = a->status;
    e->streams = true;
    pthread_mutex_unlock(&e->lock);
}

static void send_bytes(struct exchange *e, const void *bytes, size_t length) {
    pthread_mutex_lock(&e->lock);
    fuzz_require(e->streams && !e->ended, "bytes that belong to no stream");
    fuzz_require(buffer_append(&e->body, bytes, length), "out of memory");
    pthread_mutex_unlock(&e->lock);
}

static void end(struct exchange *e) {
    pthread_mutex_lock(&e->lock);
    e->ended = true;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

static void keep(struct exchange *e) {
    pthread_mutex_lock(&e->lock);
    e->users++;
    pthread_mutex_unlock(&e->lock);
}

static void release(struct exchange *e) {
    pthread_mutex_lock(&e->lock);
    e->users--;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

/* A client that does not wait for ever. */
static bool gone(struct exchange *e) {
    pthread_mutex_lock(&e->lock);
    bool is_gone = ++e->asked > PATIENCE;
    pthread_mutex_unlock(&e->lock);
    return is_gone;
}

static size_t waiting(struct exchange *e) {
    (void)e;
    return 0;
}

static void mark(struct exchange *e, const char *name, const char *value) {
    (void)e;
    fuzz_require(!strpbrk(name, "\r\n") && !strpbrk(value, "\r\n"), "a header with a line end");
}

static const struct http_module module = {.answer = answer,
                                          .begin = begin,
                                          .send = send_bytes,
                                          .end = end,
                                          .keep = keep,
                                          .release = release,
                                          .gone = gone,
                                          .waiting = waiting,
                                          .mark = mark};

/* ---- The server ---------------------------------------------------------------------------- */

static void open_server(struct server *s, unsigned number) {
    static const struct string_list none;
    txl_settings settings;
    *s = (struct server){0};
    s->http = s->work.http = &module;
    s->work.model = (struct model){(txl_model *)tiny_model(number % MODELS), "tiny"};
    s->guard = (struct guard){.host = "localhost", .origins = &none};
    s->usual = generate_defaults;
    s->usual.end = END_TOKEN;
    sampling_choose(&s->usual.sampling, s->work.model.handle);
    txl_model_defaults(s->work.model.handle, &settings);
    settings.threads = 1;
    fuzz_require(work_open(&s->work, &settings, TOGETHER) && work_start(&s->work), "no server");
}

static void close_server(struct server *s) {
    work_end(&s->work, false);
    work_join(&s->work);
    work_close(&s->work);
}

/* ---- What was answered --------------------------------------------------------------------- */

static size_t length_of(const json_t *logprobs, const char *name) {
    return json_array_size(json_object_get(logprobs, name));
}

static void check_object(const json_t *object) {
    static const char *const lists[] = {"token_logprobs", "top_logprobs", "text_offset",
                                        "token_ids"};
    size_t i;
    const json_t *choice;
    json_array_foreach(json_object_get(object, "choices"), i, choice) {
        const json_t *logprobs = json_object_get(choice, "logprobs");
        for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
            fuzz_require(length_of(logprobs, lists[k]) == length_of(logprobs, "tokens"),
                         "lists of different lengths");
    }
}

static void check_json(const char *text, size_t length) {
    json_t *object = json_loadb(text, length, JSON_ALLOW_NUL, NULL);
    fuzz_require(json_is_object(object), "an answer that is no object");
    check_object(object);
    json_decref(object);
}

static void check_events(const char *text) {
    static const char data[] = "data: ";
    const char *at = text;
    for (const char *next; *at != '\0'; at = next + 2) {
        next = strstr(at, "\n\n");
        fuzz_require(next, "an event that does not end");
        if (strncmp(at, ": ping", 6) == 0)
            continue;
        fuzz_require(strncmp(at, data, sizeof data - 1) == 0, "an event without data");
        at += sizeof data - 1;
        if (strncmp(at, "[DONE]", 6) != 0)
            check_json(at, (size_t)(next - at));
    }
}

static void check_answer(struct exchange *e) {
    fuzz_require(buffer_append(&e->body, "", 1), "out of memory");
    fuzz_require(e->status >= 200 && e->status < 600 && e->status != 500, "a fault of the server");
    if (e->streams)
        check_events(e->body.data);
    else
        check_json(e->body.data, e->body.length - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const paths[] = {"/v1/completions", "/v1/score", "/tokenize", "/detokenize"};
    if (size == 0)
        return 0;
    fuzz_silence();
    struct server s;
    open_server(&s, data[0] >> 2);
    const struct http_handler handler = server_handler(&s);
    const struct http_head head = {.method = "POST",
                                   .path = data[0] < 0xc0 ? paths[data[0] & 3] : "/v1/learn",
                                   .host = "localhost",
                                   .content_type = "application/json",
                                   .has_body = true,
                                   .length = size - 1};
    struct exchange e = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    handler.head(handler.context, &e, &head);
    fuzz_require(e.status == 0, "a head that is refused");
    handler.request(handler.context, &e, &head, (const char *)data + 1, size - 1);
    pthread_mutex_lock(&e.lock);
    while (e.users > 0)
        pthread_cond_wait(&e.changed, &e.lock);
    pthread_mutex_unlock(&e.lock);
    fuzz_require(e.ended, "a request without an answer");
    check_answer(&e);
    close_server(&s);
    buffer_free(&e.body);
    return 0;
}
