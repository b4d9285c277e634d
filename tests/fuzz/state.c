/* The state of a training, of a model or of a head.  From an accepted one training must be able to
 * go on, and be saved again.  The mutator corrects the sizes and checksums of weights-format.md;
 * otherwise nothing of a changed file would be read. */
#include "fuzz.h"
#include "tiny.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

/* More takes too long. */
enum { MOST_BYTES = 1 << 24, MAX_LENGTH = 100, MAX_BATCH = 8 };

/* ---- Reading ------------------------------------------------------------------------------ */

static void save_again(const txl_trainer *trainer, const char *note) {
    const char *path = fuzz_write("again.state", NULL, 0);
    txl_saved *again;
    txl_error error;
    fuzz_require_ok(txl_trainer_save(trainer, path, note, &error), &error);
    fuzz_require_ok(txl_saved_open(path, &again, &error), &error);
    fuzz_require(strcmp(txl_saved_note(again), note) == 0, "another note");
    txl_saved_free(again);
}

static void go_on(const txl_saved *saved) {
    txl_trainer *trainer;
    txl_step step;
    txl_error error;
    txl_ids *ids = tiny_ids(txl_model_n_token(txl_saved_model(saved)));
    if (!txl_saved_resume(saved, ids, 1, NULL, &trainer, &error)) {
        save_again(trainer, txl_saved_note(saved));
        fuzz_require(txl_trainer_epoch_steps(trainer) > 0, "an epoch without steps");
        if (!txl_trainer_step(trainer, 1e-3, &step, &error)) /* else its loss is no number */
            txl_trainer_keep(trainer);
        save_again(trainer, "");
        txl_trainer_free(trainer);
    }
    txl_ids_free(ids);
}

/* Rows are numbers, and come back. */
static void read_rows(const uint8_t *data, size_t size) {
    const char *path = fuzz_write("again.state", NULL, 0);
    txl_rows *rows, *again;
    size_t n, width;
    txl_error error;
    if (txl_rows_open(fuzz_file(data, size), &rows, &error))
        return;
    const float *x = txl_rows_get(rows, &n, &width);
    for (size_t i = 0; i < n * width; i++)
        fuzz_require(isfinite(x[i]), "no number");
    fuzz_require_ok(txl_rows_save(path, txl_rows_note(rows), x, n, width, &error), &error);
    fuzz_require_ok(txl_rows_open(path, &again, &error), &error);
    txl_rows_free(again);
    txl_rows_free(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    txl_saved *saved;
    txl_training how;
    txl_error error;
    read_rows(data, size);
    if (txl_saved_open(fuzz_file(data, size), &saved, &error))
        return 0;
    txl_saved_training(saved, &how);
    if (how.batch <= MAX_BATCH && how.tgt_len <= MAX_LENGTH && how.ext_len <= MAX_LENGTH &&
        how.mem_len <= MAX_LENGTH && txl_trainer_bytes(txl_saved_model(saved), &how) <= MOST_BYTES)
        go_on(saved);
    txl_saved_free(saved);
    return 0;
}

/* ---- The mutator -------------------------------------------------------------------------- */

/* Of the header; see weights-format.md. */
enum { FILE_SIZE = 16, PARTS = 24, N_PART = 6, CHECKSUM = 120 };

static uint64_t get(const uint8_t *at) {
    uint64_t number;
    memcpy(&number, at, sizeof number);
    return number;
}

static void set(uint8_t *at, uint64_t number) {
    memcpy(at, &number, sizeof number);
}

static void repair(uint8_t *data, size_t size) {
    if (size < CHECKSUM + 8)
        return;
    uint64_t at = CHECKSUM + 8;
    set(data + FILE_SIZE, size);
    for (int i = 0; i < N_PART; i++) {
        uint8_t *part = data + PARTS + 16 * i;
        if (i == 0) { /* the facts take what is more or less than before */
            uint64_t others = 0;
            for (int k = 1; k < N_PART; k++)
                others += get(data + PARTS + 16 * k) < size ? get(data + PARTS + 16 * k) : 0;
            if (others <= size - at)
                set(part, size - at - others);
        }
        if (get(part) > size - at)
            break;
        set(part + 8, XXH3_64bits(data + at, get(part)));
        at += get(part);
    }
    set(data + CHECKSUM, XXH3_64bits(data, CHECKSUM));
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 16 != 0)
        repair(data, size);
    return size;
}
