/* The exact arithmetic: its bits are constants, which every kind of processor, compiler, division
 * of the ids into calls and number of threads meets (weights-format.md specifies them). */
#include "lib/kernels/kernels.h"
#include "tests/model_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

/* A checkpoint, the type of its weights, what differs from its first run's settings (0: nothing),
 * and the checksum of the bits of its nats. */
struct exact_case {
    const char *name, *type;
    int memory_type, tgt_len, mem_len, clamp_len; /* lengths: -1 for 0 */
    bool same_length;
    uint64_t checksum; /* XXH3-64 */
};

static const struct exact_case cases[] = {
    {"enwik8-zip", "f32", TXL_MEMORY_F32, 0, 0, 0, false, 0x5f7d27e38ab70e22},
    {"enwik8-zip", "q8", TXL_MEMORY_F16, 200, 300, 100, false, 0xcab094bcc4e5b21c},
    {"pre-lnorm", "f16", TXL_MEMORY_F32, 0, 0, 0, true, 0xf2356622af6e6407},
    {"wt103-zip", "f32", TXL_MEMORY_F32, 0, 0, 0, false, 0x1f8d2260a8754435},
    {"wt103-zip", "q8", TXL_MEMORY_F32, 0, -1, 0, false, 0x64253979896eca23},
    {"wt103-zip", "bf16", TXL_MEMORY_F16, 100, 0, 0, true, 0xd8cb24c57c1f1ffa},
    {"untied", "f16", TXL_MEMORY_F16, 150, 150, 0, false, 0xe0052adcd71a5def},
    {"hf-bin", "q8", TXL_MEMORY_F32, 0, 0, 0, true, 0xdee084d203f6febf},
    {"hf-bin", "f32", TXL_MEMORY_F32, 64, 100, 0, false, 0x062da75bfeaa9e6d},
    {"learnable-positions", "bf16", TXL_MEMORY_F32, 0, 0, 0, false, 0xfe703c81b03006d3},
};
enum { N_CASE = sizeof cases / sizeof *cases };

/* ---- Helpers ------------------------------------------------------------------------------ */

static int length(int given, int standard) {
    return given == 0 ? standard : given < 0 ? 0 : given;
}

static txl_settings settings_of(const struct exact_case *e, const struct model_case *c,
                                int threads) {
    txl_settings s = run_settings(json_array_get(json_object_get(c->expect, "runs"), 0), threads);
    s.tgt_len = length(e->tgt_len, s.tgt_len);
    s.mem_len = length(e->mem_len, s.mem_len);
    s.clamp_len = length(e->clamp_len, s.clamp_len);
    s.same_length = e->same_length;
    s.memory_type = (txl_memory_type)e->memory_type;
    s.arithmetic = TXL_ARITHMETIC_EXACT;
    return s;
}

static void open_case(const struct exact_case *e, struct model_case *c) {
    case_open(c, e->name, e->type, 0);
}

/* Scores the ids in calls of `division` tokens: nats[c->n - 1]. */
static void score(const struct model_case *c, txl_session *session, size_t division, float *nats) {
    txl_error error;
    for (size_t done = 0, n; done + 1 < c->n; done += n) {
        n = c->n - 1 - done < division ? c->n - 1 - done : division;
        if (txl_session_score(session, c->ids + done, n, c->ids + done + 1, nats + done, &error))
            fail_msg("%s: %s", c->name, error.message);
    }
}

static uint64_t checksum(const struct model_case *c, const float *nats) {
    return XXH3_64bits(nats, (c->n - 1) * sizeof *nats);
}

static float *new_nats(const struct model_case *c) {
    float *nats = calloc(c->n, sizeof *nats);
    assert_non_null(nats);
    return nats;
}

/* ---- The constants ------------------------------------------------------------------------ */

static void check(const struct exact_case *e, const struct model_case *c, int threads,
                  size_t division) {
    const txl_settings settings = settings_of(e, c, threads);
    txl_session *session = case_session(c, &settings);
    float *nats = new_nats(c);
    score(c, session, division, nats);
    if (checksum(c, nats) != e->checksum)
        fail_msg("case %d: %s in %s, kernels %s, %d threads, %zu tokens a call: 0x%016llx",
                 (int)(e - cases), e->name, e->type, txl_kernels_name(NULL), threads, division,
                 (unsigned long long)checksum(c, nats));
    free(nats);
    txl_session_free(session);
}

/* Every table, division and number of threads; of the emulated instructions, which are slow, each
 * division with one number of threads. */
static void constants(void **state) {
    (void)state;
    const size_t divisions[] = {1, 7, 128, SIZE_MAX};
    const int threads[] = {1, 2, 3, 5};
    for (size_t v = 0; kernels_available(v); v++) {
        bool emulates = strcmp(kernels_available(v)->name, "generic") == 0;
        setenv("TXL_CPU", kernels_available(v)->name, 1);
        for (int i = 0; i < N_CASE; i++) {
            struct model_case c;
            open_case(&cases[i], &c);
            for (int d = 0; d < 4; d++)
                for (int t = 0; t < 4; t++)
                    if (!emulates || t == d)
                        check(&cases[i], &c, threads[t], divisions[d]);
            case_close(&c);
        }
    }
    unsetenv("TXL_CPU");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(constants)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
