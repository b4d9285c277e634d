/* Recognising a Transformer-XL.  Shapes tell most facts, whatever the container.  The rest comes
 * from the flags, from a pickled module's attributes, or from a Hugging Face config.json; what none
 * of them tells is asked for, all of it in one message.  Of two sources that disagree the flags
 * win, then the attributes or config.json; what they say about shapes must agree with the shapes.
 */
#include "recognise.h"
#include "../lib/error.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Where a checkpoint may state a fact: a module's attributes, or config.json. */
struct statements {
    const char *path;
    const struct pickle_value *module; /* of class MemTransformerLM, or NULL */
    json_t *config;                    /* or NULL */
    char missing[512];                 /* the flags that would tell what nothing tells */
};

/* ---- Tensors by name ---------------------------------------------------------------------- */

const struct checkpoint_tensor *recognise_tensor(const struct recognised *r, const char *format,
                                                 ...) {
    char name[384];
    bool crit = strncmp(format, "crit.", 5) == 0;
    int n = snprintf(name, sizeof name, "%s", crit ? r->crit_prefix : r->prefix);
    va_list args;
    va_start(args, format);
    vsnprintf(name + n, sizeof name - (size_t)n, format, args);
    va_end(args);
    return checkpoint_find(r->checkpoint, name);
}

/* What stands before `suffix` in the name of the first tensor that ends so. */
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

static txl_status find_prefixes(struct recognised *r, txl_error *error) {
    if (find_prefix(r->checkpoint, "word_emb.emb_layers.0.weight", r->prefix, sizeof r->prefix) &&
        find_prefix(r->checkpoint, "crit.out_layers.0.bias", r->crit_prefix, sizeof r->crit_prefix))
        return TXL_OK;
    return txl_fail(error, TXL_UNSUPPORTED,
                    "%s: not a Transformer-XL: no tensors named word_emb.emb_layers.0.weight and "
                    "crit.out_layers.0.bias among its %zu (txl info --tensors lists them)",
                    checkpoint_path(r->checkpoint), checkpoint_n_tensor(r->checkpoint));
}

static txl_status need(const struct recognised *r, const struct checkpoint_tensor *tensor,
                       const char *name, int n_dim, txl_error *error) {
    const char *path = checkpoint_path(r->checkpoint);
    if (!tensor)
        return txl_fail(error, TXL_FORMAT, "%s: tensor %s%s is missing", path, r->prefix, name);
    if (tensor->n_dim != n_dim)
        return txl_fail(error, TXL_FORMAT, "%s: tensor %s has %d dimensions, not %d", path,
                        tensor->name, tensor->n_dim, n_dim);
    for (int d = 0; d < n_dim; d++) {
        if (tensor->shape[d] == 0 || tensor->shape[d] > INT32_MAX)
            return txl_fail(error, TXL_FORMAT, "%s: tensor %s has an impossible shape", path,
                            tensor->name);
    }
    return TXL_OK;
}

/* ---- What shapes tell --------------------------------------------------------------------- */

/* Bands that have an embedding of their own, and their widths' ratio. */
static txl_status read_embedding_shapes(struct recognised *r, txl_error *error) {
    struct facts *f = &r->facts;
    uint64_t n_token = 0;
    for (int i = 0;; i++) {
        const struct checkpoint_tensor *t = recognise_tensor(r, "word_emb.emb_layers.%d.weight", i);
        if (i > 0 && !t)
            break;
        if (i == MAX_BAND)
            return txl_fail(error, TXL_UNSUPPORTED, "%s: more than %d bands",
                            checkpoint_path(r->checkpoint), MAX_BAND);
        txl_status status = need(r, t, "word_emb.emb_layers.0.weight", 2, error);
        if (status)
            return status;
        if (i == 0)
            f->d_embed = (int)t->shape[1];
        if (i == 1)
            f->div_val = (int)((uint64_t)f->d_embed / t->shape[1]);
        n_token += t->shape[0];
        if (n_token > INT32_MAX)
            return txl_fail(error, TXL_FORMAT, "%s: the vocabulary is impossibly large",
                            checkpoint_path(r->checkpoint));
        if (i < MAX_BAND - 1)
            f->cutoff[i] = (int)n_token;
        f->n_band = i + 1;
    }
    f->n_token = (int)n_token;
    return TXL_OK;
}

