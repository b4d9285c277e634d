/* Recognising an XLNet.  Shapes give the dimensions; config.json states the rest and must agree
 * with them.  The published names are those of a state dict of XLNetLMHeadModel. */
#include "lib/base/error.h"
#include "recognise.h"

#include <jansson.h>
#include <string.h>

/* The published pretraining's lengths, used if config.json states none. */
enum { TGT_LEN = 512, MEM_LEN = 384 };

/* ---- Statements of config.json ------------------------------------------------------------ */

static txl_status load_config(struct recognition *x) {
    txl_status status = config_file_load(x->path, x->config_name, &x->recognised->config_path,
                                         &x->config, x->error);
    x->stated_in = x->recognised->config_path;
    if (status || x->config)
        return status;
    if (!x->tensorflow || !x->options->activation)
        return txl_fail(x->error, TXL_ARGUMENT,
                        "%s: an XLNet without %s beside it, which states its ff_activation%s",
                        x->path, x->config_name,
                        x->tensorflow ? "; put it there, or add --activation"
                                      : ", attn_type, layer_norm_eps and clamp_len; put it there");
    x->config = json_object();
    return x->config ? TXL_OK : txl_fail_memory(x->error, "the settings", 4096);
}

/* A member of config.json; null counts as not stated, and is NULL. */
static const json_t *stated(const struct recognition *x, const char *key) {
    const json_t *value = json_object_get(x->config, key);
    return json_is_null(value) ? NULL : value;
}

/* Reads a number that config.json may state. */
static txl_status read_integer(const struct recognition *x, const char *key, int low, int high,
                               int *value) {
    const json_t *number = stated(x, key);
    json_int_t n = json_integer_value(number);
    if (number && (!json_is_integer(number) || n < low || n > high))
        return txl_fail(x->error, TXL_FORMAT, "%s: %s's %s is not an integer from %d to %d",
                        x->path, x->config_name, key, low, high);
    *value = number ? (int)n : *value;
    return TXL_OK;
}

static const char *read_word(const struct recognition *x, const char *key, const char *otherwise) {
    const json_t *word = stated(x, key);
    return !word ? otherwise : json_is_string(word) ? json_string_value(word) : "no string";
}

/* `gelu` is the form with tanh, which the published weights were trained with; later libraries read
 * the name as the form with erf. */
static txl_status read_activation(struct recognition *x) {
    static const struct {
        const char *config, *name;
    } names[] = {{"gelu", "gelu-tanh"},
                 {"gelu_new", "gelu-tanh"},
                 {"relu", "relu"},
                 {"swish", "swish"},
                 {"silu", "swish"}};
    const char *word = read_word(x, "ff_activation", "gelu"), *name = x->options->activation;
    for (size_t i = 0; !name && i < sizeof names / sizeof *names; i++)
        if (strcmp(word, names[i].config) == 0)
            name = names[i].name;
    x->recognised->settings.xlnet.ff_activation = setting_word(xlnet_activation_name, name);
    if (x->recognised->settings.xlnet.ff_activation >= 0)
        return TXL_OK;
    return txl_fail(x->error, TXL_UNSUPPORTED,
                    "%s: ff_activation is \"%s\"; txl runs gelu, gelu_new, relu, swish and silu",
                    x->path, word);
}

static txl_status read_attention(struct recognition *x) {
    const char *word = read_word(x, "attn_type", "bi");
    int number = setting_word(xlnet_attention_name, word);
    if (number < 0)
        return txl_fail(x->error, TXL_UNSUPPORTED, "%s: attn_type is \"%s\"; txl runs bi and uni",
                        x->path, word);
    x->recognised->settings.xlnet.attn_type = (enum xlnet_attention)number;
    return TXL_OK;
}

static txl_status read_epsilon(struct recognition *x) {
    const json_t *number = json_object_get(x->config, "layer_norm_eps");
    double epsilon = json_is_number(number) ? json_number_value(number) : 1e-12;
    x->recognised->settings.xlnet.layer_norm_eps = epsilon;
    if ((!number || json_is_number(number)) && epsilon >= 0 && epsilon <= 1)
        return TXL_OK;
    return txl_fail(x->error, TXL_FORMAT, "%s: %s's layer_norm_eps is not from 0 to 1", x->path,
                    x->config_name);
}

static txl_status read_lengths(struct recognition *x) {
    const struct convert_options *o = x->options;
    struct model_settings *s = &x->recognised->settings.model;
    s->tgt_len = o->tgt_len >= 0 ? o->tgt_len : TGT_LEN;
    s->mem_len = MEM_LEN;
    s->clamp_len = -1;
    txl_status status = read_integer(x, "mem_len", 0, TXL_MAX_MEM_LEN, &s->mem_len);
    if (!status)
        status = read_integer(x, "clamp_len", -1, INT32_MAX, &s->clamp_len);
    if (status)
        return status;
    s->mem_len = o->mem_len >= 0 ? o->mem_len : s->mem_len;
    s->clamp_len = o->has_clamp_len ? o->clamp_len : s->clamp_len;
    s->clamp_len = s->clamp_len > 0 ? s->clamp_len : -1;
    s->same_length = json_is_true(json_object_get(x->config, "same_length"));
    if (s->tgt_len < 1 || s->tgt_len > TXL_MAX_TGT_LEN || s->mem_len > TXL_MAX_MEM_LEN)
        return txl_fail(x->error, TXL_ARGUMENT,
                        "tgt_len %d and mem_len %d are not from 1 to %d and from 0 to %d",
                        s->tgt_len, s->mem_len, TXL_MAX_TGT_LEN, TXL_MAX_MEM_LEN);
    return TXL_OK;
}

