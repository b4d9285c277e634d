/* The tables of published names.  PyTorch: the module and state dict of the published code, and
 * Hugging Face's, whose prefixes differ.  NVIDIA: the state dict of DeepLearningExamples.
 * TensorFlow: the variables of the authors' own code, whose dense kernels take rows of inputs. */
#include "lib/network/family.h"
#include "lib/transformer_xl/parameters.h"
#include "lib/xlnet/parameters.h"
#include "names.h"

#define NVIDIA(...) [DIALECT_NVIDIA] = {__VA_ARGS__}
#define PYTORCH(...) [DIALECT_PYTORCH] = {__VA_ARGS__}
#define TENSORFLOW(...) [DIALECT_TENSORFLOW] = {__VA_ARGS__}
#define HEADS(...)                                                                                 \
    (const char *const[]) {                                                                        \
        __VA_ARGS__, NULL                                                                          \
    }
#define THEN(...)                                                                                  \
    &(const struct origin) {                                                                       \
        __VA_ARGS__                                                                                \
    }

/* The rows of a linear layer with a bias, and of a layer norm. */
#define LINEAR(number, pytorch, tensorflow)                                                        \
    [number##_WEIGHT] = {PYTORCH({pytorch ".weight"}),                                             \
                         TENSORFLOW({tensorflow "/kernel", NULL, TRANSPOSED})},                    \
    [number##_BIAS] = {PYTORCH({pytorch ".bias"}), TENSORFLOW({tensorflow "/bias"})}
#define NORM(number, pytorch, tensorflow)                                                          \
    [number##_WEIGHT] = {PYTORCH({pytorch ".layer_norm.weight"}),                                  \
                         TENSORFLOW({tensorflow "/LayerNorm/gamma"})},                             \
    [number##_BIAS] = {PYTORCH({pytorch ".layer_norm.bias"}),                                      \
                       TENSORFLOW({tensorflow "/LayerNorm/beta"})}

/* A layer of a head, which PyTorch's dialect alone has. */
#define HEAD_LINEAR(number, pytorch)                                                               \
    [number##_WEIGHT] = {PYTORCH({pytorch ".weight"})},                                            \
    [number##_BIAS] = {PYTORCH({pytorch ".bias"})}

/* ---- Transformer-XL ----------------------------------------------------------------------- */

/* Of two tied tensors, safetensors files keep one.  With div_val 1 one embedding projection serves
 * all bands. */
static const names_row transformer_xl_rows[N_TRANSFORMER_XL_PARAMETER] = {
    [EMBEDDING_WEIGHT] = {PYTORCH({"word_emb.emb_layers.*.weight"}, {"crit.out_layers.*.weight"}),
                          TENSORFLOW({"adaptive_embed/cutoff_*/lookup_table"},
                                     {"adaptive_embed/lookup_table"})},
    [EMBEDDING_PROJECTION] = {PYTORCH({"word_emb.emb_projs.*"}, {"crit.out_projs.*"}),
                              TENSORFLOW({"adaptive_embed/cutoff_*/proj_W", NULL, TRANSPOSED},
                                         {"adaptive_embed/proj_W", NULL, TRANSPOSED})},
    [SOFTMAX_WEIGHT] = {NVIDIA({"crit.out_layers_weights.*"}, {"word_emb.emb_layers.*.weight"}),
                        PYTORCH({"crit.out_layers.*.weight"}, {"word_emb.emb_layers.*.weight"})},
    [SOFTMAX_BIAS] = {NVIDIA({"crit.out_layers_biases.*"}), PYTORCH({"crit.out_layers.*.bias"}),
                      TENSORFLOW({"adaptive_softmax/cutoff_*/b", "B", ALL_BANDS},
                                 {"adaptive_softmax/cutoff_*/b"}, {"adaptive_softmax/bias"})},
    [SOFTMAX_PROJECTION] = {PYTORCH({"crit.out_projs.*", NULL, TRANSPOSED},
                                    {"word_emb.emb_projs.*", NULL, TRANSPOSED},
                                    {"word_emb.emb_projs.0", NULL, TRANSPOSED}),
                            TENSORFLOW({"adaptive_softmax/cutoff_*/proj"},
                                       {"adaptive_embed/cutoff_*/proj_W"},
                                       {"adaptive_embed/proj_W"})},
    [CLUSTER_WEIGHT] = {PYTORCH({"crit.cluster_weight"}),
                        TENSORFLOW({"adaptive_softmax/cutoff_0/cluster_W"})},
    [CLUSTER_BIAS] = {PYTORCH({"crit.cluster_bias"}),
                      TENSORFLOW({"adaptive_softmax/cutoff_0/cluster_b"})},
    [INV_FREQ] = {PYTORCH({"pos_emb.inv_freq"}, {.flags = FREQUENCIES}),
                  TENSORFLOW({.flags = FREQUENCIES})},
    [SHARED_U] = {PYTORCH({"r_w_bias", "HE"}), TENSORFLOW({"r_w_bias", "HE", BY_RANK})},
    [SHARED_V] = {PYTORCH({"r_r_bias", "HE"}), TENSORFLOW({"r_r_bias", "HE", BY_RANK})},
    /* The vanilla attention types have queries apart from keys and values. */
    [ATTENTION_QKV] = {PYTORCH({"layers.*.dec_attn.qkv_net.weight"},
                               {"layers.*.dec_attn.q_net.weight", "QM", 0,
                                THEN("layers.*.dec_attn.kv_net.weight", "PM")}),
                       TENSORFLOW({"layer_*/rel_attn/qkv/kernel", NULL, TRANSPOSED})},
    [ATTENTION_O] = {PYTORCH({"layers.*.dec_attn.o_net.weight"}),
                     TENSORFLOW({"layer_*/rel_attn/o/kernel", NULL, TRANSPOSED})},
    [ATTENTION_R] = {PYTORCH({"layers.*.dec_attn.r_net.weight"}),
                     TENSORFLOW({"layer_*/rel_attn/r/kernel", NULL, TRANSPOSED})},
    [ATTENTION_R_EMB] = {PYTORCH({"r_emb", "LKHE"})},
    [ATTENTION_R_BIAS] = {PYTORCH({"r_bias", "LKH"})},
    [ATTENTION_U] = {PYTORCH({"layers.*.dec_attn.r_w_bias", "HE"}, {"r_w_bias", "LHE", BY_RANK}),
                     TENSORFLOW({"r_w_bias", "LHE", BY_RANK})},
    [ATTENTION_V] = {PYTORCH({"layers.*.dec_attn.r_r_bias", "HE"}),
                     TENSORFLOW({"r_r_bias", "LHE", BY_RANK})},
    NORM(ATTENTION_NORM, "layers.*.dec_attn", "layer_*/rel_attn"),
    LINEAR(FEED_FORWARD_1, "layers.*.pos_ff.CoreNet.0", "layer_*/ff/layer_1"),
    LINEAR(FEED_FORWARD_2, "layers.*.pos_ff.CoreNet.3", "layer_*/ff/layer_2"),
    NORM(FEED_FORWARD_NORM, "layers.*.pos_ff", "layer_*/ff"),
};

static uint64_t transformer_xl_size(const void *settings, char letter, int i) {
    const struct transformer_xl_settings *s = settings;
    const int heads = s->n_head * s->d_head;
    const int size[] = {
        ['L'] = s->n_layer, ['M'] = s->d_model, ['H'] = s->n_head,
        ['E'] = s->d_head,  ['Q'] = heads,      ['P'] = 2 * heads, /* keys and values */
        ['K'] = s->max_klen};
    return (uint64_t)(letter == 'B' ? transformer_xl_band_tokens(s, i) : size[(int)letter]);
}

const struct name_table transformer_xl_names = {
    .family = &transformer_xl_family,
    .dialect = {[DIALECT_NVIDIA] = {.mark = "crit.out_layers_biases.0",
                                    .heads = HEADS("crit."),
                                    .body = "transformer."},
                [DIALECT_PYTORCH] = {.mark = "layers.0.dec_attn.o_net.weight",
                                     .heads = HEADS("crit."),
                                     .body = "transformer."},
                [DIALECT_TENSORFLOW] = {.mark = "layer_0/rel_attn/qkv/kernel",
                                        .heads = HEADS(""),
                                        .body = ""}},
    .row = transformer_xl_rows,
    .size = transformer_xl_size};

/* ---- XLNet -------------------------------------------------------------------------------- */

/* Projections W[d_model, n_head, d_head] take inputs to outputs, but the rows of `o` are outputs.
 */
static const names_row xlnet_rows[N_XLNET_PARAMETER] = {
    [XLNET_EMBEDDING] = {PYTORCH({"word_embedding.weight"}),
                         TENSORFLOW({"word_embedding/lookup_table"})},
    [XLNET_SOFTMAX] = {PYTORCH({"lm_loss.weight"}), TENSORFLOW({"lm_loss/weight"})},
    [XLNET_SOFTMAX_BIAS] = {PYTORCH({"lm_loss.bias"}), TENSORFLOW({"lm_loss/bias"})},
    [XLNET_MASK] = {PYTORCH({"mask_emb", "11M"}), TENSORFLOW({"mask_emb/mask_emb", "11M"})},
    HEAD_LINEAR(XLNET_SUMMARY, "sequence_summary.summary"),
    /* Where a checkpoint has several heads, the first is taken. */
    [XLNET_HEAD_WEIGHT] = {PYTORCH({"start_logits.dense.weight"}, {"qa_outputs.weight"},
                                   {"classifier.weight"}, {"logits_proj.weight"})},
    [XLNET_HEAD_BIAS] = {PYTORCH({"start_logits.dense.bias"}, {"qa_outputs.bias"},
                                 {"classifier.bias"}, {"logits_proj.bias"})},
    HEAD_LINEAR(XLNET_END_HIDDEN, "end_logits.dense_0"),
    HEAD_LINEAR(XLNET_END_NORM, "end_logits.LayerNorm"),
    HEAD_LINEAR(XLNET_END, "end_logits.dense_1"),
    HEAD_LINEAR(XLNET_ANSWER_HIDDEN, "answer_class.dense_0"),
    [XLNET_ANSWER_WEIGHT] = {PYTORCH({"answer_class.dense_1.weight"})},
    [XLNET_QKV] = {PYTORCH({"layer.*.rel_attn.q", "MHE", TRANSPOSED,
                            THEN("layer.*.rel_attn.k", "MHE", TRANSPOSED,
                                 THEN("layer.*.rel_attn.v", "MHE", TRANSPOSED))}),
                   TENSORFLOW({"layer_*/rel_attn/q/kernel", "MHE", TRANSPOSED,
                               THEN("layer_*/rel_attn/k/kernel", "MHE", TRANSPOSED,
                                    THEN("layer_*/rel_attn/v/kernel", "MHE", TRANSPOSED))})},
    [XLNET_O] = {PYTORCH({"layer.*.rel_attn.o", "MHE"}),
                 TENSORFLOW({"layer_*/rel_attn/o/kernel", "MHE"})},
    [XLNET_R] = {PYTORCH({"layer.*.rel_attn.r", "MHE", TRANSPOSED}),
                 TENSORFLOW({"layer_*/rel_attn/r/kernel", "MHE", TRANSPOSED})},
    [XLNET_U] = {PYTORCH({"layer.*.rel_attn.r_w_bias", "HE"}),
                 TENSORFLOW({"r_w_bias", "LHE", BY_RANK}, {"r_w_bias", "HE", BY_RANK})},
    [XLNET_V] = {PYTORCH({"layer.*.rel_attn.r_r_bias", "HE"}),
                 TENSORFLOW({"r_r_bias", "LHE", BY_RANK}, {"r_r_bias", "HE", BY_RANK})},
    /* Segments play no part in a language model: one trained without them lacks these. */
    [XLNET_S] = {PYTORCH({"layer.*.rel_attn.r_s_bias", "HE"}),
                 TENSORFLOW({"r_s_bias", "LHE", BY_RANK}, {"r_s_bias", "HE", BY_RANK},
                            {.flags = ZEROS})},
    [XLNET_SEGMENT] = {PYTORCH({"layer.*.rel_attn.seg_embed", "2HE"}),
                       TENSORFLOW({"seg_embed", "L2HE"}, {.flags = ZEROS})},
    NORM(XLNET_ATTENTION_NORM, "layer.*.rel_attn", "layer_*/rel_attn"),
    LINEAR(XLNET_FEED_FORWARD_1, "layer.*.ff.layer_1", "layer_*/ff/layer_1"),
    LINEAR(XLNET_FEED_FORWARD_2, "layer.*.ff.layer_2", "layer_*/ff/layer_2"),
    NORM(XLNET_FEED_FORWARD_NORM, "layer.*.ff", "layer_*/ff"),
};

static uint64_t xlnet_size(const void *settings, char letter, int i) {
    const struct xlnet_settings *s = settings;
    const int size[] = {['1'] = 1,          ['2'] = 2,         ['L'] = s->n_layer,
                        ['M'] = s->d_model, ['H'] = s->n_head, ['E'] = s->d_head};
    (void)i;
    return (uint64_t)size[(int)letter];
}

const struct name_table xlnet_names = {
    .family = &xlnet_family,
    .dialect = {[DIALECT_PYTORCH] = {.mark = "layer.0.rel_attn.q",
                                     .heads = HEADS("lm_loss.", "sequence_summary.", "logits_proj.",
                                                    "classifier.", "qa_outputs.", "start_logits.",
                                                    "end_logits.", "answer_class."),
                                     .body = "transformer."},
                [DIALECT_TENSORFLOW] = {.mark = "layer_0/rel_attn/q/kernel",
                                        .heads = HEADS("lm_loss/"),
                                        .body = "transformer/"}},
    .row = xlnet_rows,
    .size = xlnet_size};
