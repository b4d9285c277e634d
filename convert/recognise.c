/* Recognising a Transformer-XL.  Most facts follow from shapes, in every container.  The rest comes
 * from the options, from a pickled module's attributes, or from a Hugging Face config.json; one
 * message asks for everything that none of them states.  Options take precedence over attributes or
 * config.json; what these state about shapes must agree with the shapes. */
#include "recognise.h"
#include "config_file.h"
#include "lib/base/error.h"
#include "lib/base/json_memory.h"
#include "vocabulary_file.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

/* ---- Tensors by name ---------------------------------------------------------------------- */

struct part_name part_name(const char *format, ...) {
    struct part_name name;
    va_list args;
    va_start(args, format);
    vsnprintf(name.text, sizeof name.text, format, args);
    va_end(args);
    return name;
}

/* A tensor's name as the checkpoint spells it. */
struct full_name {
    char text[MAX_PREFIX + sizeof(struct part_name)];
};

static struct full_name full_name(const struct recognised *r, struct part_name name) {
    struct full_name full;
    bool crit = strncmp(name.text, "crit.", 5) == 0;
    snprintf(full.text, sizeof full.text, "%s%s", crit ? r->crit_prefix : r->prefix, name.text);
    return full;
}

const struct checkpoint_tensor *recognise_tensor(const struct recognised *r,
                                                 struct part_name name) {
    return checkpoint_find(r->checkpoint, full_name(r, name).text);
}

struct part_name recognise_either(const struct recognised *r, struct part_name first,
                                  struct part_name second) {
    return !recognise_tensor(r, first) && recognise_tensor(r, second) ? second : first;
}

struct shape_text {
    char text[CHECKPOINT_MAX_DIM * 24];
};

static struct shape_text shape_text(int n_dim, const uint64_t *shape) {
    struct shape_text out = {"[]"};
    size_t used = 0;
    for (int d = 0; d < n_dim; d++)
        used += (size_t)snprintf(out.text + used, sizeof out.text - used, "%s%" PRIu64 "%s",
                                 d == 0 ? "[" : ", ", shape[d], d == n_dim - 1 ? "]" : "");
    return out;
}

txl_status recognise_dimensions(const struct checkpoint *checkpoint, const char *name, int n_dim,
                                const struct checkpoint_tensor **tensor, txl_error *error) {
    const char *path = checkpoint_path(checkpoint);
    const struct checkpoint_tensor *t = checkpoint_find(checkpoint, name);
    *tensor = t;
    if (!t)
        return txl_fail(error, TXL_FORMAT, "%s: tensor %s is missing", path, name);
    if (t->dtype > CHECKPOINT_F64)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: tensor %s is of type %s; weights are float32, float16, bfloat16 or "
                        "float64",
                        path, t->name, checkpoint_dtype_name(t->dtype));
    if (t->n_dim != n_dim)
        return txl_fail(error, TXL_FORMAT, "%s: tensor %s has the shape %s, not %d dimensions",
                        path, t->name, shape_text(t->n_dim, t->shape).text, n_dim);
    for (int d = 0; d < n_dim; d++) {
        if (t->shape[d] == 0 || t->shape[d] > INT32_MAX)
            return txl_fail(error, TXL_FORMAT, "%s: tensor %s has the impossible shape %s", path,
                            t->name, shape_text(n_dim, t->shape).text);
    }
    return TXL_OK;
}

static txl_status need_dimensions(const struct recognised *r, struct part_name name, int n_dim,
                                  const struct checkpoint_tensor **tensor, txl_error *error) {
    return recognise_dimensions(r->checkpoint, full_name(r, name).text, n_dim, tensor, error);
}

txl_status recognise_need(const struct recognised *r, struct part_name name, int n_dim,
                          const uint64_t *shape, const struct checkpoint_tensor **tensor,
                          txl_error *error) {
    txl_status status = need_dimensions(r, name, n_dim, tensor, error);
    if (!status && memcmp((*tensor)->shape, shape, (size_t)n_dim * sizeof *shape) != 0)
        status = txl_fail(error, TXL_FORMAT, "%s: tensor %s has the shape %s, expected %s",
                          checkpoint_path(r->checkpoint), (*tensor)->name,
                          shape_text(n_dim, (*tensor)->shape).text, shape_text(n_dim, shape).text);
    return status;
}

