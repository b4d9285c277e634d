/* Writes and checks the headers of frames, and trailers. */
#include "frames.h"
#include "cache.h"
#include "lib/base/error.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

/* Bits of the header's byte of flags; the others are 0. */
enum { SAME_LENGTH = 1, MEMORY_F16 = 2, KNOWN_FLAGS = 3 };

size_t frame_stream_start(const struct frame *frame, uint32_t i) {
    return (size_t)((uint64_t)frame->size * i / frame->n);
}

size_t frame_streams_size(const struct frame *frame) {
    const bool together = frame_is_together(frame);
    size_t size = together ? frame->code : 0;
    for (uint32_t i = 0; i < frame->n; i++)
        size += !together                ? frame->stream[i].size
                : frame_is_raw(frame, i) ? frame_stream_text(frame, i)
                                         : 0;
    return size;
}

/* Bytes of what describes the streams in the header. */
static size_t table_size(const struct frame *frame) {
    return frame_is_together(frame) ? HEADER_TOGETHER : frame->n * HEADER_STREAM;
}

/* ---- Numbers, little-endian ---------------------------------------------------------------- */

static void put_number(unsigned char **to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        *(*to)++ = (unsigned char)(value >> 8 * i);
}

static uint64_t get_number(const unsigned char **from, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t) * (*from)++ << 8 * i;
    return value;
}

/* ---- Headers ------------------------------------------------------------------------------ */

static void put_table(unsigned char **to, const struct frame *frame) {
    if (frame_is_together(frame)) {
        put_number(to, frame->raw, 4);
        put_number(to, frame->code, 4);
        put_number(to, frame->checksum, 8);
        return;
    }
    for (uint32_t i = 0; i < frame->n; i++) {
        put_number(to, frame->stream[i].size, 4);
        put_number(to, frame->stream[i].checksum, 4);
    }
}

static void get_table(const unsigned char **from, struct frame *frame) {
    if (frame_is_together(frame)) {
        frame->raw = (uint32_t)get_number(from, 4);
        frame->code = (uint32_t)get_number(from, 4);
        frame->checksum = get_number(from, 8);
        return;
    }
    for (uint32_t i = 0; i < frame->n; i++) {
        frame->stream[i].size = (uint32_t)get_number(from, 4);
        frame->stream[i].checksum = (uint32_t)get_number(from, 4);
    }
}

bool frame_write(const struct frame *frame, struct buffer *out) {
    unsigned char header[MAX_HEADER], *at = header;
    const txl_settings *s = &frame->settings;
    const size_t n_name = strlen(frame->name);
    memcpy(at, FRAME_MAGIC, MAGIC_SIZE);
    at += MAGIC_SIZE;
    put_number(&at, COMPRESSED_VERSION, 1);
    put_number(&at, s->arithmetic, 1);
    put_number(&at, frame->n, 1);
    put_number(&at,
               (s->same_length ? SAME_LENGTH : 0) |
                   (s->memory_type == TXL_MEMORY_F16 ? MEMORY_F16 : 0),
               1);
    put_number(&at, frame->size, 4);
    put_number(&at, (uint32_t)s->tgt_len, 4);
    put_number(&at, (uint32_t)s->mem_len, 4);
    put_number(&at, (uint32_t)s->clamp_len, 4);
    put_number(&at, frame->offset, 8);
    put_number(&at, frame->model, 8);
    put_number(&at, n_name, 1);
    put_number(&at, (uint64_t)frame->form.mixing, 1);
    put_number(&at, (uint64_t)frame->form.orders, 1);
    put_number(&at, (uint64_t)frame->form.cache_pairs, 1);
    memcpy(at, frame->name, n_name);
    at += n_name;
    put_table(&at, frame);
    put_number(&at, XXH3_64bits(header, (size_t)(at - header)), 8);
    return buffer_append(out, header, (size_t)(at - header));
}

static txl_status bad_header(const char *what, txl_error *error) {
    return txl_fail(error, TXL_FORMAT, "damaged: %s", what);
}

/* The code is of the streams that are not raw, and no longer than they are. */
static txl_status check_together(const struct frame *frame, txl_error *error) {
    size_t coded = 0;
    for (uint32_t i = 0; i < frame->n; i++)
        coded += frame_is_raw(frame, i) ? 0 : frame_stream_text(frame, i);
    if ((uint64_t)frame->raw >> frame->n != 0)
        return bad_header("a frame's raw streams are out of range", error);
    if (frame->code > coded || (frame->code > 0) != (coded > 0))
        return bad_header("the size of a frame's code is out of range", error);
    return TXL_OK;
}

static bool form_is_known(const struct frame_form *form) {
    const bool linear = form->mixing == TXL_MIXING_LINEAR;
    return form->mixing <= TXL_MIXING_LOGISTIC && form->orders <= CACHE_MOST_ORDERS &&
           form->cache_pairs <= CACHE_PAIRS && (form->orders > 0) == linear &&
           (form->cache_pairs > 0) == linear;
}

