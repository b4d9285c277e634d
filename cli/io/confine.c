/* Confinement by Landlock, which restricts files, and by a filter of system calls for everything
 * else. */
#include "confine.h"

#include "lib/base/files.h"
#include "terminal.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- System calls ---------------------------------------------------------------------- */

/* A filter (seccomp) that lists the allowed calls: those with which the C library, zlib, zstd and
 * jansson read files, write open ones, start threads and exit.  It is built without libseccomp,
 * which frees memory twice when an allocation fails. */

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#endif

#ifndef MACHINE /* on other machines calls and their arguments may differ */

static bool call_filter_install(bool sanitized, bool serves) {
    (void)sanitized;
    (void)serves;
    return false;
}

#else

/* From this number on, x86-64 repeats all calls for x32 programs. */
enum { X32_CALLS = 0x40000000 };

/* ---- The calls ---------------------------------------------------------------------------- */

/* Calls on open files, or on files that Landlock allows to be read; memory; threads; time; the
 * process itself. */
static const uint16_t allowed[] = {SYS_read,
                                   SYS_pread64,
                                   SYS_readv,
                                   SYS_preadv,
                                   SYS_write,
                                   SYS_pwrite64,
                                   SYS_writev,
                                   SYS_pwritev,
                                   SYS_lseek,
                                   SYS_close,
                                   SYS_dup,
                                   SYS_dup3,
                                   SYS_fstat,
                                   SYS_newfstatat,
                                   SYS_statx,
                                   SYS_fstatfs,
                                   SYS_getdents64,
                                   SYS_getcwd,
                                   SYS_readlinkat,
                                   SYS_faccessat,
                                   SYS_faccessat2,
                                   SYS_fsync,
                                   SYS_fdatasync,
                                   SYS_ftruncate,
                                   SYS_fallocate,
                                   SYS_fadvise64,
                                   SYS_ppoll,
                                   SYS_pselect6,
#ifdef SYS_open /* older calls, which newer machines lack */
                                   SYS_stat,
                                   SYS_lstat,
                                   SYS_access,
                                   SYS_readlink,
                                   SYS_dup2,
                                   SYS_poll,
                                   SYS_select,
                                   SYS_time,
                                   SYS_arch_prctl,
#endif
                                   SYS_munmap,
                                   SYS_mremap,
                                   SYS_madvise,
                                   SYS_msync,
                                   SYS_mincore,
                                   SYS_brk,
                                   SYS_membarrier,
                                   SYS_futex,
                                   SYS_set_robust_list,
                                   SYS_get_robust_list,
                                   SYS_set_tid_address,
                                   SYS_rseq,
                                   SYS_sched_yield,
                                   SYS_sched_getaffinity,
                                   SYS_getcpu,
                                   SYS_clock_gettime,
                                   SYS_clock_getres,
                                   SYS_clock_nanosleep,
                                   SYS_nanosleep,
                                   SYS_gettimeofday,
                                   SYS_times,
                                   SYS_getrusage,
                                   SYS_getrandom,
                                   SYS_sysinfo,
                                   SYS_uname,
                                   SYS_getpid,
                                   SYS_gettid,
                                   SYS_getppid,
                                   SYS_getuid,
                                   SYS_geteuid,
                                   SYS_getgid,
                                   SYS_getegid,
                                   SYS_getrlimit,
                                   SYS_rt_sigaction,
                                   SYS_rt_sigprocmask,
                                   SYS_rt_sigreturn,
                                   SYS_rt_sigpending,
                                   SYS_sigaltstack,
                                   SYS_restart_syscall,
                                   SYS_exit,
                                   SYS_exit_group};

/* The leak checker starts a process that shares the memory of this one and traces it. */
static const uint16_t allowed_sanitized[] = {
#ifdef __x86_64__
    SYS_getdents,
#endif
    SYS_clone,    SYS_ptrace,   SYS_wait4, SYS_prctl,     SYS_process_vm_readv,
    SYS_pipe2,    SYS_mprotect, SYS_mmap,  SYS_prlimit64, SYS_personality};

/* Accepting connections and talking on them; waiting for them and for signals.  No socket is made,
 * bound or connected. */
static const uint16_t allowed_serving[] = {
#ifdef __x86_64__
    SYS_epoll_wait,
#endif
    SYS_accept4,    SYS_recvfrom,    SYS_recvmsg,    SYS_sendto,          SYS_sendmsg,
    SYS_shutdown,   SYS_setsockopt,  SYS_getsockopt, SYS_getsockname,     SYS_epoll_create1,
    SYS_epoll_ctl,  SYS_epoll_pwait, SYS_eventfd2,   SYS_rt_sigtimedwait, SYS_pipe2};

/* Calls whose arguments are in memory, where a filter cannot see them.  They fail as if the kernel
 * lacked them, and the C library uses others. */
static const uint16_t absent[] = {SYS_clone3, SYS_openat2};

/* Calls that are allowed if one argument, of 32 bits, is one of the values, or has none of the
 * bits, or has one of them. */
enum test { IS, HAS_NONE, HAS };

struct condition {
    uint16_t call;
    uint8_t argument;
    enum test test;
    uint32_t values[5];
    size_t n;
};

