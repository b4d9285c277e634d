/* txl serve: answers requests over HTTP. */
#include "cli/commands.h"
#include "cli/io/confine.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/model/dynamic.h"
#include "cli/score/comparison.h"
#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern const char serve_topics[]; /* cli/serve/serve.txt */

struct serve_options {
    struct common_options common;
    struct session_options session;
    const char *host, *key_file, *compare;
    int64_t port, parallel, request_timeout;
    struct string_list origins, allowed;
    bool no_page, no_prefix_cache;
};

/* Seconds that requests may take after the first signal. */
enum { LAST_SECONDS = 10 };

/* Seconds in which a request is to come. */
#define REQUEST_SECONDS 60

/* ---- The key ------------------------------------------------------------------------------- */

/* The first byte that a key cannot have, as no header brings it or nobody sees it; `length`: none.
 */
static size_t wrong_in_key(const char *key, size_t length) {
    size_t i = 0;
    while (i < length && key[i] >= ' ' && key[i] <= '~')
        i++;
    return i;
}

/* The key in a line: without what editors put around it, which no header would bring.  0: there is
 * none. */
static size_t trim_key(char *line, size_t length) {
    static const char mark[] = "\xef\xbb\xbf";
    size_t begin = length >= 3 && memcmp(line, mark, 3) == 0 ? 3 : 0;
    while (length > begin && strchr("\r\n \t", line[length - 1]) && line[length - 1] != '\0')
        length--;
    while (begin < length && (line[begin] == ' ' || line[begin] == '\t'))
        begin++;
    memmove(line, line + begin, length - begin);
    line[length - begin] = '\0';
    return length - begin;
}

/* The file's first line.  NULL with the error printed. */
static char *read_key(const char *path) {
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t n = file ? getline(&line, &room, file) : -1;
    int problem = errno;
    bool failed = !file || ferror(file);
    if (file)
        fclose(file);
    size_t length = n > 0 ? trim_key(line, (size_t)n) : 0, wrong = wrong_in_key(line, length);
    if (failed)
        terminal_error("%s: %s", path, strerror(problem));
    else if (length == 0)
        terminal_error("%s: its first line is to be the key, and it is empty", path);
    else if (wrong < length)
        terminal_error("%s: byte %zu of the key is no visible character of ASCII, and no client "
                       "could send it; write the key anew",
                       path, wrong + 1);
    else
        return line;
    free(line);
    return NULL;
}

/* ---- The socket ---------------------------------------------------------------------------- */

/* An address of either family. */
union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* Reads an address in numbers, or localhost.  False: it is neither. */
static bool read_address(const char *host, int port, union address *address) {
    *address = (union address){.v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)}};
    if (inet_pton(AF_INET6, host, &address->v6.sin6_addr) == 1)
        return true;
    *address = (union address){.v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)}};
    if (strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    return inet_pton(AF_INET, host, &address->v4.sin_addr) == 1;
}

/* All addresses of this machine. */
static bool is_wildcard(const char *host) {
    union address address;
    if (!read_address(host, 0, &address))
        return false;
    return address.any.sa_family == AF_INET ? address.v4.sin_addr.s_addr == htonl(INADDR_ANY)
                                            : IN6_IS_ADDR_UNSPECIFIED(&address.v6.sin6_addr);
}

static bool is_loopback(const union address *address) {
    if (address->any.sa_family == AF_INET)
        return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
}

/* A socket that listens at the address; -1, and errno says why. */
static int listen_at(const union address *address) {
    int one = 1;
    int handle = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = address->any.sa_family == AF_INET ? sizeof address->v4 : sizeof address->v6;
    if (handle < 0)
        return -1;
    setsockopt(handle, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(handle, &address->any, size) == 0 && listen(handle, 128) == 0)
        return handle;
    int problem = errno;
    close(handle);
    errno = problem;
    return -1;
}

static int port_of(int handle) {
    union address address;
    socklen_t size = sizeof address;
    getsockname(handle, &address.any, &size);
    return ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
}

