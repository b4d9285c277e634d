/* Every allocation fails once: the call must end with TXL_MEMORY and a message, leave no file, and
 * leak nothing (which the address sanitizer detects).  A call that succeeds without the memory must
 * give the same result. */
#include "convert/converter.h"
#include "faults.h"
#include "lib/text/moses.h"
#include "lib/text/tokenizer.h"
#include "lib/text/vocabulary.h"
#include "tests/model_cases.h"
#include "tests/unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* An action to test: *result depends on all of its results. */
typedef txl_status operation(const void *context, uint64_t *result, txl_error *error);

static char folder[128], output[160], saved[160];

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s", scratch_path("faults"));
    snprintf(output, sizeof output, "%s/output", folder);
    snprintf(saved, sizeof saved, "%s/saved", folder);
    return mkdir(folder, 0700);
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder);
}

/* Removes the file, if there is one, and makes a number of its content. */
static uint64_t take_file(const char *path) {
    static char bytes[1 << 20];
    FILE *file = fopen(path, "rb");
    if (!file)
        return 0;
    size_t n = fread(bytes, 1, sizeof bytes, file);
    assert_true(n < sizeof bytes);
    fclose(file);
    unlink(path);
    return XXH3_64bits(bytes, n);
}

static void assert_empty_folder(const char *name, long n) {
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (struct dirent *entry; (entry = readdir(entries));)
        if (entry->d_name[0] != '.')
            fail_msg("%s: allocation %ld: left %s", name, n, entry->d_name);
    closedir(entries);
}

static void result_is(const char *name, long n, uint64_t result, uint64_t expected) {
    if (result != expected)
        fail_msg("%s: allocation %ld: the result differs", name, n);
}

/* One run with the n-th allocation failing, or with all from it on. */
static void run_failing(const char *name, operation *run, const void *context, long n, bool on,
                        uint64_t expected) {
    txl_error error = {.message = ""};
    uint64_t result = 0;
    faults_arm(FAULT_MEMORY, n, on);
    txl_status status = run(context, &result, &error);
    faults_disarm();
    if (!status)
        result += take_file(output) + take_file(saved);
    take_file(saved); /* it may have been written before the failure */
    if (!status)
        result_is(name, n, result, expected);
    else if (status != TXL_MEMORY || error.status != status || !error.message[0])
        fail_msg("%s: allocation %ld: status %d, %s", name, n, (int)status, error.message);
    assert_empty_folder(name, n);
}

/* Each of the first `all` allocations fails, and some of the others. */
static void fail_each(const char *name, operation *run, const void *context, long all) {
    txl_error error;
    uint64_t expected = 0, result = 0;
    if (run(context, &expected, &error)) /* makes what is only made once */
        fail_msg("%s: %s", name, error.message);
    expected += take_file(output) + take_file(saved);
    faults_arm(FAULT_MEMORY, 0, false);
    txl_status status = run(context, &result, &error);
    long n_call = faults_disarm();
    result += take_file(output) + take_file(saved);
    assert_int_equal(status, TXL_OK);
    result_is(name, 0, result, expected);
    long step = n_call > all ? n_call / all : 1;
    for (long n = 1; n <= n_call; n += n < all / 2 ? 1 : step)
        run_failing(name, run, context, n, false, expected);
    for (long n = 1; n <= n_call; n += n_call / 16 + 1)
        run_failing(name, run, context, n, true, expected);
    print_message("%s: %ld allocations\n", name, n_call);
}

/* ---- Converting --------------------------------------------------------------------------- */

struct source {
    const char *name, *type, *vocabulary;
};

static txl_status convert(const void *context, uint64_t *result, txl_error *error) {
    const struct source *source = context;
    char path[4096], vocabulary[4096];
    struct convert_options options;
    convert_options_init(&options);
    options.type = source->type;
    options.threads = 2;
    if (source->vocabulary) {
        snprintf(vocabulary, sizeof vocabulary, "%s",
                 case_path(source->vocabulary, "tokenizer.json"));
        options.vocabulary = vocabulary;
    }
    snprintf(path, sizeof path, "%s", case_path(source->name, "."));
    *result = 0;
    return convert_checkpoint(path, output, &options, error);
}

