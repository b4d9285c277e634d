/* Compressing and decompressing: every text comes back, with every model; damage is found, named,
 * and salvaged around. */
#include "tests/files.h"
#include "tests/kernels_at.h"
#include "txl.h"

#include "lib/base/memory.h"
#include "lib/compress/cache.h"
#include "lib/compress/lossless.h"
#include "lib/compress/range_coder.h"
#include "lib/compress/streams.h"
#include "lib/session/session.h"
#include "tests/model_cases.h"

#include <ctype.h>
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- Both ways ---------------------------------------------------------------------------- */

/* What the callbacks of both ways work on. */
struct exchange {
    const txl_model *model;
    struct buffer out;
    uint64_t text, stored; /* of the last progress */
    size_t n_frame;
    txl_frame frame; /* the last */
    uint64_t lost[8][2];
    size_t n_lost;
    char why[80];      /* of the last loss */
    size_t stop_after; /* calls of progress; 0: never */
    size_t n_call;     /* of progress */
    size_t n_early;    /* calls that told a size before anything was written */
    bool no_cache;
};

static txl_status append(void *context, const void *bytes, size_t n, txl_error *error) {
    struct exchange *x = context;
    (void)error;
    return buffer_append(&x->out, bytes, n) ? TXL_OK : TXL_MEMORY;
}

static bool see_progress(void *context, uint64_t text, uint64_t stored) {
    struct exchange *x = context;
    assert_true(text >= x->text && stored >= x->stored);
    x->text = text;
    x->stored = stored;
    x->n_call++;
    x->n_early += stored > 0 && x->out.length == 0;
    return x->stop_after == 0 || --x->stop_after > 0;
}

static txl_status give_model(void *context, uint64_t checksum, const char *name,
                             const txl_model **model, txl_error *error) {
    struct exchange *x = context;
    (void)name, (void)error;
    assert_true(checksum == txl_model_checksum(x->model));
    *model = x->model;
    return TXL_OK;
}

static void see_frame(void *context, const txl_frame *frame) {
    struct exchange *x = context;
    x->n_frame++;
    x->frame = *frame;
}

static void see_lost(void *context, uint64_t begin, uint64_t end, const char *why) {
    struct exchange *x = context;
    assert_true(x->n_lost < 8);
    snprintf(x->why, sizeof x->why, "%s", why);
    x->lost[x->n_lost][0] = begin;
    x->lost[x->n_lost++][1] = end;
}

/* Compresses, fed `step` bytes at a time, to x->out. */
static void compress(struct exchange *x, const char *text, size_t n, int streams, size_t step) {
    txl_compression how = {.streams = streams,
                           .threads = 2,
                           .no_cache = x->no_cache,
                           .write = append,
                           .progress = see_progress,
                           .context = x};
    txl_compressor *compressor;
    txl_error error;
    x->text = x->stored = 0;
    assert_int_equal(txl_compressor_new(x->model, &how, &compressor, &error), TXL_OK);
    for (size_t i = 0; i < n; i += step)
        assert_int_equal(
            txl_compressor_feed(compressor, text + i, n - i < step ? n - i : step, &error), TXL_OK);
    assert_int_equal(txl_compressor_finish(compressor, &error), TXL_OK);
    txl_compressor_free(compressor);
}

static txl_decompression decompression(struct exchange *x) {
    return (txl_decompression){.threads = 1,
                               .model = give_model,
                               .write = append,
                               .progress = see_progress,
                               .frame = see_frame,
                               .lost = see_lost,
                               .context = x};
}

static txl_status decompress(struct exchange *x, const txl_decompression *how, const char *bytes,
                             size_t n, size_t step, txl_error *error) {
    txl_decompressor *decompressor;
    x->text = x->stored = 0;
    assert_int_equal(txl_decompressor_new(how, &decompressor, error), TXL_OK);
    txl_status status = TXL_OK;
    for (size_t i = 0; i < n && !status; i += step)
        status = txl_decompressor_feed(decompressor, bytes + i, n - i < step ? n - i : step, error);
    if (!status)
        status = txl_decompressor_finish(decompressor, error);
    txl_decompressor_free(decompressor);
    return status;
}

/* Returns how many bytes the compressed text has. */
static size_t round_trip(const txl_model *model, const char *text, size_t n, int streams,
                         size_t step) {
    struct exchange to = {.model = model}, back = {.model = model};
    txl_error error = {0};
    compress(&to, text, n, streams, step);
    assert_int_equal(to.text, n);
    const txl_decompression how = decompression(&back);
    txl_status status = decompress(&back, &how, to.out.data, to.out.length, step, &error);
    if (status)
        print_error("%s\n", error.message);
    assert_int_equal(status, TXL_OK);
    assert_int_equal(back.out.length, n);
    if (n > 0)
        assert_memory_equal(back.out.data, text, n);
    assert_int_equal(back.text, n);
    const size_t length = to.out.length;
    buffer_free(&to.out);
    buffer_free(&back.out);
    return length;
}

/* Of a frame's header (weights-format.md). */
enum {
    HEADER_STREAMS = 6,
    HEADER_LENGTHS = 12,
    HEADER_NAME = 40,
    HEADER_FORM = 41,
    HEADER_ORDERS = 42,
    HEADER_PAIRS = 43,
    HEADER_END = 44
};

/* Writes bytes into the first frame's header, and its checksum. */
static void set_header(char *file, size_t at, const void *bytes, size_t n) {
    memcpy(file + at, bytes, n);
    const size_t table = file[HEADER_FORM] == TXL_MIXING_LOGISTIC
                             ? 16
                             : 8 * (size_t)(unsigned char)file[HEADER_STREAMS];
    const size_t end = HEADER_END + (size_t)(unsigned char)file[HEADER_NAME] + table;
    const uint64_t sum = XXH3_64bits(file, end);
    memcpy(file + end, &sum, sizeof sum);
}

/* Numbers that look random, the same ones in every run (Knuth's MMIX constants). */
static uint32_t next_number(uint64_t *state) {
    *state = *state * 6364136223846793005 + 1442695040888963407;
    return (uint32_t)(*state >> 33);
}

/* ---- Models and texts --------------------------------------------------------------------- */

/* A model of each kind, trained on a few lines so that it compresses them, or a case whose text is
 * compressed.  Stored raw, so that its checksum does not depend on the release of zstd. */
static const char *const kinds[] = {"bytes",     "text8", "characters", "pieces",
                                    "wt103-zip", "lm1b",  "hf-bin"};
enum { N_KIND = sizeof kinds / sizeof *kinds, N_TRAINED = 4 };
enum { CHARACTERS = 2, PIECES = 3, WORDS = 4 };

static txl_model *models[N_KIND];

static void open_model(int i) {
    char path[4096];
    txl_error error;
    if (i < N_TRAINED) {
        snprintf(path, sizeof path, "%s.txl", case_path("compressed", kinds[i]));
    } else {
        snprintf(path, sizeof path, "%s", scratch_path("kind.txl"));
        case_convert(kinds[i], NULL, 0, path);
    }
    if (txl_model_open(path, 1, &models[i], &error))
        fail_msg("%s", error.message);
    if (i >= N_TRAINED)
        remove(path);
}

static int open_models(void **state) {
    (void)state;
    for (int i = 0; i < N_KIND; i++)
        open_model(i);
    return 0;
}

static int close_models(void **state) {
    (void)state;
    for (int i = 0; i < N_KIND; i++)
        txl_model_close(models[i]);
    return 0;
}

static char *own_text(int kind, size_t *n) {
    return read_file(kind >= N_TRAINED              ? case_path(kinds[kind], "text.txt")
                     : strcmp(kinds[kind], "text8") ? case_path("compressed", "text.txt")
                                                    : case_path("compressed", "text8.txt"),
                     n);
}

TEST(texts_of_every_model_come_back) {
    for (int i = 0; i < N_KIND; i++) {
        size_t n;
        char *text = own_text(i, &n);
        const size_t length = round_trip(models[i], text, n, 1, n);
        print_message("%s: %zu -> %zu\n", kinds[i], n, length);
        assert_true(length < n);
        round_trip(models[i], text, n, 0, 7);
        free(text);
    }
}

TEST(texts_of_every_case_come_back) {
    for (int i = 0; case_names[i]; i++) {
        struct model_case c;
        if (strncmp(case_names[i], "absolute", 8) == 0) /* these are refused, see below */
            continue;
        case_open(&c, case_names[i], NULL, -1);
        size_t n;
        char *text = read_file(case_path(case_names[i], "text.txt"), &n);
        round_trip(c.model, text, n, 0, 100);
        free(text);
        case_close(&c);
    }
}

/* Strings that texts of any kind may not give back: what the tokenizers drop, replace, normalise or
 * cannot know. */
