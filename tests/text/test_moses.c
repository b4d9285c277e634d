/* The Moses pipeline: the listed lines, each group of rules, streaming, and hostile input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "lib/text/moses.h"
#include "tests/unit.h"

static struct moses *moses;

static int set_up(void **state) {
    (void)state;
    return moses_new(&moses, NULL);
}

static int tear_down(void **state) {
    (void)state;
    moses_free(moses);
    return 0;
}

static FILE *open_case(const char *name) {
    const char *cases = getenv("TXL_TEST_CASES");
    char path[4096];
    snprintf(path, sizeof path, "%s/moses/%s", cases ? cases : "tests/cases", name);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s is missing", path);
    return file;
}

/* ---- Tokens, joined by blanks ---------------------------------------------------------------- */

static txl_status write_token(void *context, const char *text, size_t length, size_t begin,
                              size_t end, txl_error *error) {
    (void)begin;
    (void)end;
    (void)error;
    FILE *out = context;
    if (ftell(out) > 0)
        fputc(' ', out);
    fwrite(text, 1, length, out);
    return TXL_OK;
}

static char *tokens_of(const char *line, size_t length) {
    char *joined = NULL;
    size_t joined_length;
    FILE *out = open_memstream(&joined, &joined_length);
    assert_non_null(out);
    txl_error error;
    if (moses_tokenize(moses, line, length, write_token, out, &error))
        fail_msg("%s", error.message);
    fclose(out);
    return joined;
}

static void assert_tokens(const char *line, const char *expected) {
    char *tokens = tokens_of(line, strlen(line));
    if (strcmp(tokens, expected))
        fail_msg("%s\n  gives    %s\n  expected %s", line, tokens, expected);
    free(tokens);
}

/* ---- Text, from tokens joined by blanks ------------------------------------------------------ */

/* With `bars`, shows where one push's bytes end and the next one's begin. */
static char *text_of(const char *tokens, bool bars) {
    struct moses_detokenizer *detokenizer;
    assert_int_equal(moses_detokenizer_new(moses, &detokenizer, NULL), TXL_OK);
    char *text = NULL;
    size_t text_length;
    FILE *out = open_memstream(&text, &text_length);
    assert_non_null(out);
    const char *given;
    size_t length;
    for (const char *token = tokens; *token;) {
        size_t token_length = strcspn(token, " ");
        assert_int_equal(
            moses_detokenizer_push(detokenizer, token, token_length, &given, &length, NULL),
            TXL_OK);
        fwrite(given, 1, length, out);
        if (bars)
            fputc('|', out);
        token += token_length;
        token += *token == ' ';
    }
    assert_int_equal(moses_detokenizer_finish(detokenizer, &given, &length, NULL), TXL_OK);
    fwrite(given, 1, length, out);
    fclose(out);
    moses_detokenizer_free(detokenizer);
    return text;
}

static void assert_text(const char *tokens, const char *expected) {
    char *text = text_of(tokens, false);
    if (strcmp(text, expected))
        fail_msg("%s\n  gives    %s\n  expected %s", tokens, text, expected);
    free(text);
}

static void assert_stream(const char *tokens, const char *expected) {
    char *text = text_of(tokens, true);
    assert_string_equal(text, expected);
    free(text);
}

/* ---- Tests ---------------------------------------------------------------------------------- */

TEST(test_listed_lines) {
    FILE *file = open_case("english.jsonl");
    char *line = NULL;
    size_t capacity = 0;
    size_t n_line = 0;
    while (getline(&line, &capacity, file) > 0) {
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        char *joined = NULL;
        size_t joined_length;
        FILE *out = open_memstream(&joined, &joined_length);
        size_t i;
        json_t *token;
        json_array_foreach(json_object_get(object, "tokens"), i, token)
            write_token(out, json_string_value(token), json_string_length(token), 0, 0, NULL);
        fclose(out);
        assert_tokens(json_string_value(json_object_get(object, "text")), joined);
        assert_text(joined, json_string_value(json_object_get(object, "detokenized")));
        free(joined);
        json_decref(object);
        n_line++;
    }
    assert_true(n_line > 300);
    free(line);
    fclose(file);
}

