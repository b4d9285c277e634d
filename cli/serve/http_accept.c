/* A connection too many gets an answer, which a connection that is closed at once would lose: what
 * the client sends meanwhile has to be read, or its system would be told of a fault in the place of
 * the answer.  So its socket lingers a little. */
#include "http_accept.h"

#include "http.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How many linger, the oldest makes room; and how long. */
enum { MOST_LINGERING = 64, LINGER_SECONDS = 2 };

struct acceptor {
    pthread_t thread;
    int listener, end[2]; /* a pipe, closed to end the thread */
    take_connection *take;
    void *context;
    struct lingering {
        int socket;
        time_t until;
    } lingering[MOST_LINGERING]; /* [n], the oldest first */
    size_t n;
};

static time_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

static void forget(struct acceptor *a, size_t i) {
    close(a->lingering[i].socket);
    a->n--;
    memmove(&a->lingering[i], &a->lingering[i + 1], (a->n - i) * sizeof *a->lingering);
}

/* Tells the client to come again. */
static void send_away(struct acceptor *a, int client, const char *why) {
    char answer[HTTP_REFUSAL];
    int n =
        http_refusal(answer, "503 Service Unavailable", "Retry-After: 1\r\n", "server_error", why);
    send(client, answer, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(client, SHUT_WR);
    if (a->n == MOST_LINGERING)
        forget(a, 0);
    a->lingering[a->n++] = (struct lingering){client, now() + LINGER_SECONDS};
}

/* Takes what has come.  False: there is no room for another socket. */
static bool take_all(struct acceptor *a) {
    union {
        struct sockaddr any;
        struct sockaddr_storage room;
    } address;
    for (;;) {
        socklen_t size = sizeof address;
        int client = accept4(a->listener, &address.any, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (client < 0)
            return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
        const char *why = a->take(a->context, client, &address.any, size);
        if (why)
            send_away(a, client, why);
    }
}

/* Reads what comes from those that linger; those that have ended, or whose time is over, go. */
static void hear_lingering(struct acceptor *a, const struct pollfd *polled) {
    char bytes[4096];
    time_t time = now();
    for (size_t i = a->n; i-- > 0;) {
        bool ended = false;
        if (polled[i].revents != 0)
            ended = recv(a->lingering[i].socket, bytes, sizeof bytes, MSG_DONTWAIT) <= 0;
        if (ended || time > a->lingering[i].until)
            forget(a, i);
    }
}

static void *accept_thread(void *context) {
    struct acceptor *a = context;
    struct pollfd polled[2 + MOST_LINGERING];
    bool room = true;
    for (;;) {
        polled[0] = (struct pollfd){.fd = a->end[0], .events = POLLIN};
        polled[1] = (struct pollfd){.fd = room ? a->listener : -1, .events = POLLIN};
        for (size_t i = 0; i < a->n; i++)
            polled[2 + i] = (struct pollfd){.fd = a->lingering[i].socket, .events = POLLIN};
        poll(polled, 2 + a->n, !room ? 100 : a->n > 0 ? 1000 : -1);
        if (polled[0].revents != 0)
            return NULL;
        hear_lingering(a, polled + 2);
        room = room && polled[1].revents == 0 ? room : take_all(a);
    }
}

struct acceptor *acceptor_start(int listener, take_connection *take, void *context) {
    struct acceptor *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    *a = (struct acceptor){.listener = listener, .take = take, .context = context};
    if (pipe2(a->end, O_CLOEXEC) < 0) {
        free(a);
        return NULL;
    }
    if ((errno = pthread_create(&a->thread, NULL, accept_thread, a)) == 0)
        return a;
    close(a->end[0]);
    close(a->end[1]);
    free(a);
    return NULL;
}

void acceptor_end(struct acceptor *a) {
    close(a->end[1]);
    pthread_join(a->thread, NULL);
    close(a->end[0]);
    close(a->listener);
    while (a->n > 0)
        forget(a, 0);
    free(a);
}
