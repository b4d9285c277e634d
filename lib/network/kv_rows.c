/* Stores rows of keys, values and positions in blocks, and reads them back. */
#include "kv_rows.h"
#include "lib/base/limits.h"
#include "lib/base/memory.h"
#include "lib/base/numbers.h"

#include <math.h>
#include <string.h>

enum {
    PIECE = 64,          /* elements converted at a time */
    FIRST_RUN = 1 << 15, /* bytes of the first run */
    LONG_RUN = 1 << 19   /* the other runs end at multiples of this */
};

enum weights_type rows_type(txl_memory_type memory_type) {
    static const enum weights_type types[] = {[TXL_MEMORY_F32] = WEIGHTS_F32,
                                              [TXL_MEMORY_F16] = WEIGHTS_F16,
                                              [TXL_MEMORY_BF16] = WEIGHTS_BF16,
                                              [TXL_MEMORY_Q8] = WEIGHTS_Q8};
    return types[memory_type];
}

size_t rows_bytes(txl_memory_type memory_type, size_t n_head, size_t n) {
    size_t scales = memory_type == TXL_MEMORY_Q8 ? n_head * sizeof(float) : 0;
    return n * weights_type_size(rows_type(memory_type)) + scales;
}

/* Whether pairs of rows of a block are interleaved. */
static bool is_paired(enum weights_type type) {
    return type == WEIGHTS_BF16 || type == WEIGHTS_Q8;
}

struct rows rows_transposed(enum weights_type type, size_t n_layer, size_t n_head, size_t d_head,
                            size_t n_row) {
    return (struct rows){.type = type,
                         .transposed = true,
                         .n_layer = n_layer,
                         .n_block = in_blocks(n_row) / ROW_BLOCK,
                         .n_head = n_head,
                         .width = is_paired(type) ? (d_head + 1) / 2 * 2 : d_head};
}

size_t rows_plan(txl_memory_type memory_type, int n_layer, int n_head, int d_head, size_t reach,
                 struct rows *keys, struct rows *values) {
    size_t capacity = in_blocks(reach + ROW_BLOCK - 1);
    *keys = *values = rows_transposed(rows_type(memory_type), (size_t)n_layer, (size_t)n_head,
                                      (size_t)d_head, capacity);
    values->transposed = false;
    values->width = ((size_t)d_head + 15) / 16 * 16;
    return capacity;
}

static size_t element_size(const struct rows *rows) {
    return weights_type_size(rows->type);
}

static size_t elements_bytes(const struct rows *rows) {
    return ROW_BLOCK * rows->width * element_size(rows);
}

static size_t block_bytes(const struct rows *rows) {
    return elements_bytes(rows) + (rows->type == WEIGHTS_Q8 ? ROW_BLOCK * sizeof(float) : 0);
}

void rows_lay_out(struct rows *rows, struct arena *arena) {
    rows->data = arena_take(arena, (uint64_t)rows->n_layer * rows->n_block * rows->n_head,
                            block_bytes(rows));
}

/* A block; *n, unless NULL, is the number of blocks that follow each other in memory from it on. */
static char *blocks_from(const struct rows *rows, size_t layer, size_t block, size_t head,
                         size_t *n) {
    size_t bytes = block_bytes(rows), in_first = larger(FIRST_RUN / bytes, 1);
    size_t in_long = larger(LONG_RUN / bytes, 1);
    size_t first = block < in_first ? 0 : larger(block / in_long * in_long, in_first);
    size_t end = block < in_first ? in_first : (block / in_long + 1) * in_long;
    size_t length = smaller(end, rows->n_block) - first;
    size_t index = (first * rows->n_layer + layer * length) * rows->n_head;
    if (n)
        *n = first + length - block;
    index += head * length + block - first;
    return rows->data + index * bytes;
}

static char *block_of(const struct rows *rows, size_t layer, size_t block, size_t head) {
    return blocks_from(rows, layer, block, head, NULL);
}

/* A row.  Element i is i / 2 * two + i % 2 * one elements after `start`. */
struct row {
    char *start;
    size_t two, one;
    float *scale; /* NULL, except in q8 */
};

