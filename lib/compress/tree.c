/* Builds the tree of decisions, and gives its nodes the model's probabilities. */
#include "tree.h"
#include "lib/base/error.h"
#include "logistic.h"

#include <stdlib.h>
#include <string.h>

enum {
    COMMON = 30, /* a token of rank r weighs 1 / (COMMON + r), a rare one 1 / RARE */
    RARE = 2000,
    LITERAL_SHIFT = 10
};

static const char *all_bytes(const struct token_bytes *table, int32_t id, size_t *n) {
    const uint32_t start = id > 0 ? table->end[id - 1] : 0;
    *n = table->end[id] - start;
    return table->text + start;
}

/* By bytes, then by length, then by id; the literal last. */
static int compare_elements(const void *a, const void *b, void *context) {
    const struct token_bytes *table = context;
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    size_t nx, ny;
    if (x == table->n || y == table->n)
        return (x == table->n) - (y == table->n);
    const char *bx = all_bytes(table, x, &nx), *by = all_bytes(table, y, &ny);
    const size_t shorter = nx < ny ? nx : ny;
    const int order = shorter > 0 ? memcmp(bx, by, shorter) : 0;
    return order ? order : nx != ny ? (nx > ny) - (nx < ny) : (x > y) - (x < y);
}

/* Sets before[n_token + 2] to the sums of the weights before each leaf: vocabularies are ordered
 * from common to rare tokens, except for those of single bytes. */
static void weigh_leaves(const struct tree *tree, const struct token_bytes *table,
                         uint64_t *before) {
    const uint64_t one = (uint64_t)1 << 32;
    uint64_t common = COMMON;
    for (int32_t id = 0; id <= tree->n_token; id++) {
        const bool rare = id == tree->n_token || table->use[id] == TOKEN_BYTE;
        before[tree->leaf[id] + 1] = one / (rare ? RARE : common++);
    }
    for (int32_t leaf = 0; leaf <= tree->n_token; leaf++)
        before[leaf + 1] += before[leaf];
}

static int32_t find_middle(const uint64_t *before, int32_t low, int32_t high) {
    const uint64_t whole = before[low] + before[high];
    uint64_t least = UINT64_MAX;
    int32_t middle = low + 1;
    for (int32_t i = low + 1; i < high; i++) {
        const uint64_t twice = 2 * before[i], off = twice > whole ? twice - whole : whole - twice;
        if (off < least) {
            least = off;
            middle = i;
        }
    }
    return middle;
}

/* Adds the node of [low, high) and those below it at `self`.  Its depth is about the logarithm of
 * the whole weight over that of its lightest leaf, less than 20. */
static void add_nodes(struct tree *tree, const uint64_t *before, int32_t self,
                      struct tree_node node) {
    if (node.high - node.low < 2)
        return;
    const int depth = node.depth, below = depth + 1;
    if (depth % TREE_LEVELS == 0) {
        node.anchor = self;
        node.place = 0;
    }
    node.middle = find_middle(before, node.low, node.high);
    node.depth = (uint8_t)(depth < TREE_DEEPEST ? depth : TREE_DEEPEST);
    tree->node[self] = node;
    struct tree_node first = {node.low,
                              0,
                              node.middle,
                              node.anchor,
                              (uint8_t)(2 * node.place + 1),
                              (uint8_t)below},
                     second = first;
    second.low = node.middle;
    second.high = node.high;
    second.place++;
    add_nodes(tree, before, self + 1, first);
    add_nodes(tree, before, self + node.middle - node.low, second);
}

static void add_literal(struct tree *tree) {
    const int32_t start = tree->n_token;
    for (int bits = 1, depth = 0; bits < LITERAL_NODES; bits++) {
        depth += bits >> (depth + 1);
        const int within = depth % TREE_LEVELS, rest = (1 << within) - 1;
        tree->node[start + bits] = (struct tree_node){.anchor = start + (bits >> within),
                                                      .place = (uint8_t)(rest + (bits & rest)),
                                                      .depth = (uint8_t)(LITERAL_DEPTH + depth)};
    }
}

txl_status tree_open(struct tree *tree, const struct token_bytes *table, txl_error *error) {
    const size_t n = (size_t)table->n + 1;
    uint64_t *before = calloc(n + 1, sizeof *before);
    *tree = (struct tree){.n_token = table->n,
                          .element = calloc(n, sizeof *tree->element),
                          .leaf = calloc(n, sizeof *tree->leaf),
                          .node = calloc(n + LITERAL_NODES, sizeof *tree->node)};
    if (!before || !tree->element || !tree->leaf || !tree->node) {
        free(before);
        tree_close(tree);
        return txl_fail_memory(error, "a tree of tokens", n * sizeof *tree->node);
    }
    for (size_t i = 0; i < n; i++)
        tree->element[i] = (int32_t)i;
    qsort_r(tree->element, n, sizeof *tree->element, compare_elements, (void *)(uintptr_t)table);
    for (size_t i = 0; i < n; i++)
        tree->leaf[tree->element[i]] = (int32_t)i;
    weigh_leaves(tree, table, before);
    add_nodes(tree, before, 0, (struct tree_node){.high = (int32_t)n});
    add_literal(tree);
    free(before);
    return TXL_OK;
}

void tree_close(struct tree *tree) {
    free(tree->element);
    free(tree->leaf);
    free(tree->node);
    *tree = (struct tree){0};
}

void tree_view(const struct tree *tree, const uint64_t *frequency, struct model_view *view) {
    const int32_t n = tree->n_token;
    uint64_t total = 0, most = 0;
    view->likeliest = 0;
    for (int32_t id = 0; id < n; id++) {
        if (frequency[id] > most) {
            most = frequency[id];
            view->likeliest = id;
        }
    }
    for (int32_t leaf = 0; leaf < n; leaf++) {
        view->below[leaf] = total;
        total += frequency[tree->element[leaf]];
    }
    const uint64_t literal = 1 + (total >> LITERAL_SHIFT);
    view->below[n] = total; /* a literal is the last leaf */
    view->below[n + 1] = total + literal;
    const uint64_t share = (most << 16) / (total + literal);
    view->share = (unsigned)(share < PROBABILITY_ONE ? share : PROBABILITY_ONE - 1);
}

unsigned tree_probability(const struct tree *tree, const struct model_view *view, int32_t node) {
    if (node >= tree->n_token) /* of a literal's bits the model knows nothing */
        return PROBABILITY_ONE / 2;
    const struct tree_node *at = &tree->node[node];
    const uint64_t all = view->below[at->high] - view->below[at->low],
                   second = view->below[at->high] - view->below[at->middle],
                   p = all > 0 ? (second * PROBABILITY_ONE + all / 2) / all : PROBABILITY_ONE / 2;
    return (unsigned)(p < 1 ? 1 : p < PROBABILITY_ONE ? p : PROBABILITY_ONE - 1);
}
