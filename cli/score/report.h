/* The report of txl ppl: one HTML page that shows a text coloured by the nats of its tokens, with
 * everything it needs inside.
 *
 * The page is written as the tokens come, in constant memory.  Nothing in the text, the vocabulary
 * or a file's name can become markup: tokens and symbols are base64, the rest is ASCII JSON without
 * angle brackets, and the page's content security policy runs only the script with its nonce.
 *
 * The data, which report.js reads, are in script elements that are not executed.  Numbers are
 * little-endian, ids and ranks of id_bytes each, and arrays follow one another:
 *
 *   class tokens        base64 of a chunk of n tokens: nats float32[n_model][n], NaN of a token
 *                       that is context only; id[n]; rank - 1 as [n_model][n]; line_ends uint8[n],
 *                       how many lines ended before the token
 *   class alternatives  base64 of the likeliest tokens in the places of that chunk's tokens:
 *                       id[n_model][n][n_top]; surprise uint16[n_model][n][n_top], in 1/2048 nats
 *   class surfaces      base64 of what the source has for the <unk> of that chunk, each: token
 *                       uint32, length uint32, the bytes, at most 200 of them; absent without <unk>
 *   class symbols       base64 of the spellings that the two name, each: id uint32, length uint32,
 *                       the bytes
 *   id data             JSON: what reading the above takes, what the kind of text is like (unit,
 *                       space, bytes, line_pairs: see txl_kind_unit), the model, the results */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "cli/io/output.h"
#include "cli/page/page.h"
#include "lib/base/memory.h"
#include "regions.h"
#include "scorer.h"
#include "source.h"
#include "table_writer.h"

/* The most tokens that a page shows, from the beginning of the text.  Its figures are those of the
 * whole text. */
#define REPORT_TOKENS 1000000

struct report {
    struct outfile file; /* stream is NULL: there is no report */
    const txl_model *model;
    size_t n_model;
    struct report_chunk *chunk;
    uint8_t *line_ends;     /* [REPORT_TOKENS]: before token i, at most 255 */
    bool *named;            /* [n_token]: the symbol's spelling is needed */
    struct source *source;  /* the text's source; NULL: <unk> is shown as it is */
    struct buffer surfaces; /* of the chunk */
    struct page_nonce nonce;
    const char *rest; /* the rest of the page, after its data */
    json_t *results;
    json_t *recl; /* of --recl; NULL: none */
    struct report_positions {
        size_t tgt_len; /* of the segments; 0: they have no positions to tell */
        size_t n;       /* parts of a segment */
        double nats[64];
        uint64_t tokens[64];
    } positions;
    json_t *by_position; /* NULL, or what report_end_positions added */
    size_t shown;        /* the result whose tokens the page shows */
    uint64_t first;      /* the page's token that the text begins with; of items each has its own */
    json_t *items;       /* of items: what report_item added; NULL: none */
};

/* Begins the page at `path`, of `n_model` models with the vocabulary of `model`, which must stay
 * open. `source` is read where the text has an <unk>.  False with the error printed; end with
 * report_abandon, and before it put `file` in place. */
bool report_open(struct report *report, const char *path, const txl_model *model, size_t n_model,
                 struct source *source);

/* Tells that a line of the text ended before token `index`, which has not been scored yet. */
void report_line_end(struct report *report, uint64_t index);

/* Begins an item, a line of the page, at token `index` of all. */
void report_start_item(struct report *report, uint64_t index);

/* Adds the item that was scored, with its regions; one that the page does not show is left out.
 * False with the error printed. */
bool report_item(struct report *report, const struct own_value *item,
                 const struct own_value *condition, const struct regions *regions);

/* Adds a token that is only context: shown, not scored. */
txl_status report_context(struct report *report, uint64_t index, int32_t id,
                          const struct place *place, txl_error *error);

/* Adds a scored token; `report` is the context of an observer that asked for distributions. */
txl_status report_token(void *report, const struct scored *token, txl_error *error);

/* An observer that sums nats by the position in the segment, from which a token is predicted:
 * segments follow one another from token 0 on.  report_end_positions adds the means for a memory of
 * mem_len; false with the error printed. */
void report_start_positions(struct report *report, size_t tgt_len);
txl_status report_position(void *report, const struct scored *token, txl_error *error);
bool report_end_positions(struct report *report, int mem_len);

/* Adds an object of --json and takes it; NULL counts as out of memory.  `shown`: the page shows its
 * tokens.  False with the error printed. */
bool report_result(struct report *report, json_t *result, bool shown);

/* Ends the page; `name` is the first model's.  Without a result there is no page, and the report is
 * abandoned.  False with the error printed. */
bool report_end(struct report *report, const char *name);

/* Leaves no file; harmless after it is put in place, or without a report. */
void report_abandon(struct report *report);

#endif
