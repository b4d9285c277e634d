/* Recognising an XLNet.  Shapes give the dimensions; config.json states the rest and must agree
 * with them.  The published names are those of a state dict of XLNetLMHeadModel. */
#include "lib/base/error.h"
#include "recognise.h"

#include <jansson.h>
#include <stdio.h>
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
 * the name as the form with erf.  One that says that it wrote the file also fine-tuned the head,
 * with erf. */
static txl_status read_activation(struct recognition *x) {
    const bool erf =
        x->recognised->settings.xlnet.head != TXL_HEAD_NONE && stated(x, "transformers_version");
    const struct {
        const char *config, *name;
    } names[] = {{"gelu", erf ? "gelu-erf" : "gelu-tanh"},
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
                    per_layer ? "one per layer" : "one for all layers");
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

/* ---- Heads -------------------------------------------------------------------------------- */

/* The heads that tensors show.  Where a checkpoint has several, the first is taken, as
 * name_tables.c takes its tensors. */
static const struct head_names {
    const char *start, *weight, *bias; /* weight, bias: of its last layer, or of the starts */
    txl_head head;
} head_names[] = {
    {"start_logits.", "start_logits.dense.weight", "start_logits.dense.bias", TXL_HEAD_BEAMS},
    {"qa_outputs.", "qa_outputs.weight", "qa_outputs.bias", TXL_HEAD_SPANS},
    {"classifier.", "classifier.weight", "classifier.bias", TXL_HEAD_TOKENS},
    {"logits_proj.", "logits_proj.weight", "logits_proj.bias", TXL_HEAD_SEQUENCE}};

/* NULL: there is none. */
static const struct head_names *find_head(const struct names *names) {
    const size_t n = names->dialect == DIALECT_PYTORCH ? sizeof head_names / sizeof *head_names : 0;
    for (size_t i = 0; i < n; i++)
        if (names_begin(names, head_names[i].start))
            return &head_names[i];
    return NULL;
}

/* Whether config.json's architectures name a model with one logit for each choice. */
static bool has_choices(const struct recognition *x) {
    size_t i;
    const json_t *name;
    bool has = false;
    json_array_foreach(stated(x, "architectures"), i, name) {
        has = has || (json_is_string(name) &&
                      strcmp(json_string_value(name), "XLNetForMultipleChoice") == 0);
    }
    return has;
}

/* The names of n labels: config.json's id2label, else LABEL_0, LABEL_1 .. */
static txl_status read_labels(struct recognition *x, size_t n) {
    const json_t *names = stated(x, "id2label");
    struct recognised *r = x->recognised;
    int count = (int)n;
    txl_status status = read_integer(x, "num_labels", 0, INT32_MAX, &count);
    if (status)
        return status;
    count = names ? (int)json_object_size(names) : count;
    if (n > MAX_LABEL)
        return txl_fail(x->error, TXL_UNSUPPORTED, "%s: a head of %zu labels; txl runs up to %d",
                        x->path, n, MAX_LABEL);
    if ((size_t)count != n)
        return txl_fail(x->error, TXL_FORMAT,
                        "%s: %s states %d labels, but the tensors are those of %zu", x->stated_in,
                        names ? "id2label" : "num_labels", count, n);
    r->labels = json_array();
    for (size_t i = 0; i < n; i++) {
        char key[24];
        snprintf(key, sizeof key, "%zu", i);
        const json_t *name = json_object_get(names, key);
        if (name && !(json_is_string(name) && setting_is_label(json_string_value(name))))
            return txl_fail(x->error, TXL_FORMAT,
                            "%s: id2label's \"%s\" is no name of 1 to %d bytes of UTF-8 without "
                            "control characters",
                            x->stated_in, key, MAX_LABEL_NAME);
        if (json_array_append_new(r->labels, name ? json_string(json_string_value(name))
                                                  : json_sprintf("LABEL_%zu", i)) != 0)
            return txl_fail_memory(x->error, "the labels", n);
    }
    r->settings.xlnet.labels = r->labels;
    r->settings.xlnet.n_label = (int)n;
    return TXL_OK;
}

/* A word of config.json, and the number of txl's setting that it stands for. */
struct known_word {
    const char *word;
    int number;
};

/* Reads one of words[n]. */
static txl_status read_known(const struct recognition *x, const char *key, const char *otherwise,
                             const struct known_word *words, size_t n, int *number) {
    const char *word = read_word(x, key, otherwise);
    char known[120];
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(word, words[i].word) == 0) {
            *number = words[i].number;
            return TXL_OK;
        }
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                                 i == 0      ? ""
                                 : i + 1 < n ? ", "
                                             : " and ",
                                 words[i].word);
    }
    return txl_fail(x->error, TXL_UNSUPPORTED, "%s: %s is \"%.60s\"; txl runs %s", x->stated_in,
                    key, word, known);
}

