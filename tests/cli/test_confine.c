/* What a confined process can still do, and what it no longer can.  Each attempt is made by a
 * process of its own, which it tells its errno. */
#include "cli/system/confine.h"
#include "tests/convert/checkpoint_files.h"

#include <linux/landlock.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
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

static int truncate_it(const char *path) {
    return result(truncate(path, 0));
}

static int rename_it(const char *path) {
    char renamed[4096];
    snprintf(renamed, sizeof renamed, "%s-renamed", path);
    return result(rename(path, renamed));
}

static int list_it(const char *path) {
    return result(open(path, O_RDONLY | O_DIRECTORY));
}

static int change_mode(const char *path) {
    return result(chmod(path, 0600));
}

static int run_it(const char *path) {
    char *arguments[] = {(char *)path, NULL};
    return result(execv(path, arguments));
}

static int make_socket(const char *path) {
    (void)path;
    return result(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int signal_parent(const char *path) {
    (void)path;
    return result(kill(getppid(), 0));
}

static int signal_parents_thread(const char *path) {
    (void)path;
    return result((int)syscall(SYS_tgkill, getppid(), getppid(), 0));
}

static int type_into_terminal(const char *path) {
    (void)path;
    return result(ioctl(0, TIOCSTI, "x"));
}

static int raise_signal(const char *path) {
    (void)path;
    signal(SIGUSR1, SIG_IGN);
    return raise(SIGUSR1);
}

static void *read_in_thread(void *path) {
    return (void *)(intptr_t)read_it(path);
}

/* Of a thread that starts later. */
static int read_elsewhere(const char *path) {
    pthread_t thread;
    void *found;
    if (pthread_create(&thread, NULL, read_in_thread, (void *)path) != 0)
        return -1;
    pthread_join(thread, &found);
    return (int)(intptr_t)found;
}

/* The errno of an attempt by a process that may read the folder in/ and alone.txt, and write into
 * out/. */
static int confined(attempt *try, const char *path) {
    int how;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const char *in = scratch_path("in"), *alone = scratch_path("alone.txt");
        confine(&(struct confinement){.sources = &in,
                                      .n_source = 1,
                                      .alone = &alone,
                                      .n_alone = 1,
                                      .output = scratch_path("out/new.txl")});
        _exit(try(path));
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
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

static void files_of_the_task_stay_open_to_it(void **state) {
    (void)state;
    assert_int_equal(confined(read_it, scratch_path("in/file")), 0);
    assert_int_equal(confined(read_it, scratch_path("in/link")), 0);
    assert_int_equal(confined(list_it, scratch_path("in")), 0);
    assert_int_equal(confined(read_it, scratch_path("alone.txt")), 0);
    assert_int_equal(confined(read_elsewhere, scratch_path("in/file")), 0);
    assert_int_equal(confined(make_it, scratch_path("out/new")), 0);
    assert_int_equal(confined(rename_it, scratch_path("out/new")), 0);
    assert_int_equal(confined(raise_signal, NULL), 0);
}

static void other_files_are_closed(void **state) {
    (void)state;
    needs_landlock();
    assert_int_equal(confined(read_it, scratch_path("outside")), EACCES);
    assert_int_equal(confined(read_elsewhere, scratch_path("outside")), EACCES);
    assert_int_equal(confined(read_it, scratch_path("in/below/file")), EACCES);
    assert_int_equal(confined(read_it, scratch_path("out/old")), EACCES);
    assert_int_equal(confined(read_it, "/etc/passwd"), EACCES);
    assert_int_equal(confined(list_it, "/"), EACCES);
    assert_int_equal(confined(write_it, scratch_path("in/file")), EACCES);
    assert_int_equal(confined(write_it, scratch_path("outside")), EACCES);
    assert_int_equal(confined(make_it, scratch_path("new")), EACCES);
    if (landlock_version() >= 3)
        assert_int_equal(confined(truncate_it, scratch_path("outside")), EACCES);
}

static void the_rest_is_refused(void **state) {
    (void)state;
    if (syscall(SYS_seccomp, 2 /* SECCOMP_GET_ACTION_AVAIL */, 0, &(uint32_t){0x7fff0000}) < 0) {
        print_message("skipped: this kernel filters no system calls\n");
        skip();
    }
    assert_int_equal(confined(run_it, "/bin/true"), EPERM);
    assert_int_equal(confined(make_socket, NULL), EPERM);
    assert_int_equal(confined(signal_parent, NULL), EPERM);
    assert_int_equal(confined(signal_parents_thread, NULL), EPERM);
    assert_int_equal(confined(type_into_terminal, NULL), EPERM);
    assert_int_equal(confined(change_mode, scratch_path("outside")), EPERM);
}

/* A file alone has its folder's for company, and nothing can be written without an output. */
static void a_file_may_be_the_source(void **state) {
    (void)state;
    needs_landlock();
    int how;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const char *file = scratch_path("in/file");
        confine(&(struct confinement){.sources = &file, .n_source = 1});
        _exit(read_it(scratch_path("in/link")) != 0 ||
              read_it(scratch_path("alone.txt")) != EACCES ||
              make_it(scratch_path("out/another")) != EACCES);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_the_task_stay_open_to_it),
        cmocka_unit_test(other_files_are_closed),
        cmocka_unit_test(the_rest_is_refused),
        cmocka_unit_test(a_file_may_be_the_source),
    };
    return cmocka_run_group_tests(tests, make_files, remove_scratch);
}