static int count_layers(const struct recognised *r) {
    int n = 0;
    while (n < 1 << 12 && recognise_tensor(r, "layers.%d.dec_attn.o_net.weight", n))
        n++;
    return n;
}

static txl_status read_layer_shapes(struct recognised *r, txl_error *error) {
    struct facts *f = &r->facts;
    f->n_layer = count_layers(r);
    const struct checkpoint_tensor *o = recognise_tensor(r, "layers.0.dec_attn.o_net.weight");
    const struct checkpoint_tensor *inner = recognise_tensor(r, "layers.0.pos_ff.CoreNet.0.weight");
    txl_status status = need(r, o, "layers.0.dec_attn.o_net.weight", 2, error);
    if (!status)
        status = need(r, inner, "layers.0.pos_ff.CoreNet.0.weight", 2, error);
    if (status)
        return status;
    f->d_model = (int)o->shape[0];
    f->d_inner = (int)inner->shape[0];
    if (recognise_tensor(r, "layers.0.dec_attn.r_net.weight"))
        f->attn_type = 0;
    else if (recognise_tensor(r, "r_bias"))
        f->attn_type = 1;
    else
        f->attn_type = recognise_tensor(r, "r_emb") ? 3 : 2;
    /* A bias or learned row has the heads as its last two dimensions. */
    const struct checkpoint_tensor *heads = recognise_tensor(r, "layers.0.dec_attn.r_w_bias");
    f->biases_per_layer = heads != NULL || f->attn_type == 1;
    if (!heads)
        heads = recognise_tensor(r, f->attn_type == 3 ? "r_emb" : "r_w_bias");
    if (heads && heads->n_dim >= 2) {
        f->n_head = (int)heads->shape[heads->n_dim - 2];
        f->d_head = (int)heads->shape[heads->n_dim - 1];
    } else {
        f->d_head = (int)o->shape[1]; /* of all heads together, until n_head is known */
    }
    const struct checkpoint_tensor *r_emb = recognise_tensor(r, "r_emb");
    if (r_emb && r_emb->n_dim == 4)
        f->max_klen = (int)r_emb->shape[1];
    return TXL_OK;
}

/* ---- What is stated ----------------------------------------------------------------------- */

