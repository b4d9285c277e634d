/* SentencePiece models: opening the part that a vocabulary keeps, the trie of pieces, and the
 * normaliser's rules. */
#include "sentencepiece.h"
#include "lib/base/error.h"
#include "unicode.h"

#include <endian.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

/* Opens the SentencePiece part of a vocabulary section: checks it, and finds its parts. */
/* How far the score of an unknown character is below that of the least likely piece. */
#define UNKNOWN_PENALTY 10.0f

static txl_status bad_piece(const char *file, int32_t id, const char *what, txl_error *error) {
    return txl_fail(error, TXL_FORMAT, "%s: vocabulary: piece %" PRId32 " %s", file, id, what);
}

int sentencepiece_byte(const char *text, size_t length) {
    static const char digits[] = "0123456789ABCDEF";
    if (length != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    const char *high = memchr(digits, text[3], 16), *low = memchr(digits, text[4], 16);
    return high && low ? (int)(16 * (high - digits) + (low - digits)) : -1;
}

static txl_status check_piece(struct sentencepiece *p, const struct pieces_section *section,
                              int32_t id, float score, txl_error *error) {
    size_t length;
    const char *text = spelling_at(&section->spellings, id, &length);
    unsigned char type = p->types[id];
    if (type < PIECE_NORMAL || type > PIECE_BYTE)
        return bad_piece(section->file, id, "has an unknown type", error);
    if (length == 0 || length > PIECES_LONGEST)
        return bad_piece(section->file, id, "is empty or longer than 1,024 bytes", error);
    if (memchr(text, '\0', length) || u8_check((const uint8_t *)text, length))
        return bad_piece(section->file, id, "is not UTF-8 without NUL", error);
    if (!isfinite(score))
        return bad_piece(section->file, id, "has a score that is not finite", error);
    if ((type == PIECE_UNKNOWN) != (id == section->unk))
        return bad_piece(section->file, id, "is one of several unknown pieces, or is none", error);
    if (type == PIECE_CONTROL || id != section->eos)
        return TXL_OK;
    return bad_piece(section->file, id, "ends a line, but is no control piece", error);
}

static txl_status check_pieces(struct sentencepiece *p, const struct pieces_section *section,
                               const float *scores, txl_error *error) {
    float least = FLT_MAX, most = FLT_MIN; /* as in the library */
    txl_status status = TXL_OK;
    if (section->unk < 0)
        return txl_fail(error, TXL_FORMAT, "%s: vocabulary: no unknown piece", section->file);
    for (int32_t id = 0; id < p->n && !status; id++) {
        size_t length;
        const unsigned char *text =
            (const unsigned char *)spelling_at(&section->spellings, id, &length);
        status = check_piece(p, section, id, scores[id], error);
        if (p->types[id] == PIECE_NORMAL) {
            least = fminf(least, scores[id]);
            most = fmaxf(most, scores[id]);
        } else if (p->types[id] == PIECE_USER_DEFINED && !status) {
            p->user_defined[text[0]] = true;
            p->longest_prefix = length > p->longest_prefix ? length : p->longest_prefix;
        }
    }
    p->unknown_score = least - UNKNOWN_PENALTY;
    p->most = most;
    return status;
}

static txl_status find_bytes(struct sentencepiece *p, const struct pieces_section *section,
                             txl_error *error) {
    int n = 0;
    for (int i = 0; i < 256; i++)
        p->byte_id[i] = -1;
    for (int32_t id = 0; id < p->n; id++) {
        if (p->types[id] != PIECE_BYTE)
            continue;
        size_t length;
        const char *text = spelling_at(&section->spellings, id, &length);
        int byte = sentencepiece_byte(text, length);
        if (byte < 0 || p->byte_id[byte] >= 0 || !(p->flags & PIECES_BYTE_FALLBACK))
            return bad_piece(section->file, id, "is not the one piece of a byte", error);
        p->byte_id[byte] = id;
        n++;
    }
    if (n == 256 || !(p->flags & PIECES_BYTE_FALLBACK))
        return TXL_OK;
    return txl_fail(error, TXL_FORMAT, "%s: vocabulary: %d byte pieces, expected 256",
                    section->file, n);
}

/* ---- Opening ------------------------------------------------------------------------------ */

struct tail {
    const unsigned char *scores, *charsmap;
    size_t n_charsmap;
};

static txl_status open_tail(struct sentencepiece *p, const struct pieces_section *section,
                            struct tail *tail, txl_error *error) {
    const unsigned char *bytes = section->tail;
    const char *file = section->file;
    size_t size = section->n_tail;
    if (size < 12)
        return txl_fail(error, TXL_FORMAT, "%s: vocabulary: no scores after the pieces", file);
    p->flags = read_u32(bytes);
    p->n_surface = read_u32(bytes + 4);
    tail->n_charsmap = read_u32(bytes + 8);
    uint64_t needed = 12 + 5 * (uint64_t)p->n + p->n_surface + tail->n_charsmap;
    if (needed != size)
        return txl_fail(error, TXL_FORMAT,
                        "%s: vocabulary: %zu bytes after the pieces, expected %" PRIu64, file, size,
                        needed);
    if (p->flags & ~(unsigned)PIECES_FLAGS)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: vocabulary: unknown flags %#x", file,
                        p->flags);
    tail->scores = bytes + 12;
    p->types = tail->scores + 4 * (size_t)p->n;
    p->surface = (const char *)p->types + p->n;
    tail->charsmap = (const unsigned char *)p->surface + p->n_surface;
    if (u8_check((const uint8_t *)p->surface, p->n_surface))
        return txl_fail(error, TXL_FORMAT,
                        "%s: vocabulary: what unknown pieces are shown as is not UTF-8", file);
    return TXL_OK;
}