static struct row get_row(const struct rows *rows, size_t layer, size_t row, size_t head) {
    size_t i = row % ROW_BLOCK, first;
    char *block = block_of(rows, layer, row / ROW_BLOCK, head);
    struct row r = {0};
    if (is_paired(rows->type) && rows->transposed) {
        first = 2 * i;
        r.two = 2 * ROW_BLOCK;
        r.one = 1;
    } else if (is_paired(rows->type)) {
        first = i / 2 * 2 * rows->width + i % 2;
        r.two = 4;
        r.one = 2;
    } else {
        first = rows->transposed ? i : i * rows->width;
        r.one = rows->transposed ? ROW_BLOCK : 1;
        r.two = 2 * r.one;
    }
    r.start = block + first * element_size(rows);
    if (rows->type == WEIGHTS_Q8)
        r.scale = (float *)(void *)(block + elements_bytes(rows)) + i;
    return r;
}

/* Element i's distance from the first, in elements. */
static size_t place_in(const struct row *row, size_t i) {
    return i / 2 * row->two + i % 2 * row->one;
}

static void put_q8(const struct row *r, const struct kernels *kernels, const float *elements,
                   size_t n) {
    int8_t *out = (int8_t *)r->start, narrow[MAX_D_HEAD];
    *r->scale = kernels->narrow_i8(elements, n, narrow);
    for (size_t i = 0; i < n; i++)
        out[place_in(r, i)] = narrow[i];
}

void rows_put(const struct rows *rows, const struct kernels *kernels, size_t layer, size_t row,
              size_t head, const float *elements, size_t n) {
    struct row r = get_row(rows, layer, row, head);
    if (rows->type == WEIGHTS_Q8) {
        put_q8(&r, kernels, elements, n);
        return;
    }
    if (rows->type == WEIGHTS_F32 && r.one == 1) {
        memcpy(r.start, elements, n * sizeof *elements);
        return;
    }
    if (rows->type == WEIGHTS_F32) {
        float *out = (float *)r.start;
        for (size_t i = 0; i < n; i++)
            out[i * r.one] = elements[i];
        return;
    }
    uint16_t *out = (uint16_t *)r.start, narrow[PIECE];
    for (size_t first = 0; first < n; first += PIECE) {
        size_t count = n - first < PIECE ? n - first : PIECE;
        if (rows->type == WEIGHTS_BF16)
            kernels->narrow_bf16(elements + first, count, narrow);
        else
            kernels->narrow_f16(elements + first, count, narrow);
        for (size_t i = 0; i < count; i++)
            out[place_in(&r, first + i)] = narrow[i];
    }
}

void rows_put_heads(const struct rows *rows, const struct kernels *kernels, size_t layer,
                    size_t row, size_t n, const float *elements, size_t d_head) {
    for (size_t t = 0; t < n; t++)
        for (size_t h = 0; h < rows->n_head; h++, elements += d_head)
            rows_put(rows, kernels, layer, row + t, h, elements, d_head);
}

/* Copies the first n elements of a row as they are stored, in q8 after its scale, to `bytes`, or
 * from there if `in`; returns the end of the bytes. */
static char *copy_row(const struct rows *rows, size_t layer, size_t row, size_t head, size_t n,
                      char *bytes, bool in) {
    struct row r = get_row(rows, layer, row, head);
    size_t size = element_size(rows);
    if (r.scale) {
        memcpy(in ? (void *)r.scale : bytes, in ? bytes : (void *)r.scale, sizeof *r.scale);
        bytes += sizeof *r.scale;
    }
    for (size_t i = 0; i < n; i++, bytes += size) {
        char *element = r.start + place_in(&r, i) * size;
        memcpy(in ? element : bytes, in ? bytes : element, size);
    }
    return bytes;
}

static void copy_rows(const struct rows *keys, const struct rows *values, size_t layer, size_t row,
                      size_t d_head, char *bytes, bool in) {
    for (size_t h = 0; h < keys->n_head; h++)
        bytes = copy_row(keys, layer, row, h, d_head, bytes, in);
    for (size_t h = 0; h < keys->n_head; h++)
        bytes = copy_row(values, layer, row, h, d_head, bytes, in);
}

void rows_export(const struct rows *keys, const struct rows *values, size_t layer, size_t row,
                 size_t d_head, void *bytes) {
    copy_rows(keys, values, layer, row, d_head, bytes, false);
}

void rows_import(const struct rows *keys, const struct rows *values, size_t layer, size_t row,
                 size_t d_head, const void *bytes) {
    copy_rows(keys, values, layer, row, d_head, (char *)(uintptr_t)bytes, true);
}

