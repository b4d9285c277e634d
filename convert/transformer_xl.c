/* Recognising a Transformer-XL.  Most facts follow from shapes, in every container.  The rest comes
 * from the options, from a pickled module's attributes, or from a Hugging Face config.json; one
 * message asks for everything that none of them states.  Options take precedence over attributes or
 * config.json; what these state about shapes must agree with the shapes. */
#include "config_file.h"
#include "lib/base/error.h"
#include "published.h"
#include "recognise.h"
#include "vocabulary_file.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a checkpoint may state a fact: a module's attributes, or config.json. */
struct statements {
    const char *path;      /* of the checkpoint */
    const char *stated_in; /* path of the file with the statements: config.json or the checkpoint */
    const struct pickle_value *module;    /* of class MemTransformerLM, or NULL */
    const struct pickle_value *embedding; /* its word_emb */
    const struct pickle_value *half;      /* its layers[0].pos_ff */
    json_t *config;                       /* or NULL */
    struct recognised *recognised;        /* receives the missing facts */
};

/* ---- What is stated ----------------------------------------------------------------------- */

/* `object` is the module or the part of it that has the attribute. */
static bool stated_int(const struct statements *s, const struct pickle_value *object,
                       const char *key, int *value) {
    const struct pickle_value *attribute = checkpoint_attribute(object, key);
    if (attribute && attribute->kind == PICKLE_INT && attribute->integer >= INT32_MIN &&
        attribute->integer <= INT32_MAX) {
        *value = (int)attribute->integer;
        return true;
    }
    const json_t *number = json_object_get(s->config, key);
    if (json_is_integer(number) && json_integer_value(number) >= INT32_MIN &&
        json_integer_value(number) <= INT32_MAX) {
        *value = (int)json_integer_value(number);
        return true;
    }
    return false;
}

static bool stated_bool(const struct statements *s, const struct pickle_value *object,
                        const char *key, bool *value) {
    const struct pickle_value *attribute = checkpoint_attribute(object, key);
    if (attribute && attribute->kind == PICKLE_BOOL) {
        *value = attribute->boolean;
        return true;
    }
    const json_t *truth = json_object_get(s->config, key);
    if (json_is_boolean(truth)) {
        *value = json_is_true(truth);
        return true;
    }
    int number; /* 0 and 1 of older code */
    if (stated_int(s, object, key, &number)) {
        *value = number != 0;
        return true;
    }
    return false;
}

/* The pickled module, found by the names of its tensors: in "model.module.word_emb..." it is the
 * root's "model"'s "module".  Only of the published class: the attributes of another class do not
 * show its dialect. */
static const struct pickle_value *find_module(const struct recognised *r) {
    static const char class_name[] = "MemTransformerLM";
    const struct pickle_value *value = checkpoint_root(r->names.checkpoint);
    char path[sizeof r->names.prefix], *rest = path;
    memcpy(path, r->names.prefix, sizeof path);
    for (char *key; value && (key = strsep(&rest, ".")) && *key;)
        value =
            value->kind == PICKLE_DICT ? pickle_get(value, key) : checkpoint_attribute(value, key);
    if (!value || value->kind != PICKLE_OBJECT)
        return NULL;
    const char *dot = strrchr(value->object->class_name, '.');
    return strcmp(dot ? dot + 1 : value->object->class_name, class_name) == 0 ? value : NULL;
}

/* The statements of a TensorFlow checkpoint: what corpus-info.json says of the softmax, and what is
 * true of all that the authors' code makes. */
static txl_status find_corpus(struct recognised *r, struct statements *s, txl_error *error) {
    json_t *corpus = NULL;
    txl_status status =
        config_file_load(s->path, "corpus-info.json", &r->config_path, &corpus, error);
    const json_t *dataset = json_object_get(corpus, "dataset");
    if (!status && json_is_string(dataset))
        snprintf(r->dataset, sizeof r->dataset, "%s", json_string_value(dataset));
    r->by_dataset = true;
    s->stated_in = r->config_path ? r->config_path : s->path;
    s->config = json_pack("{s:b, s:f}", "pre_lnorm", false, "layer_norm_epsilon", 1e-12);
    bool good = s->config != NULL;
    for (const char *const *key = (const char *const[]){"vocab_size", "cutoffs", NULL}; *key;
         key++) {
        json_t *value = json_object_get(corpus, *key);
        if (value)
            good = good && json_object_set(s->config, *key, value) == 0;
    }
    json_decref(corpus);
    return status || good ? status : txl_fail_memory(error, "the settings", 4096);
}

