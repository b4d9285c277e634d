/* The tensors of a checkpoint: their bounds, reading their elements. */
#include "checkpoint_internal.h"

#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/base/numbers.h"
#include "sorted_table.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- Bounds ------------------------------------------------------------------------------- */

bool checkpoint_n_element(int n_dim, const uint64_t *shape, uint64_t *n_element) {
    bool empty = false, overflow = false;
    *n_element = 1;
    for (int i = 0; i < n_dim; i++) {
        empty |= shape[i] == 0;
        overflow |= __builtin_mul_overflow(*n_element, shape[i], n_element);
    }
    if (empty)
        *n_element = 0;
    return empty || !overflow;
}

txl_status checkpoint_refuse_dimensions(const char *path, const char *name, txl_error *error) {
    return txl_fail(error, TXL_UNSUPPORTED, "%s: tensor %s: it has more dimensions than %d", path,
                    name, CHECKPOINT_MAX_DIM);
}

void checkpoint_row_major(struct checkpoint_tensor *claim) {
    uint64_t stride = 1;
    for (int i = claim->n_dim; i-- > 0; stride *= claim->shape[i])
        claim->stride[i] = stride;
}

/* The offset of the last element; false if it exceeds 64 bits. */
static bool last_element(const struct checkpoint_tensor *claim, uint64_t first, uint64_t *last) {
    *last = first;
    for (int i = 0; i < claim->n_dim; i++) {
        uint64_t reach;
        if (__builtin_mul_overflow(claim->shape[i] - 1, claim->stride[i], &reach) ||
            __builtin_add_overflow(*last, reach, last))
            return false;
    }
    return true;
}

static txl_status check_claim(const struct checkpoint_tensor *claim, uint64_t first,
                              uint64_t *n_element, txl_error *error) {
    const struct mapped_file *file = claim->storage->file;
    size_t size = checkpoint_dtype_size(claim->dtype);
    /* A storage in parts may be larger than any of its files. */
    uint64_t room = file->size > claim->storage->size ? file->size : claim->storage->size;
    /* The readers of the containers guarantee this. */
    assert(claim->offset <= claim->storage->size &&
           claim->n_element <= (claim->storage->size - claim->offset) / size);

    /* With strides of 0, a few bytes can claim any number of elements, for which a reader would
     * allocate. */
    if (!checkpoint_n_element(claim->n_dim, claim->shape, n_element) || *n_element > room / size)
        return txl_fail(error, TXL_FORMAT,
                        "%s: tensor %s: its shape has more elements than the file has room for",
                        file->path, claim->name);
    uint64_t last = 0;
    if (*n_element && (!last_element(claim, first, &last) || last >= claim->n_element))
        return txl_fail(error, TXL_FORMAT,
                        "%s: tensor %s: reaches beyond its storage of %" PRIu64 " elements",
                        file->path, claim->name, claim->n_element);
    return TXL_OK;
}

/* Makes room for one more, from the file at `path`. */
static txl_status reserve(struct checkpoint *checkpoint, const char *path, txl_error *error) {
    if (checkpoint->n_tensor < checkpoint->capacity)
        return TXL_OK;
    if (checkpoint->n_tensor >= MAX_TENSOR)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: more than %d tensors", path, MAX_TENSOR);
    size_t larger = checkpoint->capacity ? 2 * checkpoint->capacity : 64;
    void *memory = realloc(checkpoint->tensors, larger * sizeof *checkpoint->tensors);
    if (!memory)
        return txl_fail_memory(error, "a list of tensors", larger * sizeof *checkpoint->tensors);
    checkpoint->tensors = memory;
    checkpoint->capacity = larger;
    return TXL_OK;
}

