/* SentencePiece models of the unigram kind: their files, and the part of them that the vocabulary
 * section of a weights file keeps.
 *
 * It follows the spellings of the section (vocabulary.h) at the next multiple of 4, little-endian:
 *
 *     uint32   flags          enum sentencepiece_flag
 *     uint32   n_surface      bytes of the text that an unknown piece is shown as
 *     uint32   n_charsmap     bytes of the normaliser's rules; 0: there are none
 *     float    score[n]
 *     uint8    type[n]        enum piece_type
 *     bytes    surface, then charsmap
 *
 * The rules are copied from the model's file: the size of a double array in bytes (uint32), its
 * units of 4 bytes, and the strings that it leads to, each ended by NUL. A unit with bit 31 clear
 * has a label in bits 0 to 7, in bit 8 whether a string's place follows, and in bits 10 to 30 the
 * distance to its children, times 256 if bit 9 is set.  A unit with bit 31 set is the place of a
 * string. */
#ifndef TXL_TEXT_SENTENCEPIECE_H
#define TXL_TEXT_SENTENCEPIECE_H

#include "txl.h"
#include "vocabulary.h"

enum sentencepiece_flag {
    PIECES_DUMMY_PREFIX = 1,  /* put a word mark before a text */
    PIECES_REMOVE_SPACES = 2, /* drop spaces at the ends, make runs of them one */
    PIECES_ESCAPE_SPACES = 4, /* replace spaces by word marks */
    PIECES_BYTE_FALLBACK = 8, /* make an unknown character the pieces of its bytes */
    PIECES_FLAGS = 15
};

enum piece_type {
    PIECE_NORMAL = 1,
    PIECE_UNKNOWN,      /* stands for a character that no piece has; a model has one */
    PIECE_CONTROL,      /* never found in a text */
    PIECE_USER_DEFINED, /* always found whole */
    PIECE_UNUSED,       /* never used */
    PIECE_BYTE          /* <0x00> to <0xFF> */
};

enum {
    /* Bytes of the longest piece and of the longest text of a normaliser's rule.  Training makes
     * pieces of 16 characters and rules of fewer. */
    PIECES_LONGEST = 1024,
    PIECES_LONGEST_RULE = 256,
    /* Most bytes that a rule makes of a text. */
    PIECES_LONGEST_STRING = 4096,
};

/* The score of a trie's node at which no piece ends, or a user-defined one: the bits of a NaN. */
#define TRIE_NO_PIECE 0x7fc00000u
#define TRIE_USER_DEFINED 0x7fc00001u

/* A node of the trie of pieces, in a double array: the child by byte b of the node with base B is
 * unit B ^ b, if its label is b.  No two nodes have the same base. */
struct trie_unit {
    uint32_t base_label; /* base << 8 | label */
    union {
        uint32_t bits;
        float value;
    } score; /* of the piece that ends here */
};

/* An open model, which is read-only: any number of threads may share it. */
struct sentencepiece {
    unsigned flags;
    int32_t n, unk;
    const unsigned char *types; /* [n], in the section */
    const char *surface;        /* [n_surface], likewise */
    size_t n_surface;
    float unknown_score;  /* of a character that no piece has */
    float most;           /* the highest score of a normal piece, or FLT_MIN */
    int32_t byte_id[256]; /* with PIECES_BYTE_FALLBACK */

    struct trie_unit *trie; /* [n_trie], whole blocks of 256 */
    int32_t *trie_id;       /* [n_trie]: the piece that ends at a unit */
    uint32_t n_trie;

    uint32_t *rules; /* [n_rules]: the normaliser's double array; NULL: no rules */
    uint32_t n_rules;
    const char *strings; /* [n_strings], in the section */
    size_t n_strings;

    size_t longest_prefix;  /* most bytes that the normaliser looks ahead */
    bool user_defined[256]; /* first bytes of user-defined pieces */
    bool plain[128]; /* ASCII characters that the normaliser leaves unchanged if ASCII follows */
};

/* The score of a user-defined piece, added in double precision.  Trained scores are negative, so
 * this one nearly always wins. */
static inline double sentencepiece_user_defined_score(const struct sentencepiece *pieces,
                                                      size_t length) {
    return (double)((float)length * pieces->most) - 0.1;
}

/* A vocabulary section that has pieces. */
struct pieces_section {
    struct spellings spellings;
    int32_t unk, eos; /* -1: there is none */
    const void *tail; /* [n_tail], the bytes after the spellings */
    size_t n_tail;
    const char *file; /* as messages name it */
};

/* Opens the pieces, checking all of the section, which must outlive them. */
txl_status sentencepiece_open(const struct pieces_section *section, struct sentencepiece **pieces,
                              txl_error *error);
void sentencepiece_close(struct sentencepiece *pieces);

/* Sets what a piece adds to the score of a text; false if no text can have a piece of that
 * spelling. */
bool sentencepiece_score(const struct sentencepiece *pieces, const char *text, size_t length,
                         double *score);

/* The byte that a byte piece's spelling, <0x00> to <0xFF>, names; -1: it names none. */
int sentencepiece_byte(const char *text, size_t length);

/* Finds the longest rule that matches the beginning of `text`: returns its replacement, and in
 * *consumed the bytes that it matches.  NULL if none matches. */
const char *sentencepiece_rule(const struct sentencepiece *pieces, const char *text, size_t length,
                               size_t *consumed);

/* ---- Files of models ---------------------------------------------------------------------- */

/* A vocabulary section made of a model, and the settings that belong to it. */
struct packed_pieces {
    void *section; /* the caller's to free */
    size_t size;
    int32_t n, unk, eos;
};

/* Whether the bytes look like a SentencePiece model file. */
bool sentencepiece_recognise(const void *data, size_t size);

/* Makes the section of `kind` (pieces or xlnet) from the `size` bytes of a model file, checking all
 * of it; `file` names it in messages.  Models other than unigram ones are refused. */
txl_status sentencepiece_pack(const void *data, size_t size, txl_kind kind, const char *file,
                              struct packed_pieces *packed, txl_error *error);

/* The parts that sentencepiece_open makes; only sentencepiece*.c may use them. */

/* Makes p->trie of the section's pieces, which were checked; scores[p->n] are theirs. */
txl_status sentencepiece_build_trie(struct sentencepiece *p, const struct pieces_section *section,
                                    const float *scores, txl_error *error);

/* Opens the normaliser's rules, map[size], which are not empty; `file` is their name in messages.
 * The map must outlive `p`. */
txl_status sentencepiece_open_rules(struct sentencepiece *p, const unsigned char *map, size_t size,
                                    const char *file, txl_error *error);

/* Finds p->plain: the ASCII characters with which no rule and no user-defined piece begins, unless
 * the next character is not ASCII. */
void sentencepiece_find_plain(struct sentencepiece *p);

#endif
