/* Weights files: the input is one, opened both ways.  The mutator changes one part at a time and
 * corrects offsets, sizes and checksums; otherwise nothing of a changed file would be read. */
#include "fuzz.h"

#include "lib/weights/weights.h"

#include <stdlib.h>
#include <xxhash.h>

/* A model whose blocks stay compressed gives the same numbers. */
static void try_compressed(const void *data, size_t size, const struct fuzz_scores *expected) {
    txl_model *model;
    txl_error error;
    txl_status status = txl_model_open_memory_compressed(data, size, "input", 1, &model, &error);
    if (expected)
        fuzz_require_ok(status, &error);
    if (status)
        return;
    struct fuzz_scores scores = fuzz_model(model);
    fuzz_require(!expected || memcmp(&scores, expected, sizeof scores) == 0,
                 "a compressed model gives other numbers");
    txl_model_close(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    txl_model *model;
    txl_error error;
    void *copy = NULL; /* of exactly this size, so that a read beyond it is noticed */
    if (posix_memalign(&copy, WEIGHTS_ALIGNMENT, size) != 0)
        return 0;
    memcpy(copy, data, size);
    if (!txl_model_open_memory(copy, size, "input", 1, &model, &error)) {
        struct fuzz_scores scores = fuzz_model(model);
        txl_model_close(model);
        try_compressed(copy, size, &scores);
        txl_file_verify(fuzz_file(data, size), NULL, NULL, &error);
    } else {
        try_compressed(copy, size, NULL);
    }
    free(copy);
    return 0;
}

/* ---- The mutator -------------------------------------------------------------------------- */

enum { SETTINGS, VOCABULARY, INDEX, BLOCKS, N_PART };

/* A file taken apart. */
struct parts {
    struct layout_header header;
    uint64_t offset[N_PART];
    size_t size[N_PART];
};

static uint64_t aligned(uint64_t offset) {
    return (offset + WEIGHTS_ALIGNMENT - 1) / WEIGHTS_ALIGNMENT * WEIGHTS_ALIGNMENT;
}

/* False unless the sections follow each other as a writer lays them out. */
static bool take_apart(const uint8_t *data, size_t size, struct parts *p) {
    if (size < sizeof p->header)
        return false;
    memcpy(&p->header, data, sizeof p->header);
    const struct layout_section *section[] = {&p->header.settings, &p->header.vocabulary,
                                              &p->header.index};
    uint64_t end = sizeof p->header;
    for (int i = 0; i < BLOCKS; i++) {
        if (section[i]->offset != aligned(end) || section[i]->offset > size ||
            section[i]->size > size - section[i]->offset)
            return false;
        p->offset[i] = section[i]->offset;
        p->size[i] = section[i]->size;
        end = section[i]->offset + section[i]->size;
    }
    p->offset[BLOCKS] = aligned(end);
    if (p->offset[BLOCKS] > size)
        return false;
    p->size[BLOCKS] = size - p->offset[BLOCKS];
    return true;
}

/* Calls `change` for each block record that lies within the index. */
static void each_block(uint8_t *index, size_t size,
                       void (*change)(void *context, struct layout_block *block), void *context) {
    struct layout_index head;
    if (size < sizeof head)
        return;
    memcpy(&head, index, sizeof head);
    if (head.block_size < sizeof(struct layout_block))
        return;
    uint64_t at = sizeof head + (uint64_t)head.n_tensor * head.tensor_size;
    for (uint32_t i = 0; i < head.n_block && at + sizeof(struct layout_block) <= size; i++) {
        struct layout_block block;
        memcpy(&block, index + at, sizeof block);
        change(context, &block);
        memcpy(index + at, &block, sizeof block);
        at += head.block_size;
    }
}

static void move_block(void *context, struct layout_block *block) {
    block->offset += *(const uint64_t *)context;
}

struct file {
    const uint8_t *data;
    size_t size;
};

static void repair_block(void *context, struct layout_block *block) {
    const struct file *file = context;
    if (block->offset <= file->size && block->stored <= file->size - block->offset)
        block->checksum = XXH3_64bits(file->data + block->offset, block->stored);
}

/* Sets the file's size and all checksums. */
static void repair(uint8_t *data, size_t size) {
    struct layout_header header;
    struct file file = {data, size};
    if (size < sizeof header)
        return;
    memcpy(&header, data, sizeof header);
    header.file_size = size;
    struct layout_section *section[] = {&header.settings, &header.vocabulary, &header.index};
    for (int i = 0; i < BLOCKS; i++) {
        if (section[i]->offset > size || section[i]->size > size - section[i]->offset)
            continue;
        if (i == INDEX)
            each_block(data + section[i]->offset, section[i]->size, repair_block, &file);
        section[i]->checksum = XXH3_64bits(data + section[i]->offset, section[i]->size);
    }
    header.checksum = XXH3_64bits(&header, offsetof(struct layout_header, checksum));
    memcpy(data, &header, sizeof header);
}

/* Puts the parts together again, the one numbered `changed` being what is in `part`. */
static size_t put_together(uint8_t *data, size_t max_size, const struct parts *p, int changed,
                           const uint8_t *part, size_t part_size) {
    struct parts to = *p;
    to.size[changed] = part_size;
    uint64_t end = sizeof to.header;
    for (int i = 0; i < N_PART; i++) {
        to.offset[i] = aligned(end);
        end = to.offset[i] + to.size[i];
    }
    uint8_t *made = end <= max_size ? calloc(1, end) : NULL;
    if (!made)
        return 0;
    to.header.settings.offset = to.offset[SETTINGS];
    to.header.settings.size = to.size[SETTINGS];
    to.header.vocabulary.offset = to.offset[VOCABULARY];
    to.header.vocabulary.size = to.size[VOCABULARY];
    to.header.index.offset = to.offset[INDEX];
    to.header.index.size = to.size[INDEX];
    memcpy(made, &to.header, sizeof to.header);
    for (int i = 0; i < N_PART; i++)
        memcpy(made + to.offset[i], i == changed ? part : data + p->offset[i], to.size[i]);
    uint64_t moved = to.offset[BLOCKS] - p->offset[BLOCKS];
    each_block(made + to.offset[INDEX], to.size[INDEX], move_block, &moved);
    memcpy(data, made, end);
    free(made);
    return end;
}

static size_t mutate_part(uint8_t *data, size_t max_size, const struct parts *p, int part) {
    size_t room = p->size[part] + 512;
    uint8_t *copy = malloc(room);
    if (!copy)
        return 0;
    memcpy(copy, data + p->offset[part], p->size[part]);
    size_t size = LLVMFuzzerMutate(copy, p->size[part], room);
    size = put_together(data, max_size, p, part, copy, size);
    free(copy);
    return size;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    struct parts p;
    size_t mutated = 0;
    int part = (int)(seed % (N_PART + 2));
    if (part < N_PART && take_apart(data, size, &p))
        mutated = mutate_part(data, max_size, &p, part);
    if (mutated == 0)
        mutated = LLVMFuzzerMutate(data, size, max_size);
    if (seed / (N_PART + 2) % 16 != 0)
        repair(data, mutated);
    return mutated;
}
