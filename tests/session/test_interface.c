/* What txl.h promises of its structures, its errors and the process. */
#include "tests/model_cases.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern int openblas_get_num_threads(void);
extern void openblas_set_num_threads(int n);

static txl_session *open_session(struct model_case *c, const char *name) {
    case_open(c, name, NULL, -1);
    return case_session(c, NULL);
}

TEST(the_library_knows_its_version) {
    assert_string_equal(txl_version(), TXL_VERSION);
}

/* All zero draws the likeliest; with a temperature, 0 is as good as 1 where that means off. */
TEST(zero_is_off) {
    struct model_case c;
    txl_error error;
    txl_session *session = open_session(&c, "characters");
    const txl_sampling zero = {0}, drawn = {.temperature = 1},
                       spelled = {
                           .temperature = 1, .top_p = 1, .typical = 1, .repetition_penalty = 1};
    txl_random random = {.seed = 1}, twin = random;
    int32_t id, likeliest, other;
    float logprob;
    assert_int_equal(txl_session_feed(session, c.ids, 3, &error), TXL_OK);
    assert_int_equal(txl_session_top(session, 1, &likeliest, &logprob, &error), TXL_OK);
    assert_int_equal(txl_session_sample(session, &zero, &random, &id, &logprob, &error), TXL_OK);
    assert_int_equal(id, likeliest);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(txl_session_sample(session, &drawn, &random, &id, &logprob, &error),
                         TXL_OK);
        assert_int_equal(txl_session_sample(session, &spelled, &twin, &other, &logprob, &error),
                         TXL_OK);
        assert_int_equal(id, other);
    }
    txl_session_free(session);
    case_close(&c);
}

TEST(defaults_set_every_member) {
    struct model_case c;
    txl_error error;
    txl_session *session = open_session(&c, "characters");
    txl_sampling sampling;
    txl_settings settings, again;
    txl_random random = {.seed = 1};
    int32_t id;
    float logprob;
    memset(&sampling, 0xff, sizeof sampling);
    memset(&settings, 0xff, sizeof settings);
    txl_sampling_defaults(c.model, &sampling);
    assert_true(sampling.temperature == 0.95f && sampling.top_k == 0 && sampling.min_p == 0.1f);
    assert_int_equal(txl_session_feed(session, c.ids, 3, &error), TXL_OK);
    assert_int_equal(txl_session_sample(session, &sampling, &random, &id, &logprob, &error),
                     TXL_OK);
    txl_model_defaults(c.model, &settings);
    txl_session_free(session);
    session = case_session(&c, &settings);
    txl_session_settings(session, &again);
    assert_int_equal(again.tgt_len, settings.tgt_len);
    txl_session_free(session);
    case_close(&c);
}

/* Few symbols are near the likeliest one, so that a share of its probability is the better bound;
 * of words many are. */
TEST(sampling_defaults_follow_the_kind) {
    static const struct {
        const char *name;
        txl_unit unit;
    } cases[] = {{"enwik8-zip", TXL_UNIT_CHARACTER},
                 {"text8", TXL_UNIT_CHARACTER},
                 {"characters", TXL_UNIT_CHARACTER},
                 {"wt103-zip", TXL_UNIT_WORD},
                 {"lm1b", TXL_UNIT_WORD}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_case c;
        txl_sampling sampling;
        case_open(&c, cases[i].name, NULL, -1);
        bool words = cases[i].unit == TXL_UNIT_WORD;
        assert_int_equal(txl_kind_unit(txl_model_kind(c.model)), cases[i].unit);
        memset(&sampling, 0xff, sizeof sampling);
        txl_sampling_defaults(c.model, &sampling);
        assert_int_equal(sampling.top_k, words ? 40 : 0);
        assert_true(sampling.min_p == (words ? 0 : 0.1f));
        assert_true(sampling.temperature == 0.95f && sampling.top_p == 0 && sampling.typical == 0);
        case_close(&c);
    }
}

