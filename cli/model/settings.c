/* The settings of a run and of its result.  A row of the table is a setting; JSON and the summary
 * line are printed from the same rows, and so are the settings of a model that txl info prints. */
#include "settings.h"
#include "cli/io/output.h"
#include "cli/io/terminal.h"
#include "lib/base/json_memory.h"

#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <string.h>

const char *const weight_types[] = {"f32", "f16", "bf16", "q8", "q4", "q5", NULL};
const char *const embedding_types[] = {"q8", "q4", NULL};
const char *const memory_types[] = {"f32", "f16", "bf16", "q8", NULL};
const char *const session_computes[] = {"f32", "int8", "bf16", NULL};
const char *const arithmetics[] = {"fast", "exact", NULL};
const char *const train_computes[] = {"f32", "bf16", NULL};

void weight_type_text(int type, int embeddings, char text[WEIGHT_TYPE_TEXT]) {
    const bool given = embeddings != CHOICE_UNSET;
    snprintf(text, WEIGHT_TYPE_TEXT, "%s%s%s", weight_types[type], given ? ":" : "",
             given ? embedding_types[embeddings] : "");
}

/* ---- Of a session --------------------------------------------------------------------------- */

void settings_override(txl_settings *settings, const struct session_options *options,
                       const struct common_options *common) {
    if (options->tgt_len != INTEGER_UNSET)
        settings->tgt_len = (int)options->tgt_len;
    if (options->mem_len != INTEGER_UNSET)
        settings->mem_len = (int)options->mem_len;
    if (options->clamp_len != INTEGER_UNSET)
        settings->clamp_len = (int)options->clamp_len;
    if (options->same_length != CHOICE_UNSET)
        settings->same_length = options->same_length == ANSWER_YES;
    if (options->memory_type != CHOICE_UNSET)
        settings->memory_type = (txl_memory_type)options->memory_type;
    if (options->compute != CHOICE_UNSET)
        settings->compute = (txl_compute)options->compute;
    if (options->arithmetic != CHOICE_UNSET)
        settings->arithmetic = (txl_arithmetic)options->arithmetic;
    settings->threads = (int)common->threads;
}

bool session_open(const struct model *model, const txl_settings *settings, txl_session **session) {
    txl_error error;
    return terminal_report(txl_session_new(model->handle, settings, session, &error), &error);
}

/* ---- The table ---------------------------------------------------------------------------- */

enum setting {
    TGT_LEN,
    MEM_LEN,
    CLAMP_LEN,
    SAME_LENGTH,
    SAME_LENGTH_REACH,
    LAYER_NORM_EPS,
    MEMORY_START,
    CLUSTER_ORDER,
    UNWRAP,
    CONTEXT_START,
    DYNAMIC,
    DYNAMIC_LR,
    STATISTICS_SEGMENTS,
    CACHE,
    ARITHMETIC,
    TYPE,
    MEMORY_TYPE,
    COMPUTE,
    THREADS,
    STREAMS,
    VERSION,
    MODEL,
    CHECKSUM,
    MODE,
    TEXT,
    KERNELS,
    BLAS,
    FAMILY,
    ACTIVATION,
    REFRESH,
    ORDER,
    BOTH_SIDES,
    N_SETTING
};

