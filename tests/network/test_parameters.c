/* The tables of settings and parameters: weights-format.md lists what they have, and nothing else.
 */
#include "lib/session/families.h"
#include "lib/transformer_xl/parameters.h"
#include "lib/xlnet/parameters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The document ------------------------------------------------------------------------- */

/* The lines of the table under the heading `## title`; ended by NULL, the caller's to free. */
static char *section(const char *title) {
    char path[4096], heading[64];
    const char *cases = getenv("TXL_TEST_CASES");
    snprintf(path, sizeof path, "%s/../../weights-format.md", cases ? cases : "tests/cases");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = calloc(1, 1 << 16);
    assert_non_null(text);
    size_t length = fread(text, 1, (1 << 16) - 1, file);
    assert_true(length > 0);
    fclose(file);
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
    int dimensions[MOST];
    int n;
};

static int find(const struct names *names, const char *name) {
    for (int i = 0; i < names->n; i++)
        if (strcmp(names->name[i], name) == 0)
            return i;
    return -1;
}

/* Numbers of layers and bands are n and i in the document, * in the tables. */
static void add_name(struct names *names, const char *name, size_t length, int dimensions) {
    assert_true(names->n < MOST && length < sizeof names->name[0]);
    char *out = names->name[names->n];
    memcpy(out, name, length);
    out[length] = '\0';
    for (size_t k = 1; k + 1 < length; k++)
        if ((out[k] == 'n' || out[k] == 'i') && out[k - 1] == '.' && out[k + 1] == '.')
            out[k] = '*';
    names->dimensions[names->n++] = dimensions;
}

/* The names between backticks in the first column of every row; one that begins with a dot stands
 * for the name before it with another end.  `dimensions` are those of the shapes in the second
 * column, one for each name or one for all: the number of their commas and one. */
static void read_names(char *table, struct names *names) {
    names->n = 0;
    char *rest = table;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (strncmp(line, "| `", 3) != 0)
            continue;
        char *column = strchr(line + 1, '|'), *shape = strchr(column, '[');
        int dimensions = 2; /* "as the embedding's" */
        for (char *at = line; (at = strchr(at, '`')) && at < column;) {
            char *end = strchr(at + 1, '`'), whole[128];
            size_t length = (size_t)(end - at - 1);
            if (shape) {
                char *close = strchr(shape, ']');
                dimensions = 1;
                for (char *c = shape; c < close; c++)
                    dimensions += *c == ',';
                shape = close[1] == ',' ? strchr(close, '[') : shape;
            }
            if (at[1] == '.') {
                const char *before = names->name[names->n - 1];
                int stem = (int)(strrchr(before, '.') - before);
                snprintf(whole, sizeof whole, "%.*s%.*s", stem, before, (int)length, at + 1);
            } else {
                snprintf(whole, sizeof whole, "%.*s", (int)length, at + 1);
            }
            add_name(names, whole, strlen(whole), dimensions);
            at = end + 1;
        }
    }
}

/* ---- Held against the tables -------------------------------------------------------------- */

static void check_parameters(const char *title, const struct parameter_table *table) {
    static struct names names;
    char *text = section(title);
    read_names(text, &names);
    free(text);
    assert_int_equal(names.n, table->n);
    for (int i = 0; i < table->n; i++) {
        const struct parameter *p = &table->parameter[i];
        int at = find(&names, p->name);
        if (at < 0)
            fail_msg("weights-format.md lacks %s", p->name);
        if (names.dimensions[at] != (p->kind == PARAMETER_VECTOR ? 1 : 2))
            fail_msg("weights-format.md gives %s %d dimensions", p->name, names.dimensions[at]);
    }
}

static void the_document_lists_the_parameters(void **state) {
    (void)state;
    check_parameters("Tensors", &transformer_xl_parameters);
    check_parameters("Tensors of an XLNet", &xlnet_parameters);
}

static void check_settings(const char *title, const struct setting_table *own) {
    static struct names names;
    const struct setting_table *tables[] = {&settings_of_text, own, &settings_of_lengths};
    char *text = section(title);
    read_names(text, &names);
    free(text);
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

static void the_document_lists_the_settings(void **state) {
    (void)state;
    check_settings("Settings", &transformer_xl_setting_table);
    check_settings("Settings of an XLNet", &xlnet_setting_table);
}

/* ---- Walking ------------------------------------------------------------------------------ */

/* What a network of three bands has, by attention type, div_val and ties. */
static void the_walk_meets_each_tensor_once(void **state) {
    (void)state;
    struct transformer_xl_settings s = {.model = {.n_token = 100},
                                        .n_layer = 2,
                                        .n_head = 3,
                                        .d_head = 5,
                                        .d_model = 16,
                                        .d_embed = 16,
                                        .d_inner = 7,
                                        .max_klen = 9,
                                        .n_band = 3,
                                        .cutoff = {10, 40}};
    static const int per_layer[] = {11, 13, 10, 11};
    for (int attn_type = 0; attn_type < 4; attn_type++)
        for (int div_val = 1; div_val <= 2; div_val++)
            for (int tied = 0; tied < 2; tied++) {
                s.attn_type = attn_type;
                s.div_val = div_val;
                s.tied_weights = tied;
                s.biases_per_layer = attn_type == ATTENTION_LEARNED_DISTANCE;
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
                assert_int_equal(elements, div_val > 1 ? 10 * 16 + 30 * 8 + 60 * 4 : 100 * 16);
            }
}

static void layers_matrices_are_known_by_name(void **state) {
    (void)state;
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

static void families_are_found_by_name(void **state) {
    (void)state;
    const struct family *family = family_find(txl_family_name(TXL_FAMILY_TRANSFORMER_XL));
    assert_non_null(family);
    assert_int_equal(family->number, TXL_FAMILY_TRANSFORMER_XL);
    assert_null(family_find("transformer"));
    assert_null(family_find(""));
    assert_null(family_find(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_document_lists_the_parameters),
        cmocka_unit_test(the_document_lists_the_settings),
        cmocka_unit_test(the_walk_meets_each_tensor_once),
        cmocka_unit_test(layers_matrices_are_known_by_name),
        cmocka_unit_test(families_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
