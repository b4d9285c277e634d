/* The tree of decisions by which an element of a text is coded.  Its leaves are the tokens in the
 * order of their bytes, so that those which begin alike share decisions, and last the literal.  A
 * node is a range of leaves, and its decision whether the element is in the second part.  After a
 * literal's leaf the 8 bits of its byte are decisions too. */
#ifndef TXL_COMPRESS_TREE_H
#define TXL_COMPRESS_TREE_H

#include "lossless.h"
#include "txl.h"

enum {
    TREE_LEVELS = 3, /* of the tree, whose 7 nodes share a place in a context's table */
    TREE_DEEPEST = 15,
    LITERAL_DEPTH = 16, /* of the first bit of a literal; the tree's own end before */
    LITERAL_NODES = 256,
    TREE_MOST_TOKENS = 1 << 16
};

struct tree_node {
    int32_t low, middle, high; /* leaves [low, high), the second part from `middle` on */
    int32_t anchor;            /* the first node of its levels */
    uint8_t place;             /* among their 7 */
    uint8_t depth;             /* at most TREE_DEEPEST, as those below are rare and learn alike */
};

struct tree {
    int32_t n_token;
    int32_t *element; /* [n_token + 1] at each leaf: a token's id, or n_token, a literal */
    int32_t *leaf;    /* [n_token + 1] its inverse */
    /* [n_token] by depth, the first part first, then [LITERAL_NODES]: 1 and the bits so far. */
    struct tree_node *node;
};

txl_status tree_open(struct tree *tree, const struct token_bytes *table, txl_error *error);
void tree_close(struct tree *tree); /* all zero is fine */

/* The node below one of more than two leaves. */
static inline int32_t tree_below(const struct tree *tree, int32_t node, bool second) {
    const struct tree_node *at = &tree->node[node];
    return node + (second ? at->middle - at->low : 1);
}

/* What the model says of an element. */
struct model_view {
    uint64_t *below; /* [n_token + 2] frequencies before each leaf */
    int32_t likeliest;
    unsigned share; /* its probability */
};

/* The model's frequencies of the tokens, some of them 0, and of the literal 2^-10 of their sum,
 * which must be below 2^32. */
void tree_view(const struct tree *tree, const uint64_t *frequency, struct model_view *view);

/* The model's probability of the second part, from 1 to 65,535. */
unsigned tree_probability(const struct tree *tree, const struct model_view *view, int32_t node);

#endif
