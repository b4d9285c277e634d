/* Describes a checkpoint: the settings that its weights file would have, as far as they are known.
 */
#include "converter.h"
#include "lib/base/error.h"
#include "lib/base/json_memory.h"
#include "recognise.h"
#include "vocabulary_file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
