/* The parts of a compressed file as bytes (weights-format.md): the header of a frame, and the
 * trailer.  Files may come from anybody: what is read is checked before it is used. */
#ifndef TXL_COMPRESS_FRAMES_H
#define TXL_COMPRESS_FRAMES_H

#include "lib/base/limits.h"
#include "lib/base/memory.h"
#include "txl.h"

/* Like the weights file's, except for one letter. */
#define FRAME_MAGIC "\x93TXZ"
#define TRAILER_MAGIC "\x93TXE"

enum {
    COMPRESSED_VERSION = 1,
    ARITHMETIC_NUMBER = 1,
    MAGIC_SIZE = 4,
    MAX_STREAMS = 32,
    MAX_STREAM = 1 << 16,                 /* bytes of text */
    MAX_FRAME = MAX_STREAMS * MAX_STREAM, /* likewise */
    MAX_TIMES_OWN = 4, /* tgt_len and mem_len, of the model's own: sessions take memory by them */
    /* Bytes of a header before the model's name, of a stream in its table, of the whole. */
    HEADER_FIXED = 44,
    HEADER_STREAM = 6,
    MAX_HEADER = HEADER_FIXED + MAX_MODEL_NAME + MAX_STREAMS * HEADER_STREAM + 8,
    TRAILER_SIZE = 48
};

/* A stream is compressed unless it has as many bytes as its text, which are then the text. */
struct frame_stream {
    uint32_t size;     /* bytes in the file */
    uint32_t checksum; /* of the text: the low half of its XXH3 */
};

struct frame {
    unsigned arithmetic;
    uint32_t size;   /* bytes of text */
    uint64_t offset; /* of the text, from the beginning of the first frame's */
    uint64_t model;  /* checksum */
    char name[MAX_MODEL_NAME + 1];
    txl_settings settings;
    int orders;      /* of the cache (cache.h); 0: there is none */
    int cache_pairs; /* log2 of the pairs that an order keeps */
    uint32_t n;
    struct frame_stream stream[MAX_STREAMS];
};

/* Where stream i begins in the frame's text; that of stream n is its end. */
size_t frame_stream_start(const struct frame *frame, uint32_t i);

/* Bytes of the streams in the file. */
size_t frame_streams_size(const struct frame *frame);

/* False: no memory. */
bool frame_write(const struct frame *frame, struct buffer *out);

/* Reads a header that begins with FRAME_MAGIC.  *used is its size; 0: more than the `size` bytes
 * are needed. */
txl_status frame_read(const unsigned char *bytes, size_t size, struct frame *frame, size_t *used,
                      txl_error *error);

struct trailer {
    uint64_t size;     /* bytes of text in all frames */
    uint64_t stored;   /* bytes of all frames in the file */
    uint64_t frames;   /* how many there are */
    uint64_t checksum; /* XXH3 of the whole text */
};

bool trailer_write(const struct trailer *trailer, struct buffer *out);

/* Reads TRAILER_SIZE bytes that begin with TRAILER_MAGIC. */
txl_status trailer_read(const unsigned char *bytes, struct trailer *trailer, txl_error *error);

#endif
