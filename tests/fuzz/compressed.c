/* Compressed texts: the input is a byte that chooses the model, then the file.  What is accepted
 * has to come back when it is compressed again, and what is salvaged must be no more than the
 * frames have.  The mutator corrects the model and the checksums of headers and trailers
 * (weights-format.md); otherwise nothing of a changed file would be read. */
#include "fuzz.h"
#include "lib/base/memory.h"
#include "tiny.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* More takes too long. */
enum { MAX_TEXT = 20000 };

struct reading {
    const txl_model *model;
    uint64_t text; /* of the frames */
    struct buffer out;
};

static txl_status add(void *context, const void *bytes, size_t n, txl_error *error) {
    struct reading *reading = context;
    (void)error;
    fuzz_require(buffer_append(&reading->out, bytes, n), "out of memory");
    return TXL_OK;
}

static void see_frame(void *context, const txl_frame *frame) {
    struct reading *reading = context;
    reading->text += frame->text;
}

static txl_status give_model(void *context, uint64_t checksum, const char *name,
                             const txl_model **model, txl_error *error) {
    struct reading *reading = context;
    (void)checksum, (void)error;
    fuzz_require(strlen(name) < 64, "a name is too long");
    *model = reading->model;
    return reading->text <= MAX_TEXT ? TXL_OK : TXL_STOPPED;
}

static txl_status decompress(struct reading *reading, const uint8_t *data, size_t size, size_t step,
                             bool salvage) {
    const txl_decompression how = {.threads = 1,
                                   .memory = 1 << 24,
                                   .salvage = salvage,
                                   .model = give_model,
                                   .write = add,
                                   .frame = see_frame,
                                   .context = reading};
    txl_decompressor *decompressor;
    txl_error error;
    reading->text = 0;
    reading->out.length = 0;
    fuzz_require_ok(txl_decompressor_new(&how, &decompressor, &error), &error);
    txl_status status = TXL_OK;
    for (size_t at = 0; at < size && !status; at += step)
        status = txl_decompressor_feed(decompressor, data + at, size - at < step ? size - at : step,
                                       &error);
    if (!status)
        status = txl_decompressor_finish(decompressor, &error);
    txl_decompressor_free(decompressor);
    return status;
}

static void compress_again(const struct reading *reading) {
    struct reading packed = {.model = reading->model}, back = {.model = reading->model};
    const txl_compression how = {.threads = 1, .memory = 1 << 24, .write = add, .context = &packed};
    txl_compressor *compressor;
    txl_error error;
    if (txl_compressor_new(reading->model, &how, &compressor, &error) == TXL_UNSUPPORTED)
        return;
    txl_status status =
        txl_compressor_feed(compressor, reading->out.data, reading->out.length, &error);
    if (!status)
        status = txl_compressor_finish(compressor, &error);
    txl_compressor_free(compressor);
    if (status != TXL_FORMAT) { /* results that are not finite */
        fuzz_require_ok(status, &error);
        fuzz_require_ok(
            decompress(&back, (uint8_t *)packed.out.data, packed.out.length, 1000, false), &error);
        fuzz_require(back.out.length == reading->out.length &&
                         memcmp(back.out.data, reading->out.data, back.out.length) == 0,
                     "a text did not come back");
    }
    buffer_free(&packed.out);
    buffer_free(&back.out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1)
        return 0;
    struct reading reading = {.model = tiny_model(data[0])};
    txl_status status = decompress(&reading, data + 1, size - 1, size, false);
    if (!status && reading.out.length > 0 && reading.out.length <= 2000)
        compress_again(&reading);
    const size_t length = reading.out.length;
    fuzz_require(decompress(&reading, data + 1, size - 1, 1 + data[0] % 64, false) == status,
                 "another division of the file, another result");
    fuzz_require(status || reading.out.length == length, "another text");
    decompress(&reading, data + 1, size - 1, size, true);
    fuzz_require(reading.out.length <= reading.text && reading.out.length >= (status ? 0 : length),
                 "more is salvaged than was there, or less");
    buffer_free(&reading.out);
    return 0;
}

/* ---- The mutator -------------------------------------------------------------------------- */

/* Of a frame's header; see weights-format.md. */
enum { STREAMS = 6, MODEL = 32, NAME = 40, FORM = 41, FIXED = 44, TRAILER = 48 };

static void set(uint8_t *at, uint64_t number) {
    memcpy(at, &number, sizeof number);
}

static void repair(uint8_t *data, size_t size, uint64_t model) {
    for (size_t at = 0; at + TRAILER <= size; at++) {
        if (memcmp(data + at, "\x93TXE", 4) == 0)
            set(data + at + 40, XXH3_64bits(data + at, 40));
        if (memcmp(data + at, "\x93TXZ", 4) != 0)
            continue;
        const size_t table = data[at + FORM] == TXL_MIXING_LOGISTIC ? 16 : 8 * data[at + STREAMS];
        const size_t end = FIXED + (size_t)data[at + NAME] + table;
        if (end + 8 > size - at)
            continue;
        set(data + at + MODEL, model);
        set(data + at + end, XXH3_64bits(data + at, end));
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 16 != 0 && size > 0)
        repair(data + 1, size - 1, txl_model_checksum(tiny_model(data[0])));
    return size;
}
