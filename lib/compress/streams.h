/* Streams of a frame: texts that are coded side by side.  Each is read by a copy of one fresh
 * session, and the copies are fed together, a token at a time.  Each has a code of its own, or all
 * have one, in which case the mixing (mixing.h) codes them. */
#ifndef TXL_COMPRESS_STREAMS_H
#define TXL_COMPRESS_STREAMS_H

#include "cache.h"
#include "frames.h"
#include "lib/session/model.h"
#include "lossless.h"
#include "mixing.h"
#include "range_coder.h"
#include "txl.h"

/* What codes with one model and settings. */
struct stream_coder {
    const txl_model *model;
    txl_settings settings;
    struct frame_form form;
    struct token_bytes table;
    /* What the softmax's head may choose: its tokens, then its clusters. */
    unsigned char *head_use;
    size_t n_head;       /* their number */
    float *head;         /* [n_session, n_head] the head's weights */
    double *sum;         /* [n_session] what they add up to */
    float *band;         /* the weights of another band */
    uint64_t *frequency; /* of one softmax */
    txl_session **sessions;
    size_t n_session;            /* streams that are coded together */
    struct byte_model *literals; /* [n_session] */
    /* The streams' cache, with room for what it adds to a softmax; without orders there is none. */
    struct cache cache;
    size_t *band_first;   /* [n_band + 1] */
    uint32_t *extra;      /* [n_token] */
    uint32_t *band_extra; /* [n_band] */
    /* With TXL_MIXING_LOGISTIC: */
    struct tree tree;
    struct model_view view;
    struct mixing mixing; /* while a frame is coded */
    struct range_encoder encoder;
    struct range_decoder decoder;
    struct buffer code;      /* what all streams were compressed to */
    bool settled;            /* none of them has turned out to be raw in its trial */
    const unsigned char *in; /* [n_in], what is decompressed; the caller's */
    size_t n_in;

    /* NULL, or is called with how many bytes of text were coded since it was called last; false
     * stops. */
    bool (*progress)(void *context, size_t bytes);
    void *context;
};

/* Refuses models whose numbers depend on how their text is divided into calls. */
txl_status stream_check_model(const txl_model *model, txl_error *error);

/* Sets the arithmetic that compresses with a model, and what follows from it. */
void stream_set_arithmetic(const txl_model *model, txl_settings *settings);

/* How a model's streams are mixed with their text. */
struct frame_form stream_form(const txl_model *model);

/* Opens sessions for at most `n` streams at a time, but no more than `memory` bytes (0: half of the
 * machine's) have room for, and at least one.  The form's mixing is the model's, or none.  Close it
 * after a failure too. */
txl_status stream_coder_open(struct stream_coder *coder, const txl_model *model,
                             const txl_settings *settings, size_t n, const struct frame_form *form,
                             uint64_t memory, txl_error *error);
void stream_coder_close(struct stream_coder *coder);

/* A stream to be coded. */
struct stream {
    unsigned char *text; /* [size]: what is compressed, or decompressed into */
    size_t size;
    const int32_t *elements; /* [n], of the text (lossless.h), when it is compressed */
    size_t n;
    struct buffer code;      /* what it was compressed to, the caller's to free */
    struct buffer plain;     /* empty, or its literals alone; likewise */
    size_t plain_trial;      /* bytes of `plain` after a trial's length of text */
    const unsigned char *in; /* [n_in], what is decompressed */
    size_t n_in;
    bool raw;     /* the model does not make it smaller than `plain`, or than the text */
    bool damaged; /* it was no compressed text */
};

/* Compresses a stream to literals alone, which is fast: what the model makes no shorter. */
txl_status stream_compress_plain(struct stream_coder *coder, struct stream *stream,
                                 txl_error *error);

/* Compresses streams[n], or decompresses them.  With mixing, they are all of a frame that the
 * model codes, and share its state, so that there must be a session for each (TXL_MEMORY); one that
 * the model makes no shorter leaves no trace in it.  Their one code is then in `code`, or in `in`;
 * if that is damaged, all are. */
txl_status streams_code(struct stream_coder *coder, struct stream *const *streams, size_t n,
                        bool decodes, txl_error *error);

#endif
