/* Saved memory: the input is a byte that chooses the model, then the file.  A session must be able
 * to continue from an accepted file, and be saved again.  The mutator corrects the sizes and
 * checksums of weights-format.md; otherwise nothing of a changed file would be read. */
#include "fuzz.h"
#include "tiny.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { MAX_LENGTH = 1000 };

/* ---- Reading ------------------------------------------------------------------------------ */

/* A saved memory can be read again.  Saving fails if numbers are not finite, unless all came from a
 * file. */
static void save_again(const txl_session *session, const txl_model *model, const txl_resume *resume,
                       bool all_read) {
    txl_memory *memory, *again;
    txl_error error;
    const char *path = fuzz_write("again.txm", NULL, 0);
    txl_status status = txl_session_save(session, resume, &memory, &error);
    if (all_read || status != TXL_FORMAT)
        fuzz_require_ok(status, &error);
    if (status)
        return;
    fuzz_require_ok(txl_memory_write(memory, path, &error), &error);
    fuzz_require_ok(txl_memory_read(path, model, &again, &error), &error);
    txl_memory_free(memory);
    txl_memory_free(again);
}

static void go_on(const txl_model *model, const txl_memory *memory, const txl_settings *settings) {
    const int32_t ids[] = {1, 2, 3, 4, 5};
    txl_session *session;
    txl_resume resume;
    txl_error error;
    if (txl_session_new(model, settings, &session, &error))
        return;
    fuzz_require_ok(txl_session_load(session, memory, &error), &error);
    txl_memory_resume(memory, &resume);
    save_again(session, model, &resume, true);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        float logprob;
        int32_t best;
        if (txl_session_feed(session, ids + i, 1, &error) ||
            txl_session_top(session, 1, &best, &logprob, &error))
            break; /* numbers so large that the results are not finite */
    }
    if (txl_model_family(model) == TXL_FAMILY_XLNET &&
        !txl_session_feed_block(session, ids, sizeof ids / sizeof *ids, &error))
        save_again(session, model, &resume, false);
    txl_session_free(session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    txl_memory *memory;
    txl_settings settings;
    txl_error error;
    if (size < 1)
        return 0;
    const txl_model *model = tiny_model(data[0]);
    if (txl_memory_read(fuzz_file(data + 1, size - 1), model, &memory, &error))
        return 0;
    txl_memory_settings(memory, &settings);
    settings.threads = 1;
    if (settings.tgt_len <= MAX_LENGTH && settings.mem_len <= MAX_LENGTH)
        go_on(model, memory, &settings);
    txl_memory_free(memory);
    return 0;
}

/* ---- The mutator -------------------------------------------------------------------------- */

/* Of the header; see weights-format.md. */
enum { HEADER_SIZE = 12, FILE_SIZE = 16, MODEL = 24, PARTS = 112, N_PART = 5, CHECKSUM = 192 };

static uint64_t get(const uint8_t *at) {
    uint64_t number;
    memcpy(&number, at, sizeof number);
    return number;
}

static void set(uint8_t *at, uint64_t number) {
    memcpy(at, &number, sizeof number);
}

static void repair(uint8_t *data, size_t size, uint64_t model) {
    uint32_t header_size;
    if (size < CHECKSUM + 8)
        return;
    memcpy(&header_size, data + HEADER_SIZE, sizeof header_size);
    uint64_t at = header_size;
    set(data + FILE_SIZE, size);
    set(data + MODEL, model);
    for (int i = 0; i < N_PART && at <= size; i++) {
        uint8_t *part = data + PARTS + 16 * i;
        if (i == N_PART - 1) /* the name takes what is left */
            set(part, size - at);
        if (get(part) > size - at)
            break;
        set(part + 8, XXH3_64bits(data + at, get(part)));
        at += get(part);
    }
    set(data + CHECKSUM, XXH3_64bits(data, CHECKSUM));
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 16 != 0 && size > 0)
        repair(data + 1, size - 1, txl_model_checksum(tiny_model(data[0])));
    return size;
}
