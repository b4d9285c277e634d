/* Built without libmicrohttpd. */
#include "http.h"

#include "cli/io/terminal.h"

const struct http_module *http_load(void) {
    terminal_error("this txl was built without libmicrohttpd: it cannot serve; install Debian's "
                   "libmicrohttpd-dev and run ./setup again");
    return NULL;
}