static const struct {
    const char *bytes;
    size_t n;
} odd[] = {
#define ODD(text)                                                                                  \
    { text, sizeof text - 1 }
    ODD(" "),
    ODD("  "),
    ODD("\n"),
    ODD("\r\n"),
    ODD("\r"),
    ODD("\t"),
    ODD("\0"),
    ODD("\v\f"),
    ODD(" \n"),
    ODD("\n\n \n"),
    ODD("the dog"),
    ODD(" The dog"),
    ODD("\xe2\x80\x93"),
    ODD("\xe2\x80"),
    ODD("\xff\xfe"),
    ODD("\xc3\xa9"),
    ODD("e\xcc\x81"),
    ODD("\xef\xbb\xbf"),
    ODD("<unk>"),
    ODD("<eos>"),
    ODD("<S>"),
    ODD("<s></s>"),
    ODD("<0x41>"),
    ODD("_"),
    ODD("\xe2\x96\x81"),
    ODD("32"),
    ODD(" , \" . "),
    ODD("\xef\xac\x81"),
    ODD("\xc2\xa0"),
    ODD("\xe3\x80\x80"),
    ODD("@-@"),
    ODD("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
    ODD("\xc0\x80\xf5"),
#undef ODD
};
enum { N_ODD = sizeof odd / sizeof *odd };

TEST(odd_texts_come_back) {
    char all[256], reversed[512];
    for (int i = 0; i < 256; i++) {
        all[i] = (char)i;
        reversed[2 * i] = (char)(255 - i); /* as UTF-16 */
        reversed[2 * i + 1] = '\0';
    }
    for (int i = 0; i < N_KIND; i++) {
        const size_t empty = round_trip(models[i], "", 0, 0, 1);
        assert_int_equal(empty, 48);
        for (int j = 0; j < N_ODD; j++)
            assert_true(round_trip(models[i], odd[j].bytes, odd[j].n, 0, 1) <= odd[j].n + 200);
        round_trip(models[i], all, sizeof all, 1, 100);
        round_trip(models[i], reversed, sizeof reversed, 3, 100);
    }
}

/* Of each model's own text, the bytes that are no tokens: white space that the tokenizer drops
 * (line feeds in bytes, the two blanks before a line in characters, those at both ends of a line in
 * words), a tab, and what is spelled <unk>. */
TEST(own_texts_are_tokens) {
    static const size_t expected[N_KIND] = {5, 1, 2, 2, 36, 18, 34};
    for (int i = 0; i < N_KIND; i++) {
        struct token_bytes table;
        struct lossless lossless;
        txl_error error;
        size_t n, n_element, literals = 0;
        char *text = own_text(i, &n);
        int32_t *elements = malloc(n * sizeof *elements);
        assert_int_equal(token_bytes_open(&table, &models[i]->vocabulary, &error), TXL_OK);
        assert_int_equal(lossless_open(&lossless, &models[i]->vocabulary, &table, &error), TXL_OK);
        assert_int_equal(lossless_parse(&lossless, text, n, elements, &n_element, &error), TXL_OK);
        for (size_t k = 0; k < n_element; k++)
            literals += elements[k] < 0;
        assert_int_equal(literals, expected[i]);
        lossless_close(&lossless);
        token_bytes_close(&table);
        free(elements);
        free(text);
    }
}

/* ---- Streams as they are coded ------------------------------------------------------------ */

static const struct frame_form unmixed = {.mixing = TXL_MIXING_NONE};

/* Whatever would be stored as it is goes through the model here. */
static void code_and_decode(struct stream_coder *coder, struct lossless *lossless, const char *text,
                            size_t n, size_t n_stream) {
    struct stream streams[MAX_STREAMS] = {{0}}, back[MAX_STREAMS] = {{0}};
    struct stream *coded[MAX_STREAMS], *decoded[MAX_STREAMS];
    int32_t *elements = malloc(n * sizeof *elements);
    unsigned char *out = malloc(n);
    txl_error error;
    for (size_t i = 0; i < n_stream; i++) {
        const size_t begin = n * i / n_stream, end = n * (i + 1) / n_stream;
        coded[i] = &streams[i];
        decoded[i] = &back[i];
        streams[i].text = (unsigned char *)(uintptr_t)text + begin;
        streams[i].size = back[i].size = end - begin;
        back[i].text = out + begin;
        streams[i].elements = elements + begin;
        assert_int_equal(lossless_parse(lossless, text + begin, end - begin, elements + begin,
                                        &streams[i].n, &error),
                         TXL_OK);
    }
    assert_int_equal(streams_code(coder, coded, n_stream, false, &error), TXL_OK);
    for (size_t i = 0; i < n_stream; i++) {
        back[i].in = (unsigned char *)streams[i].code.data;
        back[i].n_in = streams[i].code.length;
    }
    assert_int_equal(streams_code(coder, decoded, n_stream, true, &error), TXL_OK);
    for (size_t i = 0; i < n_stream; i++) {
        assert_false(back[i].damaged);
        buffer_free(&streams[i].code);
    }
    assert_memory_equal(out, text, n);
    free(out);
    free(elements);
}

/* Texts of odd strings and of each model's own text, joined and cut at random. */
TEST(random_texts_are_coded) {
    enum { ROUNDS = 12, LONGEST = 600 };
    uint64_t random = 1;
    for (int i = 0; i < N_KIND; i++) {
        struct stream_coder coder;
        struct lossless lossless;
        txl_settings settings;
        txl_error error;
        size_t n_own;
        char *own = own_text(i, &n_own);
        txl_model_defaults(models[i], &settings);
        settings.arithmetic = TXL_ARITHMETIC_EXACT;
        settings.threads = 1;
        assert_int_equal(
            stream_coder_open(&coder, models[i], &settings, 5, &unmixed, UINT64_MAX / 2, &error),
            TXL_OK);
        assert_int_equal(lossless_open(&lossless, &models[i]->vocabulary, &coder.table, &error),
                         TXL_OK);
        for (int round = 0; round < ROUNDS; round++) {
            struct buffer text = {0};
            while (text.length < LONGEST) {
                const uint32_t what = next_number(&random) % 8, at = next_number(&random) % N_ODD;
                const size_t from = next_number(&random) % n_own, some = next_number(&random) % 60;
                const char noise = (char)next_number(&random);
                assert_true(what == 0  ? buffer_append(&text, &noise, 1)
                            : what < 4 ? buffer_append(&text, odd[at].bytes, odd[at].n)
                                       : buffer_append(&text, own + from,
                                                       some < n_own - from ? some : n_own - from));
            }
            code_and_decode(&coder, &lossless, text.data, text.length,
                            1 + next_number(&random) % 8);
            buffer_free(&text);
        }
        lossless_close(&lossless);
        stream_coder_close(&coder);
        free(own);
    }
}

/* What the model takes for the tokens of a text that has no literals. */
static double own_bits(const txl_model *model, const txl_settings *settings,
                       const int32_t *elements, size_t n) {
    txl_session *session;
    txl_error error;
    double nats = 0;
    int32_t *ids = malloc((n + 1) * sizeof *ids);
    float *each = malloc(n * sizeof *each);
    ids[0] = txl_model_first_context(model);
    for (size_t i = 0; i < n; i++) {
        assert_true(elements[i] >= 0);
        ids[i + 1] = elements[i];
    }
    assert_int_equal(txl_session_new(model, settings, &session, &error), TXL_OK);
    assert_int_equal(txl_session_score(session, ids, n, ids + 1, each, &error), TXL_OK);
    for (size_t i = 0; i < n; i++)
        nats += (double)each[i];
    txl_session_free(session);
    free(ids);
    free(each);
    return nats / log(2);
}

/* At most 0.5 %, and a few bytes: the share of the flag is far from its end at first, and a code
 * ends with a byte. */
TEST(codes_are_as_short_as_the_nats) {
    enum { N = 10000 };
    for (int i = 0; i < N_TRAINED; i++) {
        struct stream_coder coder;
        struct lossless lossless;
        txl_settings settings;
        txl_error error;
        size_t n_own;
        char *own = own_text(i, &n_own), text[N];
        int32_t elements[N];
        /* Letters and single blanks inside of a line are no literals. */
        for (size_t k = 0, from = 0; k < N; from++) {
            const char byte = own[from % n_own];
            if (isalpha((unsigned char)byte))
                text[k++] = byte;
            else if (k > 0 && k + 1 < N && text[k - 1] != ' ')
                text[k++] = ' ';
        }
        txl_model_defaults(models[i], &settings);
        settings.arithmetic = TXL_ARITHMETIC_EXACT;
        assert_int_equal(
            stream_coder_open(&coder, models[i], &settings, 1, &unmixed, UINT64_MAX / 2, &error),
            TXL_OK);
        assert_int_equal(lossless_open(&lossless, &models[i]->vocabulary, &coder.table, &error),
                         TXL_OK);
        struct stream stream = {.text = (unsigned char *)text, .size = N, .elements = elements};
        struct stream *only = &stream;
        assert_int_equal(lossless_parse(&lossless, text, N, elements, &stream.n, &error), TXL_OK);
        assert_int_equal(streams_code(&coder, &only, 1, false, &error), TXL_OK);
        const double bits = own_bits(models[i], &settings, elements, stream.n);
        print_message("%s: %zu bytes, %.1f of the model's own\n", kinds[i], stream.code.length,
                      bits / 8);
        assert_false(stream.raw);
        assert_true((double)stream.code.length <= 1.005 * bits / 8 + 4);
        buffer_free(&stream.code);
        lossless_close(&lossless);
        stream_coder_close(&coder);
        free(own);
    }
}

/* ---- The cache ---------------------------------------------------------------------------- */

/* The cache written again, without tables: every token so far, with its stream's past. */
struct counted {
    int32_t past[5], id; /* the latest of the past first */
    int n_past;
};

struct naive {
    struct counted *counted;
    size_t n;
    double weight[6][6];
};

static bool same_past(const struct counted *a, const struct counted *b, int k) {
    return a->n_past >= k && b->n_past >= k &&
           memcmp(a->past, b->past, (size_t)k * sizeof *a->past) == 0;
}

/* The parts of the mixture for a token of probability m; returns how many orders are seen. */
static int naive_parts(const struct naive *c, const struct counted *now, double m, double *part) {
    int seen = 0;
    part[0] = m;
    for (int k = 0; k < 5; k++) {
        double n = 0, d = 0, count = 0;
        for (size_t i = 0; i < c->n; i++) {
            bool first = true;
            if (!same_past(&c->counted[i], now, k))
                continue;
            for (size_t j = 0; j < i && first; j++)
                first = !same_past(&c->counted[j], now, k) || c->counted[j].id != c->counted[i].id;
            n++;
            d += first;
            count += c->counted[i].id == now->id;
        }
        part[k + 1] = n > 0 ? (count + d * m) / (n + d) : m;
        seen = n > 0 ? k + 1 : seen;
    }
    return seen;
}

static void naive_learn(struct naive *c, int seen, const double *part) {
    double *w = c->weight[seen], p = 0;
    for (int k = 0; k < 6; k++)
        p += w[k] * part[k];
    for (int k = 0; k < 6; k++)
        w[k] = 0.99 * w[k] * part[k] / p + 0.01 / 6;
}

/* Nats of each token of streams of equal length in lockstep; nats[s n + t] are the model's. */
static double naive_nats(const int32_t *ids, const float *nats, size_t n_stream, size_t n) {
    struct naive c = {.counted = calloc(n_stream * n, sizeof *c.counted)};
    double all = 0;
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            c.weight[i][k] = k == 0 ? 0.8 : 0.04;
    for (size_t t = 0; t < n; t++) {
        struct counted now[4];
        double part[4][6];
        int seen[4];
        for (size_t s = 0; s < n_stream; s++) {
            now[s] = (struct counted){.id = ids[s * n + t], .n_past = t < 5 ? (int)t : 5};
            for (int k = 0; k < now[s].n_past; k++)
                now[s].past[k] = ids[s * n + t - 1 - (size_t)k];
            seen[s] = naive_parts(&c, &now[s], exp(-(double)nats[s * n + t]), part[s]);
            double p = 0;
            for (int k = 0; k < 6; k++)
                p += c.weight[seen[s]][k] * part[s][k];
            all -= log(p);
        }
        for (size_t s = 0; s < n_stream; s++)
            naive_learn(&c, seen[s], part[s]);
        for (size_t s = 0; s < n_stream; s++)
            c.counted[c.n++] = now[s];
    }
    free(c.counted);
    return all;
}

/* Streams of words that repeat, some of other bands: as long as the mixture says, together, and
 * they come back. */
TEST(streams_share_a_cache) {
    enum { STREAMS = 3, N = 90, SAID = 17 };
    for (int i = 0; i < N_KIND; i++) {
        const txl_model *model = models[i];
        struct stream_coder coder;
        struct stream streams[STREAMS] = {{0}}, *listed[STREAMS];
        unsigned char *texts[STREAMS];
        int32_t ids[STREAMS * N];
        float nats[STREAMS * N];
        txl_settings settings;
        txl_error error;
        uint64_t random = 5;
        size_t n_code = 0;
        txl_model_defaults(model, &settings);
        settings.arithmetic = TXL_ARITHMETIC_EXACT;
        const struct frame_form form = {TXL_MIXING_LINEAR, 5, CACHE_PAIRS};
        assert_good(
            stream_coder_open(&coder, model, &settings, STREAMS, &form, UINT64_MAX / 2, &error),
            &error);
        int32_t vocabulary[SAID];
        for (size_t k = 0; k < SAID;) {
            size_t length = 0;
            const int32_t id = (int32_t)(next_number(&random) % (uint64_t)model->vocabulary.n);
            token_bytes_at(&coder.table, false, id, &length);
            if (coder.table.use[id] != TOKEN_UNUSED)
                vocabulary[k++] = id;
        }
        for (size_t t = 0; t < STREAMS * N; t++)
            ids[t] = vocabulary[t % 7 < 4 ? t % 5 : next_number(&random) % SAID];
        for (size_t s = 0; s < STREAMS; s++) {
            size_t size = 0;
            bool loose = true;
            char *text = malloc(N * 64);
            for (size_t t = 0; t < N; t++) {
                size_t length;
                const char *bytes = token_bytes_at(&coder.table, loose, ids[s * N + t], &length);
                memcpy(text + size, bytes, length);
                for (size_t b = 0; b < length; b++)
                    loose = loose_behind(loose, (unsigned char)bytes[b]);
                size += length;
            }
            txl_session *session;
            assert_good(txl_session_new(model, &settings, &session, &error), &error);
            int32_t context[N] = {txl_model_first_context(model)};
            memcpy(context + 1, ids + s * N, (N - 1) * sizeof *ids);
            if (model->vocabulary.kind != TXL_LM1B)
                assert_good(
                    txl_session_score(session, context, N, ids + s * N, nats + s * N, &error),
                    &error);
            txl_session_free(session);
            streams[s] = (struct stream){
                .text = (unsigned char *)text, .size = size, .elements = ids + s * N, .n = N};
            listed[s] = &streams[s];
        }
        assert_good(streams_code(&coder, listed, STREAMS, false, &error), &error);
        for (size_t s = 0; s < STREAMS; s++) {
            assert_false(streams[s].raw);
            n_code += streams[s].code.length;
        }
        const double expected = naive_nats(ids, nats, STREAMS, N) / log(2) / 8;
        print_message("%s: %zu bytes, %.1f of the mixture\n", kinds[i], n_code, expected);
        if (model->vocabulary.kind != TXL_LM1B)
            assert_true(fabs((double)n_code - expected) <= 0.005 * expected + 5);
        for (size_t s = 0; s < STREAMS; s++) {
            streams[s].in = (unsigned char *)streams[s].code.data;
            streams[s].n_in = streams[s].code.length;
            texts[s] = streams[s].text;
            streams[s].text = calloc(streams[s].size, 1);
        }
        assert_good(streams_code(&coder, listed, STREAMS, true, &error), &error);
        for (size_t s = 0; s < STREAMS; s++) {
            assert_false(streams[s].damaged);
            assert_memory_equal(streams[s].text, texts[s], streams[s].size);
            buffer_free(&streams[s].code);
            free(streams[s].text);
            free(texts[s]);
        }
        stream_coder_close(&coder);
    }
}

/* The cache needs all streams of a frame at once. */
TEST(a_cache_needs_room_for_all_streams) {
    size_t n;
    char *text = own_text(2, &n);
    struct exchange x = {.model = models[2]};
    const txl_compression how = {.streams = 4, .memory = 1, .write = append, .context = &x};
    txl_compressor *compressor;
    txl_error error;
    for (int streams = 1; streams <= 2; streams++) {
        assert_good(txl_compressor_new(x.model, &how, &compressor, &error), &error);
        for (int k = 0; k < 20 * streams && x.out.length == 0; k++)
            assert_good(txl_compressor_feed(compressor, text, n < 450 ? n : 450, &error), &error);
        const txl_status status = txl_compressor_finish(compressor, &error);
        assert_int_equal(status, streams == 1 ? TXL_OK : TXL_MEMORY);
        if (streams == 2)
            assert_string_equal(error.message,
                                "out of memory: 2 streams are read together, and 1 of them fit");
        txl_compressor_free(compressor);
        x.out.length = 0;
    }
    buffer_free(&x.out);
    free(text);
}

/* Of 4 pairs of an order the older two go when a fifth comes; order 0 keeps all. */
TEST(old_pairs_are_forgotten) {
    static const size_t bands[] = {0, 3, 9};
    struct cache cache;
    struct cache_history past = {.n = 0};
    struct cache_view view;
    txl_error error;
    uint32_t extra[9] = {0}, band_extra[2] = {0};
    double part[CACHE_PART];
    assert_good(cache_open(&cache, 2, 2, 2, bands, &error), &error);
    /* Pairs of order 1, as they come: 1 2, 2 1 (again: counted), 1 3, 3 8; then 8 1. */
    static const int32_t ids[] = {1, 2, 1, 2, 1, 3, 8, 1};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        assert_good(cache_count(&cache, &past, ids[i], &error), &error);
    cache_look(&cache, &past, &view, extra, band_extra);
    assert_int_equal(view.n_seen, 2);
    assert_int_equal(view.order[0].n, 8);
    assert_int_equal(view.order[0].d, 4);
    assert_int_equal(view.order[1].n, 1); /* of 1 only 3 is left */
    assert_int_equal(view.order[1].d, 1);
    assert_true(extra[3] > 0 && extra[2] == 0 && band_extra[1] == extra[3] && band_extra[0] == 0);
    cache_parts(&cache, &view, 3, 0.25, part);
    assert_float_equal(part[1], (1 + 4 * 0.25) / 12, 1e-15);
    assert_float_equal(part[2], (1 + 0.25) / 2, 1e-15);
    cache_parts(&cache, &view, 2, 0.25, part);
    assert_float_equal(part[2], 0.25 / 2, 1e-15);
    cache_clear(&cache, &view, extra, band_extra);
    for (size_t i = 0; i < 9; i++)
        assert_int_equal(extra[i], 0);
    assert_int_equal(band_extra[1], 0);
    struct cache_history two = {.id = {2}, .n = 1};
    cache_look(&cache, &two, &view, extra, band_extra);
    assert_int_equal(view.n_seen, 1); /* 2 1 was of the older half too */
    cache_learn(&cache, &view, part);
    cache_reset(&cache);
    past.n = 0;
    cache_look(&cache, &past, &view, extra, band_extra);
    assert_int_equal(view.n_seen, 0);
    assert_int_equal(view.share, CACHE_ONE);
    assert_float_equal(cache.weight[2][0], 0.8, 0);
    cache_close(&cache);
}

/* The finaliser of SplitMix64, and a context's key: what somebody knows who writes a text against
 * the cache's tables. */
static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    return x ^ x >> 31;
}

