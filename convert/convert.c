/* The conversion: the facts become settings, the checkpoint's tensors become those of
 * weights-format.md, streamed through from the mapped checkpoint. */
#include "convert.h"
#include "convert/containers/mapped_file.h"
#include "lib/base/error.h"
#include "lib/base/half.h"
#include "lib/base/json_memory.h"
#include "lib/base/q8.h"
#include "lib/text/kind.h"
#include "lib/text/vocabulary.h"
#include "lib/weights/weights.h"
#include "recognise.h"
#include "vocabulary_file.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEFAULT_LEVEL = 1 };

/* ---- Where a tensor's elements come from -------------------------------------------------- */

/* One after the other: whole tensors or slices of them, or one transposed, or computed numbers. */
struct piece {
    const struct checkpoint_tensor *tensor;
    uint64_t first, n; /* elements of it */
};

struct part {
    const char *path; /* of the checkpoint */
    struct piece piece[2];
    int n_piece;
    float *elements; /* transposed or computed beforehand, instead of pieces; owned */
    bool positions;  /* a table of learned positions: neither a product's matrix nor an embedding */
};

static txl_status read_elements(const char *path, const struct checkpoint_tensor *t, uint64_t first,
                                uint64_t count, float *out, txl_error *error) {
    txl_status status = checkpoint_read_float(t, first, count, out, error);
    for (uint64_t i = 0; !status && i < count; i++) {
        if (!isfinite(out[i]))
            status = txl_fail(error, TXL_FORMAT,
                              "%s: tensor %s: element %" PRIu64 " is %g; weights must be finite",
                              path, t->name, first + i, (double)out[i]);
    }
    return status;
}

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
        if (count > 0 && first >= begin && first < begin + piece->n) {
            uint64_t left = begin + piece->n - first, n = count < left ? count : left;
            txl_status status = read_elements(part->path, piece->tensor,
                                              piece->first + first - begin, n, out, error);
            if (status)
                return status;
            first += n;
            out += n;
            count -= (size_t)n;
            /* What has no gaps is not needed again; the rest would have to be mapped anew. */
            if (n == left || checkpoint_is_contiguous(piece->tensor))
                checkpoint_release(piece->tensor);
        }
        begin += piece->n;
    }
    return TXL_OK;
}

/* What a weights file calls a tensor. */
struct name {
    char text[64];
};

__attribute__((format(printf, 1, 2))) static struct name name(const char *format, ...) {
    struct name made;
    va_list args;
    va_start(args, format);
    vsnprintf(made.text, sizeof made.text, format, args);
    va_end(args);
    return made;
}