/* A header without its checksum. */
static txl_status check_frame(const struct frame *frame, txl_error *error) {
    const txl_settings *s = &frame->settings;
    if (frame->size < frame->n || frame->size > MAX_FRAME ||
        frame->size > (uint64_t)frame->n * MAX_STREAM)
        return bad_header("a frame's size is out of range", error);
    if (frame->offset > UINT64_MAX - MAX_FRAME)
        return bad_header("a frame's offset is out of range", error);
    if (s->tgt_len < 1 || s->tgt_len > TXL_MAX_TGT_LEN || s->mem_len < 0 ||
        s->mem_len > TXL_MAX_MEM_LEN)
        return bad_header("a frame's lengths of segment and memory are out of range", error);
    if (frame_is_together(frame))
        return check_together(frame, error);
    for (uint32_t i = 0; i < frame->n; i++)
        if (frame->stream[i].size < 1 || frame->stream[i].size > frame_stream_text(frame, i))
            return bad_header("a stream is empty or longer than its text", error);
    return TXL_OK;
}

txl_status frame_read(const unsigned char *bytes, size_t size, struct frame *frame, size_t *used,
                      txl_error *error) {
    const unsigned char *at = bytes + MAGIC_SIZE;
    *used = 0;
    if (size < HEADER_FIXED)
        return TXL_OK;
    const unsigned version = (unsigned)get_number(&at, 1);
    if (version != COMPRESSED_VERSION)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "version %u of the compressed format; this txl reads version %d", version,
                        COMPRESSED_VERSION);
    *frame = (struct frame){.settings.arithmetic = (txl_arithmetic)get_number(&at, 1),
                            .n = (uint32_t)get_number(&at, 1)};
    const bool integers = frame->settings.arithmetic == TXL_ARITHMETIC_INTEGERS;
    const unsigned flags = (unsigned)get_number(&at, 1);
    frame->size = (uint32_t)get_number(&at, 4);
    frame->settings.tgt_len = (int32_t)(uint32_t)get_number(&at, 4);
    frame->settings.mem_len = (int32_t)(uint32_t)get_number(&at, 4);
    frame->settings.clamp_len = (int32_t)(uint32_t)get_number(&at, 4);
    frame->settings.same_length = flags & SAME_LENGTH;
    frame->settings.memory_type = integers             ? TXL_MEMORY_Q8
                                  : flags & MEMORY_F16 ? TXL_MEMORY_F16
                                                       : TXL_MEMORY_F32;
    frame->offset = get_number(&at, 8);
    frame->model = get_number(&at, 8);
    const size_t n_name = (size_t)get_number(&at, 1);
    frame->form.mixing = (txl_mixing)get_number(&at, 1);
    frame->form.orders = (int)get_number(&at, 1);
    frame->form.cache_pairs = (int)get_number(&at, 1);
    if (frame->n < 1 || frame->n > MAX_STREAMS || n_name > MAX_MODEL_NAME || flags > KNOWN_FLAGS ||
        (integers && flags & MEMORY_F16) || !form_is_known(&frame->form))
        return bad_header("the header of a frame is out of range", error);
    const size_t whole = HEADER_FIXED + n_name + table_size(frame) + 8;
    if (size < whole)
        return TXL_OK;
    memcpy(frame->name, at, n_name);
    at += n_name;
    get_table(&at, frame);
    if (get_number(&at, 8) != XXH3_64bits(bytes, whole - 8))
        return bad_header("the checksum of a frame's header differs", error);
    *used = whole;
    return check_frame(frame, error);
}

/* ---- Trailers ----------------------------------------------------------------------------- */

bool trailer_write(const struct trailer *trailer, struct buffer *out) {
    unsigned char bytes[TRAILER_SIZE], *at = bytes;
    memcpy(at, TRAILER_MAGIC, MAGIC_SIZE);
    at += MAGIC_SIZE;
    put_number(&at, COMPRESSED_VERSION, 4);
    put_number(&at, trailer->size, 8);
    put_number(&at, trailer->stored, 8);
    put_number(&at, trailer->frames, 8);
    put_number(&at, trailer->checksum, 8);
    put_number(&at, XXH3_64bits(bytes, TRAILER_SIZE - 8), 8);
    return buffer_append(out, bytes, sizeof bytes);
}

txl_status trailer_read(const unsigned char *bytes, struct trailer *trailer, txl_error *error) {
    const unsigned char *at = bytes + MAGIC_SIZE;
    const uint32_t version = (uint32_t)get_number(&at, 4);
    trailer->size = get_number(&at, 8);
    trailer->stored = get_number(&at, 8);
    trailer->frames = get_number(&at, 8);
    trailer->checksum = get_number(&at, 8);
    if (get_number(&at, 8) != XXH3_64bits(bytes, TRAILER_SIZE - 8) || version != COMPRESSED_VERSION)
        return bad_header("the checksum of the trailer differs", error);
    return TXL_OK;
}