static uint64_t key_of_two(int32_t first, int32_t second) {
    const uint64_t step = 0x9E3779B97F4A7C15;
    return mixed(mixed(2 + step + (uint32_t)first) + step + (uint32_t)second);
}

/* A text whose contexts of two tokens all have keys that agree in some bits, as many as tables of
 * this size use of the key at most: they are found as fast as any others.  With places taken from
 * the key a search looked at thousands. */
TEST(contexts_are_found_fast_in_a_text_written_against_it) {
    enum { TOKENS = 30000, N_TOKEN = 4000, BITS = 17 };
    static const size_t bands[] = {0, N_TOKEN};
    struct cache cache;
    struct cache_history past = {.n = 0};
    txl_error error;
    assert_good(cache_open(&cache, 5, 15, 1, bands, &error), &error);
    uint64_t random = 1;
    int32_t last = 0, next;
    for (int i = 0; i < TOKENS; i++) {
        do
            next = (int32_t)(next_number(&random) % N_TOKEN);
        while ((key_of_two(last, next) & ((1 << BITS) - 1)) >> (BITS - 5) != 0);
        last = next;
        assert_good(cache_count(&cache, &past, next, &error), &error);
    }
    assert_in_range(cache_longest_search(&cache), 1, 500);
    cache_close(&cache);
}

/* A known pair finds its place in a full order, and nothing is forgotten for it. */
TEST(a_full_order_counts_known_pairs) {
    static const size_t bands[] = {0, 9};
    static const int32_t ids[] = {0, 1, 0, 2, 0, 1}; /* 0 1, 1 0, 0 2, 2 0; 0 1 again */
    struct cache cache;
    struct cache_history past = {.n = 0}, zero = {.id = {0}, .n = 1};
    struct cache_view view;
    txl_error error;
    uint32_t extra[9] = {0}, band_extra[1] = {0};
    assert_good(cache_open(&cache, 2, 2, 1, bands, &error), &error);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        assert_good(cache_count(&cache, &past, ids[i], &error), &error);
    cache_look(&cache, &zero, &view, extra, band_extra);
    assert_int_equal(view.order[1].n, 3);
    assert_int_equal(view.order[1].d, 2);
    cache_clear(&cache, &view, extra, band_extra);
    /* However little the model is trusted, every token can be coded. */
    for (int k = 0; k <= 2; k++)
        cache.weight[2][k] = k == 0 ? 0 : 1e-9;
    cache_look(&cache, &zero, &view, extra, band_extra);
    assert_int_equal(view.share, 1);
    cache_close(&cache);
}

/* ---- Mixing ------------------------------------------------------------------------------- */

/* A stream of a frame that is coded by hand. */
struct by_hand {
    const int32_t *elements; /* [n] */
    size_t n, at;
    txl_session *session;
    int32_t fed;
    bool twice; /* lm1b: what ends a line is fed again */
};

/* Feeds one stream, and codes its literals up to a token, and that. */
static void code_by_hand(const struct stream_coder *coder, struct by_hand *s, struct mixing *m,
                         size_t place, struct bit_coder *bits) {
    const size_t n_token = coder->n_head;
    float *e = calloc(n_token, sizeof *e);
    uint64_t *frequency = calloc(quantised_room(n_token), sizeof *frequency);
    struct model_view view = {.below = calloc(n_token + 2, sizeof *view.below)};
    double sum;
    txl_error error;
    bool token = s->twice;
    assert_true(e && frequency && view.below);
    assert_good(session_feed_weights(&s->session, 1, &s->fed, e, n_token, &sum, &error), &error);
    quantise(e, n_token, sum, coder->head_use, frequency);
    tree_view(m->tree, frequency, &view);
    s->twice = false;
    while (s->at < s->n && !token) {
        const int32_t element = s->elements[s->at++];
        assert_int_equal(mixing_code(m, place, &view, bits, element), element);
        mixing_add(m, element);
        token = element >= 0;
        if (!token)
            continue;
        s->fed = element;
        s->twice =
            coder->model->vocabulary.kind == TXL_LM1B && element == coder->model->vocabulary.eos;
    }
    free(e);
    free(frequency);
    free(view.below);
}

/* Streams of other lengths, with literals: their code is that of elements in steps, the streams in
 * their order, each by its own session. */
