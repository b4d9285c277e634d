/* The conversion: facts become settings, and the mapped checkpoint's tensors are streamed into
 * those of weights-format.md. */
#include "convert.h"
#include "lib/base/error.h"
#include "lib/base/half.h"
#include "lib/base/json_memory.h"
#include "lib/base/mapped_file.h"
#include "lib/base/output_file.h"
#include "lib/base/q8.h"
#include "lib/text/kind.h"
#include "lib/text/sentencepiece.h"
#include "lib/text/vocabulary.h"
#include "lib/weights/weights.h"
#include "published.h"
#include "recognise.h"
#include "vocabulary_file.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEFAULT_LEVEL = 1 };

/* ---- Where a tensor's elements come from -------------------------------------------------- */

/* Where the elements of one written tensor come from: pieces, one after the other, or `elements`.
 */
struct part {
    const struct checkpoint *checkpoint;
    struct checkpoint_tensor *piece; /* owned */
    int n_piece;
    float *elements; /* computed beforehand, or NULL; owned */
    enum parameter_kind kind;
};

/* The number of the view's element k in the checkpoint's own, contiguous tensor. */
static uint64_t element_number(const struct checkpoint *checkpoint,
                               const struct checkpoint_tensor *view, uint64_t k) {
    const struct checkpoint_tensor *whole = checkpoint_find(checkpoint, view->name);
    if (checkpoint_same_view(view, whole))
        return k;
    uint64_t number = (view->offset - whole->offset) / checkpoint_dtype_size(view->dtype);
    for (int d = view->n_dim; d-- > 0; k /= view->shape[d])
        number += k % view->shape[d] * view->stride[d];
    return number;
}

static txl_status read_elements(const struct checkpoint *checkpoint,
                                const struct checkpoint_tensor *t, uint64_t first, uint64_t count,
                                float *out, txl_error *error) {
    txl_status status = checkpoint_read_float(t, first, count, out, error);
    for (uint64_t i = 0; !status && i < count; i++) {
        if (!isfinite(out[i]))
            status = txl_fail(error, TXL_FORMAT,
                              "%s: tensor %s: element %" PRIu64 " is %g; weights must be finite",
                              checkpoint_path(checkpoint), t->name,
                              element_number(checkpoint, t, first + i), (double)out[i]);
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
        const struct checkpoint_tensor *piece = &part->piece[i];
        if (count > 0 && first >= begin && first < begin + piece->n_element) {
            uint64_t left = begin + piece->n_element - first, n = count < left ? count : left;
            txl_status status =
                read_elements(part->checkpoint, piece, first - begin, n, out, error);
            if (status)
                return status;
            first += n;
            out += n;
            count -= (size_t)n;
            /* Contiguous elements are not needed again; others would have to be mapped again. */
            if (n == left || checkpoint_is_contiguous(piece))
                checkpoint_release(piece);
        }
        begin += piece->n_element;
    }
    return TXL_OK;
}

struct conversion {
    const struct recognised *r;
    const struct family *family;
    struct weights_source *source;
    struct part *part; /* what each source reads from */
    size_t n;
};

static void free_conversion(struct conversion *c) {
    for (size_t i = 0; i < c->n; i++) {
        free(c->part[i].piece);
        free(c->part[i].elements);
    }
    free(c->source);
    free(c->part);
}

/* The sinusoids' frequencies as published code computes them: 1 / 10000^(2 i / d_model) in f32.  A
 * checkpoint's own may be rounded to half precision. */
static void compute_frequencies(uint64_t n, float *elements) {
    for (uint64_t i = 0; i < n; i++)
        elements[i] = 1 / powf(10000, (float)(2 * i) / (float)(2 * n));
}

/* Fills in the next source and its part.  A matrix gets its type later. */
static txl_status add_parameter(struct conversion *c, const struct parameter_tensor *to,
                                txl_error *error) {
    const struct names *names = &c->r->names;
    struct part *part = &c->part[c->n];
    struct weights_source *s = &c->source[c->n++];
    *part = (struct part){.checkpoint = names->checkpoint, .kind = to->parameter->kind};
    *s = (struct weights_source){.type = WEIGHTS_F32,
                                 .n_dim = part->kind == PARAMETER_VECTOR ? 1 : 2,
                                 .shape = {to->n_row, to->n_column},
                                 .read = read_part,
                                 .context = part};
    strcpy(s->name, to->name);
    const enum origin_flags computed = names_computed(names, to->number, to->i);
    if (computed) {
        part->elements = calloc(to->n_row, sizeof *part->elements);
        if (!part->elements)
            return txl_fail_memory(error, "a tensor", to->n_row * sizeof *part->elements);
        if (computed & FREQUENCIES)
            compute_frequencies(to->n_row, part->elements);
        return TXL_OK;
    }
    return names_pieces(names, &c->r->settings, to, &part->piece, &part->n_piece, error);
}