/* Finds the prefix: the part before `suffix` in the name of the first tensor that ends with it. */
static bool find_prefix(const struct checkpoint *checkpoint, const char *suffix, char *prefix,
                        size_t size) {
    for (size_t i = 0; i < checkpoint_n_tensor(checkpoint); i++) {
        const char *name = checkpoint_tensor_at(checkpoint, i)->name;
        size_t length = strlen(name), tail = strlen(suffix);
        if (length < tail || length - tail >= size || strcmp(name + length - tail, suffix) != 0)
            continue;
        memcpy(prefix, name, length - tail);
        prefix[length - tail] = '\0';
        return true;
    }
    return false;
}

/* One more than the largest N of the tensors STEM.N.*, so that a gap shows as a missing tensor. */
static int count_numbered(const struct recognised *r, const char *stem) {
    struct full_name start = full_name(r, part_name("%s.", stem));
    size_t length = strlen(start.text);
    int n = 0;
    for (size_t i = 0; i < checkpoint_n_tensor(r->checkpoint); i++) {
        const char *name = checkpoint_tensor_at(r->checkpoint, i)->name;
        if (strncmp(name, start.text, length) != 0)
            continue;
        char *end;
        unsigned long number = strtoul(name + length, &end, 10);
        if (end > name + length && *end == '.' && number >= (unsigned long)n)
            n = number < INT_MAX ? (int)number + 1 : INT_MAX;
    }
    return n;
}

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
    const struct pickle_value *value = checkpoint_root(r->checkpoint);
    char path[sizeof r->prefix], *rest = path;
    memcpy(path, r->prefix, sizeof path);
    for (char *key; value && (key = strsep(&rest, ".")) && *key;)
        value =
            value->kind == PICKLE_DICT ? pickle_get(value, key) : checkpoint_attribute(value, key);
    if (!value || value->kind != PICKLE_OBJECT)
        return NULL;
    const char *dot = strrchr(value->object->class_name, '.');
    return strcmp(dot ? dot + 1 : value->object->class_name, class_name) == 0 ? value : NULL;
}

static txl_status find_statements(struct recognised *r, struct statements *s, char **config_path,
                                  txl_error *error) {
    const char *path = checkpoint_path(r->checkpoint);
    *s = (struct statements){
        .path = path, .stated_in = path, .module = find_module(r), .recognised = r};
    if (!s->module) {
        txl_status status = config_file_load(path, config_path, &s->config, error);
        s->stated_in = *config_path ? *config_path : path;
        return status;
    }
    s->embedding = checkpoint_attribute(s->module, "word_emb");
    const struct pickle_value *layers = checkpoint_attribute(s->module, "layers");
    s->half = checkpoint_attribute(checkpoint_attribute(layers, "0"), "pos_ff");
    return TXL_OK;
}

/* ---- What is refused by its name ---------------------------------------------------------- */

static txl_status refuse_epsilon(const struct statements *s, txl_error *error) {
    const struct pickle_value *norm = checkpoint_attribute(s->half, "layer_norm");
    const struct pickle_value *attribute = checkpoint_attribute(norm, "eps");
    const json_t *number = json_object_get(s->config, "layer_norm_epsilon");
    double epsilon = attribute && attribute->kind == PICKLE_FLOAT ? attribute->real
                     : json_is_number(number)                     ? json_number_value(number)
                                                                  : 1e-5;
    if (epsilon != 1e-5)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: layer normalisation's epsilon is %g; txl runs 1e-05 only",
                        s->stated_in, epsilon);
    return TXL_OK;
}

static txl_status refuse_variants(const struct recognised *r, const struct statements *s,
                                  txl_error *error) {
    int value = 0;
    bool stated = stated_int(s, s->module, "sample_softmax", &value) && value > 0;
    if (stated || recognise_tensor(r, part_name("out_layer.bias")))
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: trained with sample_softmax; txl runs full and adaptive softmaxes "
                        "only",
                        stated ? s->stated_in : s->path);
    if (stated_int(s, s->module, "ext_len", &value) && value > 0)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: ext_len is %d; txl runs ext_len 0 only",
                        s->stated_in, value);
    return refuse_epsilon(s, error);
}

