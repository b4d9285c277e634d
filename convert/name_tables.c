/* The tables of published names.  PyTorch: the module and state dict of the published code, and
 * Hugging Face's, whose prefixes differ.  TensorFlow: the variables of the authors' own code, whose
 * dense kernels take rows of inputs. */
#include "lib/transformer_xl/family.h"
#include "lib/transformer_xl/parameters.h"
#include "lib/xlnet/family.h"
#include "lib/xlnet/parameters.h"
#include "names.h"

#define PYTORCH(...) [DIALECT_PYTORCH] = {__VA_ARGS__}
#define TENSORFLOW(...) [DIALECT_TENSORFLOW] = {__VA_ARGS__}
#define IS(name)                                                                                   \
    {                                                                                              \
        .piece = { {name} }                                                                        \
    }
#define SHAPED(name, shape)                                                                        \
    {                                                                                              \
        .piece = { {name, shape} }                                                                 \
    }
#define BY_RANK(name, shape)                                                                       \
    { .piece = {{name, shape}}, .by_rank = true }
#define TRANSPOSED(name)                                                                           \
    { .piece = {{name}}, .transposed = true }
#define ALL_BANDS(name, shape)                                                                     \
    { .piece = {{name, shape}}, .all_bands = true }

/* ---- Transformer-XL ----------------------------------------------------------------------- */

/* Of two tied tensors, safetensors files keep one.  With div_val 1 one embedding projection serves
 * all bands. */
static const struct names_row transformer_xl_rows[N_TRANSFORMER_XL_PARAMETER] = {
    [EMBEDDING_WEIGHT] = {{PYTORCH(IS("word_emb.emb_layers.*.weight"),
                                   IS("crit.out_layers.*.weight")),
                           TENSORFLOW(IS("adaptive_embed/cutoff_*/lookup_table"),
                                      IS("adaptive_embed/lookup_table"))}},
    [EMBEDDING_PROJECTION] = {{PYTORCH(IS("word_emb.emb_projs.*"), IS("crit.out_projs.*")),
                               TENSORFLOW(TRANSPOSED("adaptive_embed/cutoff_*/proj_W"),
                                          TRANSPOSED("adaptive_embed/proj_W"))}},
    [SOFTMAX_WEIGHT] = {{PYTORCH(IS("crit.out_layers.*.weight"),
                                 IS("word_emb.emb_layers.*.weight"))}},
    [SOFTMAX_BIAS] = {{PYTORCH(IS("crit.out_layers.*.bias")),
                       TENSORFLOW(ALL_BANDS("adaptive_softmax/cutoff_*/b", "B"),
                                  IS("adaptive_softmax/cutoff_*/b"), IS("adaptive_softmax/bias"))}},
    [SOFTMAX_PROJECTION] = {{PYTORCH(TRANSPOSED("crit.out_projs.*"),
                                     TRANSPOSED("word_emb.emb_projs.*"),
                                     TRANSPOSED("word_emb.emb_projs.0")),
                             TENSORFLOW(IS("adaptive_softmax/cutoff_*/proj"),
                                        IS("adaptive_embed/cutoff_*/proj_W"),
                                        IS("adaptive_embed/proj_W"))}},
    [CLUSTER_WEIGHT] = {{PYTORCH(IS("crit.cluster_weight")),
                         TENSORFLOW(IS("adaptive_softmax/cutoff_0/cluster_W"))}},
    [CLUSTER_BIAS] = {{PYTORCH(IS("crit.cluster_bias")),
                       TENSORFLOW(IS("adaptive_softmax/cutoff_0/cluster_b"))}},
    [INV_FREQ] = {{PYTORCH(IS("pos_emb.inv_freq"))}},
    [SHARED_U] = {{PYTORCH(SHAPED("r_w_bias", "HE")), TENSORFLOW(BY_RANK("r_w_bias", "HE"))}},
    [SHARED_V] = {{PYTORCH(SHAPED("r_r_bias", "HE")), TENSORFLOW(BY_RANK("r_r_bias", "HE"))}},
    /* The vanilla attention types have queries apart from keys and values. */
    [ATTENTION_QKV] = {{PYTORCH(IS("layers.*.dec_attn.qkv_net.weight"),
                                {.piece = {{"layers.*.dec_attn.q_net.weight", "QM"},
                                           {"layers.*.dec_attn.kv_net.weight", "PM"}}}),
                        TENSORFLOW(TRANSPOSED("layer_*/rel_attn/qkv/kernel"))}},
    [ATTENTION_O] = {{PYTORCH(IS("layers.*.dec_attn.o_net.weight")),
                      TENSORFLOW(TRANSPOSED("layer_*/rel_attn/o/kernel"))}},
    [ATTENTION_R] = {{PYTORCH(IS("layers.*.dec_attn.r_net.weight")),
                      TENSORFLOW(TRANSPOSED("layer_*/rel_attn/r/kernel"))}},
    [ATTENTION_R_EMB] = {{PYTORCH(SHAPED("r_emb", "LKHE"))}},
    [ATTENTION_R_BIAS] = {{PYTORCH(SHAPED("r_bias", "LKH"))}},
    [ATTENTION_U] = {{PYTORCH(SHAPED("layers.*.dec_attn.r_w_bias", "HE"),
                              BY_RANK("r_w_bias", "LHE")),
                      TENSORFLOW(BY_RANK("r_w_bias", "LHE"))}},
    [ATTENTION_V] = {{PYTORCH(SHAPED("layers.*.dec_attn.r_r_bias", "HE")),
                      TENSORFLOW(BY_RANK("r_r_bias", "LHE"))}},
    [ATTENTION_NORM_WEIGHT] = {{PYTORCH(IS("layers.*.dec_attn.layer_norm.weight")),
                                TENSORFLOW(IS("layer_*/rel_attn/LayerNorm/gamma"))}},
    [ATTENTION_NORM_BIAS] = {{PYTORCH(IS("layers.*.dec_attn.layer_norm.bias")),
                              TENSORFLOW(IS("layer_*/rel_attn/LayerNorm/beta"))}},
    [FEED_FORWARD_1_WEIGHT] = {{PYTORCH(IS("layers.*.pos_ff.CoreNet.0.weight")),
                                TENSORFLOW(TRANSPOSED("layer_*/ff/layer_1/kernel"))}},
    [FEED_FORWARD_1_BIAS] = {{PYTORCH(IS("layers.*.pos_ff.CoreNet.0.bias")),
                              TENSORFLOW(IS("layer_*/ff/layer_1/bias"))}},
    [FEED_FORWARD_2_WEIGHT] = {{PYTORCH(IS("layers.*.pos_ff.CoreNet.3.weight")),
                                TENSORFLOW(TRANSPOSED("layer_*/ff/layer_2/kernel"))}},
    [FEED_FORWARD_2_BIAS] = {{PYTORCH(IS("layers.*.pos_ff.CoreNet.3.bias")),
                              TENSORFLOW(IS("layer_*/ff/layer_2/bias"))}},
    [FEED_FORWARD_NORM_WEIGHT] = {{PYTORCH(IS("layers.*.pos_ff.layer_norm.weight")),
                                   TENSORFLOW(IS("layer_*/ff/LayerNorm/gamma"))}},
    [FEED_FORWARD_NORM_BIAS] = {{PYTORCH(IS("layers.*.pos_ff.layer_norm.bias")),
                                 TENSORFLOW(IS("layer_*/ff/LayerNorm/beta"))}},
};

