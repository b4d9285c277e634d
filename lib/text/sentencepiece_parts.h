/* The parts that sentencepiece_open makes; only sentencepiece*.c may use them. */
#ifndef TXL_SENTENCEPIECE_PARTS_H
#define TXL_SENTENCEPIECE_PARTS_H

#include "sentencepiece.h"

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
