/* txl version: the version of txl, its kernels and OpenBLAS's, and what it means if those are
 * another processor's. */
#include "cli/io/output.h"
#include "cli/io/terminal.h"
#include "commands.h"
#include "txl.h"

/* The share is of several processors and shapes: docs/speed.md. */
void version_note_blas(void) {
    const char *better = txl_blas_better_core();
    if (better)
        terminal_note("OpenBLAS takes this processor for a %s, so txl multiplies f32 weights with "
                      "its own products, at 0.95 to 1.1 times the speed that "
                      "OPENBLAS_CORETYPE=%s gives OpenBLAS",
                      txl_blas_name(), better);
}

static int run(const struct command *command, void *values, struct operands *operands) {
    (void)command, (void)values, (void)operands;
    txl_error error;
    const char *kernels = txl_kernels_name(&error);
    if (!kernels) {
        terminal_error("%s", error.message);
        return STATUS_FAILURE;
    }
    printf("txl %s\nkernels %s, OpenBLAS %s\n", TXL_VERSION, kernels, txl_blas_name());
    version_note_blas();
    return output_finish(STATUS_OK);
}

static const struct option_row options[] = {PLAIN_ROWS, {0}};

const struct command version_command = {
    .name = "version",
    .summary = "print the version",
    .description =
        "Prints the version of txl, the kernels that it chose for this processor, and the "
        "kernels of OpenBLAS, and notes if those are slower than the processor. txl --version and "
        "txl -V do the same.",
    .options = options,
    .run = run,
};
