/* Opens and recognises a checkpoint; packs its vocabulary for a weights file, and finds what that
 * says about the text. */
#include "source.h"
#include "lib/base/error.h"
#include "lib/text/kind.h"
#include "lib/text/sentencepiece.h"
#include "lib/text/vocabulary.h"
#include "published.h"
#include "vocabulary_file.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- The checkpoint ----------------------------------------------------------------------- */

/* The dataset as the authors' pickled corpus names it.  A vocabulary that cannot be read is for the
 * conversion to refuse. */
static txl_status find_dataset(const char *path, const char *vocabulary, char *dataset, size_t room,
                               txl_error *error) {
    char *found = NULL;
    struct vocabulary_file file = {0};
    txl_status status = vocabulary ? TXL_OK : vocabulary_file_find(path, &found, error);
    if (!status)
        status = vocabulary_file_read(vocabulary ? vocabulary : found, &file, error);
    if (!status && file.dataset)
        snprintf(dataset, room, "%s", file.dataset);
    vocabulary_file_free(&file);
    free(found);
    return status == TXL_MEMORY ? status : TXL_OK;
}

/* What is no checkpoint may be a vocabulary, which may be a pickle too. */
static txl_status refuse_vocabulary(const char *path, txl_status otherwise, txl_error *error) {
    struct vocabulary_file vocabulary;
    txl_error ignored;
    if (vocabulary_file_read(path, &vocabulary, &ignored))
        return otherwise;
    size_t n = vocabulary.n_symbol;
    vocabulary_file_free(&vocabulary);
    return txl_fail(error, TXL_UNSUPPORTED,
                    "%s: a vocabulary of %zu symbols, not a checkpoint; name the checkpoint, and "
                    "this file with --vocab",
                    path, n);
}

txl_status source_recognise(const char *source, const struct convert_options *options,
                            struct recognised *r, txl_error *error) {
    struct checkpoint *checkpoint;
    *r = (struct recognised){.opened = NULL};
    txl_status status = checkpoint_open(source, &checkpoint, error);
    if (!status)
        status = recognise(checkpoint, options, find_dataset, r, error);
    r->opened = checkpoint;
    return r->unknown && checkpoint_root(checkpoint)
               ? refuse_vocabulary(checkpoint_path(checkpoint), status, error)
               : status;
}

/* ---- The vocabulary ----------------------------------------------------------------------- */

/* The kind that was asked for, or the guessed one; only a SentencePiece model has pieces. */
static txl_status choose_kind(const struct vocabulary_file *file, const char *asked,
                              txl_kind guessed, txl_kind *kind, txl_error *error) {
    const bool is_model = file->model;
    *kind = guessed;
    if (asked && !text_kind_find(asked, kind))
        return txl_fail(error, TXL_ARGUMENT, "unknown tokenizer \"%s\"", asked);
    if ((txl_kind_unit(*kind) == TXL_UNIT_PIECE) == is_model)
        return TXL_OK;
    return txl_fail(error, TXL_ARGUMENT,
                    is_model ? "%s: the %s tokenizer does not cut text into pieces"
                             : "%s: the %s tokenizer takes a SentencePiece model",
                    file->path, asked);
}

static txl_status pack_symbols(const struct vocabulary_file *file, const char *tokenizer,
                               struct convert_vocabulary *v, txl_error *error) {
    const size_t n = file->n_symbol;
    struct vocabulary_entry *entry = calloc(n, sizeof *entry);
    if (!entry)
        return txl_fail_memory(error, "the vocabulary", n * sizeof *entry);
    for (size_t i = 0; i < n; i++)
        entry[i] = (struct vocabulary_entry){file->symbols[i].bytes, file->symbols[i].length};
    txl_kind guessed = vocabulary_guess_kind(entry, n, file->delimiter == VOCABULARY_CHARACTERS);
    txl_status status = choose_kind(file, tokenizer, guessed, &v->kind, error);
    v->lower_case = file->lower_case == VOCABULARY_LOWER_CASE;
    v->unk = file->unk >= 0 ? file->unk : vocabulary_guess_unk(entry, n);
    v->eos = vocabulary_guess_eos(entry, n, v->kind);
    if (!status)
        status = vocabulary_pack(entry, n, &v->section, &v->size, error);
    free(entry);
    return status;
}

static txl_status pack_pieces(const struct vocabulary_file *file, const char *tokenizer,
                              txl_kind usual, struct convert_vocabulary *v, txl_error *error) {
    struct packed_pieces packed;
    txl_status status = choose_kind(file, tokenizer, usual, &v->kind, error);
    if (!status)
        status =
            sentencepiece_pack(file->model, file->model_size, v->kind, file->path, &packed, error);
    if (!status)
        *v = (struct convert_vocabulary){.kind = v->kind,
                                         .n = packed.n,
                                         .unk = packed.unk,
                                         .eos = packed.eos,
                                         .section = packed.section,
                                         .size = packed.size};
    return status;
}

static txl_status ask_for_kind(const char *path, const char *dataset, txl_error *error) {
    if (dataset)
        return txl_fail(error, TXL_ARGUMENT,
                        "%s: a vocabulary of the dataset \"%s\", of which the kind of text is not "
                        "known; add --tokenizer",
                        path, dataset);
    return txl_fail(error, TXL_ARGUMENT,
                    "%s: the kind of its text follows from the dataset, which neither it nor a "
                    "corpus-info.json names; add --tokenizer",
                    path);
}

/* `r` is the model that it must be of; NULL: any. */
static txl_status read_section(const char *path, const char *tokenizer, const struct recognised *r,
                               struct convert_vocabulary *v, txl_error *error) {
    struct vocabulary_file file = {0};
    txl_status status = vocabulary_file_read(path, &file, error);
    *v = (struct convert_vocabulary){.n = (int32_t)file.n_symbol};
    if (!status && r && r->by_dataset && !tokenizer && !file.model) {
        const char *dataset = r->dataset[0] ? r->dataset : file.dataset;
        tokenizer = published_tokenizer(dataset);
        if (!tokenizer)
            status = ask_for_kind(path, dataset, error);
    }
    if (!status && file.model)
        status = pack_pieces(&file, tokenizer, r ? r->pieces : TXL_PIECES, v, error);
    if (!status && r && v->n != r->settings.model.n_token)
        status = txl_fail(error, TXL_FORMAT,
                          "%s: %d symbols, but the model in %s has %d: this is not its vocabulary",
                          file.path, (int)v->n, checkpoint_path(r->names.checkpoint),
                          r->settings.model.n_token);
    if (!status && !file.model)
        status = pack_symbols(&file, tokenizer, v, error);
    vocabulary_file_free(&file);
    return status;
}

txl_status source_read_vocabulary(const char *path, const char *tokenizer, struct recognised *r,
                                  struct convert_vocabulary *vocabulary, txl_error *error) {
    struct model_settings *text = &r->settings.model;
    txl_status status = read_section(path, tokenizer, r, vocabulary, error);
    text->tokenizer = vocabulary->kind;
    text->lower_case = vocabulary->lower_case;
    text->unk_id = vocabulary->unk;
    text->eos_id = vocabulary->eos;
    return status;
}

txl_status convert_vocabulary_read(const char *path, struct convert_vocabulary *vocabulary,
                                   txl_error *error) {
    return read_section(path, NULL, NULL, vocabulary, error);
}
