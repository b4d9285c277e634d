/* Coding elements, a decision at a time. */
#include "mixing.h"
#include "lib/base/error.h"

#include <stdlib.h>

/* Sets of weights by what matches say and the depth, and by the last byte; those by the node, and
 * by the last element, depend on the vocabulary. */
enum { DEPTHS = 32, DEPTH_SETS = MATCH_CLASSES * DEPTHS, BYTE_SETS = 256 };

txl_status mixing_open(struct mixing *m, const struct tree *tree, const struct token_bytes *table,
                       size_t n_stream, const size_t *sizes, txl_error *error) {
    const size_t n_token = (size_t)tree->n_token, nodes = n_token + LITERAL_NODES;
    const size_t sets[MIXER_LAYERS] = {DEPTH_SETS, BYTE_SETS, nodes, n_token + 1};
    *m = (struct mixing){.tree = tree, .table = table, .n_stream = n_stream};
    m->logistic = malloc(sizeof *m->logistic);
    m->histories = calloc(n_stream, sizeof *m->histories);
    if (!m->logistic || !m->histories)
        return txl_fail_memory(error, "streams", sizeof *m->logistic);
    logistic_start(m->logistic);
    txl_status status = TXL_OK;
    for (size_t i = 0; i < n_stream && !status; i++)
        status = history_open(&m->histories[i], sizes[i], error);
    if (!status)
        status = followers_open(&m->followers, n_stream, n_token, error);
    if (!status)
        status = matches_open(&m->matches, n_stream, error);
    if (!status)
        status = bit_histories_open(&m->bits, error);
    if (!status)
        status = mixer_open(&m->mixer, sets, nodes, error);
    return status ? status : refinement_open(&m->refinement, m->logistic, error);
}

void mixing_close(struct mixing *m) {
    for (size_t i = 0; m->histories && i < m->n_stream; i++)
        history_close(&m->histories[i]);
    free(m->logistic);
    free(m->histories);
    followers_close(&m->followers);
    matches_close(&m->matches);
    bit_histories_close(&m->bits);
    mixer_close(&m->mixer);
    refinement_close(&m->refinement);
    *m = (struct mixing){0};
}

/* ---- Decisions ---------------------------------------------------------------------------- */

/* Codes the decision at a node; said[k] is what match k says there, or -1. */
static int decide(struct mixing *m, struct bit_coder *coder, int32_t node, const int said[N_MATCH],
                  int bit) {
    const struct moment *now = &m->now;
    const struct tree_node *at = &m->tree->node[node];
    const bool root = node == 0;
    if (at->place == 0)
        bit_histories_find(&m->bits, now->contexts, at->anchor, m->now.found);

    int32_t input[N_INPUT];
    input[0] = stretch(m->logistic, tree_probability(m->tree, now->view, node));
    input[1] = LOGIT_ONE;
    bit_histories_predict(&m->bits, m->logistic, now->found, at->place, input + 2);
    matches_predict(&m->matches, m->logistic, now->guess, said, root, input + 2 + N_CONTEXT);

    const size_t class = (size_t)matches_class(now->guess, said);
    struct mixed mixture = {.input = input,
                            .set = {class * DEPTHS + at->depth,
                                    history_byte(&m->histories[now->stream], 1), (size_t)node,
                                    (size_t)(now->last < 0 ? m->tree->n_token : now->last)},
                            .last = (size_t)node};
    mixer_mix(&m->mixer, m->logistic, &mixture);

    const uint64_t high = (uint64_t)node << 32,
                   contexts[N_REFINEMENT] = {high | (uint32_t)now->last,
                                             high | (uint32_t)now->view->likeliest};
    const struct refined refined =
        refine(&m->refinement, contexts, mixture.logit, mixture.probability);
    bit = bit_code(coder, bit, refined.probability);

    mixer_learn(&m->mixer, m->logistic, &mixture, bit);
    refinement_learn(&refined, bit);
    bit_histories_learn(&m->bits, now->found, at->place, bit);
    matches_learn(&m->matches, now->guess, said, root, bit);
    return bit;
}

/* ---- Elements ----------------------------------------------------------------------------- */

static int32_t leaf_of(const struct tree *tree, int32_t element) {
    return tree->leaf[element < 0 ? tree->n_token : element];
}

/* Returns the leaf. */
static int32_t code_leaf(struct mixing *m, struct bit_coder *coder, int32_t wanted) {
    const struct tree *tree = m->tree;
    int32_t node = 0, low = 0, high = tree->n_token + 1, expected[N_MATCH];
    int said[N_MATCH];
    for (int k = 0; k < N_MATCH; k++)
        expected[k] = m->now.guess[k].length > 0 ? leaf_of(tree, m->now.guess[k].element) : -1;
    while (high - low > 1) {
        const int32_t middle = tree->node[node].middle;
        for (int k = 0; k < N_MATCH; k++)
            said[k] = expected[k] >= low && expected[k] < high ? expected[k] >= middle : -1;
        const int bit = decide(m, coder, node, said, wanted >= middle);
        node = tree_below(tree, node, bit);
        low = bit ? middle : low;
        high = bit ? high : middle;
    }
    return low;
}

static unsigned char code_byte(struct mixing *m, struct bit_coder *coder, unsigned char byte) {
    int said[N_MATCH], bits = 1; /* 1 and the bits so far */
    for (int i = 7; i >= 0; i--) {
        for (int k = 0; k < N_MATCH; k++) {
            const struct match_guess *guess = &m->now.guess[k];
            const int expected = 256 | (~guess->element & 255);
            const bool agrees =
                guess->length > 0 && guess->element < 0 && expected >> (i + 1) == bits;
            said[k] = agrees ? expected >> i & 1 : -1;
        }
        bits = 2 * bits + decide(m, coder, m->tree->n_token + bits, said, byte >> i & 1);
    }
    return (unsigned char)bits;
}

int32_t mixing_code(struct mixing *m, size_t stream, const struct model_view *view,
                    struct bit_coder *coder, int32_t element) {
    const struct history *history = &m->histories[stream];
    struct moment *now = &m->now;
    *now = (struct moment){.stream = stream, .view = view, .last = history_element(history, 1)};
    contexts_look(history, &m->followers, stream, view, now->contexts);
    matches_look(&m->matches, m->histories, stream, now->guess);
    const int32_t leaf = code_leaf(m, coder, leaf_of(m->tree, element)),
                  coded = m->tree->element[leaf];
    return coded < m->tree->n_token ? coded
                                    : literal_of(code_byte(m, coder, (unsigned char)~element));
}

void mixing_add(struct mixing *m, int32_t element) {
    const size_t stream = m->now.stream;
    followers_add(&m->followers, &m->histories[stream], stream, element);
    history_add(&m->histories[stream], m->table, element);
    matches_add(&m->matches, m->histories, stream, m->now.guess);
}