TEST(streams_are_mixed_in_steps) {
    enum { STREAMS = 3 };
    for (int i = 0; i < N_KIND; i++) {
        const txl_model *model = models[i];
        const struct frame_form form = {.mixing = TXL_MIXING_LOGISTIC};
        struct stream_coder coder;
        struct lossless lossless;
        struct stream streams[STREAMS] = {{0}}, *listed[STREAMS];
        struct by_hand by_hand[STREAMS] = {{0}};
        int32_t elements[STREAMS][2048];
        size_t n, sizes[STREAMS];
        txl_settings settings;
        txl_error error;
        if (model->network->bands.n_band > 1)
            continue;
        char *text = own_text(i, &n);
        txl_model_defaults(model, &settings);
        settings.arithmetic = TXL_ARITHMETIC_EXACT;
        assert_good(stream_coder_open(&coder, model, &settings, STREAMS, &form, 0, &error), &error);
        assert_good(lossless_open(&lossless, &model->vocabulary, &coder.table, &error), &error);
        for (size_t s = 0; s < STREAMS; s++) {
            sizes[s] = n - n / 4 * s;
            streams[s] = (struct stream){
                .text = (unsigned char *)text, .size = sizes[s], .elements = elements[s]};
            listed[s] = &streams[s];
            assert_good(
                lossless_parse(&lossless, text, sizes[s], elements[s], &streams[s].n, &error),
                &error);
            by_hand[s] = (struct by_hand){
                .elements = elements[s], .n = streams[s].n, .fed = txl_model_first_context(model)};
            assert_good(txl_session_new(model, &settings, &by_hand[s].session, &error), &error);
        }
        assert_good(streams_code(&coder, listed, STREAMS, false, &error), &error);
        struct buffer code = {0};
        struct range_encoder encoder;
        struct bit_cost cost = {0};
        struct bit_coder bits = {.encoder = &encoder, .cost = &cost};
        struct mixing m;
        assert_good(mixing_open(&m, &coder.tree, &coder.table, STREAMS, sizes, &error), &error);
        range_encoder_start(&encoder, &code);
        for (bool more = true; more;) {
            more = false;
            for (size_t s = 0; s < STREAMS; s++)
                if (by_hand[s].at < by_hand[s].n) {
                    code_by_hand(&coder, &by_hand[s], &m, s, &bits);
                    more = true;
                }
        }
        assert_true(range_encoder_finish(&encoder));
        assert_int_equal(coder.code.length, code.length);
        assert_memory_equal(coder.code.data, code.data, code.length);
        for (size_t s = 0; s < STREAMS; s++) {
            assert_false(streams[s].raw);
            txl_session_free(by_hand[s].session);
        }
        mixing_close(&m);
        buffer_free(&code);
        lossless_close(&lossless);
        stream_coder_close(&coder);
        free(text);
    }
}

/* Codes streams[n] of a text each, and tells which are raw by bits. */
static unsigned code_raw(struct stream_coder *coder, struct lossless *lossless,
                         const char *const *texts, size_t n, size_t size) {
    struct stream streams[3] = {{0}}, *listed[3];
    int32_t *elements = malloc(n * size * sizeof *elements);
    unsigned raw = 0;
    txl_error error;
    assert_non_null(elements);
    for (size_t s = 0; s < n; s++) {
        streams[s] = (struct stream){.text = (unsigned char *)(uintptr_t)texts[s],
                                     .size = size,
                                     .elements = elements + s * size};
        listed[s] = &streams[s];
        assert_good(
            lossless_parse(lossless, texts[s], size, elements + s * size, &streams[s].n, &error),
            &error);
    }
    assert_good(streams_code(coder, listed, n, false, &error), &error);
    for (size_t s = 0; s < n; s++)
        raw |= (unsigned)streams[s].raw << s;
    free(elements);
    return raw;
}

/* A stream that the model makes no shorter is raw, be it found after its first 4 KiB or at its end,
 * and the others are coded as if it were not there. */
TEST(raw_streams_leave_no_trace) {
    enum { LONGEST = 6000 };
    static const size_t sizes[] = {LONGEST, 3000};
    const struct frame_form form = {.mixing = TXL_MIXING_LOGISTIC};
    struct stream_coder coder;
    struct lossless lossless;
    txl_settings settings;
    txl_error error;
    size_t n_own;
    char *own = own_text(CHARACTERS, &n_own), first[LONGEST], noise[LONGEST], last[LONGEST];
    uint64_t random = 5;
    txl_model_defaults(models[CHARACTERS], &settings);
    settings.arithmetic = TXL_ARITHMETIC_EXACT;
    assert_good(stream_coder_open(&coder, models[CHARACTERS], &settings, 3, &form, 0, &error),
                &error);
    assert_good(lossless_open(&lossless, &models[CHARACTERS]->vocabulary, &coder.table, &error),
                &error);
    for (size_t i = 0; i < LONGEST; i++) {
        first[i] = own[(i + i / 300) % n_own];
        noise[i] = (char)next_number(&random);
        last[i] = own[(i + i / 200) % n_own];
    }
    for (size_t r = 0; r < sizeof sizes / sizeof *sizes; r++) {
        struct buffer alone = {0};
        assert_int_equal(code_raw(&coder, &lossless, (const char *[]){first, last}, 2, sizes[r]),
                         0);
        assert_true(coder.code.length < sizes[r] / 4);
        assert_true(buffer_append(&alone, coder.code.data, coder.code.length));
        assert_int_equal(
            code_raw(&coder, &lossless, (const char *[]){first, noise, last}, 3, sizes[r]), 2);
        assert_int_equal(coder.code.length, alone.length);
        assert_memory_equal(coder.code.data, alone.data, alone.length);
        assert_int_equal(code_raw(&coder, &lossless, (const char *[]){noise}, 1, sizes[r]), 1);
        assert_int_equal(coder.code.length, 0);
        buffer_free(&alone);
    }
    lossless_close(&lossless);
    stream_coder_close(&coder);
    free(own);
}

/* ---- The same bytes ----------------------------------------------------------------------- */

/* Little memory, other threads, other divisions of the text, the caller's way of rounding. */
TEST(compressed_bytes_depend_on_the_text_alone) {
    for (int i = 0; i < N_KIND; i++) {
        size_t n;
        char *text = own_text(i, &n);
        for (int threads = 1; threads <= 6; threads++) {
            const bool cached = threads > 3;
            struct exchange first = {.model = models[i], .no_cache = !cached};
            struct exchange other = {.model = models[i]};
            compress(&first, text, n, 8, n);
            const txl_compression how = {.streams = 8,
                                         .threads = threads % 3 + 1,
                                         .no_cache = !cached,
                                         .memory = cached         ? 0
                                                   : threads == 1 ? 1
                                                   : threads == 2 ? 3000000
                                                                  : 0,
                                         .write = append,
                                         .context = &other};
            txl_compressor *compressor;
            txl_error error;
            assert_int_equal(txl_compressor_new(models[i], &how, &compressor, &error), TXL_OK);
            for (int twice = 0; twice < 2; twice++) { /* a compressor may be used again */
                other.out.length = 0;
                assert_int_equal(fesetround(twice ? FE_UPWARD : FE_TOWARDZERO), 0);
                for (size_t k = 0; k < n; k++)
                    assert_int_equal(txl_compressor_feed(compressor, text + k, 1, &error), TXL_OK);
                assert_int_equal(txl_compressor_finish(compressor, &error), TXL_OK);
                assert_int_equal(fesetround(FE_TONEAREST), 0);
                assert_int_equal(other.out.length, first.out.length);
                assert_memory_equal(other.out.data, first.out.data, first.out.length);
            }
            txl_compressor_free(compressor);
            buffer_free(&other.out);
            buffer_free(&first.out);
        }
        free(text);
    }
}

/* A file that an earlier version wrote: it is opened, and written again to the byte. */
static void kept_file_opens(int i, bool mixed) {
    char name[64];
    size_t n, n_kept;
    char *text = own_text(i, &n);
    snprintf(name, sizeof name, "%s%s.txlz", kinds[i], mixed ? "-mixed" : "");
    const char *path = case_path("compressed", name);
    struct exchange now = {.model = models[i], .no_cache = !mixed}, back = {.model = models[i]};
    txl_error error;
    compress(&now, text, n, 2, n);
    if (getenv("TXL_KEEP_COMPRESSED")) /* for a new kind */
        put_file(path, now.out.data, now.out.length);
    char *kept = read_file(path, &n_kept);
    const txl_decompression how = decompression(&back);
    assert_int_equal(decompress(&back, &how, kept, n_kept, n_kept, &error), TXL_OK);
    assert_int_equal(back.out.length, n);
    assert_memory_equal(back.out.data, text, n);
    assert_int_equal(now.out.length, n_kept);
    assert_memory_equal(now.out.data, kept, n_kept);
    buffer_free(&now.out);
    buffer_free(&back.out);
    free(kept);
    free(text);
}

/* With every table of kernels. */
TEST(kept_files_open) {
    for (size_t v = 0; kernels_at(v); v++) {
        setenv("TXL_CPU", kernels_at(v)->name, 1);
        print_message("%s\n", kernels_at(v)->name);
        for (int i = 0; i < N_KIND; i++) {
            txl_model_close(models[i]);
            open_model(i);
            kept_file_opens(i, false);
            kept_file_opens(i, true);
        }
    }
    unsetenv("TXL_CPU");
}

/* The file states how many orders its cache has, and how many pairs. */
TEST(a_cache_has_the_orders_and_pairs_of_its_file) {
    size_t n;
    char *text = own_text(WORDS, &n);
    struct exchange to = {.model = models[WORDS]};
    compress(&to, text, n, 2, n);
    assert_int_equal(to.out.data[HEADER_FORM], TXL_MIXING_LINEAR);
    assert_int_equal(to.out.data[HEADER_ORDERS], 5);
    assert_int_equal(to.out.data[HEADER_PAIRS], 20);
    for (int other = 0; other < 4; other++) {
        struct exchange back = {.model = models[WORDS]};
        const txl_decompression how = decompression(&back);
        txl_error error;
        const char orders = (char)(5 - other % 2), pairs = (char)(20 - 18 * (other / 2));
        set_header(to.out.data, HEADER_ORDERS, &orders, 1);
        set_header(to.out.data, HEADER_PAIRS, &pairs, 1);
        const txl_status status =
            decompress(&back, &how, to.out.data, to.out.length, to.out.length, &error);
        assert_int_equal(status, other == 0 ? TXL_OK : TXL_FORMAT);
        buffer_free(&back.out);
    }
    buffer_free(&to.out);
    free(text);
}