static bool stated_int(const struct statements *s, const char *key, int *value) {
    const struct pickle_value *attribute = s->module ? checkpoint_attribute(s->module, key) : NULL;
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

static bool stated_bool(const struct statements *s, const char *key, bool *value) {
    const struct pickle_value *attribute = s->module ? checkpoint_attribute(s->module, key) : NULL;
    if (attribute && attribute->kind == PICKLE_BOOL) {
        *value = attribute->boolean;
        return true;
    }
    const json_t *truth = json_object_get(s->config, key);
    if (json_is_boolean(truth)) {
        *value = json_is_true(truth);
        return true;
    }
    int number; /* old code's 0 and 1 */
    if (stated_int(s, key, &number)) {
        *value = number != 0;
        return true;
    }
    return false;
}

static void ask_for(struct statements *s, const char *flag) {
    size_t used = strlen(s->missing);
    snprintf(s->missing + used, sizeof s->missing - used, " %s", flag);
}

static void settle_int(struct statements *s, int flag, const char *key, const char *ask,
                       int *value) {
    if (flag >= 0)
        *value = flag;
    else if (!stated_int(s, key, value))
        ask_for(s, ask);
}

/* The flag comes as a list of numbers, a module's cutoffs end with n_token. */
static txl_status settle_cutoffs(struct recognised *r, struct statements *s, const char *flag,
                                 txl_error *error) {
    struct facts *f = &r->facts;
    long long list[MAX_BAND];
    int n = 0;
    const struct pickle_value *embedding =
        s->module ? checkpoint_attribute(s->module, "word_emb") : NULL;
    const struct pickle_value *cutoffs =
        embedding ? checkpoint_attribute(embedding, "cutoffs") : NULL;
    const json_t *array = json_object_get(s->config, "cutoffs");
    if (flag) {
        for (const char *p = flag + strspn(flag, ", "); *p && n < MAX_BAND; p += strspn(p, ", ")) {
            char *end;
            errno = 0;
            list[n++] = strtoll(p, &end, 10);
            if (end == p || errno)
                return txl_fail(error, TXL_ARGUMENT,
                                "--cutoffs takes numbers separated by commas, not \"%s\"", flag);
            p = end;
        }
    } else if (cutoffs) {
        const struct pickle_value *item;
        while (n < MAX_BAND && (item = pickle_item(cutoffs, (size_t)n)) && item->kind == PICKLE_INT)
            list[n++] = item->integer;
        if (n > 0 && list[n - 1] == f->n_token)
            n--;
    } else if (json_is_array(array)) {
        for (; n < MAX_BAND && (size_t)n < json_array_size(array); n++)
            list[n] = json_integer_value(json_array_get(array, (size_t)n));
    } else if (f->n_band == 1 && recognise_tensor(r, "crit.cluster_weight")) {
        ask_for(s, "--cutoffs N,N,..."); /* one embedding, several bands: shapes do not tell */
        return TXL_OK;
    } else {
        return TXL_OK; /* the embeddings' own sizes */
    }
    if (f->n_band > 1 && n != f->n_band - 1)
        return txl_fail(error, TXL_FORMAT, "%s: %d cutoffs, but %d bands of embeddings", s->path, n,
                        f->n_band);
    for (int i = 0; i < n; i++) {
        if (list[i] <= (i > 0 ? list[i - 1] : 0) || list[i] >= f->n_token ||
            (f->n_band > 1 && list[i] != f->cutoff[i]))
            return txl_fail(error, TXL_FORMAT,
                            "%s: cutoff %lld does not fit a vocabulary of %d symbols", s->path,
                            list[i], f->n_token);
        f->cutoff[i] = (int)list[i];
    }
    f->n_band = n + 1;
    return TXL_OK;
}

static void settle_pre_lnorm(struct recognised *r, struct statements *s, enum convert_choice flag) {
    const struct pickle_value *layer =
        s->module ? pickle_item(checkpoint_attribute(s->module, "layers"), 0) : NULL;
    if (s->module && !layer)
        layer = checkpoint_attribute(checkpoint_attribute(s->module, "layers"), "0");
    struct statements half = *s;
    half.module = layer ? checkpoint_attribute(layer, "pos_ff") : NULL;
    if (flag != CONVERT_UNSET)
        r->facts.pre_lnorm = flag == CONVERT_YES;
    else if (!stated_bool(&half, "pre_lnorm", &r->facts.pre_lnorm))
        ask_for(s, "--pre-lnorm yes|no");
}

/* The dialect follows from who trained it: published PyTorch code pickles its module; a Hugging
 * Face config.json comes with TensorFlow-trained weights. */
static void settle_dialect(struct recognised *r, struct statements *s,
                           const struct convert_options *o) {
    struct facts *f = &r->facts;
    f->memory_start = o->memory_start;
    f->cluster_order = o->cluster_order;
    if (!f->memory_start && (s->module || s->config))
        f->memory_start = s->module ? "empty" : "zeros";
    if (!f->cluster_order && (s->module || s->config))
        f->cluster_order = s->module ? "reversed" : "forward";
    if (!f->cluster_order && f->n_band <= 2)
        f->cluster_order = "reversed"; /* with at most one cluster the orders are the same */
    if (!f->memory_start)
        ask_for(s, "--memory-start empty|zeros");
    if (!f->cluster_order)
        ask_for(s, "--cluster-order reversed|forward");
}

static txl_status settle_heads(struct recognised *r, struct statements *s,
                               const struct convert_options *o, txl_error *error) {
    struct facts *f = &r->facts;
    bool known = f->n_head > 0; /* by the shape of a bias; then d_head is too */
    if (o->n_head > 0 && known && o->n_head != f->n_head)
        return txl_fail(error, TXL_ARGUMENT, "%s: --n-head %d, but its tensors have %d heads",
                        s->path, o->n_head, f->n_head);
    if (known)
        return TXL_OK;
    int stated = 0;
    if (o->n_head > 0)
        f->n_head = o->n_head;
    else if (stated_int(s, "n_head", &stated) && stated > 0)
        f->n_head = stated;
    else
        ask_for(s, "--n-head N");
    if (f->n_head > 0 && f->d_head % f->n_head != 0)
        return txl_fail(error, TXL_FORMAT, "%s: %d heads do not divide a width of %d", s->path,
                        f->n_head, f->d_head);
    f->d_head /= f->n_head > 0 ? f->n_head : 1;
    return TXL_OK;
}

static txl_status settle_attention_type(struct recognised *r, struct statements *s, int flag,
                                        txl_error *error) {
    int stated = r->facts.attn_type;
    if (flag >= 0)
        stated = flag;
    else
        stated_int(s, "attn_type", &stated);
    if (stated != r->facts.attn_type)
        return txl_fail(error, TXL_FORMAT,
                        "%s: attention type %d is claimed, but its tensors are those of type %d",
                        s->path, stated, r->facts.attn_type);
    return TXL_OK;
}

static txl_status refuse_variants(const struct statements *s, txl_error *error) {
    int value;
    if (stated_int(s, "sample_softmax", &value) && value > 0)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: sample_softmax is %d; txl runs full and adaptive softmaxes only",
                        s->path, value);
    if (stated_int(s, "ext_len", &value) && value > 0)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: ext_len is %d; txl runs ext_len 0 only",
                        s->path, value);
    return TXL_OK;
}

