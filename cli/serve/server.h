/* The server: which request gets what, and who may ask. */
#ifndef CLI_SERVER_H
#define CLI_SERVER_H

#include "background.h"
#include "cli/texts/text.h"
#include "guard.h"
#include "http.h"
#include "work.h"

struct server {
    const struct http_module *http;
    struct guard guard;
    struct work work;
    struct background requests; /* with large bodies */
    struct text_options usual;  /* of a request that says nothing else */
    bool has_page;
    int64_t started;
    atomic_bool closing; /* no more requests are taken */
};

/* What the HTTP module calls; the context is the server. */
struct http_handler server_handler(struct server *server);

#endif
