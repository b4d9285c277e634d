/* Takes the connections of a socket that listens, and tells those that are too many so. */
#ifndef CLI_HTTP_ACCEPT_H
#define CLI_HTTP_ACCEPT_H

#include <stdbool.h>
#include <sys/socket.h>

struct acceptor;

/* Takes a connection, whose socket does not block; or returns why not, and leaves the socket. */
typedef const char *take_connection(void *context, int socket, const struct sockaddr *address,
                                    socklen_t size);

/* Takes connections in a thread of its own, until acceptor_end.  NULL: it cannot, and errno says
 * why. */
struct acceptor *acceptor_start(int listener, take_connection *take, void *context);

/* Closes the listener and frees the acceptor. */
void acceptor_end(struct acceptor *acceptor);

#endif
