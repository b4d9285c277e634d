/* Converts: facts become settings, and the tensors of the mapped checkpoint are streamed into those
 * of weights-format.md. */
#include "converter.h"
#include "lib/base/error.h"
#include "lib/base/files.h"
#include "lib/base/json_memory.h"
#include "lib/base/numbers.h"
#include "lib/base/output_file.h"
#include "lib/weights/weights.h"
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

/* Where the elements of one written tensor come from: from pieces, one after the other, or they are
 * computed. */
struct part {
    const struct checkpoint *checkpoint;
    enum origin_flags computed;      /* FREQUENCIES, ZEROS or 0 */
    struct checkpoint_tensor *piece; /* owned */
    int n_piece;
    const struct parameter *parameter;
    uint64_t n_row;
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

/* The sinusoids' frequencies as published code computes them: 1 / 10000^(2 i / d_model) in f32.  A
 * checkpoint's own may be rounded to half precision. */
static void compute(const struct part *part, uint64_t first, size_t count, float *out) {
    for (uint64_t i = 0; i < count; i++)
        out[i] = part->computed & ZEROS
                     ? 0
                     : 1 / powf(10000, (float)(2 * (first + i)) / (float)(2 * part->n_row));
}

static txl_status read_part(void *context, uint64_t first, size_t count, float *out,
                            txl_error *error) {
    const struct part *part = context;
    uint64_t begin = 0;
    if (part->computed)
        compute(part, first, count, out);
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
            /* Pages of a piece that is not contiguous hold elements still to be read. */
            if (n == left || checkpoint_is_contiguous(piece))
                checkpoint_release(piece);
        }
        begin += piece->n_element;
    }
    return TXL_OK;
}

struct conversion {
    struct recognised recognised;
    struct weights_source *source;
    struct part *part; /* what each source reads from */
    size_t n;
};

static void end_conversion(struct conversion *c) {
    for (size_t i = 0; i < c->n; i++)
        free(c->part[i].piece);
    free(c->source);
    free(c->part);
    recognised_free(&c->recognised);
}

/* Fills in the next source and its part.  A matrix gets its type later. */
static txl_status add_parameter(struct conversion *c, const struct parameter_tensor *to,
                                txl_error *error) {
    const struct names *names = &c->recognised.names;
    struct part *part = &c->part[c->n];
    struct weights_source *s = &c->source[c->n++];
    *part = (struct part){.checkpoint = names->checkpoint,
                          .computed = names_computed(names, to->number, to->i),
                          .parameter = to->parameter,
                          .n_row = to->n_row};
    *s = (struct weights_source){.type = WEIGHTS_F32,
                                 .n_dim = to->parameter->kind == PARAMETER_VECTOR ? 1 : 2,
                                 .shape = {to->n_row, to->n_column},
                                 .read = read_part,
                                 .context = part};
    strcpy(s->name, to->name);
    return part->computed ? TXL_OK
                          : names_pieces(names, &c->recognised.settings, to, &part->piece,
                                         &part->n_piece, error);
}

