/* Decompressing.  The file may come from anybody: a frame is read once all of it is there and its
 * sizes are known to be small, and its text is written only if its checksums are right. */
#include "lib/base/error.h"
#include "streams.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct txl_decompressor {
    txl_decompression how;
    struct buffer in;
    struct stream_coder coder; /* of the frames so far, if there was one to decompress */
    uint32_t most;             /* streams that it was opened for */
    struct trailer done;       /* what the frames of this text add up to */
    XXH3_state_t *sum;
    bool searches;         /* after damage, for the next frame */
    bool holes;            /* text is missing, so that the totals will not fit */
    bool inside;           /* frames have come, and their trailer has not */
    uint64_t passed;       /* bytes since the last part that belong to none */
    uint64_t parts;        /* whose headers, or trailers, were intact */
    txl_error first;       /* what the file has in the place of its first part */
    uint64_t text, stored; /* of everything so far, for `progress` */
    uint64_t reported;     /* bytes of the frame's text that `progress` knows of */
    const struct frame *frame;
    struct stream streams[MAX_STREAMS];
    unsigned char *out; /* [MAX_FRAME] the text of a frame */
};

txl_status txl_decompressor_new(const txl_decompression *how, txl_decompressor **decompressor,
                                txl_error *error) {
    txl_status status = CHECK_RESERVED(txl_decompression, how, error);
    if (!status && !how->model && !how->list)
        status = txl_fail(error, TXL_ARGUMENT, "model is NULL; it finds the model of a text");
    if (status)
        return status;
    txl_decompressor *d = calloc(1, sizeof *d);
    if (!d)
        return txl_fail_memory(error, "a decompressor", sizeof *d);
    d->how = *how;
    d->out = malloc(MAX_FRAME);
    d->sum = XXH3_createState();
    if (!d->out || !d->sum) {
        txl_decompressor_free(d);
        return txl_fail_memory(error, "a frame", MAX_FRAME);
    }
    XXH3_64bits_reset(d->sum);
    *decompressor = d;
    return TXL_OK;
}

void txl_decompressor_free(txl_decompressor *d) {
    if (!d)
        return;
    stream_coder_close(&d->coder);
    buffer_free(&d->in);
    XXH3_freeState(d->sum);
    free(d->out);
    free(d);
}

/* ---- Damage ------------------------------------------------------------------------------- */

static void report_loss(txl_decompressor *d, uint64_t begin, uint64_t end, const char *why) {
    d->holes = true;
    if (d->how.lost)
        d->how.lost(d->how.context, begin, end, why);
}

/* Tells of bytes that belong to no part.  No text is known to be lost with them. */
static void report_passed(txl_decompressor *d, uint64_t n, const char *stand, const char *where) {
    char why[80];
    snprintf(why, sizeof why, "%" PRIu64 " byte%s %s%s %s", n, n == 1 ? "" : "s", stand,
             n == 1 ? "s" : "", where);
    if (n > 0)
        report_loss(d, d->done.size, d->done.size, why);
    d->passed = 0;
}

/* With salvage, goes on at the next frame. */
static txl_status report_damage(txl_decompressor *d, const txl_error *why, txl_error *error) {
    if (!d->how.salvage)
        return txl_fail(error, why->status, "%s", why->message);
    if (d->parts == 0 && !d->first.status)
        d->first = *why;
    d->searches = d->holes = true;
    buffer_drop(&d->in, 1); /* so that the same is not found again */
    d->stored++;
    d->passed++;
    return TXL_OK;
}

/* ---- Frames ------------------------------------------------------------------------------- */

static bool same_settings(const txl_settings *a, const txl_settings *b) {
    return a->tgt_len == b->tgt_len && a->mem_len == b->mem_len && a->clamp_len == b->clamp_len &&
           a->same_length == b->same_length && a->memory_type == b->memory_type;
}

static bool tell_progress(void *context, size_t bytes) {
    txl_decompressor *d = context;
    d->reported += bytes;
    const uint64_t stored =
        d->reported > 0 ? frame_streams_size(d->frame) * d->reported / d->frame->size : 0;
    return !d->how.progress ||
           d->how.progress(d->how.context, d->text + d->reported, d->stored + stored);
}