static txl_status open_pieces(struct sentencepiece *p, const struct pieces_section *section,
                              const struct tail *tail, float *scores, txl_error *error) {
    for (int32_t id = 0; id < p->n; id++) {
        uint32_t bits = read_u32(tail->scores + 4 * (size_t)id);
        memcpy(&scores[id], &bits, sizeof bits);
    }
    txl_status status = TXL_OK;
    if (tail->n_charsmap > 0)
        status =
            sentencepiece_open_rules(p, tail->charsmap, tail->n_charsmap, section->file, error);
    if (!status)
        status = check_pieces(p, section, scores, error);
    if (!status)
        status = find_bytes(p, section, error);
    if (!status)
        status = sentencepiece_build_trie(p, section, scores, error);
    if (!status)
        sentencepiece_find_plain(p);
    return status;
}

txl_status sentencepiece_open(const struct pieces_section *section, struct sentencepiece **pieces,
                              txl_error *error) {
    struct sentencepiece *p = calloc(1, sizeof *p);
    if (!p)
        return txl_fail_memory(error, "the pieces", sizeof *p);
    p->n = section->spellings.n;
    p->unk = section->unk;
    struct tail parts = {0};
    txl_status status = open_tail(p, section, &parts, error);
    if (!status) {
        size_t bytes = (size_t)p->n * sizeof(float);
        float *scores = malloc(bytes);
        status = scores ? open_pieces(p, section, &parts, scores, error)
                        : txl_fail_memory(error, "the pieces", bytes);
        free(scores);
    }
    if (status) {
        sentencepiece_close(p);
        return status;
    }
    *pieces = p;
    return TXL_OK;
}

bool sentencepiece_score(const struct sentencepiece *pieces, const char *text, size_t length,
                         double *score) {
    uint32_t unit = 0;
    for (size_t i = 0; i < length; i++) {
        unit = (pieces->trie[unit].base_label >> 8) ^ (unsigned char)text[i];
        if ((pieces->trie[unit].base_label & 0xff) != (unsigned char)text[i])
            return false;
    }
    uint32_t bits = pieces->trie[unit].score.bits;
    *score = bits == TRIE_USER_DEFINED ? sentencepiece_user_defined_score(pieces, length)
                                       : (double)pieces->trie[unit].score.value;
    return bits != TRIE_NO_PIECE;
}

