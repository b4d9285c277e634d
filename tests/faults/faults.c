/* Functions that replace those of the C library and can fail: the dynamic linker finds these first.
 * The real ones are a sanitizer's if there is one. */
#include "faults.h"

#include <cblas.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REPLACED __attribute__((visibility("default")))

static atomic_bool armed;
static enum fault_kind armed_kind;
static long armed_from;
static bool no_nameless, no_links, no_folder_sync; /* of the file system */
static bool armed_on;
static pthread_t armed_thread;
static bool in_library;
static atomic_long calls;
static atomic_long live, peak; /* bytes */

void faults_arm(enum fault_kind kind, long n, bool on) {
    armed_kind = kind;
    armed_from = n;
    armed_on = on;
    armed_thread = pthread_self();
    atomic_store(&calls, 0);
    atomic_store(&live, 0);
    atomic_store(&peak, 0);
    atomic_store(&armed, true);
}

long faults_disarm(void) {
    atomic_store(&armed, false);
    return atomic_load(&calls);
}

size_t faults_peak(void) {
    return (size_t)atomic_load(&peak);
}

/* Whether the call that is being made is to fail. */
static bool fails(enum fault_kind kind) {
    if (!atomic_load(&armed) || kind != armed_kind || in_library ||
        !pthread_equal(pthread_self(), armed_thread))
        return false;
    long call = atomic_fetch_add(&calls, 1) + 1;
    return armed_from > 0 && (armed_on ? call >= armed_from : call == armed_from);
}

/* ---- Memory ------------------------------------------------------------------------------- */

/* Looking up the real functions would allocate; these two have other names. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);
__attribute__((weak)) extern void *__interceptor_malloc(size_t size);
__attribute__((weak)) extern void *__interceptor_calloc(size_t n, size_t size);
__attribute__((weak)) extern void *__interceptor_realloc(void *memory, size_t size);
__attribute__((weak)) extern void *__interceptor_memalign(size_t alignment, size_t size);
__attribute__((weak)) extern void __interceptor_free(void *memory);

/* The size of what was allocated.  A sanitizer that is only starting knows nothing of its memory.
 */
static long size_of(void *memory) {
    return memory && atomic_load(&armed) ? (long)malloc_usable_size(memory) : 0;
}

static void note(long bytes) {
    long now = atomic_fetch_add(&live, bytes) + bytes, most = atomic_load(&peak);
    while (now > most && !atomic_compare_exchange_weak(&peak, &most, now))
        continue;
}

static void *noted(void *memory) {
    note(size_of(memory));
    return memory;
}

static int shrinking = -1; /* the file, opened before the program gives that up */

static bool refused(void) {
    if (fails(FAULT_SHRINK) && ftruncate(shrinking, 100) < 0)
        abort();
    if (fails(FAULT_STOP))
        raise(SIGINT);
    if (!fails(FAULT_MEMORY))
        return false;
    errno = ENOMEM;
    return true;
}

REPLACED void *malloc(size_t size) {
    if (refused())
        return NULL;
    return noted(__interceptor_malloc ? __interceptor_malloc(size) : __libc_malloc(size));
}

REPLACED void *calloc(size_t n, size_t size) {
    if (refused())
        return NULL;
    return noted(__interceptor_calloc ? __interceptor_calloc(n, size) : __libc_calloc(n, size));
}

REPLACED void *realloc(void *memory, size_t size) {
    if (refused())
        return NULL;
    long before = size_of(memory);
    void *moved =
        __interceptor_realloc ? __interceptor_realloc(memory, size) : __libc_realloc(memory, size);
    if (moved || size == 0)
        note(-before);
    return noted(moved);
}

static void *align(size_t alignment, size_t size) {
    return noted(__interceptor_memalign ? __interceptor_memalign(alignment, size)
                                        : __libc_memalign(alignment, size));
}

REPLACED void *aligned_alloc(size_t alignment, size_t size) {
    return refused() ? NULL : align(alignment, size);
}

