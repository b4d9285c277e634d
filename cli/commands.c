/* The list of all commands, and how they are found. */
#include "commands.h"

#include "cli/options/options.h"

#include <string.h>

const struct command *const commands[] = {
    &generate_command,   &fill_command,       &ppl_command,     &tokenize_command,
    &compress_command,   &decompress_command, &train_command,   &serve_command,
    &convert_command,    &info_command,       &verify_command,  &bench_command,
    &completion_command, &help_command,       &version_command, NULL};

const struct command *command_find(const char *name) {
    for (size_t i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return strcmp(manual_command.name, name) == 0 ? &manual_command : NULL;
}

int command_unknown(const struct command *by, const char *name) {
    struct nearest nearest = nearest_to(name);
    for (size_t i = 0; commands[i]; i++)
        nearest_try(&nearest, commands[i]->name);
    return options_unknown(by, "command", "", name, nearest_name(&nearest));
}
