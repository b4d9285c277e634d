/* The conversion: the facts become settings, the checkpoint's tensors become those of
 * weights-format.md, streamed through from the mapped checkpoint. */
#include "convert.h"
#include "../lib/error.h"
#include "../lib/vocabulary.h"
#include "../lib/weights.h"
#include "recognise.h"
#include "vocabulary_file.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_LEVEL = 1 };

/* ---- Where a tensor's elements come from -------------------------------------------------- */

/* One after the other: whole tensors or slices of them, or one transposed, or computed numbers. */
struct piece {
    const struct checkpoint_tensor *tensor;
    uint64_t first, n; /* elements of it */
};

struct part {
    struct piece piece[2];
    int n_piece;
    float *elements; /* transposed or computed beforehand, instead of pieces; owned */
};

static txl_status read_part(void *context, uint64_t first, size_t count, float *out,
                            txl_error *error) {
    const struct part *part = context;
    if (part->elements) {
        memcpy(out, part->elements + first, count * sizeof *out);
        return TXL_OK;
    }
    uint64_t begin = 0;
    for (int i = 0; i < part->n_piece; i++) {
        const struct piece *piece = &part->piece[i];
        while (count > 0 && first >= begin && first < begin + piece->n) {
            uint64_t left = begin + piece->n - first, n = count < left ? count : left;
            txl_status status =
                checkpoint_read_float(piece->tensor, piece->first + first - begin, n, out, error);
            if (status)
                return status;
            first += n;
            out += n;
            count -= (size_t)n;
            if (n == left)
                checkpoint_release(piece->tensor);
        }
        begin += piece->n;
    }
    return TXL_OK;
}

struct conversion {
    const struct recognised *r;
    const char *path;
    enum weights_type type;
    struct weights_source *source;
    struct part **part; /* what each source reads */
    size_t n, capacity;
};

static void free_conversion(struct conversion *c) {
    for (size_t i = 0; i < c->n; i++) {
        free(c->part[i]->elements);
        free(c->part[i]);
    }
    free(c->source);
    free(c->part);
}

/* Appends a tensor to the list; takes over `elements`. */
static txl_status add(struct conversion *c, const char *name, enum weights_type type, int n_dim,
                      const uint64_t *shape, const struct piece *piece, int n_piece,
                      float *elements, txl_error *error) {
    if (c->n == c->capacity) {
        size_t capacity = c->capacity ? 2 * c->capacity : 64;
        struct weights_source *source = realloc(c->source, capacity * sizeof *source);
        if (source)
            c->source = source;
        struct part **part = realloc(c->part, capacity * sizeof(struct part *));
        if (part)
            c->part = part;
        if (!source || !part) {
            free(elements);
            return txl_fail_memory(error, "the list of tensors", capacity * sizeof *source);
        }
        c->capacity = capacity;
    }
    struct part *part = calloc(1, sizeof *part);
    if (!part) {
        free(elements);
        return txl_fail_memory(error, "the list of tensors", sizeof *part);
    }
    part->elements = elements;
    part->n_piece = n_piece;
    for (int i = 0; i < n_piece; i++)
        part->piece[i] = piece[i];
    struct weights_source *s = &c->source[c->n];
    *s = (struct weights_source){.type = type, .n_dim = n_dim, .read = read_part, .context = part};
    snprintf(s->name, sizeof s->name, "%s", name);
    memcpy(s->shape, shape, (size_t)n_dim * sizeof *shape);
    c->part[c->n++] = part;
    return TXL_OK;
}

/* ---- The checkpoint's tensors under their new names --------------------------------------- */

static txl_status check_elements(const struct conversion *c, const struct checkpoint_tensor *t,
                                 const char *name, uint64_t expected, txl_error *error) {
    if (!t)
        return txl_fail(error, TXL_FORMAT, "%s: the tensor for %s is missing", c->path, name);
    if (t->n_element != expected) {
        char shape[128] = "";
        for (int d = 0; d < t->n_dim; d++) {
            size_t used = strlen(shape);
            snprintf(shape + used, sizeof shape - used, "%s%" PRIu64, d ? " x " : "", t->shape[d]);
        }
        return txl_fail(error, TXL_FORMAT,
                        "%s: tensor %s has the shape %s; %" PRIu64 " elements are expected",
                        c->path, t->name, shape, expected);
    }
    return TXL_OK;
}

