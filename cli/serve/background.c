/* A queue with one thread. */
#include "background.h"

#include "cli/io/terminal.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

/* Blocks of this many bytes are given back to the system when they are freed, */
enum { LARGE_BLOCK = 1 << 20 };

struct task {
    struct task *next;
    void (*run)(void *context);
    void *context;
};

/* and the many small ones of a task then. */
static void give_back_memory(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

/* The next task; NULL: none comes any more. */
static struct task *next_task(struct background *b) {
    pthread_mutex_lock(&b->lock);
    while (!b->first && !b->closing)
        pthread_cond_wait(&b->changed, &b->lock);
    struct task *task = b->first;
    if (task && !(b->first = task->next))
        b->end = &b->first;
    pthread_mutex_unlock(&b->lock);
    return task;
}

static void *background_thread(void *context) {
    struct background *b = context;
    struct task *task;
    while ((task = next_task(b))) {
        task->run(task->context);
        free(task);
        give_back_memory();
        pthread_mutex_lock(&b->lock);
        b->left--;
        pthread_mutex_unlock(&b->lock);
    }
    return NULL;
}

bool background_start(struct background *b) {
    *b = (struct background){.end = &b->first};
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK);
#endif
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    int failed = pthread_create(&b->thread, NULL, background_thread, b);
    b->started = failed == 0;
    return b->started || terminal_error("cannot start a thread: %s", strerror(failed));
}

bool background_do(struct background *b, void (*run)(void *context), void *context) {
    struct task *task = malloc(sizeof *task);
    if (!task)
        return false;
    *task = (struct task){.run = run, .context = context};
    pthread_mutex_lock(&b->lock);
    *b->end = task;
    b->end = &task->next;
    b->left++;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
    return true;
}

size_t background_left(struct background *b) {
    pthread_mutex_lock(&b->lock);
    size_t left = b->left;
    pthread_mutex_unlock(&b->lock);
    return left;
}

void background_end(struct background *b) {
    if (!b->started)
        return;
    pthread_mutex_lock(&b->lock);
    b->closing = true;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
    pthread_join(b->thread, NULL);
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    b->started = false;
}