/* Vocabularies with bands are mixed by the cache, others by decisions; no other form is read. */
TEST(forms_are_those_of_the_vocabulary) {
    for (int i = 0; i < N_KIND; i++) {
        const bool bands = models[i]->network->bands.n_band > 1;
        const txl_mixing own = bands ? TXL_MIXING_LINEAR : TXL_MIXING_LOGISTIC,
                         foreign = bands ? TXL_MIXING_LOGISTIC : TXL_MIXING_LINEAR;
        size_t n;
        char *text = own_text(i, &n), file[4096] = {0};
        struct exchange to = {.model = models[i]}, back = {.model = models[i]};
        txl_decompression how = decompression(&back);
        txl_error error;
        compress(&to, text, n, 1, n);
        how.list = true;
        assert_good(decompress(&back, &how, to.out.data, to.out.length, n, &error), &error);
        assert_int_equal(back.frame.mixing, own);
        how.list = false;
        /* The same header in the other form: of n bytes, coded in half as many. */
        const struct {
            uint32_t raw, code;
            uint64_t sum;
        } together = {0, (uint32_t)n / 2, 1};
        const struct { uint32_t size, sum; } apart = {(uint32_t)n / 2, 1};
        const unsigned char form[] = {(unsigned char)foreign, bands ? 0 : 5, bands ? 0 : 20};
        const size_t table = HEADER_END + (size_t)to.out.data[HEADER_NAME];
        memcpy(file, to.out.data, table);
        memcpy(file + table, bands ? (const void *)&together : &apart, bands ? 16 : 8);
        set_header(file, HEADER_FORM, form, sizeof form);
        assert_int_equal(decompress(&back, &how, file, sizeof file, sizeof file, &error),
                         TXL_FORMAT);
        assert_string_equal(error.message, "damaged: a frame's form is none of its model's");
        buffer_free(&to.out);
        buffer_free(&back.out);
        free(text);
    }
}

/* ---- The cache of a program's own ---------------------------------------------------------- */

/* Logarithms of random probabilities, which the next call may repeat. */
static void random_distribution(uint64_t *random, float *logprob, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)(logprob[i] = (float)(next_number(random) % 1000) / 200));
    for (size_t i = 0; i < n; i++)
        logprob[i] -= (float)log(sum);
}

TEST(a_cache_mixes_whole_distributions) {
    for (int i = 0; i < N_KIND; i++) {
        const size_t n = (size_t)txl_model_n_token(models[i]);
        float *plain = malloc(n * sizeof *plain), *mixed = malloc(n * sizeof *mixed);
        uint64_t random = 3;
        txl_cache *cache;
        txl_error error;
        assert_non_null(plain);
        assert_non_null(mixed);
        assert_int_equal(txl_cache_new(models[i], &cache, &error), TXL_OK);
        for (int text = 0; text < 2; text++) {
            double likelier = 0;
            for (int at = 0; at < 200; at++) {
                const int32_t id = (int32_t)(next_number(&random) % 4); /* it repeats itself */
                random_distribution(&random, plain, n);
                memcpy(mixed, plain, n * sizeof *mixed);
                txl_cache_mix(cache, mixed);
                double sum = 0, one, most = 0;
                for (size_t k = 0; k < n; k++) {
                    sum += exp((double)mixed[k]);
                    most = fmax(most, fabs((double)mixed[k] - (double)plain[k]));
                }
                assert_float_equal(sum, 1, 1e-5);
                assert_true(at > 0 || most < 1e-6); /* an empty cache changes nothing */
                assert_int_equal(txl_cache_add(cache, id, plain[id], &one, &error), TXL_OK);
                assert_float_equal(one, mixed[id], 1e-5);
                likelier += one - (double)plain[id];
            }
            assert_true(likelier > 50);
            txl_cache_reset(cache);
        }
        double one;
        assert_int_equal(txl_cache_add(cache, -1, 0, &one, &error), TXL_ARGUMENT);
        assert_int_equal(txl_cache_add(cache, (int32_t)n, 0, NULL, &error), TXL_ARGUMENT);
        txl_cache_free(cache);
        free(plain);
        free(mixed);
    }
}

/* Tokens that are only counted teach the weights nothing. */
TEST(a_cache_counts_what_was_not_predicted) {
    txl_cache *counted, *learned;
    txl_error error;
    double first, second;
    assert_int_equal(txl_cache_new(models[PIECES], &counted, &error), TXL_OK);
    assert_int_equal(txl_cache_new(models[PIECES], &learned, &error), TXL_OK);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(txl_cache_add(counted, 7, -3, NULL, &error), TXL_OK);
        assert_int_equal(txl_cache_add(learned, 7, -3, &second, &error), TXL_OK);
    }
    assert_int_equal(txl_cache_add(counted, 7, -3, &first, &error), TXL_OK);
    assert_int_equal(txl_cache_add(learned, 7, -3, &second, &error), TXL_OK);
    /* 0.8 of the model, and 0.04 of each of the orders 0 to 4, of which all tokens were 7. */
    double m = exp(-3), p = 0.8 * m;
    for (int k = 0; k < 5; k++)
        p += 0.04 * (30 - k + m) / (31 - k);
    assert_float_equal(first, log(p), 1e-12);
    assert_true(second > first + 1);
    txl_cache_free(counted);
    txl_cache_free(learned);
    txl_cache_free(NULL);
}

/* ---- Frames ------------------------------------------------------------------------------- */

enum { BITS = 2 * MAX_STREAM + 20000 };

/* Random bytes, and somewhere in them text. */
static char *mixed_text(size_t n) {
    char *text = malloc(n);
    uint64_t random = 11;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        text[i] = i / 1000 % 64 == 20 ? "the dog jumps. "[i % 15] : (char)next_number(&random);
    return text;
}

TEST(long_texts_have_several_frames) {
    char *text = mixed_text(BITS);
    struct exchange to = {.model = models[CHARACTERS]}, back = {.model = models[CHARACTERS]};
    txl_error error;
    compress(&to, text, BITS, 1, 4096);
    assert_true(to.out.length <= BITS + BITS / 1000 + 200);
    txl_decompression how = decompression(&back);
    assert_int_equal(decompress(&back, &how, to.out.data, to.out.length, 999, &error), TXL_OK);
    assert_int_equal(back.n_frame, 3);
    assert_int_equal(back.frame.offset, 2 * MAX_STREAM);
    assert_int_equal(back.frame.text, BITS - 2 * MAX_STREAM);
    assert_int_equal(back.frame.streams, 1);
    assert_int_equal(back.frame.arithmetic, 1);
    assert_true(back.frame.checksum == txl_model_checksum(models[CHARACTERS]));
    assert_int_equal(back.frame.settings.mem_len, 16);
    assert_int_equal(back.stored, to.out.length);
    assert_int_equal(back.out.length, BITS);
    assert_memory_equal(back.out.data, text, BITS);

    /* Lists, without asking for the model. */
    back.out.length = back.n_frame = 0;
    how.list = true;
    how.model = NULL;
    assert_int_equal(decompress(&back, &how, to.out.data, to.out.length, 999, &error), TXL_OK);
    assert_int_equal(back.n_frame, 3);
    assert_int_equal(back.text, BITS);
    assert_int_equal(back.stored, to.out.length);
    assert_int_equal(back.out.length, 0);

    /* One after the other. */
    const size_t one = to.out.length;
    compress(&to, "the dog", 7, 1, 7);
    how = decompression(&back);
    back.text = back.stored = 0;
    assert_int_equal(decompress(&back, &how, to.out.data, to.out.length, 999, &error), TXL_OK);
    assert_int_equal(back.out.length, BITS + 7);
    assert_memory_equal(back.out.data + BITS, "the dog", 7);
    assert_true(to.out.length > one);
    buffer_free(&to.out);
    buffer_free(&back.out);
    free(text);
}

static void check_small(const char *text, size_t n, size_t most, size_t calls, size_t early) {
    struct exchange to = {.model = models[CHARACTERS], .stop_after = calls, .no_cache = true},
                    back = {.model = models[CHARACTERS]};
    txl_error error;
    compress(&to, text, n, 1, n);
    assert_true(to.out.length < most);
    assert_true(to.n_early >= early);
    const txl_decompression how = decompression(&back);
    assert_int_equal(decompress(&back, &how, to.out.data, to.out.length, n, &error), TXL_OK);
    assert_int_equal(back.out.length, n);
    assert_memory_equal(back.out.data, text, n);
    buffer_free(&to.out);
    buffer_free(&back.out);
}

/* What repeats is small, and no model is asked; of what it does not know, as UTF-16, it is asked
 * about the first bytes only. */
TEST(what_no_model_expects_becomes_small_at_once) {
    enum { N = 60000 };
    static const char *const repeated[] = {"e", "", "\xff\xfe\n"}; /* of "" the NUL */
    char *text = malloc(N);
    size_t n_own;
    char *own = own_text(CHARACTERS, &n_own);
    for (size_t k = 0; k < sizeof repeated / sizeof *repeated; k++) {
        const size_t length = strlen(repeated[k]);
        for (size_t j = 0; j < N; j++)
            text[j] = repeated[k][j % (length > 0 ? length : 1)];
        check_small(text, N, 1500, 10, 0);
    }
    for (size_t j = 0; j < N; j++)
        text[j] = (char)(j % 2 == 0 ? own[j * 7 / 2 % n_own] : '\xd8');
    check_small(text, N, N / 2, 6000, 100);
    free(own);
    free(text);
}

/* What looks random is stored as it is, without a try; what is short cannot look so, and six bits
 * of eight do not. */
TEST(random_bytes_are_not_tried) {
    enum { N = 60000 };
    static const struct {
        size_t n;
        uint32_t symbols; /* random ones of so many; 0: one after the other */
        size_t least, most;
        bool tried;
    } texts[] = {
        {N, 256, N, N + 200, false},         {N, 160, N, N + 200, false},
        {N, 64, N * 3 / 4, N * 5 / 6, true}, {600, 0, 250, 300, true},
        {1024, 256, 1024, 1224, false},      {1023, 256, 1023, 1223, true},
    };
    unsigned char *text = malloc(N);
    uint64_t random = 9;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct exchange to = {.model = models[CHARACTERS]};
        for (size_t j = 0; j < texts[i].n; j++)
            text[j] = (unsigned char)(texts[i].symbols > 0 ? next_number(&random) % texts[i].symbols
                                                           : j % 256);
        compress(&to, (char *)text, texts[i].n, 1, texts[i].n);
        assert_in_range(to.out.length, texts[i].least, texts[i].most);
        assert_int_equal(to.n_call >= 5, texts[i].tried); /* a step of the model is one */
        buffer_free(&to.out);
    }
    free(text);
}

TEST(callbacks_stop_the_work) {
    size_t n;
    char *text = own_text(CHARACTERS, &n);
    struct exchange whole = {.model = models[CHARACTERS]};
    txl_error error;
    compress(&whole, text, n, 1, n);
    for (size_t after = 1; after < 100; after += 9) {
        struct exchange x = {.model = models[CHARACTERS], .stop_after = after};
        const txl_compression how = {
            .write = append, .progress = see_progress, .context = &x, .streams = 1};
        txl_compressor *compressor;
        assert_int_equal(txl_compressor_new(x.model, &how, &compressor, &error), TXL_OK);
        txl_status status = txl_compressor_feed(compressor, text, n, &error);
        if (!status)
            status = txl_compressor_finish(compressor, &error);
        assert_int_equal(status, TXL_STOPPED);
        txl_compressor_free(compressor);
        x = (struct exchange){.model = models[CHARACTERS], .stop_after = after, .out = x.out};
        const txl_decompression back = decompression(&x);
        assert_int_equal(decompress(&x, &back, whole.out.data, whole.out.length, 50, &error),
                         TXL_STOPPED);
        buffer_free(&x.out);
    }
    buffer_free(&whole.out);
    free(text);
}

