/* The module of HTTP: how many connections, bodies and unread answers it takes, at each bound and
 * beyond it, and when it takes a client for gone. */
#include "tests/unit.h"

#include "cli/serve/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_BODY_BYTES = 1000, MOST_BODIES_BYTES = 2500, MOST_ANSWER_BYTES = 40 << 20 };

/* ---- A server that answers GET /N by N bytes, keeps POST /keep, and streams N bytes of GET /sN --
 */

static struct exchange *kept;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct http_module *const module = &txl_http_module;

static void answer(struct exchange *e, int status, size_t length) {
    char *bytes = calloc(1, length + 1);
    assert_non_null(bytes);
    module->answer(e, &(struct http_answer){.status = status, .body = bytes, .length = length});
    free(bytes);
}

static void take_head(void *context, struct exchange *e, const struct http_head *head) {
    (void)context;
    if (head->fault)
        answer(e, 400, 0);
}

static void stream(struct exchange *e, size_t length) {
    char *bytes = calloc(1, length + 1);
    assert_non_null(bytes);
    module->begin(e, &(struct http_answer){.status = 200});
    module->send(e, bytes, length);
    module->end(e);
    free(bytes);
}

static void take_request(void *context, struct exchange *e, const struct http_head *head,
                         const char *body, size_t length) {
    (void)context;
    (void)body;
    (void)length;
    if (strcmp(head->path, "/keep") == 0) {
        module->keep(e);
        pthread_mutex_lock(&lock);
        kept = e;
        pthread_mutex_unlock(&lock);
    } else if (head->path[1] == 's') {
        stream(e, strtoul(head->path + 2, NULL, 10));
    } else {
        answer(e, 200, strtoul(head->path + 1, NULL, 10));
    }
}

static void refuse(void *context, struct exchange *e, bool alone) {
    (void)context;
    answer(e, alone ? 413 : 429, 0);
}

static int port;
static void *server;

static int start_server(void **state) {
    static const struct http_handler handler = {.head = take_head,
                                                .request = take_request,
                                                .refuse = refuse,
                                                .most_body = MOST_BODY_BYTES,
                                                .most_bodies = MOST_BODIES_BYTES,
                                                .most_answers = MOST_ANSWER_BYTES,
                                                .request_seconds = 60};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    (void)state;
    if (bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 128) < 0)
        return -1;
    getsockname(listener, (struct sockaddr *)&address, &size);
    port = ntohs(address.sin_port);
    kept = NULL;
    server = module->start(listener, &handler);
    return server ? 0 : -1;
}

static int stop_server(void **state) {
    (void)state;
    module->stop(server, 1);
    return 0;
}

/* ---- Clients ------------------------------------------------------------------------------- */

/* A connection from 127.0.0.`number`. */
static int connect_from(unsigned number) {
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr = {htonl(0x7f000000 + number)}};
    struct sockaddr_in other = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const struct timeval patience = {.tv_sec = 60};
    int client = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(bind(client, (struct sockaddr *)&own, sizeof own), 0);
    assert_int_equal(connect(client, (struct sockaddr *)&other, sizeof other), 0);
    return client;
}

