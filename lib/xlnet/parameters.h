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
};

/* The parameters, in the order of a file. */
enum xlnet_parameter {
    XLNET_EMBEDDING,
    XLNET_SOFTMAX,
    XLNET_SOFTMAX_BIAS,
    XLNET_MASK,
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

/* Checks that the settings fit together; fails as settings_read does. */
txl_status xlnet_check(const void *settings, const char *name, txl_status failure,
                       txl_error *error);

#endif
