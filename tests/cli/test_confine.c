/* What a confined process can still do, and what it cannot do any more.  Each attempt runs in a
 * process of its own, which reports its errno. */
#include "cli/io/confine.h"
#include "cli/io/output.h"
#include "cli/io/terminal.h"
#include "tests/convert/checkpoint_files.h"

#include <dirent.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

/* ---- Attempts ----------------------------------------------------------------------------- */

/* Gives 0 or an errno. */
typedef int attempt(const char *path);

static int result(int value) {
    return value < 0 ? errno : 0;
}

static int read_it(const char *path) {
    return result(open(path, O_RDONLY));
}

static int write_it(const char *path) {
    return result(open(path, O_WRONLY));
}

static int make_it(const char *path) {
    return result(open(path, O_WRONLY | O_CREAT | O_EXCL, 0666));
}

static int rename_it(const char *path) {
    char renamed[4096];
    snprintf(renamed, sizeof renamed, "%s-renamed", path);
    return result(rename(path, renamed));
}

static int remove_it(const char *path) {
    return result(unlink(path));
}

static int name_it(const char *path) {
    char other[4096];
    snprintf(other, sizeof other, "%s-linked", path);
    return result(link(path, other));
}

static int make_nameless(const char *path) {
    return result(open(path, O_TMPFILE | O_RDWR, 0666));
}

static int list_it(const char *path) {
    return result(open(path, O_RDONLY | O_DIRECTORY));
}

