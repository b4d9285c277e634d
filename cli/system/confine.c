/* Confinement by Landlock, which knows files, and by a filter of system calls (seccomp) for the
 * rest. */
#include "confine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The third version of Landlock's interface brought this one, after Debian 12's headers. */
#define ACCESS_TRUNCATE (UINT64_C(1) << 14)
enum { TRUNCATE_VERSION = 3 };

/* A sanitizer looks at /proc, its leak checker traces the process, and both name functions out of
 * the program's file. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_SANITIZED = true };
#else
enum { IS_SANITIZED = false };
#endif

/* A program that counts what it executes writes that down at its end, where it was compiled. */
#if defined(COUNTS_COVERAGE)
enum { IS_CONFINED = false };
#else
enum { IS_CONFINED = true };
#endif

/* ---- Files -------------------------------------------------------------------------------- */

static const uint64_t reading = LANDLOCK_ACCESS_FS_READ_FILE;
static const uint64_t writing =
    LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE;
/* Of which the process keeps what a rule gives back. */
static const uint64_t taken =
    LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE |
    LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
    LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
    LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
    LANDLOCK_ACCESS_FS_MAKE_SYM;

/* jansson's seed against crafted keys, and what the C library asks when it gives memory back. */
static const char *const system_files[] = {"/dev/urandom", "/proc/sys/vm/overcommit_memory"};

/* What cannot be opened gets no rule: the command says why when it comes to it. */
static void allow(int rules, int folder, const char *path, uint64_t access) {
    struct landlock_path_beneath_attr rule = {.allowed_access = access};
    rule.parent_fd = openat(folder, path, O_PATH | O_CLOEXEC);
    if (rule.parent_fd >= 0) {
        syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
        close(rule.parent_fd);
    }
}

/* A folder is none, which the command can say when it may look at it, and at nothing in it. */
static void allow_alone(int rules, const char *path) {
    struct stat about;
    bool folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    allow(rules, AT_FDCWD, path, folder ? LANDLOCK_ACCESS_FS_READ_DIR : reading);
}

/* Each file by itself, since links may lead elsewhere, as in Hugging Face's cache, and folders
 * below are nobody's business. */
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

static void allow_source(int rules, const char *source) {
    struct stat about;
    const char *slash = strrchr(source, '/');
    if (stat(source, &about) == 0 && S_ISDIR(about.st_mode)) {
        allow_files(rules, source);
        return;
    }
    allow(rules, AT_FDCWD, source, reading);
    char *folder = slash ? strndup(source, (size_t)(slash - source) + 1) : strdup(".");
    if (folder)
        allow_files(rules, folder);
    free(folder);
}

/* Where the file will be: a link's target is replaced, not the link. */
static void allow_output(int rules, const char *output, uint64_t access) {
    char *path = realpath(output, NULL);
    if (!path)
        path = strdup(output);
    char *slash = path ? strrchr(path, '/') : NULL;
    if (slash)
        slash[1] = '\0';
    allow(rules, AT_FDCWD, slash ? path : ".", access);
    free(path);
}

static void confine_files(const struct confinement *to) {
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    uint64_t truncating = version >= TRUNCATE_VERSION ? ACCESS_TRUNCATE : 0;
    struct landlock_ruleset_attr all = {.handled_access_fs = taken | truncating};
    int rules = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0);
    if (rules < 0)
        return;
    for (size_t i = 0; i < sizeof system_files / sizeof system_files[0]; i++)
        allow(rules, AT_FDCWD, system_files[i], reading);
    for (size_t i = 0; i < to->n_source; i++)
        allow_source(rules, to->sources[i]);
    for (size_t i = 0; i < to->n_alone; i++)
        allow_alone(rules, to->alone[i]);
    if (to->output)
        allow_output(rules, to->output, writing | truncating);
    if (IS_SANITIZED) {
        allow(rules, AT_FDCWD, "/proc", reading | LANDLOCK_ACCESS_FS_READ_DIR);
        allow(rules, AT_FDCWD, "/proc/self/exe", reading);
    }
    syscall(SYS_landlock_restrict_self, rules, 0);
    close(rules);
}