/* A matrix [n_row, n_col] that may lie in a larger tensor, `slice` matrices of its size in. */
static txl_status add_matrix(struct conversion *c, const char *name,
                             const struct checkpoint_tensor *t, uint64_t n_row, uint64_t n_col,
                             uint64_t slice, uint64_t n_slice, txl_error *error) {
    txl_status status = check_elements(c, t, name, n_row * n_col * n_slice, error);
    struct piece piece = {t, slice * n_row * n_col, n_row * n_col};
    return status ? status
                  : add(c, name, c->type, 2, (uint64_t[]){n_row, n_col}, &piece, 1, NULL, error);
}

static txl_status add_vector(struct conversion *c, const char *name,
                             const struct checkpoint_tensor *t, uint64_t n, uint64_t slice,
                             uint64_t n_slice, txl_error *error) {
    txl_status status = check_elements(c, t, name, n * n_slice, error);
    struct piece piece = {t, slice * n, n};
    return status ? status : add(c, name, WEIGHTS_F32, 1, &n, &piece, 1, NULL, error);
}

/* The softmax's projections are stored the other way round: P[d_model, d_band] of the checkpoint
 * becomes [d_band, d_model], which all products expect. */
static txl_status add_transposed(struct conversion *c, const char *name,
                                 const struct checkpoint_tensor *t, uint64_t n_row, uint64_t n_col,
                                 txl_error *error) {
    txl_status status = check_elements(c, t, name, n_row * n_col, error);
    if (status)
        return status;
    float *in = calloc(n_row * n_col, sizeof *in), *out = calloc(n_row * n_col, sizeof *out);
    if (!in || !out)
        status = txl_fail_memory(error, "a projection", n_row * n_col * sizeof *in);
    if (!status)
        status = checkpoint_read_float(t, 0, n_row * n_col, in, error);
    for (uint64_t i = 0; !status && i < n_row; i++) {
        for (uint64_t j = 0; j < n_col; j++)
            out[j * n_row + i] = in[i * n_col + j];
    }
    free(in);
    if (status) {
        free(out);
        return status;
    }
    return add(c, name, c->type, 2, (uint64_t[]){n_col, n_row}, NULL, 0, out, error);
}

struct name {
    char text[64];
};

#define NAME(...) (snprintf(name.text, sizeof name.text, __VA_ARGS__), name.text)

static txl_status add_linear(struct conversion *c, int n, const char *from, const char *to,
                             uint64_t n_row, uint64_t n_col, txl_error *error) {
    struct name name;
    return add_matrix(c, NAME("layer.%d.%s", n, to),
                      recognise_tensor(c->r, "layers.%d.%s", n, from), n_row, n_col, 0, 1, error);
}

static txl_status add_bias(struct conversion *c, int n, const char *from, const char *to,
                           uint64_t size, txl_error *error) {
    struct name name;
    return add_vector(c, NAME("layer.%d.%s", n, to),
                      recognise_tensor(c->r, "layers.%d.%s", n, from), size, 0, 1, error);
}

/* The vanilla kinds keep queries apart from keys and values. */
static txl_status add_qkv(struct conversion *c, int n, uint64_t width, uint64_t d_model,
                          txl_error *error) {
    struct name name;
    if (c->r->facts.attn_type <= 1)
        return add_linear(c, n, "dec_attn.qkv_net.weight", "attention.qkv", 3 * width, d_model,
                          error);
    struct piece piece[] = {
        {recognise_tensor(c->r, "layers.%d.dec_attn.q_net.weight", n), 0, width * d_model},
        {recognise_tensor(c->r, "layers.%d.dec_attn.kv_net.weight", n), 0, 2 * width * d_model}};
    NAME("layer.%d.attention.qkv", n);
    for (int i = 0; i < 2; i++) {
        txl_status status = check_elements(c, piece[i].tensor, name.text, piece[i].n, error);
        if (status)
            return status;
    }
    return add(c, name.text, c->type, 2, (uint64_t[]){3 * width, d_model}, piece, 2, NULL, error);
}

