/* Compresses a text: cuts it into frames, a frame into streams, and a stream into tokens and
 * literals. */
#include "lib/base/error.h"
#include "lib/base/memory.h"
#include "lib/session/session.h"
#include "lossless.h"
#include "streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum {
    STREAM_TEXT = 8192, /* bytes of text that are worth a stream of their own */
    SAMPLE = 4096,      /* bytes by which a stream's text is judged */
    LEAST_SAMPLE = 1024,
    REPETITIVE = 16 /* literals alone make a text so many times smaller: no model does better */
};

struct txl_compressor {
    txl_compression how;
    struct stream_coder coder;
    struct lossless lossless;
    struct frame frame;
    struct frame_form form; /* of frames for which the model is asked */
    struct trailer done;    /* the text so far */
    XXH3_state_t *sum;
    size_t most;       /* bytes of text in a frame */
    char *text;        /* [most], of which `frame.size` are there */
    int32_t *elements; /* [most] */
    struct stream streams[MAX_STREAMS];
    struct buffer out;
    uint64_t reported, told; /* bytes of text, and bytes stored, that `progress` knows of */
    struct stream *listed[MAX_STREAMS]; /* those that the model is compressing */
    size_t n_listed;
};

/* ---- Opening ------------------------------------------------------------------------------ */

/* The *size bytes of a stream with a code of its own that are stored if it ends now; `bound`: its
 * code in any case, since its tokens are in a cache. */
static const char *stored_bytes(const struct stream *stream, bool bound, size_t *size) {
    const struct buffer *plain = &stream->plain, *code = &stream->code;
    const char *bytes = (const char *)stream->text;
    *size = stream->size;
    if (plain->length > 0 && plain->length < *size) {
        *size = plain->length;
        bytes = plain->data;
    }
    if (!stream->raw && (bound || code->length < *size)) {
        *size = code->length;
        bytes = code->data;
    }
    return bytes;
}

/* Bytes of the frame that is being coded, as far as they are known. */
static uint64_t coded_bytes(const txl_compressor *c) {
    uint64_t bytes = 0;
    if (frame_is_together(&c->frame))
        return c->n_listed > 0 && c->coder.settled ? c->coder.code.length : 0;
    for (size_t i = 0, size; i < c->n_listed; i++) {
        stored_bytes(c->listed[i], false, &size);
        bytes += size;
    }
    return bytes;
}

static bool tell_progress(void *context, size_t bytes) {
    txl_compressor *c = context;
    c->reported += bytes;
    c->told = larger(c->done.stored + coded_bytes(c), c->told); /* streams may be coded again */
    return !c->how.progress || c->how.progress(c->how.context, c->reported, c->told);
}

static txl_status open_parts(txl_compressor *c, const txl_model *model, txl_error *error) {
    const size_t n = c->how.streams > 0 ? (size_t)c->how.streams : MAX_STREAMS;
    txl_settings settings;
    txl_model_defaults(model, &settings);
    settings.threads = c->how.threads;
    stream_set_arithmetic(model, &settings);
    c->frame = (struct frame){.model = model->weights->checksum, .settings = settings};
    const struct model_settings *own = model->settings;
    strcpy(c->frame.name, own->name);
    if (!c->how.no_cache)
        c->form = stream_form(model);
    c->most = n * MAX_STREAM;
    c->text = malloc(c->most);
    c->elements = malloc(c->most * sizeof *c->elements);
    c->sum = XXH3_createState();
    if (!c->text || !c->elements || !c->sum)
        return txl_fail_memory(error, "a frame", c->most * (1 + sizeof *c->elements));
    XXH3_64bits_reset(c->sum);
    txl_status status =
        stream_coder_open(&c->coder, model, &settings, n, &c->form, c->how.memory, error);
    c->coder.progress = tell_progress;
    c->coder.context = c;
    return status ? status
                  : lossless_open(&c->lossless, &model->vocabulary, &c->coder.table, error);
}

