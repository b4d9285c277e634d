/* The progress of long work, with a clock and a terminal that the test provides. */
#include "cli/io/terminal.h"
#include "tests/unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static double clock_seconds;
static unsigned short terminal_width; /* 0: none */

int clock_gettime(clockid_t id, struct timespec *now) {
    (void)id;
    now->tv_sec = (time_t)clock_seconds;
    now->tv_nsec = (long)((clock_seconds - (double)now->tv_sec) * 1e9);
    return 0;
}

int isatty(int handle) {
    (void)handle;
    return terminal_width > 0;
}

int ioctl(int handle, unsigned long request, ...) {
    va_list arguments;
    (void)handle;
    (void)request;
    va_start(arguments, request);
    va_arg(arguments, struct winsize *)->ws_col = terminal_width;
    va_end(arguments);
    return 0;
}

/* ---- What is shown ------------------------------------------------------------------------ */

static FILE *shown;
static int standard_error;
static off_t seen; /* bytes of it */

static int catch_standard_error(void **state) {
    (void)state;
    shown = tmpfile();
    seen = 0;
    standard_error = dup(STDERR_FILENO);
    return shown && standard_error >= 0 && dup2(fileno(shown), STDERR_FILENO) >= 0 ? 0 : -1;
}

static int give_standard_error_back(void **state) {
    (void)state;
    dup2(standard_error, STDERR_FILENO);
    close(standard_error);
    return fclose(shown);
}

#define SHOWN(name) TEST_WITH(name, catch_standard_error, give_standard_error_back)

/* Since the last time. */
static void assert_shown(const char *expected) {
    char text[512] = "";
    seen += pread(fileno(shown), text, sizeof text - 1, seen);
    assert_string_equal(text, expected);
}

static void update_at(struct progress *progress, double seconds, double fraction, uint64_t count) {
    clock_seconds = seconds;
    progress_update(progress, fraction, count);
}

/* ---- Tests -------------------------------------------------------------------------------- */

SHOWN(lines_come_every_ten_seconds) {
    struct progress progress;
    terminal_width = 0;
    clock_seconds = 100;
    progress_start(&progress, "text.txt", "tokens");
    update_at(&progress, 100.5, 0.1, 10);
    update_at(&progress, 109.5, 0.2, 900);
    assert_shown("");
    update_at(&progress, 110, 0.25, 1000);
    assert_shown("txl: text.txt: 25 %, 1000 tokens, 100 tokens/s, 0:30 left\n");
    update_at(&progress, 119.5, 0.5, 2000);
    assert_shown("");
    progress.unit = "KiB at 16.4 %";
    update_at(&progress, 150, -1, 4000);
    assert_shown("txl: text.txt: 4000 KiB at 16.4 %, 80 KiB/s\n");
    progress.unit = "tokens";
    update_at(&progress, 200, -1, 4300);
    assert_shown("txl: text.txt: 4300 tokens, 43 tokens/s\n");
    update_at(&progress, 300, 0.025, 5000);
    assert_shown("txl: text.txt: 2 %, 5000 tokens, 25 tokens/s, 2:10:00 left\n");
    update_at(&progress, 400, 1.25, 6000);
    assert_shown("txl: text.txt: 100 %, 6000 tokens, 20 tokens/s, 0:00 left\n");
    progress_end(&progress);
    update_at(&progress, 500, 0.5, 7000);
    assert_shown("");
}

SHOWN(a_bar_is_redrawn_and_wiped) {
    struct progress progress;
    terminal_width = 88;
    clock_seconds = 100;
    progress_start(&progress, "text.txt", "tokens");
    update_at(&progress, 100.5, 0.5, 1);
    assert_shown("");
    update_at(&progress, 110, 0.25, 1000);
    assert_shown("\rtext.txt   25 % [###-----------] 1000 tokens, 100 tokens/s, 0:30 left\033[K");
    update_at(&progress, 110.05, 0.26, 1001);
    assert_shown("");
    update_at(&progress, 120, -1, 2000);
    assert_shown("\rtext.txt  2000 tokens, 100 tokens/s\033[K");
    terminal_note("in between");
    assert_shown("\r\033[Ktxl: note: in between\n");
    terminal_width = 38;
    update_at(&progress, 200, 0.5, 10000);
    assert_shown("\r 50 % 10000 tokens, 100 tokens/s\033[K");
    progress_clear();
    assert_shown("\r\033[K");
    progress_clear();
    assert_shown("");
    update_at(&progress, 210, 0.5, 10000);
    assert_shown("\r 50 % 10000 tokens, 91 tokens/s\033[K");
    progress_end(&progress);
    assert_shown("\r\033[K");
}

