/* Prints what the reader of checkpoints finds in each file named on standard input, for a
 * comparison with another reader (tests/fuzz/differential).  A line a tensor:
 *
 *     NAME-IN-HEXADECIMAL DTYPE SHAPE CRC32
 *
 * where SHAPE is sizes between commas and CRC32 that of the elements in row-major order as float64,
 * every NaN being the same; and then "ok", or "refused" and the reason, alone on its line. */
#include "convert/containers/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

enum { CHUNK = 4096 };

static txl_status add_elements(const struct checkpoint_tensor *tensor, uint32_t *sum,
                               txl_error *error) {
    double x[CHUNK];
    uLong crc = crc32_z(0, NULL, 0);
    for (uint64_t i = 0, n; i < tensor->n_element; i += n) {
        n = tensor->n_element - i < CHUNK ? tensor->n_element - i : CHUNK;
        txl_status status = checkpoint_read_double(tensor, i, n, x, error);
        if (status)
            return status;
        for (uint64_t k = 0; k < n; k++)
            if (isnan(x[k]))
                x[k] = (double)NAN;
        crc = crc32_z(crc, (const unsigned char *)x, (size_t)n * sizeof *x);
    }
    *sum = (uint32_t)crc;
    return TXL_OK;
}

static txl_status print_tensor(const struct checkpoint_tensor *tensor, txl_error *error) {
    uint32_t sum = 0;
    txl_status status = add_elements(tensor, &sum, error);
    for (const char *c = tensor->name; *c; c++)
        printf("%02x", (unsigned char)*c);
    printf(" %s ", checkpoint_dtype_name(tensor->dtype));
    for (int i = 0; i < tensor->n_dim; i++)
        printf("%" PRIu64 ",", tensor->shape[i]);
    printf(" %08" PRIx32 "\n", sum);
    return status;
}

static txl_status print_file(const char *path, txl_error *error) {
    struct checkpoint *checkpoint;
    txl_status status = checkpoint_open(path, &checkpoint, error);
    if (status)
        return status;
    for (size_t i = 0; i < checkpoint_n_tensor(checkpoint) && !status; i++)
        status = print_tensor(checkpoint_tensor_at(checkpoint, i), error);
    checkpoint_close(checkpoint);
    return status;
}

int main(void) {
    char path[4096];
    while (fgets(path, sizeof path, stdin)) {
        txl_error error;
        path[strcspn(path, "\n")] = '\0';
        if (!print_file(path, &error))
            puts("ok");
        else
            printf("refused %s\n", error.message);
        fflush(stdout);
    }
    return 0;
}