static txl_status find_model(txl_decompressor *d, const struct frame *frame,
                             const txl_model **model, txl_error *error) {
    *model = NULL;
    txl_before_callback(error);
    txl_status status = d->how.model(d->how.context, frame->model, frame->name, model, error);
    status = txl_after_callback(error, status, "no model was given");
    if (!status && txl_model_checksum(*model) != frame->model)
        return txl_fail(error, TXL_ARGUMENT,
                        "%s: has the checksum %016" PRIx64 ", and the text was compressed with the "
                        "model of %016" PRIx64,
                        (*model)->weights->name, txl_model_checksum(*model), frame->model);
    return status ? status : stream_check_model(*model, error);
}

/* A few bytes ask for lengths, and the sessions' memory and work grow with them. */
static txl_status check_lengths(const struct frame *frame, const txl_model *model,
                                txl_error *error) {
    txl_settings own;
    txl_model_defaults(model, &own);
    const struct {
        const char *name;
        int asked, own;
    } lengths[] = {{"tgt_len", frame->settings.tgt_len, own.tgt_len},
                   {"mem_len", frame->settings.mem_len, own.mem_len}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        if (lengths[i].asked > MAX_TIMES_OWN * lengths[i].own)
            return txl_fail(
                error, TXL_UNSUPPORTED,
                "compressed with %s %d, and a text is read with at most %d, %d times the "
                "model's own; compress it again with at most that",
                lengths[i].name, lengths[i].asked, MAX_TIMES_OWN * lengths[i].own, MAX_TIMES_OWN);
    return TXL_OK;
}

static bool same_form(const struct frame_form *a, const struct frame_form *b) {
    return a->mixing == b->mixing && a->orders == b->orders && a->cache_pairs == b->cache_pairs;
}

/* The mixing must be the model's own, or none. */
static txl_status check_form(const struct frame *frame, const txl_model *model, txl_error *error) {
    return frame->form.mixing == TXL_MIXING_NONE || frame->form.mixing == stream_form(model).mixing
               ? TXL_OK
               : txl_fail(error, TXL_FORMAT, "damaged: a frame's form is none of its model's");
}

/* Opens sessions for the frame, unless those of the last one will do. */
static txl_status open_coder(txl_decompressor *d, const struct frame *frame, txl_error *error) {
    struct stream_coder *coder = &d->coder;
    if (frame->settings.arithmetic < TXL_ARITHMETIC_EXACT ||
        frame->settings.arithmetic > TXL_ARITHMETIC_INTEGERS)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "compressed with the arithmetic number %d; this txl has numbers %d and %d",
                        (int)frame->settings.arithmetic, TXL_ARITHMETIC_EXACT,
                        TXL_ARITHMETIC_INTEGERS);
    if (coder->model && txl_model_checksum(coder->model) == frame->model &&
        same_settings(&coder->settings, &frame->settings) && frame->n <= d->most &&
        same_form(&coder->form, &frame->form))
        return TXL_OK;
    const txl_model *model;
    txl_settings settings = frame->settings;
    settings.threads = d->how.threads;
    stream_coder_close(coder);
    txl_status status = find_model(d, frame, &model, error);
    if (!status)
        status = check_form(frame, model, error);
    if (!status)
        status = check_lengths(frame, model, error);
    if (!status)
        status = stream_coder_open(coder, model, &settings, frame->n, &frame->form, d->how.memory,
                                   error);
    d->most = frame->n;
    coder->progress = tell_progress;
    coder->context = d;
    if (status)
        stream_coder_close(coder);
    return status;
}

static txl_status decode_streams(txl_decompressor *d, const struct frame *frame,
                                 const unsigned char *in, txl_error *error) {
    const bool together = frame_is_together(frame);
    const unsigned char *code = in;
    struct stream *listed[MAX_STREAMS];
    size_t n = 0;
    in += together ? frame->code : 0;
    for (uint32_t i = 0; i < frame->n; i++) {
        struct stream *stream = &d->streams[i];
        *stream = (struct stream){.text = d->out + frame_stream_start(frame, i),
                                  .size = frame_stream_text(frame, i),
                                  .in = in,
                                  .n_in = together ? 0 : frame->stream[i].size};
        if (together ? frame_is_raw(frame, i) : stream->n_in == stream->size) {
            memcpy(stream->text, in, stream->size);
            in += stream->size;
        } else {
            listed[n++] = stream;
            in += stream->n_in;
        }
    }
    if (n == 0)
        return TXL_OK;
    txl_status status = open_coder(d, frame, error);
    d->coder.in = code;
    d->coder.n_in = frame->code;
    return status ? status : streams_code(&d->coder, listed, n, true, error);
}

