/* The mixing of a model with the text so far, each part against the numbers of another
 * implementation: two frames of streams made up here, coded and decoded, what the contexts and
 * matches were on the way, and the state of every part at the end. */
#include "tests/unit.h"

#include "lib/base/memory.h"
#include "lib/compress/mixing.h"

#include <string.h>

/* ---- Texts and models made up here --------------------------------------------------------- */

/* Numbers that look random, the same ones in every run. */
static uint64_t drawn;

static uint32_t draw(uint32_t below) {
    drawn += GOLDEN_RATIO;
    return (uint32_t)(hash(drawn) >> 32) % below;
}

static uint64_t fold(uint64_t sum, const void *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ ((const unsigned char *)bytes)[i]) * 0x100000001B3;
    return sum;
}

#define FOLD_START 14695981039346656037u

enum { MOST_TOKENS = 20000, MOST_STREAMS_MADE = 4, LONGEST = 3000, MOST_BYTES = 12 };

/* A vocabulary, and streams of elements: ids, or ~byte. */
struct made {
    int n_token, n_stream;
    unsigned char spelling[MOST_TOKENS][MOST_BYTES];
    int length[MOST_TOKENS];
    unsigned char joined[MOST_TOKENS], byte[MOST_TOKENS];
    int32_t text[MOST_STREAMS_MADE][LONGEST];
    size_t n[MOST_STREAMS_MADE], size[MOST_STREAMS_MADE];
    uint64_t frequency[MOST_TOKENS + 64];
};

/* The bytes one by one, and spellings of a few letters. */
static void make_vocabulary(struct made *made, int n_token, int longest, const char *letters) {
    made->n_token = n_token;
    for (int i = 0; i < n_token; i++) {
        made->byte[i] = i < 256;
        made->length[i] = i < 256 ? 1 : 1 + (int)draw((uint32_t)longest);
        made->spelling[i][0] = (unsigned char)i;
        for (int k = 0; k < made->length[i] && i >= 256; k++)
            made->spelling[i][k] = (unsigned char)letters[draw((uint32_t)strlen(letters))];
        made->joined[i] = i >= 256 && made->spelling[i][0] == ' ' && made->length[i] > 1;
    }
}

static void add_made(struct made *made, int stream, int32_t element) {
    made->text[stream][made->n[stream]++] = element;
    made->size[stream] += element < 0 ? 1 : (size_t)made->length[element];
}

/* One of three tokens that the model suggests after another. */
static int32_t suggested(const struct made *made, int32_t before, uint32_t k) {
    return (int32_t)(hash((uint64_t)before * 3 + k) % (uint64_t)made->n_token);
}

/* 700 tokens, and four streams that repeat themselves and each other, and have literals. */
static void make_small(struct made *made) {
    enum { TOKENS = 700, STREAMS = 4, LENGTH = 3000 };
    memset(made, 0, sizeof *made);
    drawn = 0;
    make_vocabulary(made, TOKENS, 6, "  etaoinshr,\n");
    made->n_stream = STREAMS;
    for (int s = 0; s < STREAMS; s++) {
        int32_t *text = made->text[s];
        for (int i = 0; i < LENGTH - 100 * s; i++) {
            const uint32_t what = draw(100);
            int32_t element;
            if (i > 60 && what < 40 && text[i - 1] >= 0)
                element = text[i - 50];
            else if (s > 0 && what < 60)
                element = made->text[s - 1][i];
            else if (i > 0 && what < 90 && text[i - 1] >= 0)
                element = suggested(made, text[i - 1], draw(3));
            else
                element = what < 92 ? ~(int32_t)draw(256) : (int32_t)draw(TOKENS);
            add_made(made, s, element);
        }
    }
}

/* 20,000 tokens, some of which write nothing, and three streams: among them the same 80 elements
 * thrice in a row, one token for long, lines of columns, and tokens that the model excludes. */
