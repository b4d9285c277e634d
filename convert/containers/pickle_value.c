/* The values of a pickle: their arena, access to them, and errors while they are made. */
#include "lib/base/error.h"
#include "pickle.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A last bound: 2 GB of values, ten times the need of the largest published vocabulary. */
#define MAX_VALUE (UINT64_C(1) << 26)
#define CHUNK_SIZE ((size_t)1 << 16)

struct arena_chunk {
    struct arena_chunk *next;
    size_t used, size;
    _Alignas(max_align_t) unsigned char bytes[];
};

void *pickle_fail(struct pickle_reader *reader, txl_status status, const char *format, ...) {
    char message[PICKLE_MAX_NAME * 2 + 256];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    reader->status = txl_fail(reader->error, status, "%s: offset %" PRIu64 ": %s", reader->where,
                              reader->opcode, message);
    return NULL;
}

void *pickle_allocate(struct pickle_reader *reader, size_t size) {
    struct arena_chunk *chunk = reader->pickle->chunks;
    size = (size + 7) & ~(size_t)7;
    if (!chunk || size > chunk->size - chunk->used) {
        size_t room = size > CHUNK_SIZE ? size : CHUNK_SIZE;
        chunk = malloc(sizeof *chunk + room);
        if (!chunk) {
            reader->status = txl_fail_memory(reader->error, "a pickle", room);
            return NULL;
        }
        *chunk = (struct arena_chunk){.next = reader->pickle->chunks, .size = room};
        reader->pickle->chunks = chunk;
    }
    void *memory = chunk->bytes + chunk->used;
    chunk->used += size;
    return memory;
}