static bool is_tensorflow(const struct recognised *r) {
    return r->names.dialect->number == DIALECT_TENSORFLOW;
}

static txl_status find_statements(struct recognised *r, struct statements *s, txl_error *error) {
    const char *path = checkpoint_path(r->names.checkpoint);
    *s = (struct statements){
        .path = path, .stated_in = path, .module = find_module(r), .recognised = r};
    if (is_tensorflow(r))
        return find_corpus(r, s, error);
    if (!s->module) {
        txl_status status =
            config_file_load(path, "config.json", &r->config_path, &s->config, error);
        s->stated_in = r->config_path ? r->config_path : path;
        return status;
    }
    s->embedding = checkpoint_attribute(s->module, "word_emb");
    const struct pickle_value *layers = checkpoint_attribute(s->module, "layers");
    s->half = checkpoint_attribute(checkpoint_attribute(layers, "0"), "pos_ff");
    return TXL_OK;
}

/* ---- What is refused by its name ---------------------------------------------------------- */

static txl_status read_epsilon(const struct statements *s, double given, double *epsilon,
                               txl_error *error) {
    const struct pickle_value *norm = checkpoint_attribute(s->half, "layer_norm");
    const struct pickle_value *attribute = checkpoint_attribute(norm, "eps");
    const json_t *number = json_object_get(s->config, "layer_norm_epsilon");
    *epsilon = given >= 0                                     ? given
               : attribute && attribute->kind == PICKLE_FLOAT ? attribute->real
               : json_is_number(number)                       ? json_number_value(number)
                                                              : LAYER_NORM_EPS;
    return *epsilon >= 0 && *epsilon <= 1
               ? TXL_OK
               : txl_fail(error, TXL_FORMAT,
                          "%s: layer normalisation's epsilon is %g, expected 0 to 1", s->stated_in,
                          *epsilon);
}

/* Others have built on the authors' layers (REMI's normal_embed and normal_softmax). */
static txl_status refuse_other_code(const struct recognised *r, txl_error *error) {
    return txl_fail(error, TXL_UNSUPPORTED,
                    "%s: the layers are a Transformer-XL's, but there is no tensor named %s: its "
                    "variables are those of other code, such as REMI's; save it again under the "
                    "names of the authors' tf/model.py",
                    checkpoint_path(r->names.checkpoint),
                    names_spell(&r->names, "adaptive_softmax/bias", 0).text);
}

static txl_status refuse_variants(const struct recognised *r, const struct statements *s,
                                  txl_error *error) {
    int value = 0;
    bool stated = stated_int(s, s->module, "sample_softmax", &value) && value > 0;
    const char *sampled = names_spell(&r->names, "out_layer.bias", 0).text;
    if (stated || checkpoint_find(r->names.checkpoint, sampled))
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: trained with sample_softmax; txl runs full and adaptive softmaxes "
                        "only",
                        stated ? s->stated_in : s->path);
    if (stated_int(s, s->module, "ext_len", &value) && value > 0)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: ext_len is %d; txl runs ext_len 0 only",
                        s->stated_in, value);
    return TXL_OK;
}

/* ---- What shapes tell --------------------------------------------------------------------- */

static bool divides(const int *width, int n_band, int div_val) {
    int expected = width[0];
    for (int i = 1; i < n_band; i++) {
        expected /= div_val;
        if (width[i] != expected)
            return false;
    }
    return true;
}

/* Chooses div_val: of the values that the widths of the bands allow (usually one), the stated one
 * or the least. */
static txl_status find_div_val(struct recognised *r, const struct statements *s, const int *width,
                               int n_band, txl_error *error) {
    int stated = 0, least = 1;
    bool is_stated = stated_int(s, s->embedding, "div_val", &stated);
    if (n_band > 1) {
        least = 2;
        while (least <= width[0] && !divides(width, n_band, least))
            least++;
        if (least > width[0])
            return txl_fail(error, TXL_FORMAT, "%s: no div_val makes the widths of its embeddings",
                            s->path);
    }
    if (is_stated && (stated < least || !divides(width, n_band, stated)))
        return txl_fail(error, TXL_FORMAT,
                        "%s: div_val is stated as %d, but the embeddings are those of %d",
                        s->stated_in, stated, least);
    r->settings.transformer_xl.div_val = is_stated ? stated : least;
    return TXL_OK;
}

