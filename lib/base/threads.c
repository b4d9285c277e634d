/* The thread pool.  A generated token is some hundred short parallel loops, so a waiting thread
 * spins for about a hundred microseconds before it sleeps: waking it through the kernel would cost
 * more than most loops do.
 *
 * Each thread begins with a share of consecutive tasks, so that its reading is sequential; then it
 * takes tasks from the ends of the other threads' shares. */
#include "threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { SPINS = 2000 };

/* The tasks of a share that nobody has taken, as one number: the first, and one past the last. */
typedef uint64_t share;

static share make_share(int first, int end) {
    return (uint64_t)(uint32_t)end << 32 | (uint32_t)first;
}

struct worker {
    struct pool *pool;
    pthread_t thread;
    int number;
    _Atomic(share) left;
    char apart[64]; /* no two shares in one cache line */
};

struct pool {
    int n;
    int started; /* workers that exist */

    /* The current loop.  A thread that has taken a task of it may read `task` and `context`: the
     * caller changes them only while no task is unfinished. */
    void (*task)(void *, int, int);
    void *context;
    atomic_int unfinished; /* tasks not yet done */

    bool (*idle)(void *, int); /* NULL, or see pool_new_with */
    void *idle_context;

    atomic_uint generation; /* number of loops so far; workers wait for it to change */
    atomic_bool stop;
    pthread_mutex_t mutex; /* guards sleeping */
    pthread_cond_t wake;
    atomic_int sleepers;

    struct worker worker[]; /* [n], the first of which is the caller's own */
};

int pool_processors(void) {
    cpu_set_t set[64]; /* 65,536 processors */
    if (sched_getaffinity(0, sizeof set, set) == 0)
        return CPU_COUNT_S(sizeof set, set);
    return 1;
}

static inline void spin_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* One turn of a waiting thread. */
static void spend_time(struct pool *pool, int thread) {
    if (!pool->idle || !pool->idle(pool->idle_context, thread))
        spin_pause();
}

/* Takes the first or the last task of a share; returns -1 if none is left. */
static int take_task(_Atomic(share) *left, bool last) {
    share old = atomic_load_explicit(left, memory_order_relaxed), new;
    int first, end;
    do {
        first = (int)(uint32_t)old;
        end = (int)(old >> 32);
        if (first >= end)
            return -1;
        new = last ? make_share(first, end - 1) : make_share(first + 1, end);
    } while (!atomic_compare_exchange_weak_explicit(left, &old, new, memory_order_acquire,
                                                    memory_order_relaxed));
    return last ? end - 1 : first;
}

/* A late worker finds nothing left, or takes part in the next loop.  Only workers that have taken a
 * task are waited for, so one that the system has not scheduled delays nobody. */
static void take_tasks(struct pool *pool, int thread) {
    int done = 0;
    for (int k = 0; k < pool->n; k++) {
        _Atomic(share) *left = &pool->worker[(thread + k) % pool->n].left;
        for (int i; (i = take_task(left, k > 0)) >= 0; done++)
            pool->task(pool->context, i, thread);
    }
    if (done > 0)
        atomic_fetch_sub_explicit(&pool->unfinished, done, memory_order_release);
}

/* Waits until the generation is no longer `seen`, and returns it. */
static unsigned wait_for_loop(struct pool *pool, unsigned seen, int thread) {
    for (int i = 0; i < SPINS; i++) {
        unsigned now = atomic_load_explicit(&pool->generation, memory_order_acquire);
        if (now != seen)
            return now;
        spend_time(pool, thread);
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    unsigned now;
    while ((now = atomic_load(&pool->generation)) == seen)
        pthread_cond_wait(&pool->wake, &pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
    return now;
}

static void *work(void *argument) {
    struct worker *worker = argument;
    struct pool *pool = worker->pool;
    unsigned seen = 0;
    for (;;) {
        seen = wait_for_loop(pool, seen, worker->number);
        if (atomic_load(&pool->stop))
            return NULL;
        take_tasks(pool, worker->number);
    }
}

/* Starts the workers on the loop that was written before. */
static void release_workers(struct pool *pool) {
    atomic_fetch_add(&pool->generation, 1);
    if (atomic_load(&pool->sleepers) > 0) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->mutex);
    }
}

void pool_free(struct pool *pool) {
    if (!pool)
        return;
    atomic_store(&pool->stop, true);
    release_workers(pool);
    for (int i = 0; i < pool->started; i++)
        pthread_join(pool->worker[i + 1].thread, NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

size_t pool_bytes(int n) {
    return sizeof(struct pool) + (size_t)n * sizeof(struct worker);
}

struct pool *pool_new(int n) {
    return pool_new_with(n, NULL, NULL);
}

struct pool *pool_new_with(int n, bool (*idle)(void *, int), void *context) {
    if (n <= 0)
        n = pool_processors();
    struct pool *pool = calloc(1, pool_bytes(n));
    if (!pool)
        return NULL;
    pool->n = n;
    pool->idle = idle;
    pool->idle_context = context;
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->wake, NULL);
    /* The program handles signals, so workers block them all but SIGBUS: a worker that reads a
     * mapped file can raise that one itself, and blocked it would kill the process. */
    sigset_t blocked, before;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    for (int i = 1; i < n; i++) {
        struct worker *worker = &pool->worker[i];
        worker->pool = pool;
        worker->number = i;
        if (pthread_create(&worker->thread, NULL, work, worker) != 0)
            break;
        pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pool->started < n - 1) {
        pool_free(pool);
        return NULL;
    }
    return pool;
}

int pool_size(const struct pool *pool) {
    return pool->n;
}

int pool_first_task(int n, int thread, int threads) {
    return (int)((int64_t)n * thread / threads);
}

void pool_run(struct pool *pool, int n, void (*task)(void *, int, int), void *context) {
    if (pool->n == 1 || n == 1) {
        for (int i = 0; i < n; i++)
            task(context, i, 0);
        return;
    }
    pool->task = task;
    pool->context = context;
    atomic_store_explicit(&pool->unfinished, n, memory_order_relaxed);
    for (int t = 0; t < pool->n; t++)
        atomic_store_explicit(
            &pool->worker[t].left,
            make_share(pool_first_task(n, t, pool->n), pool_first_task(n, t + 1, pool->n)),
            memory_order_release);
    release_workers(pool);
    take_tasks(pool, 0);
    /* With more threads than processors, a worker may need this one's. */
    for (int i = 0; atomic_load_explicit(&pool->unfinished, memory_order_acquire) > 0; i++)
        if (i < SPINS)
            spend_time(pool, 0);
        else
            sched_yield();
}