static txl_status list_tensors(struct conversion *c, txl_error *error) {
    const struct parameter_table *table = c->recognised.names.table->family->parameters;
    struct parameter_walk walk = parameter_walk(table, &c->recognised.settings);
    struct parameter_tensor to;
    size_t n = 0;
    while (parameter_next(&walk, &to))
        n++;
    c->source = calloc(n, sizeof *c->source);
    c->part = calloc(n, sizeof *c->part);
    if (!c->source || !c->part)
        return txl_fail_memory(error, "the list of tensors", n * sizeof *c->source);
    txl_status status = TXL_OK;
    walk = parameter_walk(table, &c->recognised.settings);
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

/* Matrices get the type that was asked for, or the checkpoint's; vectors stay f32. */
static txl_status choose_type(struct conversion *c, const char *asked, txl_error *error) {
    struct weights_types types = {source_type(c), source_type(c)};
    txl_status status = asked ? weights_types_read(asked, &types, error) : TXL_OK;
    c->recognised.settings.model.type = (int)types.matrices;
    for (size_t i = 0; i < c->n && !status; i++) {
        struct weights_source *s = &c->source[i];
        s->type = parameter_type(c->part[i].parameter, s->shape[1], types);
        if (s->type == WEIGHTS_F16 && !weights_is_float(types.matrices))
            status = choose_half(s, error);
    }
    return status;
}

/* ---- The weights file --------------------------------------------------------------------- */

/* Refuses to overwrite an input: the checkpoint, or a file beside it that is read. */
static txl_status refuse_input(const struct recognised *r, const char *vocabulary,
                               const char *output, txl_error *error) {
    if (checkpoint_reads(r->names.checkpoint, output) || mapped_file_same(vocabulary, output) ||
        (r->config_path && mapped_file_same(r->config_path, output)))
        return txl_fail(error, TXL_ARGUMENT, "%s: is read, and cannot be the output too", output);
    return TXL_OK;
}

static txl_status write_file(const struct conversion *c, struct output_file *out,
                             const struct convert_vocabulary *vocabulary,
                             const struct convert_options *options, txl_error *error) {
    const struct family *family = c->recognised.names.table->family;
    char *settings = family_settings_text(family, &c->recognised.settings);
    if (!settings)
        return txl_fail_memory(error, "the settings", 4096);
    struct weights_contents contents = {.settings = settings,
                                        .vocabulary = vocabulary->section,
                                        .vocabulary_size = vocabulary->size,
                                        .source = c->source,
                                        .n_source = c->n,
                                        .level =
                                            options->level < 0 ? DEFAULT_LEVEL : options->level,
                                        .threads = options->threads,
                                        .progress = options->progress,
                                        .progress_context = options->progress_context};
    txl_status status = weights_write_into(out, &contents, error);
    free(settings);
    return status;
}

/* The library that such tokens come from takes the blanks around them away. */
static void note_added(const char *path, size_t n, const struct convert_options *options) {
    char text[512];
    snprintf(
        text, sizeof text,
        "%.300s: %zu symbol%s added to its own, found whole in a text; unlike in Hugging Face's "
        "tokenizer the spaces around them stay",
        path, n, n == 1 ? "" : "s");
    if (options->note)
        options->note(options->note_context, text);
}

txl_status convert_into(const char *source, struct output_file *out,
                        const struct convert_options *options, txl_error *error) {
    const char *name = options->name ? options->name : "", *path = options->vocabulary;
    struct conversion c = {.n = 0};
    struct recognised *r = &c.recognised;
    struct convert_vocabulary vocabulary = {.section = NULL};
    char *found = NULL;
    if (options->name && !setting_is_name(options->name))
        return txl_fail(error, TXL_ARGUMENT, "a model's name is " SETTING_NAME_RULE);
    txl_status status = recognise(source, options, r, error);
    if (!status)
        status = recognise_complete(r, error);
    if (!status && !path)
        status = recognise_find_vocabulary(r, &found, error);
    path = path ? path : found;
    if (!status)
        status = refuse_input(r, path, out->path, error);
    if (!status)
        status = recognise_vocabulary(r, path, options->tokenizer, &vocabulary, error);
    if (!status && vocabulary.n_added > 0)
        note_added(path, vocabulary.n_added, options);
    if (!status)
        status = list_tensors(&c, error);
    if (!status)
        status = choose_type(&c, options->type, error);
    snprintf(r->settings.model.name, sizeof r->settings.model.name, "%s", name);
    r->settings.model.dynamic_lr = options->dynamic_lr;
    if (!status)
        status = write_file(&c, out, &vocabulary, options, error);
    free(found);
    free(vocabulary.section);
    end_conversion(&c);
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

txl_status convert_restate(const void *file, size_t size, const char *name, double dynamic_lr,
                           void **copy, size_t *copy_size, txl_error *error) {
    struct weights *weights;
    txl_status status = weights_open_memory(file, size, name, &weights, error);
    if (status)
        return status;
    json_t *settings = json_loads(weights->settings, 0, NULL);
    char *text = json_object_set_new(settings, "dynamic_lr", json_real(dynamic_lr)) == 0
                     ? json_text(settings, JSON_INDENT(1))
                     : NULL;
    status = text ? weights_restate(weights, text, copy, copy_size, error)
                  : txl_fail_memory(error, "the settings", strlen(weights->settings));
    free(text);
    json_decref(settings);
    weights_close(weights);
    return status;
}

/* ---- Moments ------------------------------------------------------------------------------ */

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
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !status; i++) {
        json_t *a = json_object_get(own, keys[i]), *b = json_object_get(wanted, keys[i]);
        if ((a || b) && !json_equal(a, b))
            status = txl_fail(error, TXL_ARGUMENT,
                              "%s: is another model's: its %s is not that of the model",
                              checkpoint_path(r->names.checkpoint), keys[i]);
    }
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
    struct conversion c = {.n = 0};
    convert_options_init(&options);
    txl_status status = recognise(source, &options, &c.recognised, error);
    if (!status && !checkpoint_is_bundle(c.recognised.names.checkpoint))
        status = txl_fail(
            error, TXL_ARGUMENT,
            "%s: not a TensorFlow checkpoint; only these have moments beside their weights",
            source);
    if (!status)
        status = check_shape(&c.recognised, settings, error);
    c.recognised.names.slot = "/Adam_1";
    if (!status)
        status = list_tensors(&c, error);
    for (size_t i = 0; i < c.n && !status; i++)
        if (c.part[i].n_piece > 0) /* only learned tensors have moments */
            status = take_source(&c.source[i], take, context, error);
    end_conversion(&c);
    return status;
}

/* ---- Listing ------------------------------------------------------------------------------ */

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