/* Reads the bands that have an embedding of their own, and the ratio of their widths. */
static txl_status read_embedding_shapes(struct recognised *r, const struct statements *s,
                                        txl_error *error) {
    struct transformer_xl_settings *f = &r->settings.transformer_xl;
    int width[MAX_BAND], n = names_count(&r->names, EMBEDDING_WEIGHT);
    n = n > 0 ? n : 1;
    uint64_t n_token = 0;
    if (n > MAX_BAND)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: more than %d bands", s->path, MAX_BAND);
    for (int i = 0; i < n; i++) {
        struct checkpoint_tensor t;
        txl_status status = names_need(&r->names, EMBEDDING_WEIGHT, i, &t, error);
        if (status)
            return status;
        width[i] = (int)t.shape[1];
        n_token += t.shape[0];
        if (n_token > INT32_MAX)
            return txl_fail(error, TXL_FORMAT, "%s: the vocabulary is impossibly large", s->path);
        f->cutoff[i] = (int)n_token;
    }
    f->model.n_token = (int)n_token;
    f->n_band = n;
    f->d_embed = width[0];
    return find_div_val(r, s, width, n, error);
}

/* Of the bands that share one embedding each may have a bias of its own, whose length is the
 * band's. */
static txl_status read_bias_shapes(struct recognised *r, txl_error *error) {
    struct transformer_xl_settings *f = &r->settings.transformer_xl;
    struct names bands = r->names;
    bands.all_bands = true;
    int n = f->n_band == 1 && names_which(&bands, SOFTMAX_BIAS, 0) == 0 &&
                    !names_own(&bands, EMBEDDING_WEIGHT, 0)
                ? names_count(&bands, SOFTMAX_BIAS)
                : 0;
    if (n == 0)
        return TXL_OK;
    if (n > MAX_BAND)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: more than %d bands",
                        checkpoint_path(r->names.checkpoint), MAX_BAND);
    uint64_t end = 0;
    for (int i = 0; i < n; i++) {
        struct checkpoint_tensor bias;
        txl_status status = names_need(&bands, SOFTMAX_BIAS, i, &bias, error);
        if (status)
            return status;
        end += bias.shape[0];
        if (end > (uint64_t)f->model.n_token || (i + 1 == n && end != (uint64_t)f->model.n_token))
            return txl_fail(error, TXL_FORMAT,
                            "%s: tensor %s: the biases up to it are for %llu symbols, but the "
                            "embedding has %d",
                            checkpoint_path(r->names.checkpoint), bias.name,
                            (unsigned long long)end, f->model.n_token);
        f->cutoff[i] = (int)end;
    }
    f->n_band = n;
    r->names.all_bands = true;
    return TXL_OK;
}

/* Each type of attention has tensors that no other type has. */
static enum attention_type attention_type(const struct names *names) {
    bool learned = names_which(names, ATTENTION_R_EMB, 0) >= 0;
    if (names_which(names, ATTENTION_QKV, 0) > 0) /* queries apart */
        return learned ? ATTENTION_LEARNED_POSITION : ATTENTION_SINUSOID;
    return learned || names_which(names, ATTENTION_R_BIAS, 0) >= 0 ? ATTENTION_LEARNED_DISTANCE
                                                                   : ATTENTION_RELATIVE;
}

/* A bias or learned row has n_head and d_head as its last two dimensions. */
static txl_status read_head_shapes(struct recognised *r, int width, txl_error *error) {
    struct transformer_xl_settings *f = &r->settings.transformer_xl;
    struct checkpoint_tensor heads;
    const bool relative = f->attn_type == ATTENTION_RELATIVE;
    f->biases_per_layer =
        f->attn_type == ATTENTION_LEARNED_DISTANCE || names_which(&r->names, ATTENTION_U, 0) >= 0;
    if (f->attn_type == ATTENTION_SINUSOID)
        return TXL_OK; /* nothing shows it */
    txl_status status = names_need(&r->names,
                                   !relative             ? ATTENTION_R_EMB
                                   : f->biases_per_layer ? ATTENTION_U
                                                         : SHARED_U,
                                   0, &heads, error);
    if (status)
        return status;
    f->max_klen = relative ? 0 : (int)heads.shape[0];
    f->n_head = (int)heads.shape[heads.n_dim - 2];
    f->d_head = (int)heads.shape[heads.n_dim - 1];
    if ((int64_t)f->n_head * f->d_head != width)
        return txl_fail(
            error, TXL_FORMAT, "%s: tensor %s is for %d heads of %d, but their outputs are %d wide",
            checkpoint_path(r->names.checkpoint), heads.name, f->n_head, f->d_head, width);
    return TXL_OK;
}

