/* Recognising a Transformer-XL.  Most facts follow from shapes, in every container.  The rest comes
 * from the options, from a pickled module's attributes, from NVIDIA's model_config, or from a
 * Hugging Face config.json; one message asks for everything that none of them states.  Options take
 * precedence over attributes or config.json; statements about shapes must agree with the shapes. */
#include "lib/base/error.h"
#include "published.h"
#include "recognise.h"
#include "vocabulary_file.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Statements --------------------------------------------------------------------------- */

/* The attribute of the module or of a part of it, or the entry of the dict that stands for both. */
static const struct pickle_value *attribute_of(const struct pickle_value *object, const char *key) {
    return object && object->kind == PICKLE_DICT ? pickle_get(object, key)
                                                 : checkpoint_attribute(object, key);
}

/* A stated integer, or with `truth` 0 or 1, which older code states as an integer.  `object` is the
 * module or the part of it that has the attribute. */
static bool stated(const struct recognition *s, const struct pickle_value *object, const char *key,
                   bool truth, int *value) {
    const struct pickle_value *attribute = attribute_of(object, key);
    const json_t *member = json_object_get(s->config, key);
    int64_t number;
    if (truth && attribute && attribute->kind == PICKLE_BOOL)
        number = attribute->boolean;
    else if (truth && json_is_boolean(member))
        number = json_is_true(member);
    else if (attribute && attribute->kind == PICKLE_INT)
        number = attribute->integer;
    else if (json_is_integer(member))
        number = json_integer_value(member);
    else
        return false;
    if (number < INT32_MIN || number > INT32_MAX)
        return false;
    *value = truth ? number != 0 : (int)number;
    return true;
}

/* The pickled module, found by the names of its tensors: in "model.module.word_emb..." it is the
 * root's "model"'s "module".  Only of the published class: the attributes of another class do not
 * show its dialect. */
static const struct pickle_value *find_module(const struct names *names) {
    const struct pickle_value *value = checkpoint_root(names->checkpoint);
    char path[sizeof names->prefix], *rest = path;
    memcpy(path, names->prefix, sizeof path);
    for (char *key; value && (key = strsep(&rest, ".")) && *key;)
        value =
            value->kind == PICKLE_DICT ? pickle_get(value, key) : checkpoint_attribute(value, key);
    if (!value || value->kind != PICKLE_OBJECT)
        return NULL;
    const char *dot = strrchr(value->object->class_name, '.');
    const char *name = dot ? dot + 1 : value->object->class_name;
    return strcmp(name, "MemTransformerLM") == 0 ? value : NULL;
}

/* Checks the types of what corpus-info.json states about the softmax. */
static txl_status check_corpus(const struct recognition *s, const json_t *corpus) {
    const json_t *size = json_object_get(corpus, "vocab_size"),
                 *cutoffs = json_object_get(corpus, "cutoffs");
    const json_int_t n = json_integer_value(size);
    if (size && (!json_is_integer(size) || n < 1 || n > MAX_N_TOKEN))
        return txl_fail(s->error, TXL_FORMAT, "%s: vocab_size is not a whole number from 1 to %d",
                        s->recognised->config_path, MAX_N_TOKEN);
    if (cutoffs && !json_is_array(cutoffs))
        return txl_fail(s->error, TXL_FORMAT, "%s: cutoffs is not a list of numbers",
                        s->recognised->config_path);
    return TXL_OK;
}

/* The statements of a TensorFlow checkpoint: corpus-info.json's about the softmax, and those that
 * hold for every model of the authors' code. */
static txl_status find_corpus(struct recognition *s) {
    struct recognised *r = s->recognised;
    json_t *corpus = NULL;
    txl_status status =
        config_file_load(s->path, s->config_name, &r->config_path, &corpus, s->error);
    const char *dataset = json_string_value(json_object_get(corpus, "dataset"));
    snprintf(r->dataset, sizeof r->dataset, "%s", dataset ? dataset : "");
    r->by_dataset = true;
    status = status ? status : check_corpus(s, corpus);
    s->config = json_pack("{s:b, s:f, s:O*, s:O*}", "pre_lnorm", false, "layer_norm_epsilon", 1e-12,
                          "vocab_size", json_object_get(corpus, "vocab_size"), "cutoffs",
                          json_object_get(corpus, "cutoffs"));
    json_decref(corpus);
    return status || s->config ? status : txl_fail_memory(s->error, "the settings", 4096);
}