void rows_round_factor(const struct rows *rows, const struct kernels *kernels, size_t m, size_t k,
                       float *a, size_t lda) {
    for (size_t t = 0; rows->type == WEIGHTS_BF16 && t < m; t++) {
        uint16_t *narrow = (uint16_t *)(a + t * lda);
        kernels->narrow_bf16(a + t * lda, k, narrow);
        if (k % 2 == 1)
            narrow[k] = 0;
    }
}

static const char *get_block(const struct rows *rows, const struct row_span *span, size_t i) {
    return block_of(rows, (size_t)span->layer, (span->block + i) % rows->n_block, span->head);
}

/* The part of a span in its i-th block, widened to multiples of PART rows. */
struct part {
    const char *start;
    size_t first, n; /* within the block */
};

enum { PART = 16 };

static size_t count_parts(const struct row_span *span) {
    return in_blocks(span->end) / ROW_BLOCK;
}

static struct part get_part(const struct rows *rows, const struct row_span *span, size_t i) {
    size_t low = i * ROW_BLOCK, left = span->end - low;
    size_t end = left < ROW_BLOCK ? (left + PART - 1) / PART * PART : ROW_BLOCK;
    struct part part = {.first = span->first > low ? (span->first - low) / PART * PART : 0};
    part.n = end - part.first;
    /* The distance between rows, in elements.  Transposed bf16 and q8 store pairs of a row's
     * elements.  Otherwise they store pairs of rows, which `first` does not split since it is
     * even. */
    size_t apart = !rows->transposed ? rows->width : is_paired(rows->type) ? 2 : 1;
    part.start = get_block(rows, span, i) + part.first * apart * element_size(rows);
    return part;
}

const void *rows_begin(const struct rows *rows, const struct row_span *span) {
    return get_part(rows, span, 0).start;
}

/* Completes the call, and makes it: B is a part; A, call.a, is a result of rows_round_factor, from
 * its column `first` on, and call.lda is its row stride in floats. */
static void multiply_part(const struct rows *rows, const struct kernels *kernels,
                          const struct part *b, size_t first, struct multiply_call call) {
    call.k = rows->transposed ? rows->width : b->n;
    call.n = rows->transposed ? b->n : rows->width;
    call.b = b->start;
    call.ldb = rows->transposed ? ROW_BLOCK : rows->width;
    if (rows->type == WEIGHTS_BF16) {
        call.a = (const uint16_t *)call.a + first;
        call.lda *= 2;
        kernels->multiply_bf16(&call);
    } else {
        call.a = (const float *)call.a + first;
        kernels->multiply[rows->type](&call);
    }
}

/* The address that is read after part i. */
static const void *read_next(const struct rows *rows, const struct row_span *span, size_t i,
                             const void *after) {
    return i + 1 < count_parts(span) ? get_part(rows, span, i + 1).start : after;
}

/* The blocks of a span in q8 from the i-th on, as many as follow each other in memory. */
static struct i8_span get_run(const struct rows *rows, const struct row_span *span, size_t i,
                              const void *after) {
    const size_t low = i * ROW_BLOCK, n = count_parts(span);
    size_t n_follow;
    const char *start = blocks_from(rows, (size_t)span->layer, (span->block + i) % rows->n_block,
                                    span->head, &n_follow);
    const size_t next = smaller(i + n_follow, n);
    const size_t end = smaller(span->end, next * ROW_BLOCK) - low;
    return (struct i8_span){.block = start,
                            .apart = block_bytes(rows),
                            .width = rows->width,
                            .first = span->first > low ? (span->first - low) / PART * PART : 0,
                            .end = (end + PART - 1) / PART * PART,
                            .next = next < n ? get_block(rows, span, next) : after};
}

size_t rows_parts(const struct rows *rows, const struct row_span *span, struct fetch_part *part,
                  size_t room) {
    size_t n = 0, i = span->first / ROW_BLOCK;
    while (i < count_parts(span) && n < room) {
        const struct i8_span run = get_run(rows, span, i, NULL);
        const size_t blocks = in_blocks(run.end) / ROW_BLOCK;
        part[n++] = (struct fetch_part){run.block, run.block + blocks * run.apart};
        i += blocks;
    }
    return n;
}

