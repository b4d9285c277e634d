/* safetensors files: the length of a header in 8 bytes, the header in JSON, the elements.  (The
 * format is specified in the README of github.com/huggingface/safetensors.) */
#include "checkpoint_internal.h"

#include "lib/base/error.h"
#include "lib/base/json_memory.h"
#include "lib/base/numbers.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HEADER 100000000 /* the format's own limit */

/* The bytes of a tensor's elements, to find overlaps and gaps. */
struct range {
    uint64_t begin, end;
};

static txl_status refuse(const struct checkpoint_source *source, const char *name, const char *what,
                         txl_error *error) {
    return txl_fail(error, TXL_FORMAT, "%s: header: tensor %s: %s", source->file.path, name, what);
}

static bool unsigned_of(const json_t *value, uint64_t *number) {
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *number = (uint64_t)json_integer_value(value);
    return true;
}

static txl_status read_shape(const struct checkpoint_source *source, const json_t *shape,
                             struct checkpoint_tensor *claim, txl_error *error) {
    if (!json_is_array(shape))
        return refuse(source, claim->name, "expected a shape", error);
    if (json_array_size(shape) > CHECKPOINT_MAX_DIM)
        return checkpoint_refuse_dimensions(source->file.path, claim->name, error);
    claim->n_dim = (int)json_array_size(shape);
    for (int i = 0; i < claim->n_dim; i++)
        if (!unsigned_of(json_array_get(shape, (size_t)i), &claim->shape[i]))
            return refuse(source, claim->name, "its shape is not made of numbers", error);
    checkpoint_row_major(claim); /* checking the shape refuses a product beyond 64 bits */
    return TXL_OK;
}

static txl_status read_tensor(struct checkpoint *checkpoint, const struct checkpoint_source *source,
                              const char *name, const json_t *about, struct range *range,
                              txl_error *error) {
    struct checkpoint_tensor claim = {.name = name, .storage = source->storages};
    const char *dtype = json_string_value(json_object_get(about, "dtype"));
    if (!dtype)
        return refuse(source, name, "expected a dtype", error);
    int found = checkpoint_dtype_find(DTYPE_OF_SAFETENSORS, dtype);
    if (found < 0)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: tensor %s: its dtype %s is not known",
                        source->file.path, name, dtype);
    claim.dtype = (enum checkpoint_dtype)found;
    txl_status status = read_shape(source, json_object_get(about, "shape"), &claim, error);
    if (status)
        return status;

    const json_t *offsets = json_object_get(about, "data_offsets");
    size_t size = checkpoint_dtype_size(claim.dtype);
    if (json_array_size(offsets) != 2 || !unsigned_of(json_array_get(offsets, 0), &range->begin) ||
        !unsigned_of(json_array_get(offsets, 1), &range->end) || range->begin > range->end ||
        range->end > source->storages->size)
        return refuse(source, name, "its data_offsets are not within the file", error);
    if (!checkpoint_n_element(claim.n_dim, claim.shape, &claim.n_element) ||
        claim.n_element > UINT64_MAX / size || claim.n_element * size != range->end - range->begin)
        return refuse(source, name, "its data_offsets do not fit its shape", error);
    claim.offset = range->begin;
    return checkpoint_add(checkpoint, &claim, 0, error);
}

static int compare_ranges(const void *a, const void *b) {
    const struct range *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Checks that the tensors cover every byte of the data once. */
static txl_status check_cover(const struct checkpoint_source *source, struct range *ranges,
                              size_t n_range, txl_error *error) {
    uint64_t end = 0;
    qsort(ranges, n_range, sizeof *ranges, compare_ranges);
    for (size_t i = 0; i < n_range; i++) {
        if (ranges[i].begin != end)
            return txl_fail(error, TXL_FORMAT,
                            "%s: the tensors overlap or leave a hole at byte %" PRIu64
                            " of the data",
                            source->file.path, end);
        end = ranges[i].end;
    }
    if (end != source->storages->size)
        return txl_fail(error, TXL_FORMAT,
                        "%s: the tensors end at byte %" PRIu64 " of the data, the file at %" PRIu64,
                        source->file.path, end, source->storages->size);
    return TXL_OK;
}

static txl_status read_header(struct checkpoint *checkpoint, const struct checkpoint_source *source,
                              json_t *header, txl_error *error) {
    size_t n_tensor = json_object_size(header), n_range = 0;
    struct range *ranges = calloc(n_tensor + 1, sizeof *ranges);
    if (!ranges)
        return txl_fail_memory(error, "a list of tensors", n_tensor * sizeof *ranges);
    txl_status status = TXL_OK;
    for (void *at = json_object_iter(header); at && !status;
         at = json_object_iter_next(header, at)) {
        if (strcmp(json_object_iter_key(at), "__metadata__") != 0)
            status = read_tensor(checkpoint, source, json_object_iter_key(at),
                                 json_object_iter_value(at), &ranges[n_range++], error);
    }
    if (!status)
        status = check_cover(source, ranges, n_range, error);
    free(ranges);
    return status;
}

txl_status safetensors_read(struct checkpoint *checkpoint, struct checkpoint_source *source,
                            txl_error *error) {
    const struct mapped_file *file = &source->file;
    uint64_t length = file->size < 8 ? 0 : read_u64(file->data);
    if (length > MAX_HEADER || length > file->size - 8)
        return txl_fail(error, TXL_FORMAT,
                        "%s: offset 0: a safetensors header of %" PRIu64
                        " bytes in a file of %" PRIu64 "; the file is cut short or damaged",
                        file->path, length, file->size);
    source->storages = calloc(1, sizeof *source->storages);
    if (!source->storages)
        return txl_fail_memory(error, "a list of storages", sizeof *source->storages);
    source->n_storage = 1;
    *source->storages = (struct checkpoint_storage){
        .file = file, .data = file->data + 8 + length, .size = file->size - 8 - length};

    json_error_t about;
    json_t *header =
        json_loadb((const char *)file->data + 8, (size_t)length, JSON_REJECT_DUPLICATES, &about);
    if (!header)
        return txl_fail(error, json_lacked_memory(&about) ? TXL_MEMORY : TXL_FORMAT,
                        "%s: offset %" PRIu64 ": the header is not JSON: %s", file->path,
                        8 + (uint64_t)about.position, about.text);
    /* The first brace identified the format, but another process may have changed the file
     * since. */
    txl_status status =
        json_is_object(header)
            ? read_header(checkpoint, source, header, error)
            : txl_fail(error, TXL_FORMAT, "%s: offset 8: the header is no JSON object", file->path);
    json_decref(header);
    return status;
}
