/* The settings of a run and of its result.  A row of the table is a setting; JSON and the summary
 * line are printed from the same rows, and so are the settings of a model that txl info prints. */
#include "settings.h"

#include "cli/system/fixed_line.h"
#include "cli/system/output.h"
#include "cli/system/terminal.h"

#include <inttypes.h>
#include <string.h>

const char *const weight_types[] = {"f32", "f16", "bf16", "q8", NULL};
const char *const memory_types[] = {"f32", "f16", "bf16", NULL};
const char *const session_computes[] = {"type", "int8", NULL};
const char *const arithmetics[] = {"fast", "exact", NULL};
const char *const train_computes[] = {"f32", "bf16", NULL};

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

/* ---- Values ------------------------------------------------------------------------------- */

struct value {
    enum { NOTHING, NUMBER, REAL, WORD, ANSWER } kind;
    int64_t number; /* of an ANSWER: 0 for no */
    double real;
    const char *word;
    char copy[24]; /* where `word` may lie */
};

/* What a result was computed with; of a result that was read, its settings alone. */
struct source {
    const struct model *model;
    const txl_settings *settings;
    const struct run_settings *run;
    const json_t *read;
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

static const struct value nothing = {.kind = NOTHING};

static bool is_xlnet(const struct source *s) {
    return model_sees_both_sides(s->model);
}

static struct value tgt_len(const struct source *s) {
    return number(s->settings->tgt_len);
}

static struct value mem_len(const struct source *s) {
    return is_xlnet(s) && s->run->refresh > 0 ? nothing : number(s->settings->mem_len);
}

/* No limit is stated as -1, as the published settings write it. */
static struct value clamp_len(const struct source *s) {
    return number(s->settings->clamp_len > 0 ? s->settings->clamp_len : -1);
}

static struct value same_length(const struct source *s) {
    return is_xlnet(s) ? nothing : answer(s->settings->same_length);
}

static struct value same_length_reach(const struct source *s) {
    return is_xlnet(s) ? nothing : word(txl_model_same_length_reach(s->model->handle));
}

static struct value layer_norm_eps(const struct source *s) {
    return (struct value){.kind = REAL, .real = txl_model_layer_norm_eps(s->model->handle)};
}

static struct value memory_start(const struct source *s) {
    return word(txl_model_memory_start(s->model->handle));
}

static struct value cluster_order(const struct source *s) {
    return is_xlnet(s) ? nothing : word(txl_model_cluster_order(s->model->handle));
}

static struct value arithmetic(const struct source *s) {
    return word(arithmetics[s->settings->arithmetic]);
}

static struct value type(const struct source *s) {
    return word(txl_model_type(s->model->handle));
}

static struct value memory_type(const struct source *s) {
    return word(memory_types[s->settings->memory_type]);
}

static bool has_compute(const struct source *s) {
    return s->settings->compute != TXL_COMPUTE_BY_TYPE;
}

static struct value compute(const struct source *s) {
    return word(session_computes[s->settings->compute]);
}

static struct value threads(const struct source *s) {
    return number(s->settings->threads);
}

static struct value streams(const struct source *s) {
    return s->run->streams > 0 ? number(s->run->streams) : nothing;
}

static struct value version(const struct source *s) {
    (void)s;
    return word(TXL_VERSION);
}

static struct value model_name(const struct source *s) {
    return word(s->model->name);
}

static struct value checksum(const struct source *s) {
    struct value value = {.kind = WORD};
    snprintf(value.copy, sizeof value.copy, "%s", model_checksum(s->model).text);
    return value;
}

static struct value mode(const struct source *s) {
    return word(s->run->mode);
}

static struct value text_read(const struct source *s) {
    const char *text = s->run->text;
    return text && strcmp(text, "-") != 0 ? word(text) : nothing;
}

static struct value kernels(const struct source *s) {
    (void)s;
    return word(txl_kernels_name(NULL));
}

static struct value blas(const struct source *s) {
    (void)s;
    return word(txl_blas_name());
}

static struct value family(const struct source *s) {
    return word(txl_family_name(txl_model_family(s->model->handle)));
}

static struct value activation(const struct source *s) {
    struct value value = nothing;
    json_t *settings = json_loads(txl_model_settings_json(s->model->handle), 0, NULL);
    const char *name = json_string_value(json_object_get(settings, "ff_activation"));
    if (name) {
        value.kind = WORD;
        snprintf(value.copy, sizeof value.copy, "%s", name);
    }
    json_decref(settings);
    return value;
}

static struct value refresh(const struct source *s) {
    bool has = s->run->generates || s->run->refresh > 0;
    return has ? number((int64_t)s->run->refresh) : nothing;
}

static struct value order(const struct source *s) {
    bool has = s->run->fills || (s->run->generates && s->run->refresh == 0);
    return has ? word(s->run->order) : nothing;
}

static bool unwraps(const struct source *s) {
    return s->run->unwrap;
}

static struct value unwrap(const struct source *s) {
    return answer(s->run->unwrap);
}

static bool learns(const struct source *s) {
    return s->run->dynamic != NULL;
}

static struct value dynamic_method(const struct source *s) {
    return word(s->run->dynamic->method);
}

static struct value real(double x) {
    struct value value = {.kind = WORD};
    snprintf(value.copy, sizeof value.copy, "%.9g", x);
    return value;
}

static struct value dynamic_lr(const struct source *s) {
    return real(s->run->dynamic->lr);
}

static struct value dynamic_decay(const struct source *s) {
    return real(s->run->dynamic->decay);
}

static struct value dynamic_epsilon(const struct source *s) {
    return real(s->run->dynamic->epsilon);
}

static struct value statistics_segments(const struct source *s) {
    return s->run->dynamic->from_checkpoint ? nothing
                                            : number((int64_t)s->run->dynamic->statistics_segments);
}

/* ---- The table ---------------------------------------------------------------------------- */

static const struct row {
    const char *key;
    struct value (*value)(const struct source *);
    /* Its part of the summary line; within a part the order is the table's. */
    enum { NETWORK, COMPUTATION, NOT_IN_LINE } part;
    const char *none;                   /* what the line has for nothing; NULL: leaves it out */
    bool (*has)(const struct source *); /* whether there is such a setting; NULL: always */
    const char *unsaid;                 /* a word that the line leaves out */
    bool varies;                        /* shards of one evaluation may differ in it */
    bool of_model;                      /* a setting of the weights file */
} rows[] = {
    {"tgt_len", tgt_len, NETWORK, "-", .of_model = true},
    {"mem_len", mem_len, NETWORK, "-", .of_model = true},
    {"clamp_len", clamp_len, NETWORK, "-", .of_model = true},
    {"same_length", same_length, NETWORK, .of_model = true},
    {"same_length_reach", same_length_reach, NETWORK, .of_model = true},
    {"layer_norm_eps", layer_norm_eps, NETWORK, "-", .of_model = true},
    {"memory_start", memory_start, NETWORK, "-", .of_model = true},
    {"cluster_order", cluster_order, NETWORK, .of_model = true},
    {"unwrap", unwrap, NETWORK, NULL, unwraps},
    {"dynamic", dynamic_method, NETWORK, NULL, learns},
    {"dynamic_lr", dynamic_lr, NETWORK, NULL, learns},
    {"dynamic_decay", dynamic_decay, NETWORK, NULL, learns},
    {"dynamic_epsilon", dynamic_epsilon, NETWORK, NULL, learns},
    {"statistics_segments", statistics_segments, NETWORK, "-", learns},
    {"arithmetic", arithmetic, COMPUTATION, .unsaid = "fast"},
    {"type", type, COMPUTATION, "-", .of_model = true},
    {"memory_type", memory_type, COMPUTATION, "-"},
    {"compute", compute, COMPUTATION, NULL, has_compute},
    {"threads", threads, COMPUTATION, "-", .varies = true},
    {"streams", streams, COMPUTATION, "1"},
    {"txl", version, NOT_IN_LINE, .varies = true},
    {"model", model_name, NOT_IN_LINE, .varies = true}, /* the line ends with it */
    {"checksum", checksum, NOT_IN_LINE},
    {"mode", mode, NOT_IN_LINE},
    {"text", text_read, NOT_IN_LINE},
    {"kernels", kernels, COMPUTATION, "-", .varies = true},
    {"blas", blas, COMPUTATION, "-", .varies = true},
    {"family", family, NETWORK, "-", is_xlnet, .of_model = true},
    {"activation", activation, NETWORK, "-", is_xlnet},
    {"refresh", refresh, NETWORK, NULL, is_xlnet},
    {"order", order, NETWORK, NULL, is_xlnet},
};

enum { N_ROW = sizeof rows / sizeof rows[0] };

const char *settings_shared_key(size_t i, bool *always) {
    for (size_t r = 0; r < N_ROW; r++) {
        *always = !rows[r].has;
        if (!rows[r].varies && i-- == 0)
            return rows[r].key;
    }
    return NULL;
}

static struct value value_of_json(const json_t *json) {
    if (json_is_integer(json))
        return number(json_integer_value(json));
    if (json_is_real(json))
        return (struct value){.kind = REAL, .real = json_real_value(json)};
    if (json_is_boolean(json))
        return answer(json_is_true(json));
    return word(json_string_value(json));
}

/* The setting's value; false if there is no such setting. */
static bool get_setting(const struct source *source, const struct row *row, struct value *value) {
    if (source->read) {
        const json_t *json = json_object_get(source->read, row->key);
        *value = value_of_json(json);
        return json;
    }
    bool has = !row->has || row->has(source);
    *value = has ? row->value(source) : nothing;
    return has;
}

static const char *word_of(const struct value *value) {
    return value->word ? value->word : value->copy;
}

/* Nothing, or what a weights file may leave out and does. */
static bool is_empty(const struct value *value) {
    return value->kind == NOTHING || (value->kind == WORD && !*word_of(value));
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

bool settings_to_json(json_t *object, const struct model *model, const txl_settings *settings,
                      const struct run_settings *run) {
    const struct source source = {model, settings, run, NULL};
    struct value value;
    for (size_t i = 0; i < N_ROW; i++)
        if (get_setting(&source, &rows[i], &value) &&
            json_object_set_new(object, rows[i].key, value_to_json(&value)) != 0)
            return false;
    return true;
}

bool settings_of_model(json_t *object, const struct model *model) {
    txl_settings settings;
    txl_model_defaults(model->handle, &settings);
    const struct source source = {model, &settings, &(struct run_settings){0}, NULL};
    struct value value;
    for (size_t i = 0; i < N_ROW; i++)
        if (rows[i].of_model && get_setting(&source, &rows[i], &value) && !is_empty(&value) &&
            json_object_set_new(object, rows[i].key, value_to_json(&value)) != 0)
            return false;
    return true;
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

static void make_line(char *text, size_t size, const struct source *source, const char *model) {
    struct fixed_line line = fixed_line(text, size);
    struct value value;
    for (int part = NETWORK; part <= COMPUTATION; part++)
        for (size_t i = 0; i < N_ROW; i++)
            if ((int)rows[i].part == part && get_setting(source, &rows[i], &value))
                append_setting(&line, &rows[i], &value);
    fixed_line_add(&line, "model=%s", model);
}

void settings_to_text(char *text, size_t size, const struct model *model,
                      const txl_settings *settings, const struct run_settings *run) {
    make_line(text, size, &(struct source){model, settings, run, NULL}, model->name);
}

void settings_json_to_text(char *text, size_t size, const json_t *settings, const char *model) {
    make_line(text, size, &(struct source){.read = settings}, model);
}