static txl_status read_layer_shapes(struct recognised *r, int *width, txl_error *error) {
    struct transformer_xl_settings *f = &r->settings.transformer_xl;
    struct checkpoint_tensor o, inner;
    txl_status status = names_need(&r->names, ATTENTION_O, 0, &o, error);
    if (!status)
        status = names_need(&r->names, FEED_FORWARD_1_WEIGHT, 0, &inner, error);
    if (status)
        return status;
    f->n_layer = names_count(&r->names, ATTENTION_O);
    f->d_model = (int)o.shape[0];
    f->d_inner = (int)inner.shape[0];
    f->attn_type = attention_type(&r->names);
    *width = (int)o.shape[1];
    return read_head_shapes(r, *width, error);
}

/* Checks that statements about the shapes are true, and that the shapes are within the limits of a
 * weights file.  A dimension of 0 does not follow from the shapes. */
static txl_status check_shapes(const struct recognised *r, const struct statements *s,
                               txl_error *error) {
    const struct transformer_xl_settings *f = &r->settings.transformer_xl;
    const struct {
        const char *key;
        int value, most;
    } dimension[] = {
        {"n_layer", f->n_layer, MAX_N_LAYER},       {"n_head", f->n_head, MAX_N_HEAD},
        {"d_head", f->d_head, MAX_D_HEAD},          {"d_model", f->d_model, MAX_D_MODEL},
        {"d_embed", f->d_embed, MAX_D_MODEL},       {"d_inner", f->d_inner, MAX_D_INNER},
        {"n_token", f->model.n_token, MAX_N_TOKEN}, {"vocab_size", f->model.n_token, MAX_N_TOKEN},
        {"max_klen", f->max_klen, MAX_KLEN},
    };
    for (size_t i = 0; i < sizeof dimension / sizeof *dimension; i++) {
        int stated = 0;
        if (dimension[i].value > dimension[i].most)
            return txl_fail(error, TXL_UNSUPPORTED, "%s: %s is %d; txl runs up to %d", s->path,
                            dimension[i].key, dimension[i].value, dimension[i].most);
        if (dimension[i].value > 0 && stated_int(s, s->module, dimension[i].key, &stated) &&
            stated != dimension[i].value)
            return txl_fail(error, TXL_FORMAT,
                            "%s: %s is stated as %d, but the tensors are those of %d", s->stated_in,
                            dimension[i].key, stated, dimension[i].value);
    }
    if (f->d_model % 2 != 0)
        return txl_fail(error, TXL_FORMAT, "%s: d_model is %d, an odd number", s->path, f->d_model);
    if (f->attn_type == ATTENTION_LEARNED_POSITION && f->n_head * f->d_head != f->d_model)
        return txl_fail(error, TXL_FORMAT, "%s: %d heads of %d are not as wide as the model, %d",
                        s->path, f->n_head, f->d_head, f->d_model);
    return TXL_OK;
}

/* ---- The facts that shapes do not tell ---------------------------------------------------- */

static void ask_for(struct statements *s, const char *flag) {
    struct recognised *r = s->recognised;
    size_t used = strlen(r->missing);
    snprintf(r->missing + used, sizeof r->missing - used, " %s", flag);
}

static void settle_int(struct statements *s, int flag, const char *key, const char *ask,
                       int *value) {
    if (flag >= 0)
        *value = flag;
    else if (!stated_int(s, s->module, key, value))
        ask_for(s, ask);
}

static void settle_bool(struct statements *s, enum convert_choice flag,
                        const struct pickle_value *object, const char *key, const char *ask,
                        bool *value) {
    if (flag != CONVERT_UNSET)
        *value = flag == CONVERT_YES;
    else if (!stated_bool(s, object, key, value))
        ask_for(s, ask);
}

/* Numbers that may end with n_token, as modules and some config.json have them. */
struct cutoffs {
    long long at[MAX_BAND];
    size_t n; /* > MAX_BAND: too many */
};

