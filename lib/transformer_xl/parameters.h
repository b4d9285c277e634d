/* The settings of a Transformer-XL's weights file, and the tensors that follow from them.
 *
 * Dai et al. 2019, "Transformer-XL: Attentive Language Models Beyond a Fixed-Length Context".
 * Dimensions keep the paper's code's names: n_layer, d_model, n_head, d_head, d_inner. */
#ifndef TXL_TRANSFORMER_XL_PARAMETERS_H
#define TXL_TRANSFORMER_XL_PARAMETERS_H

#include "lib/base/limits.h"
#include "lib/network/parameters.h"
#include "lib/network/settings.h"

#include <stdbool.h>

/* The types of attention, as published code numbers them. */

enum attention_type {
    ATTENTION_RELATIVE = 0,         /* sinusoid distances through a learned matrix: the paper's */
    ATTENTION_LEARNED_DISTANCE = 1, /* a learned row and bias for each distance (Shaw et al.) */
    ATTENTION_SINUSOID = 2,         /* vanilla Transformer, sinusoid positions on the input */
    ATTENTION_LEARNED_POSITION = 3  /* vanilla Transformer, learned positions on each layer */
};

/* Whether scores depend on the distance between query and key.  The other types have no memory. */
static inline bool attention_is_relative(enum attention_type type) {
    return type == ATTENTION_RELATIVE || type == ATTENTION_LEARNED_DISTANCE;
}

/* Whether each position or distance has a learned row. */
static inline bool attention_is_learned(enum attention_type type) {
    return type == ATTENTION_LEARNED_DISTANCE || type == ATTENTION_LEARNED_POSITION;
}

enum memory_start { MEMORY_EMPTY, MEMORY_ZEROS };
enum cluster_order { CLUSTERS_REVERSED, CLUSTERS_FORWARD };
/* How many positions a token sees with same_length, itself included. */
enum same_length_reach { REACH_MEM_LEN, REACH_MEM_LEN_AND_1 };
/* The names in a file's settings; NULL if there is none of that number. */
const char *memory_start_name(uint32_t number);
const char *cluster_order_name(uint32_t number);
const char *same_length_reach_name(uint32_t number);

/* PyTorch's default, as the published code has it. */
#define LAYER_NORM_EPS 1e-5

struct transformer_xl_settings {
    struct model_settings model;
    int n_layer, n_head, d_head, d_model, d_embed, d_inner;
    enum attention_type attn_type;
    int max_klen; /* rows of the learned positions, or 0 */
    bool pre_lnorm;
    int div_val;
    int n_band, cutoff[MAX_BAND]; /* n_band - 1 of them */
    bool tied_weights;
    bool tied_projection[MAX_BAND];
    bool biases_per_layer;
    int memory_start, cluster_order, same_length_reach; /* the enums above */
    double layer_norm_eps;
    bool proj_same_dim; /* with div_val above 1: a band as wide as d_model has a projection */
};

/* The parameters, in the order of a file. */
enum transformer_xl_parameter {
    EMBEDDING_WEIGHT,
    EMBEDDING_PROJECTION,
    SOFTMAX_WEIGHT,
    SOFTMAX_BIAS,
    SOFTMAX_PROJECTION,
    CLUSTER_WEIGHT,
    CLUSTER_BIAS,
    INV_FREQ,
    SHARED_U,
    SHARED_V,
    ATTENTION_QKV,
    ATTENTION_O,
    ATTENTION_R,
    ATTENTION_R_EMB,
    ATTENTION_R_BIAS,
    ATTENTION_U,
    ATTENTION_V,
    ATTENTION_NORM_WEIGHT,
    ATTENTION_NORM_BIAS,
    FEED_FORWARD_1_WEIGHT,
    FEED_FORWARD_1_BIAS,
    FEED_FORWARD_2_WEIGHT,
    FEED_FORWARD_2_BIAS,
    FEED_FORWARD_NORM_WEIGHT,
    FEED_FORWARD_NORM_BIAS,
    N_TRANSFORMER_XL_PARAMETER
};

extern const struct setting_table transformer_xl_setting_table;
extern const struct parameter_table transformer_xl_parameters;

/* Checks that the settings fit together; fails as settings_read does. */
txl_status transformer_xl_check(const void *settings, const char *name, txl_status failure,
                                txl_error *error);

/* Symbols and width of a band's embedding. */
int transformer_xl_band_tokens(const struct transformer_xl_settings *settings, int i);
int transformer_xl_band_width(const struct transformer_xl_settings *settings, int i);

#endif
