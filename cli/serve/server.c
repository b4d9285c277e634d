/* Routes of requests, and what is checked before any is answered. */
#include "server.h"

#include "answers.h"
#include "cli/io/output.h"
#include "cli/io/terminal.h"
#include "endpoints.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Bodies that are held at a time, besides one of the largest. */
enum { MOST_BODIES = 256 << 20 };
/* Bytes of answers together that clients have yet to fetch. */
enum { MOST_ANSWERS = 512 << 20 };
/* A body of more is read in a thread of its own. */
enum { LARGE_BODY = 1 << 16 };

/* A request that has passed the checks. */
struct call {
    struct server *server;
    struct exchange *exchange;
    const char *path;
    bool has_key; /* or needs none */
    json_t *body; /* of a POST */
};

/* Answers, or keeps the exchange; false with the problem. */
typedef bool answering(struct call *call, struct problem *problem);

struct route {
    const char *method, *path;
    answering *answer;
    bool open; /* needs no key */
};

/* Takes the reference; NULL comes with the problem. */
static bool answer_json(const struct call *c, json_t *object) {
    if (object)
        http_answer_json(c->server->http, c->exchange, 200, object, NULL, 0);
    return object != NULL;
}

static bool answer_or_lack(const struct call *c, json_t *object, struct problem *problem) {
    return answer_json(c, object) || problem_lacks_memory(problem);
}

/* ---- About the server ---------------------------------------------------------------------- */

static bool health(struct call *c, struct problem *problem) {
    return answer_or_lack(c, json_pack("{s:s}", "status", "ok"), problem);
}

/* What is known of the model, and how tokens are drawn unless a request says otherwise. */
static json_t *model_meta(const struct server *s) {
    const struct model *model = &s->work.model;
    json_t *meta = json_loads(txl_model_settings_json(model->handle), 0, NULL);
    json_t *sampling = json_object();
    bool good =
        meta && sampling && settings_of_model(meta, model) &&
        sampling_to_json(sampling, &s->usual.sampling) &&
        output_json_append(meta, json_pack("{s:I, s:s, s:i, s:b, s:O}", "parameters",
                                           (json_int_t)model_parameters(model->handle), "checksum",
                                           model_checksum(model).text, "n_token",
                                           (int)txl_model_n_token(model->handle), "fills",
                                           model_sees_both_sides(model), "sampling", sampling));
    /* As the server's sessions have them. */
    good = good && output_json_append(meta, json_pack("{s:i, s:i}", "tgt_len",
                                                      s->work.pool.settings.tgt_len, "mem_len",
                                                      s->work.pool.settings.mem_len));
    if (s->work.compared.name)
        good = good && json_object_set_new(meta, "compared",
                                           output_json_string(s->work.compared.name)) == 0;
    json_decref(sampling);
    return output_json_if(good, meta);
}

static json_t *model_object(const struct server *s) {
    return json_pack("{s:o, s:s, s:I, s:s, s:o}", "id", output_json_string(s->work.model.name),
                     "object", "model", "created", (json_int_t)s->started, "owned_by", "txl",
                     "meta", model_meta(s));
}

/* A browser brings no key when it opens a page, and who has none learns nothing of the model. */
static bool show_page(struct call *c, struct problem *problem) {
    json_t *model = c->has_key ? model_object(c->server) : NULL;
    bool good = (model || !c->has_key) && page_route_answer(c->server->http, c->exchange, model);
    json_decref(model);
    return good || problem_lacks_memory(problem);
}

static bool list_models(struct call *c, struct problem *problem) {
    json_t *model = model_object(c->server);
    return answer_or_lack(
        c, model ? json_pack("{s:s, s:[o]}", "object", "list", "data", model) : NULL, problem);
}

static const char one_model[] = "/v1/models/";

