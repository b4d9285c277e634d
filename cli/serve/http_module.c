/* The module: libmicrohttpd's daemon.
 *
 * A connection whose answer, or whose next bytes, are yet to come is suspended: the daemon forgets
 * it until it is resumed.  The exchange's lock makes the two decisions one: either the daemon sees
 * the bytes, or who adds them sees that it was suspended.
 *
 * The daemon ends a connection only when nothing moves on it, so that a client that sends a byte
 * now and then could keep it for ever: `tend` ends those whose request is late. */
#include "http.h"

#include "http_accept.h"
#include "lib/base/memory.h"
#include "txl.h"

#include <ctype.h>
#include <math.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 256, MARKS = 4, OF_ONE_ADDRESS = 64, IDLE_SECONDS = 60, BLOCK = 1 << 14 };

/* Bytes of a body that give it another second, and more than a head has. */
enum { SLOWEST = 1 << 14, MOST_HEAD = 1 << 16 };

/* A client, from its coming until its socket is closed. */
struct connection {
    struct connection *next, **place;
    int socket;
    char address[16]; /* of the client, of either family */
    bool started;     /* the daemon has it */
    double due;       /* when its request is to be complete; INFINITY: it is */
    const char *uri;  /* of its last request, as it came; NULL: none */
    size_t uri_length;
};

struct http {
    struct MHD_Daemon *daemon;
    struct http_handler handler;
    struct acceptor *acceptor; /* NULL: no more are taken */
    atomic_int open;           /* exchanges whose answer was not yet fetched */
    atomic_size_t bodies;      /* bytes of bodies that are held */
    atomic_size_t answers;     /* bytes of answers that clients have yet to fetch */
    pthread_mutex_t lock;      /* of the connections */
    struct connection *connections;
};

struct exchange {
    struct http *http;
    atomic_int users;
    struct http_head head;
    bool headed; /* the handler has seen the head */
    struct buffer body;
    struct {
        char *name, *value;
    } marks[MARKS];
    size_t n_mark;

    pthread_mutex_t lock; /* of what follows */
    struct MHD_Connection *connection;
    bool suspended, gone;
    bool knows_interim, probed;    /* an answer that is only announced */
    struct MHD_Response *response; /* until it is queued, which keeps it; NULL: there is none */
    int status;
    bool answered, queued;
    struct buffer out; /* of a stream, */
    size_t fetched;    /* of which the daemon has these first bytes */
    bool ended, failed;
};

/* ---- Exchanges ---------------------------------------------------------------------------- */

static void forget(struct exchange *e) {
    atomic_fetch_sub(&e->http->bodies, e->body.length);
    buffer_free(&e->body);
}

/* Whether there is room for so many bytes of an answer, which are counted then. */
static bool hold(struct http *http, size_t length) {
    if (atomic_fetch_add(&http->answers, length) + length <= http->handler.most_answers)
        return true;
    atomic_fetch_sub(&http->answers, length);
    return false;
}

static void release(struct exchange *e) {
    if (atomic_fetch_sub(&e->users, 1) > 1)
        return;
    forget(e);
    atomic_fetch_sub(&e->http->answers, e->out.length - e->fetched);
    buffer_free(&e->out);
    for (size_t i = 0; i < e->n_mark; i++) {
        free(e->marks[i].name);
        free(e->marks[i].value);
    }
    pthread_mutex_destroy(&e->lock);
    free(e);
}

static void keep(struct exchange *e) {
    atomic_fetch_add(&e->users, 1);
}

static struct connection *client_of(struct MHD_Connection *connection) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* ---- Heads that two readers could read in two ways (RFC 9112) -------------------------------- */

/* Headers of which a request has one at most. */
enum { HOST, LENGTH, ENCODING, ORIGIN, AUTHORIZATION, N_SINGLE };

struct heading {
    unsigned count[N_SINGLE];
    const char *length, *encoding;
    const char *fault;
};

/* Names are letters, digits and some signs: a blank before the colon is none (5.1). */
static bool is_token(const char *name) {
    static const char signs[] = "!#$%&'*+-.^_`|~";
    if (*name == '\0')
        return false;
    for (; *name != '\0'; name++) {
        bool plain = (*name >= '0' && *name <= '9') || ((*name | 32) >= 'a' && (*name | 32) <= 'z');
        if (!plain && !strchr(signs, *name))
            return false;
    }
    return true;
}

