/* A tokenizer.json becomes the SentencePiece model that it was made from, to the byte; whatever
 * would make other pieces of a text is refused. */
#include "checkpoint_files.h"

#include "convert/vocabulary_file.h"
#include "lib/base/protobuf.h"
#include "lib/text/kind.h"
#include "lib/text/sentencepiece.h"

static const char xlnet_steps[] =
    "{'type':'Replace','pattern':{'String':'``'},'content':'\\\"'},"
    "{'type':'Replace','pattern':{'String':'\\u0027\\u0027'},'content':'\\\"'},"
    "{'type':'NFKD'},{'type':'StripAccents'}";
static const char ends_and_runs[] =
    "{'type':'Strip','strip_left':false,'strip_right':true},"
    "{'type':'Replace','pattern':{'Regex':' {2,}'},'content':'\\u2581'}";
static const char runs[] = "{'type':'Replace','pattern':{'Regex':' {2,}'},'content':' '}";
static const char metaspace[] =
    "{'type':'Metaspace','replacement':'\\u2581','prepend_scheme':'always','split':true}";
static const char old_metaspace[] =
    "{'type':'Metaspace','replacement':'\\u2581','str_rep':'\\u2581','add_prefix_space':true}";
static const char split_metaspace[] =
    "{'type':'Sequence','pretokenizers':[{'type':'WhitespaceSplit'},"
    "{'type':'Metaspace','replacement':'\\u2581','add_prefix_space':true}]}";

/* JSON with ' for ". */
static json_t *parse(const char *text) {
    char *copy = strdup(text);
    json_error_t error;
    assert_non_null(copy);
    for (char *at = copy; (at = strchr(at, '\'')); at++)
        *at = '"';
    json_t *json = json_loads(copy, JSON_DECODE_ANY, &error);
    if (!json)
        fail_msg("%s: %s", copy, error.text);
    free(copy);
    return json;
}

static json_t *list(const char *items) {
    char text[2048];
    snprintf(text, sizeof text, "[%s]", items);
    return parse(text);
}

static json_t *base64(const uint8_t *bytes, size_t n) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = malloc(n / 3 * 4 + 8), *at = text;
    assert_non_null(text);
    for (size_t i = 0; i < n; i += 3) {
        uint32_t group = (uint32_t)bytes[i] << 16;
        group |= i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0;
        group |= i + 2 < n ? bytes[i + 2] : 0;
        for (int digit = 0; digit < 4; digit++)
            *at++ = i + (size_t)digit > n ? '=' : digits[group >> (18 - 6 * digit) & 63];
    }
    *at = '\0';
    json_t *string = json_string(text);
    free(text);
    return string;
}

/* ---- What transformers writes ------------------------------------------------------------- */

static json_t *token(size_t id, const char *content, bool special) {
    return json_pack("{s:i, s:b, s:s, s:b, s:b, s:b, s:b}", "id", (int)id, "special", special,
                     "content", content, "single_word", false, "lstrip", false, "rstrip", false,
                     "normalized", false);
}

struct made {
    txl_kind kind;
    json_t *vocabulary, *added, *normalizers;
};

/* Whether published code splits the piece at its comma. */
static bool is_number(const char *text, size_t length) {
    return length > 1 && text[length - 1] == ',' && text[length - 2] >= '0' &&
           text[length - 2] <= '9';
}

static void take_piece(struct made *made, struct protobuf message) {
    struct protobuf_field field;
    char text[1024] = "";
    float score = 0;
    uint64_t type = PIECE_NORMAL;
    while (message.at < message.end && protobuf_field(&message, &field)) {
        const uint32_t bits = (uint32_t)field.value;
        if (field.number == 1)
            snprintf(text, sizeof text, "%.*s", (int)field.length, (const char *)field.data);
        else if (field.number == 2)
            memcpy(&score, &bits, sizeof score);
        else if (field.number == 3)
            type = field.value;
    }
    const bool is_xlnet = made->kind == TXL_XLNET, is_eop = is_xlnet && strcmp(text, "<eop>") == 0;
    if (type == PIECE_UNKNOWN || type == PIECE_CONTROL || is_eop)
        json_array_append_new(made->added, token(json_array_size(made->vocabulary), text, true));
    const double lowered = is_xlnet && is_number(text, strlen(text)) ? 100 : 0;
    json_array_append_new(made->vocabulary, json_pack("[s, f]", text, (double)score - lowered));
}

