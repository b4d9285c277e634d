/* Fills the gaps of a text by an XLNet. */
#ifndef CLI_FILLING_H
#define CLI_FILLING_H

#include "cli/io/input.h"
#include "cli/model/model.h"
#include "cli/model/sampling.h"
#include "cli/model/settings.h"
#include "lib/base/memory.h"
#include "txl.h"

#include <jansson.h>

/* A position that is filled with one piece. */
struct piece {
    size_t at; /* of the ids */
    int32_t id;
    float logprob;       /* before bans */
    int32_t *top;        /* [n_top] the likeliest tokens in its place */
    float *top_logprobs; /* [n_top] their log-probabilities */
};

/* A <mask> of the text, which is filled with `pieces` neighbouring pieces. */
struct gap {
    uint64_t line, offset, bytes; /* the place of its name in the text */
};

struct fill_text {
    const struct model *model;
    const char *name; /* of the file */
    bool ids;         /* the text is decimal ids */
    int32_t mask;
    size_t pieces; /* pieces of a gap */
    size_t n_top;

    struct buffer source;
    struct id_list list; /* TXL_GAP in gaps */
    struct gap *gap;     /* [n_gap] */
    size_t n_gap, gap_capacity;
    struct piece *piece; /* [n_gap pieces] */
};

enum { ORDER_LEFT, ORDER_SUREST };
extern const char *const fill_orders[]; /* left, surest */

struct fill_options {
    struct common_options common;
    struct session_options session;
    struct sampling_options sampling;
    int order;
    int64_t pieces, logprobs, seed;
    bool ids, json, allow_unk, raw_output;
};

/* One run of the command. */
struct fill {
    const struct fill_options *options;
    struct model model;
    txl_settings settings;
    txl_session *session;
    struct fill_text text;
    txl_sampling sampling;
    txl_history *history;
    txl_random random;
    float *logprob; /* [ASKED, n_token]; for --order surest */
    double seconds;
};

/* Makes ready to fill a text called `name` by the model, which is open.  False with the error
 * printed; end with fill_close either way. */
bool fill_open(struct fill *fill, struct fill_options *options, const char *name);
void fill_close(struct fill *fill);

/* Reads the whole input.  False with the error printed. */
bool fill_read(struct fill_text *text, struct input *input);

/* Fills all gaps.  False with the error printed, or after a signal. */
bool fill_all(struct fill *fill);

/* Appends the whole text with its gaps filled.  False when memory is short. */
bool fill_whole(const struct fill_text *text, struct buffer *whole);

/* Calls `take` with an object for each gap, whose reference it takes, until it returns false.
 * False also when memory is short. */
bool fill_objects(const struct fill_text *text, bool (*take)(void *context, json_t *object),
                  void *context);

/* How the text was filled; as an object, NULL when memory is short. */
struct run_settings fill_run_settings(const struct fill *fill);
json_t *fill_settings(const struct fill *fill);

#endif
