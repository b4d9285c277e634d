/* txl verify: reads a weights file and compares every checksum. */
#include "cli/system/confine.h"
#include "cli/system/output.h"
#include "cli/system/signals.h"
#include "cli/system/terminal.h"
#include "commands.h"
#include "txl.h"

static bool show(void *context, uint64_t done, uint64_t all) {
    progress_update(context, (double)done / (double)all, done >> 20);
    return !signals_stopped();
}

static int run(const struct command *command, int argc, char **argv) {
    struct common_options options = {0};
    struct operands files;
    int status = options_parse(command, argc, argv, &options, &files);
    if (status != OPTIONS_RUN)
        return status;
    const char *path = files.items[0];
    struct progress progress;
    txl_error error;
    confine(NULL, path, NULL);
    progress_start(&progress, path, "MiB");
    signals_set_mapped(path);
    txl_status verified = txl_file_verify(path, show, &progress, &error);
    signals_set_mapped(NULL);
    progress_end(&progress);
    if (verified == TXL_STOPPED)
        return signals_status();
    if (verified != TXL_OK) {
        terminal_error("%s", error.message);
        return STATUS_FAILURE;
    }
    if (!options.quiet)
        output_line("%s: OK", path);
    return output_finish(STATUS_OK);
}

static const struct option_row options[] = {COMMON_ROWS, {0}};

static const struct operand_row operands[] = {
    {.name = "FILE", .help = "a weights file, as txl convert writes it"}, {0}};

static const struct example examples[] = {
    {"txl verify wt103.txl", "look for damage after a download or a copy"}, {0}};

const struct command verify_command = {
    .name = "verify",
    .summary = "compare every checksum of a weights file",
    .description = "Reads every byte of FILE and compares every checksum. Prints FILE: OK, unless "
                   "--quiet, and exits with status 0; the first damage found is an error.",
    .options = options,
    .operands = operands,
    .examples = examples,
    .run = run,
};
