/* Confinement by Landlock, which restricts files, and by a filter of system calls for everything
 * else. */
#include "confine.h"

#include "call_filter.h"
#include "lib/base/files.h"
#include "terminal.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* New in version 3 of Landlock's interface, later than Debian 12's headers. */
#define ACCESS_TRUNCATE (UINT64_C(1) << 14)
enum { TRUNCATE_VERSION = 3 };

/* A sanitizer reads /proc, its leak checker traces the process, and both read the names of
 * functions from the program's file. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_SANITIZED = true };
#else
enum { IS_SANITIZED = false };
#endif

/* A program that counts its lines (coverage) writes the counts to its build folder when it
 * exits. */
#if defined(COUNTS_COVERAGE)
enum { IS_CONFINED = false };
#else
enum { IS_CONFINED = true };
#endif

/* ---- Files -------------------------------------------------------------------------------- */

static const uint64_t reading = LANDLOCK_ACCESS_FS_READ_FILE;
/* Rights that the process gives up, except where a rule allows them. */
static const uint64_t taken =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |
    LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
    LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
    LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
    LANDLOCK_ACCESS_FS_MAKE_SYM;

/* jansson's seed against crafted keys, and a setting that the C library reads when it frees
 * memory. */
static const char *const system_files[] = {"/dev/urandom", "/proc/sys/vm/overcommit_memory"};

/* A path that cannot be opened gets no rule: the command reports it when it opens it. */
static void allow(int rules, int folder, const char *path, uint64_t access) {
    struct landlock_path_beneath_attr rule = {.allowed_access = access};
    rule.parent_fd = openat(folder, path, O_PATH | O_CLOEXEC);
    if (rule.parent_fd >= 0) {
        syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
        close(rule.parent_fd);
    }
}

/* For a folder, allows to look at it but not into it: the command reports that it is no file. */
static void allow_alone(int rules, const char *path) {
    struct stat about;
    bool folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    allow(rules, AT_FDCWD, path, folder ? LANDLOCK_ACCESS_FS_READ_DIR : reading);
}

/* Allows each file by itself, because links may lead elsewhere, as in Hugging Face's cache, and
 * folders below are not needed. */
static void allow_files(int rules, const char *path) {
    DIR *folder = opendir(path);
    if (!folder)
        return;
    struct stat about;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (fstatat(dirfd(folder), entry->d_name, &about, 0) == 0 &&
            (S_ISREG(about.st_mode) || S_ISFIFO(about.st_mode)))
            allow(rules, dirfd(folder), entry->d_name, reading);
    closedir(folder);
    allow(rules, AT_FDCWD, path, LANDLOCK_ACCESS_FS_READ_DIR);
}

/* The checkpoint and the vocabulary may lie in folders beside each other. */
static void allow_source(int rules, const char *source) {
    static const char *const below[] = {"", "model/"};
    struct stat about;
    const bool is_folder = stat(source, &about) == 0 && S_ISDIR(about.st_mode);
    const int length = (int)(is_folder ? strlen(source) : beside_folder_length(source));
    if (!is_folder)
        allow(rules, AT_FDCWD, source, reading);
    for (size_t i = 0; i < 2 * BESIDE_N; i++) {
        char *name = NULL, *folder = NULL;
        if (asprintf(&name, "%.*s%s%s", length, source, is_folder ? "/" : "",
                     below[i / BESIDE_N]) >= 0 &&
            (folder = beside(name, strlen(name), i % BESIDE_N)))
            allow_files(rules, *folder ? folder : ".");
        free(folder);
        free(name);
    }
}

/* False if the kernel has no Landlock, or does not use it. */
static bool confine_files(const struct confinement *to) {
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    uint64_t truncating = version >= TRUNCATE_VERSION ? ACCESS_TRUNCATE : 0;
    struct landlock_ruleset_attr all = {.handled_access_fs = taken | truncating};
    int rules = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0);
    if (rules < 0)
        return false;
    for (size_t i = 0; i < sizeof system_files / sizeof system_files[0]; i++)
        allow(rules, AT_FDCWD, system_files[i], reading);
    for (size_t i = 0; i < to->n_source; i++)
        allow_source(rules, to->sources[i]);
    for (size_t i = 0; i < to->n_alone; i++)
        allow_alone(rules, to->alone[i]);
    if (IS_SANITIZED) {
        allow(rules, AT_FDCWD, "/proc", reading | LANDLOCK_ACCESS_FS_READ_DIR);
        allow(rules, AT_FDCWD, "/proc/self/exe", reading);
    }
    bool confined = syscall(SYS_landlock_restrict_self, rules, 0) == 0;
    close(rules);
    return confined;
}

/* ---- Threads ------------------------------------------------------------------------------ */

/* The number of threads of this process: the links of /proc/self/task except its own two.  0 if the
 * system does not tell.  Needs no memory. */
static size_t count_threads(void) {
    struct stat tasks;
    bool known = stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink > 2;
    return known ? (size_t)tasks.st_nlink - 2 : 0;
}

/* Landlock applies to the calling thread and to those that it starts.  OpenBLAS has started threads
 * before if the system does not let a process choose its processors (main.c). */
static void tell_of_threads(void) {
    size_t n = count_threads();
    if (n > 1)
        terminal_note("%zu threads that OpenBLAS has started are not confined; set "
                      "OPENBLAS_NUM_THREADS=1 in the environment",
                      n - 1);
    else if (n == 0)
        terminal_note("without /proc txl cannot see whether OpenBLAS has started threads, which "
                      "would not be confined; set OPENBLAS_NUM_THREADS=1 in the environment");
}

/* Says which confinement is active where not all of it is. */
static void tell_of_confinement(bool files, bool calls) {
    if (files && !calls)
        terminal_note("confined by Landlock alone: this system does not filter system calls");
    else if (calls && !files)
        terminal_note("confined by a filter of system calls alone, because this system has no "
                      "Landlock: it can write nothing, but read every file");
    else if (!files)
        terminal_note("not confined: this system has neither Landlock nor filters of system calls");
}

void confine(const struct confinement *confinement) {
    if (!IS_CONFINED)
        return;
    /* Without it the kernel lets only root confine itself. */
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    bool files = confine_files(confinement), calls = call_filter_install(IS_SANITIZED);
    if (files)
        tell_of_threads();
    tell_of_confinement(files, calls);
}
