/* Work that would hold up others, done by a thread of its own, one after the other: large requests,
 * which the thread of connections must not read, and large answers, which the model's thread must
 * not write. */
#ifndef CLI_BACKGROUND_H
#define CLI_BACKGROUND_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct background {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct task *first, **end;
    size_t left; /* tasks that are not done */
    bool started, closing;
};

/* False with the error printed. */
bool background_start(struct background *background);

/* Has `run` called with the context.  False when memory is short. */
bool background_do(struct background *background, void (*run)(void *context), void *context);

/* Tasks that are not done. */
size_t background_left(struct background *background);

/* Does what is left, and ends the thread; nothing, if it was not started. */
void background_end(struct background *background);

#endif