/* The names, between blanks, of what stands for no text. */
TEST(symbols_without_text_are_banned) {
    static const struct {
        const char *name, *banned;
    } cases[] = {{"wt103-zip", " <unk>"},
                 {"lm1b", " <UNK>"},
                 {"enwik8-zip", ""},
                 {"xlnet/base-zip", " <unk> <s> </s> <cls> <sep> <pad> <mask>"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_case c;
        txl_sampling sampling;
        char names[256] = "";
        case_open(&c, cases[i].name, NULL, -1);
        size_t n;
        const int32_t *banned = txl_model_banned(c.model, &n);
        for (size_t k = 0; k < n; k++) {
            size_t length;
            const char *symbol = txl_model_symbol(c.model, banned[k], &length);
            strncat(strcat(names, " "), symbol, length);
        }
        assert_string_equal(names, cases[i].banned);
        txl_sampling_defaults(c.model, &sampling);
        assert_ptr_equal(sampling.banned, banned);
        assert_int_equal(sampling.n_banned, n);
        case_close(&c);
    }
}

TEST(kinds_say_what_they_are) {
    static const struct {
        txl_kind kind;
        const char *name;
        txl_unit unit;
        txl_line_end line_end;
        const char *space;
    } kinds[] = {{TXL_WORDS, "words", TXL_UNIT_WORD, TXL_LINE_END_SYMBOL, NULL},
                 {TXL_LM1B, "lm1b", TXL_UNIT_WORD, TXL_LINE_END_PAIR, NULL},
                 {TXL_BYTES, "bytes", TXL_UNIT_CHARACTER, TXL_LINE_END_NONE, "32"},
                 {TXL_TEXT8, "text8", TXL_UNIT_CHARACTER, TXL_LINE_END_NONE, "_"},
                 {TXL_CHARACTERS, "characters", TXL_UNIT_CHARACTER, TXL_LINE_END_SYMBOL, " "},
                 {TXL_PIECES, "pieces", TXL_UNIT_PIECE, TXL_LINE_END_SYMBOL, NULL},
                 {TXL_XLNET, "xlnet", TXL_UNIT_PIECE, TXL_LINE_END_SPACE, NULL}};
    const size_t n = sizeof kinds / sizeof *kinds;
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(txl_kind_name(kinds[i].kind), kinds[i].name);
        assert_int_equal(txl_kind_unit(kinds[i].kind), kinds[i].unit);
        assert_int_equal(txl_kind_line_end(kinds[i].kind), kinds[i].line_end);
        assert_int_equal(txl_kind_takes_bytes(kinds[i].kind), kinds[i].kind == TXL_BYTES);
        const char *space = txl_kind_space(kinds[i].kind);
        if (kinds[i].space)
            assert_string_equal(space, kinds[i].space);
        else
            assert_null(space);
    }
    assert_null(txl_kind_name((txl_kind)n));
}

static txl_status pass(void *context, const txl_symbol *symbol, txl_error *error) {
    (void)context;
    (void)symbol;
    (void)error;
    return TXL_OK;
}

/* A caller of a later version may have set these, or one that did not zero the structure. */
/* In one call what an encoder gives in many; of too many ids the first. */
TEST(a_text_is_encoded_in_one_call) {
    static const char *const names[] = {"wt103-zip", "lm1b", "characters", "hf-bin"};
    static const char text[] = "of the first kind\nand the second";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct model_case c;
        txl_error error;
        case_open(&c, names[i], NULL, -1);
        const txl_encoding how = {.skip_unknown = true};
        int32_t all[200], some[200], one[200];
        size_t n, n_some, n_one, at = 0;
        assert_int_equal(txl_encode(c.model, &how, text, strlen(text), all, 200, &n, &error),
                         TXL_OK);
        assert_in_range(n, 4, 199);
        memset(some, -1, sizeof some);
        assert_int_equal(txl_encode(c.model, &how, text, strlen(text), some, 3, &n_some, &error),
                         TXL_OK);
        assert_int_equal(n_some, n);
        assert_memory_equal(some, all, 3 * sizeof *all);
        assert_int_equal(some[3], -1);
        /* Lines are texts that follow each other. */
        for (const char *line = text; line; line = strchr(line, '\n')) {
            line += *line == '\n';
            size_t length = strcspn(line, "\n");
            assert_int_equal(txl_encode(c.model, &how, line, length, one, 200, &n_one, &error),
                             TXL_OK);
            assert_true(at + n_one <= n);
            assert_memory_equal(one, all + at, n_one * sizeof *one);
            at += n_one;
        }
        assert_int_equal(at, n);
        case_close(&c);
    }
}

