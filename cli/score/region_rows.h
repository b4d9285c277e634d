/* --per-region: a row for each region of an item's text, and the regions themselves.
 *
 * A bar parts the text into regions, from 1, and is removed; "\|" is a bar of the text.  A token
 * belongs to the region of its first byte that is not white space; one without such a byte, a blank
 * or a line end within the text, to that of the next such byte, or to the last region; with
 * --space-with previous to that of the byte before.  The symbol that closes the text is region 0,
 * so that the rows sum to the text.  A word belongs to the region of its first byte.
 *
 * For pieces --space-with previous adds the terms of word_rows (tables.h) at the ends of a region
 * as at those of a word; a bar within a word has none. */
#ifndef CLI_REGION_ROWS_H
#define CLI_REGION_ROWS_H

#include "scorer.h"
#include "table_writer.h"

/* What is known before a token, from the distribution that predicts it. */
struct moment {
    uint64_t index; /* the token's */
    double begins;  /* ln P(B), or 0 if there is no correction */
    double entropy; /* in nats; --entropy */
};

/* `begins`: [n_token], the tokens of B; NULL: there is no correction. */
struct moment moment_of(const txl_model *model, const bool *begins, bool entropy,
                        const struct scored *token);

/* The sum over a region's tokens. */
struct region {
    size_t end;               /* of its bytes in the text */
    uint64_t tokens, unknown; /* unknown: of these are <unk> */
    double nats, corrected;   /* corrected: as of words (words.h) */
    double nats_other, kl;    /* --compare */
    double entropy;           /* before its first token */
    double reduction; /* that less the entropy before the next region's; NAN: no token follows */
};

/* A text without its bars. */
struct regions {
    struct buffer text;
    struct region *list; /* [n]; list[0] is region 0, whose end is 0 */
    size_t n, room;
};

/* Parts the text.  False when memory is short. */
bool regions_part(struct regions *regions, const char *text, size_t length);

/* The text as one region, bars and all. */
bool regions_whole(struct regions *regions, const char *text, size_t length);
void regions_free(struct regions *regions);

/* The words that begin in text[begin .. end).  `*in_word`: whether one goes on there. */
uint64_t regions_words(const struct buffer *text, size_t begin, size_t end, bool *in_word);

struct region_rows {
    struct table table; /* without a stream: regions are summed, but not shown */
    bool on;
    const struct own_columns *own;
    bool has_file;    /* the first column is the name of the user's table, */
    const char *file; /* which is this */
    int32_t eos;
    const txl_model *model;
    bool previous;           /* white space counts towards the region before */
    bool entropy;            /* two more columns */
    bool *begins;            /* [n_token]: the tokens of B; NULL: there is no correction */
    double correction;       /* what all terms of the text add to the regions' nats */
    struct region *current;  /* the last token's; NULL: none */
    uint64_t next;           /* the index that follows that token's */
    struct regions *regions; /* of the current text */
    size_t solid;            /* the first byte from `from` on that is not white space */
    size_t from;
};

/* A table only with --per-region.  --entropy, and for pieces --space-with previous, take
 * distributions.  False with the error printed; end with region_rows_close. */
bool region_rows_open(struct region_rows *rows, const struct table_options *options,
                      const struct own_columns *own, const txl_model *model);
void region_rows_close(struct region_rows *rows);

/* Begins a text of the user's table `file`, whose regions receive the sums. */
void region_rows_start(struct region_rows *rows, const char *file, struct regions *regions);

/* An observer; `rows` is its context. */
txl_status region_rows_token(void *rows, const struct scored *token, txl_error *error);

/* Writes the text's rows.  TXL_STOPPED when the reader of the output is gone. */
txl_status region_rows_end(struct region_rows *rows);

#endif