static void add_cutoff(struct cutoffs *cutoffs, long long cutoff) {
    if (cutoffs->n < MAX_BAND)
        cutoffs->at[cutoffs->n] = cutoff;
    cutoffs->n++;
}

static txl_status read_cutoffs_flag(const char *flag, struct cutoffs *cutoffs, txl_error *error) {
    for (const char *p = flag + strspn(flag, ", "); *p; p += strspn(p, ", ")) {
        char *end;
        errno = 0;
        add_cutoff(cutoffs, strtoll(p, &end, 10));
        if (end == p || errno || !strchr(", ", *end))
            return txl_fail(error, TXL_ARGUMENT,
                            "--cutoffs takes numbers separated by commas, not \"%s\"", flag);
        p = end;
    }
    return TXL_OK;
}

/* An item that is not a number becomes 0, which is no cutoff. */
static bool stated_cutoffs(const struct statements *s, struct cutoffs *cutoffs) {
    const struct pickle_value *list = checkpoint_attribute(s->embedding, "cutoffs"), *item;
    const json_t *array = json_object_get(s->config, "cutoffs");
    if (list && list->kind == PICKLE_LIST) {
        for (size_t i = 0; (item = pickle_item(list, i)); i++)
            add_cutoff(cutoffs, item->kind == PICKLE_INT ? item->integer : 0);
        return true;
    }
    /* corpus-info.json has all bounds, from 0 on. */
    const json_t *first = json_array_get(array, 0);
    for (size_t i = json_is_integer(first) && json_integer_value(first) == 0;
         i < json_array_size(array); i++)
        add_cutoff(cutoffs, json_integer_value(json_array_get(array, i)));
    return json_is_array(array);
}

/* The cutoffs follow from the sizes of the embeddings.  Where all bands share one embedding,
 * cluster_weight gives the number of bands, and the cutoffs must be stated. */
static txl_status settle_cutoffs(struct recognised *r, struct statements *s, const char *flag,
                                 txl_error *error) {
    struct transformer_xl_settings *f = &r->settings.transformer_xl;
    struct cutoffs list = {.n = 0};
    const struct checkpoint_tensor *clusters = names_own(&r->names, CLUSTER_WEIGHT, 0);
    bool sizes_tell = f->n_band > 1 || !clusters || r->names.all_bands;
    if (!sizes_tell && (clusters->n_dim != 2 || clusters->shape[0] > MAX_BAND - 1))
        return txl_fail(error, TXL_UNSUPPORTED, "%s: tensor %s is not that of up to %d bands",
                        s->path, clusters->name, MAX_BAND);
    if (!sizes_tell)
        f->n_band = (int)clusters->shape[0] + 1;
    txl_status status = flag ? read_cutoffs_flag(flag, &list, error) : TXL_OK;
    if (status)
        return status;
    if (!flag && !stated_cutoffs(s, &list)) {
        if (!sizes_tell)
            ask_for(s, "--cutoffs N,N,...");
        return TXL_OK;
    }
    if (list.n > 0 && list.n <= MAX_BAND && list.at[list.n - 1] == f->model.n_token)
        list.n--;
    const char *path = flag ? s->path : s->stated_in;
    if (list.n != (size_t)f->n_band - 1)
        return txl_fail(error, TXL_FORMAT, "%s: %zu cutoffs, but the tensors are those of %d bands",
                        path, list.n, f->n_band);
    for (size_t i = 0; i < list.n; i++) {
        if (list.at[i] <= (i > 0 ? list.at[i - 1] : 0) || list.at[i] >= f->model.n_token)
            return txl_fail(error, TXL_FORMAT,
                            "%s: cutoff %lld: cutoffs ascend, between 0 and the vocabulary's size, "
                            "%d",
                            path, list.at[i], f->model.n_token);
        if (sizes_tell && list.at[i] != f->cutoff[i])
            return txl_fail(error, TXL_FORMAT,
                            "%s: cutoff %lld, but the embeddings' sizes make it %d", path,
                            list.at[i], f->cutoff[i]);
        f->cutoff[i] = (int)list.at[i];
    }
    return TXL_OK;
}

/* The dialect follows from the code that trained the model: published PyTorch code pickles its
 * module; a Hugging Face config.json comes with weights that TensorFlow trained. */