static const struct row {
    const char *key;
    /* Its part of the summary line; within a part the order is the table's. */
    enum { NETWORK, COMPUTATION, NOT_IN_LINE } part;
    const char *none;   /* what the line has for nothing; NULL: leaves it out */
    const char *unsaid; /* a word that the line leaves out */
    bool sometimes;     /* a result may have no such setting */
    bool varies;        /* shards of one evaluation may differ in it */
    bool of_model;      /* a setting of the weights file */
} rows[N_SETTING] = {
    [TGT_LEN] = {"tgt_len", NETWORK, "-", .of_model = true},
    [MEM_LEN] = {"mem_len", NETWORK, "-", .of_model = true},
    [CLAMP_LEN] = {"clamp_len", NETWORK, "-", .of_model = true},
    [SAME_LENGTH] = {"same_length", NETWORK, .of_model = true},
    [SAME_LENGTH_REACH] = {"same_length_reach", NETWORK, .of_model = true},
    [LAYER_NORM_EPS] = {"layer_norm_eps", NETWORK, "-", .of_model = true},
    [MEMORY_START] = {"memory_start", NETWORK, "-", .of_model = true},
    [CLUSTER_ORDER] = {"cluster_order", NETWORK, .of_model = true},
    [UNWRAP] = {"unwrap", NETWORK, .sometimes = true},
    [CONTEXT_START] = {"context_start", NETWORK, .sometimes = true},
    [DYNAMIC] = {"dynamic", NETWORK, .sometimes = true},
    [DYNAMIC_LR] = {"dynamic_lr", NETWORK, .sometimes = true},
    [STATISTICS_SEGMENTS] = {"statistics_segments", NETWORK, "-", .sometimes = true},
    [CACHE] = {"cache", NETWORK, .sometimes = true},
    [ARITHMETIC] = {"arithmetic", COMPUTATION, .unsaid = "fast"},
    [TYPE] = {"type", COMPUTATION, "-", .of_model = true},
    [MEMORY_TYPE] = {"memory_type", COMPUTATION, "-"},
    [COMPUTE] = {"compute", COMPUTATION, "-"},
    [THREADS] = {"threads", COMPUTATION, "-", .varies = true},
    [STREAMS] = {"streams", COMPUTATION, "1"},
    [VERSION] = {"txl", NOT_IN_LINE, .varies = true},
    [MODEL] = {"model", NOT_IN_LINE, .varies = true}, /* the line ends with it */
    [CHECKSUM] = {"checksum", NOT_IN_LINE},
    [MODE] = {"mode", NOT_IN_LINE},
    [TEXT] = {"text", NOT_IN_LINE},
    [KERNELS] = {"kernels", COMPUTATION, "-", .varies = true},
    [BLAS] = {"blas", COMPUTATION, "-", .varies = true},
    [FAMILY] = {"family", NETWORK, "-", .sometimes = true, .of_model = true},
    [ACTIVATION] = {"activation", NETWORK, "-", .sometimes = true},
    [REFRESH] = {"refresh", NETWORK, .sometimes = true},
    [ORDER] = {"order", NETWORK, .sometimes = true},
    [BOTH_SIDES] = {"both_sides", NETWORK, .sometimes = true},
};

const char *settings_shared_key(size_t i, bool *always) {
    for (size_t r = 0; r < N_SETTING; r++) {
        *always = !rows[r].sometimes;
        if (!rows[r].varies && i-- == 0)
            return rows[r].key;
    }
    return NULL;
}

/* ---- Values ------------------------------------------------------------------------------- */

struct value {
    enum { ABSENT, NOTHING, NUMBER, REAL, WORD, ANSWER } kind; /* ABSENT: no such setting */
    int64_t number;                                            /* of an ANSWER: 0 for no */
    double real;
    const char *word;
    char copy[24]; /* where `word` may lie */
};

static struct value number(int64_t n) {
    return (struct value){.kind = NUMBER, .number = n};
}

static struct value answer(bool is) {
    return (struct value){.kind = ANSWER, .number = is};
}

/* NULL is nothing. */
static struct value word(const char *text) {
    return (struct value){.kind = text ? WORD : NOTHING, .word = text};
}

static struct value digits(double x) {
    struct value value = {.kind = WORD};
    snprintf(value.copy, sizeof value.copy, "%.9g", x);
    return value;
}

static struct value checksum(const struct model *model) {
    struct value value = {.kind = WORD};
    snprintf(value.copy, sizeof value.copy, "%s", model_checksum(model).text);
    return value;
}

static struct value activation(const txl_model *model) {
    struct value value = {.kind = NOTHING};
    json_t *settings = json_loads(txl_model_settings_json(model), 0, NULL);
    const char *name = json_string_value(json_object_get(settings, "ff_activation"));
    if (name) {
        value.kind = WORD;
        snprintf(value.copy, sizeof value.copy, "%s", name);
    }
    json_decref(settings);
    return value;
}

/* The symbol that every text comes after. */
static struct value context_start(const txl_model *model) {
    struct value value = {.kind = WORD};
    size_t length = 0;
    int32_t id = txl_model_first_context(model);
    const char *symbol = txl_model_symbol(model, id, &length);
    if (length == 0)
        return number(id);
    snprintf(value.copy, sizeof value.copy, "%.*s", (int)length, symbol);
    return value;
}