static void make_large(struct made *made) {
    enum { TOKENS = 20000, STREAMS = 3, LENGTH = 900, REPEAT = 80, RUN = 200 };
    memset(made, 0, sizeof *made);
    drawn = 7;
    make_vocabulary(made, TOKENS, 9, "  \t,\netaoinsh\xc3\xa4\xff");
    for (int i = 300; i < TOKENS; i += 1000)
        made->length[i] = made->joined[i] = 0;
    made->n_stream = STREAMS;
    for (int s = 0; s < STREAMS; s++) {
        int32_t *text = made->text[s];
        for (int i = 0; i < LENGTH; i++) {
            const uint32_t what = draw(100);
            int32_t element = (int32_t)draw(TOKENS);
            if (i >= 2 * REPEAT && i < 4 * REPEAT)
                element = text[i - REPEAT];
            else if (i > 500 && i <= 500 + RUN)
                element = 1234;
            else if (what < 25)
                element = ~(int32_t)(unsigned char)"\n  ab, \t1"[draw(9)];
            else if (what < 75 && i > 0 && text[i - 1] >= 0)
                element = suggested(made, text[i - 1], draw(3));
            else if (what < 85 && s > 0)
                element = made->text[s - 1][i];
            add_made(made, s, element);
        }
    }
}

/* Frequencies after a token, or none. */
static void model_small(struct made *made, int32_t before) {
    for (int i = 0; i < made->n_token; i++)
        made->frequency[i] = 1 + (1 << 20) / (uint64_t)(i + 20);
    for (uint32_t k = 0; k < 3 && before >= 0; k++)
        made->frequency[suggested(made, before, k)] += (1 << 22) >> k;
}

/* A quarter of the tokens never come, those of an eighth in a row.  After most tokens two are
 * equally likely; one is sure after itself. */
static void model_large(struct made *made, int32_t before) {
    for (int i = 0; i < made->n_token; i++)
        made->frequency[i] = i % 8 == 3 || i / 2500 == 6 ? 0 : 1 + (1 << 18) / (uint64_t)(i + 20);
    for (uint32_t k = 0; k < 3 && before >= 0; k++)
        made->frequency[suggested(made, before, k)] = (1 << 20) >> (k / 2);
    if (before != 1234)
        return;
    memset(made->frequency, 0, (size_t)made->n_token * sizeof *made->frequency);
    made->frequency[1234] = 1 << 30;
}

/* ---- Coding them --------------------------------------------------------------------------- */

/* What a frame was coded to, and sums of its parts. */
struct sums {
    uint64_t tree, contexts, guesses, code, size;
    uint64_t map, buckets, weights, map_and_weights, last, refinement, right, table, followers;
};

static struct token_bytes table_of(const struct made *made) {
    struct token_bytes table = {.n = made->n_token};
    struct buffer text = {0};
    table.end = calloc((size_t)made->n_token, sizeof *table.end);
    table.use = calloc((size_t)made->n_token, 1);
    assert_true(table.end && table.use);
    for (int i = 0; i < made->n_token; i++) {
        assert_true(buffer_append(&text, made->spelling[i], (size_t)made->length[i]));
        table.end[i] = (uint32_t)text.length;
        table.use[i] = made->length[i] == 0 ? TOKEN_UNUSED
                       : made->byte[i]      ? TOKEN_BYTE
                       : made->joined[i]    ? TOKEN_JOINED
                                            : TOKEN_USED;
    }
    table.text = text.data;
    return table;
}

static uint64_t fold_tree(const struct tree *tree) {
    uint64_t sum = FOLD_START;
    const size_t n = (size_t)tree->n_token;
    sum = fold(sum, tree->element, (n + 1) * sizeof *tree->element);
    for (size_t i = 0; i < n + LITERAL_NODES; i++) {
        const struct tree_node *at = &tree->node[i];
        const int32_t all[] = {at->low, at->middle, at->high, at->anchor, at->place, at->depth};
        sum = i == n ? sum : fold(sum, all, sizeof all);
    }
    return sum;
}

static void fold_state(const struct mixing *m, struct sums *sums) {
    const size_t n = (size_t)m->tree->n_token, nodes = n + LITERAL_NODES;
    const size_t sets[MIXER_LAYERS] = {14 * 32, 256, nodes, n + 1};
    sums->map = fold(FOLD_START, m->bits.map, N_CONTEXT * HISTORY_STATES * sizeof *m->bits.map);
    sums->buckets = fold(FOLD_START, m->bits.buckets, sizeof *m->bits.buckets << 22);
    sums->weights = sums->last = FOLD_START;
    sums->map_and_weights = sums->map;
    for (int i = 0; i < MIXER_LAYERS; i++) {
        const size_t size = sets[i] * N_INPUT * sizeof(int32_t);
        sums->weights = fold(sums->weights, m->mixer.layer[i].weight, size);
        sums->map_and_weights = fold(sums->map_and_weights, m->mixer.layer[i].weight, size);
        sums->last = fold(sums->last, m->mixer.layer[i].used, sets[i] * sizeof(uint16_t));
    }
    sums->last = fold(sums->last, m->mixer.last, nodes * MIXER_LAYERS * sizeof(int32_t));
    sums->refinement = sums->right = sums->table = FOLD_START;
    for (int i = 0; i < N_REFINEMENT; i++)
        sums->refinement =
            fold(sums->refinement, m->refinement.points[i], sizeof *m->refinement.points[i] << 15);
    for (int k = 0; k < N_MATCH; k++) {
        sums->right = fold(sums->right, m->matches.right[k], sizeof m->matches.right[k]);
        sums->table = fold(sums->table, m->matches.table[k], sizeof *m->matches.table[k] << 18);
    }
    sums->followers =
        fold(fold(FOLD_START, m->followers.one, m->n_stream * n * 8), m->followers.two, 65536 * 8);
}

