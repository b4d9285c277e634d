/* Whole models of a few hundred weights. */
#include "tiny.h"

#include "convert/converter.h"
#include "lib/base/numbers.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const struct tiny tiny_models[] = {
    {"words", 0, 4, 1, NULL, false, false, false, "empty", "f32", 1},
    {"words", 0, 4, 2, NULL, false, true, true, "zeros", "f32", 0},
    {"words", 0, 4, 1, "3,8", true, false, false, "zeros", "f16", 0},
    {"lm1b", 1, 4, 2, NULL, false, false, false, "empty", "bf16", 1},
    {"bytes", 2, 4, 1, NULL, false, false, false, "empty", "f32", 0},
    {"text8", 3, 4, 1, NULL, true, false, false, "empty", "f32", 1},
    {"characters", 0, 64, 1, NULL, false, false, false, "empty", "q8", 0},
    {"characters", 0, 64, 2, NULL, false, true, false, "zeros", "q8", 1},
    {"characters", 0, 64, 1, NULL, true, false, false, "empty", "q4", 1},
    {"characters", 0, 64, 2, NULL, false, true, false, "zeros", "q5:q8", 0},
    {"xlnet", 0, 4, 1, NULL, false, false, false, NULL, "f32", 0, "gelu"},
    {"xlnet", 1, 4, 1, NULL, false, true, false, NULL, "bf16", 1, "relu"},
    {"xlnet", 0, 64, 1, NULL, false, false, false, NULL, "q8", 1, "swish"},
    {.tokenizer = NULL},
};

enum { N_LAYER = 2, N_HEAD = 2, D_HEAD = 2, D_INNER = 6, D_EMBED = 4, N_CUT = 5, MAX_MODEL = 16 };

const char tiny_pieces[] = "\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02"
                           "\x0a\x0d\x0a\x04</s>\x15\0\0\0\0\x18\x03"
                           "\x0a\x0e\x0a\x05<eod>\x15\0\0\0\0\x18\x03"
                           "\x0a\x0f\x0a\x06<mask>\x15\0\0\0\0\x18\x03"
                           "\x0a\x0e\x0a\x05<eop>\x15\0\0\0\0\x18\x04"
                           "\x0a\x0a\x0a\x03\xe2\x96\x81\x15\0\0\0\xc0"
                           "\x0a\x08\x0a\x01"
                           "a\x15\0\0\x40\xc0"
                           "\x0a\x09\x0a\x02"
                           "ab\x15\0\0\x80\xc0"
                           "\x0a\x0b\x0a\x02"
                           "ba\x15\0\0\x80\xc0\x18\x05"
                           "\x0a\x09\x0a\x02"
                           "1,\x15\0\0\x80\xc0"
                           "\x0a\x08\x0a\x01"
                           "1\x15\0\0\x80\xc0"
                           "\x0a\x08\x0a\x01"
                           ",\x15\0\0\x80\xc0";
const size_t tiny_pieces_size = sizeof tiny_pieces - 1;

/* ---- The checkpoint ----------------------------------------------------------------------- */

struct header {
    FILE *out;
    uint64_t end; /* of the elements so far */
};

