/* The tables of a Transformer-XL's settings and parameters. */
#include "parameters.h"
#include "lib/base/error.h"
#include "lib/network/parameters.h"
#include "transformer_xl.h"

/* ---- Settings ----------------------------------------------------------------------------- */

const char *memory_start_name(uint32_t number) {
    static const char *const names[] = {[MEMORY_EMPTY] = "empty", [MEMORY_ZEROS] = "zeros"};
    return number < sizeof names / sizeof *names ? names[number] : NULL;
}

const char *cluster_order_name(uint32_t number) {
    static const char *const names[] = {
        [CLUSTERS_REVERSED] = "reversed", [CLUSTERS_FORWARD] = "forward"};
    return number < sizeof names / sizeof *names ? names[number] : NULL;
}

const char *same_length_reach_name(uint32_t number) {
    static const char *const names[] = {
        [REACH_MEM_LEN] = "mem_len", [REACH_MEM_LEN_AND_1] = "mem_len + 1"};
    return number < sizeof names / sizeof *names ? names[number] : NULL;
}

#define PLACE(member) .place = offsetof(struct transformer_xl_settings, member)
#define PER_BAND .count = offsetof(struct transformer_xl_settings, n_band)

static const struct setting settings_table[] = {
    {"n_layer", SETTING_INTEGER, 1, MAX_N_LAYER, PLACE(n_layer), .help = "layers"},
    {"n_head", SETTING_INTEGER, 1, MAX_N_HEAD, PLACE(n_head), .help = "attention heads"},
    {"d_head", SETTING_INTEGER, 1, MAX_D_HEAD, PLACE(d_head), .help = "width of a head"},
    {"d_model", SETTING_INTEGER, 2, MAX_D_MODEL, PLACE(d_model), .help = "width of a layer"},
    {"d_embed", SETTING_INTEGER, 1, MAX_D_MODEL, PLACE(d_embed),
     .help = "width of the first band's embedding"},
    {"d_inner", SETTING_INTEGER, 1, MAX_D_INNER, PLACE(d_inner),
     .help = "width inside the feed-forward part"},
    {"attn_type", SETTING_INTEGER, ATTENTION_RELATIVE, ATTENTION_LEARNED_POSITION, PLACE(attn_type),
     .help = "0: sinusoid distances (the paper's); 1: learned distances; 2, 3: vanilla "
             "Transformers with sinusoid and with learned positions"},
    {"max_klen", SETTING_INTEGER, 1, MAX_KLEN, .optional = true, .left_out = true, PLACE(max_klen),
     .help = "rows of the learned positions (`attn_type` 1 and 3 only)"},
    {"pre_lnorm", SETTING_TRUTH, PLACE(pre_lnorm),
     .help = "whether layers normalise their input instead of their sum"},
    {"div_val", SETTING_INTEGER, 1, MAX_D_MODEL, PLACE(div_val),
     .help = "how much narrower each band's embedding is than the one before"},
    {"cutoffs", SETTING_CUTOFFS, PLACE(cutoff), PER_BAND,
     .help = "first ids of the bands after the first; `[]` for a plain softmax"},
    {"tied_weights", SETTING_TRUTH, PLACE(tied_weights),
     .help = "whether the softmax's weights are the embedding's"},
    {"tied_projections", SETTING_TRUTHS, .optional = true, PLACE(tied_projection), PER_BAND,
     .help = "for each band, whether the softmax's projection is the embedding's"},
    {"biases_per_layer", SETTING_TRUTH, .optional = true, PLACE(biases_per_layer),
     .help = "whether each layer has its own u (and v)"},
    {"memory_start", SETTING_WORD, .spelling = memory_start_name, .optional = true,
     PLACE(memory_start), .help = "what the memory holds before the first token"},
    {"cluster_order", SETTING_WORD, .spelling = cluster_order_name, .optional = true,
     PLACE(cluster_order), .help = "in which order the head has its entries of the other bands"},
    {"proj_same_dim", SETTING_TRUTH, .optional = true, .fallback = true, .left_out = true,
     PLACE(proj_same_dim),
     .help = "with `div_val` above 1, whether a band as wide as `d_model` has projections"},
    {"same_length_reach", SETTING_WORD, .spelling = same_length_reach_name, .optional = true,
     .fallback = REACH_MEM_LEN, .left_out = true, PLACE(same_length_reach),
     .help = "with `same_length`, how many positions a token sees, itself included"},
    {"layer_norm_eps", SETTING_REAL, 0, 1, .optional = true, .real_fallback = LAYER_NORM_EPS,
     .left_out = true, PLACE(layer_norm_eps), .help = "what layer norm adds to the variance"},
};

const struct setting_table transformer_xl_setting_table = {
    settings_table, sizeof settings_table / sizeof *settings_table};

#undef PLACE

int transformer_xl_band_tokens(const struct transformer_xl_settings *s, int i) {
    return (i + 1 < s->n_band ? s->cutoff[i] : s->model.n_token) - (i > 0 ? s->cutoff[i - 1] : 0);
}