static const struct dialect transformer_xl_dialects[] = {
    {DIALECT_PYTORCH, .mark = "layers.0.dec_attn.o_net.weight", .head = "crit.",
     .body = "transformer."},
    {DIALECT_TENSORFLOW, .mark = "layer_0/rel_attn/qkv/kernel", .head = "", .body = ""},
};

static uint64_t transformer_xl_size(const void *settings, char letter, int i) {
    const struct transformer_xl_settings *s = settings;
    switch (letter) {
    case 'L':
        return (uint64_t)s->n_layer;
    case 'M':
        return (uint64_t)s->d_model;
    case 'H':
        return (uint64_t)s->n_head;
    case 'E':
        return (uint64_t)s->d_head;
    case 'Q':
        return (uint64_t)(s->n_head * s->d_head);
    case 'P': /* keys and values */
        return 2 * (uint64_t)(s->n_head * s->d_head);
    case 'K':
        return (uint64_t)s->max_klen;
    default: /* 'B' */
        return (uint64_t)transformer_xl_band_tokens(s, i);
    }
}

const struct name_table transformer_xl_names = {.family = &transformer_xl_family,
                                                .dialect = transformer_xl_dialects,
                                                .n_dialect = sizeof transformer_xl_dialects /
                                                             sizeof *transformer_xl_dialects,
                                                .row = transformer_xl_rows,
                                                .size = transformer_xl_size};

/* ---- XLNet -------------------------------------------------------------------------------- */

/* Projections W[d_model, n_head, d_head] take inputs to outputs, but the rows of `o` are outputs.
 */
#define PROJECTION(name)                                                                           \
    { .piece = {{name, "MHE"}}, .transposed = true }

#define THREE(start, end)                                                                          \
    {                                                                                              \
        .piece = {{start "q" end, "MHE"}, {start "k" end, "MHE"}, {start "v" end, "MHE"}},         \
        .transposed = true                                                                         \
    }

