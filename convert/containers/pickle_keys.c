/* Finds keys that a dict has twice.  Python keeps the last value of such a key, other readers may
 * find the first.  Picklers never write one, so a stream that has one is refused. */
#include "pickle_value_internal.h"

#include "lib/base/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SHOWN 64 /* bytes of a key in a message */

static bool has_rank(const struct pickle_value *key) {
    return key->kind == PICKLE_STRING || key->kind == PICKLE_INT;
}

static int compare_keys(const void *a, const void *b) {
    const struct pickle_value *x = *(const struct pickle_value *const *)a,
                              *y = *(const struct pickle_value *const *)b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->kind == PICKLE_INT)
        return (x->integer > y->integer) - (x->integer < y->integer);
    if (x->string.length != y->string.length)
        return x->string.length < y->string.length ? -1 : 1;
    return memcmp(x->string.bytes, y->string.bytes, x->string.length);
}

/* Gives every key a rank above 0, equal ones the same; returns the number of ranks.  A value that
 * is a key of many dicts is sorted only once, so the work is bounded by the size of the stream
 * times a logarithm. */
static uint32_t rank_keys(const struct pickle_items *dicts, struct pickle_value **keys) {
    size_t n = 0;
    for (size_t i = 0; i < dicts->count; i++)
        for (size_t k = 0; k < dicts->at[i]->pairs.count; k++) {
            struct pickle_value *key = dicts->at[i]->pairs.at[k].key;
            if (has_rank(key) && key->rank == 0) {
                key->rank = 1;
                keys[n++] = key;
            }
        }
    qsort(keys, n, sizeof(struct pickle_value *), compare_keys);
    uint32_t n_rank = 0;
    for (size_t i = 0; i < n; i++) {
        n_rank += i == 0 || compare_keys(&keys[i - 1], &keys[i]) != 0;
        keys[i]->rank = n_rank;
    }
    return n_rank;
}

static bool refuse(struct pickle_reader *reader, const struct pickle_value *key) {
    if (key->kind == PICKLE_INT)
        reader->status =
            txl_fail(reader->error, TXL_FORMAT, "%s: a dict has the key %" PRId64 " twice",
                     reader->where, key->integer);
    else
        reader->status = txl_fail(
            reader->error, TXL_FORMAT, "%s: a dict has the key \"%.*s\"%s twice", reader->where,
            (int)(key->string.length < MAX_SHOWN ? key->string.length : MAX_SHOWN),
            key->string.bytes, key->string.length > MAX_SHOWN ? "..." : "");
    return false;
}

/* `last[rank]` is the number of the last dict, counted from 1, in which a key of that rank was. */
static bool find_repeated(struct pickle_reader *reader, uint32_t *last) {
    for (size_t i = 0; i < reader->dicts.count; i++) {
        const struct pickle_pairs *pairs = &reader->dicts.at[i]->pairs;
        for (size_t k = 0; k < pairs->count; k++) {
            const struct pickle_value *key = pairs->at[k].key;
            if (!has_rank(key))
                continue;
            if (last[key->rank] == i + 1)
                return refuse(reader, key);
            last[key->rank] = (uint32_t)(i + 1);
        }
    }
    return true;
}

bool pickle_check_keys(struct pickle_reader *reader) {
    size_t n_key = 0;
    for (size_t i = 0; i < reader->dicts.count; i++)
        n_key += reader->dicts.at[i]->pairs.count;
    if (n_key == 0)
        return true;
    struct pickle_value **keys = malloc(n_key * sizeof *keys);
    uint32_t *last =
        keys ? calloc((size_t)rank_keys(&reader->dicts, keys) + 1, sizeof *last) : NULL;
    free(keys);
    if (!last) {
        reader->status = txl_fail_memory(reader->error, "a dict's keys", n_key * sizeof *keys);
        return false;
    }
    bool distinct = find_repeated(reader, last);
    free(last);
    return distinct;
}