txl_status txl_compressor_new(const txl_model *model, const txl_compression *how,
                              txl_compressor **compressor, txl_error *error) {
    txl_status status = CHECK_RESERVED(txl_compression, how, error);
    if (!status && (how->streams < 0 || how->streams > MAX_STREAMS))
        status = txl_fail(error, TXL_ARGUMENT, "streams must be from 1 to %d, not %d", MAX_STREAMS,
                          how->streams);
    if (!status && !how->write)
        status = txl_fail(error, TXL_ARGUMENT, "write is NULL; it receives what is compressed");
    if (!status)
        status = stream_check_model(model, error);
    if (status)
        return status;
    txl_compressor *c = calloc(1, sizeof *c);
    if (!c)
        return txl_fail_memory(error, "a compressor", sizeof *c);
    c->how = *how;
    status = open_parts(c, model, error);
    if (status) {
        txl_compressor_free(c);
        return status;
    }
    *compressor = c;
    return TXL_OK;
}

void txl_compressor_free(txl_compressor *c) {
    if (!c)
        return;
    lossless_close(&c->lossless);
    stream_coder_close(&c->coder);
    for (int i = 0; i < MAX_STREAMS; i++) {
        buffer_free(&c->streams[i].code);
        buffer_free(&c->streams[i].plain);
    }
    buffer_free(&c->out);
    XXH3_freeState(c->sum);
    free(c->text);
    free(c->elements);
    free(c);
}

/* ---- Frames ------------------------------------------------------------------------------- */

/* Whether bytes look random: two of them, drawn at random, are equal hardly more often than of
 * random ones.  In a text of any language and coding it is ten times as often. */
static bool looks_random(const unsigned char *text, size_t size) {
    uint64_t count[256] = {0}, pairs = 0;
    const size_t n = size < SAMPLE ? size : SAMPLE;
    for (size_t i = 0; i < n; i++)
        count[text[i]]++;
    for (int i = 0; i < 256; i++)
        pairs += count[i] * count[i];
    return n >= LEAST_SAMPLE && pairs * 100 < (uint64_t)n * n;
}

/* Cuts a stream from the frame's text.  It is raw if the model need not be asked. */
static txl_status cut_stream(txl_compressor *c, uint32_t i, txl_error *error) {
    struct frame *frame = &c->frame;
    const size_t begin = frame_stream_start(frame, i);
    struct stream *stream = &c->streams[i];
    stream->text = (unsigned char *)c->text + begin;
    stream->size = frame_stream_text(frame, i);
    stream->elements = c->elements + begin;
    stream->code.length = stream->plain.length = 0;
    stream->raw = looks_random(stream->text, stream->size);
    if (stream->raw)
        return TXL_OK;
    txl_status status = lossless_parse(&c->lossless, c->text + begin, stream->size,
                                       c->elements + begin, &stream->n, error);
    if (!status)
        status = stream_compress_plain(&c->coder, stream, error);
    stream->raw = stream->plain.length < stream->size / REPETITIVE;
    return status;
}

/* Cuts the frame's text into streams, and lists those that the model is to compress.  If there are
 * any and they have one code, that is for those too that literals alone make small. */
static txl_status cut_frame(txl_compressor *c, txl_error *error) {
    struct frame *frame = &c->frame;
    bool all_raw = true;
    c->n_listed = 0;
    for (uint32_t i = 0; i < frame->n; i++) {
        txl_status status = cut_stream(c, i, error);
        if (status)
            return status;
        all_raw = all_raw && c->streams[i].raw;
    }
    frame->form = all_raw ? (struct frame_form){.mixing = TXL_MIXING_NONE} : c->form;
    for (uint32_t i = 0; i < frame->n; i++) {
        struct stream *stream = &c->streams[i];
        if (frame_is_together(frame))
            stream->raw = stream->plain.length == 0; /* it looks random */
        if (!stream->raw)
            c->listed[c->n_listed++] = stream;
    }
    return TXL_OK;
}

static txl_status write_out(txl_compressor *c, txl_error *error) {
    txl_before_callback(error);
    txl_status status = c->how.write(c->how.context, c->out.data, c->out.length, error);
    c->out.length = 0;
    return txl_after_callback(error, status, "stopped by the receiver of the compressed text");
}

