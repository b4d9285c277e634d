/* The range coder: every sequence of symbols comes back, whatever the frequencies; the length is
 * what they say; carries go as far as they must; adaptive flags and bytes. */
#include "lib/compress/range_coder.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Numbers that look random, the same ones in every run (Knuth's MMIX constants). */
static uint64_t next_number(uint64_t *state) {
    *state = *state * 6364136223846793005 + 1442695040888963407;
    return *state >> 20;
}

struct symbol {
    uint64_t below, frequency, total;
};

static struct symbol random_symbol(uint64_t *random, uint64_t total) {
    const uint64_t below = next_number(random) % total;
    return (struct symbol){below, 1 + next_number(random) % (total - below), total};
}

static void encode_all(const struct symbol *symbols, size_t n, struct buffer *out) {
    struct range_encoder encoder;
    range_encoder_start(&encoder, out);
    for (size_t i = 0; i < n; i++)
        range_encode(&encoder, symbols[i].below, symbols[i].frequency, symbols[i].total);
    assert_true(range_encoder_finish(&encoder));
}

static void decode_all(const struct symbol *symbols, size_t n, const char *code, size_t size) {
    struct range_decoder decoder;
    range_decoder_start(&decoder, code, size);
    for (size_t i = 0; i < n; i++) {
        const struct symbol *s = &symbols[i];
        assert_in_range(range_decode_place(&decoder, s->total), s->below,
                        s->below + s->frequency - 1);
        range_decode(&decoder, s->below, s->frequency, s->total);
    }
}

TEST(symbols_of_every_total_come_back) {
    enum { N = 3000 };
    static const uint64_t totals[] = {
        1, 2, 3, 255, 65536, 1 << 24, 1 << 30, (1 << 30) + 12345, UINT32_MAX};
    struct symbol symbols[N];
    uint64_t random = 1;
    for (size_t t = 0; t < sizeof totals / sizeof *totals; t++) {
        struct buffer out = {0};
        double bits = 0;
        assert_true(buffer_append(&out, "before", 6));
        for (size_t i = 0; i < N; i++) {
            symbols[i] = random_symbol(&random, totals[t]);
            bits += log2((double)symbols[i].total / (double)symbols[i].frequency);
        }
        encode_all(symbols, N, &out);
        assert_memory_equal(out.data, "before", 6);
        decode_all(symbols, N, out.data + 6, out.length - 6);
        /* Never shorter, as no code is, and longer by the last byte and the rounding of ranges. */
        assert_true((double)(out.length - 6) * 8 <= bits + 8.5);
        buffer_free(&out);
    }
}

/* Symbols at the end of each range keep `low` just below an overflow, which then comes. */
TEST(carries_go_through_many_bytes) {
    enum { N = 64 };
    for (size_t n = 1; n <= N; n++) {
        struct symbol symbols[N + 3];
        struct buffer out = {0};
        for (size_t i = 0; i < n; i++)
            symbols[i] = (struct symbol){255, 1, 256};
        symbols[n] = (struct symbol){254, 2, 256};
        symbols[n + 1] = (struct symbol){UINT32_MAX - 1, 1, UINT32_MAX};
        symbols[n + 2] = (struct symbol){0, 1, 3};
        for (size_t last = n; last <= n + 3; last++) {
            out.length = 0;
            encode_all(symbols, last, &out);
            decode_all(symbols, last, out.data, out.length);
        }
        buffer_free(&out);
    }
    /* Ranges straddle 2^64 for long: 1/3 of 1/3 of ..., from the middle. */
    struct symbol thirds[4000];
    uint64_t random = 7;
    for (size_t i = 0; i < sizeof thirds / sizeof *thirds; i++)
        thirds[i] = next_number(&random) % 8 ? (struct symbol){UINT32_MAX - 3, 3, UINT32_MAX}
                                             : (struct symbol){UINT32_MAX - 4, 1, UINT32_MAX};
    struct buffer out = {0};
    encode_all(thirds, sizeof thirds / sizeof *thirds, &out);
    decode_all(thirds, sizeof thirds / sizeof *thirds, out.data, out.length);
    buffer_free(&out);
}