/* Codes the next element of a stream, or decodes it; returns it. */
static int32_t code_made(struct mixing *m, struct made *made, struct model_view *view,
                         void (*model)(struct made *, int32_t), struct bit_coder *coder, size_t s,
                         struct sums *sums) {
    const struct history *h = &m->histories[s];
    int32_t before = -1; /* the model is fed tokens alone */
    for (uint32_t back = 1; back <= h->n && before < 0; back++)
        before = history_element(h, back);
    model(made, before);
    tree_view(m->tree, made->frequency, view);
    const int32_t wanted = coder->encoder ? made->text[s][h->n] : 0;
    const int32_t element = mixing_code(m, s, view, coder, wanted);
    sums->contexts = fold(sums->contexts, m->now.contexts, sizeof m->now.contexts);
    for (int k = 0; k < N_MATCH; k++) {
        sums->guesses = fold(sums->guesses, &m->now.guess[k].length, 4);
        sums->guesses = fold(sums->guesses, &m->now.guess[k].element, 4);
    }
    mixing_add(m, element);
    return element;
}

/* Codes a frame, in steps of a stream's literals and a token; what is decoded must be the same. */
static void run_made(struct made *made, void (*model)(struct made *, int32_t), bool decodes,
                     struct buffer *code, struct sums *sums) {
    struct token_bytes table = table_of(made);
    struct range_encoder encoder;
    struct range_decoder decoder;
    struct bit_cost cost = {0};
    struct bit_coder coder = {
        .encoder = decodes ? NULL : &encoder, .decoder = &decoder, .cost = &cost};
    struct tree tree;
    struct mixing m;
    txl_error error;
    struct model_view view = {.below = calloc((size_t)made->n_token + 2, sizeof *view.below)};
    assert_non_null(view.below);
    assert_int_equal(tree_open(&tree, &table, &error), TXL_OK);
    assert_int_equal(mixing_open(&m, &tree, &table, (size_t)made->n_stream, made->size, &error),
                     TXL_OK);
    range_encoder_start(&encoder, code);
    range_decoder_start(&decoder, code->data, decodes ? code->length : 0);
    *sums = (struct sums){.contexts = FOLD_START, .guesses = FOLD_START};
    for (bool more = true; more;) {
        more = false;
        for (size_t s = 0; s < m.n_stream; s++)
            for (int32_t e = -1; e < 0 && m.histories[s].n < made->n[s]; more = true) {
                const int32_t wanted = made->text[s][m.histories[s].n];
                e = code_made(&m, made, &view, model, &coder, s, sums);
                assert_int_equal(e, wanted);
            }
    }
    assert_true(decodes ? range_decoder_ends(&decoder) && !coder.damaged
                        : range_encoder_finish(&encoder));
    sums->code = fold(FOLD_START, code->data, code->length);
    sums->size = code->length;
    sums->tree = fold_tree(&tree);
    fold_state(&m, sums);
    /* The code takes what its bits cost, and a byte at its end. */
    assert_in_range(code->length, cost.doubled / 8, cost.doubled / 8 + 2);
    mixing_close(&m);
    tree_close(&tree);
    free(view.below);
    free(table.text);
    free(table.end);
    free(table.use);
}

static struct { struct sums small, large; } found;

static int code_frames(void **state) {
    static struct made made;
    (void)state;
    for (int large = 0; large < 2; large++) {
        struct sums *sums = large ? &found.large : &found.small, back;
        struct buffer code = {0};
        (large ? make_large : make_small)(&made);
        run_made(&made, large ? model_large : model_small, false, &code, sums);
        run_made(&made, large ? model_large : model_small, true, &code, &back);
        assert_memory_equal(&back, sums, sizeof back);
        buffer_free(&code);
    }
    return 0;
}

