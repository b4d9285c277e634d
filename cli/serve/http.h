/* HTTP, by a module of its own (libmicrohttpd): connections, requests and answers as bytes.  What
 * they mean is the program's.
 *
 * The module's thread calls the handler, which must not wait.  Answers may come from any thread, at
 * once or later. */
#ifndef CLI_HTTP_H
#define CLI_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A request and its answer. */
struct exchange;

/* What a request begins with; the strings live as long as the exchange, and NULL is what it lacks.
 */
struct http_head {
    const char *method, *path;
    const char *host, *origin, *authorization, *content_type;
    bool has_body;     /* its length is known, or it comes in chunks */
    uint64_t length;   /* of the body; 0: not known before it ends */
    const char *fault; /* what makes it ambiguous where the request ends, or whom it is for; NULL:
                          nothing.  The connection ends with the answer */
};

struct http_header {
    const char *name, *value;
};

/* An answer: its head, and a body of `length` bytes, which is copied. */
struct http_answer {
    int status;
    const struct http_header *headers; /* [n_header] */
    size_t n_header;
    const void *body;
    size_t length;
};

struct http_handler {
    void *context;
    /* The head has come: answers it, or lets the body come. */
    void (*head)(void *context, struct exchange *exchange, const struct http_head *head);
    /* The request is complete: answers it, or keeps the exchange to do so.  The body lives until
     * `forget`, or as long as the exchange. */
    void (*request)(void *context, struct exchange *exchange, const struct http_head *head,
                    const char *body, size_t length);
    /* A body is longer than `most_body`, or all that are held are together longer than
     * `most_bodies`: answers. */
    void (*refuse)(void *context, struct exchange *exchange, bool too_long);
    size_t most_body, most_bodies;
    size_t most_answers; /* bytes of answers together that clients have yet to fetch; what is more
                            is answered by 503, and a stream ends */
    /* In which a head is to come, and then its body; a long one has more time. */
    double request_seconds;
};

struct http_module {
    const char *version; /* TXL_VERSION, which is the program's too */

    /* Serves at a socket that listens.  NULL: it cannot. */
    void *(*start)(int listener, const struct http_handler *handler);
    /* Takes no more requests; waits until all answers were fetched, at most so many seconds; ends.
     * Every exchange must have an answer that was ended. */
    void (*stop)(void *http, double seconds);
    /* Takes no more connections. */
    void (*quiesce)(void *http);
    /* Ends the connections whose request is late; to be called again and again. */
    void (*tend)(void *http);

    /* Adds a header to whatever answers; at most 4.  What there is no memory for is left out. */
    void (*mark)(struct exchange *exchange, const char *name, const char *value);

    /* Answers; what comes after the first answer has no effect. */
    void (*answer)(struct exchange *exchange, const struct http_answer *answer);

    /* Makes the exchange live until it is released. */
    void (*keep)(struct exchange *exchange);
    void (*release)(struct exchange *exchange);

    /* Frees the request's body. */
    void (*forget)(struct exchange *exchange);

    /* An answer that is sent bit by bit: its head (without a body), then bytes, then its end.  What
     * there was no memory for ends the connection. */
    void (*begin)(struct exchange *exchange, const struct http_answer *answer);
    void (*send)(struct exchange *exchange, const void *bytes, size_t length);
    void (*end)(struct exchange *exchange);

    /* Bytes that wait for the client to read them. */
    size_t (*waiting)(struct exchange *exchange);
    /* Whether the client has gone. */
    bool (*gone)(struct exchange *exchange);
};

enum { HTTP_REFUSAL = 400 };

/* The body of an error, which ends with `code`. */
#define HTTP_ERROR(message, type, code)                                                            \
    "{\"error\":{\"message\":\"" message "\",\"type\":\"" type "\",\"param\":null,\"code\":" code  \
    "}}"

/* Writes an answer with an error, for a connection that has no exchange, and gives its length:
 * `status` with its reason, `headers` of its own, each with its line end. */
static inline int http_refusal(char answer[HTTP_REFUSAL], const char *status, const char *headers,
                               const char *type, const char *message) {
    char body[HTTP_REFUSAL / 2];
    int length = snprintf(body, sizeof body, HTTP_ERROR("%s", "%s", "%.3s"), message, type, status);
    return snprintf(answer, HTTP_REFUSAL,
                    "HTTP/1.1 %s\r\nConnection: close\r\n%sContent-Type: application/json\r\n"
                    "Content-Length: %d\r\n\r\n%s",
                    status, headers, length, body);
}

/* The one symbol of the module. */
#define HTTP_MODULE_SYMBOL "txl_http_module"
extern const struct http_module txl_http_module;

/* Loads it.  NULL with the error printed. */
const struct http_module *http_load(void);

#endif