/* ---- Damage ------------------------------------------------------------------------------- */

/* What was written and what was lost must be the text. */
static void check_salvaged(const struct exchange *x, const char *text, size_t n) {
    size_t at = 0, written = 0;
    for (size_t i = 0; i <= x->n_lost; i++) {
        const uint64_t begin = i < x->n_lost ? x->lost[i][0] : n,
                       end = i < x->n_lost ? x->lost[i][1] : n;
        assert_true(begin >= at && begin <= n);
        assert_true(written + (begin - at) <= x->out.length);
        if (begin > at)
            assert_memory_equal(x->out.data + written, text + at, begin - at);
        written += begin - at;
        at = end < n ? end : n;
    }
    assert_int_equal(written, x->out.length);
}

TEST(damage_is_found_and_salvaged_around) {
    size_t n;
    struct exchange to = {.model = models[CHARACTERS]};
    struct buffer text = {0};
    char *own = own_text(CHARACTERS, &n);
    for (int i = 0; i < 2; i++)
        assert_true(buffer_append(&text, own, n));
    compress(&to, text.data, text.length, 4, 100);
    /* A bit of every third byte; then bytes that are cut off, or left out.  Under a sanitizer every
     * eleventh: the fuzzer damages such files too. */
    for (size_t i = 0; i < 3 * to.out.length; i += SANITIZED ? 11 : 3) {
        const size_t at = i % to.out.length, how_damaged = i / to.out.length;
        struct buffer bad = {0};
        txl_error error;
        assert_true(buffer_append(&bad, to.out.data, to.out.length));
        if (how_damaged == 0)
            bad.data[at] ^= (char)(1 << at % 8);
        else if (how_damaged == 1)
            bad.length = at;
        else
            memmove(bad.data + at, bad.data + at + 1, --bad.length - at);
        struct exchange back = {.model = models[CHARACTERS]};
        txl_decompression how = decompression(&back);
        txl_status status = decompress(&back, &how, bad.data, bad.length, 1 << 20, &error);
        assert_true(status == TXL_FORMAT || status == TXL_UNSUPPORTED);
        assert_true(back.out.length <= text.length);
        if (back.out.length > 0)
            assert_memory_equal(back.out.data, text.data, back.out.length);
        back.out.length = 0;
        back.n_lost = 0;
        how.salvage = true;
        status = decompress(&back, &how, bad.data, bad.length, 1 << 20, &error);
        assert_true(!status || bad.length == 0 || back.out.length == 0);
        if (!status)
            check_salvaged(&back, text.data, text.length);
        buffer_free(&back.out);
        buffer_free(&bad);
    }
    buffer_free(&to.out);
    buffer_free(&text);
    free(own);
}

/* No bit of a file may change, be it one that changes nothing in the text. */
TEST(every_bit_counts) {
    static const char text[] = "the quick brown fox jumps";
    struct exchange to = {.model = models[CHARACTERS]};
    compress(&to, text, sizeof text - 1, 2, 100);
    for (size_t bit = 0; bit < 8 * to.out.length; bit += SANITIZED ? 5 : 1) {
        struct exchange back = {.model = models[CHARACTERS]};
        const txl_decompression how = decompression(&back);
        txl_error error;
        to.out.data[bit / 8] ^= (char)(1 << bit % 8);
        txl_status status = decompress(&back, &how, to.out.data, to.out.length, 1 << 20, &error);
        assert_true(status == TXL_FORMAT || status == TXL_UNSUPPORTED);
        to.out.data[bit / 8] ^= (char)(1 << bit % 8);
        buffer_free(&back.out);
    }
    buffer_free(&to.out);
}

/* A text behind another one, of which bytes are missing or whose header has other sizes, so that it
 * would end behind the second. */
TEST(what_follows_damage_is_salvaged) {
    enum { VERSION = 4, STREAMS = 6 };
    static const char second[] = "the dog";
    size_t n;
    char *own = own_text(CHARACTERS, &n);
    struct exchange to = {.model = models[CHARACTERS]};
    txl_error error;
    compress(&to, own, n, 1, n);
    const size_t one = to.out.length;
    compress(&to, second, sizeof second - 1, 1, 7);
    const size_t whole = to.out.length;
    for (int how_damaged = 0; how_damaged < 4; how_damaged++) {
        struct exchange back = {.model = models[CHARACTERS]};
        struct buffer bad = {0};
        txl_decompression how = decompression(&back);
        how.salvage = true;
        how.progress = NULL; /* a frame's end may come before the one in its header */
        assert_true(buffer_append(&bad, to.out.data, whole));
        if (how_damaged == 0) {
            memmove(bad.data + 100, bad.data + one - 48, whole - one + 48);
            bad.length -= one - 48 - 100;
        } else if (how_damaged == 1) {
            bad.data[VERSION] = 7;
        } else {
            bad.data[STREAMS] = how_damaged == 2 ? MAX_STREAMS : 2;
        }
        if (how_damaged == 2) { /* a header that would be longer than all that is left */
            memmove(bad.data + 52, bad.data + one, whole - one);
            bad.length = 52 + whole - one;
        }
        assert_int_equal(decompress(&back, &how, bad.data, bad.length, 1 << 20, &error), TXL_OK);
        assert_true(back.n_lost > 0);
        assert_int_equal(back.out.length, sizeof second - 1);
        assert_memory_equal(back.out.data, second, sizeof second - 1);
        buffer_free(&bad);
        buffer_free(&back.out);
    }
    buffer_free(&to.out);
    free(own);
}

/* Bytes that belong to no text are told as such, wherever they stand, and no text is lost. */
TEST(foreign_bytes_are_no_loss) {
    enum { N = MAX_STREAM + 30000 };
    char *text = mixed_text(N);
    struct exchange to = {.model = models[CHARACTERS]};
    txl_error error;
    compress(&to, text, N, 1, N);
    const char *second = memmem(to.out.data + 1, to.out.length - 1, "\x93TXZ", 4);
    assert_non_null(second);
    const size_t places[] = {0, (size_t)(second - to.out.data), to.out.length - 48, to.out.length};
    static const char *const why[] = {"stand before the text", "stand between two frames",
                                      "stand before the trailer", "follow the end of the text"};
    for (size_t i = 0; i < 8; i++) {
        struct exchange back = {.model = models[CHARACTERS]};
        struct buffer bad = {0};
        const size_t at = places[i / 2];
        char expected[80];
        assert_true(buffer_append(&bad, to.out.data, at));
        assert_true(buffer_append(&bad, "junk\x93TXZ and more", i % 2 == 0 ? 17 : 1));
        assert_true(buffer_append(&bad, to.out.data + at, to.out.length - at));
        txl_decompression how = decompression(&back);
        assert_int_equal(decompress(&back, &how, bad.data, bad.length, 999, &error), TXL_FORMAT);
        back.out.length = 0;
        how.salvage = true;
        assert_int_equal(decompress(&back, &how, bad.data, bad.length, 999, &error), TXL_OK);
        assert_int_equal(back.out.length, N);
        assert_memory_equal(back.out.data, text, N);
        assert_int_equal(back.n_lost, 1);
        assert_int_equal(back.lost[0][0], back.lost[0][1]);
        snprintf(expected, sizeof expected, "%s %s", i % 2 == 0 ? "17 bytes" : "1 byte",
                 why[i / 2]);
        if (i % 2 == 0)
            assert_string_equal(back.why, expected);
        else
            assert_memory_equal(back.why, expected, 8); /* "1 byte s", or "1 byte f" */
        buffer_free(&bad);
        buffer_free(&back.out);
    }
    buffer_free(&to.out);
    free(text);
}

#define BYTES(literal) literal, sizeof(literal) - 1

/* Where there is nothing to salvage, the file is refused as without salvaging. */
TEST(nothing_is_salvaged_from_no_compressed_text) {
    static const struct {
        const char *bytes;
        size_t n;
        const char *why;
    } files[] = {
        {BYTES(""), "empty; a compressed text has a trailer at least"},
        {BYTES("a"), "not a compressed text (txl compress makes one)"},
        {BYTES("a text of some length, with no frame\n"),
         "not a compressed text (txl compress makes one)"},
        {BYTES("a \x93TXZ or \x93TXE in the middle does not make it one, long as it may be"),
         "not a compressed text (txl compress makes one)"},
        {BYTES("\x93T"), "damaged: it ends inside of the text, after byte 0"},
        {BYTES("\x93TXZ\x01\x01\x01"), "damaged: it ends inside of the text, after byte 0"},
        {BYTES("\x93TXE\x01\x00\x00\x00 this trailer has no checksum, and others may follow"),
         "damaged: the checksum of the trailer differs"},
    };
    for (size_t i = 0; i < 2 * sizeof files / sizeof *files; i++) {
        struct exchange back = {.model = models[CHARACTERS]};
        txl_error error;
        txl_decompression how = decompression(&back);
        how.salvage = i % 2;
        assert_int_equal(
            decompress(&back, &how, files[i / 2].bytes, files[i / 2].n, 1 << 20, &error),
            TXL_FORMAT);
        assert_string_equal(error.message, files[i / 2].why);
        assert_int_equal(back.out.length, 0);
        assert_int_equal(back.n_lost, 0);
    }
}

/* Of several frames, those before and after the damaged one come back, also of a second text. */
TEST(frames_beside_damage_are_salvaged) {
    enum { N = 3 * MAX_STREAM };
    char *text = mixed_text(N);
    struct exchange to = {.model = models[CHARACTERS]}, back = {.model = models[CHARACTERS]};
    txl_error error;
    compress(&to, text, N, 1, N);
    const size_t one = to.out.length;
    compress(&to, text, N, 1, N);
    to.out.data[MAX_STREAM + 5000] ^= 1;     /* in the second frame's stream */
    to.out.data[one + MAX_STREAM + 90] ^= 1; /* in a header of the second text */
    txl_decompression how = decompression(&back);
    how.salvage = true;
    assert_int_equal(decompress(&back, &how, to.out.data, to.out.length, 5000, &error), TXL_OK);
    assert_int_equal(back.n_lost, 2);
    assert_int_equal(back.lost[0][0], MAX_STREAM);
    assert_int_equal(back.lost[0][1], 2 * MAX_STREAM);
    assert_int_equal(back.out.length, 2 * N - 2 * MAX_STREAM);
    assert_memory_equal(back.out.data, text, MAX_STREAM);
    assert_memory_equal(back.out.data + MAX_STREAM, text + 2 * MAX_STREAM, N - 2 * MAX_STREAM);
    assert_memory_equal(back.out.data + N - MAX_STREAM, text, MAX_STREAM);
    assert_memory_equal(back.out.data + N, text + 2 * MAX_STREAM, N - 2 * MAX_STREAM);
    buffer_free(&to.out);
    buffer_free(&back.out);
    free(text);
}

