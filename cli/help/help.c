/* txl help: the list of commands, or the help of one. */
#include "cli/commands.h"
#include "explain.h"

#include <stdio.h>

static void print_overview(void) {
    fputs("Usage: txl COMMAND [OPTION]... [ARGUMENT]...\n"
          "       txl --version | -V\n\n"
          "Runs Transformer-XL and XLNet language models: generates text of any length,\n"
          "fills gaps, measures bits per character and perplexity, and trains. A model is\n"
          "built in; txl convert makes others from published checkpoints.\n\n"
          "Commands:\n",
          stdout);
    for (size_t i = 0; commands[i]; i++)
        printf("  %-12s%s\n", commands[i]->name, commands[i]->summary);
    fputs("\nExamples:\n"
          "  echo \"It was a dark and stormy night\" | txl generate -n 300\n"
          "  txl ppl novel.txt\n\n"
          "'txl COMMAND --help' explains a command. The exit status is 0 for success,\n"
          "1 for a failure, 2 for wrong usage, 130 after Ctrl-C.\n",
          stdout);
}

static void print_help(const struct command *topic) {
    options_help(topic, stdout);
}

static int run(const struct command *command, void *values, struct operands *operands) {
    (void)values;
    return explain(command, operands, print_overview, print_help);
}

const struct command help_command = {
    .name = "help",
    .summary = "explain a command",
    .description = "Prints the help of COMMAND, or the list of commands.",
    .options = explain_options,
    .operands = explain_operands,
    .run = run,
};
