/* The symbols of a model: id to spelling and back.
 *
 * They lie in a section of the weights file, which is used where it is mapped:
 *
 *     uint32  n        number of symbols, little-endian like all that follows
 *     uint32  end[n]   where symbol i ends in the bytes below, and symbol i + 1 begins
 *     bytes            the spellings, one after another
 *
 * For kinds with pieces, the data that sentencepiece.h describes follows. */
#ifndef TXL_TEXT_VOCABULARY_H
#define TXL_TEXT_VOCABULARY_H

#include "lib/base/numbers.h"
#include "txl.h"

#include <stddef.h>

/* The spellings of a vocabulary, as its section of the weights file has them. */

struct spellings {
    const unsigned char *ends; /* [n] of uint32: where each ends in `text` */
    const char *text;
    int32_t n;
};

/* Where the spelling of `id`, -1 <= id < n, ends in the text; -1 ends where the first one begins.
 */
static inline uint32_t spelling_end(const struct spellings *spellings, int32_t id) {
    return id < 0 ? 0 : read_u32(spellings->ends + (size_t)id * 4);
}

/* The spelling of `id`, 0 <= id < n, not NUL-terminated. */
static inline const char *spelling_at(const struct spellings *spellings, int32_t id,
                                      size_t *length) {
    uint32_t begin = spelling_end(spellings, id - 1);
    *length = spelling_end(spellings, id) - begin;
    return spellings->text + begin;
}

struct vocabulary {
    txl_kind kind;
    bool takes_bytes; /* txl_kind_takes_bytes */
    bool lower_case;  /* text is lower-cased before it is looked up */
    int32_t n;
    int32_t unk;    /* -1: there is none */
    int32_t eos;    /* the line boundary; -1: there is none */
    size_t longest; /* bytes of the longest spelling */
    /* The ids that need no search, or -1: of the bytes in the bytes kind, of the spellings of one
     * byte in the others. */
    int32_t byte_id[256];
    struct sentencepiece *pieces; /* NULL for kinds without pieces */
    /* Private to vocabulary.c. */
    struct spellings spellings;
    uint32_t *slots; /* open addressing, at most three fifths full; see vocabulary.c */
    uint32_t mask;   /* number of slots - 1 */
    uint64_t seed;
};

/* What a model's settings say of its vocabulary. */
struct vocabulary_settings {
    int32_t n_token;
    txl_kind kind;
    bool lower_case;
    int32_t unk, eos; /* -1: there is none */
};

/* A spelling, not NUL-terminated. */
struct vocabulary_entry {
    const char *text;
    size_t length;
};

/* Opens the section of `size` bytes, which must outlive the vocabulary, checking all of it; `file`
 * names it in messages.  Where a spelling occurs twice, the first id is found. */
txl_status vocabulary_open(struct vocabulary *vocabulary, const void *section, size_t size,
                           const struct vocabulary_settings *settings, const char *file,
                           txl_error *error);

void vocabulary_close(struct vocabulary *vocabulary);

/* The id of a symbol spelled exactly so, or -1. */
int32_t vocabulary_find(const struct vocabulary *vocabulary, const char *text, size_t length);

/* The spelling of symbol `id`; NULL when there is no such id. */
const char *vocabulary_symbol(const struct vocabulary *vocabulary, int32_t id, size_t *length);

/* The byte that a spelling is the decimal number of, or -1.  Only the plain form counts: no sign,
 * no leading zero. */
int vocabulary_byte(const char *text, size_t length);

/* Makes a section of `n` symbols, the caller's to free. */
txl_status vocabulary_pack(const struct vocabulary_entry *symbols, size_t n, void **section,
                           size_t *size, txl_error *error);

/* Guesses the kind from the symbols: bytes if every symbol is the number of one; text8 if every
 * symbol is one of a to z and _; characters if the vocabulary says that it splits lines so, or if
 * every symbol but specials such as <eos> is one code point; lm1b if it has <S> and no <eos>; else
 * words. */
txl_kind vocabulary_guess_kind(const struct vocabulary_entry *symbols, size_t n,
                               bool splits_characters);

/* The id of the unknown symbol: <unk>, else <UNK>, else -1. */
int32_t vocabulary_guess_unk(const struct vocabulary_entry *symbols, size_t n);

/* The id of the kind's line boundary, spelled as its row in kind.c says, or -1. */
int32_t vocabulary_guess_eos(const struct vocabulary_entry *symbols, size_t n, txl_kind kind);

#endif
