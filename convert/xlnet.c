/* Recognising an XLNet.  Shapes give the dimensions; config.json states the rest and must agree
 * with them.  The published names are those of a state dict of XLNetLMHeadModel. */
#include "config_file.h"
#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "recognise.h"

#include <jansson.h>
#include <string.h>

/* The published pretraining's lengths, used if config.json states none. */
enum { TGT_LEN = 512, MEM_LEN = 384 };

/* ---- What config.json says ---------------------------------------------------------------- */

/* What stands beside the checkpoint. */
struct config {
    const char *path; /* of the checkpoint */
    const char *file; /* config.json or xlnet_config.json */
    json_t *json;
};

/* Reads a number that config.json may state; null counts as not stated. */
static txl_status config_integer(const struct config *c, const char *key, int low, int high,
                                 int *value, txl_error *error) {
    const json_t *number = json_object_get(c->json, key);
    if (!number || json_is_null(number))
        return TXL_OK;
    json_int_t n = json_integer_value(number);
    if (!json_is_integer(number) || n < low || n > high)
        return txl_fail(error, TXL_FORMAT, "%s: %s's %s is not an integer from %d to %d", c->path,
                        c->file, key, low, high);
    *value = (int)n;
    return TXL_OK;
}

static const char *config_word(const json_t *config, const char *key, const char *otherwise) {
    const json_t *word = json_object_get(config, key);
    if (!word || json_is_null(word))
        return otherwise;
    return json_is_string(word) ? json_string_value(word) : "no string";
}

/* `gelu` is the form with tanh, which the published weights were trained with; later libraries read
 * the name as the form with erf. */
static txl_status read_activation(const struct config *c, const char *asked, int *activation,
                                  txl_error *error) {
    static const struct {
        const char *config, *name;
    } names[] = {{"gelu", "gelu-tanh"},
                 {"gelu_new", "gelu-tanh"},
                 {"relu", "relu"},
                 {"swish", "swish"},
                 {"silu", "swish"}};
    const char *stated = config_word(c->json, "ff_activation", "gelu");
    const char *name = asked;
    for (size_t i = 0; !name && i < sizeof names / sizeof *names; i++)
        if (strcmp(stated, names[i].config) == 0)
            name = names[i].name;
    *activation = setting_word(xlnet_activation_name, name);
    if (*activation >= 0)
        return TXL_OK;
    return txl_fail(error, TXL_UNSUPPORTED,
                    "%s: ff_activation is \"%s\"; txl runs gelu, gelu_new, relu, swish and silu",
                    c->path, stated);
}

static txl_status read_attention(const struct config *c, enum xlnet_attention *attention,
                                 txl_error *error) {
    const char *stated = config_word(c->json, "attn_type", "bi");
    int number = setting_word(xlnet_attention_name, stated);
    if (number < 0)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: attn_type is \"%s\"; txl runs bi and uni",
                        c->path, stated);
    *attention = (enum xlnet_attention)number;
    return TXL_OK;
}

static txl_status read_epsilon(const struct config *c, double *epsilon, txl_error *error) {
    const json_t *number = json_object_get(c->json, "layer_norm_eps");
    *epsilon = json_is_number(number) ? json_number_value(number) : 1e-12;
    if ((!number || json_is_number(number)) && *epsilon >= 0 && *epsilon <= 1)
        return TXL_OK;
    return txl_fail(error, TXL_FORMAT, "%s: %s's layer_norm_eps is not from 0 to 1", c->path,
                    c->file);
}

static txl_status read_lengths(const struct config *c, const struct convert_options *o,
                               struct model_settings *s, txl_error *error) {
    s->tgt_len = o->tgt_len >= 0 ? o->tgt_len : TGT_LEN;
    s->mem_len = MEM_LEN;
    s->clamp_len = -1;
    txl_status status = config_integer(c, "mem_len", 0, TXL_MAX_MEM_LEN, &s->mem_len, error);
    if (!status)
        status = config_integer(c, "clamp_len", -1, INT32_MAX, &s->clamp_len, error);
    if (status)
        return status;
    s->mem_len = o->mem_len >= 0 ? o->mem_len : s->mem_len;
    s->clamp_len = o->has_clamp_len ? o->clamp_len : s->clamp_len;
    s->clamp_len = s->clamp_len > 0 ? s->clamp_len : -1;
    s->same_length = json_is_true(json_object_get(c->json, "same_length"));
    if (s->tgt_len < 1 || s->tgt_len > TXL_MAX_TGT_LEN || s->mem_len > TXL_MAX_MEM_LEN)
        return txl_fail(error, TXL_ARGUMENT,
                        "tgt_len %d and mem_len %d are not from 1 to %d and from 0 to %d",
                        s->tgt_len, s->mem_len, TXL_MAX_TGT_LEN, TXL_MAX_MEM_LEN);
    return TXL_OK;
}