/* ---- What shapes tell --------------------------------------------------------------------- */

static struct part_name embedding_name(const struct recognised *r, int band) {
    return recognise_either(r, part_name("word_emb.emb_layers.%d.weight", band),
                            part_name("crit.out_layers.%d.weight", band));
}

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
    r->facts.div_val = is_stated ? stated : least;
    return TXL_OK;
}

/* Reads the bands that have an embedding of their own, and the ratio of their widths. */
static txl_status read_embedding_shapes(struct recognised *r, const struct statements *s,
                                        txl_error *error) {
    struct transformer_xl_settings *f = &r->facts;
    int width[MAX_BAND], n = count_numbered(r, "crit.out_layers");
    uint64_t n_token = 0;
    if (n > MAX_BAND)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: more than %d bands", s->path, MAX_BAND);
    for (int i = 0; i < n; i++) {
        const struct checkpoint_tensor *t;
        txl_status status = need_dimensions(r, embedding_name(r, i), 2, &t, error);
        if (status)
            return status;
        width[i] = (int)t->shape[1];
        n_token += t->shape[0];
        if (n_token > INT32_MAX)
            return txl_fail(error, TXL_FORMAT, "%s: the vocabulary is impossibly large", s->path);
        f->cutoff[i] = (int)n_token;
    }
    f->model.n_token = (int)n_token;
    f->n_band = n;
    f->d_embed = width[0];
    return find_div_val(r, s, width, n, error);
}

/* Each type of attention has tensors that no other type has. */
static enum attention_type attention_type(const struct recognised *r) {
    bool learned = recognise_tensor(r, part_name("r_emb")) != NULL;
    if (recognise_tensor(r, part_name("layers.0.dec_attn.q_net.weight")) ||
        recognise_tensor(r, part_name("layers.0.dec_attn.kv_net.weight")))
        return learned ? ATTENTION_LEARNED_POSITION : ATTENTION_SINUSOID;
    return learned || recognise_tensor(r, part_name("r_bias")) ? ATTENTION_LEARNED_DISTANCE
                                                               : ATTENTION_RELATIVE;
}

/* A bias or learned row has n_head and d_head as its last two dimensions. */
static txl_status read_head_shapes(struct recognised *r, int width, txl_error *error) {
    struct transformer_xl_settings *f = &r->facts;
    struct part_name own = part_name("layers.0.dec_attn.r_w_bias"), all = part_name("r_w_bias");
    const struct checkpoint_tensor *heads;
    txl_status status;
    f->biases_per_layer = f->attn_type == ATTENTION_LEARNED_DISTANCE || recognise_tensor(r, own);
    if (f->attn_type == ATTENTION_SINUSOID)
        return TXL_OK; /* nothing shows it */
    if (f->attn_type == ATTENTION_RELATIVE)
        status = need_dimensions(r, recognise_either(r, own, all), 2, &heads, error);
    else
        status = need_dimensions(r, part_name("r_emb"), 4, &heads, error);
    if (status)
        return status;
    if (f->attn_type != ATTENTION_RELATIVE)
        f->max_klen = (int)heads->shape[1];
    f->n_head = (int)heads->shape[heads->n_dim - 2];
    f->d_head = (int)heads->shape[heads->n_dim - 1];
    if ((int64_t)f->n_head * f->d_head != width)
        return txl_fail(error, TXL_FORMAT,
                        "%s: tensor %s is for %d heads of %d, but their outputs are %d wide",
                        checkpoint_path(r->checkpoint), heads->name, f->n_head, f->d_head, width);
    return TXL_OK;
}

static txl_status read_layer_shapes(struct recognised *r, txl_error *error) {
    struct transformer_xl_settings *f = &r->facts;
    const struct checkpoint_tensor *o, *inner;
    txl_status status =
        need_dimensions(r, part_name("layers.0.dec_attn.o_net.weight"), 2, &o, error);
    if (!status)
        status =
            need_dimensions(r, part_name("layers.0.pos_ff.CoreNet.0.weight"), 2, &inner, error);
    if (status)
        return status;
    f->n_layer = count_numbered(r, "layers");
    f->d_model = (int)o->shape[0];
    f->d_inner = (int)inner->shape[0];
    f->attn_type = attention_type(r);
    return read_head_shapes(r, (int)o->shape[1], error);
}