static txl_status write_text(txl_decompressor *d, const unsigned char *text, size_t n,
                             txl_error *error) {
    if (!d->how.write || n == 0)
        return TXL_OK;
    txl_before_callback(error);
    txl_status status = d->how.write(d->how.context, text, n, error);
    return txl_after_callback(error, status, "stopped by the receiver of the text");
}

/* Writes a frame of one code if it is whole; *intact is how many of its bytes in the file are. */
static txl_status write_together(txl_decompressor *d, const struct frame *frame, size_t *intact,
                                 txl_error *error) {
    bool good = XXH3_64bits(d->out, frame->size) == frame->checksum;
    for (uint32_t i = 0; i < frame->n; i++)
        good = good && !d->streams[i].damaged;
    *intact = good ? frame_streams_size(frame) : 0;
    if (good)
        return write_text(d, d->out, frame->size, error);
    if (!d->how.salvage)
        return txl_fail(error, TXL_FORMAT,
                        "damaged: the frame of the text's bytes %" PRIu64 " to %" PRIu64,
                        frame->offset, frame->offset + frame->size - 1);
    report_loss(d, frame->offset, frame->offset + frame->size, "its frame is damaged");
    return TXL_OK;
}

/* Writes the streams that are whole, and tells which are not; *intact is how many of the bytes in
 * the file come before the first that is not. */
static txl_status write_streams(txl_decompressor *d, const struct frame *frame, size_t *intact,
                                txl_error *error) {
    txl_status status = TXL_OK;
    bool all = true;
    *intact = 0;
    for (uint32_t i = 0; i < frame->n && !status; i++) {
        const struct stream *stream = &d->streams[i];
        const uint64_t begin = frame->offset + frame_stream_start(frame, i);
        bool good = !stream->damaged &&
                    (uint32_t)XXH3_64bits(stream->text, stream->size) == frame->stream[i].checksum;
        all = all && good;
        *intact += all ? frame->stream[i].size : 0;
        if (good) {
            status = write_text(d, stream->text, stream->size, error);
        } else {
            char why[80];
            snprintf(why, sizeof why, "stream %u of the frame is damaged", (unsigned)i + 1);
            if (!d->how.salvage)
                return txl_fail(error, TXL_FORMAT,
                                "damaged: stream %u of the frame at byte %" PRIu64
                                " of the text, bytes %" PRIu64 " to %" PRIu64,
                                (unsigned)i + 1, frame->offset, begin, begin + stream->size - 1);
            report_loss(d, begin, begin + stream->size, why);
        }
    }
    return status;
}

static void tell_frame(const txl_decompressor *d, const struct frame *frame, size_t header) {
    const txl_frame about = {.offset = frame->offset,
                             .text = frame->size,
                             .stored = header + frame_streams_size(frame),
                             .streams = (int)frame->n,
                             .arithmetic = (int)frame->settings.arithmetic,
                             .checksum = frame->model,
                             .name = frame->name,
                             .settings = frame->settings,
                             .mixing = frame->form.mixing};
    if (d->how.frame)
        d->how.frame(d->how.context, &about);
}

/* A frame whose offset is not where the text stands: frames are missing before it. */
static txl_status check_offset(txl_decompressor *d, const struct frame *frame, txl_error *error) {
    if (frame->offset == d->done.size) {
        report_passed(d, d->passed, "stand", d->inside ? "between two frames" : "before the text");
        return TXL_OK;
    }
    d->passed = 0;
    if (!d->how.salvage)
        return txl_fail(error, TXL_FORMAT,
                        "damaged: a frame of the text at byte %" PRIu64
                        " follows where byte %" PRIu64 " was expected",
                        frame->offset, d->done.size);
    if (frame->offset < d->done.size) { /* of another text, as the trailer before it is missing */
        report_loss(d, d->done.size, UINT64_MAX, "the end of the text is missing");
        d->done = (struct trailer){0};
        XXH3_64bits_reset(d->sum);
    }
    if (frame->offset > d->done.size)
        report_loss(d, d->done.size, frame->offset, "its frame is missing or damaged");
    d->done.size = frame->offset;
    return TXL_OK;
}

static bool begins_with(const void *bytes, size_t size, const char *magic) {
    return size >= MAGIC_SIZE && memcmp(bytes, magic, MAGIC_SIZE) == 0;
}

/* Whether the file goes on at this byte with a frame or a trailer. */
static bool begins_part(const unsigned char *bytes, size_t size) {
    struct frame frame;
    struct trailer trailer;
    size_t used = 0;
    if (begins_with(bytes, size, FRAME_MAGIC))
        return !frame_read(bytes, size, &frame, &used, NULL) && used > 0;
    return size >= TRAILER_SIZE && begins_with(bytes, size, TRAILER_MAGIC) &&
           !trailer_read(bytes, &trailer, NULL);
}