/* NVIDIA's checkpoint states every argument of the model's constructor beside its tensors. */
static void find_model_config(struct recognition *s) {
    const struct pickle_value *config =
        pickle_get(checkpoint_root(s->names->checkpoint), "model_config");
    s->stated_in = s->path;
    if (config && config->kind == PICKLE_DICT)
        s->module = s->embedding = s->half = config;
}

static txl_status find_statements(struct recognition *s) {
    char **config_path = &s->recognised->config_path;
    txl_status status = TXL_OK;
    if (s->nvidia) {
        find_model_config(s);
        return TXL_OK;
    }
    s->module = find_module(s->names);
    if (s->tensorflow)
        status = find_corpus(s);
    else if (!s->module)
        status = config_file_load(s->path, s->config_name, config_path, &s->config, s->error);
    s->stated_in = *config_path ? *config_path : s->path;
    s->embedding = checkpoint_attribute(s->module, "word_emb");
    const struct pickle_value *layers = checkpoint_attribute(s->module, "layers");
    s->half = checkpoint_attribute(checkpoint_attribute(layers, "0"), "pos_ff");
    return status;
}

/* ---- Refusals ----------------------------------------------------------------------------- */

static txl_status refuse_variants(struct recognition *s) {
    int value = 0;
    bool samples = stated(s, s->module, "sample_softmax", false, &value) && value > 0;
    const struct names_text sampled = names_spell(s->names, "out_layer.bias", 0);
    if (samples || checkpoint_find(s->names->checkpoint, sampled.text))
        return txl_fail(s->error, TXL_UNSUPPORTED,
                        "%s: trained with sample_softmax; txl runs full and adaptive softmaxes "
                        "only",
                        samples ? s->stated_in : s->path);
    if (stated(s, s->module, "ext_len", false, &value) && value > 0)
        return txl_fail(s->error, TXL_UNSUPPORTED, "%s: ext_len is %d; txl runs ext_len 0 only",
                        s->stated_in, value);
    return TXL_OK;
}

/* Hugging Face's TransfoXLModel is saved without its softmax, alone or in a classifier. */
static txl_status refuse_headless(struct recognition *s) {
    if (names_which(s->names, EMBEDDING_WEIGHT, 0) < 0)
        return recognise_nothing(s->recognised, "crit.out_layers.0.bias", s->error);
    return txl_fail(s->error, TXL_UNSUPPORTED,
                    "%s: a Transformer-XL without its softmax (no tensor crit.out_layers.0.bias): "
                    "it is no language model; convert the model that it was made from, saved from "
                    "TransfoXLLMHeadModel (for example transfo-xl-wt103)",
                    s->path);
}

/* Others have built on the authors' layers (REMI's normal_embed and normal_softmax). */
static txl_status refuse_other_code(struct recognition *s) {
    if (names_which(s->names, SOFTMAX_BIAS, 0) >= 0)
        return TXL_OK;
    if (!s->tensorflow)
        return refuse_headless(s);
    return txl_fail(s->error, TXL_UNSUPPORTED,
                    "%s: the layers are a Transformer-XL's, but there is no tensor named %s: its "
                    "variables are those of other code, such as REMI's; save it again under the "
                    "names of the authors' tf/model.py",
                    s->path, names_spell(s->names, "adaptive_softmax/bias", 0).text);
}

/* ---- Facts that shapes show --------------------------------------------------------------- */

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
static txl_status find_div_val(struct recognition *s, const int *width, int n_band) {
    int least = n_band > 1 ? 2 : 1;
    while (least <= width[0] && !divides(width, n_band, least))
        least++;
    if (least > width[0])
        return txl_fail(s->error, TXL_FORMAT, "%s: no div_val makes the widths of its embeddings",
                        s->path);
    int div_val = least;
    if (stated(s, s->embedding, "div_val", false, &div_val) &&
        (div_val < least || !divides(width, n_band, div_val)))
        return txl_fail(s->error, TXL_FORMAT,
                        "%s: div_val is stated as %d, but the embeddings are those of %d",
                        s->stated_in, div_val, least);
    s->recognised->settings.transformer_xl.div_val = div_val;
    return TXL_OK;
}