/* Whatever is not set here is ABSENT. */
static void set_dynamic(struct value *v, const struct dynamic_settings *d) {
    v[DYNAMIC] = word(d->method);
    v[DYNAMIC_LR] = digits(d->lr);
    v[STATISTICS_SEGMENTS] =
        d->from_checkpoint ? word(NULL) : number((int64_t)d->statistics_segments);
}

static void set_xlnet(struct value *v, const txl_model *model, const struct run_settings *run) {
    bool left = run->generates && run->refresh == 0;
    v[FAMILY] = word(txl_family_name(txl_model_family(model)));
    v[ACTIVATION] = activation(model);
    v[REFRESH] = run->generates || run->refresh > 0 ? number((int64_t)run->refresh) : word(NULL);
    v[ORDER] = word(run->fills || left || run->both_sides ? run->order : NULL);
    v[SAME_LENGTH] = v[SAME_LENGTH_REACH] = v[CLUSTER_ORDER] = word(NULL);
    if (run->both_sides)
        v[BOTH_SIDES] = word(run->both_sides);
    if (run->refresh > 0 || run->both_sides)
        v[MEM_LEN] = word(NULL);
}

/* The values of a result that was computed with these. */
static void find_values(struct value v[N_SETTING], const struct model *model,
                        const txl_settings *settings, const struct run_settings *run) {
    const txl_model *handle = model->handle;
    memset(v, 0, N_SETTING * sizeof *v);
    v[TGT_LEN] = number(settings->tgt_len);
    v[MEM_LEN] = number(settings->mem_len);
    /* No limit is stated as -1, as the published settings write it. */
    v[CLAMP_LEN] = number(settings->clamp_len > 0 ? settings->clamp_len : -1);
    v[SAME_LENGTH] = answer(settings->same_length);
    v[SAME_LENGTH_REACH] = word(txl_model_same_length_reach(handle));
    v[LAYER_NORM_EPS] = (struct value){.kind = REAL, .real = txl_model_layer_norm_eps(handle)};
    v[MEMORY_START] = word(txl_model_memory_start(handle));
    v[CLUSTER_ORDER] = word(txl_model_cluster_order(handle));
    if (run->unwrap)
        v[UNWRAP] = answer(true);
    if (run->cache)
        v[CACHE] = answer(true);
    if (run->context_start)
        v[CONTEXT_START] = context_start(handle);
    v[ARITHMETIC] = word(arithmetics[settings->arithmetic]);
    v[TYPE] = word(txl_model_type(handle));
    v[MEMORY_TYPE] = word(memory_types[settings->memory_type]);
    v[COMPUTE] = word(session_computes[settings->compute]);
    v[THREADS] = number(settings->threads);
    v[STREAMS] = run->streams > 0 ? number(run->streams) : word(NULL);
    v[VERSION] = word(TXL_VERSION);
    v[MODEL] = word(model->name);
    v[CHECKSUM] = checksum(model);
    v[MODE] = word(run->mode);
    v[TEXT] = word(run->text && strcmp(run->text, "-") != 0 ? run->text : NULL);
    v[KERNELS] = word(txl_kernels_name(NULL));
    v[BLAS] = word(txl_blas_name());
    if (run->dynamic)
        set_dynamic(v, run->dynamic);
    if (model_sees_both_sides(model))
        set_xlnet(v, handle, run);
}

static struct value value_of_json(const json_t *json) {
    if (json_is_integer(json))
        return number(json_integer_value(json));
    if (json_is_real(json))
        return (struct value){.kind = REAL, .real = json_real_value(json)};
    if (json_is_boolean(json))
        return answer(json_is_true(json));
    return json ? word(json_string_value(json)) : (struct value){.kind = ABSENT};
}

static const char *word_of(const struct value *value) {
    return value->word ? value->word : value->copy;
}

/* Absent, nothing, or what a weights file may leave out and does. */
static bool is_empty(const struct value *value) {
    return value->kind <= NOTHING || (value->kind == WORD && !*word_of(value));
}

/* ---- JSON --------------------------------------------------------------------------------- */

