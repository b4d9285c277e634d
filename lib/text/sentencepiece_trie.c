/* Builds the trie of pieces: a double array (Aoe 1989), in time that is linear in the pieces'
 * length. */
#include "lib/base/error.h"
#include "sentencepiece_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    TRIE_BLOCK = 256,
    /* Blocks whose free units are still searched; bounds the steps for a node. */
    TRIE_OPEN_BLOCKS = 8,
    /* base_label has room for bases below this. */
    TRIE_MAX_UNITS = 1 << 24,
};

/* A unit of the trie while it is built.  The free ones of the open blocks are linked in a ring;
 * unit 0, which is the root's, is its head. */
struct unit_link {
    uint32_t before, behind;
    bool taken, is_base;
};

struct trie_maker {
    struct sentencepiece *pieces;
    const struct pieces_section *section;
    const float *scores;
    int32_t *order, *spare;  /* ids of the pieces to insert; those below one node are adjacent */
    struct unit_link *links; /* [room] */
    uint32_t room;
    struct trie_node *stack; /* nodes whose children are yet to be made; they share no pieces */
    size_t n_stack;
};

/* A node of the pieces order[begin, end), which agree in the first `depth` bytes. */
struct trie_node {
    uint32_t unit;
    uint32_t begin, end, depth;
};

/* What piece order[i] of the node goes on with: its next byte plus 1, or 0 if it ends there. */
static unsigned next_key(const struct trie_maker *maker, const struct trie_node *node, uint32_t i) {
    size_t length;
    const char *text = spelling_at(&maker->section->spellings, maker->order[i], &length);
    return length > node->depth ? 1u + (unsigned char)text[node->depth] : 0;
}

static void take_unit(struct trie_maker *maker, uint32_t unit) {
    struct unit_link *links = maker->links, *link = &links[unit];
    links[link->before].behind = link->behind;
    links[link->behind].before = link->before;
    link->taken = true;
}

static txl_status make_room(struct trie_maker *maker, uint32_t n, txl_error *error) {
    struct sentencepiece *p = maker->pieces;
    if (n <= maker->room)
        return TXL_OK;
    uint32_t room = maker->room == 0 ? 64 * TRIE_BLOCK : 2 * maker->room;
    struct trie_unit *trie = realloc(p->trie, room * sizeof *trie);
    p->trie = trie ? trie : p->trie;
    int32_t *ids = realloc(p->trie_id, room * sizeof *ids);
    p->trie_id = ids ? ids : p->trie_id;
    struct unit_link *links = realloc(maker->links, room * sizeof *links);
    maker->links = links ? links : maker->links;
    if (!trie || !ids || !links)
        return txl_fail_memory(error, "the trie of pieces", (uint64_t)room * sizeof *links);
    maker->room = room;
    return TXL_OK;
}

static void close_block(struct trie_maker *maker, uint32_t first) {
    for (uint32_t unit = first; unit < first + TRIE_BLOCK; unit++)
        if (!maker->links[unit].taken)
            take_unit(maker, unit);
}

/* Adds a block of free units. */
static txl_status add_block(struct trie_maker *maker, txl_error *error) {
    struct sentencepiece *p = maker->pieces;
    uint32_t first = p->n_trie, n = first + TRIE_BLOCK;
    if (n > TRIE_MAX_UNITS)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: vocabulary: pieces whose trie has more than %d nodes",
                        maker->section->file, TRIE_MAX_UNITS);
    txl_status status = make_room(maker, n, error);
    if (status)
        return status;
    struct unit_link *links = maker->links;
    for (uint32_t i = first; i < n; i++) {
        p->trie[i] = (struct trie_unit){.score.bits = TRIE_NO_PIECE};
        p->trie_id[i] = -1;
        links[i] = (struct unit_link){0};
        if (i == 0)
            continue; /* the head of the ring */
        links[i].before = links[0].before;
        links[links[0].before].behind = i;
        links[0].before = i;
    }
    p->n_trie = n;
    if (n > TRIE_OPEN_BLOCKS * TRIE_BLOCK)
        close_block(maker, n - (TRIE_OPEN_BLOCKS + 1) * TRIE_BLOCK);
    return TXL_OK;
}

/* Finds a base for children with those labels. */
static txl_status find_base(struct trie_maker *maker, const unsigned char *labels, size_t n,
                            uint32_t *base, txl_error *error) {
    for (uint32_t unit = maker->links[0].behind;; unit = maker->links[unit].behind) {
        if (unit == 0) {
            unit = maker->links[0].before;
            txl_status status = add_block(maker, error);
            if (status)
                return status;
            continue;
        }
        *base = unit ^ labels[0];
        if (maker->links[*base].is_base)
            continue;
        size_t i = 1;
        while (i < n && !maker->links[*base ^ labels[i]].taken)
            i++;
        if (i == n)
            return TXL_OK;
    }
}

