/* Loads the module of HTTP, of a package of its own, unless a static program has it inside. */
#include "http.h"

#include "cli/io/modules.h"
#include "cli/io/terminal.h"
#include "txl.h"

#include <dlfcn.h>
#include <string.h>

const struct http_module *http_load(void) {
#if defined HTTP_INSIDE
    return &txl_http_module;
#elif defined HTTP_MODULE
    const struct http_module *http = module_load("txl-serve.so", HTTP_MODULE, HTTP_MODULE_SYMBOL);
    if (!http)
        terminal_error("serving needs HTTP's module (Debian: the package txl-serve): %s",
                       dlerror());
    else if (strcmp(http->version, TXL_VERSION) != 0)
        terminal_error("HTTP's module is of txl %s, and this is txl %s; install them together",
                       http->version, TXL_VERSION);
    else
        return http;
    return NULL;
#else
    terminal_error("this txl was built without libmicrohttpd: it cannot serve; install Debian's "
                   "libmicrohttpd-dev and run ./setup again");
    return NULL;
#endif
}