void sentencepiece_close(struct sentencepiece *pieces) {
    if (!pieces)
        return;
    free(pieces->trie);
    free(pieces->trie_id);
    free(pieces->rules);
    free(pieces);
}

/* Builds the trie of pieces: a double array (Aoe 1989), in time that is linear in the pieces'
 * length. */

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

/* The normaliser's rules of a SentencePiece model: checks their double array, which anybody may
 * have written, and finds rules in it. */

static bool has_string(uint32_t unit) {
    return unit >> 8 & 1;
}

static uint32_t label_of(uint32_t unit) {
    return unit & 0x800000ffu;
}

static uint32_t distance(uint32_t unit) {
    return unit >> 10 << (unit >> 6 & 8);
}

const char *sentencepiece_rule(const struct sentencepiece *pieces, const char *text, size_t length,
                               size_t *consumed) {
    const char *found = NULL;
    if (!pieces->rules)
        return NULL;
    uint32_t state = distance(pieces->rules[0]);
    for (size_t i = 0; i < length; i++) {
        uint32_t at = state ^ (unsigned char)text[i];
        if (at >= pieces->n_rules || label_of(pieces->rules[at]) != (unsigned char)text[i])
            break;
        state = at ^ distance(pieces->rules[at]);
        if (has_string(pieces->rules[at])) {
            found = pieces->strings + (pieces->rules[state] & 0x7fffffffu);
            *consumed = i + 1;
        }
    }
    return found;
}

/* A state of the double array, for visit_state. */
struct rule_state {
    uint32_t first_unit; /* where its children are in the list of units by state */
    uint16_t longest;    /* bytes of the longest rule from here */
    uint8_t seen;        /* 1: on the way to here; 2: measured */
};

struct rule_check {
    struct sentencepiece *p;
    const char *file;
    struct rule_state *states; /* [n_rules + 1] */
    uint32_t *units;           /* the units that have labels, by the state they lead from */
};

static txl_status bad_rules(const struct rule_check *check, const char *what, uint32_t unit,
                            txl_error *error) {
    return txl_fail(error, TXL_FORMAT, "%s: vocabulary: the normaliser's unit %" PRIu32 " %s",
                    check->file, unit, what);
}

/* Checks a unit: it must lead to a state of the array, and to a complete string if it has one. */
static txl_status check_unit(const struct rule_check *check, uint32_t unit, uint32_t *state,
                             txl_error *error) {
    const struct sentencepiece *p = check->p;
    *state = unit ^ distance(p->rules[unit]);
    if (*state >= p->n_rules)
        return bad_rules(check, "leads out of the array", unit, error);
    if (!has_string(p->rules[unit]))
        return TXL_OK;
    size_t place = p->rules[*state] & 0x7fffffffu;
    if (place >= p->n_strings || ((unsigned char)p->strings[place] & 0xc0) == 0x80)
        return bad_rules(check, "names no string", unit, error);
    if (strnlen(p->strings + place, PIECES_LONGEST_STRING + 1) > PIECES_LONGEST_STRING)
        return bad_rules(check, "names too long a string", unit, error);
    return TXL_OK;
}

/* Lists the units by the state that they lead from.  The root's own unit may be one of them. */
static void list_units(const struct rule_check *check) {
    const struct sentencepiece *p = check->p;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t unit = p->n_rules; unit-- > 0;) {
            uint32_t from = unit ^ label_of(p->rules[unit]);
            if (label_of(p->rules[unit]) > 0xff || from >= p->n_rules)
                continue;
            if (pass == 0)
                check->states[from].first_unit++;
            else
                check->units[--check->states[from].first_unit] = unit;
        }
        for (uint32_t state = 0; pass == 0 && state < p->n_rules; state++)
            check->states[state + 1].first_unit += check->states[state].first_unit;
    }
}