static void take_rules(struct made *made, struct protobuf message) {
    struct protobuf_field field;
    while (message.at < message.end && protobuf_field(&message, &field))
        if (field.number == 2 && field.length > 0)
            json_array_append_new(made->normalizers, json_pack("{s:s, s:o}", "type", "Precompiled",
                                                               "precompiled_charsmap",
                                                               base64(field.data, field.length)));
}

/* The tokenizer.json of a SentencePiece model, whose normalizer ends with `last`. */
static json_t *make(const char *model, txl_kind kind, const char *last, const char *cut) {
    size_t size;
    uint8_t *bytes = read_file(case_path(model), &size);
    struct protobuf message = {bytes, bytes + size};
    struct protobuf_field field;
    struct made made = {kind, json_array(), json_array(),
                        list(kind == TXL_XLNET ? xlnet_steps : "")};
    while (message.at < message.end && protobuf_field(&message, &field))
        if (field.number == 1)
            take_piece(&made, protobuf_inside(&field));
        else if (field.number == 3)
            take_rules(&made, protobuf_inside(&field));
    free(bytes);
    json_t *steps = list(last);
    json_array_extend(made.normalizers, steps);
    json_decref(steps);
    return json_pack("{s:s, s:n, s:o, s:{s:s, s:o}, s:o, s:n, s:o, s:{s:i, s:o}}", "version", "1.0",
                     "truncation", "added_tokens", made.added, "normalizer", "type", "Sequence",
                     "normalizers", made.normalizers, "pre_tokenizer", parse(cut), "post_processor",
                     "decoder", parse(strstr(cut, "Split") ? old_metaspace : metaspace), "model",
                     "unk_id", 0, "vocab", made.vocabulary);
}

/* ---- What becomes of it ------------------------------------------------------------------- */

static const char *dump(const json_t *json, const char *name) {
    assert_non_null(json);
    assert_int_equal(json_dump_file(json, scratch_path(name), 0), 0);
    return scratch_path(name);
}

static txl_status pack(const char *path, txl_kind kind, struct convert_vocabulary *packed,
                       txl_error *error) {
    struct vocabulary_file file;
    *packed = (struct convert_vocabulary){.section = NULL};
    txl_status status = vocabulary_file_read(path, &file, error);
    if (!status)
        status = vocabulary_file_pack(&file, NULL, kind, packed, error);
    vocabulary_file_free(&file);
    return status;
}

static void pack_or_fail(const char *path, txl_kind kind, struct convert_vocabulary *packed) {
    txl_error error;
    if (pack(path, kind, packed, &error))
        fail_msg("%s", error.message);
}

static const struct {
    const char *model;
    txl_kind kind;
    const char *last, *cut;
} forms[] = {
    {"spm/spiece.model", TXL_XLNET, "", split_metaspace},
    {"spm/spiece.model", TXL_XLNET, runs, metaspace},
    {"spm/spiece.model", TXL_PIECES, ends_and_runs, metaspace},
    {"spm/spiece.model", TXL_PIECES, "", split_metaspace},
    {"xlnet/base-zip/spiece.model", TXL_XLNET, "", split_metaspace},
    {"xlnet/uni/spiece.model", TXL_XLNET, "", split_metaspace},
    {"xlnet/uni/spiece.model", TXL_PIECES, ends_and_runs, metaspace},
};

