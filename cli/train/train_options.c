/* The options of txl train, and the settings of a run. */
#include "train_options.h"

#include "cli/io/output.h"
#include "cli/model/settings.h"
#include "lib/base/json_memory.h"

#include <jansson.h>
#include <math.h>

static int64_t integer_or(int64_t asked, int64_t standard) {
    return asked == INTEGER_UNSET ? standard : asked;
}

static double real_or(double asked, double standard) {
    return isnan(asked) ? standard : asked;
}

/* ---- Settings ----------------------------------------------------------------------------- */

static const char *const tasks[] = {"classify", NULL};
const char *const train_optimizers[] = {"adam", "muon", NULL};

/* The type of the model's matrices, an index into weight_types. */
static int type_of(const txl_model *model) {
    int type = 0;
    while (weight_types[type] && strcmp(weight_types[type], txl_model_type(model)) != 0)
        type++;
    return weight_types[type] ? type : 0;
}

/* A model that is trained further has its own segment length. */
void train_run_init(struct train_run *run, const struct train_options *options,
                    const txl_model *model) {
    txl_settings own = {.tgt_len = TRAIN_TGT_LEN, .mem_len = TRAIN_MEM_LEN, .clamp_len = -1};
    if (options->attn_type == 2 || options->attn_type == 3)
        own.mem_len = 0;
    if (model)
        txl_model_defaults(model, &own);
    /* A model that states its rate was trained on without dropout, and loses by it (docs/train.md).
     */
    const double stated = model ? txl_model_dynamic_lr(model) : 0;
    const double lr = real_or(options->lr, stated > 0 ? stated : model ? TRAIN_INIT_LR : TRAIN_LR);
    *run = (struct train_run){
        .training = {.batch = (int)integer_or(options->batch, TRAIN_BATCH),
                     .tgt_len = (int)integer_or(options->tgt_len, own.tgt_len),
                     .ext_len = (int)integer_or(options->ext_len, 0),
                     .mem_len = (int)integer_or(options->mem_len, own.mem_len),
                     .clamp_len = (int)integer_or(options->clamp_len, own.clamp_len),
                     .same_length = options->same_length == CHOICE_UNSET
                                        ? own.same_length
                                        : options->same_length == ANSWER_YES,
                     .clip = real_or(options->clip, TRAIN_CLIP),
                     .epsilon = real_or(options->epsilon, TRAIN_EPSILON),
                     .dropout = real_or(options->dropout, stated > 0 ? 0 : TRAIN_DROPOUT),
                     .dropatt = real_or(options->dropatt, TRAIN_DROPATT),
                     .seed = (uint64_t)integer_or(options->seed, TRAIN_SEED),
                     .bf16 = options->compute == COMPUTE_BF16,
                     .forget_every = (int)integer_or(options->forget_every, 0),
                     .threads = (int)options->common.threads,
                     .name = options->name,
                     .muon = options->optimizer == OPTIMIZER_MUON
                                 ? real_or(options->muon_lr, TRAIN_MUON * lr) / lr
                                 : 0},
        .schedule = {.lr = lr,
                     .lr_min = real_or(options->lr_min, TRAIN_LR_MIN),
                     .warmup = (uint64_t)integer_or(options->warmup, TRAIN_WARMUP)},
        .steps = integer_or(options->steps, 0),
        .epochs = integer_or(options->epochs, 0),
        .hours = real_or(options->hours, 0),
        .eval_every = integer_or(options->eval_every, TRAIN_EVAL_EVERY),
        .save_every = integer_or(options->save_every, TRAIN_SAVE_EVERY),
        .patience = integer_or(options->patience, 0),
        .carries_on = model,
        .text = options->text == CHOICE_UNSET ? TEXT_TOKENS : options->text,
        .ids = options->ids,
        .skip_unknown = options->skip_unknown,
        .unwrap = options->common.unwrap,
        .type = options->type != CHOICE_UNSET ? options->type
                : model                       ? type_of(model)
                                              : 0,
        .embeddings = options->embeddings == CHOICE_UNSET ? 0 : options->embeddings + 1,
        .holds_out = true,
        .best = NAN,
        .best_step = -1,
        .evaluated = -1,
        .valid_nats = NAN,
        .valid_bits = NAN,
        .before_nats = NAN,
        .late = NAN};
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t epoch_steps(uint64_t tokens, const txl_training *how) {
    uint64_t stream = tokens / (uint64_t)how->batch, tgt_len = (uint64_t)how->tgt_len;
    return stream > 1 ? (stream - 1 + tgt_len - 1) / tgt_len : 1;
}

void train_run_fit(struct train_run *run, const struct train_options *options, uint64_t tokens) {
    txl_training *how = &run->training;
    int peers = how->peers ? how->peers->n : 1;
    bool bounded = run->steps > 0 || run->epochs > 0 || run->hours > 0;
    if (options->batch == INTEGER_UNSET) {
        uint64_t segments = tokens / (uint64_t)how->tgt_len, streams = segments / TRAIN_SEGMENTS;
        if (streams < TRAIN_FEW)
            streams = least(segments / 2, TRAIN_FEW);
        how->batch = (int)least(streams, TRAIN_BATCH);
        how->batch = how->batch < peers ? peers : how->batch;
    }
    uint64_t epoch = epoch_steps(tokens, how);
    if (!bounded) {
        uint64_t epochs = run->carries_on ? TRAIN_INIT_EPOCHS : TRAIN_EPOCHS;
        run->steps = (int64_t)least(epochs * epoch, TRAIN_STEPS);
    }
    if (!bounded && run->holds_out && options->patience == INTEGER_UNSET)
        run->patience = TRAIN_PATIENCE;
    if (options->eval_every == INTEGER_UNSET)
        run->eval_every = (int64_t)least(epoch > 1 ? epoch / 2 : 1, TRAIN_EVAL_EVERY);
    uint64_t steps = run->steps > 0 ? (uint64_t)run->steps : (uint64_t)run->epochs * epoch;
    if (options->warmup == INTEGER_UNSET && run->hours == 0)
        run->schedule.warmup = least(steps / 10, TRAIN_WARMUP);
}

/* A member that the note keeps. */
struct field {
    const char *key;
    enum { FIELD_INT, FIELD_INT64, FIELD_REAL, FIELD_BOOL } kind;
    size_t offset;
};

#define FIELD(key, kind, member)                                                                   \
    { key, kind, offsetof(struct train_run, member) }

static const struct field fields[] = {
    FIELD("lr", FIELD_REAL, schedule.lr),
    FIELD("lr_min", FIELD_REAL, schedule.lr_min),
    FIELD("warmup", FIELD_INT64, schedule.warmup),
    FIELD("steps", FIELD_INT64, steps),
    FIELD("epochs", FIELD_INT64, epochs),
    FIELD("hours", FIELD_REAL, hours),
    FIELD("eval_every", FIELD_INT64, eval_every),
    FIELD("save_every", FIELD_INT64, save_every),
    FIELD("patience", FIELD_INT64, patience),
    FIELD("waited", FIELD_INT64, waited),
    FIELD("carries_on", FIELD_BOOL, carries_on),
    FIELD("text", FIELD_INT, text),
    FIELD("ids", FIELD_BOOL, ids),
    FIELD("skip_unknown", FIELD_BOOL, skip_unknown),
    FIELD("unwrap", FIELD_BOOL, unwrap),
    FIELD("type", FIELD_INT, type),
    FIELD("embeddings", FIELD_INT, embeddings),
    FIELD("holds_out", FIELD_BOOL, holds_out),
    FIELD("seconds", FIELD_REAL, seconds),
    FIELD("best", FIELD_REAL, best),
    FIELD("best_step", FIELD_INT64, best_step),
    FIELD("evaluated", FIELD_INT64, evaluated),
    FIELD("valid_nats", FIELD_REAL, valid_nats),
    FIELD("valid_bits", FIELD_REAL, valid_bits),
    FIELD("before_nats", FIELD_REAL, before_nats),
    FIELD("late", FIELD_REAL, late),
    FIELD("valid_checksum", FIELD_INT64, valid_checksum),
};

static json_t *field_to_json(const struct field *field, const char *place) {
    switch (field->kind) {
    case FIELD_INT:
        return json_integer(*(const int *)(const void *)place);
    case FIELD_INT64:
        return json_integer(*(const int64_t *)(const void *)place);
    case FIELD_BOOL:
        return json_boolean(*(const bool *)place);
    case FIELD_REAL:
        break;
    }
    double real = *(const double *)(const void *)place;
    return isnan(real) ? json_null() : json_real(real);
}

static json_t *fields_to_json(const struct train_run *run) {
    json_t *object = json_object();
    bool good = object != NULL;
    for (size_t i = 0; good && i < sizeof fields / sizeof *fields; i++)
        good = json_object_set_new(
                   object, fields[i].key,
                   field_to_json(&fields[i], (const char *)run + fields[i].offset)) == 0;
    return output_json_if(good, object);
}

char *train_run_to_text(const struct train_run *run, const struct curves *curves) {
    json_t *object = fields_to_json(run);
    char *text = NULL;
    if (object && json_object_set_new(object, "curves", curves_to_json(curves)) == 0)
        text = json_text(object, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(object);
    return text;
}

json_t *train_run_to_json(const struct train_run *run) {
    const txl_training *how = &run->training;
    json_t *object =
        json_pack("{s:i, s:i, s:i, s:i, s:i, s:b, s:f, s:f, s:f, s:f, s:I, s:s, s:i, s:s}", "batch",
                  how->batch, "tgt_len", how->tgt_len, "ext_len", how->ext_len, "mem_len",
                  how->mem_len, "clamp_len", how->clamp_len, "same_length", how->same_length,
                  "clip", how->clip, "epsilon", how->epsilon, "dropout", how->dropout, "dropatt",
                  how->dropatt, "seed", (json_int_t)how->seed, "compute", train_computes[how->bf16],
                  "forget_every", how->forget_every, "optimizer", train_optimizers[how->muon > 0]);
    bool good = object && (how->muon == 0 ||
                           json_object_set_new(object, "muon_lr",
                                               json_real(how->muon * run->schedule.lr)) == 0);
    good = good && output_json_append(object, fields_to_json(run)) &&
           json_object_set_new(object, "text", json_string(text_forms[run->text])) == 0 &&
           json_object_set_new(object, "type", json_string(weight_types[run->type])) == 0 &&
           json_object_del(object, "valid_checksum") == 0;
    return output_json_if(good, object);
}

static bool field_from_json(const struct field *field, const json_t *value, char *place) {
    if (field->kind == FIELD_REAL) {
        *(double *)(void *)place = json_is_null(value) ? NAN : json_number_value(value);
        return json_is_null(value) || json_is_number(value);
    }
    if (field->kind == FIELD_BOOL) {
        *(bool *)place = json_is_true(value);
        return json_is_boolean(value);
    }
    if (field->kind == FIELD_INT)
        *(int *)(void *)place = (int)json_integer_value(value);
    else
        *(int64_t *)(void *)place = json_integer_value(value);
    return json_is_integer(value);
}

static bool is_choice(const char *const *choices, int choice) {
    int n = 0;
    while (choices[n])
        n++;
    return choice >= 0 && choice < n;
}

bool train_run_from_text(struct train_run *run, struct curves *curves, const char *text) {
    json_t *object = json_loads(text, 0, NULL);
    bool good = json_is_object(object);
    *run = (struct train_run){0};
    for (size_t i = 0; good && i < sizeof fields / sizeof *fields; i++)
        good = field_from_json(&fields[i], json_object_get(object, fields[i].key),
                               (char *)run + fields[i].offset);
    good = good && curves_from_json(curves, json_object_get(object, "curves"));
    json_decref(object);
    return good && run->eval_every > 0 && run->save_every > 0 &&
           is_choice(weight_types, run->type) &&
           (run->embeddings == 0 || is_choice(embedding_types, run->embeddings - 1)) &&
           (run->text == TEXT_RAW || run->text == TEXT_TOKENS);
}

/* ---- The table ---------------------------------------------------------------------------- */

#define PLACE(member) offsetof(struct train_options, member)
#define SIZE_ROW(row_name, member, standard_text, help_text, most_value)                           \
    OPTION_ROW((row_name), OPTION_INTEGER, PLACE(member), (help_text),                             \
               .standard = (standard_text), .least = 1, .most = (most_value))
#define REAL_ROW(row_name, member, standard_text, help_text, most_value)                           \
    OPTION_ROW((row_name), OPTION_REAL, PLACE(member), (help_text), .standard = (standard_text),   \
               .most = (most_value))

const struct option_row train_option_rows[] = {
    {"output", OPTION_STRING, PLACE(output),
     "write the weights file OUT.txl: the best model so far on the held-out text",
     .section = "Files", .letter = 'o', .argument = "OUT.txl", .file = FILE_WHOLE,
     .output = OUTPUT_WEIGHTS, .kept = "resume", .required = true},
    {"type", OPTION_CHOICE, PLACE(type), "type of its weights", .choices = weight_types,
     .standard = "that of --init, else f32"},
    EMBEDDINGS_ROW(PLACE(embeddings)),
    MODEL_NAME_ROW(PLACE(name)),
    {"state", OPTION_STRING, PLACE(state),
     "write to FILE what --resume needs: at each evaluation, and every --save-every steps",
     .file = FILE_WHOLE, .over = "resume", .output = OUTPUT_STATE, .kept = "resume"},
    {"resume", OPTION_STRING, PLACE(resume),
     "continue the run whose --state is FILE, with the same TEXTs in the same order",
     .file = FILE_READ,
     .only = "output valid state log report steps epochs hours binary encoding invalid task init "
             "columns",
     .reason = RESUME_TAKES_ALL},
    {"log", OPTION_STRING, PLACE(log), "write a JSON object per step and evaluation to FILE",
     .file = FILE_STREAM, .output = OUTPUT_LOG},
    {"report", OPTION_STRING, PLACE(report),
     "write a page at the end: curves, and what the model wrote at each evaluation",
     .argument = "OUT.html", .file = FILE_WHOLE, .output = OUTPUT_PAGE},
    FORCE_ROW,
    {"task", OPTION_CHOICE, PLACE(task),
     "train a head for --init, an XLNet, on TABLEs with the columns text and label: txl help task",
     .section = "Text", .choices = tasks, .needs = "init",
     .only = "output init state resume valid columns batch lr epochs patience seed binary "
             "encoding invalid"},
    {"columns", OPTION_LIST, PLACE(columns), "with --task: names of columns, as in txl classify",
     .argument = "ROLE=NAME,...", .needs = "task"},
    {"valid", OPTION_STRING, PLACE(valid), "hold out FILE to choose the best model; none: no text",
     .standard = "the last 2 %, at most 1 MiB", .file = FILE_READ},
    TEXT_ROW(.standard = "tokens", .offset = PLACE(text)),
    {"ids", OPTION_FLAG, PLACE(ids), "read decimal ids of the symbols of --init or --vocab",
     .excludes = "unwrap"},
    SKIP_UNKNOWN_ROW("", PLACE(skip_unknown)),
    BINARY_ROW,
    UNWRAP_ROW,
    {"init", OPTION_STRING, PLACE(init),
     "start from the weights and the vocabulary of FILE.txl, or " BUILT_IN, .section = "Model",
     .argument = "FILE.txl", .file = FILE_MODEL,
     .excludes =
         "vocab min-count shape n-layer n-head d-head d-model d-inner d-embed div-val cutoffs "
         "pre-lnorm attn-type",
     .reason = "--init has its own vocabulary and sizes"},
    {"also", OPTION_STRING, PLACE(also),
     "with --init: say how well the model predicted FILE, an unrelated text, before and after",
     .file = FILE_READ, .needs = "init"},
    {"vocab", OPTION_STRING, PLACE(vocab),
     "characters or words: those of the text; bytes; text8; or a vocabulary file, such as "
     "a SentencePiece model",
     .argument = "KIND", .standard = TRAIN_VOCAB, .file = FILE_READ},
    SIZE_ROW("min-count", min_count, TEXT_OF(TRAIN_MIN_COUNT),
             "replace words or characters that occur fewer than N times by <unk>", INT32_MAX),
    {"shape", OPTION_CHOICE, PLACE(shape),
     "take the sizes of a published model; the options below override them",
     .choices = published_shapes},
    SIZE_ROW("n-layer", n_layer, TEXT_OF(TRAIN_N_LAYER), "layers", 1024),
    SIZE_ROW("n-head", n_head, TEXT_OF(TRAIN_N_HEAD), "attention heads of a layer", 4096),
    SIZE_ROW("d-head", d_head, TEXT_OF(TRAIN_D_HEAD), "width of a head", 16384),
    SIZE_ROW("d-model", d_model, TEXT_OF(TRAIN_D_MODEL), "width of the network, even", 65536),
    SIZE_ROW("d-inner", d_inner, TEXT_OF(TRAIN_D_INNER), "width inside the feed-forward part",
             1048576),
    SIZE_ROW("d-embed", d_embed, "d-model", "width of the first embedding", 65536),
    SIZE_ROW("div-val", div_val, TEXT_OF(TRAIN_DIV_VAL),
             "make each band's embedding N times narrower than the one before", 65536),
    {"cutoffs", OPTION_STRING, PLACE(cutoffs),
     "first ids of the softmax's bands except the first, with commas between them",
     .argument = "LIST", .standard = "none"},
    PRE_LNORM_ROW(.standard = "no", .offset = PLACE(pre_lnorm)),
    {"attn-type", OPTION_INTEGER, PLACE(attn_type),
     "0: the paper's; 1: learned distances; 2: absolute sinusoids; 3: learned positions",
     .standard = "0", .most = 3},
    TGT_LEN_ROW(.section = "Training", .standard = TEXT_OF(TRAIN_TGT_LEN) ", or --init's",
                .offset = PLACE(tgt_len)),
    {"ext-len", OPTION_INTEGER, PLACE(ext_len),
     "with --mem-len 0: read N tokens before each segment again, and predict none of them",
     .standard = "0", .most = TXL_MAX_TGT_LEN},
    MEM_LEN_ROW(.standard = TEXT_OF(TRAIN_MEM_LEN) ", 0 with --attn-type 2 or 3, or --init's",
                .offset = PLACE(mem_len)),
    CLAMP_LEN_ROW(.standard = "none, or --init's", .offset = PLACE(clamp_len)),
    SAME_LENGTH_ROW(.standard = "no, or --init's", .offset = PLACE(same_length)),
    SIZE_ROW("batch", batch, TEXT_OF(TRAIN_BATCH) ", fewer for a short text",
             "cut the text into N streams", 1 << 20),
    {"forget-every", OPTION_INTEGER, PLACE(forget_every),
     "empty the memory every N steps; 0: only where the text begins", .standard = "0",
     .most = INT32_MAX},
    REAL_ROW("lr", lr,
             TEXT_OF(TRAIN_LR) ", with --init the model's own, else " TEXT_OF(TRAIN_INIT_LR),
             "largest learning rate", 1),
    REAL_ROW("lr-min", lr_min, TEXT_OF(TRAIN_LR_MIN), "learning rate at the cosine's end", 1),
    {"warmup", OPTION_INTEGER, PLACE(warmup), "let the learning rate rise for N steps",
     .standard = TEXT_OF(TRAIN_WARMUP) ", at most a tenth of the run", .most = MOST_INTEGER},
    {"optimizer", OPTION_CHOICE, PLACE(optimizer),
     "adam, or muon: orthogonalised momentum of the layers' matrices, in fewer steps",
     .choices = train_optimizers, .standard = "adam"},
    REAL_ROW("muon-lr", muon_lr, TEXT_OF(TRAIN_MUON) " times --lr",
             "with --optimizer muon: largest learning rate of the layers' matrices", 10),
    REAL_ROW("clip", clip, TEXT_OF(TRAIN_CLIP), "largest gradient norm; 0: no limit", 1e9),
    {"epsilon", OPTION_REAL, PLACE(epsilon), "epsilon of Adam", .standard = TEXT_OF(TRAIN_EPSILON),
     .least = 1e-30, .most = 1},
    REAL_ROW("dropout", dropout, TEXT_OF(TRAIN_DROPOUT) ", 0 where --init's model states its rate",
             "drop this share of activations", 0.99),
    REAL_ROW("dropatt", dropatt, TEXT_OF(TRAIN_DROPATT), "drop this share of attention weights",
             0.99),
    SIZE_ROW("steps", steps,
             TEXT_OF(TRAIN_STEPS) ", at most " TEXT_OF(
                 TRAIN_EPOCHS) " epochs, with --init " TEXT_OF(TRAIN_INIT_EPOCHS),
             "end after N steps", MOST_INTEGER),
    SIZE_ROW("epochs", epochs, NULL, "end after N passes over the text", MOST_INTEGER),
    {"hours", OPTION_REAL, PLACE(hours), "end after H hours; the rate follows the clock",
     .argument = "H", .least = 0.0001, .most = 1e6},
    SIZE_ROW("eval-every", eval_every, TEXT_OF(TRAIN_EVAL_EVERY) ", at most half an epoch",
             "evaluate every N steps", MOST_INTEGER),
    {"patience", OPTION_INTEGER, PLACE(patience),
     "end after N evaluations in a row without a better model; 0: never",
     .standard = TEXT_OF(TRAIN_PATIENCE) ", none with --steps, --epochs or --hours",
     .most = MOST_INTEGER},
    SIZE_ROW("save-every", save_every, TEXT_OF(TRAIN_SAVE_EVERY), "write the state every N steps",
             MOST_INTEGER),
    {"seed", OPTION_INTEGER, PLACE(seed), "seed the first weights and dropout",
     .standard = TEXT_OF(TRAIN_SEED), .most = MOST_INTEGER},
    {"compute", OPTION_CHOICE, PLACE(compute),
     "multiply in f32, or in bf16: faster with AMX or AVX-512 BF16", .choices = train_computes,
     .standard = "f32"},
    COMMON_ROWS,
    {0}};
