/* The published shapes and evaluations as commands use them. */
#include "published.h"

#include "lib/base/json_memory.h"

#include <jansson.h>
#include <stddef.h>
#include <string.h>

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
static const struct published small = {"small", false, 6,  320,     5,    64, 1280, 128,
                                       128,     -1,    16, "words", 4096, 1,  0,    NULL};

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
