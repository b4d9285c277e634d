/* The tables of settings and parameters: weights-format.md lists what they have, and nothing else.
 */
#include "lib/session/model.h"
#include "lib/transformer_xl/parameters.h"
#include "lib/xlnet/parameters.h"
#include "tests/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The document ------------------------------------------------------------------------- */

/* The lines of the table under the heading `## title`; ended by NULL, the caller's to free. */
static char *section(const char *title) {
    char path[4096], heading[64];
    const char *cases = getenv("TXL_TEST_CASES");
    snprintf(path, sizeof path, "%s/../../weights-format.md", cases ? cases : "tests/cases");
    size_t length;
    char *text = read_file(path, &length);
    snprintf(heading, sizeof heading, "\n## %s\n", title);
    char *start = strstr(text, heading);
    assert_non_null(start);
    char *end = strstr(start + 1, "\n## ");
    if (end)
        *end = '\0';
    memmove(text, start, strlen(start) + 1);
    return text;
}

enum { MOST = 64 };

struct names {
    char name[MOST][64];
    char shape[MOST][48]; /* between its brackets; "" where there are none */
    int n;
};

static int find(const struct names *names, const char *name) {
    for (int i = 0; i < names->n; i++)
        if (strcmp(names->name[i], name) == 0)
            return i;
    return -1;
}

/* Numbers of layers and bands are n and i in the document, * in the tables. */
static void add_name(struct names *names, const char *name, size_t length, const char *shape,
                     size_t n_shape) {
    assert_true(names->n < MOST && length < sizeof names->name[0]);
    assert_true(n_shape < sizeof names->shape[0]);
    memcpy(names->shape[names->n], shape, n_shape);
    names->shape[names->n][n_shape] = '\0';
    char *out = names->name[names->n];
    memcpy(out, name, length);
    out[length] = '\0';
    for (size_t k = 1; k + 1 < length; k++)
        if ((out[k] == 'n' || out[k] == 'i') && out[k - 1] == '.' && out[k + 1] == '.')
            out[k] = '*';
    names->n++;
}

/* The names between backticks in the first column of every row; one that begins with a dot stands
 * for the name before it with another end.  The shapes stand in the second column, one for each
 * name or one for all. */
static void read_names(char *table, struct names *names) {
    names->n = 0;
    char *rest = table;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (strncmp(line, "| `", 3) != 0)
            continue;
        char *column = strchr(line + 1, '|'), *shape = strchr(column, '[');
        if (shape && shape > strchr(column + 1, '|'))
            shape = NULL;
        for (char *at = line; (at = strchr(at, '`')) && at < column;) {
            char *end = strchr(at + 1, '`'), whole[128];
            size_t length = (size_t)(end - at - 1);
            char *close = shape ? strchr(shape, ']') : NULL;
            size_t n_shape = shape ? (size_t)(close - shape - 1) : 0;
            const char *own = shape ? shape + 1 : "";
            if (shape && close[1] == ',')
                shape = strchr(close, '[');
            if (at[1] == '.') {
                const char *before = names->name[names->n - 1];
                int stem = (int)(strrchr(before, '.') - before);
                snprintf(whole, sizeof whole, "%.*s%.*s", stem, before, (int)length, at + 1);
            } else {
                snprintf(whole, sizeof whole, "%.*s", (int)length, at + 1);
            }
            add_name(names, whole, strlen(whole), own, n_shape);
            at = end + 1;
        }
    }
}

/* ---- Sizes as the document writes them ---------------------------------------------------- */

/* What a name in a shape stands for. */
struct quantity {
    const char *name;
    uint64_t value;
};

/* A number or a quantity, behind blanks; `*at` moves behind it. */
static uint64_t read_factor(const char **at, const struct quantity *quantities) {
    char *end;
    unsigned long long number = strtoull(*at, &end, 10);
    if (end > *at) {
        *at = end;
        return number;
    }
    *at += strspn(*at, " ");
    for (const struct quantity *q = quantities; q->name; q++)
        if (strncmp(*at, q->name, strlen(q->name)) == 0) {
            *at += strlen(q->name);
            return q->value;
        }
    fail_msg("weights-format.md has a size \"%s\"", *at);
    return 0;
}

/* One size of a shape, up to a comma or the end: factors side by side, of which one may be divided
 * by the next or have it taken away. */
static uint64_t read_size(const char **at, const struct quantity *quantities) {
    uint64_t value = read_factor(at, quantities);
    while (**at != '\0' && **at != ',') {
        bool divides = strncmp(*at, " / ", 3) == 0, subtracts = strncmp(*at, " - ", 3) == 0;
        *at += divides || subtracts ? 3 : 0;
        uint64_t factor = read_factor(at, quantities);
        value = divides ? value / factor : subtracts ? value - factor : value * factor;
    }
    return value;
}

