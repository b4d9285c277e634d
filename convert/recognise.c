/* Recognises a model by the names of its tensors, and its vocabulary by the number of symbols. */
#include "recognise.h"
#include "convert/containers/foreign.h"
#include "converter.h"
#include "lib/base/error.h"
#include "lib/base/files.h"
#include "lib/base/json_memory.h"
#include "published.h"
#include "vocabulary_file.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- JSON beside a checkpoint -------------------------------------------------------------- */

/* If stat fails for another reason, opening the file reports it. */
static bool is_there(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

txl_status config_file_load(const char *checkpoint, const char *name, char **config_path,
                            json_t **config, txl_error *error) {
    char *path;
    txl_status status =
        beside_find(checkpoint, beside_folder_length(checkpoint), &name, 1, is_there, &path, error);
    if (!status && path)
        status = foreign_read_json(path, foreign_refuse_pointer, 0, "", config, error);
    if (!status && path && !json_is_object(*config))
        status = txl_fail(error, TXL_FORMAT, "%s: expected a JSON object", path);
    if (!status && path)
        *config_path = path;
    else
        free(path);
    return status;
}

static const struct family_row {
    const struct name_table *names;
    const char *called; /* in messages */
    txl_kind pieces;
    const char *config[N_DIALECT]; /* the name of the JSON that states facts */
    recognition_step *const *steps;
} families[] = {{&xlnet_names,
                 "an XLNet",
                 TXL_XLNET,
                 {[DIALECT_PYTORCH] = "config.json", [DIALECT_TENSORFLOW] = "xlnet_config.json"},
                 xlnet_steps},
                {&transformer_xl_names,
                 "a Transformer-XL",
                 TXL_PIECES,
                 {[DIALECT_PYTORCH] = "config.json", [DIALECT_TENSORFLOW] = "corpus-info.json"},
                 transformer_xl_steps}};
enum { N_FAMILY = sizeof families / sizeof *families };

void convert_options_init(struct convert_options *options) {
    *options = (struct convert_options){.level = -1,
                                        .attn_type = -1,
                                        .pre_lnorm = CONVERT_UNSET,
                                        .same_length = CONVERT_UNSET,
                                        .layer_norm_eps = -1,
                                        .tgt_len = -1,
                                        .mem_len = -1};
}

/* ---- The checkpoint ----------------------------------------------------------------------- */

/* The number of symbols of a pickle that is a vocabulary and nothing else; 0: it is none. */
static size_t count_symbols(const struct checkpoint *checkpoint) {
    struct vocabulary_file vocabulary;
    txl_error ignored;
    if (!checkpoint_root(checkpoint) || pickle_get(checkpoint_root(checkpoint), "model_state") ||
        vocabulary_file_read(checkpoint_path(checkpoint), &vocabulary, &ignored))
        return 0;
    size_t n = vocabulary.n_symbol;
    vocabulary_file_free(&vocabulary);
    return n;
}

txl_status recognise_nothing(const struct recognised *r, const char *name, txl_error *error) {
    const struct checkpoint *checkpoint = r->checkpoint;
    const char *path = checkpoint_path(checkpoint);
    const size_t n_symbol = count_symbols(checkpoint);
    if (n_symbol > 0)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: a vocabulary of %zu symbols, not a checkpoint; name the checkpoint, "
                        "and this file with --vocab",
                        path, n_symbol);
    for (size_t i = 0; i < checkpoint_n_tensor(checkpoint); i++)
        if (strstr(checkpoint_tensor_at(checkpoint, i)->name, "/.ATTRIBUTES/"))
            return txl_fail(error, TXL_UNSUPPORTED,
                            "%s: an object-based checkpoint of TensorFlow 2, of other code than "
                            "the published models; convert the authors' own checkpoint, or a model "
                            "for PyTorch",
                            path);
    return txl_fail(error, TXL_UNSUPPORTED,
                    "%s: %s: no tensor named %s among its %zu (txl info --tensors lists them)",
                    path,
                    checkpoint_is_bundle(checkpoint)
                        ? "neither a Transformer-XL nor an XLNet of their authors' code"
                        : "not a Transformer-XL",
                    name, checkpoint_n_tensor(checkpoint));
}