TEST(zeros_at_the_end_are_left_out) {
    struct symbol first[1000] = {0};
    struct buffer out = {0};
    encode_all(first, 0, &out);
    assert_int_equal(out.length, 0);
    for (size_t i = 0; i < 1000; i++)
        first[i] = (struct symbol){0, 1, 2};
    encode_all(first, 1000, &out);
    assert_int_equal(out.length, 0);
    decode_all(first, 1000, out.data, 0);
    first[999] = (struct symbol){1, 1, 2};
    encode_all(first, 1000, &out);
    assert_int_equal(out.length, 125);
    decode_all(first, 1000, out.data, out.length);
    buffer_free(&out);
}

/* A place beyond the total is damage, and must be seen as such. */
TEST(rests_of_the_range_belong_to_no_symbol) {
    static const unsigned char ones[] = {255, 255, 255, 255, 255, 255, 255, 255};
    struct range_decoder decoder;
    range_decoder_start(&decoder, ones, sizeof ones);
    assert_int_equal(range_decode_place(&decoder, (1 << 24) - 3), (1 << 24) - 3);
    struct flag flag = {FLAG_TOTAL / 2};
    struct byte_model *bytes = malloc(sizeof *bytes);
    unsigned char byte;
    bool value;
    byte_model_start(bytes);
    assert_false(flag_decode(&flag, &decoder, &value));
    assert_false(byte_decode(bytes, &decoder, &byte));
    free(bytes);
}

/* Whether `code` gives the symbols; *ends: as their encoder would have ended. */
static bool gives(const char *code, size_t size, const struct symbol *symbols, size_t n,
                  bool *ends) {
    struct range_decoder decoder;
    range_decoder_start(&decoder, code, size);
    for (size_t i = 0; i < n; i++) {
        const struct symbol *s = &symbols[i];
        const uint64_t place = range_decode_place(&decoder, s->total);
        if (place < s->below || place >= s->below + s->frequency)
            return false;
        range_decode(&decoder, s->below, s->frequency, s->total);
    }
    *ends = range_decoder_ends(&decoder);
    return true;
}

/* Of the codes that give the same symbols, one is right: each bit counts. */
TEST(other_codes_of_the_same_symbols_are_told) {
    enum { ROUNDS = 2000 };
    uint64_t random = 11;
    size_t others = 0, longer = 0;
    for (size_t round = 0; round < ROUNDS; round++) {
        const size_t n = 1 + round % 20;
        struct symbol symbols[20];
        struct buffer out = {0};
        bool ends = false;
        for (size_t i = 0; i < n; i++)
            symbols[i] = random_symbol(&random, 2 + next_number(&random) % 300);
        encode_all(symbols, n, &out);
        assert_true(gives(out.data, out.length, symbols, n, &ends));
        assert_true(ends);
        for (size_t bit = 0; bit < 8 * out.length; bit++) {
            out.data[bit / 8] ^= (char)(1 << bit % 8);
            if (gives(out.data, out.length, symbols, n, &ends)) {
                assert_false(ends);
                others++;
            }
            out.data[bit / 8] ^= (char)(1 << bit % 8);
        }
        for (int last = 0; last < 256; last++) {
            const char byte = (char)last;
            assert_true(buffer_append(&out, &byte, 1));
            if (gives(out.data, out.length, symbols, n, &ends)) {
                /* One zero in the place of no code is what a stream without a byte has. */
                assert_int_equal(ends, out.length == 1 && last == 0);
                longer++;
            }
            out.length--;
        }
        buffer_free(&out);
    }
    assert_true(others > 1000 && longer > 100000);
}

/* The code of flags that are true one time in `one_in`. */
static size_t code_flags(size_t n, uint64_t one_in, uint32_t share, double *bits) {
    struct buffer out = {0};
    struct range_encoder encoder;
    struct range_decoder decoder;
    struct flag flag = {share};
    uint64_t random = 3;
    size_t n_true = 0;
    range_encoder_start(&encoder, &out);
    for (size_t i = 0; i < n; i++) {
        const bool value = one_in > 0 && next_number(&random) % one_in == 0;
        n_true += value;
        flag_encode(&flag, &encoder, value);
        assert_in_range(flag.share, FLAG_LEAST, FLAG_TOTAL - FLAG_LEAST);
    }
    assert_true(range_encoder_finish(&encoder));
    flag = (struct flag){share};
    random = 3;
    range_decoder_start(&decoder, out.data, out.length);
    for (size_t i = 0; i < n; i++) {
        bool value;
        assert_true(flag_decode(&flag, &decoder, &value));
        assert_int_equal(value, one_in > 0 && next_number(&random) % one_in == 0);
    }
    const double p = (double)n_true / (double)n;
    *bits = n_true == 0 || n_true == n ? 0 : -(double)n * (p * log2(p) + (1 - p) * log2(1 - p));
    const size_t length = out.length;
    buffer_free(&out);
    return length * 8;
}

