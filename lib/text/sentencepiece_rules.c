/* The normaliser's rules of a SentencePiece model: checks their double array, which anybody may
 * have written, and finds rules in it. */
#include "lib/base/error.h"
#include "sentencepiece_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

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
