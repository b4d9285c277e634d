/* Who may ask: a browser shows pages of strangers, which can make it send requests here. */
#ifndef CLI_GUARD_H
#define CLI_GUARD_H

#include "cli/options/options.h"

struct guard {
    const char *host; /* of the command line, besides the names of this machine */
    int port;
    const struct string_list *allowed; /* more names, with a port of their own or without one */
    bool literals;                     /* any address in numbers: rebinding needs a name */
    const struct string_list *origins; /* of other pages that may ask */
    const char *key;                   /* NULL: none is needed */
};

/* Whether a Host header names this server exactly, so that no name that a stranger has pointed here
 * (DNS rebinding) is one.  NULL is none. */
bool guard_host(const struct guard *guard, const char *host);

/* Whether a page of that Origin may ask by that Host.  NULL, of a program or of a page's own
 * address, may.  `*other`: it is a page of another server, which a header must allow to read the
 * answer. */
bool guard_origin(const struct guard *guard, const char *origin, const char *host, bool *other);

/* Whether a name could be a Host: letters of a name or an address in numbers, perhaps with a port.
 */
bool guard_is_name(const char *name);

/* Whether an Authorization header has the key.  The time does not depend on how much of it is
 * right. */
bool guard_key(const struct guard *guard, const char *authorization);

/* Whether a Content-Type is application/json, perhaps with parameters.  No form of a page has it.
 */
bool guard_is_json(const char *content_type);

#endif
