/* A filter (seccomp) that lists the allowed calls: those with which the C library, zlib, zstd and
 * jansson read files, write open ones, start threads and exit.  It is built without libseccomp,
 * which frees memory twice when an allocation fails. */
#include "call_filter.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#endif

#ifndef MACHINE /* on other machines calls and their arguments may differ */

bool call_filter_install(bool sanitized) {
    (void)sanitized;
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
    N_CONDITION = sizeof conditions / sizeof conditions[0],
    REFUSAL = SECCOMP_RET_ERRNO | EPERM,
    ABSENCE = SECCOMP_RET_ERRNO | ENOSYS
};

struct filter {
    struct sock_filter code[2 * (N_ALLOWED + N_SANITIZED) + 16 * (N_CONDITION + 1) + 32];
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

bool call_filter_install(bool sanitized) {
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
    decide_by_argument(&f, &own_signals);
    for (size_t i = 0; i < N_CONDITION; i++)
        decide_by_argument(&f, &conditions[i]);
    add_return(&f, REFUSAL);
    const struct sock_fprog program = {f.n, f.code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

#endif