static bool show_model(struct call *c, struct problem *problem) {
    const char *id = c->path + sizeof one_model - 1;
    if (strcmp(id, c->server->work.model.name) != 0 && strcmp(id, "txl") != 0)
        return problem_set(problem, 404, NULL, "there is no model '%.100s' here; /v1/models has it",
                           id);
    return answer_or_lack(c, model_object(c->server), problem);
}

/* As Prometheus reads it. */
static bool metrics(struct call *c, struct problem *problem) {
    struct work *w = &c->server->work;
    const struct {
        const char *name, *type, *help;
        double value;
    } all[] = {
        {"txl_requests_total", "counter", "requests that took the model",
         (double)atomic_load(&w->requests)},
        {"txl_requests_failed_total", "counter", "of these, those that ended with an error",
         (double)atomic_load(&w->failed)},
        {"txl_prompt_tokens_total", "counter", "tokens of prompts that were read",
         (double)atomic_load(&w->tokens_read)},
        {"txl_completion_tokens_total", "counter", "tokens that were sampled",
         (double)atomic_load(&w->tokens_made)},
        {"txl_prefix_queries_total", "counter", "texts whose kept beginning was looked for",
         (double)atomic_load(&w->pool.prefixes.asked)},
        {"txl_prefix_hits_total", "counter", "of these, those that had one",
         (double)atomic_load(&w->pool.prefixes.found)},
        {"txl_busy_seconds_total", "counter", "seconds in which the model was used",
         (double)atomic_load(&w->microseconds) / 1e6},
        {"txl_sessions", "gauge", "texts that are being read or written",
         (double)atomic_load(&w->sessions)},
    };
    static const struct http_header type = {"Content-Type", "text/plain; version=0.0.4"};
    char text[2048];
    struct fixed_line lines = fixed_line(text, sizeof text);
    (void)problem;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        fixed_line_add(&lines, "# HELP %s %s\n# TYPE %s %s\n%s %.15g\n", all[i].name, all[i].help,
                       all[i].name, all[i].type, all[i].name, all[i].value);
    c->server->http->answer(
        c->exchange,
        &(struct http_answer){
            .status = 200, .headers = &type, .n_header = 1, .body = text, .length = strlen(text)});
    return true;
}

/* ---- Text and tokens ----------------------------------------------------------------------- */

static bool tokenize(struct call *c, struct problem *problem) {
    return answer_json(c, tokenize_text(c->server->work.model.handle, c->body, problem));
}

static bool detokenize(struct call *c, struct problem *problem) {
    return answer_json(c, tokenize_ids(c->server->work.model.handle, c->body, problem));
}

static bool tokenizer_info(struct call *c, struct problem *problem) {
    return answer_json(c, tokenize_about(c->server->work.model.handle, problem));
}

/* ---- What takes the model ------------------------------------------------------------------ */

static bool completions(struct call *c, struct problem *problem) {
    struct server *s = c->server;
    return completions_take(&s->work, c->exchange, &s->usual, c->body, problem);
}

static bool score(struct call *c, struct problem *problem) {
    struct server *s = c->server;
    return score_take(&s->work, c->exchange, &s->usual, c->body, problem);
}

static bool fill(struct call *c, struct problem *problem) {
    struct server *s = c->server;
    if (!model_sees_both_sides(&s->work.model))
        return problem_set(problem, 400, NULL,
                           "%s is a Transformer-XL, which sees only what is before a gap; filling "
                           "needs an XLNet",
                           s->work.model.name);
    return fill_take(&s->work, c->exchange, &s->usual, c->body, problem);
}

static bool learn(struct call *c, struct problem *problem) {
    const struct model *model = &c->server->work.model;
    if (model_sees_both_sides(model))
        return problem_set(problem, 400, NULL,
                           "%s is an XLNet; only a Transformer-XL can be trained", model->name);
    return learn_take(&c->server->work, c->exchange, c->body, problem);
}

static bool lacks_template(struct call *c, struct problem *problem) {
    (void)c;
    return problem_set(problem, 501, NULL, "txl has no chat template: use /v1/completions");
}