/* O_TRUNC truncates in every mode of opening.  O_TMPFILE takes a mode for writing. */
#define CHANGES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)
static const struct condition conditions[] = {
    {SYS_openat, 2, HAS_NONE, {CHANGES}, 1},
#ifdef __x86_64__
    {SYS_open, 1, HAS_NONE, {CHANGES}, 1},
#endif
    /* No new code is run, not from memory either. */
    {SYS_mmap, 2, HAS_NONE, {PROT_EXEC}, 1},
    {SYS_mprotect, 2, HAS_NONE, {PROT_EXEC}, 1},
    {SYS_clone, 0, HAS, {CLONE_THREAD}, 1},
    /* Asks whether it is a terminal and how wide; other requests type into it, or attach
     * devices. */
    {SYS_ioctl, 1, IS, {TCGETS, TIOCGWINSZ}, 2},
    /* Other commands make a file signal another process. */
    {SYS_fcntl, 1, IS, {F_GETFD, F_SETFD, F_GETFL, F_DUPFD, F_DUPFD_CLOEXEC}, 5},
    /* The limits of this process, not another's. */
    {SYS_prlimit64, 0, IS, {0}, 1},
};

/* ---- The program -------------------------------------------------------------------------- */

enum {
    N_ALLOWED = sizeof allowed / sizeof allowed[0],
    N_SANITIZED = sizeof allowed_sanitized / sizeof allowed_sanitized[0],
    N_SERVING = sizeof allowed_serving / sizeof allowed_serving[0],
    N_CONDITION = sizeof conditions / sizeof conditions[0],
    REFUSAL = SECCOMP_RET_ERRNO | EPERM,
    ABSENCE = SECCOMP_RET_ERRNO | ENOSYS
};

struct filter {
    struct sock_filter
        code[2 * (N_ALLOWED + N_SANITIZED + N_SERVING) + 16 * (N_CONDITION + 1) + 32];
    unsigned short n;
};

static void add_instruction(struct filter *f, uint16_t code, uint32_t value, uint8_t if_true,
                            uint8_t if_false) {
    assert(f->n < sizeof f->code / sizeof f->code[0]);
    f->code[f->n++] = (struct sock_filter){code, if_true, if_false, value};
}

static void add_load(struct filter *f, size_t offset) {
    add_instruction(f, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void add_return(struct filter *f, uint32_t action) {
    add_instruction(f, BPF_RET | BPF_K, action, 0, 0);
}

/* Decides by the call's number, which is loaded. */
static void decide_calls(struct filter *f, const uint16_t *calls, size_t n, uint32_t action) {
    for (size_t i = 0; i < n; i++) {
        add_instruction(f, BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        add_return(f, action);
    }
}

/* Decides by the number and an argument; afterwards the number is loaded again. */
static void decide_by_argument(struct filter *f, const struct condition *c) {
    uint16_t test = BPF_JMP | BPF_K | (c->test == IS ? BPF_JEQ : BPF_JSET);
    uint32_t met = c->test == HAS_NONE ? REFUSAL : SECCOMP_RET_ALLOW;
    uint32_t not_met = c->test == HAS_NONE ? SECCOMP_RET_ALLOW : REFUSAL;
    add_instruction(f, BPF_JMP | BPF_JEQ | BPF_K, c->call, 0, (uint8_t)(2 * c->n + 2));
    add_load(f, offsetof(struct seccomp_data, args) + sizeof(uint64_t) * c->argument);
    for (size_t i = 0; i < c->n; i++) {
        add_instruction(f, test, c->values[i], 0, 1);
        add_return(f, met);
    }
    add_return(f, not_met);
}

static bool call_filter_install(bool sanitized, bool serves) {
    struct filter f = {.n = 0};
    /* A process sends itself the signal by which it is to end. */
    const struct condition own_signals = {SYS_tgkill, 0, IS, {(uint32_t)getpid()}, 1};
    add_load(&f, offsetof(struct seccomp_data, arch));
    add_instruction(&f, BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0);
    add_return(&f, SECCOMP_RET_KILL_PROCESS);
    add_load(&f, offsetof(struct seccomp_data, nr));
    add_instruction(&f, BPF_JMP | BPF_JGE | BPF_K, X32_CALLS, 0, 1);
    add_return(&f, REFUSAL);
    decide_calls(&f, allowed, N_ALLOWED, SECCOMP_RET_ALLOW);
    decide_calls(&f, absent, sizeof absent / sizeof absent[0], ABSENCE);
    if (sanitized)
        decide_calls(&f, allowed_sanitized, N_SANITIZED, SECCOMP_RET_ALLOW);
    if (serves)
        decide_calls(&f, allowed_serving, N_SERVING, SECCOMP_RET_ALLOW);
    decide_by_argument(&f, &own_signals);
    for (size_t i = 0; i < N_CONDITION; i++)
        decide_by_argument(&f, &conditions[i]);
    add_return(&f, REFUSAL);
    const struct sock_fprog program = {f.n, f.code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

#endif

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
    /* One that was joined a moment ago may still be listed. */
    for (int i = 0; i < 20 && n > 1; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        n = count_threads();
    }
    if (n > 1)
        terminal_note("%zu thread%s that OpenBLAS has started %s not confined; set "
                      "OPENBLAS_NUM_THREADS=1 in the environment",
                      n - 1, plural(n - 1), n == 2 ? "is" : "are");
    else if (n == 0)
        terminal_note("without /proc txl cannot see whether OpenBLAS has started threads, which "
                      "would not be confined; set OPENBLAS_NUM_THREADS=1 in the environment");
}

/* Reports partial confinement. */
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
    bool files = confine_files(confinement);
    bool calls = call_filter_install(IS_SANITIZED, confinement->serves);
    if (files)
        tell_of_threads();
    tell_of_confinement(files, calls);
}