/* A lone carriage return ends a line for some. */
static bool has_control(const char *value) {
    while (*value != '\0' && ((unsigned char)*value >= ' ' || *value == '\t'))
        value++;
    return *value != '\0';
}

static enum MHD_Result see_header(void *context, enum MHD_ValueKind kind, const char *name,
                                  const char *value) {
    static const char *const single[N_SINGLE] = {"Host", "Content-Length", "Transfer-Encoding",
                                                 "Origin", "Authorization"};
    struct heading *h = context;
    (void)kind;
    if (!is_token(name))
        h->fault = "the name of a header has a space or another byte that no name has";
    if (value && has_control(value))
        h->fault = "a header has a control character";
    for (size_t i = 0; i < N_SINGLE; i++)
        if (strcasecmp(name, single[i]) == 0 && ++h->count[i] > 1)
            h->fault = "a header that a request has once is there twice";
    if (strcasecmp(name, single[LENGTH]) == 0)
        h->length = value ? value : "";
    if (strcasecmp(name, single[ENCODING]) == 0)
        h->encoding = value ? value : "";
    return MHD_YES;
}

/* Whether the path was cut by a NUL.  Spelled %00 it stays so (unescape).  For a byte, the daemon
 * leaves the request's line where it was: what is between the path's end and the version was part
 * of the path.  Elsewhere the version is not behind the path, and this finds nothing. */
static bool has_nul(struct MHD_Connection *connection, const char *path, const char *version) {
    const struct connection *c = client_of(connection);
    bool behind = c && c->uri && version > c->uri && version - c->uri < MOST_HEAD;
    return strstr(path, "%00") || (behind && c->uri_length + 1 < (size_t)(version - c->uri));
}

/* What is wrong with the head, or NULL. */
static const char *fault_of(struct MHD_Connection *connection, const char *path,
                            const char *version) {
    struct heading h = {0};
    MHD_get_connection_values(connection, MHD_HEADER_KIND, see_header, &h);
    if (h.fault)
        return h.fault;
    if (h.length && h.encoding)
        return "Content-Length and Transfer-Encoding are both there";
    if (h.encoding && strcasecmp(h.encoding, "chunked") != 0)
        return "Transfer-Encoding is not chunked";
    if (h.length && (*h.length == '\0' || h.length[strspn(h.length, "0123456789")] != '\0'))
        return "Content-Length is no number";
    if (h.encoding && strcmp(version, MHD_HTTP_VERSION_1_1) != 0)
        return "Transfer-Encoding is of HTTP/1.1";
    return has_nul(connection, path, version) ? "the path has a NUL" : NULL;
}

/* The request's line has come, before its path is changed. */
static void *note_uri(void *context, const char *uri, struct MHD_Connection *connection) {
    struct connection *c = client_of(connection);
    (void)context;
    if (c) {
        c->uri = uri;
        c->uri_length = strlen(uri);
    }
    return NULL;
}

/* As the daemon does, but for NUL, which would end the path. */
static size_t unescape(void *context, struct MHD_Connection *connection, char *text) {
    char *out = text;
    (void)context;
    (void)connection;
    for (const char *in = text; *in != '\0';) {
        unsigned value;
        bool escape = in[0] == '%' && isxdigit((unsigned char)in[1]) &&
                      isxdigit((unsigned char)in[2]) && sscanf(in + 1, "%2x", &value) == 1;
        if (escape && value != 0) {
            *out++ = (char)value;
            in += 3;
        } else {
            *out++ = *in++;
        }
    }
    *out = '\0';
    return (size_t)(out - text);
}

/* ---- Exchanges ---------------------------------------------------------------------------- */