txl_status checkpoint_add(struct checkpoint *checkpoint, const struct checkpoint_tensor *claim,
                          uint64_t first, txl_error *error) {
    uint64_t n_element = 0;
    txl_status status = check_claim(claim, first, &n_element, error);
    if (!status)
        status = reserve(checkpoint, claim->storage->file->path, error);
    if (status)
        return status;
    char *name = strdup(claim->name);
    if (!name)
        return txl_fail_memory(error, "a tensor's name", strlen(claim->name) + 1);

    struct checkpoint_tensor *tensor = &checkpoint->tensors[checkpoint->n_tensor++];
    *tensor = *claim;
    tensor->name = name;
    tensor->n_element = n_element;
    if (n_element) /* without elements `first` was not checked, and nothing is read */
        tensor->offset += first * checkpoint_dtype_size(claim->dtype);
    return TXL_OK;
}

/* Element (0, ..., 0); NULL in a storage in parts. */
static const unsigned char *data_of(const struct checkpoint_tensor *tensor) {
    const struct checkpoint_storage *storage = tensor->storage;
    return storage->data ? storage->data + tensor->offset : NULL;
}

bool checkpoint_is_contiguous(const struct checkpoint_tensor *tensor) {
    uint64_t expected = 1;
    for (int i = tensor->n_dim; i-- > 0;) {
        if (tensor->shape[i] > 1 && tensor->stride[i] != expected)
            return tensor->n_element == 0;
        expected *= tensor->shape[i];
    }
    return true;
}

bool checkpoint_same_view(const struct checkpoint_tensor *a, const struct checkpoint_tensor *b) {
    if (data_of(a) != data_of(b) || a->storage->n_part + b->storage->n_part > 0 ||
        a->dtype != b->dtype || a->n_dim != b->n_dim || a->n_element == 0)
        return false;
    for (int i = 0; i < a->n_dim; i++)
        if (a->shape[i] != b->shape[i] || (a->shape[i] > 1 && a->stride[i] != b->stride[i]))
            return false;
    return true;
}

/* ---- Elements ----------------------------------------------------------------------------- */

/* Elements that are gathered at a time from a tensor that is not contiguous. */
#define GATHER ((uint64_t)512)
#define MAX_SIZE 8                   /* of an element that can be read */
#define RELEASED ((uint64_t)1 << 22) /* bytes that are read before they are released */

/* Element `i` of a storage in parts, of `size` bytes, in the row-major order of the whole. */
static const unsigned char *in_parts(struct checkpoint_storage *storage, uint64_t i, size_t size) {
    uint64_t index[CHECKPOINT_MAX_DIM], at = 0;
    for (int d = storage->n_dim; d-- > 0; i /= storage->shape[d])
        index[d] = i % storage->shape[d];
    for (size_t tried = 0; tried < storage->n_part; tried++) {
        const struct checkpoint_part *part = &storage->parts[storage->last_part];
        int d = 0;
        for (at = 0; d < storage->n_dim && index[d] - part->start[d] < part->length[d]; d++)
            at = at * part->length[d] + index[d] - part->start[d];
        if (d == storage->n_dim)
            return part->storage->data + at * size;
        storage->last_part = (storage->last_part + 1) % storage->n_part;
    }
    assert(!"the parts cover the tensor");
    return NULL;
}

/* Copies elements [first, first + count) in row-major order to `out`, little-endian. */
static void gather(const struct checkpoint_tensor *tensor, uint64_t first, uint64_t count,
                   unsigned char *out) {
    struct checkpoint_storage *storage = tensor->storage;
    size_t size = checkpoint_dtype_size(tensor->dtype);
    uint64_t index[CHECKPOINT_MAX_DIM], offset = 0, rest = first;
    for (int i = tensor->n_dim; i-- > 0;) {
        index[i] = rest % tensor->shape[i];
        rest /= tensor->shape[i];
        offset += index[i] * tensor->stride[i];
    }
    for (; count > 0; count--, out += size) {
        const unsigned char *at = storage->n_part > 0
                                      ? in_parts(storage, tensor->offset / size + offset, size)
                                      : data_of(tensor) + offset * size;
        if (storage->big_endian)
            for (size_t b = 0; b < size; b++)
                out[b] = at[size - 1 - b];
        else
            memcpy(out, at, size);
        for (int i = tensor->n_dim; i-- > 0;) {
            offset += tensor->stride[i];
            if (++index[i] < tensor->shape[i])
                break;
            offset -= index[i] * tensor->stride[i];
            index[i] = 0;
        }
    }
}