int transformer_xl_band_width(const struct transformer_xl_settings *s, int i) {
    int width = s->d_embed;
    for (int k = 0; k < i && s->div_val > 1; k++)
        width /= s->div_val;
    return width;
}

/* Whether a band has projections: published code projects wherever widths differ, and if div_val >
 * 1 always but for proj_same_dim. */
static bool band_projects(const struct transformer_xl_settings *s, int i) {
    if (s->div_val == 1)
        return s->d_embed != s->d_model;
    return s->proj_same_dim || transformer_xl_band_width(s, i) != s->d_model;
}

/* Whether each band has projections that would have some without proj_same_dim. */
static bool all_project(const struct transformer_xl_settings *s) {
    for (int i = 0; i < s->n_band; i++)
        if (!band_projects(s, i))
            return false;
    return true;
}

txl_status transformer_xl_check(const void *settings, const char *name, txl_status failure,
                                txl_error *error) {
    const struct transformer_xl_settings *s = settings;
    enum attention_type attn_type = s->attn_type;
    if (s->d_model % 2)
        return txl_fail(error, failure, "%s: d_model is %d, an odd number", name, s->d_model);
    if (attn_type == ATTENTION_LEARNED_POSITION && s->n_head * s->d_head != s->d_model)
        return txl_fail(error, failure, "%s: %d heads of %d are not as wide as the model, %d", name,
                        s->n_head, s->d_head, s->d_model);
    if (attention_is_learned(attn_type) && s->max_klen == 0)
        return txl_fail(error, failure, "%s: setting \"max_klen\" is missing", name);
    if (transformer_xl_band_width(s, s->n_band - 1) == 0)
        return txl_fail(error, failure, "%s: div_val %d leaves band %d no width", name, s->div_val,
                        s->n_band - 1);
    if (!s->proj_same_dim && (s->div_val == 1 || all_project(s)))
        return txl_fail(error, failure, "%s: proj_same_dim is false, and no band is without", name);
    return TXL_OK;
}

/* ---- Parameters --------------------------------------------------------------------------- */

/* Sizes of tensors. */
enum {
    BAND_TOKENS, /* with div_val 1 one tensor has the whole vocabulary */
    BAND_WIDTH,
    CLUSTERS, /* bands after the first */
    WIDTH_0,  /* the first band's */
    MODEL,
    FREQUENCIES,
    INNER,
    HEADS, /* all heads side by side */
    QKV,
    KLEN,
    KLEN_HEADS
};

/* Conditions under which a parameter exists. */
enum {
    ALWAYS,
    OWN_BAND, /* the band has tensors of its own, or is the first and has those of all bands */
    OWN_BAND_PROJECTS,
    OWN_BAND_UNTIED,
    PROJECTS,
    SEVERAL_BANDS,
    SINUSOIDS,
    RELATIVE,
    LEARNED,
    LEARNED_DISTANCE,
    U_SHARED,
    V_SHARED,
    U_OWN,
    V_OWN
};

#define ENDS(kind, member)                                                                         \
    PARAMETER_GLOBAL, PARAMETER_##kind, USED_BY_BANDS,                                             \
        .place = offsetof(struct transformer_xl, network.bands.member)
#define GLOBAL(use, member)                                                                        \
    PARAMETER_GLOBAL, PARAMETER_VECTOR, use, .place = offsetof(struct transformer_xl, member)
#define LAYER_STRUCT struct layer