/* u or v: a layer's own tensor, a layer's part of one for all, or (in layer 0) the shared one. */
static txl_status add_attention_bias(struct conversion *c, int n, const char *from, const char *to,
                                     uint64_t width, txl_error *error) {
    const struct facts *f = &c->r->facts;
    struct name name;
    const struct checkpoint_tensor *own = recognise_tensor(c->r, "layers.%d.dec_attn.%s", n, from);
    const struct checkpoint_tensor *all = recognise_tensor(c->r, "%s", from);
    if (own)
        return add_vector(c, NAME("layer.%d.attention.%s", n, to), own, width, 0, 1, error);
    if (f->biases_per_layer)
        return add_vector(c, NAME("layer.%d.attention.%s", n, to), all, width, (uint64_t)n,
                          (uint64_t)f->n_layer, error);
    return n > 0 ? TXL_OK : add_vector(c, NAME("attention.%s", to), all, width, 0, 1, error);
}

static txl_status add_positions(struct conversion *c, int n, uint64_t width, uint64_t d_model,
                                txl_error *error) {
    const struct facts *f = &c->r->facts;
    struct name name;
    uint64_t layers = (uint64_t)f->n_layer, rows = (uint64_t)f->max_klen;
    txl_status status = TXL_OK;
    if (f->attn_type == 0)
        status = add_linear(c, n, "dec_attn.r_net.weight", "attention.r", width, d_model, error);
    if (!status && f->attn_type <= 1)
        status = add_attention_bias(c, n, "r_w_bias", "u", width, error);
    if (!status && f->attn_type == 0)
        status = add_attention_bias(c, n, "r_r_bias", "v", width, error);
    if (!status && (f->attn_type == 1 || f->attn_type == 3))
        status = add_matrix(c, NAME("layer.%d.attention.r_emb", n), recognise_tensor(c->r, "r_emb"),
                            rows, width, (uint64_t)n, layers, error);
    if (!status && f->attn_type == 1)
        status =
            add_vector(c, NAME("layer.%d.attention.r_bias", n), recognise_tensor(c->r, "r_bias"),
                       rows * (uint64_t)f->n_head, (uint64_t)n, layers, error);
    return status;
}

static txl_status add_layer(struct conversion *c, int n, txl_error *error) {
    const struct facts *f = &c->r->facts;
    uint64_t width = (uint64_t)f->n_head * (uint64_t)f->d_head, d_model = (uint64_t)f->d_model;
    uint64_t d_inner = (uint64_t)f->d_inner;
    static const char norm[] = "dec_attn.layer_norm", ff[] = "pos_ff.CoreNet";
    char from[64];
    txl_status status = add_qkv(c, n, width, d_model, error);
    if (!status)
        status = add_linear(c, n, "dec_attn.o_net.weight", "attention.o", d_model, width, error);
    if (!status)
        status = add_positions(c, n, width, d_model, error);
    struct {
        const char *module, *which, *to;
        uint64_t n_row, n_col; /* n_col 0: a vector */
    } rest[] = {
        {norm, "weight", "attention.norm.weight", d_model, 0},
        {norm, "bias", "attention.norm.bias", d_model, 0},
        {ff, "0.weight", "feed_forward.1.weight", d_inner, d_model},
        {ff, "0.bias", "feed_forward.1.bias", d_inner, 0},
        {ff, "3.weight", "feed_forward.2.weight", d_model, d_inner},
        {ff, "3.bias", "feed_forward.2.bias", d_model, 0},
        {"pos_ff.layer_norm", "weight", "feed_forward.norm.weight", d_model, 0},
        {"pos_ff.layer_norm", "bias", "feed_forward.norm.bias", d_model, 0},
    };
    for (size_t i = 0; i < sizeof rest / sizeof *rest && !status; i++) {
        snprintf(from, sizeof from, "%s.%s", rest[i].module, rest[i].which);
        status = rest[i].n_col
                     ? add_linear(c, n, from, rest[i].to, rest[i].n_row, rest[i].n_col, error)
                     : add_bias(c, n, from, rest[i].to, rest[i].n_row, error);
    }
    return status;
}