/* Whether it is a matrix of f32 whose columns are contiguous. */
static bool is_transposed(const struct checkpoint_tensor *t) {
    return t->dtype == CHECKPOINT_F32 && t->n_dim == 2 && t->stride[0] == 1 && t->stride[1] > 1 &&
           t->storage->n_part == 0 && !t->storage->big_endian;
}

/* Copies whole rows of such a matrix: by squares, so that each cache line of the file and of `out`
 * is used once. */
static void transpose(const struct checkpoint_tensor *tensor, uint64_t row, uint64_t n_row,
                      float *out) {
    enum { SIDE = 16 };
    const uint64_t n_column = tensor->shape[1];
    float square[SIDE][SIDE];
    for (uint64_t r = 0, n; r < n_row; r += n) {
        n = n_row - r < SIDE ? n_row - r : SIDE;
        for (uint64_t c = 0, m; c < n_column; c += m) {
            m = n_column - c < SIDE ? n_column - c : SIDE;
            for (uint64_t k = 0; k < m; k++) {
                const unsigned char *at =
                    data_of(tensor) + 4 * (row + r + (c + k) * tensor->stride[1]);
                if (n == SIDE) /* a constant size is loaded without waiting for the one before */
                    memcpy(square[k], at, sizeof square[k]);
                else
                    memcpy(square[k], at, n * sizeof(float));
            }
            for (uint64_t i = 0; i < n; i++)
                for (uint64_t k = 0; k < m; k++)
                    out[(r + i) * n_column + c + k] = square[k][i];
        }
    }
}

static double double_at(enum checkpoint_dtype dtype, const unsigned char *at) {
    double x;
    uint64_t bits;
    switch (dtype) {
    case CHECKPOINT_F32:
        return float_of_bits(read_u32(at));
    case CHECKPOINT_F16:
        return float_of_f16(read_u16(at));
    case CHECKPOINT_BF16:
        return float_of_bf16(read_u16(at));
    case CHECKPOINT_F64:
        bits = read_u64(at);
        memcpy(&x, &bits, sizeof x);
        return x;
    case CHECKPOINT_I8:
        return (int8_t)*at;
    case CHECKPOINT_I16:
        return (int16_t)read_u16(at);
    case CHECKPOINT_I32:
        return (int32_t)read_u32(at);
    case CHECKPOINT_I64:
        return (double)(int64_t)read_u64(at);
    case CHECKPOINT_U8:
        return *at;
    case CHECKPOINT_U16:
        return read_u16(at);
    case CHECKPOINT_U32:
        return read_u32(at);
    case CHECKPOINT_U64:
        return (double)read_u64(at);
    case CHECKPOINT_BOOL:
        return *at != 0;
    default:
        assert(!"check_readable lets no other through");
        return 0;
    }
}

static void floats_of(enum checkpoint_dtype dtype, const unsigned char *at, uint64_t count,
                      float *out) {
    size_t size = checkpoint_dtype_size(dtype);
    switch (
        dtype) { /* a loop for each type of large checkpoints, without a switch for each element */
    case CHECKPOINT_F32:
        for (uint64_t i = 0; i < count; i++)
            out[i] = float_of_bits(read_u32(at + 4 * i));
        break;
    case CHECKPOINT_F16:
        for (uint64_t i = 0; i < count; i++)
            out[i] = float_of_f16(read_u16(at + 2 * i));
        break;
    case CHECKPOINT_BF16:
        for (uint64_t i = 0; i < count; i++)
            out[i] = float_of_bf16(read_u16(at + 2 * i));
        break;
    default:
        for (uint64_t i = 0; i < count; i++)
            out[i] = (float)double_at(dtype, at + size * i);
    }
}