/* Checks that statements about the shapes are true, and that the shapes are within the limits of a
 * weights file.  A dimension of 0 does not follow from the shapes. */
static txl_status check_shapes(const struct recognised *r, const struct statements *s,
                               txl_error *error) {
    const struct transformer_xl_settings *f = &r->facts;
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
    for (size_t i = 0; i < json_array_size(array); i++)
        add_cutoff(cutoffs, json_integer_value(json_array_get(array, i)));
    return json_is_array(array);
}

/* The cutoffs follow from the sizes of the embeddings.  Where all bands share one embedding,
 * cluster_weight gives the number of bands, and the cutoffs must be stated. */
static txl_status settle_cutoffs(struct recognised *r, struct statements *s, const char *flag,
                                 txl_error *error) {
    struct transformer_xl_settings *f = &r->facts;
    struct cutoffs list = {.n = 0};
    const struct checkpoint_tensor *clusters =
        recognise_tensor(r, part_name("crit.cluster_weight"));
    bool sizes_tell = f->n_band > 1 || !clusters;
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
    struct transformer_xl_settings *f = &r->facts;
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
    if (f->memory_start < 0)
        ask_for(s, "--memory-start empty|zeros");
    if (f->cluster_order < 0)
        ask_for(s, "--cluster-order reversed|forward");
}