static json_t *value_to_json(const struct value *value) {
    switch (value->kind) {
    case NUMBER:
        return json_integer(value->number);
    case REAL:
        return json_real(value->real);
    case ANSWER:
        return json_boolean(value->number);
    case WORD:
        return output_json_string(word_of(value));
    default:
        return json_null();
    }
}

/* Sets the values of all settings, or of those `of_model` that are not empty. */
static bool set_values(json_t *object, const struct model *model, const txl_settings *settings,
                       const struct run_settings *run, bool of_model) {
    struct value values[N_SETTING];
    int failed = 0;
    find_values(values, model, settings, run);
    for (size_t i = 0; i < N_SETTING; i++)
        if (of_model ? rows[i].of_model && !is_empty(&values[i]) : values[i].kind != ABSENT)
            failed |= json_object_set_new(object, rows[i].key, value_to_json(&values[i]));
    return failed == 0;
}

bool settings_to_json(json_t *object, const struct model *model, const txl_settings *settings,
                      const struct run_settings *run) {
    return set_values(object, model, settings, run, false);
}

bool settings_of_model(json_t *object, const struct model *model) {
    txl_settings settings;
    txl_model_defaults(model->handle, &settings);
    return set_values(object, model, &settings, &(struct run_settings){0}, true);
}

/* ---- The summary line --------------------------------------------------------------------- */

static void append_setting(struct fixed_line *line, const struct row *row,
                           const struct value *value) {
    switch (value->kind) {
    case NUMBER:
        fixed_line_add(line, "%s=%" PRId64 " ", row->key, value->number);
        break;
    case REAL:
        fixed_line_add(line, "%s=%g ", row->key, value->real);
        break;
    case ANSWER:
        fixed_line_add(line, "%s=%s ", row->key, value->number ? "yes" : "no");
        break;
    case WORD:
        if (row->unsaid && strcmp(word_of(value), row->unsaid) == 0)
            break;
        fixed_line_add(line, "%s=", row->key);
        for (const char *c = word_of(value); *c; c++)
            if (*c != ' ') /* which end a setting */
                fixed_line_add(line, "%c", *c);
        fixed_line_add(line, " ");
        break;
    default:
        if (row->none)
            fixed_line_add(line, "%s=%s ", row->key, row->none);
    }
}

static void make_line(char *text, size_t size, const struct value *values, const char *model) {
    struct fixed_line line = fixed_line(text, size);
    for (int part = NETWORK; part <= COMPUTATION; part++)
        for (size_t i = 0; i < N_SETTING; i++)
            if ((int)rows[i].part == part && values[i].kind != ABSENT)
                append_setting(&line, &rows[i], &values[i]);
    fixed_line_add(&line, "model=%s", model);
}

void settings_to_text(char *text, size_t size, const struct model *model,
                      const txl_settings *settings, const struct run_settings *run) {
    struct value values[N_SETTING];
    find_values(values, model, settings, run);
    make_line(text, size, values, model->name);
}

void settings_json_to_text(char *text, size_t size, const json_t *settings, const char *model) {
    struct value values[N_SETTING];
    for (size_t i = 0; i < N_SETTING; i++)
        values[i] = value_of_json(json_object_get(settings, rows[i].key));
    make_line(text, size, values, model);
}

/* ---- Published shapes and evaluations ------------------------------------------------------ */

/* Those of published_models, in its order, and others. */
const char *const published_shapes[] = {
    "enwik8-base", "enwik8-large", "wt103-base",  "wt103-large", "lm1b-base",
    "lm1b-large",  "xlnet-base",   "xlnet-large", "small",       NULL};

const struct published *published_find(const txl_model *model) {
    struct published shape = {0};
    if (txl_model_family(model) != TXL_FAMILY_TRANSFORMER_XL)
        return NULL;
    json_t *settings = json_loads(txl_model_settings_json(model), 0, NULL);
    int failed = json_unpack(settings, "{s:i, s:i, s:i, s:i, s:i}", "n_layer", &shape.n_layer,
                             "d_model", &shape.d_model, "n_head", &shape.n_head, "d_head",
                             &shape.d_head, "d_inner", &shape.d_inner);
    json_decref(settings);
    for (size_t i = 0; !failed && i < published_n_model; i++) {
        const struct published *p = &published_models[i];
        if (p->n_layer == shape.n_layer && p->d_model == shape.d_model &&
            p->n_head == shape.n_head && p->d_head == shape.d_head && p->d_inner == shape.d_inner)
            return p;
    }
    return NULL;
}