/* Releases only bytes of the mapped file: decoded bytes (of a file within a pickle) would be
 * lost. */
static void release(const struct checkpoint_storage *storage, const unsigned char *start,
                    uint64_t size) {
    const struct mapped_file *file = storage->file;
    if (start >= file->data && start < file->data + file->size)
        mapped_file_release(start, size);
}

/* Compares the checksum of one storage, of the tensor or a part of it. */
static txl_status check_bytes(struct checkpoint_storage *storage, const char *name,
                              txl_error *error) {
    if (storage->check == CHECKED)
        return TXL_OK;
    uint32_t sum = 0;
    for (uint64_t at = 0, n; at < storage->size;
         at += n) { /* in parts, so that little of it is in memory */
        n = storage->size - at < RELEASED ? storage->size - at : RELEASED;
        mapped_file_expect(storage->file, storage->data + at, n);
        sum = storage->check == CRC32C ? crc32c(sum, storage->data + at, n)
                                       : (uint32_t)crc32_z(sum, storage->data + at, n);
        release(storage, storage->data + at, n);
    }
    if (sum != storage->checksum) {
        const bool is_entry = storage->check == CRC32; /* of a zip archive */
        const struct pickle_string of =
            is_entry ? storage->key : (struct pickle_string){name, strlen(name)};
        return txl_fail(error, TXL_FORMAT,
                        "%s: %s%.*s: its checksum is %08" PRIx32 ", expected %08" PRIx32
                        "; the file is damaged, fetch it again",
                        storage->file->path, is_entry ? "entry data/" : "tensor ", (int)of.length,
                        of.bytes, sum, storage->checksum);
    }
    storage->check = CHECKED;
    return TXL_OK;
}

/* Checks what will be read: its file, and its bytes the first time. */
static txl_status check_storage(struct checkpoint_storage *storage, const char *name,
                                txl_error *error) {
    txl_status status = TXL_OK;
    if (storage->n_part == 0) {
        status = mapped_file_check(storage->file, error);
        return status ? status : check_bytes(storage, name, error);
    }
    for (size_t i = 0; i < storage->n_part && !status; i++)
        status = check_storage(storage->parts[i].storage, name, error);
    return status;
}

static txl_status check_readable(const struct checkpoint_tensor *tensor, uint64_t first,
                                 uint64_t count, txl_error *error) {
    const struct mapped_file *file = tensor->storage->file;
    if (tensor->dtype >= CHECKPOINT_F8_E4M3)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: tensor %s: elements of type %s are not read; convert them to float32",
                        file->path, tensor->name, checkpoint_dtype_name(tensor->dtype));
    if (first > tensor->n_element || count > tensor->n_element - first)
        return txl_fail(error, TXL_ARGUMENT,
                        "%s: tensor %s: has %" PRIu64 " elements, asked for %" PRIu64
                        " from %" PRIu64,
                        file->path, tensor->name, tensor->n_element, count, first);
    return check_storage(tensor->storage, tensor->name, error);
}

/* Asks the system to load what will be read: elements in the file's order, or, before the first of
 * another order, the whole storage.  After the checksum they may have left memory again. */
static void expect(const struct checkpoint_tensor *tensor, uint64_t first, uint64_t count) {
    const struct checkpoint_storage *storage = tensor->storage;
    const size_t size = checkpoint_dtype_size(tensor->dtype);
    if (storage->n_part > 0)
        return;
    if (checkpoint_is_contiguous(tensor))
        mapped_file_expect(storage->file, data_of(tensor) + first * size, count * size);
    else if (first == 0)
        mapped_file_expect(storage->file, storage->data, storage->size);
}

