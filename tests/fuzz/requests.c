/* Bodies of requests to txl serve, one after the other to the same server, with a NUL between them.
 * The first byte of each chooses the path, that of the first one the model: from 0x80 on an XLNet,
 * from 0xc0 on any but to learn.  ID stands for the id of the former answer.  Every request is
 * answered once, by JSON or events of JSON that agree with themselves, and a wrong one by its
 * fault. */
#include "fuzz.h"
#include "tiny.h"

#include "cli/serve/server.h"

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The first of tiny_models, and the XLNets at their end. */
enum { MODELS = 6, XLNETS = 3, FIRST_XLNET = 10, PATIENCE = 40 };
enum { ID = 32 };

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

static void forget(struct exchange *e) {
    (void)e;
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
                                          .forget = forget,
                                          .gone = gone,
                                          .waiting = waiting,
                                          .mark = mark};

/* ---- The server ---------------------------------------------------------------------------- */

static unsigned choose_model(uint8_t first) {
    unsigned number = first >> 2;
    return first >= 0x80 && first < 0xc0 ? FIRST_XLNET + number % XLNETS : number % MODELS;
}

static void open_server(struct server *s, unsigned number) {
    static const struct string_list none;
    txl_settings settings;
    *s = (struct server){0};
    s->http = s->work.http = &module;
    s->work.model = (struct model){(txl_model *)tiny_model(number), "tiny"};
    s->guard = (struct guard){.host = "localhost", .allowed = &none, .origins = &none};
    s->usual = (struct text_options)TEXT_OPTIONS_STANDARD;
    s->usual.end = END_TOKEN;
    sampling_choose(&s->usual.sampling, s->work.model.handle);
    txl_model_defaults(s->work.model.handle, &settings);
    settings.threads = 1;
    fuzz_require(background_start(&s->requests) && work_open(&s->work, &settings, TEXTS_TOGETHER) &&
                     work_start(&s->work),
                 "no server");
}

static void close_server(struct server *s) {
    background_end(&s->requests);
    work_end(&s->work, false);
    work_join(&s->work);
    work_close(&s->work);
}

/* ---- What was answered --------------------------------------------------------------------- */

static size_t length_of(const json_t *logprobs, const char *name) {
    return json_array_size(json_object_get(logprobs, name));
}

static void check_object(const json_t *object, char id[ID]) {
    static const char *const lists[] = {"token_logprobs", "top_logprobs", "text_offset",
                                        "token_ids"};
    size_t i;
    const json_t *choice;
    const char *name = json_string_value(json_object_get(object, "id"));
    if (name)
        snprintf(id, ID, "%s", name);
    json_array_foreach(json_object_get(object, "choices"), i, choice) {
        const json_t *logprobs = json_object_get(choice, "logprobs");
        for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
            fuzz_require(length_of(logprobs, lists[k]) == length_of(logprobs, "tokens"),
                         "lists of different lengths");
    }
}

static void check_json(const char *text, size_t length, char id[ID]) {
    json_t *object = json_loadb(text, length, JSON_ALLOW_NUL, NULL);
    fuzz_require(json_is_object(object), "an answer that is no object");
    check_object(object, id);
    json_decref(object);
}

static void check_events(const char *text, char id[ID]) {
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
            check_json(at, (size_t)(next - at), id);
    }
}

/* The answer's id replaces the former one, if it has any. */
static void check_answer(struct exchange *e, char id[ID]) {
    fuzz_require(buffer_append(&e->body, "", 1), "out of memory");
    fuzz_require(e->status >= 200 && e->status < 600 && e->status != 500, "a fault of the server");
    if (e->streams)
        check_events(e->body.data, id);
    else
        check_json(e->body.data, e->body.length - 1, id);
}

/* ---- What is asked ------------------------------------------------------------------------- */

static const char *path_of(uint8_t first) {
    static const char *const paths[] = {"/v1/completions", "/v1/score", "/tokenize", "/detokenize"};
    if (first >= 0xc0)
        return "/v1/learn";
    return first >= 0x80 && (first & 3) == 3 ? "/v1/fill" : paths[first & 3];
}

/* The body with the id of the former answer in the places of "ID". */
static struct buffer put_id(const char *body, size_t size, const char *id) {
    static const char place[] = "\"ID";
    enum { N = sizeof place - 1 };
    struct buffer whole = {0};
    bool good = true;
    for (size_t i = 0; i < size && good; i++) {
        bool here = size - i >= N && memcmp(body + i, place, N) == 0;
        good =
            buffer_append(&whole, body + i, 1) && (!here || buffer_append(&whole, id, strlen(id)));
        i += here ? N - 1 : 0;
    }
    fuzz_require(good && buffer_append(&whole, "", 1), "out of memory");
    return whole;
}

/* Asks for what the first byte says, with the others as the body. */
static void ask(struct server *s, const uint8_t *data, size_t size, char id[ID]) {
    const struct http_handler handler = server_handler(s);
    struct buffer body = put_id((const char *)data + 1, size - 1, id);
    const struct http_head head = {.method = "POST",
                                   .path = path_of(data[0]),
                                   .host = "localhost",
                                   .content_type = "application/json",
                                   .has_body = true,
                                   .length = body.length - 1};
    struct exchange e = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    handler.head(handler.context, &e, &head);
    fuzz_require(e.status == 0, "a head that is refused");
    handler.request(handler.context, &e, &head, body.data, body.length - 1);
    pthread_mutex_lock(&e.lock);
    while (e.users > 0)
        pthread_cond_wait(&e.changed, &e.lock);
    pthread_mutex_unlock(&e.lock);
    fuzz_require(e.ended, "a request without an answer");
    check_answer(&e, id);
    buffer_free(&body);
    buffer_free(&e.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char id[ID] = "";
    if (size == 0)
        return 0;
    fuzz_silence();
    struct server s;
    open_server(&s, choose_model(data[0]));
    for (const uint8_t *end = data + size; data < end;) {
        const uint8_t *next = memchr(data + 1, '\0', (size_t)(end - data) - 1);
        ask(&s, data, (size_t)((next ? next : end) - data), id);
        data = next ? next + 1 : end;
    }
    close_server(&s);
    return 0;
}