/* ---- Routes -------------------------------------------------------------------------------- */

static const struct route routes[] = {
    {"GET", "/", show_page, true},
    {"GET", "/health", health, true},
    {"GET", "/v1/health", health, true},
    {"GET", "/v1/models", list_models, false},
    {"GET", "/models", list_models, false},
    {"GET", one_model, show_model, false},
    {"GET", "/tokenizer_info", tokenizer_info, false},
    {"GET", "/metrics", metrics, false},
    {"POST", "/v1/completions", completions, false},
    {"POST", "/completions", completions, false},
    {"POST", "/v1/score", score, false},
    {"POST", "/v1/fill", fill, false},
    {"POST", "/v1/learn", learn, false},
    {"POST", "/tokenize", tokenize, false},
    {"POST", "/detokenize", detokenize, false},
    {"POST", "/v1/chat/completions", lacks_template, false},
    {"POST", "/chat/completions", lacks_template, false},
    {"POST", "/infill", lacks_template, false},
    {"POST", "/v1/embeddings", lacks_template, false},
};

/* A path that ends with / is the beginning of others. */
static const struct route *find_route(const char *path) {
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const char *own = routes[i].path;
        size_t n = strlen(own);
        bool begins = n > 1 && own[n - 1] == '/';
        if (begins ? strncmp(path, own, n) == 0 : strcmp(path, own) == 0)
            return &routes[i];
    }
    return NULL;
}

static bool is_get(const char *method) {
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
}

static bool takes_method(const struct route *route, const char *method) {
    return strcmp(route->method, method) == 0 ||
           (strcmp(route->method, "GET") == 0 && is_get(method));
}

/* ---- Checks -------------------------------------------------------------------------------- */

/* Who asks.  A page of another server that may is told so by a header. */
static bool check_sender(struct server *s, struct exchange *exchange, const struct http_head *head,
                         struct problem *problem) {
    bool other;
    if (!guard_host(&s->guard, head->host))
        return problem_set(problem, 403, NULL, "Host '%.100s' is not this server",
                           head->host ? head->host : "");
    if (!guard_origin(&s->guard, head->origin, head->host, &other))
        return problem_set(problem, 403, NULL,
                           "a page of %.100s may not ask this server (txl serve --origin)",
                           head->origin);
    if (other) {
        s->http->mark(exchange, "Access-Control-Allow-Origin", head->origin);
        s->http->mark(exchange, "Vary", "Origin");
    }
    return true;
}

static bool check_body(const struct http_head *head, struct problem *problem) {
    if (!head->has_body)
        return problem_set(problem, 411, NULL, "the request has no body");
    if (!guard_is_json(head->content_type))
        return problem_set(problem, 415, NULL, "Content-Type must be application/json");
    if (head->length > MOST_BODY)
        return problem_set(problem, 413, NULL, "a body has at most %d bytes", MOST_BODY);
    return true;
}

/* What a browser asks before a page of another server may. */
static void answer_options(struct server *s, struct exchange *exchange, const struct route *route) {
    const char *methods =
        strcmp(route->method, "GET") == 0 ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
    const struct http_header headers[] = {
        {"Allow", methods},
        {"Access-Control-Allow-Methods", methods},
        {"Access-Control-Allow-Headers", "Authorization, Content-Type"}};
    s->http->answer(exchange, &(struct http_answer){.status = 204,
                                                    .headers = headers,
                                                    .n_header = sizeof headers / sizeof *headers,
                                                    .body = ""});
}

static void answer_wrong_method(struct server *s, struct exchange *exchange,
                                const struct route *route) {
    bool get = strcmp(route->method, "GET") == 0;
    const struct http_header allow = {"Allow", get ? "GET, HEAD, OPTIONS" : "POST, OPTIONS"};
    struct problem problem;
    problem_set(&problem, 405, NULL, "%s takes %s", route->path, route->method);
    http_answer_json(s->http, exchange, 405, answer_error(&problem), &allow, 1);
}