txl_status checkpoint_read_float(const struct checkpoint_tensor *tensor, uint64_t first,
                                 uint64_t count, float *out, txl_error *error) {
    txl_status status = check_readable(tensor, first, count, error);
    if (status)
        return status;
    const struct checkpoint_storage *storage = tensor->storage;
    expect(tensor, first, count);
    if (checkpoint_is_contiguous(tensor) && storage->n_part == 0 && !storage->big_endian) {
        floats_of(tensor->dtype, data_of(tensor) + first * checkpoint_dtype_size(tensor->dtype),
                  count, out);
        return TXL_OK;
    }
    unsigned char elements[GATHER * MAX_SIZE];
    for (uint64_t n; count > 0; first += n, count -= n, out += n) {
        const uint64_t n_column = tensor->n_dim == 2 ? tensor->shape[1] : 1;
        const uint64_t rows = first % n_column == 0 ? count / n_column : 0;
        if (rows > 0 && is_transposed(tensor)) {
            n = rows * n_column;
            transpose(tensor, first / n_column, rows, out);
            continue;
        }
        n = count < GATHER ? count : GATHER;
        gather(tensor, first, n, elements);
        floats_of(tensor->dtype, elements, n, out);
    }
    return TXL_OK;
}

txl_status checkpoint_read_double(const struct checkpoint_tensor *tensor, uint64_t first,
                                  uint64_t count, double *out, txl_error *error) {
    txl_status status = check_readable(tensor, first, count, error);
    if (status)
        return status;
    const size_t size = checkpoint_dtype_size(tensor->dtype);
    unsigned char elements[GATHER * MAX_SIZE];
    for (uint64_t n; count > 0; first += n, count -= n, out += n) {
        n = count < GATHER ? count : GATHER;
        gather(tensor, first, n, elements);
        for (uint64_t i = 0; i < n; i++)
            out[i] = double_at(tensor->dtype, elements + size * i);
    }
    return TXL_OK;
}

void checkpoint_release(const struct checkpoint_tensor *tensor) {
    const struct checkpoint_storage *storage = tensor->storage;
    for (size_t i = 0; i < storage->n_part; i++) {
        const struct checkpoint_storage *part = storage->parts[i].storage;
        release(part, part->data, part->size);
    }
    if (storage->n_part > 0)
        return;
    uint64_t n = tensor->n_element ? 1 : 0;
    for (int i = 0; n && i < tensor->n_dim; i++)
        n += (tensor->shape[i] - 1) * tensor->stride[i];
    release(storage, data_of(tensor), n * checkpoint_dtype_size(tensor->dtype));
}

txl_status checkpoint_same_numbers(const struct checkpoint_tensor *a,
                                   const struct checkpoint_tensor *b, bool *same,
                                   txl_error *error) {
    enum { COMPARED = 1 << 14 };
    *same = a->dtype == b->dtype && a->n_dim == b->n_dim &&
            memcmp(a->shape, b->shape, (size_t)a->n_dim * sizeof *a->shape) == 0;
    if (!*same)
        return TXL_OK;
    float *numbers = malloc(2 * COMPARED * sizeof *numbers);
    if (!numbers)
        return txl_fail_memory(error, "comparing tensors", 2 * COMPARED * sizeof *numbers);
    txl_status status = TXL_OK;
    for (uint64_t i = 0; *same && !status && i < a->n_element; i += COMPARED) {
        uint64_t left = a->n_element - i, n = left < COMPARED ? left : COMPARED;
        status = checkpoint_read_float(a, i, n, numbers, error);
        if (!status)
            status = checkpoint_read_float(b, i, n, numbers + COMPARED, error);
        *same = !status && memcmp(numbers, numbers + COMPARED, n * sizeof *numbers) == 0;
    }
    checkpoint_release(a);
    checkpoint_release(b);
    free(numbers);
    return status;
}