static const char *header_of(struct MHD_Connection *connection, const char *name) {
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static struct exchange *new_exchange(struct http *http, struct MHD_Connection *connection,
                                     const char *method, const char *path, const char *version) {
    struct exchange *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    const char *length = header_of(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    e->http = http;
    e->connection = connection;
    e->knows_interim = strcmp(version, MHD_HTTP_VERSION_1_1) == 0;
    atomic_init(&e->users, 1);
    e->head = (struct http_head){
        .method = method,
        .path = path,
        .host = header_of(connection, MHD_HTTP_HEADER_HOST),
        .origin = header_of(connection, MHD_HTTP_HEADER_ORIGIN),
        .authorization = header_of(connection, MHD_HTTP_HEADER_AUTHORIZATION),
        .content_type = header_of(connection, MHD_HTTP_HEADER_CONTENT_TYPE),
        .has_body = length || header_of(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING),
        .length = length ? strtoull(length, NULL, 10) : 0,
        .fault = fault_of(connection, path, version),
    };
    pthread_mutex_init(&e->lock, NULL);
    atomic_fetch_add(&http->open, 1);
    return e;
}

/* With the lock held: lets the daemon look again. */
static void resume(struct exchange *e) {
    if (e->suspended && !e->gone) {
        e->suspended = false;
        MHD_resume_connection(e->connection);
    }
}

/* A stream's response keeps the exchange, so it goes before it. */
static void drop_response(struct exchange *e) {
    pthread_mutex_lock(&e->lock);
    struct MHD_Response *response = e->response;
    e->response = NULL;
    pthread_mutex_unlock(&e->lock);
    if (response)
        MHD_destroy_response(response);
}

/* ---- Answers ------------------------------------------------------------------------------ */

static void mark(struct exchange *e, const char *name, const char *value) {
    char *own_name = strdup(name), *own_value = strdup(value);
    pthread_mutex_lock(&e->lock);
    if (own_name && own_value && e->n_mark < MARKS) {
        e->marks[e->n_mark].name = own_name;
        e->marks[e->n_mark++].value = own_value;
        own_name = own_value = NULL;
    }
    pthread_mutex_unlock(&e->lock);
    free(own_name);
    free(own_value);
}

/* With the lock held.  The response becomes the exchange's. */
static void set_answer(struct exchange *e, const struct http_answer *answer,
                       struct MHD_Response *response) {
    e->answered = true;
    e->response = response;
    e->status = answer->status;
    for (size_t i = 0; response && i < answer->n_header; i++)
        MHD_add_response_header(response, answer->headers[i].name, answer->headers[i].value);
    for (size_t i = 0; response && i < e->n_mark; i++)
        MHD_add_response_header(response, e->marks[i].name, e->marks[i].value);
    resume(e);
}

/* A body that was counted. */
struct held {
    struct http *http;
    size_t length;
    char bytes[];
};

static void free_held(void *context) {
    struct held *held = context;
    atomic_fetch_sub(&held->http->answers, held->length);
    free(held);
}

/* NULL when memory is short. */
static struct MHD_Response *hold_body(struct http *http, const struct http_answer *answer) {
    struct held *held = malloc(sizeof *held + answer->length);
    if (!held) {
        atomic_fetch_sub(&http->answers, answer->length);
        return NULL;
    }
    *held = (struct held){http, answer->length};
    memcpy(held->bytes, answer->body, answer->length);
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
        held->length, held->bytes, free_held, held);
    if (!response)
        free_held(held);
    return response;
}

static void answer(struct exchange *e, const struct http_answer *answer) {
    static const struct http_header again[] = {{"Content-Type", "application/json"},
                                               {"Retry-After", "1"}};
    static const char full[] =
        HTTP_ERROR("the answers that clients have yet to fetch leave no room; try again",
                   "server_error", "503");
    const struct http_answer refusal = {.status = 503, .headers = again, .n_header = 2};
    pthread_mutex_lock(&e->lock);
    if (!e->answered && !e->gone && hold(e->http, answer->length))
        set_answer(e, answer, hold_body(e->http, answer));
    else if (!e->answered && !e->gone)
        set_answer(
            e, &refusal,
            MHD_create_response_from_buffer(sizeof full - 1, (void *)full, MHD_RESPMEM_PERSISTENT));
    pthread_mutex_unlock(&e->lock);
}

/* Takes the first bytes of a stream, so that each is moved about once. */
static void drop_fetched(struct exchange *e, size_t n) {
    atomic_fetch_sub(&e->http->answers, n);
    e->fetched += n;
    if (e->fetched == e->out.length)
        buffer_free(&e->out);
    else if (e->fetched > BLOCK && e->fetched > e->out.length / 2)
        buffer_drop(&e->out, e->fetched);
    else
        return;
    e->fetched = 0;
}

/* The daemon has room for `most` bytes of the stream. */
static ssize_t give_bytes(void *context, uint64_t position, char *bytes, size_t most) {
    struct exchange *e = context;
    ssize_t n = 0;
    (void)position;
    pthread_mutex_lock(&e->lock);
    if (e->out.length > e->fetched) {
        n = (ssize_t)smaller(e->out.length - e->fetched, most);
        memcpy(bytes, e->out.data + e->fetched, (size_t)n);
        drop_fetched(e, (size_t)n);
    } else if (e->failed) {
        n = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (e->ended) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        e->suspended = true;
        MHD_suspend_connection(e->connection);
    }
    pthread_mutex_unlock(&e->lock);
    return n;
}

static void release_stream(void *context) {
    release(context);
}

static void begin(struct exchange *e, const struct http_answer *answer) {
    pthread_mutex_lock(&e->lock);
    if (!e->answered && !e->gone) {
        keep(e);
        struct MHD_Response *response = MHD_create_response_from_callback(
            MHD_SIZE_UNKNOWN, BLOCK, give_bytes, e, release_stream);
        if (!response)
            atomic_fetch_sub(&e->users, 1);
        set_answer(e, answer, response);
    }
    pthread_mutex_unlock(&e->lock);
}

static void send_bytes(struct exchange *e, const void *bytes, size_t length) {
    pthread_mutex_lock(&e->lock);
    if (!e->gone && !e->failed && hold(e->http, length)) {
        e->failed = !buffer_append(&e->out, bytes, length);
        if (e->failed)
            atomic_fetch_sub(&e->http->answers, length);
    } else {
        e->failed = true;
    }
    if (e->queued)
        resume(e);
    pthread_mutex_unlock(&e->lock);
}

static void end(struct exchange *e) {
    pthread_mutex_lock(&e->lock);
    e->ended = true;
    if (e->queued)
        resume(e);
    pthread_mutex_unlock(&e->lock);
}

static size_t waiting(struct exchange *e) {
    pthread_mutex_lock(&e->lock);
    size_t n = e->out.length - e->fetched;
    pthread_mutex_unlock(&e->lock);
    return n;
}

/* What poll says of the client's socket. */
static short state_of(const struct exchange *e) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(e->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct pollfd socket = {.fd = info ? info->connect_fd : -1, .events = POLLRDHUP};
    return poll(&socket, 1, 0) > 0 ? socket.revents : 0;
}

/* A client that sends no more may yet wait for its answer, or be gone: both look alike until
 * something is sent, to which the system of one that is gone objects.  An answer that is only
 * announced may come before any (RFC 9110, 15.2).  HTTP/1.0 knows none, and such a client is waited
 * for; so is a stream's, to which something is sent soon. */
static void probe(struct exchange *e) {
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(e->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info && e->suspended && e->knows_interim && !e->answered && !e->probed)
        send(info->connect_fd, interim, sizeof interim - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    e->probed = true;
}

/* The daemon does not watch a suspended connection, so its socket is asked. */
static bool gone(struct exchange *e) {
    pthread_mutex_lock(&e->lock);
    short state = e->gone ? POLLHUP : state_of(e);
    if (state == POLLRDHUP)
        probe(e);
    pthread_mutex_unlock(&e->lock);
    return state & (POLLHUP | POLLERR);
}

/* ---- Late requests ------------------------------------------------------------------------- */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Sets when the client's request is to be complete. */
static void expect(struct http *http, struct MHD_Connection *connection, double due) {
    struct connection *c = client_of(connection);
    pthread_mutex_lock(&http->lock);
    if (c)
        c->due = due;
    pthread_mutex_unlock(&http->lock);
}

/* A body that goes on has more time. */
static void expect_more(struct exchange *e, size_t length) {
    struct connection *c = client_of(e->connection);
    pthread_mutex_lock(&e->http->lock);
    if (c)
        c->due += (double)length / SLOWEST;
    pthread_mutex_unlock(&e->http->lock);
}

/* With the lock held. */
static struct connection *find_connection(const struct http *http, int socket) {
    struct connection *c = http->connections;
    while (c && c->socket != socket)
        c = c->next;
    return c;
}

static void drop_connection(struct connection *c) {
    if (!c)
        return;
    *c->place = c->next;
    if (c->next)
        c->next->place = c->place;
    free(c);
}

/* The daemon has taken a client, or one has gone; its socket is closed after this. */
static void note_connection(void *context, struct MHD_Connection *connection, void **socket_context,
                            enum MHD_ConnectionNotificationCode code) {
    struct http *http = context;
    struct connection *c = *socket_context;
    pthread_mutex_lock(&http->lock);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *socket_context = c = info ? find_connection(http, info->connect_fd) : NULL;
        if (c)
            c->started = true;
    } else if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        drop_connection(c);
        *socket_context = NULL;
    }
    pthread_mutex_unlock(&http->lock);
}