TEST(converting) {
    const struct source sources[] = {
        {"text8", NULL, NULL},
        {"enwik8-legacy", "f16", NULL},
        {"hf-sharded", "q8", NULL},
        {"hf-safetensors", NULL, NULL},
        {"learnable-positions", NULL, NULL},
        {"xlnet/uni", NULL, "xlnet-tokenizer"},
        {"xlnet-heads/pairs", "q8", NULL},
        {"xlnet-heads/answers-beams", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        fail_each(sources[i].name, convert, &sources[i], 300);
}

/* ---- Opening, verifying ------------------------------------------------------------------- */

/* A model's weights file, in a folder of its own. */
static void make_weights(const char *name, char *path, size_t size) {
    txl_error error;
    struct convert_options options;
    char source[4096];
    convert_options_init(&options);
    snprintf(source, sizeof source, "%s", case_path(name, "."));
    snprintf(path, size, "%s", scratch_path(name));
    if (convert_checkpoint(source, path, &options, &error))
        fail_msg("%s", error.message);
}

static txl_status close_opened(txl_status status, txl_model **model, uint64_t *result) {
    if (!status) {
        *result = txl_model_checksum(*model);
        txl_model_close(*model);
    }
    return status;
}

static txl_status open_model(const void *path, uint64_t *result, txl_error *error) {
    txl_model *model;
    return close_opened(txl_model_open(path, 2, &model, error), &model, result);
}

static txl_status open_compressed(const void *path, uint64_t *result, txl_error *error) {
    txl_model *model;
    return close_opened(txl_model_open_compressed(path, 2, &model, error), &model, result);
}

static txl_status verify(const void *path, uint64_t *result, txl_error *error) {
    (void)result;
    return txl_file_verify(path, NULL, NULL, error);
}

static txl_status random_model(const void *settings, uint64_t *result, txl_error *error) {
    (void)result;
    txl_model *model;
    txl_status status = txl_model_random(settings, "q8", 1, 2, &model, error);
    if (!status)
        txl_model_close(model);
    return status;
}

TEST(opening) {
    char path[4096];
    txl_model *model;
    txl_error error;
    make_weights("wt103-zip", path, sizeof path);
    fail_each("open", open_model, path, 300);
    fail_each("open compressed", open_compressed, path, 300);
    fail_each("verify", verify, path, 300);
    assert_int_equal(txl_model_open(path, 1, &model, &error), TXL_OK);
    char *settings = strdup(txl_model_settings_json(model));
    txl_model_close(model);
    fail_each("random model", random_model, settings, 300);
    free(settings);
    unlink(path);
}

/* ---- Generating, scoring ------------------------------------------------------------------ */

static const char prose[] = "The Senate said: \"We don't agree\", and 1,234.5 left the so-called "
                            "U.S. talks (for good) -- in vain.";

struct ids {
    int32_t at[256];
    size_t n;
};

static txl_status keep_id(void *context, const txl_symbol *symbol, txl_error *error) {
    (void)error;
    struct ids *ids = context;
    if (symbol->id >= 0 && ids->n < sizeof ids->at / sizeof *ids->at)
        ids->at[ids->n++] = symbol->id;
    return TXL_OK;
}

/* Encodes `prose`, and frees the encoder. */
static txl_status feed_prose(txl_encoder *encoder, txl_error *error) {
    txl_status status = txl_encoder_feed(encoder, prose, sizeof prose - 1, error);
    if (!status)
        status = txl_encoder_finish(encoder, error);
    txl_encoder_free(encoder);
    return status;
}

static txl_status encode(const txl_model *model, struct ids *ids, txl_error *error) {
    txl_encoder *encoder;
    const txl_encoding encoding = {
        .raw = true, .skip_unknown = true, .lookup = true, .symbol = keep_id, .context = ids};
    txl_status status = txl_encoder_new(model, &encoding, &encoder, error);
    return status ? status : feed_prose(encoder, error);
}

static txl_status write_on(txl_session *session, const txl_history *history, txl_decoder *decoder,
                           uint64_t *result, txl_error *error) {
    const txl_sampling sampling = {.temperature = 1,
                                   .top_p = 0.9f,
                                   .repetition_penalty = 1.1f,
                                   .repeat_last = 8,
                                   .history = history};
    txl_random random = {.seed = 7};
    txl_status status = TXL_OK;
    for (int i = 0; i < 12 && !status; i++) {
        int32_t id = 0;
        float logprob;
        const char *text;
        size_t length;
        status = txl_session_sample(session, &sampling, &random, &id, &logprob, error);
        if (!status)
            status = txl_decoder_push(decoder, id, &text, &length, error);
        if (!status)
            *result = XXH3_64bits_withSeed(text, length, *result + (uint64_t)id);
        if (!status)
            status = txl_session_feed(session, &id, 1, error);
    }
    return status;
}

static txl_status generate(const void *context, uint64_t *result, txl_error *error) {
    const txl_model *model = context;
    struct ids ids = {.n = 0};
    txl_settings settings;
    txl_session *session = NULL;
    txl_history *history = NULL;
    txl_decoder *decoder = NULL;
    txl_model_defaults(model, &settings);
    settings.threads = 2;
    *result = 0;
    txl_status status = encode(model, &ids, error);
    if (!status)
        status = txl_session_new(model, &settings, &session, error);
    if (status)
        return status;
    status = txl_history_new(8, 2, &history, error);
    if (!status)
        status = txl_decoder_new(model, true, &decoder, error);
    if (!status)
        status = txl_session_feed(session, ids.at, ids.n, error);
    if (!status)
        status = write_on(session, history, decoder, result, error);
    txl_decoder_free(decoder);
    txl_history_free(history);
    txl_session_free(session);
    return status;
}

static txl_status score(const void *context, uint64_t *result, txl_error *error) {
    const txl_model *model = context;
    struct ids ids = {.n = 0};
    float nats[256];
    txl_settings settings;
    txl_session *session = NULL;
    txl_model_defaults(model, &settings);
    settings.threads = 1;
    settings.memory_type = TXL_MEMORY_F16;
    txl_status status = encode(model, &ids, error);
    if (!status)
        status = txl_session_new(model, &settings, &session, error);
    if (status)
        return status;
    status = txl_session_score(session, ids.at, ids.n - 1, ids.at + 1, nats, error);
    if (!status)
        *result = XXH3_64bits(nats, (ids.n - 1) * sizeof *nats);
    txl_session_free(session);
    return status;
}

/* ---- Several sessions, saved memory ------------------------------------------------------- */

static txl_status feed_copies(txl_session *session, uint64_t *result, txl_error *error) {
    txl_session *copy;
    txl_status status = txl_session_copy(session, &copy, error);
    if (status)
        return status;
    const int32_t next[] = {3, 4};
    int32_t likeliest[2];
    float logprob[2];
    status = txl_session_feed_each((txl_session *[]){session, copy}, 2, next, error);
    if (!status)
        status = txl_session_top(copy, 2, likeliest, logprob, error);
    if (!status)
        *result += XXH3_64bits(logprob, sizeof logprob);
    txl_session_free(copy);
    return status;
}

static txl_status expect(txl_session *session, uint64_t *result, txl_error *error) {
    const int32_t next[] = {1, 2};
    float logprob;
    int32_t likeliest;
    size_t taken;
    txl_status status = txl_session_expect(session, next, 2, &taken, error);
    for (int i = 0; i < 2 && !status; i++)
        status = txl_session_feed(session, &next[i], 1, error);
    if (!status)
        status = txl_session_top(session, 1, &likeliest, &logprob, error);
    if (!status)
        *result += XXH3_64bits(&logprob, sizeof logprob);
    return status;
}

static txl_status save_and_load(const txl_model *model, txl_session *session, txl_error *error) {
    txl_memory *memory;
    txl_status status = txl_session_save(session, NULL, &memory, error);
    if (status)
        return status;
    status = txl_memory_write(memory, saved, error);
    txl_memory_free(memory);
    if (status)
        return status;
    status = txl_memory_read(saved, model, &memory, error);
    if (status)
        return status;
    status = txl_session_load(session, memory, error);
    txl_memory_free(memory);
    return status;
}

static txl_status remember(const void *context, uint64_t *result, txl_error *error) {
    const txl_model *model = context;
    enum { N = 70 }; /* more than a block of keys and values, which a copy shares */
    int32_t ids[N];
    txl_settings settings;
    txl_session *session;
    for (int i = 0; i < N; i++)
        ids[i] = i % 5;
    txl_model_defaults(model, &settings);
    settings.threads = 1;
    *result = 0;
    txl_status status = txl_session_new(model, &settings, &session, error);
    if (status)
        return status;
    status = txl_session_feed(session, ids, N, error);
    if (!status)
        status = expect(session, result, error);
    if (!status)
        status = save_and_load(model, session, error);
    if (!status)
        status = feed_copies(session, result, error);
    txl_session_free(session);
    return status;
}

TEST(running) {
    struct model_case c;
    case_open(&c, "wt103-zip", NULL, -1);
    fail_each("generate", generate, c.model, 400);
    fail_each("score", score, c.model, 200);
    fail_each("remember", remember, c.model, 400);
    case_close(&c);
}

/* What a head says of an input. */
static txl_status find_answers(const void *context, uint64_t *result, txl_error *error) {
    static const int32_t ids[] = {20, 21, 22, 23, 24, 25, 26, 4, 30, 4, 3};
    static const uint8_t segments[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2};
    const txl_input input = {.ids = ids, .segments = segments, .n = 11};
    const txl_model *model = context;
    const txl_beams *beams;
    txl_settings settings;
    txl_session *session;
    txl_model_defaults(model, &settings);
    settings.threads = 1;
    *result = 0;
    txl_status status = txl_session_new(model, &settings, &session, error);
    if (status)
        return status;
    status = txl_session_beams(session, &input, 7, &beams, error);
    if (!status) {
        *result = XXH3_64bits(beams->end, beams->n_start * beams->n_end * sizeof *beams->end);
        txl_beams_free(beams);
    }
    txl_session_free(session);
    return status;
}

TEST(answering) {
    char path[4096];
    txl_model *model;
    txl_error error;
    snprintf(path, sizeof path, "%s", scratch_path("answers.txl"));
    case_convert("xlnet-heads/answers-beams", NULL, -1, path);
    assert_int_equal(txl_model_open_compressed(path, 1, &model, &error), TXL_OK);
    fail_each("beams", find_answers, model, 200);
    txl_model_close(model);
    unlink(path);
}

TEST(running_compressed) {
    char path[4096];
    txl_model *model;
    txl_error error;
    make_weights("wt103-zip", path, sizeof path);
    assert_int_equal(txl_model_open_compressed(path, 1, &model, &error), TXL_OK);
    fail_each("score, compressed", score, model, 200);
    fail_each("remember, compressed", remember, model, 400);
    txl_model_close(model);
    unlink(path);
}

/* ---- Training ----------------------------------------------------------------------------- */

static txl_status take_step(txl_trainer *trainer, uint64_t *result, txl_error *error) {
    txl_step step;
    txl_status status = txl_trainer_step(trainer, 1e-3, &step, error);
    if (!status)
        *result += XXH3_64bits(&step.loss, sizeof step.loss);
    return status;
}

/* A step, and another one after all was written and read again. */
static txl_status train_in_parts(const txl_model *model, const txl_ids *ids, uint64_t *result,
                                 txl_error *error) {
    const txl_training how = {.batch = 2,
                              .tgt_len = 4,
                              .mem_len = 6,
                              .epsilon = 1e-8,
                              .dropout = 0.1,
                              .threads = 2,
                              .bf16 = true};
    txl_trainer *trainer = NULL;
    txl_saved *state = NULL;
    txl_status status = txl_trainer_new(model, ids, &how, &trainer, error);
    if (!status)
        status = take_step(trainer, result, error);
    if (!status)
        status = txl_trainer_save(trainer, saved, "note", error);
    if (!status)
        txl_trainer_free(trainer);
    if (!status)
        trainer = NULL;
    if (!status)
        status = txl_saved_open(saved, &state, error);
    if (!status)
        status = txl_saved_resume(state, ids, 2, NULL, &trainer, error);
    txl_saved_free(state);
    if (!status)
        status = take_step(trainer, result, error);
    if (!status)
        status = txl_model_write(txl_trainer_model(trainer), output, "q8", 2, error);
    txl_trainer_free(trainer);
    return status;
}

static txl_status train(const void *context, uint64_t *result, txl_error *error) {
    const txl_model *model = context;
    txl_ids *ids;
    int32_t text[40];
    for (int i = 0; i < 40; i++)
        text[i] = i * 7 % 26;
    *result = 0;
    txl_status status = txl_ids_new(txl_model_n_token(model), &ids, error);
    if (status)
        return status;
    status = txl_ids_add(ids, text, 40, error);
    if (!status)
        status = train_in_parts(model, ids, result, error);
    txl_ids_free(ids);
    return status;
}

/* A head, its file, and its rows in a file and back. */
static txl_status train_head(const void *context, uint64_t *result, txl_error *error) {
    const txl_model *body = context;
    const char *const labels[] = {"a", "b"};
    const txl_head_training how = {
        .n_label = 2, .batch = 2, .rate = 1e-3, .epsilon = 1e-8, .threads = 2};
    static float rows[2 * 1024];
    const int32_t label[] = {0, 1};
    txl_head_trainer *trainer;
    txl_rows *back;
    double nats;
    *result = 0;
    txl_status status = txl_head_trainer_new(body, &how, &trainer, error);
    if (status)
        return status;
    rows[3] = 1;
    status = txl_head_trainer_step(trainer, rows, label, 2, &nats, error);
    txl_head_trainer_keep(trainer);
    if (!status)
        status = txl_head_trainer_write_kept(trainer, body, labels, output, 2, error);
    if (!status)
        status = txl_rows_save(saved, "note", rows, 2, 8, error);
    if (!status)
        status = txl_rows_open(saved, &back, error);
    if (!status)
        txl_rows_free(back);
    if (status)
        unlink(output); /* it was complete */
    txl_head_trainer_free(trainer);
    return status;
}

/* A new model, of a vocabulary that is packed for it. */
static txl_status begin(const void *settings, uint64_t *result, txl_error *error) {
    const txl_spelling symbols[] = {{"<unk>", 5}, {"<eos>", 5}, {"a", 1}, {"b", 1}};
    void *section;
    size_t size;
    txl_model *model;
    *result = 0;
    txl_status status = txl_vocabulary_pack(symbols, 4, &section, &size, error);
    if (status)
        return status;
    status = txl_model_new(settings, section, size, 3, 2, &model, error);
    free(section);
    if (!status)
        txl_model_close(model);
    return status;
}

TEST(training) {
    static const char settings[] =
        "{\"family\": \"transformer-xl\", \"tokenizer\": \"words\", \"lower_case\": false, "
        "\"unk_id\": 0, \"eos_id\": 1, \"n_token\": 4, \"n_layer\": 2, \"n_head\": 2, "
        "\"d_head\": 4, \"d_model\": 8, \"d_embed\": 8, \"d_inner\": 12, \"attn_type\": 0, "
        "\"pre_lnorm\": false, \"div_val\": 2, \"cutoffs\": [2], \"tied_weights\": true, "
        "\"tied_projections\": [false, true], \"biases_per_layer\": false, \"tgt_len\": 4, "
        "\"mem_len\": 4, \"clamp_len\": -1, \"same_length\": false, \"memory_start\": "
        "\"empty\", \"cluster_order\": \"reversed\"}";
    struct model_case c;
    case_open(&c, "text8", NULL, -1);
    fail_each("train", train, c.model, 400);
    case_close(&c);
    fail_each("begin", begin, settings, 200);
    case_open(&c, "xlnet/base-zip", "q8", -1);
    fail_each("train a head", train_head, c.model, 200);
    case_close(&c);
}

/* ---- Text --------------------------------------------------------------------------------- */

static txl_status add_text(void *result, const char *text, size_t length, size_t begin, size_t end,
                           txl_error *error) {
    (void)begin;
    (void)end;
    (void)error;
    *(uint64_t *)result = XXH3_64bits_withSeed(text, length, *(uint64_t *)result);
    return TXL_OK;
}

static txl_status tokenize(const void *moses, uint64_t *result, txl_error *error) {
    *result = 0;
    return moses_tokenize(moses, prose, sizeof prose - 1, add_text, result, error);
}

static txl_status detokenize(const void *moses, uint64_t *result, txl_error *error) {
    static const char *const words[] = {"\"", "'", "We", "'", "(", "do", "n't", ")", "\"", "."};
    struct moses_detokenizer *detokenizer;
    const char *text;
    size_t length;
    *result = 0;
    txl_status status = moses_detokenizer_new(moses, &detokenizer, error);
    if (status)
        return status;
    for (size_t i = 0; i < sizeof words / sizeof *words && !status; i++) {
        status =
            moses_detokenizer_push(detokenizer, words[i], strlen(words[i]), &text, &length, error);
        if (!status)
            add_text(result, text, length, 0, 0, NULL);
    }
    if (!status)
        status = moses_detokenizer_finish(detokenizer, &text, &length, error);
    moses_detokenizer_free(detokenizer);
    return status;
}

/* Text in lower case to ids and back. */
static txl_status spell(const void *vocabulary, uint64_t *result, txl_error *error) {
    struct ids ids = {.n = 0};
    txl_encoder *encoder;
    txl_decoder *decoder;
    const char *text;
    size_t length;
    const txl_encoding encoding = {
        .skip_unknown = true, .lookup = true, .symbol = keep_id, .context = &ids};
    *result = 0;
    txl_status status = encoder_new(vocabulary, &encoding, &encoder, error);
    if (!status)
        status = feed_prose(encoder, error);
    if (!status)
        status = decoder_new(vocabulary, false, &decoder, error);
    if (status)
        return status;
    for (size_t i = 0; i < ids.n && !status; i++) {
        status = txl_decoder_push(decoder, ids.at[i], &text, &length, error);
        if (!status)
            add_text(result, text, length, 0, 0, NULL);
    }
    txl_decoder_free(decoder);
    return status;
}

static txl_status remember_ids(const void *context, uint64_t *result, txl_error *error) {
    (void)context;
    (void)result;
    txl_history *history;
    txl_status status = txl_history_new(8, 2, &history, error);
    if (!status)
        txl_history_free(history);
    return status;
}

TEST(writing_and_reading) {
    static const struct vocabulary_entry symbols[] = {{"<eos>", 5}, {"<unk>", 5}, {"senate", 6},
                                                      {"s", 1},     {"e", 1},     {" ", 1}};
    enum { N = sizeof symbols / sizeof *symbols };
    static const txl_kind kinds[] = {TXL_WORDS, TXL_CHARACTERS};
    struct moses *moses;
    txl_error error;
    for (size_t i = 0; i < 2; i++) {
        struct vocabulary vocabulary = {0};
        void *section;
        size_t size;
        assert_int_equal(vocabulary_pack(symbols, N, &section, &size, &error), TXL_OK);
        const struct vocabulary_settings settings = {N, kinds[i], true, 1, 0};
        assert_int_equal(vocabulary_open(&vocabulary, section, size, &settings, "symbols", &error),
                         TXL_OK);
        fail_each("spell", spell, &vocabulary, 100);
        vocabulary_close(&vocabulary);
        free(section);
    }
    assert_int_equal(moses_new(&moses, &error), TXL_OK);
    fail_each("tokenize", tokenize, moses, 2000);
    fail_each("detokenize", detokenize, moses, 200);
    moses_free(moses);
    fail_each("history", remember_ids, NULL, 10);
}

/* ---- Measuring ---------------------------------------------------------------------------- */

typedef txl_status measurement(int threads, double *figure, txl_error *error);

/* The first allocations, without which nothing is measured, which would take its time. */
static void fail_measurement(measurement *measure, long n_needed) {
    double figure;
    for (long n = 1; n <= n_needed; n++) {
        txl_error error = {.message = ""};
        faults_arm(FAULT_MEMORY, n, true);
        txl_status status = measure(2, &figure, &error);
        faults_disarm();
        assert_int_equal(status, TXL_MEMORY);
        assert_true(error.message[0]);
    }
}

TEST(measuring) {
    fail_measurement(txl_measure_read_bandwidth, 3);
    fail_measurement(txl_measure_sgemm, 5);
}

int main(void) {
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