REPLACED void *memalign(size_t alignment, size_t size) {
    return refused() ? NULL : align(alignment, size);
}

REPLACED int posix_memalign(void **memory, size_t alignment, size_t size) {
    *memory = refused() ? NULL : align(alignment, size);
    return *memory ? 0 : ENOMEM;
}

REPLACED void free(void *memory) {
    note(-size_of(memory));
    if (__interceptor_free)
        __interceptor_free(memory);
    else
        __libc_free(memory);
}

/* ---- Files -------------------------------------------------------------------------------- */

static bool disk_full(void) {
    if (!fails(FAULT_FILE))
        return false;
    errno = ENOSPC;
    return true;
}

static bool unreadable(void) {
    if (!fails(FAULT_FILE))
        return false;
    errno = EIO;
    return true;
}

static bool interrupted(void) {
    if (!fails(FAULT_SIGNAL))
        return false;
    errno = EINTR;
    return true;
}

static size_t cut(size_t size) {
    return size > 1 && fails(FAULT_CUT) ? 1 : size;
}

REPLACED void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
    if (flags & MAP_ANONYMOUS ? refused() : unreadable())
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset);
}

REPLACED int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode =
        flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if (no_nameless && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return unreadable() ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

REPLACED ssize_t read(int file, void *data, size_t size) {
    return unreadable() || interrupted() ? -1 : syscall(SYS_read, file, data, cut(size));
}

REPLACED ssize_t pread(int file, void *data, size_t size, off_t offset) {
    return unreadable() || interrupted() ? -1 : syscall(SYS_pread64, file, data, cut(size), offset);
}

REPLACED ssize_t write(int file, const void *data, size_t size) {
    return disk_full() || interrupted() ? -1 : syscall(SYS_write, file, data, cut(size));
}

REPLACED ssize_t pwrite(int file, const void *data, size_t size, off_t offset) {
    return disk_full() || interrupted() ? -1 : syscall(SYS_pwrite64, file, data, cut(size), offset);
}

/* Functions that do not have one system call on every machine. */
#define TRUE_ONE(name) (__extension__(__typeof__(&name)) dlsym(RTLD_NEXT, #name))

REPLACED int fsync(int file) {
    struct stat about;
    if (no_folder_sync && TRUE_ONE(fstat)(file, &about) == 0 && S_ISDIR(about.st_mode)) {
        errno = EIO;
        return -1;
    }
    return disk_full() ? -1 : (int)syscall(SYS_fsync, file);
}

REPLACED int rename(const char *from, const char *to) {
    return disk_full() ? -1 : TRUE_ONE(rename)(from, to);
}

REPLACED int link(const char *from, const char *to) {
    if (no_links)
        errno = EPERM;
    return no_links || disk_full() ? -1 : TRUE_ONE(link)(from, to);
}

REPLACED int renameat2(int from_folder, const char *from, int to_folder, const char *to,
                       unsigned flags) {
    return disk_full() ? -1 : TRUE_ONE(renameat2)(from_folder, from, to_folder, to, flags);
}

REPLACED int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    return disk_full() ? -1 : TRUE_ONE(linkat)(from_folder, from, to_folder, to, flags);
}

REPLACED int fstat(int file, struct stat *about) {
    return unreadable() ? -1 : TRUE_ONE(fstat)(file, about);
}

REPLACED int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                            void *(*start)(void *), void *argument) {
    return refused() ? EAGAIN : TRUE_ONE(pthread_create)(thread, attributes, start, argument);
}

/* ---- JSON --------------------------------------------------------------------------------- */

/* When memory is short, jansson 2.14's lexer continues without the bytes, and reads beyond its
 * buffer.  So reading a text counts as one allocation: it fails as a whole, and jansson reports
 * only that there is no value. */
static bool json_refused(json_error_t *error) {
    if (!refused())
        return false;
    if (error)
        *error = (json_error_t){.line = -1};
    return true;
}

static json_t *json_read(json_t *value) {
    in_library = false;
    return value;
}