/* Where a frame that is damaged from byte `from` on ends: at `end`, or before it if bytes are
 * missing and another part of the file begins there. */
static size_t find_end(const txl_decompressor *d, size_t from, size_t end) {
    const unsigned char *bytes = (unsigned char *)d->in.data;
    while (from < end && !begins_part(bytes + from, d->in.length - from))
        from++;
    return from;
}

static txl_status take_frame(txl_decompressor *d, const struct frame *frame, size_t header,
                             txl_error *error) {
    size_t stored = header + frame_streams_size(frame), intact = stored - header;
    txl_status status = check_offset(d, frame, error);
    if (status)
        return status;
    d->inside = true;
    d->parts++;
    d->frame = frame;
    d->reported = 0;
    tell_frame(d, frame, header);
    if (!d->how.list) {
        status = decode_streams(d, frame, (unsigned char *)d->in.data + header, error);
        if (!status)
            status = frame_is_together(frame) ? write_together(d, frame, &intact, error)
                                              : write_streams(d, frame, &intact, error);
        XXH3_64bits_update(d->sum, d->out, frame->size);
    }
    if (status)
        return status;
    stored = find_end(d, header + intact, stored);
    d->done.size += frame->size;
    d->done.stored += stored;
    d->done.frames++;
    d->text += frame->size;
    d->stored += stored;
    buffer_drop(&d->in, stored);
    d->reported = 0;
    return tell_progress(d, 0) ? TXL_OK : txl_fail(error, TXL_STOPPED, "stopped by the caller");
}

static txl_status take_trailer(txl_decompressor *d, txl_error *error) {
    struct trailer trailer;
    txl_error why;
    txl_status status = trailer_read((unsigned char *)d->in.data, &trailer, &why);
    if (status)
        return report_damage(d, &why, error);
    const bool sizes = trailer.size == d->done.size && trailer.frames == d->done.frames &&
                       trailer.stored == d->done.stored;
    const bool same = d->how.list || trailer.checksum == XXH3_64bits_digest(d->sum);
    if (d->how.salvage && trailer.size > d->done.size)
        report_loss(d, d->done.size, trailer.size, "its frames are missing");
    else if (d->passed > 0)
        report_passed(d, d->passed, "stand", "before the trailer");
    else if (!d->holes && !(sizes && same))
        status = txl_fail(error, TXL_FORMAT, "damaged: the text is not what its trailer says");
    buffer_drop(&d->in, TRAILER_SIZE);
    d->stored += TRAILER_SIZE;
    d->parts++;
    d->done = (struct trailer){0};
    d->inside = d->holes = false;
    d->passed = 0;
    XXH3_64bits_reset(d->sum);
    if (!status && !tell_progress(d, 0))
        status = txl_fail(error, TXL_STOPPED, "stopped by the caller");
    return status;
}

/* ---- The file ----------------------------------------------------------------------------- */

#define NOT_COMPRESSED "not a compressed text (txl compress makes one)"
#define ENDS_INSIDE "damaged: it ends inside of the text, after byte "

/* After damage: drops what comes before the next frame or trailer.  False: more is needed. */
static bool find_next_magic(txl_decompressor *d) {
    size_t skip = 0;
    while (d->searches && d->in.length - skip >= MAGIC_SIZE) {
        const char *at = d->in.data + skip;
        d->searches = !begins_with(at, MAGIC_SIZE, FRAME_MAGIC) &&
                      !begins_with(at, MAGIC_SIZE, TRAILER_MAGIC);
        skip += d->searches;
    }
    buffer_drop(&d->in, skip);
    d->stored += skip;
    d->passed += skip;
    return !d->searches;
}