TEST(flags_adapt) {
    double bits;
    /* One that never comes costs 1 / 32,768 of 1 / ln 2 bits in the end. */
    assert_in_range(code_flags(1000000, 0, FLAG_TOTAL / 2, &bits), 0, 320);
    assert_in_range(code_flags(1000000, 1, FLAG_TOTAL / 2, &bits), 0, 320);
    for (uint64_t one_in = 2; one_in <= 2000; one_in *= 3) {
        const double found = (double)code_flags(100000, one_in, FLAG_TOTAL / 256, &bits);
        print_message("one in %u: %.0f bits, of an ideal %.0f\n", (unsigned)one_in, found, bits);
        assert_true(found < bits * 1.1 + 600);
    }
}

TEST(bytes_follow_the_byte_before) {
    enum { N = 20000 };
    struct buffer out = {0};
    struct range_encoder encoder;
    struct range_decoder decoder;
    struct byte_model *model = malloc(sizeof *model);
    unsigned char *bytes = malloc(N);
    uint64_t random = 5;
    /* All 256 bytes, then two texts in which a byte says what comes next. */
    for (size_t i = 0; i < N; i++)
        bytes[i] = i < 1024    ? (unsigned char)(next_number(&random) % 256)
                   : i < N / 2 ? (unsigned char)"\xe2\x80\x93"[i % 3]
                               : (unsigned char)(i % 256);
    byte_model_start(model);
    range_encoder_start(&encoder, &out);
    for (size_t i = 0; i < N; i++)
        byte_encode(model, &encoder, bytes[i]);
    assert_true(range_encoder_finish(&encoder));
    assert_in_range(out.length, 1024, 4000);
    byte_model_start(model);
    range_decoder_start(&decoder, out.data, out.length);
    for (size_t i = 0; i < N; i++) {
        unsigned char byte;
        assert_true(byte_decode(model, &decoder, &byte));
        assert_int_equal(byte, bytes[i]);
    }
    buffer_free(&out);
    free(model);
    free(bytes);
}

/* Readers that know only weights-format.md find the same frequencies. */
TEST(frequencies_are_those_of_the_format) {
    enum { N = 20000 };
    struct buffer out = {0};
    struct range_encoder encoder;
    struct flag flag = {256};
    struct byte_model *model = malloc(sizeof *model);
    static uint32_t count[256][256];
    uint32_t share = 256, before = 0;
    uint64_t random = 2;
    size_t n_halved = 0, n_end = 0;
    for (size_t i = 0; i < 256; i++)
        for (size_t j = 0; j < 256; j++)
            count[i][j] = 1;
    byte_model_start(model);
    range_encoder_start(&encoder, &out);
    for (size_t i = 0; i < N; i++) {
        /* For long only one or the other, so that the share comes to both of its ends. */
        const bool literal = i / 1500 % 2 == 0 ? i % 7 < 3 + i / 100 : i % 1500 == 1400;
        flag_encode(&flag, &encoder, literal);
        share = literal ? share + (65536 - share + 127) / 128 : share - (share + 127) / 128;
        share = share < 2 ? 2 : share > 65534 ? 65534 : share;
        assert_int_equal(flag.share, share);
        n_end += share == 2 || share == 65534;

        const uint32_t byte =
            i < N / 2 ? (uint32_t) "aab"[i % 3] : (uint32_t)(next_number(&random) % 3);
        uint32_t sum = 0;
        byte_encode(model, &encoder, (unsigned char)byte);
        count[before][byte] += 32;
        for (size_t j = 0; j < 256; j++)
            sum += count[before][j];
        for (size_t j = 0; j < 256 && sum >= 8192; j++)
            count[before][j] = (count[before][j] + 1) / 2;
        n_halved += sum == 8192;
        sum = 0;
        for (size_t j = 0; j < 256; j++) {
            assert_int_equal(model->frequency[before][j], count[before][j]);
            sum += count[before][j];
        }
        assert_int_equal(model->total[before], sum);
        assert_int_equal(model->before, byte);
        before = byte;
    }
    assert_true(n_halved > 0 && n_end > 100);
    buffer_free(&out);
    free(model);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