static uint64_t band_width(const struct facts *f, int i) {
    uint64_t width = (uint64_t)f->d_embed;
    for (int k = 0; k < i && f->div_val > 1; k++)
        width /= (uint64_t)f->div_val;
    return width;
}

/* Embedding and softmax `i`: with div_val 1 there is one of each for all bands. */
static txl_status add_embedding(struct conversion *c, int i, txl_error *error) {
    const struct facts *f = &c->r->facts;
    struct name name;
    uint64_t d_band = band_width(f, i), d_model = (uint64_t)f->d_model;
    uint64_t rows = (uint64_t)f->n_token;
    if (f->div_val > 1)
        rows = (uint64_t)((i < f->n_band - 1 ? f->cutoff[i] : f->n_token) -
                          (i > 0 ? f->cutoff[i - 1] : 0));
    txl_status status = add_matrix(c, NAME("embedding.%d.weight", i),
                                   recognise_tensor(c->r, "word_emb.emb_layers.%d.weight", i), rows,
                                   d_band, 0, 1, error);
    const struct checkpoint_tensor *p = recognise_tensor(c->r, "word_emb.emb_projs.%d", i);
    if (!status && (p || d_band != d_model))
        status = add_matrix(c, NAME("embedding.%d.projection", i), p, d_model, d_band, 0, 1, error);
    if (!status && !f->tied_weights)
        status = add_matrix(c, NAME("softmax.%d.weight", i),
                            recognise_tensor(c->r, "crit.out_layers.%d.weight", i), rows, d_band, 0,
                            1, error);
    if (!status)
        status =
            add_vector(c, NAME("softmax.%d.bias", i),
                       recognise_tensor(c->r, "crit.out_layers.%d.bias", i), rows, 0, 1, error);
    return status;
}

/* The softmax's projection of band `i`; where it is not stored it is the embedding's. */
static txl_status add_softmax_projection(struct conversion *c, int i, txl_error *error) {
    const struct facts *f = &c->r->facts;
    struct name name;
    uint64_t d_band = band_width(f, i);
    const struct checkpoint_tensor *p = recognise_tensor(c->r, "crit.out_projs.%d", i);
    if (!p)
        p = recognise_tensor(c->r, "word_emb.emb_projs.%d", f->div_val > 1 ? i : 0);
    if (!p && d_band == (uint64_t)f->d_model)
        return TXL_OK;
    return add_transposed(c, NAME("softmax.%d.projection", i), p, (uint64_t)f->d_model, d_band,
                          error);
}

static txl_status add_bands(struct conversion *c, txl_error *error) {
    const struct facts *f = &c->r->facts;
    txl_status status = TXL_OK;
    for (int i = 0; i < f->n_band && !status; i++) {
        if (i == 0 || f->div_val > 1)
            status = add_embedding(c, i, error);
        if (!status)
            status = add_softmax_projection(c, i, error);
    }
    uint64_t clusters = (uint64_t)f->n_band - 1;
    if (!status && clusters > 0)
        status =
            add_matrix(c, "softmax.cluster.weight", recognise_tensor(c->r, "crit.cluster_weight"),
                       clusters, (uint64_t)f->d_embed, 0, 1, error);
    if (!status && clusters > 0)
        status = add_vector(c, "softmax.cluster.bias", recognise_tensor(c->r, "crit.cluster_bias"),
                            clusters, 0, 1, error);
    return status;
}

/* The sinusoids' frequencies as the checkpoint holds them (a half-precision one's are rounded), or
 * as PyTorch would compute them: 1 / 10000^(2 i / d_model) in f32. */
static txl_status add_frequencies(struct conversion *c, txl_error *error) {
    const struct facts *f = &c->r->facts;
    uint64_t n = (uint64_t)f->d_model / 2;
    const struct checkpoint_tensor *t = recognise_tensor(c->r, "pos_emb.inv_freq");
    if (f->attn_type == 1 || f->attn_type == 3)
        return TXL_OK;
    if (t)
        return add_vector(c, "position.inv_freq", t, n, 0, 1, error);
    float *elements = calloc(n, sizeof *elements);
    if (!elements)
        return txl_fail_memory(error, "the sinusoids", n * sizeof *elements);
    for (uint64_t i = 0; i < n; i++)
        elements[i] = 1 / powf(10000, (float)(2 * i) / (float)f->d_model);
    return add(c, "position.inv_freq", WEIGHTS_F32, 1, &n, NULL, 0, elements, error);
}

