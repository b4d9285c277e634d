/* txl version: the version of txl, its kernels and OpenBLAS's. */
#include "cli/io/output.h"
#include "cli/io/terminal.h"
#include "commands.h"
#include "txl.h"

static int run(const struct command *command, void *values, struct operands *operands) {
    (void)command, (void)values, (void)operands;
    txl_error error;
    const char *kernels = txl_kernels_name(&error);
    if (!kernels) {
        terminal_error("%s", error.message);
        return STATUS_FAILURE;
    }
    printf("txl %s\nkernels %s, OpenBLAS %s\n", TXL_VERSION, kernels, txl_blas_name());
    return output_finish(STATUS_OK);
}

static const struct option_row options[] = {PLAIN_ROWS, {0}};

const struct command version_command = {
    .name = "version",
    .summary = "print the version",
    .description =
        "Prints the version of txl, the kernels that it chose for this processor, and the "
        "kernels of OpenBLAS. txl --version and txl -V do the same.",
    .options = options,
    .run = run,
};