void published_apply(const struct published *published, txl_settings *settings) {
    settings->tgt_len = published->tgt_len;
    settings->mem_len = published->mem_len;
    settings->clamp_len = published->clamp_len;
    settings->same_length = true;
}

int published_streams(const struct published *published, const txl_model *model) {
    bool tensorflow = strcmp(txl_model_same_length_reach(model), "mem_len") != 0;
    return tensorflow ? PUBLISHED_TENSORFLOW_STREAMS : published->streams;
}

/* Yang et al. 2019: xlnet-base-cased and xlnet-large-cased, whose pretraining had segments of 512
 * and memories of 384.  No perplexity of theirs is published. */
static char *xlnet_settings_json(bool large) {
    json_t *settings = json_pack(
        "{s:s, s:s, s:b, s:n, s:n, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:f, s:b, s:s, s:i, s:i,"
        " s:i, s:b}",
        "family", txl_family_name(TXL_FAMILY_XLNET), "tokenizer", "words", "lower_case", false,
        "unk_id", "eos_id", "n_token", 32000, "n_layer", large ? 24 : 12, "n_head", large ? 16 : 12,
        "d_head", 64, "d_model", large ? 1024 : 768, "d_inner", large ? 4096 : 3072,
        "ff_activation", "gelu-tanh", "attn_type", "bi", "layer_norm_eps", 1e-12, "tied_weights",
        true, "memory_start", "empty", "tgt_len", 512, "mem_len", 384, "clamp_len", -1,
        "same_length", false);
    char *text = json_text(settings, JSON_COMPACT);
    json_decref(settings);
    return text;
}

/* Not a published model's: a shape that a processor can train on SentencePiece text. */
static const struct published small = {"small", NULL, false, 6,       320,  5, 64, 1280, 128,
                                       128,     -1,   16,    "words", 4096, 1, 0,  NULL};

bool published_is_transformer_xl(int shape) {
    const int n = (int)published_n_model;
    return shape != n && shape != n + 1;
}

char *published_settings_json(int shape, bool evaluated) {
    const int n = (int)published_n_model;
    if (!published_is_transformer_xl(shape))
        return xlnet_settings_json(shape > n);

    const struct published *p = shape < n ? &published_models[shape] : &small;
    json_t *cutoffs = json_array(), *tied = json_pack("[b]", false);
    int failed = 0;
    for (int i = 0; i < p->n_cutoff; i++) {
        failed |= json_array_append_new(cutoffs, json_integer(p->cutoffs[i]));
        failed |= json_array_append_new(tied, json_true());
    }
    json_t *settings = json_pack(
        "{s:s, s:s, s:b, s:n, s:n, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:i, s:b, s:b, s:i,"
        " s:i, s:i, s:b, s:s, s:s, s:O, s:O}",
        "family", txl_family_name(TXL_FAMILY_TRANSFORMER_XL), "tokenizer", p->tokenizer,
        "lower_case", false, "unk_id", "eos_id", "n_token", p->n_token, "n_layer", p->n_layer,
        "n_head", p->n_head, "d_head", p->d_head, "d_model", p->d_model, "d_embed", p->d_model,
        "d_inner", p->d_inner, "attn_type", 0, "pre_lnorm", false, "div_val", p->div_val,
        "tied_weights", true, "biases_per_layer", false, "tgt_len", p->tgt_len, "mem_len",
        p->mem_len, "clamp_len", p->clamp_len, "same_length", shape < n, "memory_start", "empty",
        "cluster_order", "reversed", "cutoffs", cutoffs, "tied_projections", tied);
    if (evaluated && p->by_tensorflow) {
        failed |= json_object_set_new(settings, "same_length_reach", json_string("mem_len + 1"));
        failed |= json_object_set_new(settings, "layer_norm_eps", json_real(1e-12));
    }
    char *text = failed ? NULL : json_text(settings, JSON_COMPACT);
    json_decref(settings);
    json_decref(cutoffs);
    json_decref(tied);
    return text;
}
