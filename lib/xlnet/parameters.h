/* The settings of an XLNet's weights file, and the tensors that follow from them.
 *
 * Yang et al. 2019, "XLNet: Generalized Autoregressive Pretraining for Language Understanding".
 * Dimensions keep the paper's code's names: n_layer, d_model, n_head, d_head, d_inner. */
#ifndef TXL_XLNET_PARAMETERS_H
#define TXL_XLNET_PARAMETERS_H

#include "lib/network/parameters.h"
#include "lib/network/settings.h"

/* The setting "attn_type". */
enum xlnet_attention {
    XLNET_BI, /* ranks alone decide what a row sees */
    XLNET_UNI /* in addition, a row sees nothing to its right */
};

/* The setting "summary": which row of a text its logits are of. */
enum xlnet_summary { XLNET_NO_SUMMARY, XLNET_LAST, XLNET_FIRST, XLNET_MEAN };

/* The setting "summary_activation". */
enum xlnet_summary_activation {
    XLNET_SUMMARY_LINEAR,
    XLNET_SUMMARY_TANH,
    XLNET_SUMMARY_RELU,
    XLNET_SUMMARY_GELU_ERF,
    XLNET_SUMMARY_GELU_TANH,
    XLNET_SUMMARY_SWISH,
    XLNET_SUMMARY_SIGMOID
};

/* The words of "ff_activation", numbered from RELU on (one less than in enum activation), and of
 * "attn_type".  NULL for a number beyond the last. */
const char *xlnet_activation_name(uint32_t activation);
const char *xlnet_attention_name(uint32_t attention);

struct xlnet_settings {
    struct model_settings model;
    int n_layer, n_head, d_head, d_model, d_inner;
    int ff_activation; /* see xlnet_activation_name */
    enum xlnet_attention attn_type;
    double layer_norm_eps;
    bool tied_weights;
    int memory_start; /* always 0: empty */

    /* Of a fine-tuned model, whose file may lack the softmax's weights. */
    bool language_model;
    int head;       /* txl_head */
    json_t *labels; /* [n_label]; NULL: they have no names */
    int n_label;
    bool multi_label;       /* each label has a probability of its own */
    int summary;            /* enum xlnet_summary */
    bool summary_projected; /* a linear layer follows it, */
    int summary_activation; /* and enum xlnet_summary_activation */
    int start_n_top, end_n_top;
};

/* The parameters, in the order of a file. */
enum xlnet_parameter {
    XLNET_EMBEDDING,
    XLNET_SOFTMAX,
    XLNET_SOFTMAX_BIAS,
    XLNET_MASK,
    XLNET_SUMMARY_WEIGHT,
    XLNET_SUMMARY_BIAS,
    XLNET_HEAD_WEIGHT,
    XLNET_HEAD_BIAS,
    XLNET_END_HIDDEN_WEIGHT,
    XLNET_END_HIDDEN_BIAS,
    XLNET_END_NORM_WEIGHT,
    XLNET_END_NORM_BIAS,
    XLNET_END_WEIGHT,
    XLNET_END_BIAS,
    XLNET_ANSWER_HIDDEN_WEIGHT,
    XLNET_ANSWER_HIDDEN_BIAS,
    XLNET_ANSWER_WEIGHT,
    XLNET_QKV,
    XLNET_O,
    XLNET_R,
    XLNET_U,
    XLNET_V,
    XLNET_S,
    XLNET_SEGMENT,
    XLNET_ATTENTION_NORM_WEIGHT,
    XLNET_ATTENTION_NORM_BIAS,
    XLNET_FEED_FORWARD_1_WEIGHT,
    XLNET_FEED_FORWARD_1_BIAS,
    XLNET_FEED_FORWARD_2_WEIGHT,
    XLNET_FEED_FORWARD_2_BIAS,
    XLNET_FEED_FORWARD_NORM_WEIGHT,
    XLNET_FEED_FORWARD_NORM_BIAS,
    N_XLNET_PARAMETER
};

extern const struct setting_table xlnet_setting_table;
extern const struct parameter_table xlnet_parameters;

/* How many logits the head has for a row. */
int xlnet_n_logit(const struct xlnet_settings *settings);

/* Checks that the settings fit together; fails as settings_read does. */
txl_status xlnet_check(const void *settings, const char *name, txl_status failure,
                       txl_error *error);

#endif
