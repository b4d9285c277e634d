/* Recognising an XLNet.  Shapes give the dimensions; config.json states the rest and must agree
 * with them.  The published names are those of a state dict of XLNetLMHeadModel. */
#include "xlnet.h"
#include "config_file.h"
#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "recognise.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The published pretraining's lengths, used if config.json states none. */
enum { TGT_LEN = 512, MEM_LEN = 384 };

static const char query_name[] = "layer.0.rel_attn.q";
static const char transformer[] = "transformer.";

struct tensor_name {
    char text[XLNET_MAX_PREFIX + 64];
};

__attribute__((format(printf, 2, 3))) static struct tensor_name full_name(const char *prefix,
                                                                          const char *format, ...) {
    struct tensor_name name;
    va_list args;
    int used = snprintf(name.text, sizeof name.text, "%s", prefix);
    va_start(args, format);
    vsnprintf(name.text + used, sizeof name.text - (size_t)used, format, args);
    va_end(args);
    return name;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* The first layer's query matrix, or NULL. */
static const struct checkpoint_tensor *find_query(const struct checkpoint *checkpoint) {
    for (size_t i = 0; i < checkpoint_n_tensor(checkpoint); i++) {
        const struct checkpoint_tensor *t = checkpoint_tensor_at(checkpoint, i);
        if (ends_with(t->name, query_name))
            return t;
    }
    return NULL;
}

bool xlnet_is_in(const struct checkpoint *checkpoint) {
    return find_query(checkpoint) != NULL;
}

/* ---- Tensors ------------------------------------------------------------------------------ */

/* Finds a tensor with n_dim dimensions of any size. */
static txl_status need_tensor(const struct xlnet_recognised *r, struct tensor_name name, int n_dim,
                              const struct checkpoint_tensor **tensor, txl_error *error) {
    return recognise_dimensions(r->checkpoint, name.text, n_dim, tensor, error);
}

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

/* One more than the largest N of the tensors layer.N.*, so that a gap shows as a missing tensor. */
static int count_layers(const struct xlnet_recognised *r) {
    struct tensor_name start = full_name(r->prefix, "layer.");
    size_t length = strlen(start.text);
    int n = 0;
    for (size_t i = 0; i < checkpoint_n_tensor(r->checkpoint); i++) {
        const char *name = checkpoint_tensor_at(r->checkpoint, i)->name;
        char *end;
        if (strncmp(name, start.text, length) != 0)
            continue;
        unsigned long number = strtoul(name + length, &end, 10);
        if (end > name + length && *end == '.' && number >= (unsigned long)n)
            n = number < INT_MAX ? (int)number + 1 : INT_MAX;
    }
    return n;
}

static txl_status read_shapes(struct xlnet_recognised *r, txl_error *error) {
    struct xlnet_settings *s = &r->settings;
    const struct checkpoint_tensor *embedding, *query, *inner;
    txl_status status =
        need_tensor(r, full_name(r->prefix, "word_embedding.weight"), 2, &embedding, error);
    if (!status)
        status = need_tensor(r, full_name(r->prefix, "%s", query_name), 3, &query, error);
    if (!status)
        status =
            need_tensor(r, full_name(r->prefix, "layer.0.ff.layer_1.weight"), 2, &inner, error);
    if (status)
        return status;
    s->model.n_token = (int)embedding->shape[0];
    s->d_model = (int)embedding->shape[1];
    s->n_head = (int)query->shape[1];
    s->d_head = (int)query->shape[2];
    s->d_inner = (int)inner->shape[0];
    s->n_layer = count_layers(r);
    return TXL_OK;
}

/* Checks that config.json agrees with the shapes, and that they are within the limits of a weights
 * file. */
static txl_status check_shapes(const struct xlnet_recognised *r, const json_t *config,
                               txl_error *error) {
    const struct xlnet_settings *s = &r->settings;
    const char *path = checkpoint_path(r->checkpoint);
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

static txl_status refuse_headless(const struct xlnet_recognised *r, txl_error *error) {
    const char *path = checkpoint_path(r->checkpoint), *task = fine_tuned_for(r->checkpoint);
    if (checkpoint_find(r->checkpoint, full_name(r->head_prefix, "lm_loss.bias").text))
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

static txl_status set_prefixes(struct xlnet_recognised *r, txl_error *error) {
    const char *name = find_query(r->checkpoint)->name;
    size_t length = strlen(name) - strlen(query_name), tail = strlen(transformer);
    if (length >= sizeof r->prefix)
        return txl_fail(error, TXL_FORMAT, "%s: the names of its tensors are too long",
                        checkpoint_path(r->checkpoint));
    memcpy(r->prefix, name, length);
    memcpy(r->head_prefix, name, length);
    if (ends_with(r->prefix, transformer))
        r->head_prefix[length - tail] = '\0';
    return TXL_OK;
}

static txl_status find_tie(struct xlnet_recognised *r, txl_error *error) {
    const struct checkpoint_tensor *in =
        checkpoint_find(r->checkpoint, full_name(r->prefix, "word_embedding.weight").text);
    const struct checkpoint_tensor *out =
        checkpoint_find(r->checkpoint, full_name(r->head_prefix, "lm_loss.weight").text);
    r->settings.tied_weights = !out || checkpoint_same_view(in, out);
    return r->settings.tied_weights ? TXL_OK
                                    : recognise_is_copy(in, out, &r->settings.tied_weights, error);
}

static txl_status read_config(struct xlnet_recognised *r, const json_t *config,
                              const struct convert_options *options, txl_error *error) {
    struct xlnet_settings *s = &r->settings;
    const char *path = checkpoint_path(r->checkpoint);
    txl_status status = check_shapes(r, config, error);
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

txl_status xlnet_recognise(const struct checkpoint *checkpoint,
                           const struct convert_options *options, struct xlnet_recognised *r,
                           char **config_path, txl_error *error) {
    json_t *config = NULL;
    *r = (struct xlnet_recognised){.checkpoint = checkpoint};
    txl_status status = refuse_options(options, error);
    if (!status)
        status = set_prefixes(r, error);
    if (!status)
        status = refuse_headless(r, error);
    if (!status)
        status = config_file_load(checkpoint_path(checkpoint), config_path, &config, error);
    if (!status && !config)
        status = txl_fail(error, TXL_ARGUMENT,
                          "%s: an XLNet without config.json beside it, which states its "
                          "ff_activation, attn_type, layer_norm_eps and clamp_len; put it there",
                          checkpoint_path(checkpoint));
    if (!status)
        status = read_shapes(r, error);
    if (!status)
        status = read_config(r, config, options, error);
    json_decref(config);
    return status ? status : find_tie(r, error);
}

/* ---- The parts of a parameter ------------------------------------------------------------- */

/* Adds the tensor of exactly that shape unchanged. */
static txl_status add_view(const struct xlnet_recognised *r, struct xlnet_pieces *pieces,
                           struct tensor_name name, int n_dim, const uint64_t *shape,
                           txl_error *error) {
    const struct checkpoint_tensor *t;
    txl_status status = need_tensor(r, name, n_dim, &t, error);
    if (status)
        return status;
    for (int d = 0; d < n_dim; d++) {
        if (t->shape[d] != shape[d])
            return txl_fail(error, TXL_FORMAT,
                            "%s: tensor %s: dimension %d is %" PRIu64 ", expected %" PRIu64,
                            checkpoint_path(r->checkpoint), t->name, d, t->shape[d], shape[d]);
    }
    pieces->view[pieces->n++] = *t;
    return TXL_OK;
}

/* W[d_model, n_head, d_head] takes inputs to outputs; a weights file has rows of outputs:
 * [n_head, d_head, d_model]. */
static void transpose(struct checkpoint_tensor *t) {
    const struct checkpoint_tensor old = *t;
    for (int d = 0; d < 3; d++) {
        t->shape[d] = old.shape[(d + 1) % 3];
        t->stride[d] = old.stride[(d + 1) % 3];
    }
}

static txl_status add_projection(const struct xlnet_recognised *r, struct xlnet_pieces *pieces,
                                 int i, char which, txl_error *error) {
    const struct xlnet_settings *s = &r->settings;
    const uint64_t shape[] = {(uint64_t)s->d_model, (uint64_t)s->n_head, (uint64_t)s->d_head};
    txl_status status = add_view(r, pieces, full_name(r->prefix, "layer.%d.rel_attn.%c", i, which),
                                 3, shape, error);
    if (!status && which != 'o') /* o's rows are outputs already */
        transpose(&pieces->view[pieces->n - 1]);
    return status;
}

static txl_status add_heads(const struct xlnet_recognised *r, struct xlnet_pieces *pieces, int i,
                            const char *which, txl_error *error) {
    const struct xlnet_settings *s = &r->settings;
    return add_view(r, pieces, full_name(r->prefix, "layer.%d.rel_attn.%s", i, which), 2,
                    (const uint64_t[]){(uint64_t)s->n_head, (uint64_t)s->d_head}, error);
}

static txl_status add_vector(const struct xlnet_recognised *r, struct xlnet_pieces *pieces, int i,
                             const char *which, int n, txl_error *error) {
    return add_view(r, pieces, full_name(r->prefix, "layer.%d.%s", i, which), 1,
                    (const uint64_t[]){(uint64_t)n}, error);
}

static txl_status add_matrix(const struct xlnet_recognised *r, struct xlnet_pieces *pieces,
                             struct tensor_name name, int n_row, int n_col, txl_error *error) {
    return add_view(r, pieces, name, 2, (const uint64_t[]){(uint64_t)n_row, (uint64_t)n_col},
                    error);
}

static txl_status find_attention(const struct xlnet_recognised *r, enum xlnet_parameter number,
                                 int i, struct xlnet_pieces *pieces, txl_error *error) {
    const struct xlnet_settings *s = &r->settings;
    txl_status status = TXL_OK;
    switch (number) {
    case XLNET_QKV:
        for (const char *which = "qkv"; *which && !status; which++)
            status = add_projection(r, pieces, i, *which, error);
        return status;
    case XLNET_O:
        return add_projection(r, pieces, i, 'o', error);
    case XLNET_R:
        return add_projection(r, pieces, i, 'r', error);
    case XLNET_U:
        return add_heads(r, pieces, i, "r_w_bias", error);
    case XLNET_V:
        return add_heads(r, pieces, i, "r_r_bias", error);
    case XLNET_S:
        return add_heads(r, pieces, i, "r_s_bias", error);
    default: /* XLNET_SEGMENT */
        return add_view(r, pieces, full_name(r->prefix, "layer.%d.rel_attn.seg_embed", i), 3,
                        (const uint64_t[]){2, (uint64_t)s->n_head, (uint64_t)s->d_head}, error);
    }
}

static txl_status find_feed_forward(const struct xlnet_recognised *r, enum xlnet_parameter number,
                                    int i, struct xlnet_pieces *pieces, txl_error *error) {
    const int d_model = r->settings.d_model, d_inner = r->settings.d_inner;
    switch (number) {
    case XLNET_ATTENTION_NORM_WEIGHT:
        return add_vector(r, pieces, i, "rel_attn.layer_norm.weight", d_model, error);
    case XLNET_ATTENTION_NORM_BIAS:
        return add_vector(r, pieces, i, "rel_attn.layer_norm.bias", d_model, error);
    case XLNET_FEED_FORWARD_1_WEIGHT:
        return add_matrix(r, pieces, full_name(r->prefix, "layer.%d.ff.layer_1.weight", i), d_inner,
                          d_model, error);
    case XLNET_FEED_FORWARD_1_BIAS:
        return add_vector(r, pieces, i, "ff.layer_1.bias", d_inner, error);
    case XLNET_FEED_FORWARD_2_WEIGHT:
        return add_matrix(r, pieces, full_name(r->prefix, "layer.%d.ff.layer_2.weight", i), d_model,
                          d_inner, error);
    case XLNET_FEED_FORWARD_2_BIAS:
        return add_vector(r, pieces, i, "ff.layer_2.bias", d_model, error);
    case XLNET_FEED_FORWARD_NORM_WEIGHT:
        return add_vector(r, pieces, i, "ff.layer_norm.weight", d_model, error);
    default: /* XLNET_FEED_FORWARD_NORM_BIAS */
        return add_vector(r, pieces, i, "ff.layer_norm.bias", d_model, error);
    }
}

txl_status xlnet_find(const struct xlnet_recognised *r, enum xlnet_parameter number, int i,
                      struct xlnet_pieces *pieces, txl_error *error) {
    const struct xlnet_settings *s = &r->settings;
    const uint64_t n_token = (uint64_t)s->model.n_token;
    pieces->n = 0;
    switch (number) {
    case XLNET_EMBEDDING:
        return add_matrix(r, pieces, full_name(r->prefix, "word_embedding.weight"),
                          s->model.n_token, s->d_model, error);
    case XLNET_SOFTMAX:
        return add_matrix(r, pieces, full_name(r->head_prefix, "lm_loss.weight"), s->model.n_token,
                          s->d_model, error);
    case XLNET_SOFTMAX_BIAS:
        return add_view(r, pieces, full_name(r->head_prefix, "lm_loss.bias"), 1, &n_token, error);
    case XLNET_MASK:
        return add_view(r, pieces, full_name(r->prefix, "mask_emb"), 3,
                        (const uint64_t[]){1, 1, (uint64_t)s->d_model}, error);
    default:
        return number >= XLNET_ATTENTION_NORM_WEIGHT
                   ? find_feed_forward(r, number, i, pieces, error)
                   : find_attention(r, number, i, pieces, error);
    }
}