/* Visits the states that `state` leads to, each once, and checks that there is no cycle and no rule
 * that is too long.  The root's way to `state` has `depth` bytes. */
static txl_status visit_state(const struct rule_check *check, uint32_t state, size_t depth,
                              txl_error *error) {
    struct rule_state *s = &check->states[state];
    s->seen = 1;
    for (uint32_t i = s[0].first_unit; i < s[1].first_unit; i++) {
        uint32_t unit = check->units[i], to;
        txl_status status = check_unit(check, unit, &to, error);
        if (status)
            return status;
        struct rule_state *child = &check->states[to];
        if (child->seen == 1 || depth + 1 + child->longest > PIECES_LONGEST_RULE)
            return bad_rules(check, "makes too long a rule", unit, error);
        if (child->seen == 0)
            status = visit_state(check, to, depth + 1, error);
        if (status)
            return status;
        if (s->longest < child->longest + 1)
            s->longest = child->longest + 1;
    }
    s->seen = 2;
    return TXL_OK;
}

static txl_status measure_rules(const struct rule_check *check, size_t *longest, txl_error *error) {
    const uint32_t root = distance(check->p->rules[0]);
    if (root >= check->p->n_rules)
        return bad_rules(check, "leads out of the array", 0, error);
    txl_status status = visit_state(check, root, 0, error);
    *longest = status ? 0 : check->states[root].longest;
    return status;
}

static txl_status check_rules(struct sentencepiece *p, const char *file, txl_error *error) {
    struct rule_check check = {.p = p, .file = file};
    size_t n = (size_t)p->n_rules + 1;
    check.states = calloc(n, sizeof *check.states);
    check.units = malloc(n * sizeof *check.units);
    txl_status status = TXL_OK;
    if (!check.states || !check.units) {
        status = txl_fail_memory(error, "the normaliser", n * sizeof *check.states);
    } else {
        list_units(&check);
        status = measure_rules(&check, &p->longest_prefix, error);
    }
    free(check.states);
    free(check.units);
    return status;
}

txl_status sentencepiece_open_rules(struct sentencepiece *p, const unsigned char *map, size_t size,
                                    const char *file, txl_error *error) {
    size_t n_trie = size < 4 ? 0 : read_u32(map);
    if (n_trie == 0 || n_trie % 4 != 0 || n_trie >= size - 4)
        return txl_fail(error, TXL_FORMAT,
                        "%s: vocabulary: a normaliser of %zu bytes with a trie of %zu", file, size,
                        n_trie);
    p->n_rules = (uint32_t)(n_trie / 4);
    p->strings = (const char *)map + 4 + n_trie;
    p->n_strings = size - 4 - n_trie;
    if (p->strings[p->n_strings - 1] != '\0' || u8_check((const uint8_t *)p->strings, p->n_strings))
        return txl_fail(error, TXL_FORMAT,
                        "%s: vocabulary: the normaliser's strings are not UTF-8 ended by NUL",
                        file);
    p->rules = malloc(n_trie);
    if (!p->rules)
        return txl_fail_memory(error, "the normaliser", n_trie);
    for (uint32_t i = 0; i < p->n_rules; i++)
        p->rules[i] = read_u32(map + 4 + 4 * (size_t)i);
    return check_rules(p, file, error);
}

void sentencepiece_find_plain(struct sentencepiece *p) {
    for (unsigned first = 1; first < 128; first++) {
        p->plain[first] = !p->user_defined[first];
        for (unsigned second = 1; second < 128 && p->rules; second++) {
            const char text[2] = {(char)first, (char)second};
            size_t consumed;
            uint32_t at = distance(p->rules[0]) ^ first;
            if (sentencepiece_rule(p, text, 2, &consumed))
                p->plain[first] = false;
            if (at >= p->n_rules || label_of(p->rules[at]) != first)
                continue;
            at = at ^ distance(p->rules[at]) ^ second;
            if (at < p->n_rules && label_of(p->rules[at]) == second)
                p->plain[first] = false;
        }
    }
}
