/* Signal handlers.  Everything in them is async-signal-safe. */
#include "signals.h"

#include "clean.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A wrapper such as timeout(1) delivers one signal twice, to the process and to its group.  A
 * second signal counts only if it comes at least this much later. */
enum { IMPATIENCE = 300 /* milliseconds */ };

static volatile sig_atomic_t stop_signal;
static volatile sig_atomic_t stop_time; /* milliseconds */
/* Longer names are cut. */
static char mapped_name[4096];
/* More files than any command writes at the same time. */
static const char *volatile temporary_paths[4];
enum { N_TEMPORARY = sizeof temporary_paths / sizeof temporary_paths[0] };

static void remove_temporaries(void) {
    for (size_t i = 0; i < N_TEMPORARY; i++) {
        const char *path = temporary_paths[i];
        if (path)
            unlink(path);
    }
}

/* A signal that comes just before a system call does not end the call, so an alarm interrupts it
 * again. */
static void on_alarm(int number) {
    (void)number;
    alarm(1);
}

static int milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int)(now.tv_sec % 1000000 * 1000 + now.tv_nsec / 1000000);
}

static void on_stop(int number) {
    if (stop_signal != 0 && milliseconds() - stop_time < IMPATIENCE)
        return;
    if (stop_signal != 0) {
        remove_temporaries();
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    stop_time = milliseconds();
    stop_signal = number;
    alarm(1);
}

static void write_error(const char *text) {
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return; /* there is nowhere else to say it */
}

static void on_bus_error(int number) {
    (void)number;
    write_error("txl: error: ");
    write_error(*mapped_name ? mapped_name : "a mapped file");
    write_error(": became shorter, or unreadable, while it was in use\n");
    remove_temporaries();
    _exit(1);
}

static void handle_stops(int flags) {
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    const int stops[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++) {
        struct sigaction before;
        /* A signal that the parent ignores (nohup, a shell's background job) stays ignored. */
        if (sigaction(stops[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(stops[i], &action, NULL);
    }
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
}

void signals_install(void) {
    /* After an interrupted write stdio would lose the rest. */
    handle_stops(SA_RESTART);
    struct sigaction action = {.sa_handler = on_bus_error};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
    action.sa_handler = SIG_IGN; /* writing reports a closed pipe and a full quota itself */
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);
}

void signals_end_reads(bool end) {
    handle_stops(end ? 0 : SA_RESTART);
}

bool signals_stopped(void) {
    return stop_signal != 0;
}

int signals_status(void) {
    return 128 + (int)stop_signal;
}

bool signals_forget_interrupt(void) {
    if (stop_signal != SIGINT)
        return false;
    alarm(0);
    stop_signal = 0;
    return true;
}

void signals_set_mapped(const char *name) {
    snprintf(mapped_name, sizeof mapped_name, "%s", name ? name : "");
    clean_line(mapped_name);
}

static void replace_temporary(const char *from, const char *to) {
    for (size_t i = 0; i < N_TEMPORARY; i++) {
        if (temporary_paths[i] == from) {
            temporary_paths[i] = to;
            return;
        }
    }
}

void signals_add_temporary(const char *path) {
    replace_temporary(NULL, path);
}

void signals_drop_temporary(const char *path) {
    replace_temporary(path, NULL);
}