/* ---- What shapes say ---------------------------------------------------------------------- */

static txl_status read_shapes(const struct names *names, struct xlnet_settings *s,
                              txl_error *error) {
    struct checkpoint_tensor embedding, query, inner;
    txl_status status = names_need(names, XLNET_EMBEDDING, 0, &embedding, error);
    if (!status)
        status = names_need(names, XLNET_QKV, 0, &query, error);
    if (!status)
        status = names_need(names, XLNET_FEED_FORWARD_1_WEIGHT, 0, &inner, error);
    if (status)
        return status;
    s->model.n_token = (int)embedding.shape[0];
    s->d_model = (int)embedding.shape[1];
    s->n_head = (int)query.shape[0];
    s->d_head = (int)query.shape[1];
    s->d_inner = (int)inner.shape[0];
    s->n_layer = names_count(names, XLNET_QKV);
    return TXL_OK;
}

/* Checks that config.json agrees with the shapes, and that they are within the limits of a weights
 * file. */
static txl_status check_shapes(const struct config *c, const struct xlnet_settings *s,
                               txl_error *error) {
    const struct {
        const char *key;
        int value, most;
    } dimension[] = {
        {"n_layer", s->n_layer, MAX_N_LAYER},
        {"n_head", s->n_head, MAX_N_HEAD},
        {"d_head", s->d_head, MAX_D_HEAD},
        {"d_model", s->d_model, MAX_D_MODEL},
        {"d_inner", s->d_inner, MAX_D_INNER},
        {"n_token", s->model.n_token, MAX_N_TOKEN},
        {"vocab_size", s->model.n_token, MAX_N_TOKEN},
    };
    for (size_t i = 0; i < sizeof dimension / sizeof *dimension; i++) {
        int stated = dimension[i].value;
        txl_status status = config_integer(c, dimension[i].key, 0, INT32_MAX, &stated, error);
        if (status)
            return status;
        if (dimension[i].value > dimension[i].most)
            return txl_fail(error, TXL_UNSUPPORTED, "%s: %s is %d; txl runs up to %d", c->path,
                            dimension[i].key, dimension[i].value, dimension[i].most);
        if (stated != dimension[i].value)
            return txl_fail(error, TXL_FORMAT, "%s: %s's %s is %d, but the tensors are those of %d",
                            c->path, c->file, dimension[i].key, stated, dimension[i].value);
    }
    return TXL_OK;
}

/* ---- What is refused by name -------------------------------------------------------------- */

/* The task of a fine-tuned XLNet, which some of its tensors show; NULL if there are none. */
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

static txl_status refuse_headless(const struct names *names, txl_error *error) {
    const char *path = checkpoint_path(names->checkpoint);
    const char *task = fine_tuned_for(names->checkpoint);
    if (names_own(names, XLNET_SOFTMAX_BIAS, 0))
        return TXL_OK;
    if (names->dialect == DIALECT_TENSORFLOW)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: an XLNet without tensor %s%s%s: it is no language model; convert the "
                        "model that it was made from (for example xlnet_cased_L-12_H-768_A-12)",
                        path, names_usual(names, XLNET_SOFTMAX_BIAS, 0).text,
                        task ? ", fine-tuned for " : "", task ? task : "");
    if (task)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: an XLNet fine-tuned for %s: its language model's lm_loss is gone; "
                        "convert the model that it was made from (for example xlnet-base-cased)",
                        path, task);
    return txl_fail(error, TXL_UNSUPPORTED,
                    "%s: an XLNet without tensor lm_loss.bias, saved from the bare XLNetModel: it "
                    "is no language model; convert one saved from XLNetLMHeadModel (for example "
                    "xlnet-base-cased)",
                    path);
}

/* Refuses options that apply only to a Transformer-XL. */
static txl_status refuse_options(const struct convert_options *o, txl_error *error) {
    const struct {
        bool given;
        const char *option, *reason;
    } option[] = {
        {o->n_head > 0, "--n-head", "its tensors' shapes have the heads"},
        {o->has_attn_type, "--attn-type", "config.json's attn_type is bi or uni"},
        {o->cutoffs != NULL, "--cutoffs", "its softmax is plain"},
        {o->pre_lnorm != CONVERT_UNSET, "--pre-lnorm", "it normalises sums"},
        {o->same_length != CONVERT_UNSET, "--same-length", "it sees both sides"},
        {o->memory_start != NULL, "--memory-start", "its memory starts empty"},
        {o->cluster_order != NULL, "--cluster-order", "its softmax is plain"},
        {o->layer_norm_eps >= 0, "--layer-norm-eps", "config.json's layer_norm_eps is it"},
        {o->same_length_reach != NULL, "--same-length-reach", "it sees both sides"},
    };
    for (size_t i = 0; i < sizeof option / sizeof *option; i++) {
        if (option[i].given)
            return txl_fail(error, TXL_ARGUMENT, "%s means nothing to an XLNet: %s",
                            option[i].option, option[i].reason);
    }
    return TXL_OK;
}