static txl_status settle(struct recognised *r, struct statements *s,
                         const struct convert_options *o, txl_error *error) {
    struct facts *f = &r->facts;
    txl_status status = refuse_variants(s, error);
    if (!status)
        status = settle_attention_type(r, s, o->attn_type, error);
    if (!status)
        status = settle_heads(r, s, o, error);
    if (!status)
        status = settle_cutoffs(r, s, o->cutoffs, error);
    if (status)
        return status;
    settle_pre_lnorm(r, s, o->pre_lnorm);
    settle_dialect(r, s, o);
    settle_int(s, o->tgt_len, "tgt_len", "--tgt-len N", &f->tgt_len);
    settle_int(s, o->mem_len, "mem_len", "--mem-len N", &f->mem_len);
    if (o->has_clamp_len)
        f->clamp_len = o->clamp_len;
    else if (!stated_int(s, "clamp_len", &f->clamp_len))
        ask_for(s, "--clamp-len N");
    if (f->clamp_len <= 0)
        f->clamp_len = -1;
    if (o->same_length != CONVERT_UNSET)
        f->same_length = o->same_length == CONVERT_YES;
    else if (!stated_bool(s, "same_length", &f->same_length))
        ask_for(s, "--same-length yes|no");
    if (s->missing[0])
        return txl_fail(error, TXL_ARGUMENT,
                        "%s: a bare state dict does not tell everything; add what it was trained "
                        "with:%s",
                        s->path, s->missing);
    if (f->tgt_len < 1 || f->mem_len < 0)
        return txl_fail(error, TXL_FORMAT, "%s: tgt_len %d and mem_len %d are impossible", s->path,
                        f->tgt_len, f->mem_len);
    return TXL_OK;
}

/* ---- Tied tensors ------------------------------------------------------------------------- */

enum { COMPARED = 1 << 14 };

