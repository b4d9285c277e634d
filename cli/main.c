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

const struct command *const commands[] = {&generate_command,
                                          &ppl_command,
                                          &tokenize_command,
                                          &convert_command,
                                          &info_command,
                                          &verify_command,
                                          &bench_command,
                                          &completion_command,
                                          &help_command,
                                          &manual_command,
                                          NULL};

const struct command *command_find(const char *name) {
    for (size_t i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

/* A file that is opened must not take the number of a standard stream that the caller closed;
 * reading the stand-in finds nothing, writing it fails. */
static void fill_standard_streams(void) {
    for (int handle = STDIN_FILENO; handle <= STDERR_FILENO; handle++)
        if (fcntl(handle, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != handle)
            _exit(STATUS_FAILURE);
}

static int print_version(void) {
    printf("txl %s\nkernels %s, OpenBLAS %s\n", TXL_VERSION, txl_kernels_name(), txl_blas_name());
    return output_finish(STATUS_OK);
}

static bool is_any(const char *text, const char *one, const char *other) {
    return strcmp(text, one) == 0 || strcmp(text, other) == 0;
}

int main(int argc, char **argv) {
    fill_standard_streams();
    if (!blas_core_mend(argv)) {
        terminal_error("out of memory: the environment has no room for OpenBLAS's variables");
        return STATUS_FAILURE;
    }
    signals_install();
    if (argc < 2) {
        terminal_error("a command is missing (see txl --help)");
        return STATUS_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0)
        return print_version();
    const struct command *command =
        command_find(is_any(argv[1], "--help", "-h") ? help_command.name : argv[1]);
    if (!command) {
        terminal_error("'%s' is no command (see txl --help)", argv[1]);
        return STATUS_USAGE;
    }
    terminal_set_command(command->name);
    return command->run(command, argc - 1, argv + 1);
}