/* ---- All of it ---------------------------------------------------------------------------- */

static txl_status read_config(struct xlnet_settings *s, const struct config *c,
                              const struct convert_options *options, txl_error *error) {
    txl_status status = check_shapes(c, s, error);
    if (!status)
        status = read_activation(c, options->activation, &s->ff_activation, error);
    if (!status)
        status = read_attention(c, &s->attn_type, error);
    if (!status)
        status = read_epsilon(c, &s->layer_norm_eps, error);
    if (!status)
        status = read_lengths(c, options, &s->model, error);
    return status ? status : xlnet_check(s, c->path, TXL_FORMAT, error);
}

/* ALXLNet's layers share their weights. */
static txl_status refuse_shared_layers(const struct names *names, const json_t *config,
                                       txl_error *error) {
    int n_layer = names_count(names, XLNET_QKV);
    json_int_t stated = json_integer_value(json_object_get(config, "n_layer"));
    if (n_layer > 1 || stated <= 1)
        return TXL_OK;
    return txl_fail(error, TXL_UNSUPPORTED,
                    "%s: %d layers that share their weights, an ALXLNet, which txl does not run; "
                    "convert an XLNet",
                    checkpoint_path(names->checkpoint), (int)stated);
}

/* xlnet_config.json's untie_r must agree with the shape of the biases. */
static txl_status check_biases(const struct names *names, const json_t *config, txl_error *error) {
    const json_t *untied = json_object_get(config, "untie_r");
    bool per_layer = names_which(names, XLNET_U, 0) == 0;
    if (!json_is_boolean(untied) || json_is_true(untied) == per_layer)
        return TXL_OK;
    return txl_fail(error, TXL_FORMAT, "%s: xlnet_config.json's untie_r is %s, but %s is %s",
                    checkpoint_path(names->checkpoint), per_layer ? "false" : "true",
                    names_usual(names, XLNET_U, 0).text,
                    per_layer ? "one for each layer" : "one for all layers");
}

/* The JSON that states what shapes do not. */
static txl_status load_config(struct recognised *r, const struct convert_options *options,
                              struct config *c, txl_error *error) {
    const bool tensorflow = r->names.dialect == DIALECT_TENSORFLOW;
    *c = (struct config){.path = checkpoint_path(r->names.checkpoint),
                         .file = tensorflow ? "xlnet_config.json" : "config.json"};
    txl_status status = config_file_load(c->path, c->file, &r->config_path, &c->json, error);
    if (status || c->json)
        return status;
    if (!tensorflow)
        return txl_fail(error, TXL_ARGUMENT,
                        "%s: an XLNet without config.json beside it, which states its "
                        "ff_activation, attn_type, layer_norm_eps and clamp_len; put it there",
                        c->path);
    if (!options->activation)
        return txl_fail(error, TXL_ARGUMENT,
                        "%s: an XLNet without xlnet_config.json beside it, which states its "
                        "ff_activation; put it there, or add --activation",
                        c->path);
    c->json = json_object();
    return c->json ? TXL_OK : txl_fail_memory(error, "the settings", 4096);
}

txl_status recognise_xlnet(struct recognised *r, const struct convert_options *options,
                           txl_error *error) {
    struct xlnet_settings *s = &r->settings.xlnet;
    const struct names *names = &r->names;
    struct config config = {0};
    txl_status status = refuse_options(options, error);
    if (!status)
        status = refuse_headless(names, error);
    if (!status)
        status = load_config(r, options, &config, error);
    if (!status && names->dialect == DIALECT_TENSORFLOW) {
        status = refuse_shared_layers(names, config.json, error);
        if (!status)
            status = check_biases(names, config.json, error);
    }
    if (!status)
        status = read_shapes(names, s, error);
    if (!status)
        status = read_config(s, &config, options, error);
    json_decref(config.json);
    if (!status)
        status =
            names_tied(names, XLNET_EMBEDDING, 0, XLNET_SOFTMAX, 0, false, &s->tied_weights, error);
    return status;
}
