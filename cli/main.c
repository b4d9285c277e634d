/* txl: finds the command and runs it. */
#include "cli/system/blas_core.h"
#include "cli/system/output.h"
#include "cli/system/signals.h"
#include "cli/system/terminal.h"
#include "commands.h"
#include "txl.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
    fill_standard_streams();
    const char *wrong = blas_core_mend(argv);
    if (wrong) {
        terminal_error("%s", wrong);
        return STATUS_FAILURE;
    }
    signals_install();
    if (argc < 2) {
        terminal_error("a command is missing (see txl --help)");
        return STATUS_USAGE;
    }
    const struct command *command = command_find(command_name(argv[1]));
    if (!command)
        return command_unknown(NULL, argv[1]);
    terminal_set_command(command->name);
    return command->start ? command->start(command, argc - 1, argv + 1)
                          : command_run(command, argc - 1, argv + 1);
}