/* ---- The numbers of the other implementation ---------------------------------------------- */

static const struct sums small = {.tree = 0xb7542fc0f190c23d,
                                  .contexts = 0xca077c933df0aff8,
                                  .guesses = 0x81ed6a75cfe73c10,
                                  .code = 0x16be177e37c4dd83,
                                  .size = 10791,
                                  .map = 0xcc8fddc862d1faa7,
                                  .buckets = 0xaa9027533b291900,
                                  .weights = 0x946554d22b4e7619,
                                  .map_and_weights = 0xee5c5b66f0b69d3b,
                                  .last = 0x3fcc897b06138997,
                                  .refinement = 0x8ce73facf9dd65d9,
                                  .right = 0x2e5f65d314bd7ff6,
                                  .table = 0x70927e98f5836f10,
                                  .followers = 0xd3b598b976b5aae3};

static const struct sums large = {.tree = 0xc79a78f128bde712,
                                  .contexts = 0xbd9b3a9414290c9f,
                                  .guesses = 0x3bd527b8f2f15c9c,
                                  .code = 0xac72233284c2fb52,
                                  .size = 0x00000000000006c4,
                                  .map = 0x01e2296fcb730996,
                                  .buckets = 0xbc82d17ca339ba65,
                                  .weights = 0x9c264578c435c1e5,
                                  .map_and_weights = 0xb9232eefc13c62c2,
                                  .last = 0xeb7b60d4ff342557,
                                  .refinement = 0x105c0418c840b06c,
                                  .right = 0x61f11f0d3de3f89f,
                                  .table = 0x053d63c8b75b06aa,
                                  .followers = 0x44bd9df7fdfb7aa7};

#define ASSERT_SUM(part)                                                                           \
    do {                                                                                           \
        assert_true(found.small.part == small.part);                                               \
        assert_true(found.large.part == large.part);                                               \
    } while (0)

TEST(frames_are_coded_as_elsewhere) {
    ASSERT_SUM(size);
    ASSERT_SUM(code);
    ASSERT_SUM(map_and_weights);
}

TEST(probabilities_and_logits_are_those_of_the_recurrence) {
    static struct logistic l;
    logistic_start(&l);
    assert_true(fold(FOLD_START, l.squash, sizeof l.squash) == 0xf6c74bb0381d3172);
    assert_true(fold(FOLD_START, l.stretch, sizeof l.stretch) == 0x250cc129887ac830);
    assert_int_equal(stretch(&l, 1), -2880);
    assert_int_equal(stretch(&l, 65535), 2736);
    assert_int_equal(logit_of_sum((int64_t)5 << 16), 5);
    assert_int_equal(logit_of_sum(-1), -1); /* rounds down */
    assert_int_equal(logit_of_sum((int64_t)2880 << 16), 2879);
    assert_int_equal(logit_of_sum((int64_t)-2880 * 65536), -2879);
    assert_int_equal(logit_of_sum((int64_t)1 << 60), 2879);
}

TEST(the_tree_is_that_of_the_vocabulary) {
    ASSERT_SUM(tree);
}

TEST(contexts_are_those_of_the_text) {
    ASSERT_SUM(contexts);
    ASSERT_SUM(followers);
}

TEST(matches_are_found_and_followed) {
    ASSERT_SUM(guesses);
    ASSERT_SUM(table);
    ASSERT_SUM(right);
}

TEST(bit_histories_follow_their_nodes) {
    ASSERT_SUM(map);
    ASSERT_SUM(buckets);
}

TEST(the_mixer_learns) {
    ASSERT_SUM(weights);
    ASSERT_SUM(last);
}

TEST(the_refinement_learns) {
    ASSERT_SUM(refinement);
}

/* ---- Bounds ------------------------------------------------------------------------------- */

/* However long it has been wrong, a weight stays within 2^24, a match within its least, a
 * probability within its ends. */