/* Reads the shapes of a parameter's tensors, one for each of n bands: where each band ends, and its
 * second dimension. */
static txl_status read_bands(const struct recognition *s, int number, int n, int *end, int *width) {
    uint64_t sum = 0;
    if (n > MAX_BAND)
        return txl_fail(s->error, TXL_UNSUPPORTED, "%s: more than %d bands", s->path, MAX_BAND);
    for (int i = 0; i < n; i++) {
        struct checkpoint_tensor t;
        txl_status status = names_need(s->names, number, i, &t, s->error);
        if (status)
            return status;
        sum += t.shape[0];
        if (sum > INT32_MAX)
            return txl_fail(s->error, TXL_FORMAT,
                            "%s: tensor %s: the vocabulary up to it is impossibly large", s->path,
                            t.name);
        end[i] = (int)sum;
        width[i] = (int)t.shape[1];
    }
    return TXL_OK;
}

/* Reads the bands that have an embedding of their own, and the ratio of their widths. */
static txl_status read_embedding_shapes(struct recognition *s) {
    struct transformer_xl_settings *f = &s->recognised->settings.transformer_xl;
    int width[MAX_BAND], n = names_count(s->names, EMBEDDING_WEIGHT);
    f->n_band = n > 0 ? n : 1;
    txl_status status = read_bands(s, EMBEDDING_WEIGHT, f->n_band, f->cutoff, width);
    if (status)
        return status;
    f->model.n_token = f->cutoff[f->n_band - 1];
    f->d_embed = width[0];
    return find_div_val(s, width, f->n_band);
}