static txl_status choose_type(struct conversion *c, const char *wanted, txl_error *error) {
    const struct checkpoint_tensor *t = recognise_tensor(c->r, "layers.0.pos_ff.CoreNet.0.weight");
    if (wanted) {
        int type = weights_type_of_name(wanted);
        if (type < 0)
            return txl_fail(error, TXL_ARGUMENT, "no type \"%s\": there are f32, f16 and bf16",
                            wanted);
        c->type = (enum weights_type)type;
    } else {
        c->type = t->dtype == CHECKPOINT_F16    ? WEIGHTS_F16
                  : t->dtype == CHECKPOINT_BF16 ? WEIGHTS_BF16
                                                : WEIGHTS_F32;
    }
    return TXL_OK;
}

static txl_status list_tensors(struct conversion *c, txl_error *error) {
    txl_status status = add_bands(c, error);
    if (!status)
        status = add_frequencies(c, error);
    for (int n = 0; n < c->r->facts.n_layer && !status; n++)
        status = add_layer(c, n, error);
    return status;
}

/* ---- Vocabulary and settings -------------------------------------------------------------- */

static const char *const kind_names[] = {"words", "lm1b", "bytes", "text8", "characters"};

struct text_facts {
    txl_kind kind;
    bool lower_case;
    int32_t unk, eos;
};

static txl_status read_vocabulary(const struct recognised *r, const struct convert_options *o,
                                  struct text_facts *text, void **section, size_t *size,
                                  txl_error *error) {
    struct vocabulary_file file = {0};
    char *path = NULL;
    txl_status status =
        o->vocabulary ? TXL_OK : vocabulary_file_find(checkpoint_path(r->checkpoint), &path, error);
    if (!status)
        status = vocabulary_file_read(o->vocabulary ? o->vocabulary : path, &file, error);
    free(path);
    if (!status && file.n_symbol != (size_t)r->facts.n_token)
        status =
            txl_fail(error, TXL_FORMAT,
                     "%s: %zu symbols, but the model in %s has %d: this is not its vocabulary",
                     file.path, file.n_symbol, checkpoint_path(r->checkpoint), r->facts.n_token);
    struct vocabulary_entry *entry = status ? NULL : calloc(file.n_symbol, sizeof *entry);
    if (!status && !entry)
        status = txl_fail_memory(error, "the vocabulary", file.n_symbol * sizeof *entry);
    for (size_t i = 0; !status && i < file.n_symbol; i++)
        entry[i] = (struct vocabulary_entry){file.symbols[i].bytes, file.symbols[i].length};
    if (!status) {
        int kind = 0;
        while (o->tokenizer && kind < 5 && strcmp(o->tokenizer, kind_names[kind]) != 0)
            kind++;
        if (kind == 5)
            status = txl_fail(error, TXL_ARGUMENT, "no tokenizer \"%s\"", o->tokenizer);
        text->kind = o->tokenizer ? (txl_kind)kind
                                  : vocabulary_guess_kind(entry, file.n_symbol,
                                                          file.delimiter == VOCABULARY_CHARACTERS);
        text->lower_case = file.lower_case == VOCABULARY_LOWER_CASE;
        text->unk = file.unk >= 0 ? file.unk : vocabulary_guess_unk(entry, file.n_symbol);
        text->eos = vocabulary_guess_eos(entry, file.n_symbol, text->kind);
    }
    if (!status)
        status = vocabulary_pack(entry, file.n_symbol, section, size, error);
    free(entry);
    vocabulary_file_free(&file);
    return status;
}

static json_t *id_or_null(int32_t id) {
    return id < 0 ? json_null() : json_integer(id);
}