static txl_status list_tensors(struct conversion *c, txl_error *error) {
    struct parameter_walk walk = parameter_walk(c->family->parameters, &c->r->settings);
    struct parameter_tensor to;
    size_t n = 0;
    while (parameter_next(&walk, &to))
        n++;
    c->source = calloc(n, sizeof *c->source);
    c->part = calloc(n, sizeof *c->part);
    if (!c->source || !c->part)
        return txl_fail_memory(error, "the list of tensors", n * sizeof *c->source);
    txl_status status = TXL_OK;
    walk = parameter_walk(c->family->parameters, &c->r->settings);
    while (!status && parameter_next(&walk, &to))
        status = add_parameter(c, &to, error);
    return status;
}

/* ---- Types -------------------------------------------------------------------------------- */

/* The narrowest type that represents all matrices exactly. */
static enum weights_type source_type(const struct conversion *c) {
    bool f16 = true, bf16 = true;
    for (size_t i = 0; i < c->n; i++) {
        for (int k = 0; k < c->part[i].n_piece && c->source[i].n_dim == 2; k++) {
            f16 = f16 && c->part[i].piece[k].dtype == CHECKPOINT_F16;
            bf16 = bf16 && c->part[i].piece[k].dtype == CHECKPOINT_BF16;
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
        bool narrow = s->shape[1] < Q8_BLOCK || c->part[i].kind == PARAMETER_POSITIONS;
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

static txl_status ask_for_kind(const char *path, const char *dataset, txl_error *error) {
    if (dataset)
        return txl_fail(error, TXL_ARGUMENT,
                        "%s: a vocabulary of the dataset \"%s\", of which the kind of text is not "
                        "known; add --tokenizer",
                        path, dataset);
    return txl_fail(error, TXL_ARGUMENT,
                    "%s: the kind of its text follows from the dataset, which neither it nor a "
                    "corpus-info.json names; add --tokenizer",
                    path);
}

/* Packs the vocabulary, and sets in r->settings what it says about the text. */
static txl_status read_vocabulary(struct recognised *r, const char *path, const char *tokenizer,
                                  void **section, size_t *size, txl_error *error) {
    struct model_settings *text = &r->settings.model;
    struct vocabulary_file file = {0};
    int n_token = text->n_token;
    txl_status status = vocabulary_file_read(path, &file, error);
    size_t n = file.n_symbol;
    if (!tokenizer && r->by_dataset && !file.model) {
        const char *dataset = r->dataset[0] ? r->dataset : file.dataset;
        tokenizer = published_tokenizer(dataset);
        if (!status && !tokenizer)
            status = ask_for_kind(path, dataset, error);
    }
    if (!status && file.model)
        status = pack_pieces(&file, tokenizer, r->pieces, text, section, size, &n, error);
    if (!status && n != (size_t)n_token)
        status = txl_fail(error, TXL_FORMAT,
                          "%s: %zu symbols, but the model in %s has %d: this is not its vocabulary",
                          file.path, n, checkpoint_path(r->names.checkpoint), n_token);
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
                                        .layer_norm_eps = -1,
                                        .tgt_len = -1,
                                        .mem_len = -1};
}

/* A checkpoint that is open, and what was found in it. */
struct subject {
    struct checkpoint *checkpoint;
    struct recognised recognised;
};

static txl_status open_subject(const char *source, const struct convert_options *options,
                               struct subject *s, txl_error *error) {
    *s = (struct subject){.checkpoint = NULL};
    txl_status status = checkpoint_open(source, &s->checkpoint, error);
    return status ? status : recognise(s->checkpoint, options, &s->recognised, error);
}

static void close_subject(struct subject *s) {
    checkpoint_close(s->checkpoint);
    recognised_free(&s->recognised);
}

/* Refuses to overwrite an input: the checkpoint, or a file beside it that is read. */
static txl_status refuse_input(const struct subject *s, const char *vocabulary, const char *output,
                               txl_error *error) {
    const char *config = s->recognised.config_path;
    if (checkpoint_reads(s->checkpoint, output) || mapped_file_same(vocabulary, output) ||
        (config && mapped_file_same(config, output)))
        return txl_fail(error, TXL_ARGUMENT, "%s: is read, and cannot be the output too", output);
    return TXL_OK;
}

/* Writes the file from recognised facts and a vocabulary. */
static txl_status write_file(struct recognised *r, struct output_file *out, const char *vocabulary,
                             const struct convert_options *options, txl_error *error) {
    struct conversion c = {.r = r, .family = r->names.table->family};
    enum weights_type type = WEIGHTS_F32;
    char *settings = NULL;
    void *section = NULL;
    size_t section_size = 0;
    txl_status status =
        read_vocabulary(r, vocabulary, options->tokenizer, &section, &section_size, error);
    if (!status)
        status = list_tensors(&c, error);
    if (!status)
        status = choose_type(&c, options->type, &type, error);
    if (!status) {
        snprintf(r->settings.model.name, sizeof r->settings.model.name, "%s",
                 options->name ? options->name : "");
        r->settings.model.type = (int)type;
        settings = family_settings_text(c.family, &r->settings);
        if (!settings)
            status = txl_fail_memory(error, "the settings", 4096);
    }
    if (!status) {
        struct weights_contents contents = {
            .settings = settings,
            .major = settings_major(c.family->settings, &r->settings),
            .vocabulary = section,
            .vocabulary_size = section_size,
            .source = c.source,
            .n_source = c.n,
            .level = options->level < 0 ? DEFAULT_LEVEL : options->level,
            .threads = options->threads,
            .progress = options->progress,
            .progress_context = options->progress_context};
        status = weights_write_into(out, &contents, error);
    }
    free(settings);
    free(section);
    free_conversion(&c);
    return status;
}

txl_status convert_into(const char *source, struct output_file *out,
                        const struct convert_options *options, txl_error *error) {
    struct subject s;
    char *found = NULL;
    if (options->name && !setting_is_name(options->name))
        return txl_fail(error, TXL_ARGUMENT, "a model's name is " SETTING_NAME_RULE);
    txl_status status = open_subject(source, options, &s, error);
    if (!status)
        status = recognise_complete(&s.recognised, error);
    if (!status && !options->vocabulary)
        status = vocabulary_file_find(checkpoint_path(s.checkpoint), &found, error);
    const char *vocabulary = options->vocabulary ? options->vocabulary : found;
    if (!status)
        status = refuse_input(&s, vocabulary, out->path, error);
    if (!status)
        status = write_file(&s.recognised, out, vocabulary, options, error);
    free(found);
    close_subject(&s);
    return status;
}

txl_status convert_checkpoint(const char *source, const char *output,
                              const struct convert_options *options, txl_error *error) {
    struct output_file out;
    txl_status status = output_file_open(&out, output, error);
    if (!status)
        status = convert_into(source, &out, options, error);
    if (!status)
        status = output_file_commit(&out, error);
    output_file_close(&out);
    return status;
}

/* Whether both have the value, or neither has it. */
static bool same_value(const json_t *a, const json_t *b) {
    return (!a && !b) || json_equal(a, b);
}

/* Refuses a checkpoint that is not of the shape that the settings say. */
static txl_status check_shape(const struct recognised *r, const char *settings, txl_error *error) {
    static const char *const keys[] = {
        "family",       "n_token",          "n_layer",          "n_head",
        "d_head",       "d_model",          "d_embed",          "d_inner",
        "attn_type",    "pre_lnorm",        "div_val",          "cutoffs",
        "tied_weights", "tied_projections", "biases_per_layer", "proj_same_dim"};
    char *text = family_settings_text(r->names.table->family, &r->settings);
    json_t *own = text ? json_loads(text, 0, NULL) : NULL, *wanted = json_loads(settings, 0, NULL);
    txl_status status = own && wanted ? TXL_OK : txl_fail_memory(error, "the settings", 4096);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !status; i++)
        if (!same_value(json_object_get(own, keys[i]), json_object_get(wanted, keys[i])))
            status = txl_fail(error, TXL_ARGUMENT,
                              "%s: is another model's: its %s is not that of the model",
                              checkpoint_path(r->names.checkpoint), keys[i]);
    free(text);
    json_decref(own);
    json_decref(wanted);
    return status;
}

static txl_status take_source(const struct weights_source *s, convert_take *take, void *context,
                              txl_error *error) {
    enum { TAKEN = 1 << 14 };
    const uint64_t n = s->shape[0] * (s->n_dim == 2 ? s->shape[1] : 1);
    float *x = malloc(TAKEN * sizeof *x);
    txl_status status = x ? TXL_OK : txl_fail_memory(error, "moments", TAKEN * sizeof *x);
    for (uint64_t first = 0; first < n && !status; first += TAKEN) {
        size_t count = n - first < TAKEN ? (size_t)(n - first) : TAKEN;
        status = s->read(s->context, first, count, x, error);
        if (!status)
            status = take(context, s->name, first, x, count, error);
    }
    free(x);
    return status;
}

txl_status convert_read_moments(const char *source, const char *settings, convert_take *take,
                                void *context, txl_error *error) {
    struct convert_options options;
    struct subject s;
    convert_options_init(&options);
    txl_status status = open_subject(source, &options, &s, error);
    struct conversion c = {.r = &s.recognised, .family = NULL};
    if (!status && !checkpoint_is_bundle(s.checkpoint))
        status = txl_fail(
            error, TXL_ARGUMENT,
            "%s: no TensorFlow checkpoint, which alone has moments beside its weights", source);
    if (!status)
        status = check_shape(&s.recognised, settings, error);
    if (!status) {
        c.family = s.recognised.names.table->family;
        s.recognised.names.slot = "/Adam_1";
        status = list_tensors(&c, error);
    }
    for (size_t i = 0; i < c.n && !status; i++)
        if (!c.part[i].elements) /* computed: nothing has moments that is not learned */
            status = take_source(&c.source[i], take, context, error);
    free_conversion(&c);
    close_subject(&s);
    return status;
}

/* Sets what the vocabulary says about the text; `*known` is false without one, or with one that the
 * conversion would refuse, and `*asks` if it would do so for want of --tokenizer.  Fails only when
 * memory is short. */
static txl_status guess_text(struct recognised *r, const char *path, bool *known, bool *asks,
                             txl_error *error) {
    void *section = NULL;
    size_t size;
    txl_status status = path ? read_vocabulary(r, path, NULL, &section, &size, error) : TXL_FORMAT;
    free(section);
    *known = !status;
    *asks = status == TXL_ARGUMENT;
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

/* Adds the settings that a file states only where they are not the usual ones. */
static bool add_usual(json_t *settings, const struct transformer_xl_settings *s) {
    return (json_object_get(settings, "same_length_reach") ||
            json_object_set_new(
                settings, "same_length_reach",
                json_string(same_length_reach_name((uint32_t)s->same_length_reach))) == 0) &&
           (json_object_get(settings, "layer_norm_eps") ||
            json_object_set_new(settings, "layer_norm_eps", json_real(s->layer_norm_eps)) == 0);
}

/* The settings as far as they are known; NULL when memory is short. */
static char *describe_settings(struct recognised *r, bool has_text) {
    static const char *const of_text[] = {"tokenizer", "lower_case", "unk_id", "eos_id"};
    char *json = family_settings_text(r->names.table->family, &r->settings);
    json_t *settings = json ? json_loads(json, 0, NULL) : NULL;
    free(json);
    bool good =
        settings && json_object_del(settings, "type") == 0 && forget_missing(settings, r->missing);
    if (good && r->names.table == &transformer_xl_names)
        good = add_usual(settings, &r->settings.transformer_xl);
    for (size_t i = 0; good && !has_text && i < sizeof of_text / sizeof *of_text; i++)
        good = json_object_set_new(settings, of_text[i], json_null()) == 0;
    json = good ? json_text(settings, JSON_COMPACT) : NULL;
    json_decref(settings);
    return json;
}

static txl_status describe(struct recognised *r, struct convert_description *d, txl_error *error) {
    bool has_text, asks;
    txl_status status =
        vocabulary_file_find(checkpoint_path(r->names.checkpoint), &d->vocabulary, error);
    if (status == TXL_MEMORY)
        return status;
    if (status)
        d->vocabulary = NULL;
    status = guess_text(r, d->vocabulary, &has_text, &asks, error);
    if (status)
        return status;
    d->settings = describe_settings(r, has_text);
    snprintf(d->missing, sizeof d->missing, "%s%s%s", r->missing,
             d->vocabulary ? "" : " --vocab FILE", asks ? " --tokenizer KIND" : "");
    return d->settings ? TXL_OK : txl_fail_memory(error, "the settings", 4096);
}

txl_status convert_describe(const char *source, struct convert_description *d, txl_error *error) {
    struct convert_options options;
    struct subject s;
    *d = (struct convert_description){0};
    convert_options_init(&options);
    txl_status status = open_subject(source, &options, &s, error);
    if (!status)
        status = describe(&s.recognised, d, error);
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