TEST(what_learns_is_bounded) {
    enum { STEPS = 20000 };
    static struct logistic l;
    const size_t sets[MIXER_LAYERS] = {1, 2, 1, 3};
    struct mixer mixer;
    struct matches matches;
    struct refinement refinement;
    txl_error error;
    int32_t input[N_INPUT] = {2736, 256, -2880, 100};
    struct mixed mixture = {.input = input, .set = {0, 1, 0, 2}, .out = {-2879, 2879, 0, 1}};
    static const struct match_guess guess[N_MATCH] = {{3, 7}, {40, 7}};
    static const int said[N_MATCH] = {1, -1};
    static const uint64_t contexts[N_REFINEMENT] = {1, 2};
    logistic_start(&l);
    assert_int_equal(mixer_open(&mixer, sets, 1, &error), TXL_OK);
    assert_int_equal(matches_open(&matches, 1, &error), TXL_OK);
    assert_int_equal(refinement_open(&refinement, &l, &error), TXL_OK);
    const uint16_t silent = matches.right[1][0][20];
    for (int i = 0; i < STEPS; i++) {
        mixer_learn(&mixer, &l, &mixture, 1);
        matches_learn(&matches, guess, said, false, 0);
        for (int bit = 0; bit < 2; bit++) {
            const struct refined refined =
                refine(&refinement, contexts, bit ? 2879 : -2879, bit ? 65535 : 1);
            refinement_learn(&refined, bit);
        }
    }
    assert_int_equal(mixer.layer[0].weight[0], 1 << 24);
    assert_int_equal(mixer.layer[0].weight[2], -(1 << 24));
    assert_int_equal(mixer.layer[1].weight[N_INPUT], 56000); /* an error of 1 is too small */
    assert_int_equal(mixer.layer[0].used[0], STEPS);
    assert_int_equal(mixer.last[0], -(1 << 24));
    assert_int_equal(mixer.last[1], 1 << 24);
    assert_int_equal(matches.right[0][0][3], 64);
    assert_int_equal(matches.right[1][0][20], silent);
    assert_int_equal(refine(&refinement, contexts, 2879, 65535).probability, 65535);
    assert_int_equal(refine(&refinement, contexts, -2879, 1).probability, 1);
    mixer_close(&mixer);
    matches_close(&matches);
    refinement_close(&refinement);
}

/* Whatever the table says, a match is held if so many of the last elements are equal, be they the
 * first of its text. */
TEST(matches_are_verified) {
    enum { AT = 5, FILLED = 6 };
    static const int32_t there[AT] = {-9, 1, 2, 3, 4};
    const struct match_guess none[N_MATCH] = {{0, NO_ELEMENT}, {0, NO_ELEMENT}};
    for (uint32_t equal = 0; equal <= AT; equal++) {
        int32_t here[FILLED + AT];
        for (uint32_t i = 0; i < FILLED + equal; i++)
            here[i] = i < FILLED ? 8 : there[AT - equal + i - FILLED];
        int32_t first[AT];
        memcpy(first, there, sizeof first);
        const struct history histories[] = {{.elements = first, .n = AT},
                                            {.elements = here, .n = FILLED + equal}};
        struct matches matches;
        txl_error error;
        assert_int_equal(matches_open(&matches, 2, &error), TXL_OK);
        for (int k = 0; k < N_MATCH; k++)
            for (size_t i = 0; i < (size_t)1 << 18; i++)
                matches.table[k][i] = 1 + 2 * AT;
        matches_add(&matches, histories, 1, none);
        assert_int_equal(matches.held[1][0].length, equal >= 4 ? equal : 0);
        assert_int_equal(matches.held[1][1].length, equal >= 2 ? equal : 0);
        matches_close(&matches);
    }
}

/* A match that has come to the end of another stream's text says nothing until that goes on. */
TEST(matches_end_with_their_text) {
    enum { AT = 3 };
    int32_t there[AT + 1] = {5, 6, 7, 8};
    struct history histories[] = {{.elements = there, .n = AT}, {.n = 0}};
    struct match_guess guess[N_MATCH];
    struct matches matches;
    txl_error error;
    assert_int_equal(matches_open(&matches, 2, &error), TXL_OK);
    matches.held[1][0] = (struct match){.length = 9, .stream = 0, .at = AT};
    matches_look(&matches, histories, 1, guess);
    assert_int_equal(guess[0].length, 0);
    assert_int_equal(guess[0].element, NO_ELEMENT);
    histories[0].n++;
    matches_look(&matches, histories, 1, guess);
    assert_int_equal(guess[0].length, 9);
    assert_int_equal(guess[0].element, 8);
    matches_close(&matches);
}

/* ---- Work --------------------------------------------------------------------------------- */

/* What an element takes depends on its kind, not on what a text says: as many decisions as its leaf
 * is deep, and 8 for a literal.  No vocabulary makes a tree deeper than 19, of tokens that are all
 * alike or alike at their starts, and a search in a table looks at four places. */
