/* txl version: which txl this is, and what it computes with. */
#include "cli/system/output.h"
#include "commands.h"
#include "txl.h"

static int run(const struct command *command, int argc, char **argv) {
    struct common_options options = {0};
    struct operands operands;
    int status = options_parse(command, argc, argv, &options, &operands);
    if (status != OPTIONS_RUN)
        return status;
    printf("txl %s\nkernels %s, OpenBLAS %s\n", TXL_VERSION, txl_kernels_name(), txl_blas_name());
    return output_finish(STATUS_OK);
}

static const struct option_row options[] = {COMMON_ROWS, {0}};

const struct command version_command = {
    .name = "version",
    .summary = "print the version",
    .description = "Prints the version of txl, the kernels that it chose for this processor, and "
                   "OpenBLAS's. txl --version and txl -V are the same.",
    .options = options,
    .run = run,
};
