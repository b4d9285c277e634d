/* The text of txl fill: its bytes, its ids, and the gaps in both. */
#ifndef CLI_FILL_TEXT_H
#define CLI_FILL_TEXT_H

#include "cli/io/input.h"
#include "cli/model/model.h"
#include "lib/base/memory.h"

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

/* Reads the whole input.  False with the error printed; end with fill_text_close. */
bool fill_text_read(struct fill_text *text, struct input *input);
void fill_text_close(struct fill_text *text);

/* The whole text with its gaps filled. */
bool fill_text_print(const struct fill_text *text);

/* An object for each gap. */
bool fill_text_print_json(const struct fill_text *text);

#endif