static txl_status settle_heads(struct recognised *r, struct statements *s, int flag,
                               txl_error *error) {
    struct transformer_xl_settings *f = &r->facts;
    if (f->n_head > 0) { /* by the shape of a bias; then d_head is known too */
        if (flag > 0 && flag != f->n_head)
            return txl_fail(error, TXL_ARGUMENT, "%s: --n-head %d, but its tensors have %d heads",
                            s->path, flag, f->n_head);
        return TXL_OK;
    }
    const struct checkpoint_tensor *o =
        recognise_tensor(r, part_name("layers.0.dec_attn.o_net.weight"));
    int n_head = flag, width = (int)o->shape[1];
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
    const int found = (int)r->facts.attn_type;
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
    struct transformer_xl_settings *f = &r->facts;
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
    const struct transformer_xl_settings *f = &r->facts;
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

static txl_status settle(struct recognised *r, struct statements *s,
                         const struct convert_options *o, txl_error *error) {
    struct transformer_xl_settings *f = &r->facts;
    txl_status status = settle_attention_type(r, s, o, error);
    if (!status)
        status = settle_heads(r, s, o->n_head, error);
    if (!status)
        status = settle_cutoffs(r, s, o->cutoffs, error);
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

enum { COMPARED = 1 << 14 };

txl_status recognise_is_copy(const struct checkpoint_tensor *a, const struct checkpoint_tensor *b,
                             bool *same, txl_error *error) {
    *same = a->dtype == b->dtype && a->n_dim == b->n_dim &&
            memcmp(a->shape, b->shape, (size_t)a->n_dim * sizeof *a->shape) == 0;
    if (!*same)
        return TXL_OK;
    float *numbers = malloc(2 * COMPARED * sizeof *numbers);
    if (!numbers)
        return txl_fail_memory(error, "comparing tensors", 2 * COMPARED * sizeof *numbers);
    txl_status status = TXL_OK;
    for (uint64_t i = 0; *same && !status && i < a->n_element; i += COMPARED) {
        uint64_t left = a->n_element - i, n = left < COMPARED ? left : COMPARED;
        status = checkpoint_read_float(a, i, n, numbers, error);
        if (!status)
            status = checkpoint_read_float(b, i, n, numbers + COMPARED, error);
        *same = !status && memcmp(numbers, numbers + COMPARED, n * sizeof *numbers) == 0;
    }
    checkpoint_release(a);
    checkpoint_release(b);
    free(numbers);
    return status;
}

/* Weights are tied if one storage has two names, if both are copies, or if there is only one
 * tensor, unless the softmax is stated to have its own. */
static txl_status find_tie(const struct recognised *r, struct part_name input,
                           struct part_name output, bool has_own, bool *tied, txl_error *error) {
    const struct checkpoint_tensor *in = recognise_tensor(r, input);
    const struct checkpoint_tensor *out = recognise_tensor(r, output);
    *tied = in || out;
    if (in && out) {
        *tied = checkpoint_same_view(in, out);
        return *tied ? TXL_OK : recognise_is_copy(in, out, tied, error);
    }
    if (*tied && has_own)
        return txl_fail(error, TXL_FORMAT, "%s: tensor %s is missing",
                        checkpoint_path(r->checkpoint), full_name(r, in ? output : input).text);
    return TXL_OK;
}

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

static txl_status find_ties(struct recognised *r, const struct statements *s, txl_error *error) {
    struct transformer_xl_settings *f = &r->facts;
    int n_embedding = f->div_val > 1 ? f->n_band : 1;
    f->tied_weights = true;
    for (int i = 0; i < n_embedding; i++) {
        bool tied;
        txl_status status =
            find_tie(r, part_name("word_emb.emb_layers.%d.weight", i),
                     part_name("crit.out_layers.%d.weight", i), has_own_weights(s), &tied, error);
        if (status)
            return status;
        f->tied_weights = f->tied_weights && tied;
    }
    for (int i = 0; i < f->n_band; i++) {
        txl_status status = find_tie(r, part_name("word_emb.emb_projs.%d", f->div_val > 1 ? i : 0),
                                     part_name("crit.out_projs.%d", i), has_own_projection(s, i),
                                     &f->tied_projection[i], error);
        if (status)
            return status;
    }
    return TXL_OK;
}

/* ---- All of it ---------------------------------------------------------------------------- */

/* A vocabulary may be a pickle too. */
static txl_status not_a_transformer_xl(const struct recognised *r, const char *name,
                                       txl_error *error) {
    struct vocabulary_file vocabulary;
    const char *path = checkpoint_path(r->checkpoint);
    if (checkpoint_root(r->checkpoint) && !vocabulary_file_read(path, &vocabulary, error)) {
        size_t n = vocabulary.n_symbol;
        vocabulary_file_free(&vocabulary);
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: a vocabulary of %zu symbols, not a checkpoint; name the checkpoint, "
                        "and this file with --vocab",
                        path, n);
    }
    return txl_fail(error, TXL_UNSUPPORTED,
                    "%s: not a Transformer-XL: no tensor named %s among its %zu (txl info "
                    "--tensors lists them)",
                    path, name, checkpoint_n_tensor(r->checkpoint));
}

static txl_status find_facts(struct recognised *r, struct statements *s,
                             const struct convert_options *options, txl_error *error) {
    txl_status status = refuse_variants(r, s, error);
    static const char softmax[] = "crit.out_layers.0.bias";
    if (!status && !find_prefix(r->checkpoint, softmax, r->crit_prefix, sizeof r->crit_prefix))
        status = not_a_transformer_xl(r, softmax, error);
    if (!status)
        status = read_embedding_shapes(r, s, error);
    if (!status)
        status = read_layer_shapes(r, error);
    if (!status)
        status = check_shapes(r, s, error);
    if (!status)
        status = settle(r, s, options, error);
    if (!status)
        status = find_ties(r, s, error);
    return status;
}

txl_status recognise(const struct checkpoint *checkpoint, const struct convert_options *options,
                     struct recognised *r, char **config_path, txl_error *error) {
    static const char layer[] = "layers.0.dec_attn.o_net.weight";
    struct statements s = {0};
    txl_status status =
        options->activation
            ? txl_fail(error, TXL_ARGUMENT,
                       "--activation means nothing to a Transformer-XL: its activation is relu")
            : TXL_OK;
    *r = (struct recognised){.checkpoint = checkpoint, .facts = {.model = {.clamp_len = -1}}};
    if (!status && !find_prefix(r->checkpoint, layer, r->prefix, sizeof r->prefix))
        status = not_a_transformer_xl(r, layer, error);
    if (!status)
        status = find_statements(r, &s, config_path, error);
    if (!status)
        status = find_facts(r, &s, options, error);
    json_decref(s.config);
    return status;
}

txl_status recognise_complete(const struct recognised *r, txl_error *error) {
    if (r->missing[0] == '\0')
        return TXL_OK;
    return txl_fail(error, TXL_ARGUMENT,
                    "%s: does not tell all of its settings; add what it was trained with:%s",
                    checkpoint_path(r->checkpoint), r->missing);
}
