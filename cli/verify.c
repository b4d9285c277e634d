/* txl verify: reads a weights file and compares every checksum. */
#include "cli/io/confine.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/model/model.h"
#include "commands.h"
#include "txl.h"

static bool show_progress(void *context, uint64_t done, uint64_t all) {
    progress_update(context, (double)done / (double)all, done >> 20);
    return !signals_stopped();
}

/* False with the error printed, or when a signal asked to stop. */
static bool verify_file(const char *path, bool quiet) {
    struct progress progress;
    txl_error error;
    progress_start(&progress, path, "MiB");
    signals_set_mapped(path);
    size_t size;
    const void *built_in = model_built_in(&size);
    txl_status status =
        model_is_built_in(path)
            ? txl_memory_verify(built_in, size, path, show_progress, &progress, &error)
            : txl_file_verify(path, show_progress, &progress, &error);
    signals_set_mapped(NULL);
    progress_end(&progress);
    bool good = terminal_report(status, &error);
    if (good && !quiet)
        output_line("%s: OK", path);
    return good;
}

static int run(const struct command *command, void *values, struct operands *files) {
    const struct common_options *options = values;
    int status = STATUS_OK;
    (void)command;
    confine(&(struct confinement){.alone = (const char *const *)files->items,
                                  .n_alone = (size_t)files->n});
    for (int i = 0; i < files->n && !signals_stopped() && !output_closed(); i++)
        if (!verify_file(files->items[i], options->quiet))
            status = STATUS_FAILURE;
    return output_finish(signals_stopped() ? signals_status() : status);
}

static const struct option_row options[] = {FILES_FROM_ROW("Input"), COMMON_ROWS, {0}};

static const struct operand_row operands[] = {
    {.name = "FILE", .help = "weights file, or " BUILT_IN, .repeats = true, .model = true}, {0}};

static const struct example examples[] = {
    {"txl verify wt103.txl", "look for damage after a download or a copy"},
    {"find . -name '*.txl' -print0 | txl verify --files-from -",
     "of all weights files in a folder"},
    {0}};

const struct command verify_command = {
    .name = "verify",
    .summary = "compare every checksum of a weights file",
    .description =
        "Reads each FILE, compares all checksums, and prints FILE: OK, unless --quiet. They "
        "cover all that txl uses of a file, but not the zeros between its parts. For a damaged "
        "FILE it prints the first damage as an error and continues with the next; the exit status "
        "is then 1.",
    .options = options,
    .operands = operands,
    .examples = examples,
    .run = run,
};