static bool check_head(struct server *s, struct exchange *exchange, const struct http_head *head,
                       struct problem *problem) {
    if (head->fault) {
        s->http->mark(exchange, "Connection", "close");
        return problem_set(problem, 400, NULL, "the request: %s", head->fault);
    }
    if (!check_sender(s, exchange, head, problem))
        return false;
    if (atomic_load(&s->closing))
        return problem_set(problem, 503, NULL, "the server is stopping");
    const struct route *route = find_route(head->path);
    if (!route || (route->answer == show_page && !s->has_page))
        return problem_set(problem, 404, NULL, "there is no %.100s here", head->path);
    if (strcmp(head->method, "OPTIONS") == 0) {
        answer_options(s, exchange, route);
        return true;
    }
    if (!takes_method(route, head->method)) {
        answer_wrong_method(s, exchange, route);
        return true;
    }
    if (!route->open && !guard_key(&s->guard, head->authorization))
        return problem_set(problem, 401, NULL,
                           "the key is missing or wrong: Authorization: "
                           "Bearer KEY");
    return is_get(head->method) || check_body(head, problem);
}

/* ---- The handler --------------------------------------------------------------------------- */

static void take_head(void *context, struct exchange *exchange, const struct http_head *head) {
    struct server *s = context;
    struct problem problem;
    if (!check_head(s, exchange, head, &problem))
        http_answer_problem(s->http, exchange, &problem);
}

static void read_request(struct server *s, struct exchange *exchange, const struct http_head *head,
                         const char *body, size_t length) {
    struct problem problem;
    struct call call = {.server = s,
                        .exchange = exchange,
                        .path = head->path,
                        .has_key = guard_key(&s->guard, head->authorization)};
    const struct route *route = find_route(head->path);
    bool post = strcmp(route->method, "POST") == 0;
    bool good = true;
    if (post) {
        call.body = body_parse(body, length, &problem);
        good = call.body != NULL;
        s->http->forget(exchange);
    }
    if (!good || !route->answer(&call, &problem))
        http_answer_problem(s->http, exchange, &problem);
    json_decref(call.body);
}

/* A request that is read later. */
struct large_request {
    struct server *server;
    struct exchange *exchange;
    const struct http_head *head;
    const char *body;
    size_t length;
};

static void read_large(void *context) {
    struct large_request *r = context;
    read_request(r->server, r->exchange, r->head, r->body, r->length);
    r->server->http->release(r->exchange);
    free(r);
}

static void take_request(void *context, struct exchange *exchange, const struct http_head *head,
                         const char *body, size_t length) {
    struct server *s = context;
    if (length <= LARGE_BODY) {
        read_request(s, exchange, head, body, length);
        return;
    }
    struct large_request *r = malloc(sizeof *r);
    if (r) {
        *r = (struct large_request){s, exchange, head, body, length};
        s->http->keep(exchange);
    }
    if (r && background_do(&s->requests, read_large, r))
        return;
    if (r)
        s->http->release(exchange);
    free(r);
    struct problem problem;
    problem_lacks_memory(&problem);
    http_answer_problem(s->http, exchange, &problem);
}

static void refuse_body(void *context, struct exchange *exchange, bool too_long) {
    struct server *s = context;
    struct problem problem;
    if (too_long)
        problem_set(&problem, 413, NULL, "a body has at most %d bytes", MOST_BODY);
    else
        problem_set(&problem, 429, NULL, "too many bodies come at the same time; try again");
    http_answer_problem(s->http, exchange, &problem);
}

struct http_handler server_handler(struct server *server) {
    return (struct http_handler){.context = server,
                                 .head = take_head,
                                 .request = take_request,
                                 .refuse = refuse_body,
                                 .most_body = MOST_BODY,
                                 .most_bodies = MOST_BODIES,
                                 .most_answers = MOST_ANSWERS};
}