/* Whether both hold the same numbers: shards keep a copy of a tied tensor each. */
static bool is_copy(const struct checkpoint_tensor *a, const struct checkpoint_tensor *b) {
    if (a->dtype != b->dtype || a->n_element != b->n_element)
        return false;
    float *numbers = malloc(2 * COMPARED * sizeof *numbers);
    bool same = numbers != NULL;
    for (uint64_t i = 0; same && i < a->n_element; i += COMPARED) {
        uint64_t left = a->n_element - i, n = left < COMPARED ? left : COMPARED;
        same = checkpoint_read_float(a, i, n, numbers, NULL) == TXL_OK &&
               checkpoint_read_float(b, i, n, numbers + COMPARED, NULL) == TXL_OK &&
               memcmp(numbers, numbers + COMPARED, n * sizeof *numbers) == 0;
    }
    free(numbers);
    return same;
}

/* Stored once (safetensors), one storage under two names, or a copy. */
static bool is_tied(const struct checkpoint_tensor *copy,
                    const struct checkpoint_tensor *original) {
    return !copy || checkpoint_same_view(copy, original) || is_copy(copy, original);
}

static void find_ties(struct recognised *r) {
    struct facts *f = &r->facts;
    f->tied_weights = is_tied(recognise_tensor(r, "crit.out_layers.0.weight"),
                              recognise_tensor(r, "word_emb.emb_layers.0.weight"));
    for (int i = 0; i < f->n_band; i++) {
        const struct checkpoint_tensor *input =
            recognise_tensor(r, "word_emb.emb_projs.%d", f->div_val > 1 ? i : 0);
        f->tied_projection[i] =
            input && is_tied(recognise_tensor(r, "crit.out_projs.%d", i), input);
    }
}

/* ---- All of it ---------------------------------------------------------------------------- */

/* The pickled module: the root, or one level below it in a dict or a wrapper such as
 * DataParallel. */
static const struct pickle_value *find_module(const struct pickle_value *root) {
    static const char *const inside[] = {"module", "model", "model_state", "state_dict"};
    if (!root)
        return NULL;
    if (root->kind == PICKLE_OBJECT && checkpoint_attribute(root, "word_emb"))
        return root;
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        const struct pickle_value *value = checkpoint_attribute(root, inside[i]);
        if (value && value->kind == PICKLE_OBJECT && checkpoint_attribute(value, "word_emb"))
            return value;
    }
    return NULL;
}

/* config.json beside the checkpoint, or NULL. */
static json_t *load_config(const char *path, txl_error *error, txl_status *status) {
    char name[4096];
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash - path) + 1 : 0;
    snprintf(name, sizeof name, "%.*sconfig.json", folder, path);
    struct stat info;
    if (stat(name, &info) < 0)
        return NULL;
    json_error_t where;
    json_t *config = json_load_file(name, 0, &where);
    if (!json_is_object(config)) {
        *status = txl_fail(error, TXL_FORMAT, "%s, line %d: %s", name, where.line,
                           config ? "not a JSON object" : where.text);
        json_decref(config);
        return NULL;
    }
    return config;
}

txl_status recognise(const char *source, const struct convert_options *options,
                     struct recognised *r, txl_error *error) {
    *r = (struct recognised){.facts = {.div_val = 1, .clamp_len = -1}};
    txl_status status = checkpoint_open(source, &r->checkpoint, error);
    if (status)
        return status;
    struct statements s = {.path = checkpoint_path(r->checkpoint),
                           .module = find_module(checkpoint_root(r->checkpoint))};
    if (!s.module)
        s.config = load_config(s.path, error, &status);
    if (!status)
        status = find_prefixes(r, error);
    if (!status)
        status = read_embedding_shapes(r, error);
    if (!status)
        status = read_layer_shapes(r, error);
    if (!status)
        status = settle(r, &s, options, error);
    if (!status)
        find_ties(r);
    json_decref(s.config);
    return status;
}

void recognise_free(struct recognised *r) {
    checkpoint_close(r->checkpoint);
}
