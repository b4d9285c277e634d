/* The tables of an XLNet's settings and parameters. */
#include "parameters.h"
#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/network/parameters.h"
#include "xlnet.h"

/* ---- Settings ----------------------------------------------------------------------------- */

const char *xlnet_activation_name(uint32_t activation) {
    static const char *const names[] = {"relu", "gelu-tanh", "gelu-erf", "swish"};
    return activation < sizeof names / sizeof *names ? names[activation] : NULL;
}

const char *xlnet_attention_name(uint32_t attention) {
    static const char *const names[] = {"bi", "uni"};
    return attention < sizeof names / sizeof *names ? names[attention] : NULL;
}

static const char *memory_start_name(uint32_t start) {
    return start == 0 ? "empty" : NULL;
}

#define PLACE(member) .place = offsetof(struct xlnet_settings, member)

static const struct setting settings_table[] = {
    {"n_layer", SETTING_INTEGER, 1, MAX_N_LAYER, PLACE(n_layer), .help = "layers"},
    {"n_head", SETTING_INTEGER, 1, MAX_N_HEAD, PLACE(n_head), .help = "attention heads"},
    {"d_head", SETTING_INTEGER, 1, MAX_D_HEAD, PLACE(d_head), .help = "width of a head"},
    {"d_model", SETTING_INTEGER, 2, MAX_D_MODEL, PLACE(d_model), .help = "width of a layer"},
    {"d_inner", SETTING_INTEGER, 1, MAX_D_INNER, PLACE(d_inner),
     .help = "width inside the feed-forward part"},
    {"ff_activation", SETTING_WORD, .spelling = xlnet_activation_name, PLACE(ff_activation),
     .help = "what is between the two matrices of the feed-forward part; `gelu-tanh` is the form "
             "with tanh"},
    {"attn_type", SETTING_WORD, .spelling = xlnet_attention_name, PLACE(attn_type),
     .help = "`bi`, or `uni`: no position sees what is to its right"},
    {"layer_norm_eps", SETTING_REAL, 0, 1, PLACE(layer_norm_eps),
     .help = "what layer norm adds to the variance"},
    {"tied_weights", SETTING_TRUTH, PLACE(tied_weights),
     .help = "whether the softmax's weights are the embedding's"},
    {"memory_start", SETTING_WORD, .spelling = memory_start_name, PLACE(memory_start),
     .help = "what the memory holds before the first token"},
};

const struct setting_table xlnet_setting_table = {settings_table,
                                                  sizeof settings_table / sizeof *settings_table};

#undef PLACE

txl_status xlnet_check(const void *settings, const char *name, txl_status failure,
                       txl_error *error) {
    const struct xlnet_settings *s = settings;
    if (s->d_model % 2)
        return txl_fail(error, failure, "%s: d_model is %d, an odd number", name, s->d_model);
    if (s->attn_type == XLNET_UNI && s->model.same_length)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: attn_type uni with same_length: the first tokens would see nothing",
                        name);
    return TXL_OK;
}

/* ---- Parameters --------------------------------------------------------------------------- */

/* Sizes of tensors. */
enum {
    TOKENS,
    MODEL,
    INNER,
    HEADS, /* all heads side by side */
    QKV,
    SEGMENTS
};

/* Conditions under which a parameter exists. */
enum { ALWAYS, UNTIED };

#define LAYER_STRUCT struct xlnet_layer

static const struct parameter parameters[N_XLNET_PARAMETER] = {
    [XLNET_EMBEDDING] = {"embedding.*.weight", BAND(MATRIX, embedding), MATRIX(TOKENS, MODEL)},
    [XLNET_SOFTMAX] = {"softmax.*.weight", BAND(MATRIX, softmax), MATRIX(TOKENS, MODEL),
                       .when = UNTIED},
    [XLNET_SOFTMAX_BIAS] = {"softmax.*.bias", BAND(VECTOR, softmax_bias), VECTOR(TOKENS)},
    [XLNET_MASK] = {"embedding.mask", PARAMETER_GLOBAL, PARAMETER_VECTOR, USED_BY_TOKEN,
                    VECTOR(MODEL), .place = offsetof(struct xlnet, mask)},
    [XLNET_QKV] = {"layer.*.attention.qkv", LAYER(MATRIX, USED_BY_TOKEN, qkv), MATRIX(QKV, MODEL)},
    [XLNET_O] = {"layer.*.attention.o", LAYER(MATRIX, USED_BY_TOKEN, o), MATRIX(MODEL, HEADS)},
    [XLNET_R] = {"layer.*.attention.r", LAYER(MATRIX, USED_BY_POSITIONS, r), MATRIX(HEADS, MODEL)},
    [XLNET_U] = {"layer.*.attention.u", LAYER(VECTOR, USED_BY_TOKEN, u), VECTOR(HEADS)},
    [XLNET_V] = {"layer.*.attention.v", LAYER(VECTOR, USED_BY_TOKEN, v), VECTOR(HEADS)},
    [XLNET_S] = {"layer.*.attention.s", LAYER(VECTOR, USED_BY_POSITIONS, s), VECTOR(HEADS)},
    [XLNET_SEGMENT] = {"layer.*.attention.segment", LAYER(VECTOR, USED_BY_POSITIONS, segment),
                       VECTOR(SEGMENTS)},
    NORM_ROWS(XLNET_ATTENTION_NORM, "layer.*.attention.norm", attention_norm),
    LINEAR_ROWS(XLNET_FEED_FORWARD_1, "layer.*.feed_forward.1", feed_forward_1, feed_forward_bias_1,
                INNER, MODEL),
    LINEAR_ROWS(XLNET_FEED_FORWARD_2, "layer.*.feed_forward.2", feed_forward_2, feed_forward_bias_2,
                MODEL, INNER),
    NORM_ROWS(XLNET_FEED_FORWARD_NORM, "layer.*.feed_forward.norm", feed_forward_norm),
};

static int count_parts(const void *settings, enum parameter_scope scope) {
    const struct xlnet_settings *s = settings;
    return scope == PARAMETER_LAYER ? s->n_layer : 1;
}

static bool has_parameter(const void *settings, int when, int i) {
    const struct xlnet_settings *s = settings;
    (void)i;
    return when == ALWAYS || !s->tied_weights;
}

static uint64_t parameter_size(const void *settings, int size, int i) {
    const struct xlnet_settings *s = settings;
    const int heads = s->n_head * s->d_head;
    const int sizes[] = {
        [TOKENS] = s->model.n_token, [MODEL] = s->d_model,  [INNER] = s->d_inner, [HEADS] = heads,
        [QKV] = 3 * heads,           [SEGMENTS] = 2 * heads};
    (void)i;
    return (uint64_t)sizes[size];
}

const struct parameter_table xlnet_parameters = {.parameter = parameters,
                                                 .n = N_XLNET_PARAMETER,
                                                 .count = count_parts,
                                                 .has = has_parameter,
                                                 .size = parameter_size,
                                                 .layer_size = sizeof(struct xlnet_layer)};