/* ---- What is refused ---------------------------------------------------------------------- */

/* Arithmetics that there are not, and integers of a model that has none. */
TEST(other_arithmetics_are_refused) {
    enum { TEXT = 7, ARITHMETIC = 5 };
    static const struct {
        unsigned char number;
        const char *why;
    } changes[] = {
        {0, "compressed with the arithmetic number 0; this txl has numbers 1 and 2"},
        {2, "the arithmetic in integers is for Transformer-XLs with attention of type 0 whose "
            "matrices are all in q8 or q4"},
        {3, "compressed with the arithmetic number 3; this txl has numbers 1 and 2"},
        {255, "compressed with the arithmetic number 255; this txl has numbers 1 and 2"},
    };
    struct exchange to = {.model = models[CHARACTERS]};
    txl_error error;
    compress(&to, "the dog", TEXT, 1, TEXT);
    assert_int_equal(to.out.data[ARITHMETIC], TXL_ARITHMETIC_EXACT);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct exchange back = {.model = models[CHARACTERS]};
        const txl_decompression how = decompression(&back);
        set_header(to.out.data, ARITHMETIC, &changes[i].number, 1);
        assert_int_equal(decompress(&back, &how, to.out.data, to.out.length, to.out.length, &error),
                         TXL_UNSUPPORTED);
        if (!strstr(error.message, changes[i].why))
            fail_msg("%s", error.message);
        assert_int_equal(back.out.length, 0);
    }
    buffer_free(&to.out);
}

/* What no writer states is refused though its checksum is right, before a model is asked for. */
TEST(headers_out_of_range_are_refused) {
    enum { ROOM = 1000, TEXT = 7 };
    static const struct {
        size_t at, n;
        uint64_t value;
        const char *why;
    } changes[] = {
        {4, 1, 0, "version 0 of the compressed format; this txl reads version 1"},
        {4, 1, 2, "version 2 of the compressed format; this txl reads version 1"},
        {6, 1, 0, "damaged: the header of a frame is out of range"},
        {6, 1, 17, "damaged: the header of a frame is out of range"},
        {7, 1, 4, "damaged: the header of a frame is out of range"},
        {5, 3, 0x020102, "damaged: the header of a frame is out of range"}, /* integers, f16 */
        {8, 4, 0, "damaged: a frame's size is out of range"},
        {8, 4, 131073, "damaged: a frame's size is out of range"},
        {8, 4, UINT32_MAX, "damaged: a frame's size is out of range"},
        {12, 4, 0, "damaged: a frame's lengths of segment and memory are out of range"},
        {12, 4, (1 << 20) + 1, "damaged: a frame's lengths of segment and memory are out of range"},
        {16, 4, UINT32_MAX, "damaged: a frame's lengths of segment and memory are out of range"},
        {16, 4, (1 << 20) + 1, "damaged: a frame's lengths of segment and memory are out of range"},
        {24, 8, UINT64_MAX - (1 << 21) + 1, "damaged: a frame's offset is out of range"},
        {40, 1, 64, "damaged: the header of a frame is out of range"},
        {41, 3, 3, "damaged: the header of a frame is out of range"},
        {41, 3, 255, "damaged: the header of a frame is out of range"},
        {41, 3, 0x010000, "damaged: the header of a frame is out of range"},
        {41, 3, 0x000100, "damaged: the header of a frame is out of range"},
        {41, 3, 0x010002, "damaged: the header of a frame is out of range"},
        {41, 3, 0x000102, "damaged: the header of a frame is out of range"},
        {41, 3, 0x000001, "damaged: the header of a frame is out of range"},
        {41, 3, 0x000501, "damaged: the header of a frame is out of range"},
        {41, 3, 0x140001, "damaged: the header of a frame is out of range"},
        {41, 3, 0x140a01, "damaged: the header of a frame is out of range"},
        {41, 3, 0x150501, "damaged: the header of a frame is out of range"},
        {44, 4, 2, "damaged: a frame's raw streams are out of range"},
        {44, 4, 0x80000000, "damaged: a frame's raw streams are out of range"},
        {44, 4, 1, "damaged: the size of a frame's code is out of range"}, /* all are raw */
        {48, 4, 0, "damaged: the size of a frame's code is out of range"},
        {48, 4, TEXT + 1, "damaged: the size of a frame's code is out of range"},
        {48, 4, UINT32_MAX, "damaged: the size of a frame's code is out of range"},
    };
    struct exchange to = {.model = models[CHARACTERS]};
    txl_error error;
    compress(&to, "the dog", TEXT, 1, TEXT);
    assert_int_equal(to.out.data[HEADER_NAME], 0);
    assert_int_equal(to.out.data[HEADER_FORM], TXL_MIXING_LOGISTIC);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct exchange back = {.model = models[CHARACTERS]};
        char file[ROOM] = {0};
        assert_true(to.out.length < sizeof file);
        memcpy(file, to.out.data, to.out.length);
        set_header(file, changes[i].at, &changes[i].value, changes[i].n);
        txl_decompression how = decompression(&back);
        how.list = true;
        const txl_status status = decompress(&back, &how, file, sizeof file, sizeof file, &error);
        const bool foreign = changes[i].at == 4;
        assert_int_equal(status, foreign ? TXL_UNSUPPORTED : TXL_FORMAT);
        assert_string_equal(error.message, changes[i].why);
        assert_int_equal(back.n_frame, 0);
    }
    /* As many streams as bytes are the most. */
    const unsigned char streams = TEXT + 1;
    char file[ROOM] = {0};
    memcpy(file, to.out.data, to.out.length);
    set_header(file, HEADER_STREAMS, &streams, 1);
    struct exchange many = {.model = models[CHARACTERS]};
    const txl_decompression any = decompression(&many);
    assert_int_equal(decompress(&many, &any, file, sizeof file, sizeof file, &error), TXL_FORMAT);
    assert_string_equal(error.message, "damaged: a frame's size is out of range");
    /* A stream with a code of its own has a byte, and no more bytes than its text. */
    struct exchange apart = {.model = models[CHARACTERS], .no_cache = true};
    const uint32_t sizes[] = {0, TEXT + 1, UINT32_MAX};
    compress(&apart, "the dog", TEXT, 1, TEXT);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        set_header(apart.out.data, HEADER_END, &sizes[i], sizeof sizes[i]);
        assert_int_equal(
            decompress(&many, &any, apart.out.data, apart.out.length, apart.out.length, &error),
            TXL_FORMAT);
        assert_string_equal(error.message, "damaged: a stream is empty or longer than its text");
    }
    buffer_free(&apart.out);
    /* The highest offset is one that another frame was expected before. */
    const uint64_t highest = UINT64_MAX - (1 << 21);
    struct exchange back = {.model = models[CHARACTERS]};
    txl_decompression how = decompression(&back);
    set_header(to.out.data, 24, &highest, sizeof highest);
    assert_int_equal(decompress(&back, &how, to.out.data, to.out.length, to.out.length, &error),
                     TXL_FORMAT);
    assert_string_equal(error.message, "damaged: a frame of the text at byte 18446744073707454463 "
                                       "follows where byte 0 was expected");
    buffer_free(&to.out);
}

/* What frame_read says of a frame that frame_write wrote. */
static txl_status read_back(const struct frame *frame) {
    struct buffer bytes = {0};
    struct frame back;
    size_t used = 0;
    txl_error error;
    assert_true(frame_write(frame, &bytes));
    txl_status status = frame_read((unsigned char *)bytes.data, bytes.length, &back, &used, &error);
    assert_true(used == bytes.length);
    assert_true(status || (back.raw == frame->raw && back.code == frame->code));
    buffer_free(&bytes);
    return status;
}

/* Any of the most streams may be raw, but none that there is not, and the code is no longer than
 * the texts of the others. */
TEST(raw_streams_are_those_of_the_frame) {
    enum { TEXT = 10 };
    struct frame frame = {.size = MAX_STREAMS * TEXT,
                          .n = MAX_STREAMS,
                          .settings = {.arithmetic = TXL_ARITHMETIC_EXACT, .tgt_len = 1},
                          .form.mixing = TXL_MIXING_LOGISTIC,
                          .raw = (uint32_t)1 << (MAX_STREAMS - 1),
                          .code = (MAX_STREAMS - 1) * TEXT};
    assert_int_equal(read_back(&frame), TXL_OK);
    frame.code++;
    assert_int_equal(read_back(&frame), TXL_FORMAT);
    frame.code = 1;
    frame.n--;
    assert_int_equal(read_back(&frame), TXL_FORMAT);
}

/* Raw streams come back, and only the frame's checksum tells of their damage. */
TEST(raw_streams_are_checked) {
    enum { STREAM = 6000, SIZE = 3 * STREAM + 1, TRAILER = 48 };
    size_t n_own;
    char *own = own_text(CHARACTERS, &n_own), text[SIZE];
    uint64_t random = 9;
    struct exchange to = {.model = models[CHARACTERS]}, back = {.model = models[CHARACTERS]};
    txl_error error;
    for (size_t i = 0; i < SIZE; i++)
        text[i] = i < 2 * STREAM ? own[i % n_own] : (char)next_number(&random);
    compress(&to, text, SIZE, 0, SIZE);
    const txl_decompression how = decompression(&back);
    assert_good(decompress(&back, &how, to.out.data, to.out.length, SIZE, &error), &error);
    assert_int_equal(back.frame.streams, 3);
    assert_int_equal(back.frame.mixing, TXL_MIXING_LOGISTIC);
    assert_int_equal(back.out.length, SIZE);
    assert_memory_equal(back.out.data, text, SIZE);
    char *last = to.out.data + to.out.length - TRAILER - 1;
    assert_int_equal(*last, text[SIZE - 1]);
    ++*last;
    assert_int_equal(decompress(&back, &how, to.out.data, to.out.length, SIZE, &error), TXL_FORMAT);
    assert_non_null(strstr(error.message, "damaged: the frame of the text's bytes 0 to 18000"));
    buffer_free(&to.out);
    buffer_free(&back.out);
    free(own);
}

/* What literals alone make small, and would be raw by itself, is coded with a text beside it. */
TEST(repetitions_beside_a_text_are_coded_with_it) {
    enum { STREAM = 6000 };
    size_t n_own;
    char *own = own_text(CHARACTERS, &n_own), text[2 * STREAM];
    struct exchange to = {.model = models[CHARACTERS]}, back = {.model = models[CHARACTERS]};
    txl_error error;
    for (size_t i = 0; i < STREAM; i++) {
        text[i] = own[i % n_own];
        text[STREAM + i] = 'e';
    }
    compress(&to, text, sizeof text, 2, sizeof text);
    assert_true(to.out.length < STREAM);
    const txl_decompression how = decompression(&back);
    assert_good(decompress(&back, &how, to.out.data, to.out.length, sizeof text, &error), &error);
    assert_int_equal(back.frame.streams, 2);
    assert_memory_equal(back.out.data, text, sizeof text);
    buffer_free(&to.out);
    buffer_free(&back.out);
    free(own);
}