/* The settings of weights-format.md, or NULL when memory is short. */
static char *make_settings(const struct facts *f, const struct text_facts *text, const char *type) {
    json_t *cutoffs = json_array(), *tied = json_array();
    for (int i = 0; i < f->n_band - 1; i++)
        json_array_append_new(cutoffs, json_integer(f->cutoff[i]));
    for (int i = 0; i < f->n_band; i++)
        json_array_append_new(tied, json_boolean(f->tied_projection[i]));
    json_t *settings = json_pack(
        "{s:s, s:s, s:b, s:o, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:i, s:o, s:b, "
        "s:o, s:b, s:i, s:i, s:i, s:b, s:s, s:s, s:s}",
        "family", "transformer-xl", "tokenizer", kind_names[text->kind], "lower_case",
        text->lower_case, "unk_id", id_or_null(text->unk), "eos_id", id_or_null(text->eos),
        "n_token", f->n_token, "n_layer", f->n_layer, "n_head", f->n_head, "d_head", f->d_head,
        "d_model", f->d_model, "d_embed", f->d_embed, "d_inner", f->d_inner, "attn_type",
        f->attn_type, "pre_lnorm", f->pre_lnorm, "div_val", f->div_val, "cutoffs", cutoffs,
        "tied_weights", f->tied_weights, "tied_projections", tied, "biases_per_layer",
        f->biases_per_layer, "tgt_len", f->tgt_len, "mem_len", f->mem_len, "clamp_len",
        f->clamp_len, "same_length", f->same_length, "memory_start", f->memory_start,
        "cluster_order", f->cluster_order, "type", type);
    if (settings && f->max_klen > 0)
        json_object_set_new(settings, "max_klen", json_integer(f->max_klen));
    char *json = settings ? json_dumps(settings, JSON_INDENT(1)) : NULL;
    json_decref(settings);
    return json;
}

/* ---- The public functions ----------------------------------------------------------------- */

void convert_options_init(struct convert_options *options) {
    *options = (struct convert_options){.level = -1,
                                        .attn_type = -1,
                                        .pre_lnorm = CONVERT_UNSET,
                                        .same_length = CONVERT_UNSET,
                                        .tgt_len = -1,
                                        .mem_len = -1};
}

txl_status convert_checkpoint(const char *source, const char *output,
                              const struct convert_options *options, txl_error *error) {
    struct recognised r;
    struct text_facts text;
    void *vocabulary = NULL;
    size_t vocabulary_size = 0;
    char *settings = NULL;
    txl_status status = recognise(source, options, &r, error);
    struct conversion c = {.r = &r, .path = status ? source : checkpoint_path(r.checkpoint)};
    if (!status)
        status = choose_type(&c, options->type, error);
    if (!status)
        status = read_vocabulary(&r, options, &text, &vocabulary, &vocabulary_size, error);
    if (!status)
        status = list_tensors(&c, error);
    if (!status) {
        settings = make_settings(&r.facts, &text, weights_type_name(c.type));
        if (!settings)
            status = txl_fail_memory(error, "the settings", 4096);
    }
    if (!status) {
        struct weights_contents contents = {.settings = settings,
                                            .vocabulary = vocabulary,
                                            .vocabulary_size = vocabulary_size,
                                            .source = c.source,
                                            .n_source = c.n,
                                            .level =
                                                options->level < 0 ? DEFAULT_LEVEL : options->level,
                                            .threads = options->threads,
                                            .progress = options->progress,
                                            .progress_context = options->progress_context};
        status = weights_write(output, &contents, error);
    }
    free(settings);
    free(vocabulary);
    free_conversion(&c);
    recognise_free(&r);
    return status;
}

txl_status convert_list_tensors(const char *source,
                                void (*tensor)(void *, const struct convert_tensor *),
                                void *context, txl_error *error) {
    struct checkpoint *checkpoint;
    txl_status status = checkpoint_open(source, &checkpoint, error);
    if (status)
        return status;
    for (size_t i = 0; i < checkpoint_n_tensor(checkpoint); i++) {
        const struct checkpoint_tensor *t = checkpoint_tensor_at(checkpoint, i);
        tensor(context, &(struct convert_tensor){t->name, checkpoint_dtype_name(t->dtype), t->n_dim,
                                                 t->shape});
    }
    checkpoint_close(checkpoint);
    return TXL_OK;
}
