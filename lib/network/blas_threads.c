/* OpenBLAS's number of threads, which is one for the whole process.
 *
 * So the number of holders and the number to restore belong to the process too.  They are the only
 * variables in lib/ that outlive a call and belong to no object; a lock guards them. */
#include "blas_threads.h"

#include <pthread.h>
#include <stddef.h>

extern int openblas_get_num_threads(void);
extern void openblas_set_num_threads(int n);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t holders;
static int before;

void blas_threads_hold(void) {
    pthread_mutex_lock(&lock);
    if (holders++ == 0)
        before = openblas_get_num_threads();
    if (openblas_get_num_threads() != 1)
        openblas_set_num_threads(1);
    pthread_mutex_unlock(&lock);
}

void blas_threads_release(void) {
    pthread_mutex_lock(&lock);
    if (--holders == 0 && before != 1 && openblas_get_num_threads() == 1)
        openblas_set_num_threads(before);
    pthread_mutex_unlock(&lock);
}