static int make_socket(const char *path) {
    (void)path;
    return result(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int raise_signal(const char *path) {
    (void)path;
    signal(SIGUSR1, SIG_IGN);
    return raise(SIGUSR1);
}

static void *read_in_thread(void *path) {
    return (void *)(intptr_t)read_it(path);
}

/* In a thread that starts later. */
static int read_elsewhere(const char *path) {
    pthread_t thread;
    void *found;
    if (pthread_create(&thread, NULL, read_in_thread, (void *)path) != 0)
        return -1;
    pthread_join(thread, &found);
    return (int)(intptr_t)found;
}

/* From here on Landlock is missing for this process. */
static void hide_landlock(void) {
    struct sock_filter code[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_landlock_create_ruleset},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    const struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
        _exit(255);
}

/* Whether the process serves. */
static bool serves;

/* The errno of an attempt by a process that may read the folder in/ and alone.txt. */
static int confined_with(bool has_landlock, attempt *try, const char *path) {
    int how;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const char *in = scratch_path("in"), *alone = scratch_path("alone.txt");
        terminal_set_quiet(true);
        if (!has_landlock)
            hide_landlock();
        confine(&(struct confinement){
            .sources = &in, .n_source = 1, .alone = &alone, .n_alone = 1, .serves = serves});
        _exit(try(path));
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
}

static int confined(attempt *try, const char *path) {
    return confined_with(true, try, path);
}

/* Builds with a leak checker allow the calls that it makes. */
static bool is_sanitized(void) {
#if defined(__SANITIZE_ADDRESS__)
    return true;
#else
    return false;
#endif
}

static bool needed_by_sanitizers(long call) {
    return call == SYS_clone || call == SYS_ptrace || call == SYS_prctl || call == SYS_mmap ||
           call == SYS_mprotect || call == SYS_process_vm_readv || call == SYS_prlimit64;
}

/* ---- Tests -------------------------------------------------------------------------------- */

static int make_files(void **state) {
    if (make_scratch(state) != 0)
        return -1;
    mkdir(scratch_path("in"), 0777);
    mkdir(scratch_path("in/below"), 0777);
    mkdir(scratch_path("out"), 0777);
    const char *const files[] = {"in/file", "in/below/file", "alone.txt",
                                 "outside", "linked",        "out/old"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        write_file(files[i], "x", 1);
    return symlink("../linked", scratch_path("in/link"));
}

static long landlock_version(void) {
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

static void needs_landlock(void) {
    if (landlock_version() < 1) {
        print_message("skipped: this kernel has no Landlock\n");
        skip();
    }
}

TEST(files_of_the_task_stay_open_to_it) {
    assert_int_equal(confined(read_it, scratch_path("in/file")), 0);
    assert_int_equal(confined(read_it, scratch_path("in/link")), 0);
    assert_int_equal(confined(list_it, scratch_path("in")), 0);
    assert_int_equal(confined(read_it, scratch_path("alone.txt")), 0);
    assert_int_equal(confined(read_elsewhere, scratch_path("in/file")), 0);
    assert_int_equal(confined(raise_signal, NULL), 0);
}

TEST(other_files_are_closed) {
    needs_landlock();
    assert_int_equal(confined(read_it, scratch_path("outside")), EACCES);
    assert_int_equal(confined(read_elsewhere, scratch_path("outside")), EACCES);
    assert_int_equal(confined(read_it, scratch_path("in/below/file")), EACCES);
    assert_int_equal(confined(read_it, scratch_path("out/old")), EACCES);
    assert_int_equal(confined(read_it, "/etc/passwd"), EACCES);
    assert_int_equal(confined(list_it, "/"), EACCES);
}

static void needs_filters(void) {
#if !defined(__x86_64__) && !defined(__aarch64__)
    print_message("skipped: this machine has no list of system calls\n");
    skip();
#endif
    if (syscall(SYS_seccomp, 2 /* SECCOMP_GET_ACTION_AVAIL */, 0, &(uint32_t){0x7fff0000}) < 0) {
        print_message("skipped: this kernel filters no system calls\n");
        skip();
    }
}

/* With Landlock and without. */
TEST(no_file_is_changed) {
    needs_filters();
    for (int has_landlock = 0; has_landlock < 2; has_landlock++) {
        static const char *const files[] = {"in/file", "alone.txt", "outside", "out/old"};
        for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
            char path[256];
            snprintf(path, sizeof path, "%s", scratch_path(files[i]));
            assert_int_equal(confined_with(has_landlock, write_it, path), EPERM);
            assert_int_equal(confined_with(has_landlock, rename_it, path), EPERM);
            assert_int_equal(confined_with(has_landlock, name_it, path), EPERM);
            assert_int_equal(confined_with(has_landlock, remove_it, path), EPERM);
            assert_int_equal(access(path, F_OK), 0);
        }
        assert_int_equal(confined_with(has_landlock, make_it, scratch_path("out/new")), EPERM);
        assert_int_equal(confined_with(has_landlock, make_nameless, scratch_path("out")), EPERM);
    }
    /* The attempts are refused for what they are, and not for where they are. */
    assert_int_equal(confined_with(false, read_it, scratch_path("outside")), 0);
}

/* Newer than Debian 12's headers, with the same number everywhere. */
enum { CALL_FCHMODAT2 = 452, CALL_SETXATTRAT = 463, CALL_REMOVEXATTRAT = 466, CALL_UNKNOWN = 600 };

/* A system call with arguments that do no harm should it be allowed. */
struct call {
    const char *name;
    long number, arguments[6];
};

static const struct call *tried;

static int make_call(const char *path) {
    (void)path;
    const long *a = tried->arguments;
    return result((int)syscall(tried->number, a[0], a[1], a[2], a[3], a[4], a[5]));
}

#define CALL(name, ...)                                                                            \
    {                                                                                              \
#name, SYS_##name, {                                                                       \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

TEST(what_is_not_allowed_is_refused) {
    needs_filters();
    static char program_path[] = "/bin/true";
    char *arguments[] = {program_path, NULL}, byte = 0;
    int pair[2];
    long here = AT_FDCWD, parent = getpid(), program = (long)program_path, list = (long)arguments;
    long file = (long)scratch_path("in/file"), readable = open(scratch_path("in/file"), O_RDONLY);
    long name = (long)"user.txl", value = (long)&byte, code = PROT_READ | PROT_EXEC;
    const struct call calls[] = {
        /* Programs, and code that is new. */
        CALL(execve, program, list, 0),
        CALL(execveat, here, program, list, 0, 0),
        CALL(clone, SIGCHLD, 0, 0, 0, 0),
        CALL(mmap, 0, 4096, code, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
        CALL(mmap, 0, 4096, code, MAP_PRIVATE, readable, 0),
        CALL(mprotect, (long)&byte & ~4095L, 4096, code | PROT_WRITE),
        CALL(memfd_create, name, 0),
        /* Other machines and processes. */
        CALL(socket, AF_UNIX, SOCK_STREAM, 0),
        CALL(connect, -1, value, 1),
        CALL(bind, -1, value, 1),
        CALL(listen, -1, 1),
        CALL(socketpair, AF_UNIX, SOCK_STREAM, 0, (long)pair),
        CALL(io_uring_setup, 1, 0),
        CALL(kill, parent, 0),
        CALL(tkill, parent, 0),
        CALL(tgkill, parent, parent, 0),
        CALL(rt_sigqueueinfo, parent, 0, 0),
        CALL(pidfd_open, parent, 0),
        CALL(pidfd_send_signal, -1, 0, 0, 0),
        CALL(ptrace, 16 /* attach */, -1, 0, 0),
        CALL(process_vm_readv, parent, 0, 0, 0, 0, 0),
        CALL(process_vm_writev, parent, 0, 0, 0, 0, 0),
        CALL(prlimit64, parent, 7, 0, 0),
        CALL(setpriority, 0, parent, 0),
        CALL(sched_setaffinity, parent, 0, 0),
        CALL(fcntl, readable, F_SETOWN, parent),
        CALL(shmget, 1, 4096, 0),
        CALL(msgget, 1, 0),
        /* Files' contents, owners, modes, times and attributes. */
        CALL(truncate, file, 0),
        CALL(openat, here, file, O_RDONLY | O_TRUNC, 0),
        CALL(openat2, here, file, 0, 0),
        CALL(fchmod, readable, 0600),
        CALL(fchmodat, here, file, 0600),
        {"fchmodat2", CALL_FCHMODAT2, {here, file, 0600, 0}},
        CALL(fchown, readable, -1, -1),
        CALL(fchownat, here, file, -1, -1, 0),
        CALL(utimensat, here, file, 0, 0),
        CALL(utimensat, readable, 0, 0, 0),
        CALL(setxattr, file, name, value, 1, 0),
        CALL(lsetxattr, file, name, value, 1, 0),
        CALL(fsetxattr, readable, name, value, 1, 0),
        {"setxattrat", CALL_SETXATTRAT, {here, file, 0, name, 0, 0}},
        CALL(removexattr, file, name),
        CALL(lremovexattr, file, name),
        CALL(fremovexattr, readable, name),
        {"removexattrat", CALL_REMOVEXATTRAT, {here, file, 0, name}},
        CALL(symlinkat, file, here, file),
        CALL(mkdirat, here, file, 0700),
        CALL(mknodat, here, file, 0, 0),
        CALL(name_to_handle_at, here, file, 0, 0, 0),
        CALL(open_by_handle_at, -1, 0, 0),
#ifdef __x86_64__
        CALL(open, file, O_RDONLY | O_TRUNC, 0),
        CALL(creat, file, 0600),
        CALL(fork, 0),
        CALL(chmod, file, 0600),
        CALL(chown, file, -1, -1),
        CALL(lchown, file, -1, -1),
        CALL(utime, file, 0),
        CALL(utimes, file, 0),
        CALL(futimesat, here, file, 0),
#endif
        /* The terminal, and the machine. */
        CALL(ioctl, 0, TIOCSTI, (long)"x"),
        CALL(ioctl, 0, 0x541c /* TIOCLINUX */, value),
        CALL(bpf, -1, 0, 0),
        CALL(perf_event_open, 0, 0, -1, -1, 0),
        CALL(userfaultfd, -1),
        CALL(keyctl, 0, 0, 0, 0, 0),
        CALL(add_key, 0, 0, 0, 0, 0),
        CALL(request_key, 0, 0, 0, 0),
        CALL(unshare, 0),
        CALL(setns, -1, 0),
        CALL(mount, 0, 0, 0, 0, 0),
        CALL(umount2, 0, 0),
        CALL(pivot_root, 0, 0),
        CALL(chroot, 0),
        CALL(init_module, 0, 0, 0),
        CALL(finit_module, -1, 0, 0),
        CALL(delete_module, 0, 0),
        CALL(kexec_load, -1, 17, 0, -1),
        CALL(kexec_file_load, -1, -1, 0, 0, -1),
        CALL(reboot, 0, 0, 0, 0),
        CALL(settimeofday, 1, 0),
        CALL(seccomp, 0, -1, 0),
        CALL(prctl, PR_SET_DUMPABLE, 9, 0, 0, 0),
        /* Calls that no kernel has yet. */
        {"a call to come", CALL_UNKNOWN, {0}},
    };
    const size_t n = sizeof calls / sizeof *calls;
    for (size_t i = 0; i < 2 * n; i++) {
        tried = &calls[i % n];
        serves = i >= n;
        int expected = tried->number == SYS_openat2 ? ENOSYS : EPERM;
        int got = confined(make_call, NULL);
        if (got != expected && !(is_sanitized() && needed_by_sanitizers(tried->number)))
            fail_msg("%s (%zu): errno %d, expected %d", tried->name, i, got, expected);
    }
    serves = false;
    close((int)readable);
}

static int listener;

/* Nobody connects, so that there is nothing to accept. */
static int accept_one(const char *path) {
    (void)path;
    return result(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
}

TEST(who_serves_accepts_connections) {
    needs_filters();
    const struct sockaddr_un address = {.sun_family = AF_UNIX};
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof(sa_family_t)), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(confined(accept_one, NULL), EPERM);
    serves = true;
    assert_int_equal(confined(accept_one, NULL), EAGAIN);
    serves = false;
    close(listener);
}

/* A filter applies to threads that started before, Landlock does not; this is reported. */
static void *call_when_told(void *told) {
    char byte;
    while (read(*(int *)told, &byte, 1) < 0 && errno == EINTR)
        continue;
    return (void *)(intptr_t)make_socket(NULL);
}

TEST(threads_from_before_are_told) {
    needs_filters();
    int told[2], messages[2], how;
    char text[1024] = "";
    assert_int_equal(pipe(told), 0);
    assert_int_equal(pipe(messages), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pthread_t thread;
        void *found;
        dup2(messages[1], STDERR_FILENO);
        if (pthread_create(&thread, NULL, call_when_told, &told[0]) != 0)
            _exit(1);
        confine(&(struct confinement){.n_source = 0});
        if (write(told[1], "x", 1) != 1 || pthread_join(thread, &found) != 0)
            _exit(1);
        _exit((int)(intptr_t)found);
    }
    close(messages[1]);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), EPERM);
    assert_true(read(messages[0], text, sizeof text - 1) > 0);
    assert_non_null(strstr(text, "note: 1 thread that OpenBLAS has started is not confined"));
    close(messages[0]);
    close(told[0]);
    close(told[1]);
}

/* With a file in `sources`, others are as closed as with a folder. */
TEST(a_file_may_be_the_source) {
    needs_landlock();
    int how;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const char *file = scratch_path("in/file");
        confine(&(struct confinement){.sources = &file, .n_source = 1});
        _exit(read_it(scratch_path("in/link")) != 0 ||
              read_it(scratch_path("alone.txt")) != EACCES);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
}

/* What of the confinement is missing is told once, and nothing where nothing is. */
TEST(confinement_is_told) {
    needs_landlock();
    needs_filters();
    for (int has_landlock = 0; has_landlock < 2; has_landlock++) {
        int messages[2], how;
        char text[1024] = "";
        assert_int_equal(pipe(messages), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            dup2(messages[1], STDERR_FILENO);
            if (!has_landlock)
                hide_landlock();
            confine(&(struct confinement){.n_source = 0});
            _exit(0);
        }
        close(messages[1]);
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_int_equal(how, 0);
        ssize_t n = read(messages[0], text, sizeof text - 1);
        close(messages[0]);
        if (has_landlock)
            assert_int_equal(n, 0);
        else
            assert_non_null(strstr(text, "note: confined by a filter of system calls alone"));
    }
}

/* ---- The keeper of an output -------------------------------------------------------------- */

static char *content_of(const char *path) {
    static char text[64];
    FILE *file = fopen(path, "r");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[n] = '\0';
    if (file)
        fclose(file);
    return file ? text : NULL;
}

static size_t count_files(const char *path) {
    size_t n = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

/* The status of a confined process that writes out/kept, and ends in the way that `end` names. */
static int keep_output(bool has_landlock, const char *end) {
    int how;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct output_file out;
        struct output_keeper keeper;
        txl_error error;
        if (output_file_open(&out, scratch_path("out/kept"), &error) ||
            output_keeper_start(&keeper, &out, &error))
            _exit(1);
        terminal_set_quiet(true);
        if (!has_landlock)
            hide_landlock();
        confine(&(struct confinement){.n_source = 0});
        if (output_file_write(&out, end, strlen(end), 0, &error))
            _exit(2);
        if (strcmp(end, "killed") == 0)
            raise(SIGKILL);
        if (strcmp(end, "commit") == 0 && output_keeper_commit(&keeper, &error))
            _exit(3);
        output_keeper_end(&keeper);
        output_file_close(&out);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    return how;
}

TEST(the_keeper_puts_files_into_place) {
    char path[256];
    snprintf(path, sizeof path, "%s", scratch_path("out/kept"));
    for (int has_landlock = 0; has_landlock < 2; has_landlock++) {
        size_t before = count_files(scratch_path("out"));
        assert_int_equal(keep_output(has_landlock, "failed"), 0);
        assert_null(content_of(path));
        assert_int_equal(keep_output(has_landlock, "killed"), SIGKILL);
        assert_int_equal(count_files(scratch_path("out")), before);
        assert_int_equal(keep_output(has_landlock, "commit"), 0);
        assert_string_equal(content_of(path), "commit");
        assert_int_equal(keep_output(has_landlock, "failed"), 0);
        assert_string_equal(content_of(path), "commit");
        assert_int_equal(count_files(scratch_path("out")), before + 1);
        assert_int_equal(unlink(path), 0);
    }
}

int main(void) {
    return cmocka_run_group_tests(tests, make_files, remove_scratch);
}