TEST(test_abbreviations) {
    FILE *file = open_case("nonbreaking-prefixes-en.txt");
    char line[64];
    size_t n_word = 0;
    while (fgets(line, sizeof line, file)) {
        char word[32];
        char numeric[32];
        int n_field = sscanf(line, "%31s %31s", word, numeric);
        if (n_field < 1)
            continue;
        char text[128];
        char expected[128];
        snprintf(text, sizeof text, "%s. Xyz", word);
        snprintf(expected, sizeof expected, n_field == 2 ? "%s . Xyz" : "%s. Xyz", word);
        assert_tokens(text, expected);
        snprintf(text, sizeof text, "%s. 5", word);
        assert_tokens(text, text);
        n_word++;
    }
    assert_true(n_word > 100);
    fclose(file);
}

TEST(test_normaliser) {
    static const char *const cases[][2] = {
        {"“a” „b“ ‚c’ ´d´ `e`", "\" a \" \" b \" ' c ' ' d ' ' e'"},
        {"''a'' ´´b´´ ‘‘c’’", "\" a \" \" b \" \" c \""},
        {"«\u00a0oui\u00a0» «non»", "\" oui \" \" non \""},
        {"a—b c–d e…", "a - b c @-@ d e ..."},
        {"\"yes\", \"no\".", "\" yes , \" \" no . \""},
        {"5\u00a0% 5 % 3\u00a0000 20\u00a0ºC 5\u00a0cm", "5 % 5 % 3 @.@ 000 20 ºC 5 cm"},
        {"what\u00a0? yes\u00a0! so\u00a0: and\u00a0; or,\u00a0if",
         "what ? yes ! so : and ; or , if"},
        {"f(x) .  ( y ) z", "f ( x ) . ( y ) z"},
        {"a\rb", "ab"},
        {"a\x01\x1b z\x7f", "a z \x7f"},
        {"a\u3000b\u2028c\u200bx\xc2\x85y\x1cz", "a b c \u200b x y z"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_tokens(cases[i][0], cases[i][1]);
}

TEST(test_splitting) {
    static const char *const cases[][2] = {
        {"a-b -c d- 4-5-6 --", "a @-@ b -c d- 4 @-@ 5 @-@ 6 --"},
        {"a..b ... c....", "a .. b ... c ...."},
        {"1,000,000 a,b 5,a b,5 ,5 5,", "1 @,@ 000 @,@ 000 a , b 5 , a b , 5 , 5 5 ,"},
        {",5", ",5"},
        {"½,½ ٣,٤", "½ , ½ ٣ @,@ ٤"},
        {"1.5 1.5.6 .5 5. a1.2b", "1 @.@ 5 1 @.@ 5 @.@ 6 .5 5. a1 @.@ 2b"},
        {"don't 90's O'Neil 's '90s dogs' bone", "don 't 90 's O 'Neil ' s ' 90s dogs ' bone"},
        {"the dogs'", "the dogs'"},
        {"said 'no.'", "said ' no . '"},
        {"5'6 5'x", "5 ' 6 5'x"},
        {"U.S. U.S.A B. 3.x. the. End. the End.", "U.S. U.S.A B. 3.x. the . End. the End ."},
        {"東京タワー 서울 한", "東 京 タワー 서 울 한"},
        {"x² ⓐ ◌ é क़ 𝐀𝐁 😀!", "x ² ⓐ ◌ é क़ 𝐀 𝐁 😀 !"},
        {"a. 𝐚 b. ა Foo. ß", "a . 𝐚 b . ა Foo. ß"},
        {"", ""},
        {" \t ", ""},
        {".", "."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_tokens(cases[i][0], cases[i][1]);
}

TEST(test_protected) {
    static const char *const cases[][2] = {
        {"<eos> <UNK>, <Formula>. <eo s> <x>", "<eos> <UNK> , <Formula> . < eo s > < x >"},
        {"a<eos>b <unk>-x x-<unk> <unk>'s <unk>'t",
         "a<eos>b <unk> @-@ x x @-@ <unk> <unk> 's <unk>'t"},
        {"<unk>,5 5,<unk> x'<unk> <eos>.5 <<eos>>", "<unk>,5 5 , <unk> x '<unk> <eos>.5 < <eos> >"},
        {"THISISPROTECTED000 <eos> DOTMULTI", "THISISPROTECTED000 <eos> DOTMULTI"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_tokens(cases[i][0], cases[i][1]);
}

TEST(test_detokenizer) {
    static const char *const cases[][2] = {
        {"( a ) [ b ] { c } , d ; e ? !", "(a) [b] {c}, d; e?!"},
        {"$ 5 £ € 6 ¿ qué ?", "$5 £€6 ¿qué?"},
        {"\" a \" \" b \" ' c '", "\"a\" \"b\" 'c'"},
        {"„ a “ \" b \"", "„a“ \"b\""},
        {"'' a '' ' b '' c ''", "''a'' 'b ''c''"},
        {"the boys ' toys ' x ' y '", "the boys' toys' x 'y'"},
        {"'s it 's n't", "'s it's n't"},
        {"東 京 is 東 京", "東京 is 東京"},
        {"well @-@ known , @-@ x ' @-@ y", "well-known ,-x '-y"},
        {"@-@ x @-@", "-x-"},
        {"a @-@ @-@ b @-@ , c", "a--b-, c"},
        {"1 @,@ 000 @.@ 5 @,@ @.@ x $ @.@ 5 @,@", "1,000.5,.x $.5,"},
        {"&amp; &quot; &#91; &amp;lt; &x;", "& \"[&lt; &x;"},
        {"”", "”"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_text(cases[i][0], cases[i][1]);
}

/* Only punctuation waits, for one token. */
TEST(test_streaming) {
    assert_stream("He said : \" Stop . \"", "He| said||:| \"Stop||.|\"");
    assert_stream("1 @,@ 000 @-@ x", "1|,|000|-|x|");
    assert_stream("it 's 東 京", "it|'s| 東|京|");
    assert_stream("( @-@ x", "|(-|x|");
}

static void push(struct moses_detokenizer *detokenizer, const char *token, const char *expected) {
    const char *text;
    size_t length;
    assert_int_equal(
        moses_detokenizer_push(detokenizer, token, strlen(token), &text, &length, NULL), TXL_OK);
    assert_int_equal(length, strlen(expected));
    assert_memory_equal(text, expected, length);
}

TEST(test_continuing) {
    static const struct {
        const char *shown; /* one token */
        char tail;
        const char *next;
        const char *expected;
    } cases[] = {
        {"upon", 'n', "a", " a"}, {"upon", ' ', "a", "a"}, {"upon", 'n', "'s", "'s"},
        {",", ',', "a", " a"},    {"(", '(', "a", "a"},    {"\"", '"', "a", "a"},
        {"@-@", '-', "a", "a"},   {"@-@", '\t', "a", "a"}, {"23", '3', "@,@", ","},
        {",", ',', "@-@", "-"},   {"", 0, "a", "a"},       {"", 'x', "a", " a"},
        {"", ' ', "a", "a"},      {"", 'x', "'s", "'s"},
    };
    struct moses_detokenizer *detokenizer;
    assert_int_equal(moses_detokenizer_new(moses, &detokenizer, NULL), TXL_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text;
        size_t length;
        moses_detokenizer_reset(detokenizer);
        moses_detokenizer_push(detokenizer, cases[i].shown, strlen(cases[i].shown), &text, &length,
                               NULL);
        assert_int_equal(moses_detokenizer_continue(detokenizer, cases[i].tail, NULL), TXL_OK);
        push(detokenizer, cases[i].next, cases[i].expected);
    }
    moses_detokenizer_free(detokenizer);
}

TEST(test_odd_tokens) {
    struct moses_detokenizer *detokenizer;
    assert_int_equal(moses_detokenizer_new(moses, &detokenizer, NULL), TXL_OK);
    push(detokenizer, "", "");
    push(detokenizer, " \t", "");
    push(detokenizer, "\xff\xc3", "\xff\xc3");
    push(detokenizer, "two words", " two words");
    push(detokenizer, "\xc2'", " \xc2'");
    push(detokenizer, "a\u00a0@-@\u3000( b", " a-( b");
    moses_detokenizer_reset(detokenizer);
    push(detokenizer, "a", "a");
    moses_detokenizer_free(detokenizer);
}

static txl_status count_token(void *context, const char *text, size_t length, size_t begin,
                              size_t end, txl_error *error) {
    (void)begin;
    (void)end;
    (void)text;
    (void)length;
    (void)error;
    ++*(size_t *)context;
    return TXL_OK;
}

static txl_status refuse_token(void *context, const char *text, size_t length, size_t begin,
                               size_t end, txl_error *error) {
    (void)begin;
    (void)end;
    (void)error;
    ++*(size_t *)context;
    return length == 1 && *text == 'b' ? TXL_STOPPED : TXL_OK;
}

TEST(test_stopping) {
    size_t count = 0;
    assert_int_equal(moses_tokenize(moses, "a b c", 5, refuse_token, &count, NULL), TXL_STOPPED);
    assert_int_equal(count, 2);
}

/* Anything quadratic would take hours here. */
TEST(test_long_lines) {
    enum { N = SANITIZED ? 1 << 17 : 1 << 20 };
    static const struct {
        const char *piece;
        size_t tokens; /* of a line of N pieces */
    } cases[] = {
        {"a", 1},     {"1,", 2 * N}, {".", 1},       {"\"", N},         {"'", N / 2},
        {" ", 0},     {"\u00a0", 0}, {"a. ", N + 1}, {"a-", 2 * N - 1}, {"<", N},
        {"\x01 ", 0}, {"東", N},     {"( ", N},      {"x.", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t piece = strlen(cases[i].piece);
        size_t length = piece * N;
        char *line = malloc(length);
        assert_non_null(line);
        for (size_t at = 0; at < length; at += piece)
            memcpy(line + at, cases[i].piece, piece);
        size_t count = 0;
        assert_int_equal(moses_tokenize(moses, line, length, count_token, &count, NULL), TXL_OK);
        if (count != cases[i].tokens)
            fail_msg("'%s' gives %zu", cases[i].piece, count);
        free(line);
    }
}

/* The next of a sequence of numbers that look random, below `bound`. */
static size_t draw(uint64_t *seed, size_t bound) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(*seed >> 33) % bound;
}

/* Whatever the line, no token contains white space, and no text made from tokens contains a joiner,
 * a blank at either end, or two blanks in a row. */
TEST(test_random_lines) {
    static const char *const pieces[] = {
        "'",  "\"", "“", "”",  "‘",   "’",  "`",      "''",     "«",          "»",      "-",
        "—",  "…",  ".", "..", ",",   "(",  ")",      "[",      "$",          "€",      "%",
        ":",  "?",  "/", "\\", "@",   "&",  "<",      ">",      "<eos>",      "<unk>",  "5",
        "12", "²",  "a", "s",  "don", "Mr", "No",     "U.S",    "Foo",        "é",      "東",
        "가", "、", " ", "\t", "\v",  "\r", "\x01",   "\x1c",   "\x7f",       "\u00a0", "\u3000",
        "́",   "़",   "◌", "😀",  "@-@", "@,", "\u200d", "\ufeff", "\U0010ffff", "'s",     "&amp;",
    };
    uint64_t seed = 1;
    for (int n_line = 0; n_line < 5000; n_line++) {
        char line[256] = "";
        for (size_t n = draw(&seed, 20); n; n--)
            strcat(line, pieces[draw(&seed, sizeof pieces / sizeof *pieces)]);
        char *tokens = tokens_of(line, strlen(line));
        for (const char *c = tokens; *c; c++)
            assert_true((unsigned char)*c >= ' ');
        assert_null(strstr(tokens, "  "));
        assert_null(strstr(tokens, "\u00a0"));
        assert_null(strstr(tokens, "\u3000"));
        char *text = text_of(tokens, false);
        size_t length = strlen(text);
        assert_null(strstr(text, "@-@"));
        assert_null(strstr(text, "@,@"));
        assert_null(strstr(text, "  "));
        assert_true(!length || (text[0] != ' ' && text[length - 1] != ' '));
        free(text);
        free(tokens);
    }
}

int main(void) {
    return cmocka_run_group_tests_name("moses", tests, set_up, tear_down);
}
