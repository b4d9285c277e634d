/* The conversion: facts become settings, and the mapped checkpoint's tensors are streamed into
 * those of weights-format.md. */
#include "convert.h"
#include "lib/base/error.h"
#include "lib/base/half.h"
#include "lib/base/json_memory.h"
#include "lib/base/mapped_file.h"
#include "lib/base/q8.h"
#include "lib/text/kind.h"
#include "lib/text/sentencepiece.h"
#include "lib/text/vocabulary.h"
#include "lib/transformer_xl/family.h"
#include "lib/weights/weights.h"
#include "lib/xlnet/family.h"
#include "recognise.h"
#include "vocabulary_file.h"
#include "xlnet.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEFAULT_LEVEL = 1 };

/* ---- Where a tensor's elements come from -------------------------------------------------- */

/* A tensor of the checkpoint, or a slice of it. */
struct piece {
    const struct checkpoint_tensor *tensor;
    uint64_t first, n; /* its elements [first, first + n) */
};

/* Where the elements of one written tensor come from: pieces, one after the other, or `elements`.
 */
struct part {
    const char *path; /* of the checkpoint */
    struct piece piece[XLNET_MAX_PIECE];
    int n_piece;
    struct checkpoint_tensor view[XLNET_MAX_PIECE]; /* views made for pieces */
    float *elements; /* transposed or computed beforehand, or NULL; owned */
    enum parameter_kind kind;
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
            /* Contiguous elements are not needed again; others would have to be mapped again. */
            if (n == left || checkpoint_is_contiguous(piece->tensor))
                checkpoint_release(piece->tensor);
        }
        begin += piece->n;
    }
    return TXL_OK;
}

/* The model of a checkpoint, of one of the families. */
struct subject {
    struct checkpoint *checkpoint;
    const struct family *family;
    struct recognised transformer_xl;
    struct xlnet_recognised xlnet;
    void *settings;      /* the family's, in one of the two structs */
    char *config_path;   /* of the config.json that was read, or NULL; owned */
    const char *missing; /* options that would state the missing facts, each after a blank */
};

static txl_status open_subject(const char *source, const struct convert_options *options,
                               struct subject *s, txl_error *error) {
    *s = (struct subject){.family = &transformer_xl_family,
                          .settings = &s->transformer_xl.facts,
                          .missing = s->transformer_xl.missing};
    txl_status status = checkpoint_open(source, &s->checkpoint, error);
    if (status)
        return status;
    if (!xlnet_is_in(s->checkpoint))
        return recognise(s->checkpoint, options, &s->transformer_xl, &s->config_path, error);
    s->family = &xlnet_family;
    s->settings = &s->xlnet.settings;
    s->missing = "";
    return xlnet_recognise(s->checkpoint, options, &s->xlnet, &s->config_path, error);
}

static void close_subject(struct subject *s) {
    checkpoint_close(s->checkpoint);
    free(s->config_path);
}

