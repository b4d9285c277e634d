/* Philox4x32-10, without any state of its own. */
#include "numbers.h"

void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]};
    uint32_t k[2] = {key[0], key[1]};
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53 * c[0], b = (uint64_t)0xCD9E8D57 * c[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k[0], (uint32_t)b,
                            (uint32_t)(a >> 32) ^ c[3] ^ k[1], (uint32_t)a};
        for (int i = 0; i < 4; i++)
            c[i] = next[i];
        k[0] += 0x9E3779B9; /* the golden ratio's and sqrt(3)'s fractions: Weyl sequences */
        k[1] += 0xBB67AE85;
    }
    for (int i = 0; i < 4; i++)
        out[i] = c[i];
}

double random_uniform(txl_random *random) {
    uint32_t counter[4] = {(uint32_t)random->draw, (uint32_t)(random->draw >> 32),
                           (uint32_t)random->stream, (uint32_t)(random->stream >> 32)};
    uint32_t key[2] = {(uint32_t)random->seed, (uint32_t)(random->seed >> 32)}, word[4];
    philox4x32(counter, key, word);
    random->draw++;
    uint64_t bits = (uint64_t)word[0] << 32 | word[1];
    return (double)(bits >> 11) * 0x1p-53;
}
