/* The keeper of an output: it waits for a byte, or for the end of its socket.  The system calls of
 * the other process are those that a confined one may make. */
#include "output_keeper.h"

#include "lib/base/error.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Any other byte asks it to go. */
static const char commit_byte = 'c', go_byte = 'g';

/* Reads `size` bytes; false when the other side has gone. */
static bool read_all(int socket, void *data, size_t size) {
    char *bytes = data;
    while (size > 0) {
        ssize_t n = read(socket, bytes, size);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        if (n > 0) {
            bytes += n;
            size -= (size_t)n;
        }
    }
    return true;
}

/* Signals are for the process that works: the keeper ends when its socket does. */
static _Noreturn void keep(struct output_file *out, int socket) {
    const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGPIPE};
    txl_error answer = {.status = TXL_OK};
    char byte;
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        signal(ignored[i], SIG_IGN);
    bool asked = read_all(socket, &byte, sizeof byte) && byte == commit_byte;
    if (asked)
        output_file_commit(out, &answer);
    output_file_close(out);
    /* The socket takes so few bytes at once. */
    bool answered = !asked || write(socket, &answer, sizeof answer) == sizeof answer;
    _exit(answered ? 0 : 1);
}

static txl_status fail_keeper(const char *path, txl_error *error) {
    return txl_fail(error, errno == ENOMEM ? TXL_MEMORY : TXL_IO,
                    "%s: the process that puts it into place cannot be started: %s", path,
                    strerror(errno));
}

txl_status output_keeper_start(struct output_keeper *keeper, struct output_file *out,
                               txl_error *error) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return fail_keeper(out->path, error);
    signal(SIGCHLD, SIG_IGN); /* nobody waits for its status */
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        keep(out, ends[1]);
    }
    txl_status status = child < 0 ? fail_keeper(out->path, error) : TXL_OK;
    close(ends[1]);
    if (status) {
        close(ends[0]);
        return status;
    }
    *keeper = (struct output_keeper){.socket = ends[0], .path = out->path};
    free(out->temporary); /* the name is the keeper's now */
    out->temporary = NULL;
    return TXL_OK;
}

txl_status output_keeper_commit(struct output_keeper *keeper, txl_error *error) {
    txl_error answer;
    bool answered = write(keeper->socket, &commit_byte, 1) == 1 &&
                    read_all(keeper->socket, &answer, sizeof answer);
    close(keeper->socket);
    keeper->socket = -1;
    if (!answered)
        return txl_fail(error, TXL_IO, "%s: the process that puts it into place was ended",
                        keeper->path);
    return answer.status ? txl_fail(error, answer.status, "%s", answer.message) : TXL_OK;
}

void output_keeper_end(struct output_keeper *keeper) {
    char byte;
    if (keeper->socket < 0)
        return;
    if (write(keeper->socket, &go_byte, 1) == 1)
        read_all(keeper->socket, &byte, sizeof byte);
    close(keeper->socket);
}
