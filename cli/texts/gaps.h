/* Fills the gaps of a text by an XLNet. */
#ifndef CLI_GAPS_H
#define CLI_GAPS_H

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
    uint64_t cut, cut_before;     /* bytes of the lists that the text has lost here, and before */
    size_t first, n;              /* of the candidates */
};

/* What may stand in a gap. */
struct candidate {
    char *text; /* [length] */
    size_t length;
    int32_t *ids; /* [n] */
    size_t n;
    double logprob; /* over all ids, each after those before it */
};

/* The candidates of a <mask:York|Boston>, which is read as <mask>. */
struct candidate_list {
    uint64_t offset; /* where it then begins */
    uint64_t cut;    /* bytes that it lost */
    size_t first, n;
};

struct fill_text {
    const struct model *model;
    const char *name; /* of the file */
    bool ids;         /* the text is decimal ids */
    bool lists;       /* a gap may name candidates: <mask:York|Boston> */
    int32_t mask;
    size_t pieces; /* pieces of a gap */
    size_t n_top;

    struct buffer source;
    struct id_list list; /* TXL_GAP in gaps */
    struct gap *gap;     /* [n_gap] */
    size_t n_gap, gap_capacity;
    struct candidate *candidate; /* [n_candidate], of one gap after the other */
    size_t n_candidate;
    struct candidate_list *list_of; /* [n_list]; those that no gap took begin at `taken` */
    size_t n_list, taken;
    uint64_t cut;      /* bytes that they lost */
    const char *other; /* [n_other]: candidates of gaps without a list, */
    size_t n_other;
    char between;        /* with this between them; NULL: none */
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
    const char *candidates;
    struct string_list items;
};

/* One run of the command. */
struct fill {
    const struct fill_options *options;
    struct model model;
    txl_settings settings;
    txl_session *session;
    struct fill_text text;
    txl_sampling sampling;
    txl_random random;
    struct buffer listed; /* the lines of --candidates */
    float *logprob;       /* [ASKED, n_token]; for --order surest, of candidates [n_token] */
    double seconds;
};

/* Makes ready to fill a text called `name` by the model, which is open.  False with the error
 * printed; end with fill_close either way. */
bool fill_open(struct fill *fill, struct fill_options *options, const char *name);
void fill_close(struct fill *fill);

/* Reads the whole input.  False with the error printed. */
bool fill_read(struct fill_text *text, struct input *input);

/* The same for a text in memory, which is one record of a table; what is wrong with it goes to
 * problem[n_problem], empty if the error was printed. */
bool fill_read_record(struct fill_text *text, const char *record, size_t length, char *problem,
                      size_t n_problem);

/* Forgets the text, and what it was filled with. */
void fill_forget(struct fill_text *text);

/* Takes the lists of candidates out of the text, and gives a gap its own.  Return what is wrong, or
 * NULL. */
const char *candidates_take(struct fill_text *text, struct buffer *source);
const char *candidates_give(struct fill_text *text, struct gap *gap);
void candidates_forget(struct fill_text *text);

/* The text was read: encodes the candidates.  False with the reason. */
bool candidates_encode(struct fill *fill, char *problem, size_t n_problem);

/* Scores the encoded candidates of all gaps, which are filled: each sees the known tokens and what
 * the gaps before it were filled with.  False with the error printed, or after a signal. */
bool candidates_score(struct fill *fill);

/* The candidates of a gap, an object each; NULL when memory is short. */
json_t *candidates_to_json(const struct fill_text *text, const struct gap *gap);

/* The rank of a candidate among those of its gap; of equally likely ones the earlier comes first.
 */
size_t candidate_rank(const struct fill_text *text, const struct gap *gap, size_t i);

/* The log-probability of what gap `i` was filled with. */
double fill_logprob(const struct fill_text *text, size_t i);

/* Sets `text` to what gap `i` was filled with, as candidates are: without the white space before
 * it.  False when memory is short. */
bool fill_own(const struct fill_text *fill, size_t i, struct buffer *text);

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
