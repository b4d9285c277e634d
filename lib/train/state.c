/* The state of a training, and resuming from it.  weights-format.md specifies the file. */
#include "lib/base/error.h"
#include "lib/base/json_memory.h"
#include "lib/network/family.h"
#include "saved_file.h"
#include "training.h"

#include <stdlib.h>
#include <string.h>

struct txl_saved {
    struct saved_file file;
    json_t *description;
    txl_model *model;
    txl_training how;
};

/* ---- Writing ------------------------------------------------------------------------------ */

static json_t *describe_ids(const txl_ids *ids) {
    /* JSON integers are signed. */
    return json_pack("{s:I, s:I}", "count", (json_int_t)txl_ids_count(ids), "checksum",
                     (json_int_t)txl_ids_checksum(ids));
}

static char *describe_state(const txl_trainer *trainer, const char *note) {
    const struct training *t = &trainer->training;
    const txl_training *how = &t->how;
    json_t *description = json_pack(
        "{s:O, s:{s:i, s:i, s:i, s:i, s:i, s:b, s:f, s:f, s:f, s:f, s:b, s:I, s:i, s:f}, s:I, s:I, "
        "s:I, s:I, s:o, s:s}",
        "model", t->model->json, "training", "batch", (int)t->streams, "tgt_len", how->tgt_len,
        "ext_len", how->ext_len, "mem_len", how->mem_len, "clamp_len", how->clamp_len,
        "same_length", how->same_length, "clip", how->clip, "epsilon", how->epsilon, "dropout",
        how->dropout, "dropatt", how->dropatt, "bf16", how->bf16, "seed", (json_int_t)how->seed,
        "forget_every", how->forget_every, "muon", how->muon, "step", (json_int_t)trainer->step,
        "epoch", (json_int_t)trainer->epoch, "at", (json_int_t)trainer->at, "memory_length",
        (json_int_t)t->memory_length, "text", describe_ids(trainer->ids_read), "note", note);
    char *text =
        description ? json_text(description, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(description);
    return text;
}

/* Gathers the memory of all processes' streams, layer by layer; the caller frees it.  It is a sum
 * over the processes, in which each has zeros for the others' streams. */
static txl_status gather_memory(const struct training *t, float **memory, txl_error *error) {
    size_t layers = (size_t)t->net->n_layer, row = t->memory_length * (size_t)t->net->d_model;
    size_t n = layers * t->streams * row;
    float *all = calloc(n + 1, sizeof *all);
    double lacking = all ? 0 : 1;
    txl_status status = train_sum_double(t, &lacking, error);
    if (!status && lacking > 0)
        status = txl_fail_memory(error, "a state", n * sizeof *all);
    for (size_t l = 0; l < layers && !status; l++)
        memcpy(all + (l * t->streams + t->first_stream) * row, t->layer[l].memory,
               t->batch * row * sizeof *all);
    if (!status)
        status = train_sum(t, all, n, error);
    if (status) {
        free(all);
        all = NULL;
    }
    *memory = all;
    return status;
}

/* `gathered` is the memory of all processes; NULL if there is only this one. */
static txl_status write_memory(struct saved_writer *w, const struct training *t,
                               const float *gathered, txl_error *error) {
    size_t layers = (size_t)t->net->n_layer;
    size_t size = t->streams * t->memory_length * (size_t)t->net->d_model * sizeof(float);
    struct saved_piece *piece = calloc(layers, sizeof *piece);
    if (!piece)
        return txl_fail_memory(error, "a state", layers * sizeof *piece);
    for (size_t l = 0; l < layers; l++)
        piece[l] = gathered ? (struct saved_piece){gathered + l * size / sizeof *gathered, size}
                            : (struct saved_piece){t->layer[l].memory, size};
    txl_status status = saved_write_part(w, PART_MEMORY, piece, layers, error);
    free(piece);
    return status;
}

static txl_status write_parts(struct saved_writer *w, const txl_trainer *trainer,
                              const float *gathered, const char *description, txl_error *error) {
    const struct training *t = &trainer->training;
    const struct weights *weights = t->model->weights;
    const size_t all = t->n_weight * sizeof(float), moment = t->n_parameter * sizeof(float);
    const size_t second = t->n_adam * sizeof(float);
    const struct saved_piece parts[PART_MEMORY][2] = {
        [PART_DESCRIPTION] = {{description, strlen(description)}},
        [PART_VOCABULARY] = {{weights->vocabulary, weights->vocabulary_size}},
        [PART_WEIGHTS] = {{t->weight, all}},
        [PART_MOMENTS] = {{t->extra[MOMENT_1], moment}, {t->extra[MOMENT_2], second}},
        [PART_KEPT] = {{t->extra[KEPT], trainer->keeps ? all : 0}},
    };
    txl_status status = TXL_OK;
    for (int i = 0; i < PART_MEMORY && !status; i++)
        status =
            saved_write_part(w, (enum saved_part)i, parts[i], i == PART_MOMENTS ? 2 : 1, error);
    return status ? status : write_memory(w, t, gathered, error);
}

static txl_status write_state(const txl_trainer *t, const float *gathered, const char *path,
                              const char *note, txl_error *error) {
    char *description = describe_state(t, note);
    if (!description)
        return txl_fail_memory(error, "a state", 4096);
    struct saved_writer w;
    txl_status status = saved_begin(&w, path, error);
    if (t->training.how.ext_len > 0)
        w.header.major = SAVED_MAJOR_EXT_LEN;
    if (!status)
        status = write_parts(&w, t, gathered, description, error);
    status = saved_end(&w, status, error);
    free(description);
    return status;
}

txl_status txl_trainer_save(const txl_trainer *t, const char *path, const char *note,
                            txl_error *error) {
    const txl_peers *peers = t->training.how.peers;
    float *gathered = NULL;
    txl_status status = peers ? gather_memory(&t->training, &gathered, error) : TXL_OK;
    if (!status && (!peers || peers->rank == 0))
        status = write_state(t, gathered, path, note, error);
    free(gathered);
    return status;
}

/* ---- Reading ------------------------------------------------------------------------------ */

/* A failure that names what is wrong in the file, but not the file. */
static txl_status in_file(const txl_saved *s, txl_status status, txl_error *error) {
    char message[sizeof error->message];
    if (!error || status == TXL_MEMORY)
        return status;
    memcpy(message, error->message, sizeof message);
    return txl_fail(error, status, "%s: %s", s->file.mapped.path, message);
}

static txl_status read_description(txl_saved *s, txl_error *error) {
    json_error_t where;
    txl_training *how = &s->how;
    json_int_t seed;
    int same_length, bf16;
    s->description = json_loadb((const char *)s->file.part[PART_DESCRIPTION],
                                (size_t)s->file.header.part[PART_DESCRIPTION].size, 0, &where);
    if (!s->description)
        return saved_not_unpacked(&s->file, &where, error);
    if (json_object_get(s->description, "rows"))
        return saved_damaged(&s->file, "the state of a head's training, not of a model's", error);
    if (json_unpack_ex(s->description, &where, 0,
                       "{s:{s:i, s:i, s?i, s:i, s:i, s:b, s:F, s:F, s:F, s:F, s:b, s:I, s:i, s:F}}",
                       "training", "batch", &how->batch, "tgt_len", &how->tgt_len, "ext_len",
                       &how->ext_len, "mem_len", &how->mem_len, "clamp_len", &how->clamp_len,
                       "same_length", &same_length, "clip", &how->clip, "epsilon", &how->epsilon,
                       "dropout", &how->dropout, "dropatt", &how->dropatt, "bf16", &bf16, "seed",
                       &seed, "forget_every", &how->forget_every, "muon", &how->muon) != 0)
        return saved_not_unpacked(&s->file, &where, error);
    if (!json_is_string(json_object_get(s->description, "note")))
        return saved_damaged(&s->file, "the state's settings are damaged", error);
    how->same_length = same_length;
    how->bf16 = bf16;
    how->seed = (uint64_t)seed;
    return TXL_OK;
}

/* Makes a model of the saved shape and vocabulary. */
static txl_status make_model(txl_saved *s, txl_error *error) {
    json_t *settings = json_object_get(s->description, "model");
    if (!json_is_object(settings))
        return saved_damaged(&s->file, "the state's settings are damaged", error);
    char *text = json_text(settings, JSON_COMPACT);
    if (!text)
        return txl_fail_memory(error, "a state",
                               (uint64_t)s->file.header.part[PART_DESCRIPTION].size);
    const struct random_model how = {.types = {WEIGHTS_F32, WEIGHTS_F32},
                                     .threads = 1,
                                     .vocabulary = s->file.part[PART_VOCABULARY],
                                     .vocabulary_size =
                                         (size_t)s->file.header.part[PART_VOCABULARY].size,
                                     .most = s->file.header.part[PART_WEIGHTS].size};
    txl_status status = model_make(text, &how, &s->model, error);
    free(text);
    if (status)
        return in_file(s, status, error);
    const struct model_settings *own = s->model->settings;
    s->how.name = *own->name != '\0' ? own->name : NULL;
    return TXL_OK;
}

static txl_status open_saved(txl_saved *s, const char *path, txl_error *error) {
    txl_status status = saved_file_open(&s->file, path, error);
    if (!status)
        status = read_description(s, error);
    return status ? status : make_model(s, error);
}

txl_status txl_saved_open(const char *path, txl_saved **saved, txl_error *error) {
    txl_saved *s = calloc(1, sizeof *s);
    if (!s)
        return txl_fail_memory(error, "a state", sizeof *s);
    txl_status status = open_saved(s, path, error);
    if (status) {
        txl_saved_free(s);
        return status;
    }
    *saved = s;
    return TXL_OK;
}

void txl_saved_free(txl_saved *s) {
    if (!s)
        return;
    txl_model_close(s->model);
    json_decref(s->description);
    saved_file_close(&s->file);
    free(s);
}

const char *txl_saved_note(const txl_saved *s) {
    return json_string_value(json_object_get(s->description, "note"));
}

void txl_saved_training(const txl_saved *s, txl_training *training) {
    *training = s->how;
}

const txl_model *txl_saved_model(const txl_saved *s) {
    return s->model;
}

/* ---- Going on ----------------------------------------------------------------------------- */

static txl_status check_text(const txl_saved *s, const txl_ids *ids, txl_error *error) {
    json_t *text = describe_ids(ids);
    if (!text)
        return txl_fail_memory(error, "a state", 64);
    bool same = json_equal(text, json_object_get(s->description, "text"));
    json_decref(text);
    return same
               ? TXL_OK
               : txl_fail(error, TXL_ARGUMENT,
                          "%s: was trained on another text; a run continues with the texts that it "
                          "began with, in their order",
                          s->file.mapped.path);
}

static txl_status restore(const txl_saved *s, txl_trainer *trainer, txl_error *error) {
    struct training *t = &trainer->training;
    json_int_t step = -1, epoch = -1, at = -1, memory_length = -1;
    size_t d = (size_t)t->net->d_model, layers = (size_t)t->net->n_layer;
    json_error_t where;
    if (json_unpack_ex(s->description, &where, 0, "{s:I, s:I, s:I, s:I}", "step", &step, "epoch",
                       &epoch, "at", &at, "memory_length", &memory_length) != 0)
        return saved_not_unpacked(&s->file, &where, error);
    if (step < 0 || epoch < 0 || at < 0 || (uint64_t)at >= trainer->stream || memory_length < 0 ||
        memory_length > t->how.mem_len)
        return saved_damaged(&s->file, "the state's place is damaged", error);
    size_t row = (size_t)memory_length * d * sizeof(float), memory = t->streams * row;
    size_t moments = t->n_parameter * sizeof(float), weights = t->n_weight * sizeof(float);
    size_t second = t->n_adam * sizeof(float);
    uint64_t kept = s->file.header.part[PART_KEPT].size;
    if (s->file.header.part[PART_WEIGHTS].size != weights ||
        s->file.header.part[PART_MOMENTS].size != moments + second ||
        (kept > 0 && kept != weights) || s->file.header.part[PART_MEMORY].size != memory * layers)
        return saved_damaged(&s->file, "the state does not fit its settings", error);
    memcpy(t->weight, s->file.part[PART_WEIGHTS], weights);
    memcpy(t->extra[MOMENT_1], s->file.part[PART_MOMENTS], moments);
    memcpy(t->extra[MOMENT_2], s->file.part[PART_MOMENTS] + moments, second);
    memcpy(t->extra[KEPT], s->file.part[PART_KEPT], (size_t)kept);
    trainer->keeps = kept > 0;
    for (size_t l = 0; l < layers; l++)
        memcpy(t->layer[l].memory, s->file.part[PART_MEMORY] + l * memory + t->first_stream * row,
               t->batch * row);
    trainer->step = (uint64_t)step;
    trainer->epoch = (uint64_t)epoch;
    trainer->at = (size_t)at;
    t->memory_length = (size_t)memory_length;
    train_positions(t);
    return TXL_OK;
}

txl_status txl_saved_resume(const txl_saved *s, const txl_ids *ids, int threads,
                            const txl_peers *peers, txl_trainer **trainer, txl_error *error) {
    txl_training how = s->how;
    how.threads = threads;
    how.peers = peers;
    txl_trainer *t = NULL;
    txl_status status = check_text(s, ids, error);
    if (status)
        return status;
    status = txl_trainer_new(s->model, ids, &how, &t, error);
    if (status)
        return in_file(s, status, error);
    status = restore(s, t, error);
    if (status) {
        txl_trainer_free(t);
        return status;
    }
    *trainer = t;
    return TXL_OK;
}