TEST_EACH(the_model_comes_back, forms) {
    struct convert_vocabulary ours, theirs;
    json_t *json = make(row->model, row->kind, row->last, row->cut);
    pack_or_fail(dump(json, "tokenizer.json"), row->kind, &ours);
    pack_or_fail(case_path(row->model), row->kind, &theirs);
    json_decref(json);
    assert_int_equal(ours.n_added, 0);
    assert_int_equal(ours.kind, theirs.kind);
    assert_int_equal(ours.unk, theirs.unk);
    assert_int_equal(ours.eos, theirs.eos);
    assert_int_equal(ours.n, theirs.n);
    assert_int_equal(ours.size, theirs.size);
    assert_memory_equal(ours.section, theirs.section, ours.size);
    free(ours.section);
    free(theirs.section);
}

/* Tokens after the vocabulary are those of an added_tokens.json, in the order of their ids. */
TEST(added_tokens_follow) {
    struct convert_vocabulary ours, theirs;
    json_t *json = make("xlnet/uni/spiece.model", TXL_XLNET, "", split_metaspace);
    json_array_append_new(json_object_get(json, "added_tokens"), token(261, "<b>", false));
    json_array_append_new(json_object_get(json, "added_tokens"), token(260, "<a>", true));
    pack_or_fail(dump(json, "tokenizer.json"), TXL_XLNET, &ours);
    json_decref(json);
    size_t size;
    char *model = read_file(case_path("xlnet/uni/spiece.model"), &size);
    write_file("spiece.model", model, size);
    free(model);
    static const char added[] = "{\"<a>\": 260, \"<b>\": 261}";
    write_file("added_tokens.json", added, sizeof added - 1);
    pack_or_fail(scratch_path("spiece.model"), TXL_XLNET, &theirs);
    assert_int_equal(ours.n_added, 2);
    assert_int_equal(theirs.n_added, 2);
    assert_int_equal(ours.size, theirs.size);
    assert_memory_equal(ours.section, theirs.section, ours.size);
    free(ours.section);
    free(theirs.section);
}

/* ---- What is refused ---------------------------------------------------------------------- */

/* Sets what stands at a path of keys and places; NULL deletes it. */
static void set(json_t *json, const char *path, const char *value) {
    char *copy = strdup(path), *last = strrchr(copy, '/');
    char *rest = last ? copy : NULL;
    if (last)
        *last = '\0';
    for (char *key; rest && (key = strsep(&rest, "/"));)
        json = json_is_array(json) ? json_array_get(json, (size_t)atoi(key))
                                   : json_object_get(json, key);
    const char *key = last ? last + 1 : copy;
    const size_t at = (size_t)atoi(key);
    int failed;
    if (json_is_array(json))
        failed = at < json_array_size(json) ? json_array_set_new(json, at, parse(value))
                                            : json_array_append_new(json, parse(value));
    else
        failed = value ? json_object_set_new(json, key, parse(value)) : json_object_del(json, key);
    assert_int_equal(failed, 0);
    free(copy);
}