/* Adds a tensor of n_dim dimensions, which follow, under a printed name. */
static void add(struct header *header, const char *name, int n_dim, ...) {
    uint64_t n = 1;
    va_list shape;
    va_start(shape, n_dim);
    fprintf(header->out, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[", header->end ? "," : "", name);
    for (int d = 0; d < n_dim; d++) {
        int length = va_arg(shape, int);
        n *= (uint64_t)length;
        fprintf(header->out, "%s%d", d ? "," : "", length);
    }
    va_end(shape);
    fprintf(header->out, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", header->end,
            header->end + 4 * n);
    header->end += 4 * n;
}

/* The name of the i-th of several, valid until the next call. */
static const char *numbered(const char *before, int i, const char *after) {
    static char name[128];
    snprintf(name, sizeof name, "%s%d%s", before, i, after);
    return name;
}

static void add_bands(struct header *header, const struct tiny *m) {
    int n_embedding = m->div_val > 1 ? 2 : 1, clusters = m->div_val > 1 ? 1 : m->cutoffs ? 2 : 0;
    for (int i = 0; i < n_embedding; i++) {
        int width = i == 0 ? D_EMBED : D_EMBED / m->div_val;
        int rows = n_embedding == 1 ? TINY_TOKENS : i == 0 ? N_CUT : TINY_TOKENS - N_CUT;
        add(header, numbered("word_emb.emb_layers.", i, ".weight"), 2, rows, width);
        if (m->untied)
            add(header, numbered("crit.out_layers.", i, ".weight"), 2, rows, width);
        add(header, numbered("crit.out_layers.", i, ".bias"), 1, rows);
        if (m->div_val > 1 || m->d_model != D_EMBED) {
            add(header, numbered("word_emb.emb_projs.", i, ""), 2, m->d_model, width);
            if (m->untied)
                add(header, numbered("crit.out_projs.", i, ""), 2, m->d_model, width);
        }
    }
    if (clusters > 0) {
        add(header, "crit.cluster_weight", 2, clusters, D_EMBED);
        add(header, "crit.cluster_bias", 1, clusters);
    }
}

static void add_layer(struct header *header, const struct tiny *m, int n) {
    const int width = N_HEAD * D_HEAD;
    char prefix[32];
    snprintf(prefix, sizeof prefix, "layers.%d.", n);
    const struct {
        const char *name;
        int rows, columns; /* columns 0: a vector; rows 0: not in this kind */
    } parts[] = {
        {"dec_attn.qkv_net.weight", m->attn_type < 2 ? 3 * width : 0, m->d_model},
        {"dec_attn.q_net.weight", m->attn_type < 2 ? 0 : width, m->d_model},
        {"dec_attn.kv_net.weight", m->attn_type < 2 ? 0 : 2 * width, m->d_model},
        {"dec_attn.r_net.weight", m->attn_type == 0 ? width : 0, m->d_model},
        {"dec_attn.r_w_bias", m->own_biases ? N_HEAD : 0, D_HEAD},
        {"dec_attn.r_r_bias", m->own_biases ? N_HEAD : 0, D_HEAD},
        {"dec_attn.o_net.weight", m->d_model, width},
        {"dec_attn.layer_norm.weight", m->d_model, 0},
        {"dec_attn.layer_norm.bias", m->d_model, 0},
        {"pos_ff.CoreNet.0.weight", D_INNER, m->d_model},
        {"pos_ff.CoreNet.0.bias", D_INNER, 0},
        {"pos_ff.CoreNet.3.weight", m->d_model, D_INNER},
        {"pos_ff.CoreNet.3.bias", m->d_model, 0},
        {"pos_ff.layer_norm.weight", m->d_model, 0},
        {"pos_ff.layer_norm.bias", m->d_model, 0},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", prefix, parts[i].name);
        if (parts[i].rows > 0)
            add(header, name, parts[i].columns ? 2 : 1, parts[i].rows, parts[i].columns);
    }
}

static void add_positions(struct header *header, const struct tiny *m) {
    if (m->attn_type == 0 && !m->own_biases) {
        add(header, "r_w_bias", 2, N_HEAD, D_HEAD);
        add(header, "r_r_bias", 2, N_HEAD, D_HEAD);
    }
    if (m->attn_type == 1) {
        add(header, "r_w_bias", 3, N_LAYER, N_HEAD, D_HEAD);
        add(header, "r_bias", 3, N_LAYER, TINY_POSITIONS, N_HEAD);
    }
    if (m->attn_type == 1 || m->attn_type == 3)
        add(header, "r_emb", 4, N_LAYER, TINY_POSITIONS, N_HEAD, D_HEAD);
}

static void add_xlnet_layer(struct header *header, const struct tiny *m, int n) {
    static const char *const projections[] = {"q", "k", "v", "o", "r"};
    static const char *const biases[] = {"r_w_bias", "r_r_bias", "r_s_bias"};
    static const char *const norms[] = {"rel_attn.layer_norm", "ff.layer_norm"};
    char prefix[64], name[128];
    snprintf(prefix, sizeof prefix, "transformer.layer.%d.", n);
    for (size_t i = 0; i < sizeof projections / sizeof *projections; i++) {
        snprintf(name, sizeof name, "%srel_attn.%s", prefix, projections[i]);
        add(header, name, 3, m->d_model, N_HEAD, D_HEAD);
    }
    for (size_t i = 0; i < sizeof biases / sizeof *biases; i++) {
        snprintf(name, sizeof name, "%srel_attn.%s", prefix, biases[i]);
        add(header, name, 2, N_HEAD, D_HEAD);
    }
    snprintf(name, sizeof name, "%srel_attn.seg_embed", prefix);
    add(header, name, 3, 2, N_HEAD, D_HEAD);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s%s.%s", prefix, norms[i / 2], i % 2 ? "bias" : "weight");
        add(header, name, 1, m->d_model);
    }
    for (int i = 1; i <= 2; i++) {
        int rows = i == 1 ? D_INNER : m->d_model, columns = i == 1 ? m->d_model : D_INNER;
        snprintf(name, sizeof name, "%sff.layer_%d.weight", prefix, i);
        add(header, name, 2, rows, columns);
        snprintf(name, sizeof name, "%sff.layer_%d.bias", prefix, i);
        add(header, name, 1, rows);
    }
}

static void add_xlnet(struct header *header, const struct tiny *m) {
    add(header, "transformer.mask_emb", 3, 1, 1, m->d_model);
    add(header, "transformer.word_embedding.weight", 2, TINY_TOKENS, m->d_model);
    for (int n = 0; n < N_LAYER; n++)
        add_xlnet_layer(header, m, n);
    if (m->untied)
        add(header, "lm_loss.weight", 2, TINY_TOKENS, m->d_model);
    add(header, "lm_loss.bias", 1, TINY_TOKENS);
}

static void add_transformer_xl(struct header *header, const struct tiny *m) {
    add_bands(header, m);
    add_positions(header, m);
    for (int n = 0; n < N_LAYER; n++)
        add_layer(header, m, n);
}

char *tiny_header(const struct tiny *m, uint64_t *data_size) {
    char *json = NULL;
    size_t size = 0;
    struct header header = {.out = open_memstream(&json, &size)};
    fuzz_require(header.out, "out of memory");
    fputc('{', header.out);
    if (m->activation)
        add_xlnet(&header, m);
    else
        add_transformer_xl(&header, m);
    fputc('}', header.out);
    fclose(header.out);
    *data_size = header.end;
    return json;
}

char *tiny_config(const struct tiny *m) {
    char *json = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&json, &size);
    fuzz_require(out, "out of memory");
    fprintf(out,
            "{\"model_type\":\"xlnet\",\"n_layer\":%d,\"n_head\":%d,\"d_head\":%d,\"d_model\":%d,"
            "\"d_inner\":%d,\"vocab_size\":%d,\"ff_activation\":\"%s\",\"attn_type\":\"%s\","
            "\"layer_norm_eps\":1e-12,\"clamp_len\":-1,\"mem_len\":4,\"same_length\":false}",
            N_LAYER, N_HEAD, D_HEAD, m->d_model, D_INNER, TINY_TOKENS, m->activation,
            m->attn_type ? "uni" : "bi");
    fclose(out);
    return json;
}