/* Bands that share one embedding may each have a bias of their own, as long as the band. */
static txl_status read_bias_shapes(struct recognition *s) {
    struct transformer_xl_settings *f = &s->recognised->settings.transformer_xl;
    struct names *names = &s->recognised->names;
    int n = 0, width[MAX_BAND];
    names->all_bands = true;
    if (f->n_band == 1 && names_which(names, SOFTMAX_BIAS, 0) == 0 &&
        !names_own(names, EMBEDDING_WEIGHT, 0))
        n = names_count(names, SOFTMAX_BIAS);
    names->all_bands = n > 0;
    txl_status status = read_bands(s, SOFTMAX_BIAS, n, f->cutoff, width);
    if (status || n == 0)
        return status;
    f->n_band = n;
    if (f->cutoff[n - 1] != f->model.n_token)
        return txl_fail(s->error, TXL_FORMAT,
                        "%s: tensor %s: the biases up to it are for %d symbols, but the embedding "
                        "has %d",
                        s->path, names_usual(names, SOFTMAX_BIAS, n - 1).text, f->cutoff[n - 1],
                        f->model.n_token);
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

static txl_status read_layer_shapes(struct recognition *s) {
    struct transformer_xl_settings *f = &s->recognised->settings.transformer_xl;
    struct checkpoint_tensor o, inner;
    txl_status status = names_need(s->names, ATTENTION_O, 0, &o, s->error);
    if (!status)
        status = names_need(s->names, FEED_FORWARD_1_WEIGHT, 0, &inner, s->error);
    if (status)
        return status;
    f->n_layer = names_count(s->names, ATTENTION_O);
    f->d_model = (int)o.shape[0];
    f->d_inner = (int)inner.shape[0];
    f->attn_type = attention_type(s->names);
    f->biases_per_layer =
        f->attn_type == ATTENTION_LEARNED_DISTANCE || names_which(s->names, ATTENTION_U, 0) >= 0;
    s->width = (int)o.shape[1];
    return TXL_OK;
}

/* A bias or learned row has n_head and d_head as its last two dimensions. */
static txl_status read_head_shapes(struct recognition *s) {
    struct transformer_xl_settings *f = &s->recognised->settings.transformer_xl;
    struct checkpoint_tensor heads;
    const bool relative = f->attn_type == ATTENTION_RELATIVE;
    const int shown_by = !relative ? ATTENTION_R_EMB : f->biases_per_layer ? ATTENTION_U : SHARED_U;
    if (f->attn_type == ATTENTION_SINUSOID)
        return TXL_OK; /* nothing shows it */
    txl_status status = names_need(s->names, shown_by, 0, &heads, s->error);
    if (status)
        return status;
    f->max_klen = relative ? 0 : (int)heads.shape[0];
    f->n_head = (int)heads.shape[heads.n_dim - 2];
    f->d_head = (int)heads.shape[heads.n_dim - 1];
    if ((int64_t)f->n_head * f->d_head != s->width)
        return txl_fail(s->error, TXL_FORMAT,
                        "%s: tensor %s is for %d heads of %d, but their outputs are %d wide",
                        s->path, heads.name, f->n_head, f->d_head, s->width);
    return TXL_OK;
}

static txl_status state_dimension(const struct recognition *s, const char *key, int *value) {
    stated(s, s->module, key, false, value);
    return TXL_OK;
}

static txl_status check_shapes(struct recognition *s) {
    return recognise_dimensions(s, state_dimension);
}

/* ---- Facts that must be stated ------------------------------------------------------------ */

static void ask_for(struct recognition *s, const char *option) {
    struct recognised *r = s->recognised;
    size_t used = strlen(r->missing);
    snprintf(r->missing + used, sizeof r->missing - used, " %s", option);
}

/* The number or truth that an option gives or, if that is negative, the checkpoint states; else
 * asks for the option. */
static int settle(struct recognition *s, int given, const struct pickle_value *object,
                  const char *key, bool truth, const char *option) {
    int value = given >= 0 ? given : 0;
    if (given < 0 && !stated(s, object, key, truth, &value))
        ask_for(s, option);
    return value;
}

static txl_status settle_attention_type(struct recognition *s) {
    const struct convert_options *o = s->options;
    const int found = (int)s->recognised->settings.transformer_xl.attn_type;
    int claimed = o->attn_type >= 0 ? o->attn_type : found;
    if (o->attn_type < 0)
        stated(s, s->module, "attn_type", false, &claimed);
    if (claimed != found)
        return txl_fail(s->error, o->attn_type >= 0 ? TXL_ARGUMENT : TXL_FORMAT,
                        "%s: attention type %d is claimed, but the tensors are those of type %d",
                        o->attn_type >= 0 ? s->path : s->stated_in, claimed, found);
    return TXL_OK;
}

static txl_status settle_heads(struct recognition *s) {
    struct transformer_xl_settings *f = &s->recognised->settings.transformer_xl;
    const int given = s->options->n_head, width = s->width;
    const char *path = given > 0 ? s->path : s->stated_in;
    int n_head = given;
    if (f->n_head > 0) { /* by the shape of a bias; then d_head is known too */
        if (given > 0 && given != f->n_head)
            return txl_fail(s->error, TXL_ARGUMENT,
                            "%s: --n-head %d, but its tensors have %d heads", path, given,
                            f->n_head);
        return TXL_OK;
    }
    if (n_head <= 0 && !stated(s, s->module, "n_head", false, &n_head)) {
        ask_for(s, "--n-head N");
        return TXL_OK;
    }
    if (n_head < 1 || width % n_head != 0)
        return txl_fail(s->error, TXL_FORMAT, "%s: %d heads do not divide a width of %d", path,
                        n_head, width);
    f->n_head = n_head;
    f->d_head = width / n_head;
    if (n_head > MAX_N_HEAD || f->d_head > MAX_D_HEAD)
        return txl_fail(s->error, TXL_UNSUPPORTED,
                        "%s: %d heads of %d; txl runs up to %d of up to %d", path, n_head,
                        f->d_head, MAX_N_HEAD, MAX_D_HEAD);
    return TXL_OK;
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

static txl_status read_cutoffs_option(const char *text, struct cutoffs *cutoffs, txl_error *error) {
    for (const char *p = text + strspn(text, ", "); *p; p += strspn(p, ", ")) {
        char *end;
        errno = 0;
        add_cutoff(cutoffs, strtoll(p, &end, 10));
        if (end == p || errno || !strchr(", ", *end))
            return txl_fail(error, TXL_ARGUMENT,
                            "--cutoffs takes numbers separated by commas, not \"%s\"", text);
        p = end;
    }
    return TXL_OK;
}

/* An item that is not a number becomes 0, which is no cutoff. */
static bool stated_cutoffs(const struct recognition *s, struct cutoffs *cutoffs) {
    const struct pickle_value *list = attribute_of(s->embedding, "cutoffs"), *item;
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
static txl_status settle_cutoffs(struct recognition *s) {
    struct transformer_xl_settings *f = &s->recognised->settings.transformer_xl;
    const char *option = s->options->cutoffs, *path = option ? s->path : s->stated_in;
    struct cutoffs list = {.n = 0};
    const struct checkpoint_tensor *clusters = names_own(s->names, CLUSTER_WEIGHT, 0);
    bool sizes_tell = f->n_band > 1 || !clusters || s->names->all_bands;
    if (!sizes_tell && (clusters->n_dim != 2 || clusters->shape[0] > MAX_BAND - 1))
        return txl_fail(s->error, TXL_UNSUPPORTED, "%s: tensor %s is not that of up to %d bands",
                        s->path, clusters->name, MAX_BAND);
    if (!sizes_tell)
        f->n_band = (int)clusters->shape[0] + 1;
    txl_status status = option ? read_cutoffs_option(option, &list, s->error) : TXL_OK;
    if (status)
        return status;
    if (!option && !stated_cutoffs(s, &list)) {
        if (!sizes_tell)
            ask_for(s, "--cutoffs N,N,...");
        return TXL_OK;
    }
    if (list.n > 0 && list.n <= MAX_BAND && list.at[list.n - 1] == f->model.n_token)
        list.n--;
    if (s->tensorflow && !option && list.n == (size_t)f->n_band) /* the bounds end with it */
        return txl_fail(s->error, TXL_FORMAT,
                        "%s: the last of the cutoffs is %lld, but the vocabulary's size is %d",
                        path, list.at[list.n - 1], f->model.n_token);
    if (list.n != (size_t)f->n_band - 1)
        return txl_fail(s->error, TXL_FORMAT,
                        "%s: %zu cutoffs, but the tensors are those of %d bands", path, list.n,
                        f->n_band);
    for (size_t i = 0; i < list.n; i++) {
        if (list.at[i] <= (i > 0 ? list.at[i - 1] : 0) || list.at[i] >= f->model.n_token)
            return txl_fail(s->error, TXL_FORMAT,
                            "%s: cutoff %lld: cutoffs ascend, between 0 and the vocabulary's size, "
                            "%d",
                            path, list.at[i], f->model.n_token);
        if (sizes_tell && list.at[i] != f->cutoff[i])
            return txl_fail(s->error, TXL_FORMAT,
                            "%s: cutoff %lld, but the embeddings' sizes make it %d", path,
                            list.at[i], f->cutoff[i]);
        f->cutoff[i] = (int)list.at[i];
    }
    return TXL_OK;
}

/* The dataset as the authors' pickled corpus names it.  A vocabulary that cannot be read is for the
 * conversion to refuse. */
static txl_status find_dataset(struct recognition *s) {
    const char *path = s->options->vocabulary;
    char *found = NULL;
    struct vocabulary_file file = {0};
    txl_status status = path ? TXL_OK : vocabulary_file_find(s->path, &found, s->error);
    if (!status)
        status = vocabulary_file_read(path ? path : found, &file, s->error);
    if (!status && file.dataset)
        snprintf(s->recognised->dataset, sizeof s->recognised->dataset, "%s", file.dataset);
    vocabulary_file_free(&file);
    free(found);
    return status == TXL_MEMORY ? status : TXL_OK;
}

/* A TensorFlow checkpoint of a published shape has the settings of its published evaluation. */
static txl_status state_evaluation(struct recognition *s) {
    const struct convert_options *o = s->options;
    struct recognised *r = s->recognised;
    const struct transformer_xl_settings *f = &r->settings.transformer_xl;
    txl_status status = TXL_OK;
    if (s->tensorflow && !r->dataset[0] && published_evaluation(f, "enwik8"))
        status = find_dataset(s);
    const struct published *e =
        s->tensorflow && !status ? published_evaluation(f, r->dataset) : NULL;
    if (!e)
        return status;
    json_t *row = json_pack("{s:i, s:i, s:i, s:b}", "tgt_len", e->tgt_len, "mem_len", e->mem_len,
                            "clamp_len", e->clamp_len, "same_length", true);
    int failed = json_object_update(s->config, row);
    json_decref(row);
    if (failed)
        return txl_fail_memory(s->error, "the settings", 4096);
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

/* The dialect follows from the code that trained the model: published PyTorch code pickles its
 * module; a Hugging Face config.json comes with weights that TensorFlow trained.  `moot`: both
 * dialects mean the same. */
static int settle_dialect(struct recognition *s, int given, int of_module, int of_config, bool moot,
                          const char *option) {
    if (given >= 0)
        return given;
    if (!s->module && !s->config && !moot)
        ask_for(s, option);
    return s->config ? of_config : of_module;
}

/* Layer normalisation's epsilon. */
static txl_status settle_epsilon(struct recognition *s) {
    const double given = s->options->layer_norm_eps;
    const struct pickle_value *norm = attribute_of(s->half, "layer_norm");
    const struct pickle_value *attribute = checkpoint_attribute(norm, "eps");
    const json_t *number = json_object_get(s->config, "layer_norm_epsilon");
    double epsilon = given >= 0                                     ? given
                     : attribute && attribute->kind == PICKLE_FLOAT ? attribute->real
                     : json_is_number(number)                       ? json_number_value(number)
                                                                    : LAYER_NORM_EPS;
    s->recognised->settings.transformer_xl.layer_norm_eps = epsilon;
    if (epsilon >= 0 && epsilon <= 1)
        return TXL_OK;
    return txl_fail(s->error, TXL_FORMAT,
                    "%s: layer normalisation's epsilon is %g, expected 0 to 1", s->stated_in,
                    epsilon);
}

static txl_status settle_others(struct recognition *s) {
    const struct convert_options *o = s->options;
    struct transformer_xl_settings *f = &s->recognised->settings.transformer_xl;
    struct model_settings *m = &f->model;
    const int reach = setting_word(same_length_reach_name, o->same_length_reach);
    const int clamp_len = !o->has_clamp_len ? -1 : o->clamp_len > 0 ? o->clamp_len : 0;
    f->pre_lnorm = settle(s, o->pre_lnorm, s->half, "pre_lnorm", true, "--pre-lnorm yes|no");
    /* Without relative attention there is no memory; the order of one cluster is any. */
    f->memory_start = settle_dialect(
        s, setting_word(memory_start_name, o->memory_start), MEMORY_EMPTY, MEMORY_ZEROS,
        !attention_is_relative(f->attn_type), "--memory-start empty|zeros");
    f->cluster_order =
        settle_dialect(s, setting_word(cluster_order_name, o->cluster_order), CLUSTERS_REVERSED,
                       CLUSTERS_FORWARD, f->n_band <= 2, "--cluster-order reversed|forward");
    f->same_length_reach = reach >= 0                   ? reach
                           : s->tensorflow || s->nvidia ? REACH_MEM_LEN_AND_1
                                                        : REACH_MEM_LEN;
    m->tgt_len = settle(s, o->tgt_len, s->module, "tgt_len", false, "--tgt-len N");
    m->mem_len = settle(s, o->mem_len, s->module, "mem_len", false, "--mem-len N");
    m->clamp_len = settle(s, clamp_len, s->module, "clamp_len", false, "--clamp-len N");
    m->clamp_len = m->clamp_len > 0 ? m->clamp_len : -1;
    m->same_length =
        settle(s, o->same_length, s->module, "same_length", true, "--same-length yes|no");
    return TXL_OK;
}

static txl_status check_lengths(struct recognition *s) {
    const struct transformer_xl_settings *f = &s->recognised->settings.transformer_xl;
    const struct model_settings *m = &f->model;
    if (s->recognised->missing[0])
        return TXL_OK;
    if (m->tgt_len < 1 || m->tgt_len > TXL_MAX_TGT_LEN || m->mem_len < 0 ||
        m->mem_len > TXL_MAX_MEM_LEN)
        return txl_fail(s->error, TXL_FORMAT,
                        "%s: tgt_len %d and mem_len %d are not from 1 to %d and from 0 to %d; "
                        "correct them with --tgt-len and --mem-len",
                        s->stated_in, m->tgt_len, m->mem_len, TXL_MAX_TGT_LEN, TXL_MAX_MEM_LEN);
    if (!attention_is_relative(f->attn_type) && m->mem_len > 0)
        return txl_fail(s->error, TXL_UNSUPPORTED,
                        "%s: mem_len is %d, but attention type %d has no memory; convert with "
                        "--mem-len 0",
                        s->stated_in, m->mem_len, (int)f->attn_type);
    if (f->attn_type == ATTENTION_LEARNED_POSITION && m->tgt_len > f->max_klen)
        return txl_fail(s->error, TXL_UNSUPPORTED,
                        "%s: tgt_len is %d, but there are %d positions; correct it with --tgt-len",
                        s->stated_in, m->tgt_len, f->max_klen);
    return TXL_OK;
}

/* ---- Tied tensors ------------------------------------------------------------------------- */

/* torch.save writes a module's tied tensors under both names; NVIDIA's code leaves one out. */
static bool has_own_weights(const struct recognition *s) {
    const char *const keys[] = {"tie_weight", "tie_word_embeddings"};
    int tied = !s->module || s->nvidia;
    for (size_t i = 0; i < 2 && tied; i++)
        stated(s, s->module, keys[i], true, &tied);
    return !tied;
}

/* Hugging Face's older configurations list the bands; later ones have one rule for all but the
 * first. */
static bool has_own_projection(const struct recognition *s, int band) {
    const json_t *list = json_object_get(s->config, "tie_projs");
    const struct pickle_value *tie =
        s->nvidia ? pickle_item(attribute_of(s->module, "tie_projs"), (size_t)band) : NULL;
    int shared = true;
    if (s->nvidia)
        return tie && tie->kind == PICKLE_BOOL && !tie->boolean;
    if (s->module || !s->config)
        return s->module != NULL;
    if (json_is_array(list))
        return !json_is_true(json_array_get(list, (size_t)band));
    stated(s, NULL, "proj_share_all_but_first", true, &shared);
    return band == 0 || !shared;
}

/* In TensorFlow's code a softmax without projections of its own takes the embedding's. */
static txl_status find_tensorflow_ties(struct recognition *s) {
    struct transformer_xl_settings *f = &s->recognised->settings.transformer_xl;
    for (int i = 0; i < f->n_band; i++) {
        const bool in = names_which(s->names, EMBEDDING_PROJECTION, i) >= 0;
        const struct checkpoint_tensor *own = names_own(s->names, SOFTMAX_PROJECTION, i);
        if (own && !in)
            return txl_fail(s->error, TXL_UNSUPPORTED,
                            "%s: tensor %s projects a band whose embedding is not projected; no "
                            "published code makes this",
                            s->path, own->name);
        f->tied_projection[i] = in && !own;
        if (f->div_val > 1 && !in && transformer_xl_band_width(f, i) == f->d_model)
            f->proj_same_dim = false;
    }
    return TXL_OK;
}

static txl_status find_ties(struct recognition *s) {
    struct transformer_xl_settings *f = &s->recognised->settings.transformer_xl;
    const bool own_weights = has_own_weights(s);
    txl_status status = TXL_OK;
    bool tied = true;
    f->tied_weights = f->proj_same_dim = true;
    if (s->tensorflow)
        return find_tensorflow_ties(s);
    for (int i = 0; !status && i < (f->div_val > 1 ? f->n_band : 1); i++) {
        status = names_tied(s->names, EMBEDDING_WEIGHT, i, SOFTMAX_WEIGHT, i, own_weights, &tied,
                            s->error);
        f->tied_weights = f->tied_weights && tied;
    }
    for (int i = 0; !status && i < f->n_band; i++)
        status =
            names_tied(s->names, EMBEDDING_PROJECTION, f->div_val > 1 ? i : 0, SOFTMAX_PROJECTION,
                       i, has_own_projection(s, i), &f->tied_projection[i], s->error);
    return status;
}

/* ---- All of it ---------------------------------------------------------------------------- */

recognition_step *const transformer_xl_steps[] = {find_statements,
                                                  refuse_variants,
                                                  settle_epsilon,
                                                  refuse_other_code,
                                                  read_embedding_shapes,
                                                  read_bias_shapes,
                                                  read_layer_shapes,
                                                  read_head_shapes,
                                                  check_shapes,
                                                  settle_attention_type,
                                                  settle_heads,
                                                  settle_cutoffs,
                                                  state_evaluation,
                                                  settle_others,
                                                  check_lengths,
                                                  find_ties,
                                                  NULL};
