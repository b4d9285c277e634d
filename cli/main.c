/* txl: finds the command and runs it. */
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "commands.h"
#include "txl.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- OpenBLAS's threads -------------------------------------------------------------------- */

/* Before main, OpenBLAS starts a thread for each processor that this process may use.  txl has
 * threads of its own and never uses them, they would not be confined, and where memory is short
 * they spin for ever.  So the process may use one processor until main begins. */
static cpu_set_t processors[64]; /* 65,536 of them */
static bool narrowed;

/* Runs before the constructors of all libraries, and before a sanitizer's. */
__attribute__((no_sanitize("address", "thread", "undefined"))) static void narrow(void) {
    static cpu_set_t one[64];
    int cpu = sched_getcpu();
    if (cpu < 0 || syscall(SYS_sched_getaffinity, 0, sizeof processors, processors) <= 0)
        return;
    CPU_SET_S(cpu, sizeof one, one);
    narrowed = syscall(SYS_sched_setaffinity, 0, sizeof one, one) == 0;
}

__attribute__((section(".preinit_array"), used)) static void (*const first)(void) = narrow;

/* ---- The program --------------------------------------------------------------------------- */

/* Opens a substitute for each standard stream that the caller closed, so that no file gets its
 * number.  Reading it finds nothing, writing to it fails. */
static void fill_standard_streams(void) {
    for (int handle = STDIN_FILENO; handle <= STDERR_FILENO; handle++)
        if (fcntl(handle, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != handle)
            _exit(STATUS_FAILURE);
}

static bool is_any(const char *text, const char *one, const char *other) {
    return strcmp(text, one) == 0 || strcmp(text, other) == 0;
}

/* --help and --version are commands too, because other programs have them as options. */
static const char *command_name(const char *argument) {
    return is_any(argument, "--help", "-h")      ? help_command.name
           : is_any(argument, "--version", "-V") ? version_command.name
                                                 : argument;
}

int main(int argc, char **argv) {
    if (narrowed)
        sched_setaffinity(0, sizeof processors, processors);
    fill_standard_streams();
    signals_install();
    if (argc < 2) {
        terminal_set_command(help_command.name);
        char *arguments[] = {(char *)(uintptr_t)help_command.name, NULL};
        int status = command_run(&help_command, 1, arguments);
        return status == STATUS_OK ? STATUS_USAGE : status;
    }
    const struct command *command = command_find(command_name(argv[1]));
    if (!command)
        return command_unknown(NULL, argv[1]);
    terminal_set_command(command->name);
    return command->start ? command->start(command, argc - 1, argv + 1)
                          : command_run(command, argc - 1, argv + 1);
}