static void read_address(char out[16], const struct sockaddr *address) {
    memset(out, 0, 16);
    if (address->sa_family == AF_INET6)
        memcpy(out, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
    else if (address->sa_family == AF_INET)
        memcpy(out, &((const struct sockaddr_in *)address)->sin_addr, 4);
}

/* With the lock held: counts a client, unless there are too many. */
static const char *admit(struct http *http, int socket, const struct sockaddr *address) {
    char own[16];
    size_t all = 0, same = 0;
    read_address(own, address);
    drop_connection(find_connection(http, socket)); /* that the daemon never started */
    for (const struct connection *c = http->connections; c; c = c->next, all++)
        same += memcmp(c->address, own, sizeof own) == 0;
    if (same >= OF_ONE_ADDRESS)
        return "too many connections from this address; try again";
    struct connection *c = all < CONNECTIONS ? calloc(1, sizeof *c) : NULL;
    if (!c)
        return "too many connections; try again";
    *c = (struct connection){.next = http->connections,
                             .place = &http->connections,
                             .socket = socket,
                             .due = now() + http->handler.request_seconds};
    memcpy(c->address, own, sizeof own);
    if (c->next)
        c->next->place = &c->next;
    http->connections = c;
    return NULL;
}

static const char *take_client(void *context, int socket, const struct sockaddr *address,
                               socklen_t size) {
    struct http *http = context;
    pthread_mutex_lock(&http->lock);
    const char *why = admit(http, socket, address);
    pthread_mutex_unlock(&http->lock);
    if (why || MHD_add_connection(http->daemon, socket, address, size) == MHD_YES)
        return why;
    /* The daemon has closed the socket. */
    pthread_mutex_lock(&http->lock);
    drop_connection(find_connection(http, socket));
    pthread_mutex_unlock(&http->lock);
    return NULL;
}

/* Says why, and lets the daemon see an end. */
static void end_late(struct connection *c, double seconds) {
    char message[100], answer[HTTP_REFUSAL];
    snprintf(message, sizeof message, "the request did not come within %g seconds", seconds);
    int n = http_refusal(answer, "408 Request Timeout", "", "invalid_request_error", message);
    send(c->socket, answer, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(c->socket, SHUT_RDWR);
    c->due = INFINITY;
}

static void tend(void *context) {
    struct http *http = context;
    double time = now();
    pthread_mutex_lock(&http->lock);
    for (struct connection *c = http->connections; c; c = c->next)
        if (c->started && c->due < time)
            end_late(c, http->handler.request_seconds);
    pthread_mutex_unlock(&http->lock);
}

/* ---- Requests ----------------------------------------------------------------------------- */

/* Queues the answer if there is one; else suspends the connection, once the request is complete. */
static enum MHD_Result queue_answer(struct exchange *e, bool complete) {
    pthread_mutex_lock(&e->lock);
    bool answers = e->answered && !e->queued;
    e->queued = e->queued || answers;
    /* Who sends no more asks for no more. */
    if (answers && e->response && state_of(e) & POLLRDHUP)
        MHD_add_response_header(e->response, "Connection", "close");
    if (complete && !e->answered) {
        e->suspended = true;
        MHD_suspend_connection(e->connection);
    }
    pthread_mutex_unlock(&e->lock);
    if (answers || complete)
        expect(e->http, e->connection, INFINITY);
    if (!answers)
        return MHD_YES;
    enum MHD_Result result =
        e->response ? MHD_queue_response(e->connection, (unsigned)e->status, e->response) : MHD_NO;
    drop_response(e);
    return result;
}

static void take_bytes(struct exchange *e, const char *bytes, size_t length) {
    struct http *http = e->http;
    const struct http_handler *handler = &http->handler;
    expect_more(e, length);
    if (e->answered)
        return;
    if (e->body.length + length > handler->most_body) {
        handler->refuse(handler->context, e, true);
        return;
    }
    if (atomic_load(&http->bodies) + length > handler->most_bodies ||
        !buffer_append(&e->body, bytes, length)) {
        handler->refuse(handler->context, e, false);
        return;
    }
    atomic_fetch_add(&http->bodies, length);
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *bytes,
                              size_t *n_bytes, void **state) {
    struct http *http = context;
    const struct http_handler *handler = &http->handler;
    struct exchange *e = *state;
    if (!e) {
        *state = e = new_exchange(http, connection, method, url, version);
        if (!e)
            return MHD_NO;
        expect(http, connection, now() + handler->request_seconds);
        handler->head(handler->context, e, &e->head);
        return queue_answer(e, false);
    }
    if (*n_bytes > 0) {
        take_bytes(e, bytes, *n_bytes);
        *n_bytes = 0;
        return MHD_YES;
    }
    if (!e->headed && !e->answered) {
        e->headed = true;
        handler->request(handler->context, e, &e->head, e->body.data ? e->body.data : "",
                         e->body.length);
    }
    return queue_answer(e, true);
}

/* The answer was fetched, or the client has gone. */
static void complete(void *context, struct MHD_Connection *connection, void **state,
                     enum MHD_RequestTerminationCode code) {
    struct http *http = context;
    struct exchange *e = *state;
    (void)code;
    expect(http, connection, now() + IDLE_SECONDS + http->handler.request_seconds);
    if (!e)
        return;
    pthread_mutex_lock(&e->lock);
    e->gone = true;
    e->connection = NULL;
    pthread_mutex_unlock(&e->lock);
    drop_response(e);
    atomic_fetch_sub(&e->http->open, 1);
    *state = NULL;
    release(e);
}

/* ---- The daemon --------------------------------------------------------------------------- */

/* A client's faults are its own, and are not told. */
__attribute__((format(printf, 2, 0))) static void ignore_message(void *context, const char *format,
                                                                 va_list arguments) {
    (void)context;
    (void)format;
    (void)arguments;
}

static void free_http(struct http *http) {
    if (http->daemon)
        MHD_stop_daemon(http->daemon);
    while (http->connections)
        drop_connection(http->connections);
    pthread_mutex_destroy(&http->lock);
    free(http);
}

/* Clients are counted here (admit), so the daemon has room for more: it forgets one only after it
 * has said so. */
static void *start(int listener, const struct http_handler *handler) {
    struct http *http = calloc(1, sizeof *http);
    if (!http)
        return NULL;
    http->handler = *handler;
    pthread_mutex_init(&http->lock, NULL);
    http->daemon = MHD_start_daemon(
        MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME |
            MHD_USE_ERROR_LOG | MHD_USE_NO_LISTEN_SOCKET,
        0, NULL, NULL, handle, http, MHD_OPTION_EXTERNAL_LOGGER, ignore_message, NULL,
        MHD_OPTION_NOTIFY_COMPLETED, complete, http, MHD_OPTION_NOTIFY_CONNECTION, note_connection,
        http, MHD_OPTION_CONNECTION_LIMIT, 2U * CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_SECONDS, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_UNESCAPE_CALLBACK,
        unescape, NULL, MHD_OPTION_URI_LOG_CALLBACK, note_uri, NULL, MHD_OPTION_END);
    if (http->daemon)
        http->acceptor = acceptor_start(listener, take_client, http);
    if (http->acceptor)
        return http;
    free_http(http);
    return NULL;
}

static void quiesce(void *context) {
    struct http *http = context;
    if (http->acceptor)
        acceptor_end(http->acceptor);
    http->acceptor = NULL;
}

static void stop(void *context, double seconds) {
    struct http *http = context;
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    quiesce(http);
    for (double waited = 0; waited < seconds && atomic_load(&http->open) > 0; waited += 0.01)
        nanosleep(&pause, NULL);
    free_http(http);
}

__attribute__((visibility("default"))) const struct http_module txl_http_module = {
    .version = TXL_VERSION,
    .start = start,
    .stop = stop,
    .quiesce = quiesce,
    .tend = tend,
    .mark = mark,
    .answer = answer,
    .keep = keep,
    .release = release,
    .forget = forget,
    .begin = begin,
    .send = send_bytes,
    .end = end,
    .waiting = waiting,
    .gone = gone,
};