/* Writes streams that have codes of their own. */
static bool write_streams(txl_compressor *c) {
    struct frame *frame = &c->frame;
    const bool bound = frame->form.mixing == TXL_MIXING_LINEAR;
    size_t size;
    for (uint32_t i = 0; i < frame->n; i++) {
        const struct stream *stream = &c->streams[i];
        stored_bytes(stream, bound, &size);
        frame->stream[i].size = (uint32_t)size;
        frame->stream[i].checksum = (uint32_t)XXH3_64bits(stream->text, stream->size);
    }
    bool good = frame_write(frame, &c->out);
    for (uint32_t i = 0; i < frame->n && good; i++) {
        const char *bytes = stored_bytes(&c->streams[i], bound, &size);
        good = buffer_append(&c->out, bytes, size);
    }
    return good;
}

/* Writes streams that have one code, and those that are no part of it. */
static bool write_together(txl_compressor *c) {
    struct frame *frame = &c->frame;
    const struct buffer *code = &c->coder.code;
    frame->code = (uint32_t)code->length;
    frame->checksum = XXH3_64bits(c->text, frame->size);
    frame->raw = 0;
    for (uint32_t i = 0; i < frame->n; i++)
        frame->raw |= (uint32_t)c->streams[i].raw << i;
    bool good = frame_write(frame, &c->out) && buffer_append(&c->out, code->data, code->length);
    for (uint32_t i = 0; i < frame->n && good; i++)
        if (frame_is_raw(frame, i))
            good = buffer_append(&c->out, c->streams[i].text, c->streams[i].size);
    return good;
}

static txl_status write_frame(txl_compressor *c, txl_error *error) {
    struct frame *frame = &c->frame;
    if (!(frame_is_together(frame) ? write_together(c) : write_streams(c)))
        return txl_fail_memory(error, "a frame", c->out.length + frame->size);
    c->done.size += frame->size;
    c->done.stored += c->out.length;
    c->done.frames++;
    c->told = 0;
    XXH3_64bits_update(c->sum, c->text, frame->size);
    c->reported = c->done.size;
    return write_out(c, error);
}

static txl_status compress_frame(txl_compressor *c, txl_error *error) {
    c->frame.n = (uint32_t)smaller(pieces(c->frame.size, STREAM_TEXT), c->most / MAX_STREAM);
    c->frame.offset = c->done.size;
    txl_status status = cut_frame(c, error);
    if (!status)
        status = streams_code(&c->coder, c->listed, c->n_listed, false, error);
    c->n_listed = 0;
    if (!status)
        status = write_frame(c, error);
    c->frame.size = 0;
    return status                ? status
           : tell_progress(c, 0) ? TXL_OK
                                 : txl_fail(error, TXL_STOPPED, "stopped by the caller");
}

/* ---- The text ----------------------------------------------------------------------------- */

txl_status txl_compressor_feed(txl_compressor *c, const void *text, size_t n, txl_error *error) {
    const char *bytes = text;
    txl_status status = TXL_OK;
    while (n > 0 && !status) {
        const size_t room = c->most - c->frame.size, some = n < room ? n : room;
        memcpy(c->text + c->frame.size, bytes, some);
        c->frame.size += (uint32_t)some;
        bytes += some;
        n -= some;
        if (c->frame.size == c->most)
            status = compress_frame(c, error);
    }
    return status;
}

txl_status txl_compressor_finish(txl_compressor *c, txl_error *error) {
    txl_status status = c->frame.size > 0 ? compress_frame(c, error) : TXL_OK;
    if (status)
        return status;
    c->done.checksum = XXH3_64bits_digest(c->sum);
    if (!trailer_write(&c->done, &c->out))
        return txl_fail_memory(error, "a trailer", TRAILER_SIZE);
    c->done.stored += TRAILER_SIZE;
    bool continues = tell_progress(c, 0);
    c->done = (struct trailer){0};
    c->reported = 0;
    XXH3_64bits_reset(c->sum);
    return continues ? write_out(c, error) : txl_fail(error, TXL_STOPPED, "stopped by the caller");
}
