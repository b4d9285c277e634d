/* Vocabularies: the symbols of a model in the order of their ids, read from every container that
 * publishers use, and packed for a weights file. */
#ifndef CONVERT_VOCABULARY_FILE_H
#define CONVERT_VOCABULARY_FILE_H

#include "converter.h"
#include "lib/base/files.h"
#include "lib/base/memory.h"
#include "lib/text/vocabulary.h"

struct vocabulary_file {
    struct mapped_file map; /* open until the vocabulary is freed */
    size_t n_symbol;
    /* In order of ids; they lie in the map, the pickle or the JSON.  Two ids may have the same
     * spelling; the spelling then stands for the lower one. */
    struct vocabulary_entry *symbols;
    uint64_t n_byte; /* of the symbols that a pickle or JSON has */
    int32_t unk;     /* the id for unknown symbols, if the file states it; else -1 */
    bool lower_case; /* the file says that its text was lower-cased, */
    bool characters; /* that it was split into characters */
    char *dataset; /* the name that a cached corpus gives itself ("wt103", "enwik8"); NULL: none */
    struct pickle *pickle; /* NULL: none */
    struct json_t *json;   /* NULL: none */
    size_t n_piece;        /* those of a tokenizer.json, which vocabulary_file_pack reads; else 0 */
    size_t n_added;        /* the tokens of an added_tokens.json, or of a tokenizer.json */
    struct buffer model;   /* a copy of the whole map if that is a SentencePiece model, with the
                              tokens that were added to it, for sentencepiece_pack; then there are
                              no symbols.  Else empty */
};

/* Reads the vocabulary in the file at `path`: a pickled corpus, vocabulary object, dict or list (by
 * torch.save or plain), JSON from symbols to ids, a SentencePiece model, a tokenizer.json, or text
 * whose lines begin with a symbol each.  The content decides which, not the name. */
txl_status vocabulary_file_read(const char *path, struct vocabulary_file *vocabulary,
                                txl_error *error);

/* Packs it as in a weights file.  `tokenizer` is the name of a kind; NULL: for a SentencePiece
 * model `pieces`, else the one that the symbols suggest.  packed->section is the caller's to free
 * even after a failure. */
txl_status vocabulary_file_pack(const struct vocabulary_file *vocabulary, const char *tokenizer,
                                txl_kind pieces, struct convert_vocabulary *packed,
                                txl_error *error);

/* Frees what vocabulary_file_read filled; a zeroed struct is fine. */
void vocabulary_file_free(struct vocabulary_file *vocabulary);

/* Finds the vocabulary beside the checkpoint file `source`, or in the directory `source`, else in
 * ../data or data there: the first of cache.pt, cache.pkl, vocab.bin, vocab.pkl, vocab.json,
 * vocab.txt, 1b_word_vocab.txt and spiece.model, or where there is none tokenizer.json.  `*path` is
 * the caller's to free. */
txl_status vocabulary_file_find(const char *source, char **path, txl_error *error);

#endif