/* ---- Held against the tables -------------------------------------------------------------- */

static void read_document(const char *title, struct names *names) {
    char *text = section(title);
    read_names(text, names);
    free(text);
}

static void check_names(const struct names *names, const struct parameter_table *table) {
    assert_int_equal(names->n, table->n);
    for (int i = 0; i < table->n; i++)
        if (find(names, table->parameter[i].name) < 0)
            fail_msg("weights-format.md lacks %s", table->parameter[i].name);
}

static void check_shape(const struct names *names, const struct parameter_tensor *t,
                        const struct quantity *quantities) {
    int at = find(names, t->parameter->name);
    bool is_vector = t->parameter->kind == PARAMETER_VECTOR;
    if (names->shape[at][0] == '\0') /* "as the embedding's" */
        at = find(names, "embedding.*.weight");
    const char *shape = names->shape[at];
    uint64_t n_row = read_size(&shape, quantities), n_column = 1;
    if (!is_vector && *shape != ',')
        fail_msg("weights-format.md gives %s one dimension", t->name);
    if (*shape == ',') {
        shape++;
        n_column = read_size(&shape, quantities);
    }
    if (*shape != '\0' || n_row != t->n_row || n_column != t->n_column)
        fail_msg("weights-format.md gives %s the shape [%s], the table [%llu, %llu]", t->name,
                 names->shape[at], (unsigned long long)t->n_row, (unsigned long long)t->n_column);
}

/* Sizes that differ from each other, and so do their products. */
static struct transformer_xl_settings made_settings(int attn_type, int div_val, bool tied) {
    return (struct transformer_xl_settings){.model = {.n_token = 101},
                                            .proj_same_dim = true,
                                            .n_layer = 2,
                                            .n_head = 3,
                                            .d_head = 5,
                                            .d_model = 22,
                                            .d_embed = 34,
                                            .d_inner = 7,
                                            .max_klen = 13,
                                            .n_band = 3,
                                            .cutoff = {11, 41},
                                            .attn_type = attn_type,
                                            .div_val = div_val,
                                            .tied_weights = tied,
                                            .biases_per_layer =
                                                attn_type == ATTENTION_LEARNED_DISTANCE};
}

TEST(the_document_has_a_transformer_xls_shapes) {
    static struct names names;
    read_document("Tensors", &names);
    check_names(&names, &transformer_xl_parameters);
    bool met[MOST] = {false};
    for (int kind = 0; kind < 2 * 2 * 2 * 4; kind++) {
        struct transformer_xl_settings s = made_settings(kind / 8, 1 + kind % 2, kind / 2 % 2);
        s.biases_per_layer = kind / 4 % 2;
        struct parameter_walk walk = parameter_walk(&transformer_xl_parameters, &s);
        struct parameter_tensor t;
        while (parameter_next(&walk, &t)) {
            int first = t.i > 0 ? s.cutoff[t.i - 1] : 0, width = s.d_embed;
            int end = t.i < 2 ? s.cutoff[t.i] : 101;
            for (int i = 0; i < t.i; i++)
                width /= s.div_val;
            const struct quantity quantities[] = {
                {"band's symbols", s.div_val > 1 ? (uint64_t)(end - first) : 101},
                {"bands", 3},
                {"d_band", (uint64_t)width},
                {"d_model", 22},
                {"d_embed", 34},
                {"d_inner", 7},
                {"n_head", 3},
                {"d_head", 5},
                {"max_klen", 13},
                {NULL, 0}};
            check_shape(&names, &t, quantities);
            met[t.number] = true;
        }
    }
    for (int i = 0; i < transformer_xl_parameters.n; i++)
        assert_true(met[i]);
}

