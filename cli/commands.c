/* The list of all commands, and how they are found. */
#include "commands.h"

#include "cli/options/options.h"

#include <string.h>

const struct command *const commands[] = {&generate_command,
                                          &fill_command,
                                          &ppl_command,
                                          &surprisal_command,
                                          &classify_command,
                                          &answer_command,
                                          &tokenize_command,
                                          &compress_command,
                                          &decompress_command,
                                          &train_command,
                                          &serve_command,
                                          &convert_command,
                                          &info_command,
                                          &verify_command,
                                          &bench_command,
                                          &completion_command,
                                          &help_command,
                                          &version_command,
                                          NULL};

const struct command *command_find(const char *name) {
    for (size_t i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return strcmp(manual_command.name, name) == 0 ? &manual_command : NULL;
}

/* What people call the work of a command, and other programs theirs; NULL: no such name. */
static const char *known_elsewhere(const char *name) {
    static const struct {
        const char *theirs, *ours;
    } names[] = {{"perplexity", "ppl"},     {"score", "ppl"},
                 {"surprise", "surprisal"}, {"eval", "ppl"},
                 {"evaluate", "ppl"},       {"test", "ppl"},
                 {"sample", "generate"},    {"complete", "generate"},
                 {"chat", "generate"},      {"run", "generate"},
                 {"write", "generate"},     {"encode", "tokenize"},
                 {"decode", "tokenize"},    {"detokenize", "tokenize"},
                 {"label", "classify"},     {"predict", "classify"},
                 {"sentiment", "classify"}, {"qa", "answer"},
                 {"mask", "fill"},          {"cloze", "fill"},
                 {"finetune", "train"},     {"fine-tune", "train"},
                 {"quantize", "convert"},   {"import", "convert"},
                 {"export", "convert"},     {"benchmark", "bench"},
                 {"speed", "bench"},        {"server", "serve"},
                 {"check", "verify"},       {"show", "info"},
                 {"inspect", "info"},       {"uncompress", "decompress"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].theirs, name) == 0)
            return names[i].ours;
    return NULL;
}

int command_unknown(const struct command *by, const char *name) {
    const char *meant = known_elsewhere(name);
    struct nearest nearest = nearest_to(name);
    for (size_t i = 0; commands[i]; i++)
        nearest_try(&nearest, commands[i]->name);
    return options_unknown(by, "command", "", name, meant ? meant : nearest_name(&nearest));
}