/* Takes the next part of the file.  *more: it is not all there yet. */
static txl_status take_part(txl_decompressor *d, bool *more, txl_error *error) {
    txl_error why;
    *more = !find_next_magic(d) || d->in.length < MAGIC_SIZE;
    if (*more)
        return TXL_OK;
    txl_status status = TXL_OK;
    if (begins_with(d->in.data, d->in.length, TRAILER_MAGIC)) {
        *more = d->in.length < TRAILER_SIZE;
        status = *more ? TXL_OK : take_trailer(d, error);
    } else if (begins_with(d->in.data, d->in.length, FRAME_MAGIC)) {
        struct frame frame;
        size_t header;
        status = frame_read((unsigned char *)d->in.data, d->in.length, &frame, &header, &why);
        if (status)
            return report_damage(d, &why, error);
        *more = header == 0 || d->in.length < header + frame_streams_size(&frame);
        status = *more ? TXL_OK : take_frame(d, &frame, header, error);
    } else {
        txl_fail(&why, TXL_FORMAT, "%s",
                 d->inside      ? "damaged: neither a frame nor a trailer follows"
                 : d->parts > 0 ? "damaged: bytes follow the end of the text"
                                : NOT_COMPRESSED);
        return report_damage(d, &why, error);
    }
    return status;
}

txl_status txl_decompressor_feed(txl_decompressor *d, const void *bytes, size_t n,
                                 txl_error *error) {
    const char *at = bytes;
    txl_status status = TXL_OK;
    /* A frame is at most as long as MAX_FRAME and its header. */
    while (n > 0 && !status) {
        const size_t most = MAX_FRAME + MAX_HEADER, room = most - d->in.length,
                     some = n < room ? n : room;
        if (!buffer_append(&d->in, at, some))
            return txl_fail_memory(error, "a frame", d->in.length + some);
        at += some;
        n -= some;
        for (bool more = false; !more && !status;)
            status = take_part(d, &more, error);
    }
    return status;
}

/* Salvages a part that the file's end has cut: of a frame, what is missing counts as damaged.  But
 * bytes may be missing before the end, or a size be wrong, and other parts follow. */
static txl_status take_cut_part(txl_decompressor *d, txl_error *error) {
    static const txl_error cut = {TXL_FORMAT, ENDS_INSIDE "0"};
    struct frame frame;
    size_t header = 0;
    if (!begins_with(d->in.data, d->in.length, FRAME_MAGIC) ||
        frame_read((unsigned char *)d->in.data, d->in.length, &frame, &header, NULL) || header == 0)
        return report_damage(d, &cut, error);
    const size_t missing = header + frame_streams_size(&frame) - d->in.length;
    if (!buffer_reserve(&d->in, missing))
        return txl_fail_memory(error, "a frame", d->in.length + missing);
    memset(d->in.data + d->in.length, 0, missing);
    d->in.length += missing;
    txl_status status = take_frame(d, &frame, header, error);
    d->in.length -= d->in.length < missing ? d->in.length : missing;
    return status;
}

static txl_status take_rest(txl_decompressor *d, txl_error *error) {
    txl_status status = TXL_OK;
    while (d->how.salvage && d->in.length >= MAGIC_SIZE && !status) {
        status = take_cut_part(d, error);
        for (bool more = false; !more && !status;)
            status = take_part(d, &more, error);
    }
    return status;
}

/* What the end of the file leaves to tell. */
static txl_status check_end(txl_decompressor *d, txl_error *error) {
    if (d->stored == 0 && d->in.length == 0)
        return txl_fail(error, TXL_FORMAT, "empty; a compressed text has a trailer at least");
    if (d->parts == 0 && d->first.status)
        return txl_fail(error, d->first.status, "%s", d->first.message);
    /* Both magics begin alike. */
    if (d->parts == 0 && d->in.length < MAGIC_SIZE &&
        memcmp(d->in.data, FRAME_MAGIC, d->in.length) != 0)
        return txl_fail(error, TXL_FORMAT, NOT_COMPRESSED);
    if (d->parts == 0 || (d->inside && !d->how.salvage))
        return txl_fail(error, TXL_FORMAT, ENDS_INSIDE "%" PRIu64, d->done.size);
    if (d->inside)
        report_loss(d, d->done.size, UINT64_MAX, "the end of the text is missing");
    else if (d->how.salvage)
        report_passed(d, d->passed + d->in.length, "follow", "the end of the text");
    else if (d->in.length > 0)
        return txl_fail(error, TXL_FORMAT, "damaged: bytes follow the end of the text");
    return TXL_OK;
}

txl_status txl_decompressor_finish(txl_decompressor *d, txl_error *error) {
    txl_status status = take_rest(d, error);
    if (!status)
        status = check_end(d, error);
    if (status)
        return status;
    buffer_free(&d->in);
    d->done = (struct trailer){0};
    d->inside = d->searches = d->holes = false;
    d->passed = d->parts = d->text = d->stored = 0;
    d->first = (txl_error){0};
    XXH3_64bits_reset(d->sum);
    return TXL_OK;
}