REPLACED json_t *json_loads(const char *text, size_t flags, json_error_t *error) {
    if (json_refused(error))
        return NULL;
    in_library = true;
    return json_read(TRUE_ONE(json_loads)(text, flags, error));
}

REPLACED json_t *json_loadb(const char *text, size_t size, size_t flags, json_error_t *error) {
    if (json_refused(error))
        return NULL;
    in_library = true;
    return json_read(TRUE_ONE(json_loadb)(text, size, flags, error));
}

REPLACED json_t *json_loadf(FILE *file, size_t flags, json_error_t *error) {
    if (json_refused(error))
        return NULL;
    in_library = true;
    return json_read(TRUE_ONE(json_loadf)(file, flags, error));
}

REPLACED json_t *json_load_file(const char *path, size_t flags, json_error_t *error) {
    if (json_refused(error))
        return NULL;
    in_library = true;
    return json_read(TRUE_ONE(json_load_file)(path, flags, error));
}

/* ---- Products ----------------------------------------------------------------------------- */

/* The calls of sgemm, which "sgemm:FILE" writes at the end. */
static atomic_long products;

/* OpenBLAS 0.3.21 allocates memory for products of small matrices without checking for failure; its
 * caller can neither provide the memory nor detect the failure. */
REPLACED void cblas_sgemm(OPENBLAS_CONST enum CBLAS_ORDER order,
                          OPENBLAS_CONST enum CBLAS_TRANSPOSE trans_a, CBLAS_TRANSPOSE trans_b,
                          blasint m, blasint n, blasint k, float alpha, const float *a, blasint lda,
                          const float *b, blasint ldb, float beta, float *c, blasint ldc) {
    bool checked = pthread_equal(pthread_self(), armed_thread);
    in_library = in_library || checked;
    atomic_fetch_add(&products, 1);
    TRUE_ONE(cblas_sgemm)(order, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    in_library = in_library && !checked;
}

/* ---- Preloaded ---------------------------------------------------------------------------- */

static void arm_from_environment(void) {
    const char *fault = getenv("TXL_FAULT");
    char *end;
    if (fault && strncmp(fault, "memory:", 7) == 0) {
        long n = strtol(fault + 7, &end, 10);
        faults_arm(FAULT_MEMORY, n, *end == '+');
    } else if (fault && strncmp(fault, "shrink:", 7) == 0) {
        long n = strtol(fault + 7, &end, 10);
        shrinking = open(end + 1, O_WRONLY | O_CLOEXEC);
        faults_arm(FAULT_SHRINK, n, false);
    } else if (fault && strncmp(fault, "interrupt:", 10) == 0) {
        faults_arm(FAULT_STOP, strtol(fault + 10, NULL, 10), false);
    }
    no_links = fault && strcmp(fault, "linkless") == 0;
    no_folder_sync = fault && strcmp(fault, "unflushed") == 0;
    no_nameless = no_links || (fault && strcmp(fault, "nameless") == 0);
}

typedef int main_function(int, char **, char **);
int __libc_start_main(main_function *program, int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

static main_function *true_main;

/* Allocations of libraries at exit do not count, like those at the start. */
static int main_with_faults(int argc, char **argv, char **environment) {
    int status = true_main(argc, argv, environment);
    faults_disarm();
    const char *fault = getenv("TXL_FAULT");
    FILE *file = fault && strncmp(fault, "sgemm:", 6) == 0 ? fopen(fault + 6, "w") : NULL;
    if (file) {
        fprintf(file, "%ld\n", products);
        fclose(file);
    }
    return status;
}

/* All libraries are initialised by now; their own allocations do not count. */
REPLACED int __libc_start_main(main_function *program, int argc, char **argv, void (*init)(void),
                               void (*fini)(void), void (*rtld_fini)(void), void *stack_end) {
    __typeof__(&__libc_start_main) start = TRUE_ONE(__libc_start_main);
    true_main = program;
    arm_from_environment();
    return start(main_with_faults, argc, argv, init, fini, rtld_fini, stack_end);
}