static const struct {
    const char *path, *value, *says;
    txl_status status;
} wrong[] = {
    {"model/type", "'BPE'", "a model of type BPE", TXL_UNSUPPORTED},
    {"model/type", "'WordPiece'", "a model of type WordPiece", TXL_UNSUPPORTED},
    {"model/vocab", "{'a': 0}", "a model of type null", TXL_UNSUPPORTED},
    {"model", "{'type':'Unigram','vocab':{'a':0}}", "expected lists", TXL_FORMAT},
    {"model/vocab", "[]", "a vocabulary without symbols", TXL_FORMAT},
    {"model/unk_id", NULL, "\"unk_id\" is not the id of a piece", TXL_FORMAT},
    {"model/unk_id", "260", "\"unk_id\" is not the id of a piece", TXL_FORMAT},
    {"model/unk_id", "-1", "\"unk_id\" is not the id of a piece", TXL_FORMAT},
    {"model/unk_id", "0.0", "\"unk_id\" is not the id of a piece", TXL_FORMAT},
    {"model/byte_fallback", "true", "unknown characters in bytes", TXL_UNSUPPORTED},
    {"model/vocab/100", "['a']", "piece 100 is not a spelling with a score", TXL_FORMAT},
    {"model/vocab/100", "['a',-1,0]", "piece 100 is not a spelling with a score", TXL_FORMAT},
    {"model/vocab/100", "[7,-1]", "piece 100 is not a spelling with a score", TXL_FORMAT},
    {"model/vocab/100", "['',-200]", "piece 100 is not a spelling with a score", TXL_FORMAT},
    {"model/vocab/100", "['a','b']", "piece 100 is not a spelling with a score", TXL_FORMAT},
    {"model/vocab/100", "['a',1e300]", "piece 100 has a score that is not finite", TXL_FORMAT},
    {"model/vocab/100", "['a\\u2581b',-7]", "piece 100 has a word mark within it", TXL_FORMAT},
    {"model/vocab/100", "['\\u2581the',-7]", "spelled the same", TXL_FORMAT},
    {"added_tokens", "{}", "expected lists", TXL_FORMAT},
    {"added_tokens", NULL, "no control piece <eod>", TXL_UNSUPPORTED},
    {"added_tokens/0/id", "'0'", "an added token without an id", TXL_FORMAT},
    {"added_tokens/0/id", "-1", "an added token without an id", TXL_FORMAT},
    {"added_tokens/0/id", "261", "is added, but not as one of those that follow", TXL_FORMAT},
    {"added_tokens/0/id", "9223372036854775807", "is added, but not as one", TXL_FORMAT},
    {"added_tokens/0/content", "7", "piece 0 is added without a spelling", TXL_FORMAT},
    {"added_tokens/0/content", "'<s>'", "piece 0 is spelled in another way", TXL_FORMAT},
    {"added_tokens/0/single_word", "true", "found as a word alone: <unk>", TXL_UNSUPPORTED},
    {"added_tokens/8/special", "false", "which a new word begins: <eop>", TXL_UNSUPPORTED},
    {"added_tokens/9", "{'id':260,'content':''}", "is empty or longer", TXL_FORMAT},
    {"normalizer", NULL, "a normalizer that is not XLNet's", TXL_UNSUPPORTED},
    {"normalizer", "{'type':'Lowercase'}", "a normalizer's step Lowercase", TXL_UNSUPPORTED},
    {"normalizer/normalizers/4", "{'type':'Lowercase'}", "step Lowercase", TXL_UNSUPPORTED},
    {"normalizer/normalizers/4", "{'type':'NFKD'}", "spaces in another way", TXL_UNSUPPORTED},
    {"normalizer/normalizers/4", "{'type':'Strip','strip_right':false}",
     "a normalizer's step Strip", TXL_UNSUPPORTED},
    {"normalizer/normalizers/0/content", "'x'", "a normalizer's step Replace", TXL_UNSUPPORTED},
    {"normalizer/normalizers/0/pattern", "{'String':'`'}", "step Replace", TXL_UNSUPPORTED},
    {"normalizer/normalizers/0/pattern", "{'Regex':' {2,}'}", "step Replace", TXL_UNSUPPORTED},
    {"normalizer/normalizers/4", "{'type':'Precompiled'}", "without its charsmap", TXL_FORMAT},
    {"normalizer/normalizers/4", "{'type':'Precompiled','precompiled_charsmap':7}",
     "expected base64", TXL_FORMAT},
    {"normalizer/normalizers/4", "{'type':'Precompiled','precompiled_charsmap':'AAA'}",
     "expected base64", TXL_FORMAT},
    {"normalizer/normalizers/4", "{'type':'Precompiled','precompiled_charsmap':'AA*A'}",
     "expected base64", TXL_FORMAT},
    {"normalizer/normalizers/4", "{'type':'Precompiled','precompiled_charsmap':'A==='}",
     "expected base64", TXL_FORMAT},
    {"normalizer/normalizers/4", "{'type':'Precompiled','precompiled_charsmap':'AAAAAAA='}",
     "a normaliser of 5 bytes", TXL_FORMAT},
    {"pre_tokenizer", NULL, "Metaspace before all words: null", TXL_UNSUPPORTED},
    {"pre_tokenizer", "{'type':'ByteLevel'}", "before all words: ByteLevel", TXL_UNSUPPORTED},
    {"pre_tokenizer/pretokenizers/2", "{'type':'Digits'}", "all words: Sequence", TXL_UNSUPPORTED},
    {"pre_tokenizer/pretokenizers/0", "{'type':'Digits'}", "all words: Sequence", TXL_UNSUPPORTED},
    {"pre_tokenizer/pretokenizers/1/replacement", "'_'", "a pre-tokenizer", TXL_UNSUPPORTED},
    {"pre_tokenizer/pretokenizers/1/add_prefix_space", "false", "a pre-tokenizer", TXL_UNSUPPORTED},
    {"pre_tokenizer/pretokenizers/1/prepend_scheme", "'first'", "a pre-tokenizer", TXL_UNSUPPORTED},
    {"pre_tokenizer/pretokenizers/1/split", "false", "a pre-tokenizer", TXL_UNSUPPORTED},
    {"pre_tokenizer", "{'type':'Metaspace','replacement':'\\u2581'}", "spaces in another way",
     TXL_UNSUPPORTED},
    {"decoder/replacement", "'_'", "a decoder other than Metaspace", TXL_UNSUPPORTED},
};

