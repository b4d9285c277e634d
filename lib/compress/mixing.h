/* Codes the elements of streams by decisions, whose probabilities mix the model's with what the
 * streams' texts have had so far.  Everything is an integer, so that a text is coded alike
 * everywhere; weights-format.md states each number. */
#ifndef TXL_COMPRESS_MIXING_H
#define TXL_COMPRESS_MIXING_H

#include "bit_histories.h"
#include "contexts.h"
#include "matches.h"
#include "mixer.h"
#include "range_coder.h"
#include "refinement.h"
#include "tree.h"

/* What is fixed while an element is coded. */
struct moment {
    size_t stream;
    const struct model_view *view;
    uint64_t contexts[N_CONTEXT];
    struct match_guess guess[N_MATCH];
    int32_t last; /* the element before */
    struct bucket *found[N_CONTEXT];
};

/* The state of a frame. */
struct mixing {
    const struct tree *tree;
    const struct token_bytes *table;
    size_t n_stream;
    struct logistic *logistic;
    struct history *histories; /* [n_stream] */
    struct followers followers;
    struct matches matches;
    struct bit_histories bits;
    struct mixer mixer;
    struct refinement refinement;
    struct moment now;
};

/* For streams of texts of at most those sizes; nothing has been coded.  The tree is of the table;
 * both must outlive it.  It takes about 45 MB.  Close it after a failure too. */
txl_status mixing_open(struct mixing *mixing, const struct tree *tree,
                       const struct token_bytes *table, size_t n_stream, const size_t *sizes,
                       txl_error *error);
void mixing_close(struct mixing *mixing); /* all zero is fine */

/* Codes a stream's next element, or decodes it, and returns it.  It is yet to be added. */
int32_t mixing_code(struct mixing *mixing, size_t stream, const struct model_view *view,
                    struct bit_coder *coder, int32_t element);

/* Adds the element that was coded to its stream, whose text must have room for it. */
void mixing_add(struct mixing *mixing, int32_t element);

#endif