static void settle_dialect(struct recognised *r, struct statements *s,
                           const struct convert_options *o) {
    struct transformer_xl_settings *f = &r->settings.transformer_xl;
    f->memory_start = setting_word(memory_start_name, o->memory_start);
    f->cluster_order = setting_word(cluster_order_name, o->cluster_order);
    if (f->memory_start < 0 && (s->module || s->config))
        f->memory_start = s->module ? MEMORY_EMPTY : MEMORY_ZEROS;
    if (f->cluster_order < 0 && (s->module || s->config))
        f->cluster_order = s->module ? CLUSTERS_REVERSED : CLUSTERS_FORWARD;
    if (f->memory_start < 0 && !attention_is_relative(f->attn_type))
        f->memory_start = MEMORY_EMPTY; /* they have no memory */
    if (f->cluster_order < 0 && f->n_band <= 2)
        f->cluster_order = CLUSTERS_REVERSED; /* with at most one cluster the orders are the same */
    int reach = setting_word(same_length_reach_name, o->same_length_reach);
    f->same_length_reach = reach >= 0         ? reach
                           : is_tensorflow(r) ? REACH_MEM_LEN_AND_1
                                              : REACH_MEM_LEN;
    if (f->memory_start < 0) {
        ask_for(s, "--memory-start empty|zeros");
        f->memory_start = MEMORY_EMPTY; /* any: descriptions leave it out */
    }
    if (f->cluster_order < 0) {
        ask_for(s, "--cluster-order reversed|forward");
        f->cluster_order = CLUSTERS_REVERSED;
    }
}

static txl_status settle_heads(struct recognised *r, struct statements *s, int flag, int width,
                               txl_error *error) {
    struct transformer_xl_settings *f = &r->settings.transformer_xl;
    if (f->n_head > 0) { /* by the shape of a bias; then d_head is known too */
        if (flag > 0 && flag != f->n_head)
            return txl_fail(error, TXL_ARGUMENT, "%s: --n-head %d, but its tensors have %d heads",
                            s->path, flag, f->n_head);
        return TXL_OK;
    }
    int n_head = flag;
    if (n_head <= 0 && !stated_int(s, s->module, "n_head", &n_head)) {
        ask_for(s, "--n-head N");
        return TXL_OK;
    }
    const char *path = flag > 0 ? s->path : s->stated_in;
    if (n_head < 1 || width % n_head != 0)
        return txl_fail(error, TXL_FORMAT, "%s: %d heads do not divide a width of %d", path, n_head,
                        width);
    if (n_head > MAX_N_HEAD || width / n_head > MAX_D_HEAD)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: %d heads of %d; txl runs up to %d of up to %d",
                        path, n_head, width / n_head, MAX_N_HEAD, MAX_D_HEAD);
    f->n_head = n_head;
    f->d_head = width / n_head;
    return TXL_OK;
}

static txl_status settle_attention_type(const struct recognised *r, const struct statements *s,
                                        const struct convert_options *o, txl_error *error) {
    const int found = (int)r->settings.transformer_xl.attn_type;
    int stated = o->has_attn_type ? (int)o->attn_type : found;
    if (!o->has_attn_type)
        stated_int(s, s->module, "attn_type", &stated);
    if (stated != found)
        return txl_fail(error, o->has_attn_type ? TXL_ARGUMENT : TXL_FORMAT,
                        "%s: attention type %d is claimed, but the tensors are those of type %d",
                        o->has_attn_type ? s->path : s->stated_in, stated, found);
    return TXL_OK;
}

static void settle_lengths(struct recognised *r, struct statements *s,
                           const struct convert_options *o) {
    struct transformer_xl_settings *f = &r->settings.transformer_xl;
    settle_int(s, o->tgt_len, "tgt_len", "--tgt-len N", &f->model.tgt_len);
    settle_int(s, o->mem_len, "mem_len", "--mem-len N", &f->model.mem_len);
    if (o->has_clamp_len)
        f->model.clamp_len = o->clamp_len;
    else if (!stated_int(s, s->module, "clamp_len", &f->model.clamp_len))
        ask_for(s, "--clamp-len N");
    if (f->model.clamp_len <= 0)
        f->model.clamp_len = -1;
}

