/* The header of safetensors files: the input is a byte of options, then the JSON.  The elements are
 * as many zeros as the JSON's largest number calls for.  What is recognised as a small model is
 * converted, and then has to open and to score.  The mutator changes shapes, types and names and
 * lays the tensors out anew, without which hardly anything changed would be looked at. */
#include "fuzz.h"

#include "convert/containers/checkpoint_internal.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DATA = 1 << 20 };

static uint64_t largest_number(const uint8_t *text, size_t size) {
    uint64_t largest = 0;
    for (size_t i = 0; i < size; i++) {
        uint64_t number = 0;
        for (; i < size && isdigit(text[i]) && number < MAX_DATA; i++)
            number = number * 10 + (uint64_t)(text[i] - '0');
        if (number > largest && number <= MAX_DATA)
            largest = number;
    }
    return largest;
}

static const char *write_file(const uint8_t *json, size_t length) {
    size_t size;
    uint8_t *bytes = fuzz_safetensors(json, length, largest_number(json, length), &size);
    const char *path = fuzz_file(bytes, size);
    free(bytes);
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1)
        return 0;
    const char *path = write_file(data + 1, size - 1);
    fuzz_checkpoint(path);
    fuzz_convert(path, data[0]);
    return 0;
}

/* ---- The mutator -------------------------------------------------------------------------- */

static uint32_t next_random(uint32_t *random, size_t limit) {
    *random = *random * 1664525 + 1013904223;
    return (*random >> 8) % (uint32_t)limit;
}

/* A tensor's name; the object must not be empty. */
static const char *choose_tensor(json_t *header, uint32_t *random) {
    void *at = json_object_iter(header);
    for (size_t n = next_random(random, json_object_size(header)); n > 0; n--)
        at = json_object_iter_next(header, at);
    return json_object_iter_key(at);
}

static void change_shape(json_t *tensor, uint32_t *random) {
    static const int lengths[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 24, 64, 65, 66, 200};
    json_t *shape = json_object_get(tensor, "shape");
    size_t d = next_random(random, json_array_size(shape) + 1);
    json_t *length = json_integer(lengths[next_random(random, sizeof lengths / sizeof *lengths)]);
    if (d < json_array_size(shape) && next_random(random, 8) == 0)
        json_array_remove(shape, d);
    if (d < json_array_size(shape))
        json_array_set_new(shape, d, length);
    else
        json_array_append_new(shape, length);
}

static void change_dtype(json_t *tensor, uint32_t *random) {
    static const char *const dtypes[] = {"F32", "F16", "BF16", "F64", "I8", "U16", "BOOL", "C64"};
    size_t i = next_random(random, sizeof dtypes / sizeof *dtypes);
    json_object_set_new(tensor, "dtype", json_string(dtypes[i]));
}

/* Deletes a tensor, or gives it another one's name, or one beside it with the next number. */
static void change_name(json_t *header, const char *name, uint32_t *random) {
    char other[256];
    json_t *tensor = json_deep_copy(json_object_get(header, name));
    snprintf(other, sizeof other, "%s", choose_tensor(header, random));
    char *digit = strpbrk(other, "0123456789");
    if (digit && next_random(random, 2))
        *digit = (char)('0' + next_random(random, 10));
    if (next_random(random, 3) == 0)
        json_object_del(header, name);
    if (next_random(random, 3) == 0)
        json_decref(tensor);
    else
        json_object_set_new(header, other, tensor);
}

/* One tensor's data after the other's. */
static void lay_out(json_t *header) {
    const char *name;
    json_t *tensor, *length;
    size_t d;
    json_int_t end = 0;
    json_object_foreach(header, name, tensor) {
        const char *dtype = json_string_value(json_object_get(tensor, "dtype"));
        int found = dtype ? checkpoint_dtype_find(DTYPE_OF_SAFETENSORS, dtype) : -1;
        json_int_t n =
            found < 0 ? 1 : (json_int_t)checkpoint_dtype_size((enum checkpoint_dtype)found);
        json_array_foreach(json_object_get(tensor, "shape"), d, length) {
            json_int_t l = json_integer_value(length);
            n = l < 0 || l > MAX_DATA || n > MAX_DATA ? 0 : n * l;
        }
        json_object_set_new(tensor, "data_offsets", json_pack("[I, I]", end, end + n));
        end += n;
    }
}

static void change(json_t *header, uint32_t *random) {
    for (uint32_t n = 1 + next_random(random, 3); n > 0 && json_object_size(header) > 0; n--) {
        const char *name = choose_tensor(header, random);
        json_t *tensor = json_object_get(header, name);
        switch (next_random(random, 4)) {
        case 0:
            change_dtype(tensor, random);
            break;
        case 1:
            change_name(header, name, random);
            break;
        default:
            change_shape(tensor, random);
        }
    }
    lay_out(header);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    uint32_t random = seed;
    json_t *header = size > 1 && seed % 4 ? json_loadb((char *)data + 1, size - 1, 0, NULL) : NULL;
    if (!json_is_object(header)) {
        json_decref(header);
        return LLVMFuzzerMutate(data, size, max_size);
    }
    change(header, &random);
    if (next_random(&random, 4) == 0)
        data[0] = (uint8_t)next_random(&random, 256);
    char *text = json_dumps(header, JSON_COMPACT);
    size_t length = text ? strlen(text) : 0;
    if (length > 0 && length < max_size) {
        memcpy(data + 1, text, length);
        size = length + 1;
    }
    free(text);
    json_decref(header);
    return size;
}