static void say(int client, const char *text) {
    assert_int_equal(send(client, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void ask(int client, const char *path) {
    char text[200];
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    say(client, text);
}

/* The status of the next answer, of which no more than its head's beginning is read; 0: an end. */
static int status_of(int client) {
    char text[13] = "";
    ssize_t n = recv(client, text, 12, MSG_WAITALL);
    return n == 12 ? atoi(text + 9) : 0;
}

/* What is left on the connection until it ends. */
static size_t rest_of(int client) {
    static char bytes[1 << 16];
    size_t all = 0;
    for (ssize_t n; (n = recv(client, bytes, sizeof bytes, 0)) > 0;)
        all += (size_t)n;
    return all;
}

/* ---- Connections --------------------------------------------------------------------------- */

enum { OF_ONE = 64, ALL = 256 };

static void take_all(int clients[OF_ONE]) {
    for (int i = 0; i < OF_ONE; i++) {
        clients[i] = connect_from(1);
        ask(clients[i], "/1");
        assert_int_equal(status_of(clients[i]), 200);
    }
}

TEST_WITH(an_address_has_64_connections, start_server, stop_server) {
    int clients[OF_ONE];
    take_all(clients);
    int many = connect_from(1), other = connect_from(2);
    ask(many, "/1");
    char text[400] = "";
    assert_true(recv(many, text, sizeof text - 1, 0) > 0);
    assert_memory_equal(text, "HTTP/1.1 503", 12);
    assert_non_null(strstr(text, "\r\nRetry-After: 1\r\n"));
    assert_non_null(strstr(
        text,
        "\r\n\r\n{\"error\":{\"message\":\"too many connections from this address; try again\""));
    assert_int_equal(rest_of(many), 0);
    ask(other, "/1");
    assert_int_equal(status_of(other), 200);
    /* One that ends makes room for another. */
    close(many);
    close(clients[0]);
    int status = 0;
    for (int i = 0; i < 1000 && status != 200; i++) {
        int again = connect_from(1);
        ask(again, "/1");
        status = status_of(again);
        close(again);
        usleep(10000);
    }
    assert_int_equal(status, 200);
    for (int i = 1; i < OF_ONE; i++)
        close(clients[i]);
    close(other);
}

TEST_WITH(a_server_has_256_connections, start_server, stop_server) {
    int clients[ALL];
    for (int i = 0; i < ALL; i++) {
        clients[i] = connect_from(1 + (unsigned)i / OF_ONE);
        ask(clients[i], "/1");
        assert_int_equal(status_of(clients[i]), 200);
    }
    int many = connect_from(9);
    ask(many, "/1");
    assert_int_equal(status_of(many), 503);
    assert_true(rest_of(many) > 0);
    for (int i = 0; i < ALL; i++)
        close(clients[i]);
    close(many);
}

/* Sends more than sockets keep.  False: the other side has closed its own. */
static bool is_heard(int client) {
    static const char bytes[1 << 18];
    const int room = 1 << 12;
    setsockopt(client, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    for (size_t sent = 0; sent < sizeof bytes;) {
        ssize_t n = send(client, bytes + sent, sizeof bytes - sent, MSG_NOSIGNAL);
        if (n < 0)
            return false;
        sent += (size_t)n;
    }
    return true;
}

/* A connection too many, which has had its answer. */
static int connect_too_many(void) {
    char text[400];
    ssize_t n;
    int client = connect_from(1);
    assert_int_equal(status_of(client), 503);
    while ((n = recv(client, text, sizeof text, 0)) > 0)
        continue;
    assert_int_equal(n, 0); /* an end, no fault */
    return client;
}

/* What a client still sends is read, so that its system is told of no fault. */
TEST_WITH(who_is_sent_away_is_heard_out, start_server, stop_server) {
    int clients[OF_ONE];
    take_all(clients);
    int first = connect_too_many(), second = connect_too_many();
    assert_true(is_heard(first));
    close(first);
    assert_true(is_heard(second));
    close(second);
    for (int i = 0; i < OF_ONE; i++)
        close(clients[i]);
}

TEST_WITH(the_oldest_of_those_sent_away_makes_room, start_server, stop_server) {
    int clients[OF_ONE], away[OF_ONE + 2];
    take_all(clients);
    for (int i = 0; i < OF_ONE + 2; i++)
        away[i] = connect_too_many();
    assert_false(is_heard(away[0]));
    assert_false(is_heard(away[1]));
    assert_true(is_heard(away[OF_ONE + 1]));
    for (int i = 0; i < OF_ONE + 2; i++)
        close(away[i]);
    for (int i = 0; i < OF_ONE; i++)
        close(clients[i]);
}

/* ---- Bodies and answers -------------------------------------------------------------------- */

static void send_body(int client, const char *path, size_t length, size_t sent) {
    char text[MOST_BODY_BYTES + 300];
    int n = snprintf(text, sizeof text,
                     "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n\r\n", path,
                     length);
    memset(text + n, 'a', sent);
    assert_int_equal(send(client, text, (size_t)n + sent, MSG_NOSIGNAL), (size_t)n + sent);
}

TEST_WITH(a_body_has_its_most, start_server, stop_server) {
    int client = connect_from(1);
    send_body(client, "/0", MOST_BODY_BYTES, MOST_BODY_BYTES);
    assert_int_equal(status_of(client), 200);
    close(client);
    client = connect_from(1);
    send_body(client, "/0", MOST_BODY_BYTES + 1, MOST_BODY_BYTES + 1);
    assert_int_equal(status_of(client), 413);
    close(client);
}

TEST_WITH(bodies_together_have_their_most, start_server, stop_server) {
    int held[2], client = connect_from(1);
    for (int i = 0; i < 2; i++)
        send_body(held[i] = connect_from(1), "/0", MOST_BODY_BYTES, MOST_BODY_BYTES - 1);
    usleep(300000);
    const size_t room = MOST_BODIES_BYTES - 2 * (MOST_BODY_BYTES - 1);
    send_body(client, "/0", room, room);
    assert_int_equal(status_of(client), 200);
    close(client);
    client = connect_from(1);
    send_body(client, "/0", room + 1, room + 1);
    assert_int_equal(status_of(client), 429);
    close(client);
    for (int i = 0; i < 2; i++) {
        say(held[i], "a");
        assert_int_equal(status_of(held[i]), 200);
        close(held[i]);
    }
    /* What was answered holds nothing. */
    client = connect_from(1);
    send_body(client, "/0", MOST_BODY_BYTES, MOST_BODY_BYTES);
    assert_int_equal(status_of(client), 200);
    close(client);
}

/* Asks until there is room again, as the daemon frees an answer after the client has it. */
static int ask_until(const char *path, int wanted) {
    int status = 0;
    for (int i = 0; i < 1000 && status != wanted; i++) {
        int client = connect_from(1);
        ask(client, path);
        status = status_of(client);
        close(client);
        usleep(10000);
    }
    return status;
}

TEST_WITH(unread_answers_together_have_their_most, start_server, stop_server) {
    char all[20], more[20];
    snprintf(all, sizeof all, "/%d", MOST_ANSWER_BYTES);
    snprintf(more, sizeof more, "/%d", MOST_ANSWER_BYTES + 1);
    assert_int_equal(ask_until(more, 503), 503);
    int slow = connect_from(1), other = connect_from(1);
    ask(slow, all);
    assert_int_equal(status_of(slow), 200);
    ask(other, "/1");
    assert_int_equal(status_of(other), 503);
    close(slow);
    close(other);
    assert_int_equal(ask_until(all, 200), 200);
    /* A stream that is not read counts, too. */
    assert_int_equal(ask_until("/1", 200), 200);
    snprintf(all, sizeof all, "/s%d", MOST_ANSWER_BYTES);
    slow = connect_from(1);
    ask(slow, all);
    assert_int_equal(status_of(slow), 200);
    snprintf(all, sizeof all, "/%d", MOST_ANSWER_BYTES / 2);
    other = connect_from(1);
    ask(other, all);
    assert_int_equal(status_of(other), 503);
    close(other);
    close(slow);
    assert_int_equal(ask_until(all, 200), 200);
}

/* What a client has read is counted no more: together they have more than unread answers may. */
TEST_WITH(streams_come_whole, start_server, stop_server) {
    for (size_t all = 0; all <= MOST_ANSWER_BYTES; all += 5000000) {
        int client = connect_from(1);
        say(client, "GET /s5000000 HTTP/1.0\r\nHost: localhost\r\n\r\n");
        assert_int_equal(status_of(client), 200);
        assert_true(rest_of(client) > 5000000);
        close(client);
    }
}

/* ---- Clients that go, and that only send no more --------------------------------------------- */

static struct exchange *wait_for_kept(void) {
    struct exchange *e = NULL;
    for (int i = 0; i < 1000 && !e; i++) {
        pthread_mutex_lock(&lock);
        e = kept;
        pthread_mutex_unlock(&lock);
        usleep(10000);
    }
    assert_non_null(e);
    return e;
}

static bool goes(struct exchange *e, int tries) {
    bool is_gone = false;
    for (int i = 0; i < tries && !is_gone; i++) {
        is_gone = module->gone(e);
        usleep(10000);
    }
    return is_gone;
}

/* With how many answers that are only announced before the true one. */
static const struct {
    const char *version;
    bool ends, goes;
    int interim;
} leaving[] = {{"1.1", true, true, 0}, {"1.1", false, false, 1}, {"1.0", false, false, 0}};

TEST_EACH(who_sends_no_more_is_there_and_who_ends_is_gone, leaving) {
    char text[200];
    assert_int_equal(start_server(NULL), 0);
    int client = connect_from(1);
    snprintf(text, sizeof text,
             "POST /keep HTTP/%s\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", row->version);
    say(client, text);
    struct exchange *e = wait_for_kept();
    assert_false(goes(e, 3));
    if (row->ends)
        close(client);
    else
        shutdown(client, SHUT_WR);
    assert_int_equal(goes(e, row->goes ? 1000 : 30), row->goes);
    answer(e, 200, 10);
    module->release(e);
    if (!row->ends) {
        for (int i = 0; i < row->interim; i++) {
            char end[13]; /* " Continue" and two line ends */
            assert_int_equal(status_of(client), 100);
            assert_int_equal(recv(client, end, 13, MSG_WAITALL), 13);
        }
        assert_int_equal(status_of(client), 200);
        assert_true(rest_of(client) > 10); /* and the connection ends */
        close(client);
    }
    stop_server(NULL);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
