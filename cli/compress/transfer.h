/* One file on its way: from an input through a compressor or decompressor to an output. */
#ifndef CLI_TRANSFER_H
#define CLI_TRANSFER_H

#include "cli/io/input.h"
#include "cli/io/output.h"
#include "cli/io/terminal.h"
#include "txl.h"

struct known_models;

/* Bytes with commas between thousands. */
struct grouped {
    char text[28];
};
struct grouped grouped(uint64_t number);

/* The share as a percentage, of 0 bytes 0. */
double percentage(uint64_t stored, uint64_t text);

struct transfer {
    txl_compressor *compressor; /* either of the two, which transfer_run feeds */
    txl_decompressor *decompressor;
    struct known_models *known; /* that it decompresses with */
    struct input input;
    const char *output; /* NULL: none, only checks; "-": standard output */
    struct outfile file;
    uint64_t text, stored; /* bytes so far; of the text also those that are lost, at the end */
    uint64_t written;      /* of the text that is decompressed */
    struct progress progress;
    char unit[40];
    /* Of the frames: */
    uint64_t frames, streams;
    txl_frame last;
    char name[64]; /* of its model */
    bool salvage;
    bool damaged;   /* --salvage has left something out: */
    uint64_t lost;  /* so many bytes of the text, */
    bool lost_more; /* and an unknown number */
};

/* Opens both ends; the output replaces a file only if it `replaces`.  False with the error printed.
 */
bool transfer_open(struct transfer *transfer, const char *input, const char *output, bool replaces);

/* Compresses or decompresses all of the input.  False with the error printed, or when a signal
 * asked to stop. */
bool transfer_run(struct transfer *transfer);

/* Closes both ends; the output stays only if `good`, with the input's owner, group, mode and times.
 * False with the error printed. */
bool transfer_close(struct transfer *transfer, bool good);

/* Callbacks of txl_compression and txl_decompression, whose context is the struct transfer. */
txl_status transfer_write(void *context, const void *bytes, size_t n, txl_error *error);
bool transfer_progress(void *context, uint64_t text, uint64_t stored);
txl_status transfer_model(void *context, uint64_t checksum, const char *name,
                          const txl_model **model, txl_error *error);
void transfer_frame(void *context, const txl_frame *frame);
void transfer_lost(void *context, uint64_t begin, uint64_t end, const char *why);

#endif