struct conversion {
    const struct subject *subject;
    const struct recognised *r; /* of a Transformer-XL */
    const char *path;
    struct weights_source *source;
    struct part **part; /* what each source reads from */
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
static txl_status add(struct conversion *c, const struct parameter_tensor *to,
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
    part->kind = to->parameter->kind;
    part->elements = elements;
    part->n_piece = n_piece;
    for (int i = 0; i < n_piece; i++)
        part->piece[i] = piece[i];
    struct weights_source *s = &c->source[c->n];
    *s = (struct weights_source){.type = WEIGHTS_F32,
                                 .n_dim = part->kind == PARAMETER_VECTOR ? 1 : 2,
                                 .shape = {to->n_row, to->n_column},
                                 .read = read_part,
                                 .context = part};
    strcpy(s->name, to->name);
    c->part[c->n++] = part;
    return TXL_OK;
}

/* ---- What published code calls the parameters --------------------------------------------- */

/* The origins of the parameters; `N` in a name is the number of the band or layer. */
static const struct origin {
    const char *first, *second; /* of two tied tensors, safetensors files keep one */
    bool per_head;              /* [n_head, d_head] in its last two dimensions */
    bool transposed; /* [d_model, d_band] becomes [d_band, d_model], as products expect */
} origins[N_TRANSFORMER_XL_PARAMETER] = {
    [EMBEDDING_WEIGHT] = {"word_emb.emb_layers.N.weight", "crit.out_layers.N.weight"},
    [EMBEDDING_PROJECTION] = {"word_emb.emb_projs.N", "crit.out_projs.N"},
    [SOFTMAX_WEIGHT] = {"crit.out_layers.N.weight", "word_emb.emb_layers.N.weight"},
    [SOFTMAX_BIAS] = {"crit.out_layers.N.bias"},
    [SOFTMAX_PROJECTION] = {"crit.out_projs.N", "word_emb.emb_projs.N", .transposed = true},
    [CLUSTER_WEIGHT] = {"crit.cluster_weight"},
    [CLUSTER_BIAS] = {"crit.cluster_bias"},
    [INV_FREQ] = {"pos_emb.inv_freq"},
    [SHARED_U] = {"r_w_bias", .per_head = true},
    [SHARED_V] = {"r_r_bias", .per_head = true},
    [ATTENTION_QKV] = {"layers.N.dec_attn.qkv_net.weight"},
    [ATTENTION_O] = {"layers.N.dec_attn.o_net.weight"},
    [ATTENTION_R] = {"layers.N.dec_attn.r_net.weight"},
    [ATTENTION_R_EMB] = {"r_emb", .per_head = true},
    [ATTENTION_R_BIAS] = {"r_bias"},
    [ATTENTION_U] = {"layers.N.dec_attn.r_w_bias", .per_head = true},
    [ATTENTION_V] = {"layers.N.dec_attn.r_r_bias", .per_head = true},
    [ATTENTION_NORM_WEIGHT] = {"layers.N.dec_attn.layer_norm.weight"},
    [ATTENTION_NORM_BIAS] = {"layers.N.dec_attn.layer_norm.bias"},
    [FEED_FORWARD_1_WEIGHT] = {"layers.N.pos_ff.CoreNet.0.weight"},
    [FEED_FORWARD_1_BIAS] = {"layers.N.pos_ff.CoreNet.0.bias"},
    [FEED_FORWARD_2_WEIGHT] = {"layers.N.pos_ff.CoreNet.3.weight"},
    [FEED_FORWARD_2_BIAS] = {"layers.N.pos_ff.CoreNet.3.bias"},
    [FEED_FORWARD_NORM_WEIGHT] = {"layers.N.pos_ff.layer_norm.weight"},
    [FEED_FORWARD_NORM_BIAS] = {"layers.N.pos_ff.layer_norm.bias"},
};

static struct part_name numbered(const char *name, int number) {
    const char *at = strchr(name, 'N');
    return at ? part_name("%.*s%d%s", (int)(at - name), name, number, at + 1)
              : part_name("%s", name);
}

/* The name of the tensor that exists.  With div_val 1 one embedding projection serves all bands. */
static struct part_name origin_name(const struct recognised *r, const struct origin *from,
                                    const struct parameter_tensor *to) {
    struct part_name first = numbered(from->first, to->i);
    if (!from->second)
        return first;
    int second = to->number == SOFTMAX_PROJECTION && r->facts.div_val == 1 ? 0 : to->i;
    return recognise_either(r, first, numbered(from->second, second));
}

/* ---- Tensors as they are ------------------------------------------------------------------ */

static txl_status add_whole(struct conversion *c, const struct parameter_tensor *to,
                            struct part_name from, int n_dim, const uint64_t *shape,
                            txl_error *error) {
    struct piece piece = {.n = to->n_row * to->n_column};
    txl_status status = recognise_need(c->r, from, n_dim, shape, &piece.tensor, error);
    return status ? status : add(c, to, &piece, 1, NULL, error);
}

/* Adds item `to->i` of a tensor that has one for each layer: from[n_layer, shape...]. */
static txl_status add_item(struct conversion *c, const struct parameter_tensor *to,
                           struct part_name from, int n_dim, const uint64_t *shape,
                           txl_error *error) {
    uint64_t whole[CHECKPOINT_MAX_DIM] = {(uint64_t)c->r->facts.n_layer};
    memcpy(whole + 1, shape, (size_t)n_dim * sizeof *shape);
    struct piece piece = {.n = to->n_row * to->n_column};
    piece.first = (uint64_t)to->i * piece.n;
    txl_status status = recognise_need(c->r, from, n_dim + 1, whole, &piece.tensor, error);
    return status ? status : add(c, to, &piece, 1, NULL, error);
}

/* ---- Tensors that are put together -------------------------------------------------------- */

/* Adds the transpose of a tensor [n_column, n_row]. */
static txl_status add_transposed(struct conversion *c, const struct parameter_tensor *to,
                                 struct part_name from, txl_error *error) {
    const uint64_t n_row = to->n_column, n_col = to->n_row;
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
    return add(c, to, &piece, 1, out, error);
}

/* The vanilla attention types store queries separately from keys and values. */
static txl_status add_q_and_kv(struct conversion *c, const struct parameter_tensor *to,
                               txl_error *error) {
    const uint64_t width = to->n_row / 3, d_model = to->n_column;
    struct piece piece[] = {{.n = width * d_model}, {.n = 2 * width * d_model}};
    txl_status status = recognise_need(c->r, part_name("layers.%d.dec_attn.q_net.weight", to->i), 2,
                                       (uint64_t[]){width, d_model}, &piece[0].tensor, error);
    if (!status)
        status = recognise_need(c->r, part_name("layers.%d.dec_attn.kv_net.weight", to->i), 2,
                                (uint64_t[]){2 * width, d_model}, &piece[1].tensor, error);
    return status ? status : add(c, to, piece, 2, NULL, error);
}

/* The sinusoids' frequencies as PyTorch would compute them: 1 / 10000^(2 i / d_model) in f32.  A
 * checkpoint's own may be rounded to half precision. */
static txl_status add_frequencies(struct conversion *c, const struct parameter_tensor *to,
                                  txl_error *error) {
    float *elements = calloc(to->n_row, sizeof *elements);
    if (!elements)
        return txl_fail_memory(error, "the sinusoids", to->n_row * sizeof *elements);
    for (uint64_t i = 0; i < to->n_row; i++)
        elements[i] = 1 / powf(10000, (float)(2 * i) / (float)c->r->facts.d_model);
    return add(c, to, NULL, 0, elements, error);
}

/* ---- All of them -------------------------------------------------------------------------- */

static txl_status add_transformer_xl(struct conversion *c, const struct parameter_tensor *to,
                                     txl_error *error) {
    const struct transformer_xl_settings *f = &c->r->facts;
    const enum attention_type attn_type = f->attn_type;
    const struct origin *origin = &origins[to->number];
    struct part_name from = origin_name(c->r, origin, to);
    const uint64_t n_head = (uint64_t)f->n_head, d_head = (uint64_t)f->d_head;
    const uint64_t klen = (uint64_t)f->max_klen, heads[] = {n_head, d_head};
    if (to->number == INV_FREQ && !recognise_tensor(c->r, from))
        return add_frequencies(c, to, error);
    if (to->number == ATTENTION_QKV && !attention_is_relative(attn_type))
        return add_q_and_kv(c, to, error);
    if (to->number == ATTENTION_R_EMB)
        return add_item(c, to, from, 3, (uint64_t[]){klen, n_head, d_head}, error);
    if (to->number == ATTENTION_R_BIAS)
        return add_item(c, to, from, 2, (uint64_t[]){klen, n_head}, error);
    if (to->number == ATTENTION_U && attn_type == ATTENTION_LEARNED_DISTANCE)
        return add_item(c, to, part_name("r_w_bias"), 2, heads, error);
    if (origin->transposed)
        return add_transposed(c, to, from, error);
    if (origin->per_head)
        return add_whole(c, to, from, 2, heads, error);
    return add_whole(c, to, from, to->parameter->kind == PARAMETER_VECTOR ? 1 : 2,
                     (uint64_t[]){to->n_row, to->n_column}, error);
}

static txl_status add_xlnet(struct conversion *c, const struct parameter_tensor *to,
                            txl_error *error) {
    struct xlnet_pieces found;
    struct piece piece[XLNET_MAX_PIECE];
    txl_status status =
        xlnet_find(&c->subject->xlnet, (enum xlnet_parameter)to->number, to->i, &found, error);
    for (int i = 0; !status && i < found.n; i++)
        piece[i] = (struct piece){.tensor = &found.view[i], .n = found.view[i].n_element};
    if (!status)
        status = add(c, to, piece, found.n, NULL, error);
    if (status)
        return status;
    struct part *part = c->part[c->n - 1];
    for (int i = 0; i < found.n; i++) {
        part->view[i] = found.view[i];
        part->piece[i].tensor = &part->view[i];
    }
    return TXL_OK;
}

static txl_status list_tensors(struct conversion *c, txl_error *error) {
    const struct subject *s = c->subject;
    struct parameter_walk walk = parameter_walk(s->family->parameters, s->settings);
    struct parameter_tensor to;
    txl_status status = TXL_OK;
    while (!status && parameter_next(&walk, &to))
        status = s->family == &xlnet_family ? add_xlnet(c, &to, error)
                                            : add_transformer_xl(c, &to, error);
    return status;
}

/* ---- Types -------------------------------------------------------------------------------- */

/* The narrowest type that represents all matrices exactly. */
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

/* Matrices that cannot be q8 become f16, or f32 if they do not fit. */
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

/* Chooses the type: matrices get the one that was asked for, or the checkpoint's; vectors stay
 * f32. */
static txl_status choose_type(struct conversion *c, const char *asked, enum weights_type *type,
                              txl_error *error) {
    int number = asked ? weights_type_of_name(asked) : (int)source_type(c);
    if (number < 0)
        return txl_fail(error, TXL_ARGUMENT,
                        "unknown type \"%s\"; txl writes f32, f16, bf16 and q8", asked);
    *type = (enum weights_type)number;
    txl_status status = TXL_OK;
    for (size_t i = 0; i < c->n && !status; i++) {
        struct weights_source *s = &c->source[i];
        bool narrow = s->shape[1] < Q8_BLOCK || c->part[i]->kind == PARAMETER_POSITIONS;
        if (s->n_dim == 2 && *type == WEIGHTS_Q8 && narrow)
            status = choose_half(s, error);
        else if (s->n_dim == 2)
            s->type = *type;
    }
    return status;
}

/* ---- Vocabulary and settings -------------------------------------------------------------- */

static txl_status choose_kind(const char *asked, txl_kind guessed, txl_kind *kind,
                              txl_error *error) {
    *kind = guessed;
    if (!asked || text_kind_find(asked, kind))
        return TXL_OK;
    return txl_fail(error, TXL_ARGUMENT, "unknown tokenizer \"%s\"", asked);
}

/* Packs the symbols as a section of the weights file, and sets what they say about the text. */
static txl_status pack_vocabulary(const struct vocabulary_file *file, const char *tokenizer,
                                  struct model_settings *text, void **section, size_t *size,
                                  txl_error *error) {
    struct vocabulary_entry *entry = calloc(file->n_symbol, sizeof *entry);
    if (!entry)
        return txl_fail_memory(error, "the vocabulary", file->n_symbol * sizeof *entry);
    for (size_t i = 0; i < file->n_symbol; i++)
        entry[i] = (struct vocabulary_entry){file->symbols[i].bytes, file->symbols[i].length};
    txl_kind guessed =
        vocabulary_guess_kind(entry, file->n_symbol, file->delimiter == VOCABULARY_CHARACTERS);
    txl_status status = choose_kind(tokenizer, guessed, &text->tokenizer, error);
    if (!status && txl_kind_unit(text->tokenizer) == TXL_UNIT_PIECE)
        status = txl_fail(error, TXL_ARGUMENT, "%s: the %s tokenizer takes a SentencePiece model",
                          file->path, tokenizer);
    if (!status) {
        text->lower_case = file->lower_case == VOCABULARY_LOWER_CASE;
        text->unk_id = file->unk >= 0 ? file->unk : vocabulary_guess_unk(entry, file->n_symbol);
        text->eos_id = vocabulary_guess_eos(entry, file->n_symbol, text->tokenizer);
        status = vocabulary_pack(entry, file->n_symbol, section, size, error);
    }
    free(entry);
    return status;
}

/* The same of a SentencePiece model. */
static txl_status pack_pieces(const struct vocabulary_file *file, const char *tokenizer,
                              txl_kind usual, struct model_settings *text, void **section,
                              size_t *size, size_t *n, txl_error *error) {
    struct packed_pieces packed;
    txl_status status = choose_kind(tokenizer, usual, &text->tokenizer, error);
    const txl_kind kind = text->tokenizer;
    if (!status && txl_kind_unit(kind) != TXL_UNIT_PIECE)
        status = txl_fail(error, TXL_ARGUMENT, "%s: the %s tokenizer does not cut text into pieces",
                          file->path, tokenizer);
    if (!status)
        status =
            sentencepiece_pack(file->model, file->model_size, kind, file->path, &packed, error);
    if (status)
        return status;
    text->lower_case = false;
    text->unk_id = packed.unk;
    text->eos_id = packed.eos;
    *section = packed.section;
    *size = packed.size;
    *n = (size_t)packed.n;
    return TXL_OK;
}

static txl_status read_vocabulary(const struct subject *s, const char *path, const char *tokenizer,
                                  struct model_settings *text, void **section, size_t *size,
                                  txl_error *error) {
    struct vocabulary_file file = {0};
    int n_token = text->n_token;
    txl_status status = vocabulary_file_read(path, &file, error);
    size_t n = file.n_symbol;
    const txl_kind usual = s->family == &xlnet_family ? TXL_XLNET : TXL_PIECES;
    if (!status && file.model)
        status = pack_pieces(&file, tokenizer, usual, text, section, size, &n, error);
    if (!status && n != (size_t)n_token)
        status = txl_fail(error, TXL_FORMAT,
                          "%s: %zu symbols, but the model in %s has %d: this is not its vocabulary",
                          file.path, n, checkpoint_path(s->checkpoint), n_token);
    if (!status && !file.model)
        status = pack_vocabulary(&file, tokenizer, text, section, size, error);
    vocabulary_file_free(&file);
    return status;
}

/* ---- The public functions ----------------------------------------------------------------- */

void convert_options_init(struct convert_options *options) {
    *options = (struct convert_options){.level = -1,
                                        .pre_lnorm = CONVERT_UNSET,
                                        .same_length = CONVERT_UNSET,
                                        .tgt_len = -1,
                                        .mem_len = -1};
}

/* Refuses to overwrite an input: the checkpoint, or a file beside it that is read. */
static txl_status refuse_input(const struct subject *s, const char *vocabulary, const char *output,
                               txl_error *error) {
    if (checkpoint_reads(s->checkpoint, output) || mapped_file_same(vocabulary, output) ||
        (s->config_path && mapped_file_same(s->config_path, output)))
        return txl_fail(error, TXL_ARGUMENT, "%s: is read, and cannot be the output too", output);
    return TXL_OK;
}

/* Writes the file from recognised facts and a vocabulary. */
static txl_status write_file(struct conversion *c, struct model_settings *facts, const char *output,
                             const char *vocabulary, const struct convert_options *options,
                             txl_error *error) {
    enum weights_type type = WEIGHTS_F32;
    char *settings = NULL;
    void *section = NULL;
    size_t section_size = 0;
    txl_status status = read_vocabulary(c->subject, vocabulary, options->tokenizer, facts, &section,
                                        &section_size, error);
    if (!status)
        status = list_tensors(c, error);
    if (!status)
        status = choose_type(c, options->type, &type, error);
    if (!status) {
        facts->type = (int)type;
        settings = family_settings_text(c->subject->family, facts);
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
    struct subject s;
    char *found = NULL;
    txl_status status = open_subject(source, options, &s, error);
    if (!status && s.family == &transformer_xl_family)
        status = recognise_complete(&s.transformer_xl, error);
    struct conversion c = {.subject = &s,
                           .r = &s.transformer_xl,
                           .path = status ? source : checkpoint_path(s.checkpoint)};
    if (!status && !options->vocabulary)
        status = vocabulary_file_find(c.path, &found, error);
    const char *vocabulary = options->vocabulary ? options->vocabulary : found;
    if (!status)
        status = refuse_input(&s, vocabulary, output, error);
    if (!status)
        status = write_file(&c, s.settings, output, vocabulary, options, error);
    free_conversion(&c);
    free(found);
    close_subject(&s);
    return status;
}

/* Sets what the vocabulary says about the text; `*known` is false without one, or with one that the
 * conversion would refuse.  Fails only when memory is short. */
static txl_status guess_text(const struct subject *s, const char *path, struct model_settings *text,
                             bool *known, txl_error *error) {
    void *section = NULL;
    size_t size;
    txl_status status =
        path ? read_vocabulary(s, path, NULL, text, &section, &size, error) : TXL_FORMAT;
    free(section);
    *known = status == TXL_OK;
    return status == TXL_MEMORY ? status : TXL_OK;
}

/* Sets the settings that options would have to state to null: "--n-head N" the key n_head. */
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
static char *describe_settings(struct subject *s, bool has_text) {
    static const char *const of_text[] = {"tokenizer", "lower_case", "unk_id", "eos_id"};
    struct transformer_xl_settings *facts = &s->transformer_xl.facts;
    facts->memory_start = facts->memory_start < 0 ? 0 : facts->memory_start;
    facts->cluster_order = facts->cluster_order < 0 ? 0 : facts->cluster_order;
    char *json = family_settings_text(s->family, s->settings);
    json_t *settings = json ? json_loads(json, 0, NULL) : NULL;
    free(json);
    bool good =
        settings && json_object_del(settings, "type") == 0 && forget_missing(settings, s->missing);
    for (size_t i = 0; good && !has_text && i < sizeof of_text / sizeof *of_text; i++)
        good = json_object_set_new(settings, of_text[i], json_null()) == 0;
    json = good ? json_text(settings, JSON_COMPACT) : NULL;
    json_decref(settings);
    return json;
}

static txl_status describe(struct subject *s, struct convert_description *d, txl_error *error) {
    bool has_text;
    txl_status status = vocabulary_file_find(checkpoint_path(s->checkpoint), &d->vocabulary, error);
    if (status == TXL_MEMORY)
        return status;
    if (status)
        d->vocabulary = NULL;
    status = guess_text(s, d->vocabulary, s->settings, &has_text, error);
    if (status)
        return status;
    d->settings = describe_settings(s, has_text);
    snprintf(d->missing, sizeof d->missing, "%s%s", s->missing,
             d->vocabulary ? "" : " --vocab FILE");
    return d->settings ? TXL_OK : txl_fail_memory(error, "the settings", 4096);
}

txl_status convert_describe(const char *source, struct convert_description *d, txl_error *error) {
    struct convert_options options;
    struct subject s;
    *d = (struct convert_description){0};
    convert_options_init(&options);
    txl_status status = open_subject(source, &options, &s, error);
    if (!status)
        status = describe(&s, d, error);
    close_subject(&s);
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

txl_status convert_vocabulary_read(const char *path, struct convert_vocabulary *vocabulary,
                                   txl_error *error) {
    struct vocabulary_file file = {0};
    struct model_settings text = {.tokenizer = TXL_PIECES};
    struct packed_pieces packed;
    *vocabulary = (struct convert_vocabulary){0};
    txl_status status = vocabulary_file_read(path, &file, error);
    vocabulary->n = (int32_t)file.n_symbol;
    if (!status && file.model) {
        status = sentencepiece_pack(file.model, file.model_size, TXL_PIECES, path, &packed, error);
        if (!status) {
            text.unk_id = packed.unk;
            text.eos_id = packed.eos;
            vocabulary->n = packed.n;
            vocabulary->section = packed.section;
            vocabulary->size = packed.size;
        }
    } else if (!status) {
        status =
            pack_vocabulary(&file, NULL, &text, &vocabulary->section, &vocabulary->size, error);
    }
    vocabulary_file_free(&file);
    if (status)
        return status;
    vocabulary->tokenizer = txl_kind_name(text.tokenizer);
    vocabulary->lower_case = text.lower_case;
    vocabulary->unk = text.unk_id;
    vocabulary->eos = text.eos_id;
    return TXL_OK;
}
