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
    MAGIC_SIZE = 4,
    MAX_STREAMS = TXL_MAX_STREAMS,
    MAX_STREAM = TXL_STREAM_BYTES,        /* of text */
    MAX_FRAME = MAX_STREAMS * MAX_STREAM, /* likewise */
    MAX_TIMES_OWN = 4, /* tgt_len and mem_len, of the model's own: sessions take memory by them */
    /* Bytes of a header before the model's name, of a stream in its table, of the whole. */
    HEADER_FIXED = 44,
    HEADER_STREAM = 8,
    HEADER_TOGETHER = 16, /* in the place of the table, of streams that have one code */
    MAX_HEADER = HEADER_FIXED + MAX_MODEL_NAME + MAX_STREAMS * HEADER_STREAM + 8,
    TRAILER_SIZE = 48
};

/* How a frame's streams are coded. */
struct frame_form {
    txl_mixing mixing;
    int orders;      /* TXL_MIXING_LINEAR: of the cache (cache.h); else 0 */
    int cache_pairs; /* likewise: log2 of the pairs that an order keeps */
};

/* A stream with a code of its own is compressed unless it has as many bytes as its text, which are
 * then the text. */
struct frame_stream {
    uint32_t size;     /* bytes in the file */
    uint32_t checksum; /* of the text: the low half of its XXH3 */
};

struct frame {
    uint32_t size;   /* bytes of text */
    uint64_t offset; /* of the text, from the beginning of the first frame's */
    uint64_t model;  /* checksum */
    char name[MAX_MODEL_NAME + 1];
    txl_settings settings;
    struct frame_form form;
    uint32_t n;
    struct frame_stream stream[MAX_STREAMS]; /* unless they have one code, TXL_MIXING_LOGISTIC: */
    uint32_t raw;                            /* bit i: stream i is its text, and not in the code */
    uint32_t code;                           /* bytes of the code; 0: all are raw */
    uint64_t checksum;                       /* XXH3 of the text */
};

static inline bool frame_is_together(const struct frame *frame) {
    return frame->form.mixing == TXL_MIXING_LOGISTIC;
}

static inline bool frame_is_raw(const struct frame *frame, uint32_t i) {
    return frame->raw >> i & 1;
}

/* Where stream i begins in the frame's text; that of stream n is its end. */
size_t frame_stream_start(const struct frame *frame, uint32_t i);

static inline size_t frame_stream_text(const struct frame *frame, uint32_t i) {
    return frame_stream_start(frame, i + 1) - frame_stream_start(frame, i);
}

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