TEST(decisions_are_bounded_by_the_vocabulary) {
    enum { DEEPEST = 19 };
    for (int alike = 0; alike < 3; alike++) {
        const int32_t n = TREE_MOST_TOKENS;
        struct token_bytes table = {.n = n};
        struct tree tree;
        txl_error error;
        table.end = calloc((size_t)n, sizeof *table.end);
        table.use = malloc((size_t)n);
        table.text = calloc((size_t)n, 2);
        assert_true(table.end && table.use && table.text);
        memset(table.use, alike == 1 ? TOKEN_BYTE : TOKEN_USED, (size_t)n);
        for (int32_t id = 0; id < n; id++) { /* the rarest first, or the commonest, or no order */
            const int32_t k = alike == 2 ? n - 1 - id : id;
            table.text[2 * id] = (char)(k >> 8);
            table.text[2 * id + 1] = (char)k;
            table.end[id] = 2 * ((uint32_t)id + 1);
        }
        assert_int_equal(tree_open(&tree, &table, &error), TXL_OK);
        int deepest = 0;
        for (int32_t leaf = 0; leaf <= n; leaf++) {
            int32_t node = 0, low = 0, high = n + 1;
            int depth = 0;
            for (; high - low > 1; depth++) {
                const int32_t middle = tree.node[node].middle;
                const bool second = leaf >= middle;
                assert_true(tree.node[node].low == low && tree.node[node].high == high);
                assert_true(low < middle && middle < high);
                node = tree_below(&tree, node, second);
                low = second ? middle : low;
                high = second ? high : middle;
            }
            deepest = depth > deepest ? depth : deepest;
        }
        assert_in_range(deepest, 16, DEEPEST);
        tree_close(&tree);
        free(table.end);
        free(table.use);
        free(table.text);
    }
}

/* The field above moves over a line once while the next is read, whatever that has: all moves
 * together are no more than the text, also of lines of one field after lines of many. */
TEST(fields_above_take_no_more_than_the_text) {
    enum { N = 60000 };
    for (int period = 1; period < 2000; period = period * 3 + 1) {
        struct history h;
        txl_error error;
        uint64_t moves = 0;
        assert_int_equal(history_open(&h, N, &error), TXL_OK);
        for (int i = 0; i < N; i++) {
            const uint32_t before = h.above;
            const char byte = i % period == 0                 ? '\n'
                              : i / period % 2 == 0           ? 'a'
                              : i / period % 6 == 1           ? ' '
                              : i * 7 % period < period / 100 ? ','
                                                              : 'b';
            history_add(&h, NULL, literal_of((unsigned char)byte));
            moves += byte == '\n' ? 0 : h.above - before;
        }
        assert_in_range(moves, 0, N);
        history_close(&h);
    }
}

/* Of texts that repeat themselves a match counts 32 elements back at most, each time it is looked
 * for; a table's set has four buckets, also when all contexts are in one. */
TEST(searches_are_short) {
    enum { N = 5000, LONGEST_CHECKED = 32 };
    struct bit_histories bits;
    struct matches matches;
    struct history h;
    txl_error error;
    const struct match_guess none[N_MATCH] = {{0, NO_ELEMENT}, {0, NO_ELEMENT}};
    assert_int_equal(history_open(&h, N, &error), TXL_OK);
    assert_int_equal(matches_open(&matches, 1, &error), TXL_OK);
    for (int i = 0; i < N; i++) {
        history_add(&h, NULL, literal_of('a'));
        matches_add(&matches, &h, 0, none); /* each is dropped and looked for again */
        for (int k = 0; k < N_MATCH; k++)
            assert_in_range(matches.held[0][k].length, 0, LONGEST_CHECKED);
    }
    matches_close(&matches);
    history_close(&h);

    assert_int_equal(bit_histories_open(&bits, &error), TXL_OK);
    uint64_t contexts[N_CONTEXT];
    struct bucket *given[N_CONTEXT], *least = NULL, *most = NULL;
    for (uint64_t tries = 0, n = 0; n < N_CONTEXT; tries++) /* all of set 0 */
        if ((tries * 0xBF58476D1CE4E5B9) >> 44 == 0)
            contexts[n++] = tries;
    bit_histories_find(&bits, contexts, 0, given);
    for (int i = 0; i < N_CONTEXT; i++) {
        least = !least || given[i] < least ? given[i] : least;
        most = !most || given[i] > most ? given[i] : most;
    }
    assert_ptr_equal(least, bits.buckets);
    assert_in_range(most - least, 1, 3);
    bit_histories_close(&bits);
}

int main(void) {
    return cmocka_run_group_tests(tests, code_frames, NULL);
}
