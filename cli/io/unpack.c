/* Expands members of gzip and frames of zstd. */
#include "unpack.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

struct unpacker {
    enum packing packing;
    z_stream gzip;
    ZSTD_DStream *zstd;
    size_t at, n; /* in[at, n) is not yet expanded */
    bool whole;   /* the data so far are whole members or frames */
    bool more;    /* and there are data after the first of them */
    bool ended;
    char in[UNPACK_FIRST];
};

enum packing unpack_packing(const char *first, size_t n) {
    if (n >= 3 && memcmp(first, "\x1f\x8b\x08", 3) == 0)
        return PACKING_GZIP;
    if (n >= 4 && memcmp(first, "\x28\xb5\x2f\xfd", 4) == 0)
        return PACKING_ZSTD;
    /* A skippable frame, with which the files of pzstd begin. */
    if (n >= 4 && ((unsigned char)first[0] & 0xf0) == 0x50 &&
        memcmp(first + 1, "\x2a\x4d\x18", 3) == 0)
        return PACKING_ZSTD;
    return PACKING_NONE;
}

struct unpacker *unpacker_new(enum packing packing, const char *first, size_t n) {
    struct unpacker *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->packing = packing;
    e->n = n;
    if (n > 0)
        memcpy(e->in, first, n);
    bool good = packing == PACKING_GZIP ? inflateInit2(&e->gzip, MAX_WBITS + 16) == Z_OK
                                        : (e->zstd = ZSTD_createDStream()) != NULL;
    if (good)
        return e;
    free(e);
    return NULL;
}

void unpacker_free(struct unpacker *e) {
    if (!e)
        return;
    if (e->packing == PACKING_GZIP)
        inflateEnd(&e->gzip);
    ZSTD_freeDStream(e->zstd);
    free(e);
}

static const char follows[] = "something else follows them";

enum { HEADER = 10 }; /* the least bytes of a member's header */

/* Expands what is there.  Returns the bytes made, or -2. */
static ssize_t inflate_some(struct unpacker *e, char *buffer, size_t size, const char **problem) {
    if (e->whole && e->at < e->n) { /* another member, or zeros that pad the file */
        while (e->at < e->n && e->in[e->at] == 0)
            e->at++;
        if (e->at == e->n)
            return 0;
        inflateReset(&e->gzip);
        e->whole = false;
        e->more = true;
    }
    e->gzip.next_in = (Bytef *)e->in + e->at;
    e->gzip.avail_in = (uInt)(e->n - e->at);
    e->gzip.next_out = (Bytef *)buffer;
    e->gzip.avail_out = (uInt)size;
    int result = inflate(&e->gzip, Z_NO_FLUSH);
    e->at = e->n - e->gzip.avail_in;
    e->whole = result == Z_STREAM_END;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
        bool other = e->more && e->gzip.total_in < HEADER;
        *problem = other ? follows : e->gzip.msg ? e->gzip.msg : zError(result);
        return -2;
    }
    return (ssize_t)(size - e->gzip.avail_out);
}

static ssize_t expand_frames(struct unpacker *e, char *buffer, size_t size, const char **problem) {
    ZSTD_inBuffer in = {e->in, e->n, e->at};
    ZSTD_outBuffer out = {buffer, size, 0};
    size_t left = ZSTD_decompressStream(e->zstd, &out, &in);
    e->at = in.pos;
    if (ZSTD_isError(left)) {
        ZSTD_ErrorCode code = ZSTD_getErrorCode(left);
        *problem = code == ZSTD_error_frameParameter_windowTooLarge
                       ? "that takes more than 128 MiB of memory; zstd -dc --long=31 expands them"
                   : code == ZSTD_error_prefix_unknown ? follows
                                                       : ZSTD_getErrorName(left);
        return -2;
    }
    e->whole = left == 0;
    return (ssize_t)out.pos;
}

ssize_t unpacker_read(struct unpacker *e, unpack_source source, void *context, char *buffer,
                      size_t size, const char **problem) {
    static ssize_t (*const expand[])(struct unpacker *, char *, size_t, const char **) = {
        [PACKING_GZIP] = inflate_some, [PACKING_ZSTD] = expand_frames};
    for (;;) {
        /* What was read may have more in it than fitted into the last buffer. */
        bool starts = e->at == e->n;
        ssize_t made = starts && e->whole ? 0 : expand[e->packing](e, buffer, size, problem);
        if (made != 0)
            return made;
        if (e->at < e->n)
            continue;
        ssize_t n = e->ended ? 0 : source(context, e->in, sizeof e->in);
        if (n < 0)
            return -1;
        e->ended = n == 0;
        e->at = 0;
        e->n = (size_t)n;
        if (n == 0 && e->whole)
            return 0;
        if (n == 0) {
            *problem = "the file ends within them";
            return -2;
        }
    }
}
