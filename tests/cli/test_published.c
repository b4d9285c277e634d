/* The published models: what their shapes are made with, and which checkpoints are theirs. */
#include "cli/model/settings.h"
#include "lib/transformer_xl/parameters.h"
#include "tests/unit.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static json_t *settings_of(int shape, bool evaluated) {
    char *text = published_settings_json(shape, evaluated);
    assert_non_null(text);
    json_t *settings = json_loads(text, 0, NULL);
    assert_non_null(settings);
    free(text);
    return settings;
}

static const json_t *take(const json_t *settings, const char *key) {
    return json_object_get(settings, key);
}

/* The large ones were evaluated by TensorFlow's code; what is trained in these shapes is not. */
TEST(shapes_have_the_dialect) {
    for (int i = 0; published_shapes[i]; i++) {
        const char *name = published_shapes[i];
        const bool is_large = strstr(name, "-large") && strncmp(name, "xlnet", 5) != 0;
        json_t *evaluated = settings_of(i, true), *trained = settings_of(i, false);
        if (is_large) {
            assert_string_equal(json_string_value(take(evaluated, "same_length_reach")),
                                "mem_len + 1");
            assert_true(json_real_value(take(evaluated, "layer_norm_eps")) == 1e-12);
            assert_null(take(trained, "same_length_reach"));
            assert_null(take(trained, "layer_norm_eps"));
            json_object_update(trained, evaluated);
        }
        assert_true(json_equal(evaluated, trained));
        json_decref(evaluated);
        json_decref(trained);
    }
}

static struct transformer_xl_settings shape_of(const struct published *p) {
    struct transformer_xl_settings s = {.n_layer = p->n_layer,
                                        .d_model = p->d_model,
                                        .n_head = p->n_head,
                                        .d_head = p->d_head,
                                        .d_inner = p->d_inner,
                                        .div_val = p->div_val,
                                        .n_band = p->n_cutoff + 1};
    memcpy(s.cutoff, p->cutoffs, (size_t)p->n_cutoff * sizeof *p->cutoffs);
    s.cutoff[p->n_cutoff] = s.model.n_token = p->n_token;
    return s;
}

/* Every fact of the shape counts, but not the number of symbols; of a plain softmax the dataset. */
TEST(checkpoints_are_known_by_their_shapes) {
    for (size_t i = 0; i < published_n_model; i++) {
        const struct published *p = &published_models[i];
        const bool plain = p->n_cutoff == 0;
        struct transformer_xl_settings s = shape_of(p);
        const struct published *expected = p->by_tensorflow ? p : NULL;
        assert_ptr_equal(published_evaluation(&s, "text8"), expected);
        assert_ptr_equal(published_evaluation(&s, "enwik8"), expected);
        assert_ptr_equal(published_evaluation(&s, "wt103"), plain ? NULL : expected);
        assert_ptr_equal(published_evaluation(&s, NULL), plain ? NULL : expected);
        s.cutoff[p->n_cutoff] = s.model.n_token += 1;
        assert_ptr_equal(published_evaluation(&s, "text8"), expected);
        int *const facts[] = {&s.n_layer,
                              &s.d_model,
                              &s.n_head,
                              &s.d_head,
                              &s.d_inner,
                              &s.div_val,
                              &s.cutoff[plain ? 1 : 2]};
        for (size_t k = 0; k < sizeof facts / sizeof *facts; k++) {
            s.n_band += plain && k == 6; /* two bands */
            ++*facts[k];
            assert_null(published_evaluation(&s, "text8"));
            --*facts[k];
        }
    }
}

int main(void) {
    return cmocka_run_group_tests_name("published", tests, NULL, NULL);
}
