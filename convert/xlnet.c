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

/* Reads a number that config.json may state; null counts as not stated. */
static txl_status config_integer(const char *path, const json_t *config, const char *key, int low,
                                 int high, int *value, txl_error *error) {
    const json_t *number = json_object_get(config, key);
    if (!number || json_is_null(number))
        return TXL_OK;
    json_int_t n = json_integer_value(number);
    if (!json_is_integer(number) || n < low || n > high)
        return txl_fail(error, TXL_FORMAT, "%s: config.json's %s is not an integer from %d to %d",
                        path, key, low, high);
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
static txl_status read_activation(const char *path, const json_t *config, const char *asked,
                                  int *activation, txl_error *error) {
    static const struct {
        const char *config, *name;
    } names[] = {{"gelu", "gelu-tanh"},
                 {"gelu_new", "gelu-tanh"},
                 {"relu", "relu"},
                 {"swish", "swish"},
                 {"silu", "swish"}};
    const char *stated = config_word(config, "ff_activation", "gelu");
    const char *name = asked;
    for (size_t i = 0; !name && i < sizeof names / sizeof *names; i++)
        if (strcmp(stated, names[i].config) == 0)
            name = names[i].name;
    *activation = setting_word(xlnet_activation_name, name);
    if (*activation >= 0)
        return TXL_OK;
    return txl_fail(error, TXL_UNSUPPORTED,
                    "%s: ff_activation is \"%s\"; txl runs gelu, gelu_new, relu, swish and silu",
                    path, stated);
}

static txl_status read_attention(const char *path, const json_t *config,
                                 enum xlnet_attention *attention, txl_error *error) {
    const char *stated = config_word(config, "attn_type", "bi");
    int number = setting_word(xlnet_attention_name, stated);
    if (number < 0)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: attn_type is \"%s\"; txl runs bi and uni",
                        path, stated);
    *attention = (enum xlnet_attention)number;
    return TXL_OK;
}

static txl_status read_epsilon(const char *path, const json_t *config, double *epsilon,
                               txl_error *error) {
    const json_t *number = json_object_get(config, "layer_norm_eps");
    *epsilon = json_is_number(number) ? json_number_value(number) : 1e-12;
    if ((!number || json_is_number(number)) && *epsilon >= 0 && *epsilon <= 1)
        return TXL_OK;
    return txl_fail(error, TXL_FORMAT, "%s: config.json's layer_norm_eps is not from 0 to 1", path);
}

static txl_status read_lengths(const char *path, const json_t *config,
                               const struct convert_options *o, struct model_settings *s,
                               txl_error *error) {
    s->tgt_len = o->tgt_len >= 0 ? o->tgt_len : TGT_LEN;
    s->mem_len = MEM_LEN;
    s->clamp_len = -1;
    txl_status status =
        config_integer(path, config, "mem_len", 0, TXL_MAX_MEM_LEN, &s->mem_len, error);
    if (!status)
        status = config_integer(path, config, "clamp_len", -1, INT32_MAX, &s->clamp_len, error);
    if (status)
        return status;
    s->mem_len = o->mem_len >= 0 ? o->mem_len : s->mem_len;
    s->clamp_len = o->has_clamp_len ? o->clamp_len : s->clamp_len;
    s->clamp_len = s->clamp_len > 0 ? s->clamp_len : -1;
    s->same_length = json_is_true(json_object_get(config, "same_length"));
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
static txl_status check_shapes(const char *path, const struct xlnet_settings *s,
                               const json_t *config, txl_error *error) {
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
        txl_status status =
            config_integer(path, config, dimension[i].key, 0, INT32_MAX, &stated, error);
        if (status)
            return status;
        if (dimension[i].value > dimension[i].most)
            return txl_fail(error, TXL_UNSUPPORTED, "%s: %s is %d; txl runs up to %d", path,
                            dimension[i].key, dimension[i].value, dimension[i].most);
        if (stated != dimension[i].value)
            return txl_fail(error, TXL_FORMAT,
                            "%s: config.json's %s is %d, but the tensors are those of %d", path,
                            dimension[i].key, stated, dimension[i].value);
    }
    return TXL_OK;
}

/* ---- What is refused by name -------------------------------------------------------------- */

/* The task of a fine-tuned XLNet, which some of its tensors show; NULL if there are none. */
static const char *fine_tuned_for(const struct checkpoint *checkpoint) {
    static const struct {
        const char *part, *task;
    } heads[] = {{"logits_proj.", "classification"},
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
    };
    for (size_t i = 0; i < sizeof option / sizeof *option; i++) {
        if (option[i].given)
            return txl_fail(error, TXL_ARGUMENT, "%s means nothing to an XLNet: %s",
                            option[i].option, option[i].reason);
    }
    return TXL_OK;
}

/* ---- All of it ---------------------------------------------------------------------------- */

static txl_status read_config(struct xlnet_settings *s, const char *path, const json_t *config,
                              const struct convert_options *options, txl_error *error) {
    txl_status status = check_shapes(path, s, config, error);
    if (!status)
        status = read_activation(path, config, options->activation, &s->ff_activation, error);
    if (!status)
        status = read_attention(path, config, &s->attn_type, error);
    if (!status)
        status = read_epsilon(path, config, &s->layer_norm_eps, error);
    if (!status)
        status = read_lengths(path, config, options, &s->model, error);
    return status ? status : xlnet_check(s, path, TXL_FORMAT, error);
}

txl_status recognise_xlnet(struct recognised *r, const struct convert_options *options,
                           txl_error *error) {
    struct xlnet_settings *s = &r->settings.xlnet;
    const char *path = checkpoint_path(r->names.checkpoint);
    json_t *config = NULL;
    txl_status status = refuse_options(options, error);
    if (!status)
        status = refuse_headless(&r->names, error);
    if (!status)
        status = config_file_load(path, &r->config_path, &config, error);
    if (!status && !config)
        status = txl_fail(error, TXL_ARGUMENT,
                          "%s: an XLNet without config.json beside it, which states its "
                          "ff_activation, attn_type, layer_norm_eps and clamp_len; put it there",
                          path);
    if (!status)
        status = read_shapes(&r->names, s, error);
    if (!status)
        status = read_config(s, path, config, options, error);
    json_decref(config);
    if (!status)
        status = names_tied(&r->names, XLNET_EMBEDDING, 0, XLNET_SOFTMAX, 0, false,
                            &s->tied_weights, error);
    return status;
}