/* ---- System calls ------------------------------------------------------------------------- */

/* The filter is made by hand: libseccomp frees twice what it had no memory for. */
#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#else
#define MACHINE 0 /* no filter: the arguments may lie otherwise there */
#endif

/* x86-64 has every call a second time, for x32 programs, from this number on. */
enum { X32_CALLS = 0x40000000 };

static const uint16_t denied[] = {
    /* Programs and sockets. */
    SYS_execve, SYS_execveat, SYS_socket, SYS_socketpair, SYS_io_uring_setup,
    /* Other processes. */
    SYS_kill, SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_pidfd_open,
    SYS_pidfd_getfd, SYS_pidfd_send_signal, SYS_process_vm_readv, SYS_process_vm_writev,
    /* Owners, modes, times and attributes of files by name, of which Landlock knows nothing. */
    SYS_fchmodat, SYS_fchownat, SYS_utimensat, SYS_setxattr, SYS_lsetxattr, SYS_removexattr,
    SYS_lremovexattr,
#ifdef SYS_chmod /* older calls, which newer machines do without */
    SYS_chmod, SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat,
#endif
    /* The machine, and what of the kernel is seldom used. */
    SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_keyctl, SYS_add_key, SYS_request_key,
    SYS_unshare, SYS_setns, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_init_module,
    SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_reboot,
    /* A leak checker traces its own process. */
    IS_SANITIZED ? SYS_execve : SYS_ptrace};

enum { N_DENIED = sizeof denied / sizeof denied[0], REFUSAL = SECCOMP_RET_ERRNO | EPERM };

struct filter {
    struct sock_filter code[2 * N_DENIED + 32];
    unsigned short n;
};

static void add(struct filter *f, uint16_t code, uint32_t value, uint8_t if_true,
                uint8_t if_false) {
    f->code[f->n++] = (struct sock_filter){code, if_true, if_false, value};
}

static void load(struct filter *f, size_t offset) {
    add(f, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void end(struct filter *f, uint32_t action) {
    add(f, BPF_RET | BPF_K, action, 0, 0);
}

/* The call's number is loaded; refused is one whose argument, of 32 bits, is the value, or is not.
 */
static void deny_argument(struct filter *f, uint32_t number, int argument, uint32_t value,
                          bool is) {
    add(f, BPF_JMP | BPF_JEQ | BPF_K, number, 0, 4);
    load(f, offsetof(struct seccomp_data, args) + sizeof(uint64_t) * (size_t)argument);
    add(f, BPF_JMP | BPF_JEQ | BPF_K, value, is ? 0 : 1, is ? 1 : 0);
    end(f, REFUSAL);
    end(f, SECCOMP_RET_ALLOW);
}

static void confine_calls(void) {
    struct filter f = {.n = 0};
    load(&f, offsetof(struct seccomp_data, arch));
    add(&f, BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0);
    end(&f, SECCOMP_RET_KILL_PROCESS);
    load(&f, offsetof(struct seccomp_data, nr));
    add(&f, BPF_JMP | BPF_JGE | BPF_K, X32_CALLS, 0, 1);
    end(&f, REFUSAL);
    for (size_t i = 0; i < N_DENIED; i++) {
        add(&f, BPF_JMP | BPF_JEQ | BPF_K, denied[i], 0, 1);
        end(&f, REFUSAL);
    }
    /* A signal to itself is how a process ends by one. */
    deny_argument(&f, SYS_tgkill, 0, (uint32_t)getpid(), false);
    /* Typing into the terminal would be running programs by the shell's hand. */
    deny_argument(&f, SYS_ioctl, 1, TIOCSTI, true);
    end(&f, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {f.n, f.code};
    if (MACHINE != 0)
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

void confine(const struct confinement *confinement) {
    /* Without it the kernel lets only root confine itself. */
    if (!IS_CONFINED || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return;
    confine_files(confinement);
    confine_calls();
}