/* Each setting of a frame counts, also where the one before had another: what was compressed with
 * the model's own cannot be read with it. */
TEST(each_frame_has_its_settings) {
    static const struct {
        size_t at, n;
        int32_t value;
    } changes[] = {{12, 4, 2}, {16, 4, 1}, {20, 4, 1}, {7, 1, 1}, {7, 1, 2}};
    size_t n;
    char *text = own_text(CHARACTERS, &n);
    /* Without mixing, whose probabilities are too coarse for what f16 rounds off. */
    struct exchange to = {.model = models[CHARACTERS], .no_cache = true};
    txl_error error;
    compress(&to, text, n, 1, n);
    const size_t one = to.out.length;
    compress(&to, text, n, 1, n);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct exchange back = {.model = models[CHARACTERS]};
        struct buffer bad = {0};
        const txl_decompression how = decompression(&back);
        assert_true(buffer_append(&bad, to.out.data, to.out.length));
        set_header(bad.data + one, changes[i].at, &changes[i].value, changes[i].n);
        assert_int_equal(decompress(&back, &how, bad.data, bad.length, bad.length, &error),
                         TXL_FORMAT);
        assert_int_equal(back.out.length, n);
        buffer_free(&back.out);
        buffer_free(&bad);
    }
    buffer_free(&to.out);
    free(text);
}

/* Each number of a trailer counts. */
TEST(trailers_that_lie_are_told) {
    enum { TRAILER = 48 };
    static const char lies[] = "damaged: the text is not what its trailer says",
                      unknown[] = "damaged: the checksum of the trailer differs";
    struct exchange to = {.model = models[CHARACTERS]};
    txl_error error;
    compress(&to, "the dog", 7, 1, 7);
    char *trailer = to.out.data + to.out.length - TRAILER;
    for (size_t at = 4; at < TRAILER - 8; at += at == 4 ? 4 : 8) {
        struct exchange back = {.model = models[CHARACTERS]};
        const txl_decompression how = decompression(&back);
        trailer[at]++;
        uint64_t sum = XXH3_64bits(trailer, TRAILER - 8);
        memcpy(trailer + TRAILER - 8, &sum, sizeof sum);
        assert_int_equal(decompress(&back, &how, to.out.data, to.out.length, to.out.length, &error),
                         TXL_FORMAT);
        assert_string_equal(error.message, at == 4 ? unknown : lies);
        trailer[at]--;
        buffer_free(&back.out);
    }
    buffer_free(&to.out);
}

/* A text that is shorter than a segment is read the same with any lengths, up to four times the
 * model's own; what a file asks for beyond that is refused before it takes any memory. */
TEST(lengths_are_bounded_by_the_models_own) {
    struct exchange to = {.model = models[CHARACTERS]};
    txl_settings own;
    txl_error error;
    txl_model_defaults(to.model, &own);
    assert_true(own.tgt_len > 8 && own.mem_len > 0);
    compress(&to, "the dog", 7, 1, 7);
    const struct {
        int tgt_len, mem_len;
        const char *refused;
    } files[] = {
        {own.tgt_len, own.mem_len, NULL},
        {own.tgt_len, 0, NULL},
        {4 * own.tgt_len, 4 * own.mem_len, NULL},
        {4 * own.tgt_len + 1, own.mem_len, "tgt_len"},
        {own.tgt_len, 4 * own.mem_len + 1, "mem_len"},
        {own.tgt_len, TXL_MAX_MEM_LEN, "mem_len"},
        {TXL_MAX_TGT_LEN, TXL_MAX_MEM_LEN, "tgt_len"},
    };
    for (size_t i = 0; i < 2 * sizeof files / sizeof *files; i++) {
        const int tgt_len = files[i / 2].tgt_len, mem_len = files[i / 2].mem_len;
        const char *refused = files[i / 2].refused;
        struct exchange back = {.model = models[CHARACTERS]};
        txl_decompression how = decompression(&back);
        how.salvage = i % 2;
        const int32_t lengths[] = {tgt_len, mem_len};
        set_header(to.out.data, HEADER_LENGTHS, lengths, sizeof lengths);
        txl_status status = decompress(&back, &how, to.out.data, to.out.length, 1 << 20, &error);
        assert_int_equal(status, refused ? TXL_UNSUPPORTED : TXL_OK);
        if (refused) {
            const bool tgt = strcmp(refused, "tgt_len") == 0;
            char expected[160];
            snprintf(expected, sizeof expected,
                     "compressed with %s %d, and a text is read with at most %d, 4 times the "
                     "model's own; compress it again with at most that",
                     refused, tgt ? tgt_len : mem_len, 4 * (tgt ? own.tgt_len : own.mem_len));
            assert_string_equal(error.message, expected);
        }
        assert_int_equal(back.out.length, refused ? 0 : 7);
        buffer_free(&back.out);
        how.list = true; /* a list asks for no memory */
        assert_int_equal(decompress(&back, &how, to.out.data, to.out.length, 1 << 20, &error),
                         TXL_OK);
        assert_int_equal(back.frame.settings.mem_len, mem_len);
    }
    buffer_free(&to.out);
}

TEST(other_models_are_refused_by_name) {
    static const struct {
        const char *name, *why;
    } refused[] = {{"absolute-sinusoid", "type 2 or 3"},
                   {"absolute-learned", "type 2 or 3"},
                   {"xlnet/base-zip", "this is an XLNet"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct model_case c;
        txl_compressor *compressor;
        txl_error error;
        const txl_compression how = {.write = append};
        case_open(&c, refused[i].name, NULL, -1);
        assert_int_equal(txl_compressor_new(c.model, &how, &compressor, &error), TXL_UNSUPPORTED);
        assert_non_null(strstr(error.message, refused[i].why));
        case_close(&c);
    }
}

static txl_status give_wrong_model(void *context, uint64_t checksum, const char *name,
                                   const txl_model **model, txl_error *error) {
    (void)context, (void)checksum, (void)name, (void)error;
    *model = models[0];
    return TXL_OK;
}

TEST(wrong_models_and_streams_are_refused) {
    size_t n;
    char *text = own_text(CHARACTERS, &n);
    struct exchange to = {.model = models[CHARACTERS]}, back = {0};
    txl_compressor *compressor;
    txl_error error;
    compress(&to, text, n, 1, n);
    txl_decompression how = decompression(&back);
    how.model = give_wrong_model;
    assert_int_equal(decompress(&back, &how, to.out.data, to.out.length, n, &error), TXL_ARGUMENT);
    const txl_compression many = {.write = append, .streams = 33};
    assert_int_equal(txl_compressor_new(models[0], &many, &compressor, &error), TXL_ARGUMENT);
    const txl_compression no_write = {.streams = 1};
    assert_int_equal(txl_compressor_new(models[0], &no_write, &compressor, &error), TXL_ARGUMENT);
    assert_non_null(strstr(error.message, "write is NULL"));
    const txl_decompression no_model = {.write = append};
    txl_decompressor *decompressor;
    assert_int_equal(txl_decompressor_new(&no_model, &decompressor, &error), TXL_ARGUMENT);
    assert_non_null(strstr(error.message, "model is NULL"));
    assert_int_equal(decompress(&back, &how, "not at all", 10, 10, &error), TXL_FORMAT);
    assert_string_equal(error.message, "not a compressed text (txl compress makes one)");
    assert_int_equal(decompress(&back, &how, "", 0, 1, &error), TXL_FORMAT);
    buffer_free(&to.out);
    free(text);
}

/* ---- Frequencies -------------------------------------------------------------------------- */

TEST(frequencies_are_those_of_the_format) {
    static const float e[] = {1, 0.5f, 0, 0.25f};
    static const unsigned char used[] = {1, 1, 1, 0};
    uint64_t frequency[64];
    memset(frequency, 0xff, sizeof frequency);
    /* (2^24 - 4) / 1.75 = 9586978.28.. */
    assert_int_equal(quantise(e, 4, 1.75, NULL, frequency), 9586979 + 4793490 + 1 + 2396745);
    assert_int_equal(frequency[0], 9586979);
    assert_int_equal(frequency[1], 4793490);
    assert_int_equal(frequency[2], 1);
    assert_int_equal(frequency[3], 2396745);
    assert_int_equal(frequency[4], 0);
    assert_int_equal(quantise(e, 4, 1.75, used, frequency), 9586979 + 4793490 + 1);
    assert_int_equal(frequency[3], 0);
    assert_int_equal(quantise(e, 4, NAN, used, frequency), 0);
    assert_int_equal(quantise(e, 4, INFINITY, used, frequency), 0);
    assert_int_equal(quantise(e, 4, 0.5, used, frequency), 0);
    memset(frequency, 0, sizeof frequency);
    assert_int_equal(quantise(e, 1, 1, used + 3, frequency), 0);
}

/* 2^24 for up to 65,536 entries, 2^30 for more; each entry is found at each end of its share. */
TEST(entries_are_found_by_their_place) {
    static const size_t counts[] = {1, 63, 64, 65, 1000, 65536, 65537, 100000};
    uint64_t random = 3;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        const size_t n = counts[c];
        float *e = malloc(n * sizeof *e);
        unsigned char *used = malloc(n);
        uint64_t *frequency = malloc(quantised_room(n) * sizeof *frequency);
        double sum = 0;
        for (size_t i = 0; i < n; i++) {
            e[i] = i == n / 2 ? 1 : (float)(next_number(&random) % 1000) / 1000;
            used[i] = i == n / 2 || next_number(&random) % 5 > 0;
            sum += (double)e[i];
        }
        const double whole = n > 65536 ? 0x1p30 : 0x1p24;
        uint64_t below = 0, total = quantise(e, n, sum, NULL, frequency);
        assert_true((double)total <= whole && (double)total > whole - (double)n);
        total = quantise(e, n, sum, used, frequency);
        for (size_t i = 0; i<n; i += n> 1000 ? 997 : 1) {
            uint64_t found;
            below = quantised_below(frequency, i);
            assert_int_equal(frequency[i] == 0, !used[i]);
            if (!used[i])
                continue;
            assert_int_equal(quantised_find(frequency, below, &found), i);
            assert_int_equal(found, below);
            assert_int_equal(quantised_find(frequency, below + frequency[i] - 1, &found), i);
            assert_int_equal(found, below);
        }
        assert_int_equal(quantised_below(frequency, n), total);
        free(e);
        free(used);
        free(frequency);
    }
}

int main(void) {
    return cmocka_run_group_tests(tests, open_models, close_models);
}