static txl_status make_children(struct trie_maker *maker, const struct trie_node *node,
                                const unsigned char *labels, const uint32_t *begins, size_t n,
                                txl_error *error) {
    struct trie_unit *trie = maker->pieces->trie;
    uint32_t base;
    txl_status status = find_base(maker, labels, n, &base, error);
    if (status)
        return status;
    trie = maker->pieces->trie;
    maker->links[base].is_base = true;
    trie[node->unit].base_label |= base << 8;
    for (size_t i = 0; i < n; i++) {
        uint32_t unit = base ^ labels[i];
        take_unit(maker, unit);
        trie[unit].base_label = labels[i];
        maker->stack[maker->n_stack++] =
            (struct trie_node){unit, begins[i], begins[i + 1], node->depth + 1};
    }
    return TXL_OK;
}

/* The node's first piece ends at the node. */
static txl_status end_piece(struct trie_maker *maker, const struct trie_node *node,
                            txl_error *error) {
    struct sentencepiece *p = maker->pieces;
    int32_t id = maker->order[node->begin];
    p->trie_id[node->unit] = id;
    if (p->types[id] == PIECE_NORMAL)
        p->trie[node->unit].score.value = maker->scores[id];
    else if (p->types[id] == PIECE_USER_DEFINED)
        p->trie[node->unit].score.bits = TRIE_USER_DEFINED;
    if (node->begin + 1 == node->end || next_key(maker, node, node->begin + 1) > 0)
        return TXL_OK;
    return txl_fail(error, TXL_FORMAT,
                    "%s: vocabulary: pieces %" PRId32 " and %" PRId32 " are spelled the same",
                    maker->section->file, id, maker->order[node->begin + 1]);
}

/* Sorts the node's pieces by their next_key.  Afterwards the pieces of a key are
 * order[begins[key], begins[key + 1]). */
static void sort_pieces(struct trie_maker *maker, const struct trie_node *node,
                        uint32_t begins[258]) {
    memset(begins, 0, 258 * sizeof *begins);
    for (uint32_t i = node->begin; i < node->end; i++)
        begins[1 + next_key(maker, node, i)]++;
    begins[0] = node->begin;
    for (unsigned key = 1; key < 258; key++)
        begins[key] += begins[key - 1];
    uint32_t next[257];
    memcpy(next, begins, sizeof next);
    for (uint32_t i = node->begin; i < node->end; i++)
        maker->spare[next[next_key(maker, node, i)]++] = maker->order[i];
    memcpy(maker->order + node->begin, maker->spare + node->begin,
           (node->end - node->begin) * sizeof *maker->order);
}

static txl_status open_node(struct trie_maker *maker, struct trie_node node, txl_error *error) {
    unsigned char labels[256];
    uint32_t begins[258];
    size_t n = 0;
    if (node.begin + 1 == node.end) {
        const unsigned key = next_key(maker, &node, node.begin);
        if (key == 0)
            return end_piece(maker, &node, error);
        labels[0] = (unsigned char)(key - 1);
        begins[0] = node.begin;
        begins[1] = node.end;
        return make_children(maker, &node, labels, begins, 1, error);
    }
    sort_pieces(maker, &node, begins);
    if (begins[1] > node.begin) {
        txl_status status = end_piece(maker, &node, error);
        if (status)
            return status;
    }
    for (unsigned key = 1; key <= 256; key++) {
        if (begins[key + 1] == begins[key])
            continue;
        labels[n] = (unsigned char)(key - 1);
        begins[n++] = begins[key];
    }
    begins[n] = node.end;
    return n > 0 ? make_children(maker, &node, labels, begins, n, error) : TXL_OK;
}

/* Base 0 marks a node without children.  It leads nowhere, because no unit below 256 has its own
 * number as label: free units have label 0, the root label 1.  (No piece has a byte 0, so a NUL in
 * a text leads to a free unit at most, and no farther.) */
static txl_status fill_trie(struct trie_maker *maker, uint32_t n, txl_error *error) {
    txl_status status = add_block(maker, error);
    if (status)
        return status;
    maker->pieces->trie[0].base_label = 1;
    maker->links[0].taken = maker->links[0].is_base = true;
    if (n > 0)
        maker->stack[maker->n_stack++] = (struct trie_node){0, 0, n, 0};
    while (maker->n_stack > 0 && !status)
        status = open_node(maker, maker->stack[--maker->n_stack], error);
    return status;
}

static bool is_found(unsigned char type) {
    return type == PIECE_NORMAL || type == PIECE_USER_DEFINED || type == PIECE_UNUSED;
}

txl_status sentencepiece_build_trie(struct sentencepiece *p, const struct pieces_section *section,
                                    const float *scores, txl_error *error) {
    struct trie_maker maker = {.pieces = p, .section = section, .scores = scores};
    size_t room = (size_t)p->n + 1;
    maker.order = malloc(room * sizeof *maker.order);
    maker.spare = malloc(room * sizeof *maker.spare);
    maker.stack = malloc(room * sizeof *maker.stack);
    txl_status status = TXL_OK;
    if (!maker.order || !maker.spare || !maker.stack) {
        status = txl_fail_memory(error, "the trie of pieces", room * sizeof *maker.stack);
    } else {
        uint32_t n = 0;
        for (int32_t id = 0; id < p->n; id++)
            if (is_found(p->types[id]))
                maker.order[n++] = id;
        status = fill_trie(&maker, n, error);
    }
    free(maker.order);
    free(maker.spare);
    free(maker.links);
    free(maker.stack);
    return status;
}