static const struct names_row xlnet_rows[N_XLNET_PARAMETER] = {
    [XLNET_EMBEDDING] = {{PYTORCH(IS("word_embedding.weight")),
                          TENSORFLOW(IS("word_embedding/lookup_table"))}},
    [XLNET_SOFTMAX] = {{PYTORCH(IS("lm_loss.weight")), TENSORFLOW(IS("lm_loss/weight"))}},
    [XLNET_SOFTMAX_BIAS] = {{PYTORCH(IS("lm_loss.bias")), TENSORFLOW(IS("lm_loss/bias"))}},
    [XLNET_MASK] = {{PYTORCH(SHAPED("mask_emb", "11M")),
                     TENSORFLOW(SHAPED("mask_emb/mask_emb", "11M"))}},
    [XLNET_QKV] = {{PYTORCH(THREE("layer.*.rel_attn.", "")),
                    TENSORFLOW(THREE("layer_*/rel_attn/", "/kernel"))}},
    [XLNET_O] = {{PYTORCH(SHAPED("layer.*.rel_attn.o", "MHE")),
                  TENSORFLOW(SHAPED("layer_*/rel_attn/o/kernel", "MHE"))}},
    [XLNET_R] = {{PYTORCH(PROJECTION("layer.*.rel_attn.r")),
                  TENSORFLOW(PROJECTION("layer_*/rel_attn/r/kernel"))}},
    [XLNET_U] = {{PYTORCH(SHAPED("layer.*.rel_attn.r_w_bias", "HE")),
                  TENSORFLOW(BY_RANK("r_w_bias", "LHE"), BY_RANK("r_w_bias", "HE"))}},
    [XLNET_V] = {{PYTORCH(SHAPED("layer.*.rel_attn.r_r_bias", "HE")),
                  TENSORFLOW(BY_RANK("r_r_bias", "LHE"), BY_RANK("r_r_bias", "HE"))}},
    [XLNET_S] = {{PYTORCH(SHAPED("layer.*.rel_attn.r_s_bias", "HE")),
                  TENSORFLOW(BY_RANK("r_s_bias", "LHE"), BY_RANK("r_s_bias", "HE"))}},
    [XLNET_SEGMENT] = {{PYTORCH(SHAPED("layer.*.rel_attn.seg_embed", "2HE")),
                        TENSORFLOW(SHAPED("seg_embed", "L2HE"))}},
    [XLNET_ATTENTION_NORM_WEIGHT] = {{PYTORCH(IS("layer.*.rel_attn.layer_norm.weight")),
                                      TENSORFLOW(IS("layer_*/rel_attn/LayerNorm/gamma"))}},
    [XLNET_ATTENTION_NORM_BIAS] = {{PYTORCH(IS("layer.*.rel_attn.layer_norm.bias")),
                                    TENSORFLOW(IS("layer_*/rel_attn/LayerNorm/beta"))}},
    [XLNET_FEED_FORWARD_1_WEIGHT] = {{PYTORCH(IS("layer.*.ff.layer_1.weight")),
                                      TENSORFLOW(TRANSPOSED("layer_*/ff/layer_1/kernel"))}},
    [XLNET_FEED_FORWARD_1_BIAS] = {{PYTORCH(IS("layer.*.ff.layer_1.bias")),
                                    TENSORFLOW(IS("layer_*/ff/layer_1/bias"))}},
    [XLNET_FEED_FORWARD_2_WEIGHT] = {{PYTORCH(IS("layer.*.ff.layer_2.weight")),
                                      TENSORFLOW(TRANSPOSED("layer_*/ff/layer_2/kernel"))}},
    [XLNET_FEED_FORWARD_2_BIAS] = {{PYTORCH(IS("layer.*.ff.layer_2.bias")),
                                    TENSORFLOW(IS("layer_*/ff/layer_2/bias"))}},
    [XLNET_FEED_FORWARD_NORM_WEIGHT] = {{PYTORCH(IS("layer.*.ff.layer_norm.weight")),
                                         TENSORFLOW(IS("layer_*/ff/LayerNorm/gamma"))}},
    [XLNET_FEED_FORWARD_NORM_BIAS] = {{PYTORCH(IS("layer.*.ff.layer_norm.bias")),
                                       TENSORFLOW(IS("layer_*/ff/LayerNorm/beta"))}},
};

static const struct dialect xlnet_dialects[] = {
    {DIALECT_PYTORCH, .mark = "layer.0.rel_attn.q", .head = "lm_loss.", .body = "transformer."},
    {DIALECT_TENSORFLOW, .mark = "layer_0/rel_attn/q/kernel", .head = "lm_loss/",
     .body = "transformer/"},
};

static uint64_t xlnet_size(const void *settings, char letter, int i) {
    const struct xlnet_settings *s = settings;
    (void)i;
    switch (letter) {
    case 'L':
        return (uint64_t)s->n_layer;
    case 'M':
        return (uint64_t)s->d_model;
    case 'H':
        return (uint64_t)s->n_head;
    default: /* 'E' */
        return (uint64_t)s->d_head;
    }
}

const struct name_table xlnet_names = {.family = &xlnet_family,
                                       .dialect = xlnet_dialects,
                                       .n_dialect = sizeof xlnet_dialects / sizeof *xlnet_dialects,
                                       .row = xlnet_rows,
                                       .size = xlnet_size};