/* Of figures the last are left out, and the bar, never a part of one. */
SHOWN(figures_are_whole) {
    static const struct {
        unsigned short width;
        const char *shown;
    } cases[] = {
        {150, "\r2.113 bits, held out 2.2014, epoch 2, step 1200   50 % [############------------] "
              "4096000 tokens, 40960 tokens/s, 1:40 left\033[K"},
        {107, "\r2.113 bits, held out 2.2014, epoch 2, step 1200   50 % [##---] "
              "4096000 tokens, 40960 tokens/s, 1:40 left\033[K"},
        {87,
         "\r2.113 bits, held out 2.2014   50 % [##---] 4096000 tokens, 40960 tokens/s, 1:40 left"
         "\033[K"},
        {67, "\r2.113 bits   50 % 4096000 tokens, 40960 tokens/s, 1:40 left\033[K"},
        {50, "\r 50 % 4096000 tokens, 40960 tokens/s, 1:40 left\033[K"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct progress progress;
        terminal_width = cases[i].width;
        clock_seconds = 100;
        progress_start(&progress, "2.113 bits, held out 2.2014, epoch 2, step 1200", "tokens");
        progress.figures = true;
        update_at(&progress, 200, 0.5, 4096000);
        assert_shown(cases[i].shown);
        progress_end(&progress);
        assert_shown("\r\033[K");
    }
}

/* Behind the widest bar there is room for the ^C that Ctrl-C shows. */
SHOWN(a_bar_leaves_room) {
    struct progress progress;
    char text[512] = "";
    for (int width = 4; width < 130; width++) {
        terminal_width = (unsigned short)width;
        clock_seconds = 100;
        progress_start(&progress, "a/name/that/is/wider/than/the/whole/of/many/a/terminal/is.txt",
                       "tokens");
        update_at(&progress, 200, 0.5, 123456);
        ssize_t n = pread(fileno(shown), text, sizeof text - 1, seen);
        seen += n;
        assert_in_range(n, 1 + 3, 1 + width - 3 + 3); /* CR, the bar, ESC [ K */
        progress_end(&progress);
        assert_shown("\r\033[K");
    }
}

/* Programs read the summary, a person at a terminal the brief line; --quiet leaves out both,
 * --summary asks for the one for programs. */
SHOWN(a_summary_is_for_programs) {
    const struct {
        unsigned short width;
        bool quiet, summary;
        const char *shown;
    } cases[] = {
        {0, false, false, "txl: seed=7\n"},
        {0, false, true, "txl: seed=7\n"},
        {0, true, false, ""},
        {0, true, true, "txl: seed=7\n"},
        {81, false, false, "txl: seed 7\n"},
        {81, false, true, "txl: seed=7\n"},
        {81, true, false, ""},
        {81, true, true, "txl: seed=7\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        terminal_width = cases[i].width;
        terminal_set_quiet(cases[i].quiet);
        terminal_set_summary(cases[i].summary);
        terminal_brief("seed %d", 7);
        terminal_summary("seed=%d", 7);
        assert_shown(cases[i].shown);
    }
    terminal_set_quiet(false);
    terminal_set_summary(false);
}

SHOWN(quiet_shows_nothing) {
    struct progress progress;
    terminal_width = 81;
    clock_seconds = 100;
    terminal_set_quiet(true);
    progress_start(&progress, "text.txt", "tokens");
    update_at(&progress, 200, 0.5, 1000);
    progress_end(&progress);
    terminal_set_quiet(false);
    assert_shown("");
}

/* Shows the beginning of an impossibly long name, on a line of its own. */
SHOWN(a_line_is_cut) {
    enum { LENGTH = 20000, MOST = 16384 };
    static char name[LENGTH + 1], text[LENGTH + 100];
    terminal_set_command(NULL);
    for (int i = 0; i < LENGTH; i++)
        name[i] = i % 2 ? '\a' : 'a';
    terminal_error("%s: damaged", name);
    terminal_line("seed=%d", 7);
    ssize_t n = pread(fileno(shown), text, sizeof text - 1, 0);
    assert_int_equal(n, MOST + strlen("txl: seed=7\n"));
    assert_memory_equal(text, "txl: error: a?a?", 16);
    assert_string_equal(text + MOST - 3, "?a\ntxl: seed=7\n");
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
