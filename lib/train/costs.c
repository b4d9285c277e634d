/* What training takes for one token: an addition and a multiplication each
 *
 *     for a segment's row three times for each weight of the layers' matrices and the softmax's
 *     head: the row forward, its gradient, and the weight's; an embedding's projection likewise
 *     for a row of memory twice through W_k and W_v, and for a position row twice through W_r:
 *     nothing flows into them
 *     in attention three times for each of its three products, over the visible positions alone
 *
 * with the memory full.  A step has tgt_len tokens and mem_len rows of memory for each stream, and
 * the position rows of one.  The rest is small, and linear in these. */
#include "training.h"

static double visible_positions(const struct transformer_xl *net, const txl_training *how) {
    if (how->same_length && how->mem_len > 0)
        return how->mem_len + net->network.same_length_more;
    return how->mem_len + (how->tgt_len + 1) / 2.0;
}

uint64_t txl_trainer_flops(const txl_model *model, const txl_training *how) {
    if (model->family->number != TXL_FAMILY_TRANSFORMER_XL)
        return 0;
    const struct transformer_xl *net = (const struct transformer_xl *)model->network;
    double d = net->d_model, width = (double)head_width(net);
    double tokens = (double)how->batch * how->tgt_len;
    double memory = (double)how->batch * how->mem_len / tokens;
    double positions = (double)(how->mem_len + how->tgt_len) / tokens;
    uint64_t unused = 0, ends = 0;
    ends_costs(&net->network.ends, &unused, &ends);
    double segment = 4 * d * width + 2 * d * net->d_inner;
    double layer = 3 * segment + 2 * (memory * 2 * d * width + positions * d * width) +
                   3 * 3 * visible_positions(net, how) * width;
    return (uint64_t)(2 * (net->n_layer * layer + 3 * (double)ends));
}