TEST_EACH(refused, wrong) {
    struct convert_vocabulary packed;
    txl_error error;
    json_t *json = make("xlnet/uni/spiece.model", TXL_XLNET, "", split_metaspace);
    set(json, row->path, row->value);
    const txl_status status = pack(dump(json, "wrong.json"), TXL_XLNET, &packed, &error);
    json_decref(json);
    assert_null(packed.section);
    assert_int_equal(status, row->status);
    assert_says(&error, row->says);
    assert_says(&error, "wrong.json");
    if (status == TXL_UNSUPPORTED && !strstr(row->says, "<eod>"))
        assert_says(&error, "name the SentencePiece model that it was made from with --vocab");
}

/* Rules of the other kind, and spaces that one kind removes and the other keeps. */
static const struct {
    txl_kind made, asked;
    const char *last, *cut, *says;
} others[] = {
    {TXL_XLNET, TXL_PIECES, "", split_metaspace, "is XLNet's, of another model"},
    {TXL_PIECES, TXL_XLNET, ends_and_runs, metaspace, "is not XLNet's"},
    {TXL_PIECES, TXL_PIECES, runs, metaspace, "treats spaces in another way"},
    {TXL_PIECES, TXL_PIECES, "", metaspace, "treats spaces in another way"},
    {TXL_PIECES, TXL_PIECES, "", split_metaspace, "treats spaces in another way"},
    {TXL_PIECES, TXL_PIECES, "{'type':'Strip','strip_right':true}", metaspace, "spaces in another"},
};

TEST_EACH(other_rules, others) {
    struct convert_vocabulary packed;
    txl_error error;
    json_t *json = make("xlnet/uni/spiece.model", row->made, row->last, row->cut);
    const char *path = dump(json, "other.json");
    json_decref(json);
    assert_int_equal(pack(path, row->asked, &packed, &error), TXL_UNSUPPORTED);
    assert_says(&error, row->says);
}

static void use(const char *path) {
    static const txl_kind kinds[] = {TXL_XLNET, TXL_PIECES};
    for (int i = 0; i < 2; i++) {
        struct convert_vocabulary packed;
        txl_error error = {0};
        if (pack(path, kinds[i], &packed, &error))
            assert_int_not_equal(error.message[0], '\0');
        free(packed.section);
    }
}

TEST(damage) {
    abuse_file(case_path("xlnet-tokenizer/tokenizer.json"), "tokenizer.json", 4096, 1500, use);
}

int main(void) {
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