static txl_status check_lengths(const struct recognised *r, const struct statements *s,
                                txl_error *error) {
    const struct transformer_xl_settings *f = &r->settings.transformer_xl;
    if (f->model.tgt_len < 1 || f->model.tgt_len > TXL_MAX_TGT_LEN || f->model.mem_len < 0 ||
        f->model.mem_len > TXL_MAX_MEM_LEN)
        return txl_fail(error, TXL_FORMAT,
                        "%s: tgt_len %d and mem_len %d are not from 1 to %d and from 0 to %d; "
                        "correct them with --tgt-len and --mem-len",
                        s->stated_in, f->model.tgt_len, f->model.mem_len, TXL_MAX_TGT_LEN,
                        TXL_MAX_MEM_LEN);
    if (!attention_is_relative(f->attn_type) && f->model.mem_len > 0)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: mem_len is %d, but attention type %d has no memory; convert with "
                        "--mem-len 0",
                        s->stated_in, f->model.mem_len, (int)f->attn_type);
    if (f->attn_type == ATTENTION_LEARNED_POSITION && f->model.tgt_len > f->max_klen)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: tgt_len is %d, but there are %d positions; correct it with --tgt-len",
                        s->stated_in, f->model.tgt_len, f->max_klen);
    return TXL_OK;
}

/* The dataset as the authors' pickled corpus names it, where corpus-info.json does not.  A
 * vocabulary that cannot be read is for the conversion to refuse. */
static txl_status find_dataset(struct recognised *r, const struct convert_options *o,
                               txl_error *error) {
    char *found = NULL;
    struct vocabulary_file file = {0};
    txl_status status =
        o->vocabulary ? TXL_OK
                      : vocabulary_file_find(checkpoint_path(r->names.checkpoint), &found, error);
    if (!status)
        status = vocabulary_file_read(o->vocabulary ? o->vocabulary : found, &file, error);
    if (!status && file.dataset)
        snprintf(r->dataset, sizeof r->dataset, "%s", file.dataset);
    vocabulary_file_free(&file);
    free(found);
    return status == TXL_MEMORY ? status : TXL_OK;
}

/* A TensorFlow checkpoint of a published shape has the settings of its published evaluation. */
static txl_status state_evaluation(struct recognised *r, struct statements *s,
                                   const struct convert_options *o, txl_error *error) {
    const struct transformer_xl_settings *f = &r->settings.transformer_xl;
    txl_status status = TXL_OK;
    if (!r->dataset[0] && published_evaluation(f, "enwik8")) /* the dataset may decide */
        status = find_dataset(r, o, error);
    const struct published *e = status ? NULL : published_evaluation(f, r->dataset);
    if (!e)
        return status;
    json_t *row = json_pack("{s:i, s:i, s:i, s:b}", "tgt_len", e->tgt_len, "mem_len", e->mem_len,
                            "clamp_len", e->clamp_len, "same_length", true);
    int failed = json_object_update(s->config, row);
    json_decref(row);
    if (failed)
        return txl_fail_memory(error, "the settings", 4096);
    char text[256];
    snprintf(
        text, sizeof text,
        "this is the shape of a published model (%s): tgt_len %d, mem_len %d, clamp_len %d and "
        "same_length are what it was evaluated with",
        e->name, e->tgt_len, e->mem_len, e->clamp_len);
    if (o->note)
        o->note(o->note_context, text);
    return TXL_OK;
}

static txl_status settle(struct recognised *r, struct statements *s,
                         const struct convert_options *o, int width, txl_error *error) {
    struct transformer_xl_settings *f = &r->settings.transformer_xl;
    txl_status status = settle_attention_type(r, s, o, error);
    if (!status)
        status = settle_heads(r, s, o->n_head, width, error);
    if (!status)
        status = settle_cutoffs(r, s, o->cutoffs, error);
    if (status)
        return status;
    if (is_tensorflow(r))
        status = state_evaluation(r, s, o, error);
    if (status)
        return status;
    settle_bool(s, o->pre_lnorm, s->half, "pre_lnorm", "--pre-lnorm yes|no", &f->pre_lnorm);
    settle_dialect(r, s, o);
    settle_lengths(r, s, o);
    settle_bool(s, o->same_length, s->module, "same_length", "--same-length yes|no",
                &f->model.same_length);
    return r->missing[0] ? TXL_OK : check_lengths(r, s, error);
}

/* ---- Tied tensors ------------------------------------------------------------------------- */

/* torch.save writes a module's tied tensors under both names. */
static bool has_own_weights(const struct statements *s) {
    const char *const keys[] = {"tie_weight", "tie_word_embeddings"};
    bool tied = !s->module;
    for (size_t i = 0; i < 2 && tied; i++)
        stated_bool(s, NULL, keys[i], &tied);
    return !tied;
}