void rows_score(const struct rows *rows, const struct kernels *kernels, const struct row_span *span,
                size_t m, const float *q, size_t d_head, float *s, size_t lds, const void *after) {
    size_t i = span->first / ROW_BLOCK;
    while (rows->type == WEIGHTS_Q8 && i < count_parts(span)) {
        const struct i8_span run = get_run(rows, span, i, after);
        kernels->score_i8(m, d_head, q, d_head, &run, s + i * ROW_BLOCK, lds);
        i += in_blocks(run.end) / ROW_BLOCK;
    }
    for (; i < count_parts(span); i++) {
        const struct part part = get_part(rows, span, i);
        multiply_part(rows, kernels, &part, 0,
                      (struct multiply_call){.m = m,
                                             .a = q,
                                             .lda = d_head,
                                             .c = s + i * ROW_BLOCK + part.first,
                                             .ldc = lds,
                                             .next = read_next(rows, span, i, after)});
    }
}

void rows_weigh(const struct rows *rows, const struct kernels *kernels, const struct row_span *span,
                size_t m, const float *s, size_t lds, float *out, const void *after) {
    size_t i = span->first / ROW_BLOCK;
    while (rows->type == WEIGHTS_Q8 && i < count_parts(span)) {
        const struct i8_span run = get_run(rows, span, i, after);
        kernels->weigh_i8(m, s + i * ROW_BLOCK, lds, &run, out);
        i += in_blocks(run.end) / ROW_BLOCK;
    }
    for (; i < count_parts(span); i++) {
        const struct part part = get_part(rows, span, i);
        multiply_part(rows, kernels, &part, i * ROW_BLOCK + part.first,
                      (struct multiply_call){.m = m,
                                             .a = s,
                                             .lda = lds,
                                             .add = true,
                                             .c = out,
                                             .ldc = rows->width,
                                             .next = read_next(rows, span, i, after)});
    }
}

void rows_copy_block(struct rows *to, const struct rows *from, size_t block) {
    for (size_t layer = 0; layer < from->n_layer; layer++) {
        for (size_t head = 0; head < from->n_head; head++)
            memcpy(block_of(to, layer, block, head), block_of(from, layer, block, head),
                   block_bytes(from));
    }
}

/* ---- Attention ---------------------------------------------------------------------------- */

struct key_range attend_range(int layer, size_t head, uint64_t from, uint64_t end, size_t far,
                              size_t near) {
    struct key_range range = {.low = from / ROW_BLOCK * ROW_BLOCK,
                              .low_row = far / ROW_BLOCK * ROW_BLOCK};
    range.keys = (struct row_span){layer, head, (size_t)(from / ROW_BLOCK),
                                   (size_t)(from - range.low), (size_t)(end - range.low)};
    range.positions =
        (struct row_span){layer, head, far / ROW_BLOCK, far - range.low_row, near - range.low_row};
    range.n_key = in_blocks(range.keys.end);
    range.n_position = in_blocks(range.positions.end);
    return range;
}

void attend_add_bias(size_t m, size_t d_head, const float *q, size_t ldq, const float *bias,
                     float *out) {
    for (size_t t = 0; t < m; t++)
        for (size_t j = 0; j < d_head; j++)
            out[t * d_head + j] = q[t * ldq + j] + (bias ? bias[j] : 0);
}

void attend_queries(const struct rows *rows, const struct kernels *kernels, size_t m, size_t d_head,
                    const float *q, size_t ldq, const float *bias, float *out) {
    attend_add_bias(m, d_head, q, ldq, bias, out);
    rows_round_factor(rows, kernels, m, d_head, out, d_head);
}

float attend_row(const struct kernels *kernels, size_t d_head, float *s, size_t n_key,
                 size_t before, size_t n, size_t n_far, float far, const float *position) {
    float scale = 1 / sqrtf((float)d_head);
    float sum = kernels->attend(s + before, n, n_far, far, position, scale);
    memset(s, 0, before * sizeof *s);
    memset(s + before + n, 0, (n_key - before - n) * sizeof *s);
    return 1 / sum;
}

void attend_heads(size_t m, size_t d_head, const float *sums, size_t width, const float *factor,
                  float *heads, size_t ldh) {
    for (size_t t = 0; t < m; t++)
        for (size_t j = 0; j < d_head; j++)
            heads[t * ldh + j] = sums[t * width + j] * factor[t];
}
