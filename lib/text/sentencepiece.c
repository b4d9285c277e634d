/* Opens the SentencePiece part of a vocabulary section: checks it, and finds its parts. */
#include "sentencepiece_parts.h"

#include "lib/base/error.h"
#include "unicode.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

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
        return txl_fail(error, TXL_FORMAT, "%s: vocabulary: no scores behind the pieces", file);
    p->flags = read_u32(bytes);
    p->n_surface = read_u32(bytes + 4);
    tail->n_charsmap = read_u32(bytes + 8);
    uint64_t needed = 12 + 5 * (uint64_t)p->n + p->n_surface + tail->n_charsmap;
    if (needed != size)
        return txl_fail(error, TXL_FORMAT,
                        "%s: vocabulary: %zu bytes behind the pieces, expected %" PRIu64, file,
                        size, needed);
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