uint8_t *tiny_safetensors(const struct tiny *m, size_t *size) {
    uint64_t data_size;
    char *header = tiny_header(m, &data_size);
    uint8_t *bytes = fuzz_safetensors(header, strlen(header), data_size, size);
    free(header);
    return bytes;
}

/* ---- The weights file --------------------------------------------------------------------- */

/* A safetensors file with small numbers for elements, an XLNet's in a folder with its
 * config.json. */
static const char *write_checkpoint(const struct tiny *m) {
    if (m->activation) {
        char *config = tiny_config(m);
        mkdir(fuzz_write("xlnet", NULL, 0), 0700);
        fuzz_write("xlnet/config.json", config, strlen(config));
        free(config);
    }
    uint64_t random = 1;
    size_t size;
    uint8_t *bytes = tiny_safetensors(m, &size);
    for (size_t at = 8 + read_u32(bytes); at < size; at += sizeof(float)) {
        random = random * UINT64_C(6364136223846793005) + 1;
        float x = (float)(random >> 40) / (1 << 24) - 0.5f;
        memcpy(bytes + at, &x, sizeof x);
    }
    const char *path =
        fuzz_write(m->activation ? "xlnet/tiny.safetensors" : "tiny.safetensors", bytes, size);
    free(bytes);
    return path;
}