void pickle_free(struct pickle *pickle) {
    if (!pickle)
        return;
    for (struct arena_chunk *chunk = pickle->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    free(pickle);
}

struct pickle_value *pickle_new(struct pickle_reader *reader, enum pickle_kind kind) {
    if (++reader->pickle->n_value > MAX_VALUE)
        return pickle_fail(reader, TXL_UNSUPPORTED, "the pickle has more than %llu values",
                           (unsigned long long)MAX_VALUE);
    struct pickle_value *value = pickle_allocate(reader, sizeof *value);
    if (!value)
        return NULL;
    *value = (struct pickle_value){.kind = kind};
    if (kind >= PICKLE_LIST && kind <= PICKLE_OPAQUE)
        value->rank = (uint32_t)reader->pickle->n_value;
    reader->pickle->has_opaque = reader->pickle->has_opaque || kind == PICKLE_OPAQUE;
    if (kind == PICKLE_DICT && !pickle_append(reader, &reader->dicts, &value, 1))
        return NULL;
    return value;
}

struct pickle_value *pickle_new_object(struct pickle_reader *reader, enum pickle_kind kind,
                                       const char *class_name, struct pickle_value *args) {
    struct pickle_value *value = pickle_new(reader, kind);
    struct pickle_object *object = value ? pickle_allocate(reader, sizeof *object) : NULL;
    if (!object)
        return NULL;
    *object = (struct pickle_object){.class_name = class_name, .args = args};
    value->object = object;
    return value;
}

bool pickle_may_copy(struct pickle_reader *reader, uint64_t amount) {
    if (amount > reader->size - reader->start - reader->copied)
        return pickle_fail(reader, TXL_FORMAT, "expands to more than the stream holds");
    reader->copied += amount;
    return true;
}

/* Makes a larger array in the arena; the old one stays there, which at most doubles the memory. */
static void *grow_array(struct pickle_reader *reader, const void *old, size_t count,
                        size_t *capacity, size_t wanted, size_t size) {
    size_t larger = *capacity < 2 ? 4 : 2 * *capacity;
    if (larger < wanted)
        larger = wanted;
    void *memory = pickle_allocate(reader, larger * size);
    if (memory) {
        if (count)
            memcpy(memory, old, count * size);
        *capacity = larger;
    }
    return memory;
}

bool pickle_append(struct pickle_reader *reader, struct pickle_items *items,
                   struct pickle_value *const *more, size_t count) {
    if (count > items->capacity - items->count) {
        void *memory = grow_array(reader, items->at, items->count, &items->capacity,
                                  items->count + count, sizeof *items->at);
        if (!memory)
            return false;
        items->at = memory;
    }
    if (count)
        memcpy(items->at + items->count, more, count * sizeof *more);
    items->count += count;
    return true;
}

bool pickle_store(struct pickle_reader *reader, struct pickle_pairs *pairs,
                  struct pickle_value *key, struct pickle_value *value) {
    if (pairs->count == pairs->capacity) {
        void *memory = grow_array(reader, pairs->at, pairs->count, &pairs->capacity,
                                  pairs->count + 1, sizeof *pairs->at);
        if (!memory)
            return false;
        pairs->at = memory;
    }
    pairs->at[pairs->count++] = (struct pickle_pair){key, value};
    return true;
}

const char *pickle_kind_name(const struct pickle_value *value) {
    static const char *const names[] = {
        [PICKLE_NONE] = "None",
        [PICKLE_BOOL] = "a truth value",
        [PICKLE_INT] = "an integer",
        [PICKLE_BIG_INT] = "an integer beyond 64 bits",
        [PICKLE_FLOAT] = "a floating-point number",
        [PICKLE_STRING] = "a string",
        [PICKLE_LIST] = "a list",
        [PICKLE_TUPLE] = "a tuple",
        [PICKLE_SET] = "a set",
        [PICKLE_DICT] = "a dict",
        [PICKLE_OBJECT] = "an object",
        [PICKLE_OPAQUE] = "the result of an unknown call",
        [PICKLE_GLOBAL] = "a class or function",
        [PICKLE_PERSISTENT] = "a storage",
    };
    return value ? names[value->kind] : "nothing";
}

bool pickle_is_string(const struct pickle_value *value, const char *text) {
    return value && value->kind == PICKLE_STRING && value->string.length == strlen(text) &&
           memcmp(value->string.bytes, text, value->string.length) == 0;
}

bool pickle_unsigned(const struct pickle_value *value, uint64_t *number) {
    if (!value || value->kind != PICKLE_INT || value->integer < 0)
        return false;
    *number = (uint64_t)value->integer;
    return true;
}

bool pickle_is_object(const struct pickle_value *value, const char *class_name) {
    return value && value->kind == PICKLE_OBJECT &&
           strcmp(value->object->class_name, class_name) == 0;
}

const struct pickle_value *pickle_item(const struct pickle_value *value, size_t i) {
    if (!value || (value->kind != PICKLE_LIST && value->kind != PICKLE_TUPLE))
        return NULL;
    return i < value->items.count ? value->items.at[i] : NULL;
}

static const struct pickle_value *entry(const struct pickle_value *dict, const char *key) {
    if (!dict || dict->kind != PICKLE_DICT)
        return NULL;
    for (size_t i = dict->pairs.count; i-- > 0;)
        if (pickle_is_string(dict->pairs.at[i].key, key))
            return dict->pairs.at[i].value;
    return NULL;
}

const struct pickle_value *pickle_get(const struct pickle_value *value, const char *key) {
    if (!value || value->kind != PICKLE_OBJECT)
        return entry(value, key);
    const struct pickle_object *object = value->object;
    const struct pickle_value *found = entry(object->state, key);
    /* An object with __slots__ has a pair of dicts for its state. */
    for (size_t i = 0; !found && i < 2; i++)
        found = entry(pickle_item(object->state, i), key);
    return found ? found : entry(object->pairs, key);
}

/* Finds keys that a dict has twice.  Python keeps the last value of such a key, other readers may
 * find the first.  Picklers never write one, so a stream that has one is refused. */

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
