/* Rows of keys, values and positions, in blocks. */
#include "kv_rows.h"
#include "lib/base/error.h"
#include "lib/base/half.h"

#include <string.h>
#include <sys/mman.h>

enum {
    PIECE = 64,         /* elements that are converted at a time */
    RUN_BYTES = 1 << 15 /* of a head's blocks that lie in a row */
};

static size_t element_size(const struct rows *rows) {
    return rows->type == WEIGHTS_F16 ? sizeof(uint16_t) : sizeof(float);
}

static size_t block_bytes(const struct rows *rows) {
    return ROW_BLOCK * rows->width * element_size(rows);
}

uint64_t rows_bytes(const struct rows *rows) {
    return (uint64_t)rows->n_layer * rows->n_block * rows->n_head * block_bytes(rows);
}

txl_status rows_open(struct rows *rows, const char *name, txl_error *error) {
    uint64_t bytes = rows_bytes(rows);
    if (bytes == 0)
        return TXL_OK;
    if (bytes > SIZE_MAX / 2)
        return txl_fail_memory(error, name, bytes);
    void *memory =
        mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return txl_fail_memory(error, name, bytes);
    madvise(memory, (size_t)bytes, MADV_HUGEPAGE);
    rows->data = memory;
    return TXL_OK;
}

void rows_close(struct rows *rows) {
    if (rows->data)
        munmap(rows->data, rows_bytes(rows));
    rows->data = NULL;
}

void *rows_block(const struct rows *rows, size_t layer, size_t block, size_t head) {
    size_t bytes = block_bytes(rows), run = bytes < RUN_BYTES ? RUN_BYTES / bytes : 1;
    size_t first = block / run * run, left = rows->n_block - first;
    size_t index = (layer * rows->n_block + first) * rows->n_head;
    index += head * (left < run ? left : run) + block - first;
    return rows->data + index * bytes;
}

/* The row's first element, and the distance of one element from the next. */
static char *row_start(const struct rows *rows, size_t layer, size_t row, size_t head,
                       size_t *step) {
    char *block = rows_block(rows, layer, row / ROW_BLOCK, head);
    size_t in_block = row % ROW_BLOCK;
    *step = rows->transposed ? ROW_BLOCK : 1;
    return block + in_block * (rows->transposed ? 1 : rows->width) * element_size(rows);
}

void rows_put(const struct rows *rows, const struct kernels *kernels, size_t layer, size_t row,
              size_t head, const float *elements, size_t n) {
    size_t step;
    char *start = row_start(rows, layer, row, head, &step);
    if (rows->type == WEIGHTS_F32 && step == 1) {
        memcpy(start, elements, n * sizeof *elements);
        return;
    }
    if (rows->type == WEIGHTS_F32) {
        float *out = (float *)start;
        for (size_t i = 0; i < n; i++)
            out[i * step] = elements[i];
        return;
    }
    uint16_t *out = (uint16_t *)start, narrow[PIECE];
    for (size_t first = 0; first < n; first += PIECE) {
        size_t count = n - first < PIECE ? n - first : PIECE;
        kernels->narrow_f16(elements + first, count, narrow);
        for (size_t i = 0; i < count; i++)
            out[(first + i) * step] = narrow[i];
    }
}

void rows_get(const struct rows *rows, size_t layer, size_t row, size_t head, float *elements,
              size_t n) {
    size_t step;
    const char *start = row_start(rows, layer, row, head, &step);
    for (size_t i = 0; i < n; i++)
        elements[i] = rows->type == WEIGHTS_F32 ? ((const float *)start)[i * step]
                                                : float_of_f16(((const uint16_t *)start)[i * step]);
}

void rows_copy_block(struct rows *to, const struct rows *from, size_t block) {
    for (size_t layer = 0; layer < from->n_layer; layer++) {
        for (size_t head = 0; head < from->n_head; head++)
            memcpy(rows_block(to, layer, block, head), rows_block(from, layer, block, head),
                   block_bytes(from));
    }
}