TEST(the_document_has_an_xlnets_shapes) {
    static struct names names;
    read_document("Tensors of an XLNet", &names);
    check_names(&names, &xlnet_parameters);
    bool met[MOST] = {false};
    for (int kind = 0; kind < 6 * 2 * 2 * 2; kind++) {
        const struct xlnet_settings s = {.model = {.n_token = 101},
                                         .n_layer = 2,
                                         .n_head = 3,
                                         .d_head = 5,
                                         .d_model = 22,
                                         .d_inner = 7,
                                         .head = kind / 8,
                                         .n_label = 9,
                                         .language_model = kind % 2,
                                         .tied_weights = kind / 2 % 2,
                                         .summary_projected = kind / 4 % 2};
        const uint64_t n_logit = s.head == TXL_HEAD_SPANS                                   ? 2
                                 : s.head == TXL_HEAD_SEQUENCE || s.head == TXL_HEAD_TOKENS ? 9
                                                                                            : 1;
        const struct quantity quantities[] = {
            {"n_token", 101}, {"n_head", 3},        {"d_head", 5}, {"d_model", 22},
            {"d_inner", 7},   {"n_logit", n_logit}, {NULL, 0}};
        struct parameter_walk walk = parameter_walk(&xlnet_parameters, &s);
        struct parameter_tensor t;
        int n = 0;
        for (; parameter_next(&walk, &t); n++) {
            check_shape(&names, &t, quantities);
            met[t.number] = true;
        }
        /* 15 of a layer, embedding and mask, the softmax, and what the head has */
        assert_int_equal(n, 2 * 15 + 2 + (s.language_model ? 1 + !s.tied_weights : 0) +
                                (s.head ? 2 : 0) + (s.summary_projected ? 2 : 0) +
                                (s.head == TXL_HEAD_BEAMS ? 9 : 0));
    }
    for (int i = 0; i < xlnet_parameters.n; i++)
        assert_true(met[i]);
}

static void check_settings(const char *title, const struct setting_table *own) {
    static struct names names;
    const struct setting_table *tables[] = {&settings_of_text, own, &settings_of_lengths};
    read_document(title, &names);
    int n = 1; /* "family" */
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        n += (int)tables[t]->n;
        for (size_t i = 0; i < tables[t]->n; i++) {
            const struct setting *s = &tables[t]->setting[i];
            if (find(&names, s->key) < 0)
                fail_msg("weights-format.md lacks %s", s->key);
            assert_true(s->help && s->help[0]);
        }
    }
    assert_int_equal(names.n, n);
}

TEST(the_document_lists_the_settings) {
    check_settings("Settings", &transformer_xl_setting_table);
    check_settings("Settings of an XLNet", &xlnet_setting_table);
}

/* ---- Walking ------------------------------------------------------------------------------ */

/* What a network of three bands has, by attention type, div_val and ties. */
TEST(the_walk_meets_each_tensor_once) {
    static const int per_layer[] = {11, 13, 10, 11};
    for (int attn_type = 0; attn_type < 4; attn_type++)
        for (int div_val = 1; div_val <= 2; div_val++)
            for (int tied = 0; tied < 2; tied++) {
                struct transformer_xl_settings s = made_settings(attn_type, div_val, tied);
                s.d_model = s.d_embed = 16;
                bool relative = attn_type == ATTENTION_RELATIVE;
                int layer = per_layer[attn_type], n = 0, elements = 0;
                int band = div_val > 1 ? 3 * (tied ? 4 : 5) : tied ? 2 : 3;
                struct parameter_walk walk = parameter_walk(&transformer_xl_parameters, &s);
                struct parameter_tensor t;
                static char seen[MOST][64];
                while (parameter_next(&walk, &t)) {
                    for (int i = 0; i < n; i++)
                        assert_string_not_equal(seen[i], t.name);
                    strcpy(seen[n++], t.name);
                    assert_null(strchr(t.name, '*'));
                    assert_true(t.n_row > 0 && t.n_column > 0);
                    if (strstr(t.name, "embedding") && strstr(t.name, "weight"))
                        elements += (int)(t.n_row * t.n_column);
                }
                int sinusoids = relative || attn_type == ATTENTION_SINUSOID;
                assert_int_equal(n, band + 2 + sinusoids + 2 * relative + 2 * layer);
                assert_int_equal(elements, div_val > 1 ? 11 * 16 + 30 * 8 + 60 * 4 : 101 * 16);
            }
}

TEST(layers_matrices_are_known_by_name) {
    static const struct {
        const char *name;
        bool is;
    } names[] = {{"layer.0.attention.qkv", true},
                 {"layer.123.attention.r_emb", true},
                 {"layer.12.feed_forward.2.weight", true},
                 {"layer.12.feed_forward.2.bias", false},
                 {"layer.attention.qkv", false},
                 {"layer.1.attention.qkv.more", false},
                 {"layer.1x.attention.qkv", false},
                 {"embedding.0.weight", false},
                 {"layer.", false},
                 {"", false}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(parameter_is_layer_matrix(&transformer_xl_parameters, names[i].name),
                         names[i].is);
}

TEST(families_are_found_by_name) {
    const struct family *family = family_find(txl_family_name(TXL_FAMILY_TRANSFORMER_XL));
    assert_non_null(family);
    assert_int_equal(family->number, TXL_FAMILY_TRANSFORMER_XL);
    assert_null(family_find("transformer"));
    assert_null(family_find(""));
    assert_null(family_find(NULL));
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
