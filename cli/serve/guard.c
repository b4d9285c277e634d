/* Checks of the headers of a request. */
#include "guard.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MOST_NAME = 255 };

/* Whether the text is the name, or the name and the port; only the latter if `exact`, but for
 * HTTP's own port. */
static bool is_host(const char *text, const char *name, int port, bool exact) {
    char rest[16];
    size_t n = strlen(name);
    snprintf(rest, sizeof rest, ":%d", port);
    if (strncasecmp(text, name, n) != 0)
        return false;
    return strcmp(text + n, rest) == 0 || (text[n] == '\0' && (!exact || port == 80));
}

/* Whether the text names this server by a name that it always has. */
static bool is_here(const struct guard *g, const char *text, bool exact) {
    char six[MOST_NAME];
    snprintf(six, sizeof six, strchr(g->host, ':') ? "[%s]" : "%s", g->host);
    const char *const names[] = {"localhost", "127.0.0.1", "[::1]", six};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_host(text, names[i], g->port, exact))
            return true;
    return false;
}

static bool is_allowed(const struct guard *g, const char *text) {
    for (size_t i = 0; i < g->allowed->n; i++)
        if (is_host(text, g->allowed->items[i], g->port, false))
            return true;
    return false;
}

/* Whether the text is ":" and a port, or nothing. */
static bool is_port(const char *text) {
    size_t n = *text == ':' ? strspn(text + 1, "0123456789") : 0;
    return *text == '\0' || (n > 0 && n <= 5 && text[n + 1] == '\0');
}

/* An address in numbers, [in brackets] if it is of IPv6. */
static bool is_literal(const char *text) {
    char address[INET6_ADDRSTRLEN + 1];
    unsigned char bytes[16];
    bool six = *text == '[';
    size_t n = strcspn(text + six, six ? "]" : ":");
    if (n >= sizeof address || (six && text[n + 1] != ']') || !is_port(text + n + 2 * six))
        return false;
    memcpy(address, text + six, n);
    address[n] = '\0';
    return inet_pton(six ? AF_INET6 : AF_INET, address, bytes) == 1;
}

bool guard_host(const struct guard *g, const char *host) {
    return host &&
           (is_here(g, host, false) || is_allowed(g, host) || (g->literals && is_literal(host)));
}

/* Whether an Origin is this server's own.  A page of this machine is one of another server if its
 * port is another, and behind an address that is any, only what the request itself was sent to is
 * known to be ours. */
static bool is_own(const struct guard *g, const char *origin, const char *host) {
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(schemes[i]);
        if (strncmp(origin, schemes[i], n) != 0)
            continue;
        const char *name = origin + n;
        return (i == 0 && is_here(g, name, true)) || is_allowed(g, name) ||
               (g->literals && is_literal(name) && host && strcmp(name, host) == 0);
    }
    return false;
}

bool guard_origin(const struct guard *g, const char *origin, const char *host, bool *other) {
    *other = false;
    if (!origin || is_own(g, origin, host))
        return true;
    *other = true;
    for (size_t i = 0; i < g->origins->n; i++)
        if (strcmp(g->origins->items[i], origin) == 0)
            return true;
    return false;
}

bool guard_is_name(const char *name) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    size_t n = strspn(name, letters);
    return strlen(name) < MOST_NAME && ((n > 0 && is_port(name + n)) || is_literal(name));
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
