/* Shared by the fuzz harnesses.  Each harness is a file NAME.c with the functions that libFuzzer
 * calls; tests/fuzz/run says how they are built and run, and replay.c runs them without libFuzzer.
 * A harness may do anything with an input, but must leave nothing behind. */
#ifndef FUZZ_H
#define FUZZ_H

#include "txl.h"

#include <stdio.h>

/* ---- What libFuzzer calls, and gives ------------------------------------------------------ */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Changes data[size] in place to at most `max_size` bytes, and returns how many; optional. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

/* libFuzzer's own way to do that. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* ---- Files -------------------------------------------------------------------------------- */

/* The path of a file in memory that holds these bytes; valid until the next call. */
const char *fuzz_file(const void *data, size_t size);

/* Writes a file into a folder in memory, which is removed at exit; returns its path, valid until
 * the next call but three.  With data NULL nothing is written. */
const char *fuzz_write(const char *name, const void *data, size_t size);

/* Reads a whole file into memory that the caller frees; aborts if it cannot. */
uint8_t *fuzz_read(const char *path, size_t *size);

/* ---- What has to hold --------------------------------------------------------------------- */

/* Ends the process with the sentence unless the condition holds. */
void fuzz_require(bool holds, const char *sentence);

/* The same for a call that has to succeed: shows its message. */
void fuzz_require_ok(txl_status status, const txl_error *error);

/* Discards what the program prints from now on; libFuzzer has its own stream. */
void fuzz_silence(void);

/* ---- Reading ------------------------------------------------------------------------------ */

/* Does everything with the file that txl does with a checkpoint before it writes anything. */
void fuzz_checkpoint(const char *path);

/* Converts the checkpoint if it holds a small Transformer-XL, opens what came out and scores it;
 * the bits choose settings and types. */
void fuzz_convert(const char *path, unsigned bits);

/* A model's results for some ids; all zero if it has none. */
enum { FUZZ_TOKENS = 7, FUZZ_SEGMENT = 3 };
struct fuzz_scores {
    float nats[FUZZ_TOKENS];
    int32_t best; /* likeliest token after them */
    /* Of a model that sees both sides: of tokens behind a block, and of gaps. */
    float after[FUZZ_SEGMENT], filled[FUZZ_SEGMENT];
};

/* Calls every query on a model, and scores some ids with short segments. */
struct fuzz_scores fuzz_model(const txl_model *model);

/* A safetensors file of that header with `data_size` zeros for elements; the caller frees it. */
uint8_t *fuzz_safetensors(const void *header, size_t length, size_t data_size, size_t *size);

/* Sets the checksums in a zip archive's directory to those of the entries. */
void fuzz_repair_zip(uint8_t *data, size_t size);

#endif
