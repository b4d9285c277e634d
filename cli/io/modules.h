/* Modules: shared objects of txl's own, for what only some need and which takes another library. */
#ifndef CLI_MODULES_H
#define CLI_MODULES_H

/* Loads the module `name` that lies beside a program that is not installed, else the one at
 * `installed`.  Returns what its symbol `symbol` names; NULL, and then dlerror() says why. */
const void *module_load(const char *name, const char *installed, const char *symbol);

#endif