/* Listens at --host and --port.  -1 with the error printed. */
static int open_listener(const struct serve_options *o, int *port) {
    union address address;
    int handle = -1;
    if (!read_address(o->host, (int)o->port, &address))
        terminal_error("--host %s: an address in numbers, or localhost, is expected", o->host);
    else if (!o->key_file && !is_loopback(&address))
        terminal_error("--host %s is not this machine alone, so it needs --api-key-file", o->host);
    else if ((handle = listen_at(&address)) < 0)
        terminal_error("%s, port %d: %s", o->host, (int)o->port, strerror(errno));
    if (handle >= 0)
        *port = port_of(handle);
    return handle;
}

/* ---- Signals ------------------------------------------------------------------------------- */

/* The signals that ask to end, except those that the caller has the program ignore. */
static void list_stops(sigset_t *stops) {
    static const int all[] = {SIGINT, SIGTERM, SIGHUP};
    sigemptyset(stops);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct sigaction action;
        if (sigaction(all[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(stops, all[i]);
    }
}

/* Until the process serves, each of them ends it at once: there is nothing to put in order. */
static void let_stops_end(void) {
    sigset_t stops;
    list_stops(&stops);
    for (int i = 1; i < NSIG; i++)
        if (sigismember(&stops, i) == 1)
            signal(i, SIG_DFL);
}

/* Waits for a signal, at most so long. */
static bool wait_for_stop(const sigset_t *stops, int milliseconds) {
    const struct timespec most = {.tv_sec = milliseconds / 1000,
                                  .tv_nsec = milliseconds % 1000 * 1000000L};
    return sigtimedwait(stops, NULL, &most) > 0;
}

/* ---- While the model is opened -------------------------------------------------------------- */

/* A process that tells who asks now to come again.  It has ended before this one gives up its
 * rights. */
struct doorman {
    int listener;
    int end[2]; /* a pipe, of which this process closes its side when the other is to end */
    pid_t process;
};

/* Whether something comes within so long, unless the end comes first. */
static bool wait_for_bytes(const struct doorman *d, int handle, int milliseconds) {
    struct pollfd both[] = {{.fd = d->end[0], .events = POLLIN}, {.fd = handle, .events = POLLIN}};
    return poll(both, 2, milliseconds) > 0 && both[0].revents == 0;
}

/* Answers whatever is asked.  What the client still sends is read, as else it might be told of
 * that instead. */
static void send_away(const struct doorman *d, int client) {
    char answer[HTTP_REFUSAL], request[4096];
    int n = http_refusal(answer, "503 Service Unavailable", "Retry-After: 1\r\n", "server_error",
                         "the model is loading");
    ssize_t length = 1;
    wait_for_bytes(d, client, 1000);
    send(client, answer, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(client, SHUT_WR);
    for (int i = 0; i < 10 && length > 0 && wait_for_bytes(d, client, 100); i++)
        length = recv(client, request, sizeof request, MSG_DONTWAIT);
    close(client);
}

static void stand_at_door(const struct doorman *d) {
    while (wait_for_bytes(d, d->listener, -1)) {
        int client = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC);
        if (client >= 0)
            send_away(d, client);
    }
}

/* Without it clients wait. */
static void start_doorman(struct doorman *d, int listener) {
    *d = (struct doorman){.listener = listener, .process = -1};
    if (pipe2(d->end, O_CLOEXEC) < 0)
        return;
    d->process = fork();
    close(d->end[d->process == 0]);
    if (d->process == 0) {
        stand_at_door(d);
        _exit(0);
    }
    if (d->process < 0)
        close(d->end[1]);
}

static void end_doorman(const struct doorman *d) {
    if (d->process <= 0)
        return;
    close(d->end[1]);
    while (waitpid(d->process, NULL, 0) < 0 && errno == EINTR)
        continue;
}

/* ---- Serving ------------------------------------------------------------------------------- */

/* After the first signal requests may end; a second one ends them at once. */
static void close_server(struct server *s, void *http, const sigset_t *stops) {
    atomic_store(&s->closing, true);
    s->http->quiesce(http);
    background_end(&s->requests);
    work_end(&s->work, false);
    bool hurried = false;
    for (int i = 0; i < LAST_SECONDS * 20 && !hurried && !work_has_ended(&s->work); i++)
        hurried = wait_for_stop(stops, 50);
    work_end(&s->work, true);
    work_join(&s->work);
    s->http->stop(http, 1);
}

static bool serve(struct server *s, int listener, double request_seconds) {
    sigset_t stops;
    bool six = strchr(s->guard.host, ':') != NULL;
    list_stops(&stops);
    pthread_sigmask(SIG_BLOCK, &stops, NULL); /* of the threads that start now too */
    struct http_handler handler = server_handler(s);
    handler.request_seconds = request_seconds;
    if (!background_start(&s->requests) || !work_start(&s->work))
        return false;
    void *http = s->http->start(listener, &handler);
    if (!http) {
        background_end(&s->requests);
        work_end(&s->work, true);
        work_join(&s->work);
        return terminal_error("cannot start to serve: %s", strerror(errno));
    }
    output_line("txl serve: http://%s%s%s:%d (Ctrl-C ends)", six ? "[" : "", s->guard.host,
                six ? "]" : "", s->guard.port);
    output_flush();
    while (!wait_for_stop(&stops, 1000))
        s->http->tend(http);
    close_server(s, http, &stops);
    return true;
}

/* ---- The command --------------------------------------------------------------------------- */

/* The model's file without its folders. */
static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void name_model(char *fingerprint, size_t size, const struct model *model) {
    snprintf(fingerprint, size, "txl-%s-%s", TXL_VERSION, model_checksum(model).text);
}

/* Opens the model to compare with. */
static bool open_compared(struct server *s, const struct serve_options *o) {
    struct work *w = &s->work;
    struct common_options common = o->common;
    if (!o->compare)
        return true;
    common.model = o->compare;
    if (!model_open(&w->compared, &common) || !comparison_possible(&w->model, &w->compared))
        return false;
    name_model(w->compared_fingerprint, sizeof w->compared_fingerprint, &w->compared);
    txl_model_defaults(w->compared.handle, &w->compared_settings);
    settings_override(&w->compared_settings, &o->session, &o->common);
    return true;
}

static bool open_work(struct server *s, const struct serve_options *o) {
    struct work *w = &s->work;
    txl_settings settings;
    w->http = s->http;
    name_model(w->fingerprint, sizeof w->fingerprint, &w->model);
    s->usual = (struct text_options)TEXT_OPTIONS_STANDARD;
    s->usual.end = END_TOKEN;
    sampling_choose(&s->usual.sampling, w->model.handle);
    txl_model_defaults(w->model.handle, &settings);
    settings_override(&settings, &o->session, &o->common);
    if (!work_open(w, &settings, (size_t)o->parallel))
        return false;
    if (o->no_prefix_cache)
        w->pool.prefixes.most = 0;
    w->model.name = base_name(w->model.name);
    if (w->compared.handle)
        w->compared.name = base_name(w->compared.name);
    return true;
}

/* Names are compared with what clients send, which is no address of a page. */
static int check_options(const struct command *command, const struct serve_options *o) {
    for (size_t i = 0; i < o->allowed.n; i++)
        if (!guard_is_name(o->allowed.items[i]))
            return options_wrong(command,
                                 "--allow-host %s: a name as clients send it is expected, such as "
                                 "txl.example.org or txl.example.org:8443",
                                 o->allowed.items[i]);
    return OPTIONS_RUN;
}

static int run(const struct command *command, void *values, struct operands *operands) {
    const struct serve_options *o = values;
    struct server server = {.has_page = !o->no_page, .started = (int64_t)time(NULL)};
    struct doorman doorman = {0};
    char *key = NULL;
    int listener = -1, port = 0, status = check_options(command, o);
    (void)operands;
    if (status != OPTIONS_RUN)
        return status;
    let_stops_end();
    bool good = (listener = open_listener(o, &port)) >= 0;
    if (good)
        start_doorman(&doorman, listener);
    good = good && (!o->key_file || (key = read_key(o->key_file))) && (server.http = http_load()) &&
           model_open(&server.work.model, &o->common) && open_compared(&server, o);
    end_doorman(&doorman);
    if (good) {
        server.guard = (struct guard){.host = o->host,
                                      .port = port,
                                      .allowed = &o->allowed,
                                      .literals = key && is_wildcard(o->host),
                                      .origins = &o->origins,
                                      .key = key};
        json_object_seed(0); /* reads a file */
        confine(&(struct confinement){.serves = true});
        good = open_work(&server, o) && serve(&server, listener, (double)o->request_timeout);
        work_close(&server.work);
    }
    if (server.work.model.handle)
        model_close(&server.work.model);
    if (server.work.compared.handle)
        model_close(&server.work.compared);
    free(key);
    return output_finish(good ? STATUS_OK : STATUS_FAILURE);
}

static const struct serve_options defaults = {.session = SESSION_UNSET,
                                              .host = "127.0.0.1",
                                              .port = 8080,
                                              .parallel = TEXTS_TOGETHER,
                                              .request_timeout = REQUEST_SECONDS};

#define PLACE(member) offsetof(struct serve_options, member)

static const struct option_row options[] = {
    {"host", OPTION_STRING, PLACE(host),
     "listen at this address; one that is not this machine's alone needs --api-key-file",
     .section = "Server", .argument = "ADDRESS", .standard = "127.0.0.1"},
    {"port", OPTION_INTEGER, PLACE(port), "listen at port N; 0: at a free one", .standard = "8080",
     .most = 65535},
    {"parallel", OPTION_INTEGER, PLACE(parallel),
     "read and write at most N texts at a time; the others wait", .standard = "8", .least = 1,
     .most = MOST_PARALLEL},
    {"request-timeout", OPTION_INTEGER, PLACE(request_timeout),
     "end a connection whose request's head, or then body, has not come whole after N seconds; a "
     "body has another second for each 16 KiB",
     .standard = TEXT_OF(REQUEST_SECONDS), .least = 1, .most = 86400},
    {"api-key-file", OPTION_STRING, PLACE(key_file),
     "answer only requests that have the first line of FILE as their key", .file = FILE_READ},
    {"origin", OPTION_LIST, PLACE(origins),
     "let the pages of URL ask, as https://example.org; may be repeated", .argument = "URL"},
    {"allow-host", OPTION_LIST, PLACE(allowed),
     "answer requests that are sent to NAME or NAME:PORT, as the Host of a proxy's clients; may be "
     "repeated",
     .argument = "NAME"},
    {"no-prefix-cache", OPTION_FLAG, PLACE(no_prefix_cache),
     "keep no beginnings of prompts: how long an answer takes then tells nothing of the texts of "
     "others"},
    {"no-page", OPTION_FLAG, PLACE(no_page), "have no page at /"},
    SESSION_ROWS(struct serve_options, session, "f32"),
    ARITHMETIC_ROW(PLACE(session.arithmetic)),
    MODEL_ROW,
    LOW_MEMORY_ROW,
    {"compare", OPTION_STRING, PLACE(compare),
     "let requests score texts with another model of the same vocabulary too",
     .argument = "OTHER.txl", .file = FILE_MODEL},
    {"threads", OPTION_INTEGER, PLACE(common.threads), "use N threads; 0: one per processor",
     .section = "General", .standard = "0", .most = 65536},
    PLAIN_ROWS,
    {0}};

static const struct note notes[] = {
    {"Signals",
     "After Ctrl-C or SIGTERM no more requests are taken, and those that are there may take 10 "
     "seconds; a second signal ends them."},
    {0}};

static const struct example examples[] = {
    {"txl serve -m wt103.txl --port 8000", "serve a model to programs of this machine"},
    {"curl http://127.0.0.1:8080/v1/completions -H 'Content-Type: application/json' "
     "-d '{\"prompt\": \"The tower\", \"max_tokens\": 50, \"seed\": 1}'",
     "continue a text"},
    {0}};

const struct command serve_command = {
    .name = "serve",
    .summary = "score, continue and show texts over HTTP",
    .description =
        "Answers requests over HTTP: continues and scores prompts as OpenAI's completions API has "
        "it, and scores texts as txl surprisal does. When it is ready it prints its address; "
        "until then requests are answered by 503. The model is opened once; then the process gives "
        "up every right but to answer.",
    .options = options,
    .examples = examples,
    .notes = notes,
    .topics = serve_topics,
    .defaults = &defaults,
    .size = sizeof defaults,
    .run = run,
};