TEST(reserved_members_must_be_zero) {
    struct model_case c;
    txl_error error;
    txl_session *session = open_session(&c, "characters"), *other = NULL;
    txl_settings settings;
    txl_model_defaults(c.model, &settings);
    settings.reserved[6] = 1;
    assert_int_equal(txl_session_new(c.model, &settings, &other, &error), TXL_ARGUMENT);
    assert_non_null(strstr(error.message, "txl_settings"));

    txl_sampling sampling = {.reserved = {1}};
    txl_random random = {0};
    int32_t id;
    float logprob;
    assert_int_equal(txl_session_feed(session, c.ids, 3, &error), TXL_OK);
    assert_int_equal(txl_session_sample(session, &sampling, &random, &id, &logprob, &error),
                     TXL_ARGUMENT);
    assert_non_null(strstr(error.message, "txl_sampling"));

    txl_resume resume = {.reserved = {0, 0, 0, 1}};
    txl_memory *memory;
    assert_int_equal(txl_session_save(session, &resume, &memory, &error), TXL_ARGUMENT);
    assert_non_null(strstr(error.message, "txl_resume"));

    txl_encoding encoding = {.symbol = pass, .reserved = {0, 1}};
    txl_encoder *encoder;
    assert_int_equal(txl_encoder_new(c.model, &encoding, &encoder, &error), TXL_ARGUMENT);
    assert_non_null(strstr(error.message, "txl_encoding"));
    txl_session_free(session);
    case_close(&c);
}

static txl_status stop_silently(void *context, const txl_symbol *symbol, txl_error *error) {
    (void)symbol;
    (void)error;
    return *(const txl_status *)context;
}

/* A callback that says why, but leaves the status to what it returns. */
static txl_status stop_with_message(void *context, const txl_symbol *symbol, txl_error *error) {
    (void)symbol;
    if (error)
        strcpy(error->message, "why");
    return *(const txl_status *)context;
}

static bool stop_progress(void *context, uint64_t done, uint64_t total) {
    (void)context;
    (void)done;
    (void)total;
    return false;
}

/* Whatever stopped the call, the error has the status that it returned, and a message. */
TEST(a_stopped_call_fills_in_its_error) {
    struct model_case c;
    txl_session *session = open_session(&c, "characters");
    txl_status reasons[] = {TXL_STOPPED, TXL_IO};
    for (size_t i = 0; i < 4; i++) {
        txl_error error = {.status = TXL_FORMAT, .message = "of an earlier call"};
        txl_status reason = reasons[i % 2];
        const txl_encoding encoding = {.symbol = i < 2 ? stop_silently : stop_with_message,
                                       .context = &reason};
        txl_encoder *encoder;
        assert_int_equal(txl_encoder_new(c.model, &encoding, &encoder, &error), TXL_OK);
        assert_int_equal(txl_encoder_feed(encoder, "abc\n", 4, &error), reason);
        assert_int_equal(error.status, reason);
        if (i < 2)
            assert_true(error.message[0] != '\0' && !strstr(error.message, "earlier"));
        else
            assert_string_equal(error.message, "why");
        txl_encoder_free(encoder);
        assert_int_equal(txl_encoder_new(c.model, &encoding, &encoder, NULL), TXL_OK);
        assert_int_equal(txl_encoder_feed(encoder, "abc\n", 4, NULL), reason);
        txl_encoder_free(encoder);
    }
    txl_error error = {.status = TXL_FORMAT};
    const char *path = scratch_path("verify.txl");
    case_convert("characters", NULL, -1, path);
    assert_int_equal(txl_file_verify(path, stop_progress, NULL, &error), TXL_STOPPED);
    unlink(path);
    assert_int_equal(error.status, TXL_STOPPED);
    txl_session_free(session);
    case_close(&c);
}

/* OpenBLAS's other users in the process find it as it was. */
TEST(the_number_of_blas_threads_is_put_back) {
    struct model_case first, second;
    openblas_set_num_threads(2);
    int before = openblas_get_num_threads();
    case_open(&first, "characters", NULL, -1);
    assert_int_equal(openblas_get_num_threads(), 1);
    case_open(&second, "text8", NULL, -1);
    case_close(&first);
    assert_int_equal(openblas_get_num_threads(), 1);
    case_close(&second);
    assert_int_equal(openblas_get_num_threads(), before);

    /* A model that cannot be opened leaves nothing behind, and neither does a measurement. */
    txl_model *model;
    txl_error error;
    double rate;
    assert_int_equal(txl_model_random("{}", "f32", 1, 1, &model, &error), TXL_ARGUMENT);
    assert_int_equal(openblas_get_num_threads(), before);
    assert_int_equal(txl_measure_sgemm(1, &rate, &error), TXL_OK);
    assert_int_equal(openblas_get_num_threads(), before);

    /* A number that the caller sets meanwhile stays. */
    case_open(&first, "characters", NULL, -1);
    openblas_set_num_threads(before + 1);
    case_close(&first);
    assert_int_equal(openblas_get_num_threads(), before + 1);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