static const struct parameter parameters[N_TRANSFORMER_XL_PARAMETER] = {
    [EMBEDDING_WEIGHT] = {"embedding.*.weight", BAND(MATRIX, embedding),
                          MATRIX(BAND_TOKENS, BAND_WIDTH), .when = OWN_BAND},
    [EMBEDDING_PROJECTION] = {"embedding.*.projection", BAND(MATRIX, embedding_projection),
                              MATRIX(MODEL, BAND_WIDTH), .when = OWN_BAND_PROJECTS},
    [SOFTMAX_WEIGHT] = {"softmax.*.weight", BAND(MATRIX, softmax), MATRIX(BAND_TOKENS, BAND_WIDTH),
                        .when = OWN_BAND_UNTIED},
    [SOFTMAX_BIAS] = {"softmax.*.bias", BAND(VECTOR, softmax_bias), VECTOR(BAND_TOKENS),
                      .when = OWN_BAND},
    [SOFTMAX_PROJECTION] = {"softmax.*.projection", BAND(MATRIX, softmax_projection),
                            MATRIX(BAND_WIDTH, MODEL), .when = PROJECTS},
    [CLUSTER_WEIGHT] = {"softmax.cluster.weight", ENDS(MATRIX, cluster), MATRIX(CLUSTERS, WIDTH_0),
                        .when = SEVERAL_BANDS},
    [CLUSTER_BIAS] = {"softmax.cluster.bias", ENDS(VECTOR, cluster_bias), VECTOR(CLUSTERS),
                      .when = SEVERAL_BANDS},
    [INV_FREQ] = {"position.inv_freq", GLOBAL(USED_BY_POSITIONS, inv_freq), VECTOR(FREQUENCIES),
                  .when = SINUSOIDS},
    [SHARED_U] = {"attention.u", GLOBAL(USED_BY_TOKEN, u), VECTOR(HEADS), .when = U_SHARED},
    [SHARED_V] = {"attention.v", GLOBAL(USED_BY_TOKEN, v), VECTOR(HEADS), .when = V_SHARED},
    [ATTENTION_QKV] = {"layer.*.attention.qkv", LAYER(MATRIX, USED_BY_TOKEN, qkv),
                       MATRIX(QKV, MODEL)},
    [ATTENTION_O] = {"layer.*.attention.o", LAYER(MATRIX, USED_BY_TOKEN, o), MATRIX(MODEL, HEADS)},
    [ATTENTION_R] = {"layer.*.attention.r", LAYER(MATRIX, USED_BY_POSITIONS, r),
                     MATRIX(HEADS, MODEL), .when = RELATIVE},
    [ATTENTION_R_EMB] = {"layer.*.attention.r_emb", LAYER(POSITIONS, USED_BY_POSITIONS, r_emb),
                         MATRIX(KLEN, HEADS), .when = LEARNED},
    [ATTENTION_R_BIAS] = {"layer.*.attention.r_bias", LAYER(VECTOR, USED_BY_POSITIONS, r_bias),
                          VECTOR(KLEN_HEADS), .when = LEARNED_DISTANCE},
    [ATTENTION_U] = {"layer.*.attention.u", LAYER(VECTOR, USED_BY_TOKEN, u), VECTOR(HEADS),
                     .when = U_OWN},
    [ATTENTION_V] = {"layer.*.attention.v", LAYER(VECTOR, USED_BY_TOKEN, v), VECTOR(HEADS),
                     .when = V_OWN},
    NORM_ROWS(ATTENTION_NORM, "layer.*.attention.norm", attention_norm),
    LINEAR_ROWS(FEED_FORWARD_1, "layer.*.feed_forward.1", feed_forward_1, feed_forward_bias_1,
                INNER, MODEL),
    LINEAR_ROWS(FEED_FORWARD_2, "layer.*.feed_forward.2", feed_forward_2, feed_forward_bias_2,
                MODEL, INNER),
    NORM_ROWS(FEED_FORWARD_NORM, "layer.*.feed_forward.norm", feed_forward_norm),
};

static int count_parts(const void *settings, enum parameter_scope scope) {
    const struct transformer_xl_settings *s = settings;
    return scope == PARAMETER_BAND ? s->n_band : scope == PARAMETER_LAYER ? s->n_layer : 1;
}

static bool has_parameter(const void *settings, int when, int i) {
    const struct transformer_xl_settings *s = settings;
    const enum attention_type attn_type = s->attn_type;
    const bool own_band = i == 0 || s->div_val > 1;
    const bool relative = attn_type == ATTENTION_RELATIVE, per_layer = s->biases_per_layer;
    const bool has[] = {[ALWAYS] = true,
                        [OWN_BAND] = own_band,
                        [OWN_BAND_PROJECTS] = own_band && band_projects(s, i),
                        [OWN_BAND_UNTIED] = own_band && !s->tied_weights,
                        [PROJECTS] = band_projects(s, i),
                        [SEVERAL_BANDS] = s->n_band > 1,
                        [SINUSOIDS] = !attention_is_learned(attn_type),
                        [RELATIVE] = relative,
                        [LEARNED] = attention_is_learned(attn_type),
                        [LEARNED_DISTANCE] = attn_type == ATTENTION_LEARNED_DISTANCE,
                        [U_SHARED] = attention_is_relative(attn_type) && !per_layer,
                        [V_SHARED] = relative && !per_layer,
                        [U_OWN] = attention_is_relative(attn_type) && per_layer,
                        [V_OWN] = relative && per_layer};
    return has[when];
}

static uint64_t parameter_size(const void *settings, int size, int i) {
    const struct transformer_xl_settings *s = settings;
    const int heads = s->n_head * s->d_head;
    const int sizes[] = {[CLUSTERS] = s->n_band - 1, [WIDTH_0] = s->d_embed,
                         [MODEL] = s->d_model,       [FREQUENCIES] = s->d_model / 2,
                         [INNER] = s->d_inner,       [HEADS] = heads,
                         [QKV] = 3 * heads,          [KLEN] = s->max_klen};
    if (size == BAND_TOKENS)
        return (uint64_t)(s->div_val > 1 ? transformer_xl_band_tokens(s, i) : s->model.n_token);
    if (size == BAND_WIDTH)
        return (uint64_t)transformer_xl_band_width(s, i);
    return size == KLEN_HEADS ? (uint64_t)s->max_klen * (uint64_t)s->n_head : (uint64_t)sizes[size];
}

const struct parameter_table transformer_xl_parameters = {.parameter = parameters,
                                                          .n = N_TRANSFORMER_XL_PARAMETER,
                                                          .count = count_parts,
                                                          .has = has_parameter,
                                                          .size = parameter_size,
                                                          .layer_size = sizeof(struct layer)};