/* Which row stands for a text, and what is done with it. */
static txl_status read_summary(struct recognition *x) {
    static const struct known_word kinds[] = {{"last", XLNET_LAST},
                                              {"cls_index", XLNET_LAST}, /* <cls> is the last */
                                              {"first", XLNET_FIRST},
                                              {"mean", XLNET_MEAN}},
                                   activations[] = {{"linear", XLNET_SUMMARY_LINEAR},
                                                    {"tanh", XLNET_SUMMARY_TANH},
                                                    {"relu", XLNET_SUMMARY_RELU},
                                                    {"gelu", XLNET_SUMMARY_GELU_ERF},
                                                    {"gelu_new", XLNET_SUMMARY_GELU_TANH},
                                                    {"silu", XLNET_SUMMARY_SWISH},
                                                    {"swish", XLNET_SUMMARY_SWISH},
                                                    {"sigmoid", XLNET_SUMMARY_SIGMOID}};
    struct xlnet_settings *s = &x->recognised->settings.xlnet;
    const json_t *projected = json_object_get(x->config, "summary_use_proj");
    if (projected && !json_is_boolean(projected) && !json_is_null(projected))
        return txl_fail(x->error, TXL_FORMAT, "%s: summary_use_proj is neither true nor false",
                        x->stated_in);
    if (json_is_true(json_object_get(x->config, "summary_proj_to_labels")))
        return txl_fail(x->error, TXL_UNSUPPORTED,
                        "%s: summary_proj_to_labels is true, with which the summary does not fit "
                        "the head's other tensors",
                        x->stated_in);
    s->summary_projected = !projected || json_is_true(projected);
    txl_status status =
        read_known(x, "summary_type", "last", kinds, sizeof kinds / sizeof *kinds, &s->summary);
    return status ? status
                  : read_known(x, "summary_activation", "linear", activations,
                               sizeof activations / sizeof *activations, &s->summary_activation);
}

/* How many starts and ends of answers are kept. */
static txl_status read_beams(struct recognition *x) {
    struct xlnet_settings *s = &x->recognised->settings.xlnet;
    s->start_n_top = s->end_n_top = 5;
    txl_status status = read_integer(x, "start_n_top", 1, MAX_N_TOP, &s->start_n_top);
    return status ? status : read_integer(x, "end_n_top", 1, MAX_N_TOP, &s->end_n_top);
}

/* How many logits the head has. */
static txl_status count_logits(struct recognition *x, const struct head_names *names, size_t *n) {
    const char *const parts[] = {names->weight, names->bias};
    struct checkpoint_tensor logits;
    for (size_t i = 0; i < 2; i++) {
        const struct names_text name = names_spell(x->names, parts[i], 0);
        if (!checkpoint_find(x->names->checkpoint, name.text))
            return txl_fail(x->error, TXL_FORMAT, "%s: tensor %s is missing", x->path, name.text);
    }
    txl_status status = names_need(x->names, XLNET_HEAD_WEIGHT, 0, &logits, x->error);
    *n = status ? 0 : (size_t)logits.shape[0];
    return status;
}

static txl_status read_head(struct recognition *x) {
    struct xlnet_settings *s = &x->recognised->settings.xlnet;
    const struct head_names *names = find_head(x->names);
    const txl_head head = names ? names->head : TXL_HEAD_NONE;
    size_t n = 0;
    s->language_model = names_own(x->names, XLNET_SOFTMAX_BIAS, 0);
    s->head = (int)head;
    txl_status status = names ? count_logits(x, names, &n) : TXL_OK;
    if (status || !names)
        return status;
    if (head == TXL_HEAD_SEQUENCE && n == 1 && has_choices(x))
        s->head = TXL_HEAD_CHOICE;
    if (head == TXL_HEAD_SEQUENCE)
        status = read_summary(x);
    if (!status && (s->head == TXL_HEAD_SEQUENCE || s->head == TXL_HEAD_TOKENS))
        status = read_labels(x, n);
    if (s->head == TXL_HEAD_SEQUENCE)
        s->multi_label =
            strcmp(read_word(x, "problem_type", ""), "multi_label_classification") == 0;
    return !status && s->head == TXL_HEAD_BEAMS ? read_beams(x) : status;
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
    if (names_own(x->names, XLNET_SOFTMAX_BIAS, 0) || find_head(x->names))
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
    refuse_headless, load_config,    refuse_shared_layers, check_biases, read_shapes, read_head,
    read_activation, read_attention, read_epsilon,         read_lengths, find_ties,   NULL};