/* Refuses options that mean nothing to the family. */
static txl_status refuse_options(const struct convert_options *o, const struct family_row *family,
                                 txl_error *error) {
    const struct {
        const struct name_table *names;
        bool given;
        const char *option, *reason;
    } refused[] = {
        {&transformer_xl_names, o->activation, "--activation", "its activation is relu"},
        {&xlnet_names, o->n_head > 0, "--n-head", "its tensors' shapes have the heads"},
        {&xlnet_names, o->attn_type >= 0, "--attn-type", "config.json's attn_type is bi or uni"},
        {&xlnet_names, o->cutoffs, "--cutoffs", "its softmax is plain"},
        {&xlnet_names, o->pre_lnorm != CONVERT_UNSET, "--pre-lnorm", "it normalises sums"},
        {&xlnet_names, o->same_length != CONVERT_UNSET, "--same-length", "it sees both sides"},
        {&xlnet_names, o->memory_start, "--memory-start", "its memory starts empty"},
        {&xlnet_names, o->cluster_order, "--cluster-order", "its softmax is plain"},
        {&xlnet_names, o->layer_norm_eps >= 0, "--layer-norm-eps",
         "config.json's layer_norm_eps is it"},
        {&xlnet_names, o->same_length_reach, "--same-length-reach", "it sees both sides"},
        {&xlnet_names, o->dynamic_lr > 0, "--dynamic-lr", "only a Transformer-XL learns"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (refused[i].names == family->names && refused[i].given)
            return txl_fail(error, TXL_ARGUMENT, "%s means nothing to %s: %s", refused[i].option,
                            family->called, refused[i].reason);
    return TXL_OK;
}

txl_status recognise(const char *source, const struct convert_options *options,
                     struct recognised *r, txl_error *error) {
    size_t family = 0;
    *r = (struct recognised){.checkpoint = NULL};
    txl_status status = checkpoint_open(source, &r->checkpoint, error);
    if (status)
        return status;
    while (family < N_FAMILY && !names_find(families[family].names, r->checkpoint, &r->names))
        family++;
    if (family == N_FAMILY)
        return recognise_nothing(r,
                                 checkpoint_is_bundle(r->checkpoint)
                                     ? "transformer/layer_0/rel_attn/qkv/kernel"
                                     : "layers.0.dec_attn.o_net.weight",
                                 error);
    r->pieces = families[family].pieces;
    struct recognition recognition = {.recognised = r,
                                      .options = options,
                                      .names = &r->names,
                                      .tensorflow = r->names.dialect == DIALECT_TENSORFLOW,
                                      .nvidia = r->names.dialect == DIALECT_NVIDIA,
                                      .path = checkpoint_path(r->checkpoint),
                                      .config_name = families[family].config[r->names.dialect],
                                      .error = error};
    status = refuse_options(options, &families[family], error);
    for (recognition_step *const *step = families[family].steps; *step && !status; step++)
        status = (*step)(&recognition);
    if (!status)
        status = r->names.table->family->check(&r->settings, recognition.path, TXL_FORMAT, error);
    json_decref(recognition.config);
    return status;
}

void recognised_free(struct recognised *r) {
    checkpoint_close(r->checkpoint);
    json_decref(r->labels);
    free(r->config_path);
}

txl_status recognise_complete(const struct recognised *r, txl_error *error) {
    if (r->missing[0] == '\0')
        return TXL_OK;
    return txl_fail(error, TXL_ARGUMENT,
                    "%s: does not state all of its settings; add what it was trained with:%s",
                    checkpoint_path(r->checkpoint), r->missing);
}

/* ---- Dimensions --------------------------------------------------------------------------- */

/* The family's own setting of that key, or one of a text; NULL: it has none. */
static const struct setting *find_setting(const struct family *family, const char *key) {
    const struct setting_table *const tables[] = {family->settings, &settings_of_text};
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; i < tables[t]->n; i++)
            if (strcmp(tables[t]->setting[i].key, key) == 0)
                return &tables[t]->setting[i];
    return NULL;
}

txl_status recognise_dimensions(const struct recognition *s, recognition_statement *state) {
    static const char *const keys[] = {"n_layer", "n_head",  "d_head",     "d_model", "d_embed",
                                       "d_inner", "n_token", "vocab_size", "max_klen"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *key = keys[i], *name = strcmp(key, "vocab_size") == 0 ? "n_token" : key;
        const struct setting *setting = find_setting(s->names->table->family, name);
        if (!setting)
            continue;
        int value;
        memcpy(&value, (const char *)&s->recognised->settings + setting->place, sizeof value);
        if (value > setting->high)
            return txl_fail(s->error, TXL_UNSUPPORTED, "%s: %s is %d; txl runs up to %lld", s->path,
                            key, value, setting->high);
        int stated = value;
        txl_status status = value > 0 ? state(s, key, &stated) : TXL_OK;
        if (!status && stated != value)
            status = txl_fail(s->error, TXL_FORMAT,
                              "%s: %s is stated as %d, but the tensors are those of %d",
                              s->stated_in, key, stated, value);
        if (status)
            return status;
    }
    return TXL_OK;
}

/* ---- The vocabulary ----------------------------------------------------------------------- */

static txl_status check_size(const struct recognised *r, const struct vocabulary_file *file,
                             size_t n, txl_error *error) {
    if (n == (size_t)r->settings.model.n_token)
        return TXL_OK;
    return txl_fail(error, TXL_FORMAT,
                    "%s: %zu symbols, but the model in %s has %d: this is not its vocabulary",
                    file->map.path, n, checkpoint_path(r->checkpoint), r->settings.model.n_token);
}

/* Packs the file's symbols or pieces, as many as the model has. */
static txl_status pack(const struct recognised *r, const struct vocabulary_file *file,
                       const char *tokenizer, struct convert_vocabulary *vocabulary,
                       txl_error *error) {
    if (r->by_dataset && !tokenizer && !file->model.data && !file->n_piece && !file->characters) {
        const char *dataset = r->dataset[0] ? r->dataset : file->dataset;
        tokenizer = published_tokenizer(dataset);
        if (!tokenizer && dataset)
            return txl_fail(error, TXL_ARGUMENT,
                            "%s: a vocabulary of the dataset \"%s\", whose kind of text is not "
                            "known; add --tokenizer",
                            file->map.path, dataset);
        if (!tokenizer)
            return txl_fail(error, TXL_ARGUMENT,
                            "%s: the kind of its text follows from the dataset, which neither it "
                            "nor a corpus-info.json names; add --tokenizer",
                            file->map.path);
    }
    txl_status status = file->n_piece ? check_size(r, file, file->n_piece, error) : TXL_OK;
    if (!status)
        status = vocabulary_file_pack(file, tokenizer, r->pieces, vocabulary, error);
    return status ? status : check_size(r, file, (size_t)vocabulary->n, error);
}

txl_status recognise_find_vocabulary(const struct recognised *r, char **path, txl_error *error) {
    const char *checkpoint = checkpoint_path(r->checkpoint);
    if (r->names.dialect != DIALECT_NVIDIA || !pickle_get(checkpoint_root(r->checkpoint), "vocab"))
        return vocabulary_file_find(checkpoint, path, error);
    *path = strdup(checkpoint);
    return *path ? TXL_OK : txl_fail_memory(error, "a file name", strlen(checkpoint));
}

txl_status recognise_vocabulary(struct recognised *r, const char *path, const char *tokenizer,
                                struct convert_vocabulary *vocabulary, txl_error *error) {
    struct vocabulary_file file;
    struct model_settings *text = &r->settings.model;
    *vocabulary = (struct convert_vocabulary){.section = NULL};
    txl_status status = vocabulary_file_read(path, &file, error);
    if (!status)
        status = pack(r, &file, tokenizer, vocabulary, error);
    vocabulary_file_free(&file);
    text->tokenizer = vocabulary->kind;
    text->lower_case = vocabulary->lower_case;
    text->unk_id = vocabulary->unk;
    text->eos_id = vocabulary->eos;
    return status;
}

/* ---- What a weights file would say --------------------------------------------------------- */

/* Sets the settings that options would have to state to null: "--n-head N" the key n_head. */
static bool forget_missing(json_t *settings, const char *missing) {
    bool good = true;
    for (const char *option = missing; good && (option = strstr(option, "--")); option += 2) {
        char key[32] = "";
        sscanf(option, "--%31[^ ]", key);
        for (char *dash = key; (dash = strchr(dash, '-'));)
            *dash = '_';
        good = json_object_set_new(settings, key, json_null()) == 0;
        if (strcmp(key, "n_head") == 0)
            good = good && json_object_set_new(settings, "d_head", json_null()) == 0;
    }
    return good;
}

/* Adds the settings that a file states only where they are not the usual ones. */
static bool add_usual(json_t *settings, const struct transformer_xl_settings *s) {
    json_t *usual = json_pack("{s:s, s:f}", "same_length_reach",
                              same_length_reach_name((uint32_t)s->same_length_reach),
                              "layer_norm_eps", s->layer_norm_eps);
    bool good = usual && json_object_update_missing(settings, usual) == 0;
    json_decref(usual);
    return good;
}

/* The settings as far as they are known; NULL when memory is short. */
static char *describe_settings(const struct recognised *r, bool has_text) {
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

/* A vocabulary that is missing, or that the conversion would refuse, is no failure. */
static txl_status describe(struct recognised *r, struct convert_description *d, txl_error *error) {
    struct convert_vocabulary vocabulary = {.section = NULL};
    txl_status found = recognise_find_vocabulary(r, &d->vocabulary, error);
    txl_status read =
        found ? found : recognise_vocabulary(r, d->vocabulary, NULL, &vocabulary, error);
    free(vocabulary.section);
    if (read == TXL_MEMORY)
        return read;
    d->settings = describe_settings(r, !read);
    snprintf(d->missing, sizeof d->missing, "%s%s%s", r->missing, found ? " --vocab FILE" : "",
             !found && read == TXL_ARGUMENT ? " --tokenizer KIND" : "");
    return d->settings ? TXL_OK : txl_fail_memory(error, "the settings", 4096);
}

txl_status convert_describe(const char *source, struct convert_description *d, txl_error *error) {
    struct convert_options options;
    struct recognised r;
    *d = (struct convert_description){0};
    convert_options_init(&options);
    txl_status status = recognise(source, &options, &r, error);
    if (!status)
        status = describe(&r, d, error);
    recognised_free(&r);
    return status;
}

void convert_description_free(struct convert_description *d) {
    free(d->settings);
    free(d->vocabulary);
    *d = (struct convert_description){0};
}