struct conversion {
    const struct recognised *r;
    const char *path;
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

/* Appends a tensor to the list; takes over `elements`.  A matrix gets its type at the end. */
static txl_status add(struct conversion *c, struct name name, int n_dim, const uint64_t *shape,
                      const struct piece *piece, int n_piece, float *elements, txl_error *error) {
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
    part->path = c->path;
    part->elements = elements;
    part->n_piece = n_piece;
    for (int i = 0; i < n_piece; i++)
        part->piece[i] = piece[i];
    struct weights_source *s = &c->source[c->n];
    *s = (struct weights_source){
        .type = WEIGHTS_F32, .n_dim = n_dim, .read = read_part, .context = part};
    strcpy(s->name, name.text);
    memcpy(s->shape, shape, (size_t)n_dim * sizeof *shape);
    c->part[c->n++] = part;
    return TXL_OK;
}

/* ---- The checkpoint's tensors under their new names --------------------------------------- */

static txl_status add_matrix(struct conversion *c, struct name to, struct part_name from,
                             uint64_t n_row, uint64_t n_col, txl_error *error) {
    const uint64_t shape[] = {n_row, n_col};
    struct piece piece = {.n = n_row * n_col};
    txl_status status = recognise_need(c->r, from, 2, shape, &piece.tensor, error);
    return status ? status : add(c, to, 2, shape, &piece, 1, NULL, error);
}

static txl_status add_vector(struct conversion *c, struct name to, struct part_name from,
                             uint64_t n, txl_error *error) {
    struct piece piece = {.n = n};
    txl_status status = recognise_need(c->r, from, 1, &n, &piece.tensor, error);
    return status ? status : add(c, to, 1, &n, &piece, 1, NULL, error);
}

/* Item `n` of a tensor that has one for each layer: from[n_layer, shape...] as to[to_shape...]. */
static txl_status add_item(struct conversion *c, struct name to, int to_n_dim,
                           const uint64_t *to_shape, struct part_name from, int n_dim,
                           const uint64_t *shape, int n, txl_error *error) {
    uint64_t whole[CHECKPOINT_MAX_DIM] = {(uint64_t)c->r->facts.n_layer};
    memcpy(whole + 1, shape, (size_t)n_dim * sizeof *shape);
    struct piece piece = {.n = 1};
    txl_status status = recognise_need(c->r, from, n_dim + 1, whole, &piece.tensor, error);
    if (status)
        return status;
    for (int d = 0; d < n_dim; d++)
        piece.n *= shape[d];
    piece.first = (uint64_t)n * piece.n;
    return add(c, to, to_n_dim, to_shape, &piece, 1, NULL, error);
}

/* The softmax's projections are stored the other way round: P[d_model, d_band] of the checkpoint
 * becomes [d_band, d_model], which all products expect. */
static txl_status add_transposed(struct conversion *c, struct name to, struct part_name from,
                                 uint64_t n_row, uint64_t n_col, txl_error *error) {
    const struct checkpoint_tensor *t;
    txl_status status = recognise_need(c->r, from, 2, (uint64_t[]){n_row, n_col}, &t, error);
    if (status)
        return status;
    float *in = calloc(n_row * n_col, sizeof *in), *out = calloc(n_row * n_col, sizeof *out);
    if (!in || !out)
        status = txl_fail_memory(error, "a projection", n_row * n_col * sizeof *in);
    if (!status)
        status = read_elements(c->path, t, 0, n_row * n_col, in, error);
    for (uint64_t i = 0; !status && i < n_row; i++)
        for (uint64_t j = 0; j < n_col; j++)
            out[j * n_row + i] = in[i * n_col + j];
    free(in);
    if (status) {
        free(out);
        return status;
    }
    struct piece piece = {t, 0, n_row * n_col};
    return add(c, to, 2, (uint64_t[]){n_col, n_row}, &piece, 1, out, error);
}

static txl_status add_layer_matrix(struct conversion *c, int n, const char *from, const char *to,
                                   uint64_t n_row, uint64_t n_col, txl_error *error) {
    return add_matrix(c, name("layer.%d.%s", n, to), part_name("layers.%d.%s", n, from), n_row,
                      n_col, error);
}

static txl_status add_layer_vector(struct conversion *c, int n, const char *from, const char *to,
                                   uint64_t size, txl_error *error) {
    return add_vector(c, name("layer.%d.%s", n, to), part_name("layers.%d.%s", n, from), size,
                      error);
}

/* The vanilla kinds keep queries apart from keys and values. */
static txl_status add_qkv(struct conversion *c, int n, uint64_t width, uint64_t d_model,
                          txl_error *error) {
    if (c->r->facts.attn_type <= 1)
        return add_layer_matrix(c, n, "dec_attn.qkv_net.weight", "attention.qkv", 3 * width,
                                d_model, error);
    struct piece piece[] = {{.n = width * d_model}, {.n = 2 * width * d_model}};
    txl_status status = recognise_need(c->r, part_name("layers.%d.dec_attn.q_net.weight", n), 2,
                                       (uint64_t[]){width, d_model}, &piece[0].tensor, error);
    if (!status)
        status = recognise_need(c->r, part_name("layers.%d.dec_attn.kv_net.weight", n), 2,
                                (uint64_t[]){2 * width, d_model}, &piece[1].tensor, error);
    return status ? status
                  : add(c, name("layer.%d.attention.qkv", n), 2, (uint64_t[]){3 * width, d_model},
                        piece, 2, NULL, error);
}

/* u or v: a layer's own tensor, a layer's item of one for all, or (in layer 0) the shared one. */
static txl_status add_attention_bias(struct conversion *c, int n, const char *from, const char *to,
                                     txl_error *error) {
    const struct facts *f = &c->r->facts;
    const uint64_t shape[] = {(uint64_t)f->n_head, (uint64_t)f->d_head};
    struct piece piece = {.n = shape[0] * shape[1]};
    struct name layer = name("layer.%d.attention.%s", n, to);
    if (f->attn_type == 1)
        return add_item(c, layer, 1, &piece.n, part_name("%s", from), 2, shape, n, error);
    if (!f->biases_per_layer && n > 0)
        return TXL_OK;
    struct part_name own = part_name("layers.%d.dec_attn.%s", n, from);
    txl_status status = recognise_need(c->r, f->biases_per_layer ? own : part_name("%s", from), 2,
                                       shape, &piece.tensor, error);
    return status ? status
                  : add(c, f->biases_per_layer ? layer : name("attention.%s", to), 1, &piece.n,
                        &piece, 1, NULL, error);
}

static txl_status add_positions(struct conversion *c, int n, uint64_t width, uint64_t d_model,
                                txl_error *error) {
    const struct facts *f = &c->r->facts;
    const uint64_t rows = (uint64_t)f->max_klen, n_head = (uint64_t)f->n_head;
    txl_status status = TXL_OK;
    if (f->attn_type == 0)
        status =
            add_layer_matrix(c, n, "dec_attn.r_net.weight", "attention.r", width, d_model, error);
    if (!status && f->attn_type <= 1)
        status = add_attention_bias(c, n, "r_w_bias", "u", error);
    if (!status && f->attn_type == 0)
        status = add_attention_bias(c, n, "r_r_bias", "v", error);
    if (!status && (f->attn_type == 1 || f->attn_type == 3))
        status = add_item(c, name("layer.%d.attention.r_emb", n), 2, (uint64_t[]){rows, width},
                          part_name("r_emb"), 3, (uint64_t[]){rows, n_head, (uint64_t)f->d_head}, n,
                          error);
    if (!status && (f->attn_type == 1 || f->attn_type == 3))
        c->part[c->n - 1]->positions = true;
    if (!status && f->attn_type == 1)
        status = add_item(c, name("layer.%d.attention.r_bias", n), 1, (uint64_t[]){rows * n_head},
                          part_name("r_bias"), 2, (uint64_t[]){rows, n_head}, n, error);
    return status;
}

static txl_status add_layer(struct conversion *c, int n, txl_error *error) {
    const struct facts *f = &c->r->facts;
    uint64_t width = (uint64_t)f->n_head * (uint64_t)f->d_head, d_model = (uint64_t)f->d_model;
    uint64_t d_inner = (uint64_t)f->d_inner;
    txl_status status = add_qkv(c, n, width, d_model, error);
    if (!status)
        status =
            add_layer_matrix(c, n, "dec_attn.o_net.weight", "attention.o", d_model, width, error);
    if (!status)
        status = add_positions(c, n, width, d_model, error);
    const struct {
        const char *from, *to;
        uint64_t n_row, n_col; /* n_col 0: a vector */
    } rest[] = {
        {"dec_attn.layer_norm.weight", "attention.norm.weight", d_model, 0},
        {"dec_attn.layer_norm.bias", "attention.norm.bias", d_model, 0},
        {"pos_ff.CoreNet.0.weight", "feed_forward.1.weight", d_inner, d_model},
        {"pos_ff.CoreNet.0.bias", "feed_forward.1.bias", d_inner, 0},
        {"pos_ff.CoreNet.3.weight", "feed_forward.2.weight", d_model, d_inner},
        {"pos_ff.CoreNet.3.bias", "feed_forward.2.bias", d_model, 0},
        {"pos_ff.layer_norm.weight", "feed_forward.norm.weight", d_model, 0},
        {"pos_ff.layer_norm.bias", "feed_forward.norm.bias", d_model, 0},
    };
    for (size_t i = 0; i < sizeof rest / sizeof *rest && !status; i++)
        if (rest[i].n_col > 0)
            status = add_layer_matrix(c, n, rest[i].from, rest[i].to, rest[i].n_row, rest[i].n_col,
                                      error);
        else
            status = add_layer_vector(c, n, rest[i].from, rest[i].to, rest[i].n_row, error);
    return status;
}

static uint64_t band_width(const struct facts *f, int i) {
    uint64_t width = (uint64_t)f->d_embed;
    for (int k = 0; k < i && f->div_val > 1; k++)
        width /= (uint64_t)f->div_val;
    return width;
}

/* Published code projects wherever widths differ, and always with a div_val. */
static bool projects(const struct facts *f) {
    return f->div_val > 1 || f->d_embed != f->d_model;
}

/* Embedding and softmax `i`: with div_val 1 there is one of each for all bands. */
static txl_status add_embedding(struct conversion *c, int i, txl_error *error) {
    const struct facts *f = &c->r->facts;
    uint64_t d_band = band_width(f, i), rows = (uint64_t)f->n_token;
    struct part_name in = part_name("word_emb.emb_layers.%d.weight", i);
    struct part_name out = part_name("crit.out_layers.%d.weight", i);
    struct part_name projection = recognise_either(c->r, part_name("word_emb.emb_projs.%d", i),
                                                   part_name("crit.out_projs.%d", i));
    if (f->div_val > 1)
        rows = (uint64_t)((i < f->n_band - 1 ? f->cutoff[i] : f->n_token) -
                          (i > 0 ? f->cutoff[i - 1] : 0));
    txl_status status = add_matrix(c, name("embedding.%d.weight", i),
                                   recognise_either(c->r, in, out), rows, d_band, error);
    if (!status && projects(f))
        status = add_matrix(c, name("embedding.%d.projection", i), projection, (uint64_t)f->d_model,
                            d_band, error);
    if (!status && !f->tied_weights)
        status = add_matrix(c, name("softmax.%d.weight", i), recognise_either(c->r, out, in), rows,
                            d_band, error);
    if (!status)
        status = add_vector(c, name("softmax.%d.bias", i), part_name("crit.out_layers.%d.bias", i),
                            rows, error);
    return status;
}

static txl_status add_softmax_projection(struct conversion *c, int i, txl_error *error) {
    const struct facts *f = &c->r->facts;
    struct part_name own = part_name("crit.out_projs.%d", i);
    struct part_name input = part_name("word_emb.emb_projs.%d", f->div_val > 1 ? i : 0);
    return projects(f) ? add_transposed(c, name("softmax.%d.projection", i),
                                        recognise_either(c->r, own, input), (uint64_t)f->d_model,
                                        band_width(f, i), error)
                       : TXL_OK;
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
        status = add_matrix(c, name("softmax.cluster.weight"), part_name("crit.cluster_weight"),
                            clusters, (uint64_t)f->d_embed, error);
    if (!status && clusters > 0)
        status = add_vector(c, name("softmax.cluster.bias"), part_name("crit.cluster_bias"),
                            clusters, error);
    return status;
}

/* The sinusoids' frequencies as the checkpoint holds them (a half-precision one's are rounded), or
 * as PyTorch would compute them: 1 / 10000^(2 i / d_model) in f32. */
static txl_status add_frequencies(struct conversion *c, txl_error *error) {
    static const char to[] = "position.inv_freq";
    const struct facts *f = &c->r->facts;
    uint64_t n = (uint64_t)f->d_model / 2;
    if (f->attn_type == 1 || f->attn_type == 3)
        return TXL_OK;
    if (recognise_tensor(c->r, part_name("pos_emb.inv_freq")))
        return add_vector(c, name(to), part_name("pos_emb.inv_freq"), n, error);
    float *elements = calloc(n, sizeof *elements);
    if (!elements)
        return txl_fail_memory(error, "the sinusoids", n * sizeof *elements);
    for (uint64_t i = 0; i < n; i++)
        elements[i] = 1 / powf(10000, (float)(2 * i) / (float)f->d_model);
    return add(c, name(to), 1, &n, NULL, 0, elements, error);
}

/* The narrowest type that loses nothing of any matrix. */
static enum weights_type source_type(const struct conversion *c) {
    bool f16 = true, bf16 = true;
    for (size_t i = 0; i < c->n; i++) {
        for (int k = 0; k < c->part[i]->n_piece && c->source[i].n_dim == 2; k++) {
            f16 = f16 && c->part[i]->piece[k].tensor->dtype == CHECKPOINT_F16;
            bf16 = bf16 && c->part[i]->piece[k].tensor->dtype == CHECKPOINT_BF16;
        }
    }
    return f16 ? WEIGHTS_F16 : bf16 ? WEIGHTS_BF16 : WEIGHTS_F32;
}

/* What q8 does not serve becomes f16, or f32 if it does not fit. */
static txl_status choose_half(struct weights_source *s, txl_error *error) {
    uint64_t n = s->shape[0] * s->shape[1];
    float x[1024];
    s->type = WEIGHTS_F16;
    for (uint64_t first = 0; first < n && s->type == WEIGHTS_F16; first += 1024) {
        size_t count = n - first < 1024 ? (size_t)(n - first) : 1024;
        txl_status status = s->read(s->context, first, count, x, error);
        if (status)
            return status;
        for (size_t i = 0; i < count; i++)
            if ((f16_of_float(x[i]) & 0x7fff) == 0x7c00)
                s->type = WEIGHTS_F32;
    }
    return TXL_OK;
}

/* Matrices get the wanted type, or the checkpoint's own; vectors stay f32. */
static txl_status choose_type(struct conversion *c, const char *wanted, enum weights_type *type,
                              txl_error *error) {
    int told = wanted ? weights_type_of_name(wanted) : (int)source_type(c);
    if (told < 0)
        return txl_fail(error, TXL_ARGUMENT, "no type \"%s\": there are f32, f16, bf16 and q8",
                        wanted);
    *type = (enum weights_type)told;
    txl_status status = TXL_OK;
    for (size_t i = 0; i < c->n && !status; i++) {
        struct weights_source *s = &c->source[i];
        bool narrow = s->shape[1] < Q8_BLOCK || c->part[i]->positions;
        if (s->n_dim == 2 && *type == WEIGHTS_Q8 && narrow)
            status = choose_half(s, error);
        else if (s->n_dim == 2)
            s->type = *type;
    }
    return status;
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

struct text_facts {
    txl_kind kind;
    bool lower_case;
    int32_t unk, eos;
};

static txl_status choose_kind(const char *told, txl_kind guessed, txl_kind *kind,
                              txl_error *error) {
    *kind = guessed;
    if (!told)
        return TXL_OK;
    int found = text_kind_of_name(told);
    if (found < 0)
        return txl_fail(error, TXL_ARGUMENT, "no tokenizer \"%s\"", told);
    *kind = (txl_kind)found;
    return TXL_OK;
}

/* The symbols as a section of the weights file, and what they say about the text. */
static txl_status pack_vocabulary(const struct vocabulary_file *file, const char *tokenizer,
                                  struct text_facts *text, void **section, size_t *size,
                                  txl_error *error) {
    struct vocabulary_entry *entry = calloc(file->n_symbol, sizeof *entry);
    if (!entry)
        return txl_fail_memory(error, "the vocabulary", file->n_symbol * sizeof *entry);
    for (size_t i = 0; i < file->n_symbol; i++)
        entry[i] = (struct vocabulary_entry){file->symbols[i].bytes, file->symbols[i].length};
    txl_kind guessed =
        vocabulary_guess_kind(entry, file->n_symbol, file->delimiter == VOCABULARY_CHARACTERS);
    txl_status status = choose_kind(tokenizer, guessed, &text->kind, error);
    if (!status) {
        text->lower_case = file->lower_case == VOCABULARY_LOWER_CASE;
        text->unk = file->unk >= 0 ? file->unk : vocabulary_guess_unk(entry, file->n_symbol);
        text->eos = vocabulary_guess_eos(entry, file->n_symbol, text->kind);
        status = vocabulary_pack(entry, file->n_symbol, section, size, error);
    }
    free(entry);
    return status;
}

static txl_status read_vocabulary(const struct recognised *r, const char *path,
                                  const char *tokenizer, struct text_facts *text, void **section,
                                  size_t *size, txl_error *error) {
    struct vocabulary_file file = {0};
    txl_status status = vocabulary_file_read(path, &file, error);
    if (!status && file.n_symbol != (size_t)r->facts.n_token)
        status =
            txl_fail(error, TXL_FORMAT,
                     "%s: %zu symbols, but the model in %s has %d: this is not its vocabulary",
                     file.path, file.n_symbol, checkpoint_path(r->checkpoint), r->facts.n_token);
    if (!status)
        status = pack_vocabulary(&file, tokenizer, text, section, size, error);
    vocabulary_file_free(&file);
    return status;
}

static json_t *id_or_null(int32_t id) {
    return id < 0 ? json_null() : json_integer(id);
}

/* The settings of weights-format.md, or NULL when memory is short. */
static char *make_settings(const struct facts *f, const struct text_facts *text, const char *type) {
    json_t *cutoffs = json_array(), *tied = json_array();
    bool good = true; /* json_pack sees to the arrays themselves */
    for (int i = 0; i < f->n_band - 1; i++)
        good = json_array_append_new(cutoffs, json_integer(f->cutoff[i])) == 0 && good;
    for (int i = 0; i < f->n_band; i++)
        good = json_array_append_new(tied, json_boolean(f->tied_projection[i])) == 0 && good;
    json_t *settings = json_pack(
        "{s:s, s:s, s:b, s:o, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:i, s:o, s:b, "
        "s:o, s:b, s:i, s:i, s:i, s:b, s:s, s:s, s:s}",
        "family", "transformer-xl", "tokenizer", text_kind(text->kind)->name, "lower_case",
        text->lower_case, "unk_id", id_or_null(text->unk), "eos_id", id_or_null(text->eos),
        "n_token", f->n_token, "n_layer", f->n_layer, "n_head", f->n_head, "d_head", f->d_head,
        "d_model", f->d_model, "d_embed", f->d_embed, "d_inner", f->d_inner, "attn_type",
        f->attn_type, "pre_lnorm", f->pre_lnorm, "div_val", f->div_val, "cutoffs", cutoffs,
        "tied_weights", f->tied_weights, "tied_projections", tied, "biases_per_layer",
        f->biases_per_layer, "tgt_len", f->tgt_len, "mem_len", f->mem_len, "clamp_len",
        f->clamp_len, "same_length", f->same_length, "memory_start", f->memory_start,
        "cluster_order", f->cluster_order, "type", type);
    if (settings && f->max_klen > 0)
        good = json_object_set_new(settings, "max_klen", json_integer(f->max_klen)) == 0 && good;
    char *json = settings && good ? json_text(settings, JSON_INDENT(1)) : NULL;
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

/* Of the files beside the checkpoint only those that are read for it are in the way. */
static txl_status refuse_input(const struct recognised *r, const char *vocabulary,
                               const char *output, txl_error *error) {
    if (checkpoint_reads(r->checkpoint, output) || mapped_file_same(vocabulary, output) ||
        (r->config_path && mapped_file_same(r->config_path, output)))
        return txl_fail(error, TXL_ARGUMENT, "%s: is read, and cannot be the output too", output);
    return TXL_OK;
}

/* From recognised facts and a vocabulary to the file. */
static txl_status write_file(struct conversion *c, const char *output, const char *vocabulary,
                             const struct convert_options *options, txl_error *error) {
    struct text_facts text = {0};
    enum weights_type type = WEIGHTS_F32;
    char *settings = NULL;
    void *section = NULL;
    size_t section_size = 0;
    txl_status status = read_vocabulary(c->r, vocabulary, options->tokenizer, &text, &section,
                                        &section_size, error);
    if (!status)
        status = list_tensors(c, error);
    if (!status)
        status = choose_type(c, options->type, &type, error);
    if (!status) {
        settings = make_settings(&c->r->facts, &text, weights_type_name(type));
        if (!settings)
            status = txl_fail_memory(error, "the settings", 4096);
    }
    if (!status) {
        struct weights_contents contents = {.settings = settings,
                                            .vocabulary = section,
                                            .vocabulary_size = section_size,
                                            .source = c->source,
                                            .n_source = c->n,
                                            .level =
                                                options->level < 0 ? DEFAULT_LEVEL : options->level,
                                            .threads = options->threads,
                                            .progress = options->progress,
                                            .progress_context = options->progress_context};
        status = weights_write(output, &contents, error);
    }
    free(settings);
    free(section);
    return status;
}

txl_status convert_checkpoint(const char *source, const char *output,
                              const struct convert_options *options, txl_error *error) {
    struct recognised r;
    char *found = NULL;
    txl_status status = recognise(source, options, &r, error);
    if (!status)
        status = recognise_complete(&r, error);
    struct conversion c = {.r = &r, .path = status ? source : checkpoint_path(r.checkpoint)};
    if (!status && !options->vocabulary)
        status = vocabulary_file_find(c.path, &found, error);
    const char *vocabulary = options->vocabulary ? options->vocabulary : found;
    if (!status)
        status = refuse_input(&r, vocabulary, output, error);
    if (!status)
        status = write_file(&c, output, vocabulary, options, error);
    free_conversion(&c);
    free(found);
    recognise_free(&r);
    return status;
}

/* What the vocabulary tells of the text.  Without one, or with one of another model, nothing. */
static bool guess_text(const struct recognised *r, const char *path, struct text_facts *text) {
    void *section = NULL;
    size_t size;
    bool known = path && read_vocabulary(r, path, NULL, text, &section, &size, NULL) == TXL_OK;
    free(section);
    return known;
}

/* Sets to null what an option would have to tell: "--n-head N" the key n_head. */
static bool forget_missing(json_t *settings, const char *missing) {
    bool good = true;
    for (const char *option = missing; good && (option = strstr(option, "--")); option++) {
        char key[32];
        size_t n = 0;
        for (option += 2; n + 1 < sizeof key && option[n] != ' ' && option[n] != '\0'; n++)
            key[n] = option[n] == '-' ? '_' : option[n];
        key[n] = '\0';
        good = json_object_set_new(settings, key, json_null()) == 0;
        if (strcmp(key, "n_head") == 0)
            good = good && json_object_set_new(settings, "d_head", json_null()) == 0;
    }
    return good;
}

/* The settings as far as they are known; NULL when memory is short. */
static char *describe_settings(const struct recognised *r, const char *vocabulary) {
    static const char *const of_text[] = {"tokenizer", "lower_case", "unk_id", "eos_id"};
    struct facts facts = r->facts;
    struct text_facts text = {.unk = -1, .eos = -1};
    bool has_text = guess_text(r, vocabulary, &text);
    facts.memory_start = facts.memory_start ? facts.memory_start : "";
    facts.cluster_order = facts.cluster_order ? facts.cluster_order : "";
    char *json = make_settings(&facts, &text, "");
    json_t *settings = json ? json_loads(json, 0, NULL) : NULL;
    free(json);
    bool good =
        settings && json_object_del(settings, "type") == 0 && forget_missing(settings, r->missing);
    for (size_t i = 0; good && !has_text && i < sizeof of_text / sizeof *of_text; i++)
        good = json_object_set_new(settings, of_text[i], json_null()) == 0;
    json = good ? json_text(settings, JSON_COMPACT) : NULL;
    json_decref(settings);
    return json;
}

txl_status convert_describe(const char *source, struct convert_description *d, txl_error *error) {
    struct convert_options options;
    struct recognised r;
    *d = (struct convert_description){0};
    convert_options_init(&options);
    txl_status status = recognise(source, &options, &r, error);
    if (!status) {
        vocabulary_file_find(checkpoint_path(r.checkpoint), &d->vocabulary, NULL);
        d->settings = describe_settings(&r, d->vocabulary);
        snprintf(d->missing, sizeof d->missing, "%s%s", r.missing,
                 d->vocabulary ? "" : " --vocab FILE");
        if (!d->settings)
            status = txl_fail_memory(error, "the settings", 4096);
    }
    recognise_free(&r);
    return status;
}

void convert_description_free(struct convert_description *d) {
    free(d->settings);
    free(d->vocabulary);
    *d = (struct convert_description){0};
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