const char *tiny_vocabulary(const char *tokenizer, int n) {
    char text[1 << 12];
    size_t used = 0;
    bool lm1b = strcmp(tokenizer, "lm1b") == 0, letters = strcmp(tokenizer, "text8") == 0;
    bool bytes = strcmp(tokenizer, "bytes") == 0, words = !letters && !bytes;
    for (int i = 0; i < n && used < sizeof text - 16; i++)
        if (words && i < 2)
            used +=
                (size_t)snprintf(text + used, 16, "%s\n",
                                 i == 0 ? (lm1b ? "<S>" : "<eos>") : (lm1b ? "<UNK>" : "<unk>"));
        else if (bytes)
            used += (size_t)snprintf(text + used, 16, "%d\n", 32 + i);
        else if (i < 26)
            used += (size_t)snprintf(text + used, 16, "%c\n", 'a' + i);
        else
            used += (size_t)snprintf(text + used, 16, "w%d\n", i);
    return fuzz_write("tiny.txt", text, used);
}

/* What the tensors of a Transformer-XL do not say. */
static void set_facts(struct convert_options *options, const struct tiny *m) {
    options->n_head = N_HEAD;
    options->cutoffs = m->cutoffs;
    options->pre_lnorm = m->pre_lnorm ? CONVERT_YES : CONVERT_NO;
    options->memory_start = m->memory_start;
    options->cluster_order = "reversed";
    options->same_length = CONVERT_NO;
}

uint8_t *tiny_weights(const struct tiny *m, size_t *size) {
    struct convert_options options;
    txl_error error;
    convert_options_init(&options);
    const char *source = write_checkpoint(m);
    options.vocabulary = m->activation ? fuzz_write("tiny.model", tiny_pieces, tiny_pieces_size)
                                       : tiny_vocabulary(m->tokenizer, TINY_TOKENS);
    options.tokenizer = m->tokenizer;
    options.type = m->type;
    options.level = m->level;
    options.threads = 1;
    if (!m->activation)
        set_facts(&options, m);
    options.tgt_len = 3;
    options.mem_len = m->attn_type < 2 ? 4 : 0;
    options.has_clamp_len = true;
    const char *output = fuzz_write("tiny.txl", NULL, 0);
    fuzz_require_ok(convert_checkpoint(source, output, &options, &error), &error);
    return fuzz_read(output, size);
}

const txl_model *tiny_model(unsigned number) {
    static txl_model *models[MAX_MODEL];
    unsigned n_model = 0;
    txl_error error;
    while (tiny_models[n_model].tokenizer)
        n_model++;
    fuzz_require(n_model <= MAX_MODEL, "too many models");
    number %= n_model;
    if (!models[number]) {
        size_t size;
        uint8_t *weights = tiny_weights(&tiny_models[number], &size);
        const char *path = fuzz_write("model.txl", weights, size);
        free(weights);
        fuzz_require_ok(txl_model_open(path, 1, &models[number], &error), &error);
        remove(path); /* it stays mapped */
    }
    return models[number];
}

txl_ids *tiny_ids(int32_t n_token) {
    enum { N = 40 };
    txl_ids *ids;
    txl_error error;
    fuzz_require_ok(txl_ids_new(n_token, &ids, &error), &error);
    for (int i = 0; i < N; i++) {
        const int32_t id = i * i % n_token;
        fuzz_require_ok(txl_ids_add(ids, &id, 1, &error), &error);
    }
    return ids;
}