/* ---- Facts that shapes show --------------------------------------------------------------- */

/* ALXLNet's layers share their weights. */
static txl_status refuse_shared_layers(struct recognition *x) {
    json_int_t n_layer = json_integer_value(json_object_get(x->config, "n_layer"));
    if (!x->tensorflow || names_count(x->names, XLNET_QKV) > 1 || n_layer <= 1)
        return TXL_OK;
    return txl_fail(x->error, TXL_UNSUPPORTED,
                    "%s: %d layers that share their weights, an ALXLNet, which txl does not run; "
                    "convert an XLNet",
                    x->path, (int)n_layer);
}

/* xlnet_config.json's untie_r must agree with the shape of the biases. */
static txl_status check_biases(struct recognition *x) {
    const json_t *untied = json_object_get(x->config, "untie_r");
    bool per_layer = names_which(x->names, XLNET_U, 0) == 0;
    if (!x->tensorflow || !json_is_boolean(untied) || json_is_true(untied) == per_layer)
        return TXL_OK;
    return txl_fail(x->error, TXL_FORMAT, "%s: xlnet_config.json's untie_r is %s, but %s is %s",
                    x->path, per_layer ? "false" : "true", names_usual(x->names, XLNET_U, 0).text,
                    per_layer ? "one for each layer" : "one for all layers");
}

static txl_status state_dimension(const struct recognition *x, const char *key, int *value) {
    return read_integer(x, key, 0, INT32_MAX, value);
}

static txl_status read_shapes(struct recognition *x) {
    struct xlnet_settings *s = &x->recognised->settings.xlnet;
    struct checkpoint_tensor embedding, query, inner;
    txl_status status = names_need(x->names, XLNET_EMBEDDING, 0, &embedding, x->error);
    if (!status)
        status = names_need(x->names, XLNET_QKV, 0, &query, x->error);
    if (!status)
        status = names_need(x->names, XLNET_FEED_FORWARD_1_WEIGHT, 0, &inner, x->error);
    if (status)
        return status;
    s->model.n_token = (int)embedding.shape[0];
    s->d_model = (int)embedding.shape[1];
    s->n_head = (int)query.shape[0];
    s->d_head = (int)query.shape[1];
    s->d_inner = (int)inner.shape[0];
    s->n_layer = names_count(x->names, XLNET_QKV);
    return recognise_dimensions(x, state_dimension);
}

static txl_status find_ties(struct recognition *x) {
    return names_tied(x->names, XLNET_EMBEDDING, 0, XLNET_SOFTMAX, 0, false,
                      &x->recognised->settings.xlnet.tied_weights, x->error);
}

/* ---- Refusals ----------------------------------------------------------------------------- */

/* The task of a fine-tuned XLNet by the names of its tensors; NULL if none shows one. */
static const char *fine_tuned_for(const struct checkpoint *checkpoint) {
    static const struct {
        const char *part, *task;
    } heads[] = {{"logits_proj.", "classification"},
                 {"sequnece_summary/", "classification"}, /* so in the authors' code */
                 {"classification_", "classification"},
                 {"regression_", "regression"},
                 {"start_logits/", "answering questions"},
                 {"sequence_summary.", "classification"},
                 {"qa_outputs.", "answering questions"},
                 {"start_logits.", "answering questions"},
                 {"classifier.", "classification"}};
    for (size_t i = 0; i < checkpoint_n_tensor(checkpoint); i++) {
        for (size_t k = 0; k < sizeof heads / sizeof *heads; k++)
            if (strstr(checkpoint_tensor_at(checkpoint, i)->name, heads[k].part))
                return heads[k].task;
    }
    return NULL;
}

static txl_status refuse_headless(struct recognition *x) {
    const char *task = fine_tuned_for(x->names->checkpoint);
    if (names_own(x->names, XLNET_SOFTMAX_BIAS, 0))
        return TXL_OK;
    return txl_fail(x->error, TXL_UNSUPPORTED,
                    "%s: an XLNet without tensor %s%s%s: it is no language model; convert the "
                    "model that it was made from (for example %s)",
                    x->path, names_usual(x->names, XLNET_SOFTMAX_BIAS, 0).text,
                    task ? ", fine-tuned for " : "", task ? task : "",
                    x->tensorflow ? "xlnet_cased_L-12_H-768_A-12"
                                  : "xlnet-base-cased, saved from XLNetLMHeadModel");
}

/* ---- All of it ---------------------------------------------------------------------------- */

recognition_step *const xlnet_steps[] = {
    refuse_headless, load_config,  refuse_shared_layers, check_biases, read_shapes, read_activation,
    read_attention,  read_epsilon, read_lengths,         find_ties,    NULL};