/* Hugging Face's older configurations list the bands; later ones have one rule for all but the
 * first. */
static bool has_own_projection(const struct statements *s, int band) {
    const json_t *list = json_object_get(s->config, "tie_projs");
    bool shared = true;
    if (s->module)
        return true;
    if (!s->config)
        return false;
    if (json_is_array(list))
        return !json_is_true(json_array_get(list, (size_t)band));
    stated_bool(s, NULL, "proj_share_all_but_first", &shared);
    return band == 0 || !shared;
}

/* In TensorFlow's code a softmax without projections of its own takes the embedding's. */
static txl_status find_tensorflow_ties(struct recognised *r, txl_error *error) {
    struct transformer_xl_settings *f = &r->settings.transformer_xl;
    f->tied_weights = true;
    for (int i = 0; i < f->n_band; i++) {
        const bool in = names_which(&r->names, EMBEDDING_PROJECTION, i) >= 0;
        const struct checkpoint_tensor *own = names_own(&r->names, SOFTMAX_PROJECTION, i);
        if (own && !in)
            return txl_fail(error, TXL_UNSUPPORTED,
                            "%s: tensor %s projects a band whose embedding is not projected; no "
                            "published code makes this",
                            checkpoint_path(r->names.checkpoint), own->name);
        f->tied_projection[i] = in && !own;
        if (f->div_val > 1 && !in && transformer_xl_band_width(f, i) == f->d_model)
            f->proj_same_dim = false;
    }
    return TXL_OK;
}

static txl_status find_ties(struct recognised *r, const struct statements *s, txl_error *error) {
    if (is_tensorflow(r))
        return find_tensorflow_ties(r, error);
    struct transformer_xl_settings *f = &r->settings.transformer_xl;
    int n_embedding = f->div_val > 1 ? f->n_band : 1;
    f->tied_weights = true;
    for (int i = 0; i < n_embedding; i++) {
        bool tied;
        txl_status status = names_tied(&r->names, EMBEDDING_WEIGHT, i, SOFTMAX_WEIGHT, i,
                                       has_own_weights(s), &tied, error);
        if (status)
            return status;
        f->tied_weights = f->tied_weights && tied;
    }
    for (int i = 0; i < f->n_band; i++) {
        txl_status status =
            names_tied(&r->names, EMBEDDING_PROJECTION, f->div_val > 1 ? i : 0, SOFTMAX_PROJECTION,
                       i, has_own_projection(s, i), &f->tied_projection[i], error);
        if (status)
            return status;
    }
    return TXL_OK;
}

/* ---- All of it ---------------------------------------------------------------------------- */

static txl_status find_facts(struct recognised *r, struct statements *s,
                             const struct convert_options *options, txl_error *error) {
    int width = 0;
    txl_status status = refuse_variants(r, s, error);
    if (!status)
        status = read_epsilon(s, options->layer_norm_eps,
                              &r->settings.transformer_xl.layer_norm_eps, error);
    if (!status && names_which(&r->names, SOFTMAX_BIAS, 0) < 0)
        status = is_tensorflow(r)
                     ? refuse_other_code(r, error)
                     : recognise_nothing(r->names.checkpoint, "crit.out_layers.0.bias", error);
    if (!status)
        status = read_embedding_shapes(r, s, error);
    if (!status)
        status = read_bias_shapes(r, error);
    if (!status)
        status = read_layer_shapes(r, &width, error);
    if (!status)
        status = check_shapes(r, s, error);
    if (!status)
        status = settle(r, s, options, width, error);
    if (!status)
        status = find_ties(r, s, error);
    return status;
}

txl_status recognise_transformer_xl(struct recognised *r, const struct convert_options *options,
                                    txl_error *error) {
    struct statements s = {0};
    if (options->activation)
        return txl_fail(error, TXL_ARGUMENT,
                        "--activation means nothing to a Transformer-XL: its activation is relu");
    r->settings.transformer_xl = (struct transformer_xl_settings){
        .model = {.clamp_len = -1}, .layer_norm_eps = LAYER_NORM_EPS, .proj_same_dim = true};
    txl_status status = find_statements(r, &s, error);
    if (!status)
        status = find_facts(r, &s, options, error);
    json_decref(s.config);
    return status;
}
