/* Checks of the headers of a request. */
#include "guard.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Whether the text is the name, or the name and the port. */
static bool is_host(const char *text, const char *name, int port) {
    char rest[16];
    size_t n = strlen(name);
    snprintf(rest, sizeof rest, ":%d", port);
    return strncasecmp(text, name, n) == 0 && (text[n] == '\0' || strcmp(text + n, rest) == 0);
}

static bool is_here(const struct guard *g, const char *text) {
    const char *const names[] = {"localhost", "127.0.0.1", "[::1]", g->host};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_host(text, names[i], g->port))
            return true;
    return false;
}

bool guard_host(const struct guard *g, const char *host) {
    return host && is_here(g, host);
}

bool guard_origin(const struct guard *g, const char *origin, bool *other) {
    static const char scheme[] = "http://";
    size_t n = sizeof scheme - 1;
    *other = false;
    if (!origin)
        return true;
    if (strncmp(origin, scheme, n) == 0 && is_here(g, origin + n))
        return true;
    *other = true;
    for (size_t i = 0; i < g->origins->n; i++)
        if (strcmp(g->origins->items[i], origin) == 0)
            return true;
    return false;
}

bool guard_key(const struct guard *g, const char *authorization) {
    static const char scheme[] = "Bearer ";
    size_t n = sizeof scheme - 1;
    if (!g->key)
        return true;
    if (!authorization || strncasecmp(authorization, scheme, n) != 0)
        return false;
    const char *given = authorization + n;
    size_t key_length = strlen(g->key), length = strlen(given);
    unsigned char different = length != key_length;
    for (size_t i = 0; i < key_length; i++)
        different |= (unsigned char)(g->key[i] ^ (i < length ? given[i] : 0));
    return different == 0;
}

bool guard_is_json(const char *type) {
    static const char json[] = "application/json";
    size_t n = sizeof json - 1;
    return type && strncasecmp(type, json, n) == 0 &&
           (type[n] == '\0' || type[n] == ';' || type[n] == ' ');
}
