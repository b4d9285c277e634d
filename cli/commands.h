/* The commands of txl; each is defined in the file of its name. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "cli/options/options.h"

extern const struct command generate_command, fill_command, ppl_command, surprisal_command,
    classify_command, answer_command, compress_command, decompress_command, convert_command,
    info_command, verify_command, tokenize_command, train_command, serve_command, bench_command,
    completion_command, help_command, manual_command, version_command;

/* All commands in the order in which help lists them; NULL after the last.  It does not list man,
 * which the build runs. */
extern const struct command *const commands[];

/* The command of that name, or NULL. */
const struct command *command_find(const char *name);

/* Prints that there is no such command, and the nearest name; returns STATUS_USAGE.  `by` is the
 * command that looked it up; NULL: txl itself. */
int command_unknown(const struct command *by, const char *name);

/* One note if OpenBLAS's kernels are slower than this processor, and what txl does about it.  Only
 * the commands that tell of the machine print it: no one else can act on it, and the summaries name
 * the kernels. */
void version_note_blas(void);

#endif
