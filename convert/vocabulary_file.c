/* Reads vocabularies from pickles, JSON and text, and packs them. */
#include "vocabulary_file.h"

#include "convert/containers/foreign.h"
#include "convert/containers/pickle.h"
#include "convert/containers/torch_save.h"
#include "convert/containers/zip.h"
#include "lib/base/beside.h"
#include "lib/base/byte_order_mark.h"
#include "lib/base/ends_with.h"
#include "lib/base/error.h"
#include "lib/base/json_memory.h"
#include "lib/base/limits.h"
#include "lib/base/mapped_file.h"
#include "lib/base/white_space.h"
#include "lib/text/kind.h"
#include "lib/text/sentencepiece.h"
#include "lib/text/unicode.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const file_names[] = {
    "cache.pt",   "cache.pkl", "vocab.bin",         "vocab.pkl",
    "vocab.json", "vocab.txt", "1b_word_vocab.txt", "spiece.model",
};
static const char file_names_text[] = "cache.pt, cache.pkl, vocab.bin, vocab.pkl, vocab.json, "
                                      "vocab.txt, 1b_word_vocab.txt, spiece.model";

/* How much of a symbol a message shows. */
#define SHOWN(symbol) ((symbol).length < 60 ? (int)(symbol).length : 60), (symbol).text

/* A vocabulary that is being built.  The strings belong to the file, until `finish` copies them. */
struct draft {
    const char *path;
    uint64_t file_size;
    struct vocabulary_entry *symbols; /* by id; text NULL: no symbol yet */
    size_t n_symbol;
    uint64_t total; /* bytes of the symbols */
    struct vocabulary_file *vocabulary;
    txl_error *error;
};

static txl_status allocate(struct draft *draft, size_t n_symbol) {
    if (n_symbol == 0)
        return txl_fail(draft->error, TXL_FORMAT, "%s: a vocabulary without symbols", draft->path);
    if (n_symbol > MAX_N_TOKEN)
        return txl_fail(draft->error, TXL_UNSUPPORTED, "%s: more than %d symbols", draft->path,
                        MAX_N_TOKEN);
    draft->symbols = calloc(n_symbol, sizeof *draft->symbols);
    if (!draft->symbols)
        return txl_fail_memory(draft->error, "a vocabulary", n_symbol * sizeof *draft->symbols);
    draft->n_symbol = n_symbol;
    return TXL_OK;
}

static txl_status place(struct draft *draft, struct vocabulary_entry symbol, int64_t id) {
    if (id < 0 || (uint64_t)id >= draft->n_symbol || draft->symbols[id].text)
        return txl_fail(draft->error, TXL_FORMAT,
                        "%s: symbol \"%.*s\" has id %" PRId64
                        ", expected each id from 0 to %zu once",
                        draft->path, SHOWN(symbol), id, draft->n_symbol - 1);
    /* A pickle may refer to one long string from many ids. */
    draft->total += symbol.length;
    if (draft->total > draft->file_size)
        return txl_fail(draft->error, TXL_FORMAT, "%s: its symbols are longer than the whole file",
                        draft->path);
    draft->symbols[id] = symbol;
    return TXL_OK;
}

/* ---- Equal spellings ---------------------------------------------------------------------- */

struct spelling {
    struct vocabulary_entry symbol;
    size_t id;
};

static bool same(struct vocabulary_entry a, struct vocabulary_entry b) {
    return a.length == b.length && memcmp(a.text, b.text, a.length) == 0;
}

static int compare_spellings(const void *a, const void *b) {
    const struct spelling *x = a, *y = b;
    if (x->symbol.length != y->symbol.length)
        return x->symbol.length < y->symbol.length ? -1 : 1;
    int order = memcmp(x->symbol.text, y->symbol.text, x->symbol.length);
    return order ? order : (x->id > y->id) - (x->id < y->id);
}

/* first[id]: whether no lower id is spelled the same.  The caller frees it. */
static txl_status find_first(const struct draft *draft, bool **first) {
    size_t n = draft->n_symbol;
    struct spelling *spellings = malloc(n * sizeof *spellings);
    *first = malloc(n * sizeof **first);
    if (!spellings || !*first) {
        free(spellings);
        return txl_fail_memory(draft->error, "a vocabulary", n * sizeof *spellings);
    }
    for (size_t i = 0; i < n; i++)
        spellings[i] = (struct spelling){draft->symbols[i], i};
    qsort(spellings, n, sizeof *spellings, compare_spellings);
    for (size_t i = 0; i < n; i++)
        (*first)[spellings[i].id] = i == 0 || !same(spellings[i - 1].symbol, spellings[i].symbol);
    free(spellings);
    return TXL_OK;
}

/* ---- Pickles ------------------------------------------------------------------------------ */

static struct vocabulary_entry symbol_of(const struct pickle_value *string) {
    return (struct vocabulary_entry){string->string.bytes, string->string.length};
}

static txl_status from_list(struct draft *draft, const struct pickle_value *list) {
    txl_status status = allocate(draft, list->items.count);
    for (size_t i = 0; !status && i < draft->n_symbol; i++) {
        const struct pickle_value *item = list->items.at[i];
        if (item->kind != PICKLE_STRING)
            return txl_fail(draft->error, TXL_FORMAT,
                            "%s: id %zu: expected a symbol's string, not %s", draft->path, i,
                            pickle_kind_name(item));
        status = place(draft, symbol_of(item), (int64_t)i);
    }
    return status;
}

/* The symbol and the id of an entry. */
static txl_status check_entry(const struct draft *draft, const struct pickle_pair *pair) {
    if (pair->key->kind == PICKLE_STRING && pair->value->kind == PICKLE_INT)
        return TXL_OK;
    return txl_fail(draft->error, TXL_FORMAT,
                    "%s: expected a dict from symbols to ids, found one from %s to %s", draft->path,
                    pickle_kind_name(pair->key), pickle_kind_name(pair->value));
}

static txl_status from_dict(struct draft *draft, const struct pickle_value *dict) {
    txl_status status = allocate(draft, dict->pairs.count);
    for (size_t i = 0; !status && i < draft->n_symbol; i++) {
        const struct pickle_pair *pair = &dict->pairs.at[i];
        status = check_entry(draft, pair);
        if (!status)
            status = place(draft, symbol_of(pair->key), pair->value->integer);
    }
    return status;
}

/* Marks the ids that sym2idx leads to. */
static txl_status mark_ids(const struct draft *draft, const struct pickle_value *sym2idx,
                           bool *marked) {
    for (size_t i = 0; i < sym2idx->pairs.count; i++) {
        const struct pickle_pair *pair = &sym2idx->pairs.at[i];
        txl_status status = check_entry(draft, pair);
        if (status)
            return status;
        int64_t id = pair->value->integer;
        if (id < 0 || (uint64_t)id >= draft->n_symbol ||
            !same(draft->symbols[id], symbol_of(pair->key)))
            return txl_fail(draft->error, TXL_FORMAT,
                            "%s: sym2idx has \"%.*s\" as id %" PRId64 ", idx2sym has not",
                            draft->path, SHOWN(symbol_of(pair->key)), id);
        marked[id] = true;
    }
    return TXL_OK;
}

/* Checks that sym2idx has the lowest id of each spelling, and nothing else. */
static txl_status check_sym2idx(const struct draft *draft, const struct pickle_value *sym2idx) {
    bool *first = NULL, *marked = calloc(draft->n_symbol, sizeof *marked);
    txl_status status = marked ? find_first(draft, &first)
                               : txl_fail_memory(draft->error, "a vocabulary", draft->n_symbol);
    if (!status)
        status = mark_ids(draft, sym2idx, marked);
    for (size_t i = 0; !status && i < draft->n_symbol; i++) {
        if (first[i] != marked[i])
            status = txl_fail(draft->error, TXL_FORMAT, "%s: idx2sym has \"%.*s\" as id %zu, %s",
                              draft->path, SHOWN(draft->symbols[i]), i,
                              first[i] ? "sym2idx lacks it"
                                       : "and as a lower one, which sym2idx ignores");
    }
    free(first);
    free(marked);
    return status;
}

static txl_status read_unk(const struct draft *draft, const struct pickle_value *unk) {
    if (!unk || unk->kind == PICKLE_NONE)
        return TXL_OK;
    if (unk->kind != PICKLE_INT || unk->integer < 0 || (uint64_t)unk->integer >= draft->n_symbol)
        return txl_fail(draft->error, TXL_FORMAT, "%s: unk_idx is not the id of a symbol",
                        draft->path);
    draft->vocabulary->unk = (int32_t)unk->integer;
    return TXL_OK;
}

/* The attributes of the training code's Vocab, as an object or as a dict. */
static txl_status from_vocab(struct draft *draft, const struct pickle_value *vocab) {
    const struct pickle_value *idx2sym = pickle_get(vocab, "idx2sym");
    const struct pickle_value *sym2idx = pickle_get(vocab, "sym2idx");
    const struct pickle_value *lower_case = pickle_get(vocab, "lower_case");
    if (sym2idx && sym2idx->kind != PICKLE_DICT)
        sym2idx = NULL;
    txl_status status;
    if (idx2sym && idx2sym->kind == PICKLE_LIST) {
        status = from_list(draft, idx2sym);
        if (!status && sym2idx)
            status = check_sym2idx(draft, sym2idx);
    } else if (sym2idx) {
        status = from_dict(draft, sym2idx);
    } else {
        status = txl_fail(draft->error, TXL_FORMAT,
                          "%s: expected the list idx2sym or the dict sym2idx in the vocabulary",
                          draft->path);
    }
    if (!status)
        status = read_unk(draft, pickle_get(vocab, "unk_idx"));
    draft->vocabulary->lower_case =
        lower_case && lower_case->kind == PICKLE_BOOL && lower_case->boolean;
    draft->vocabulary->characters = pickle_is_string(pickle_get(vocab, "delimiter"), "");
    return status;
}

static bool is_vocab(const struct pickle_value *value) {
    return pickle_get(value, "idx2sym") || pickle_get(value, "sym2idx");
}

static txl_status from_value(struct draft *draft, const struct pickle_value *root) {
    if (is_vocab(root))
        return from_vocab(draft, root);
    if (is_vocab(pickle_get(root, "vocab")))
        return from_vocab(draft, pickle_get(root, "vocab"));
    if (root && root->kind == PICKLE_DICT)
        return from_dict(draft, root);
    if (root && root->kind == PICKLE_LIST)
        return from_list(draft, root);
    return txl_fail(draft->error, TXL_FORMAT,
                    "%s: expected a pickled corpus or vocabulary, found %s", draft->path,
                    root && root->kind == PICKLE_OBJECT ? root->object->class_name
                                                        : pickle_kind_name(root));
}

/* ---- JSON --------------------------------------------------------------------------------- */

static txl_status from_json(struct draft *draft, json_t *object) {
    txl_status status = allocate(draft, json_object_size(object));
    for (void *at = json_object_iter(object); at && !status;
         at = json_object_iter_next(object, at)) {
        const char *key = json_object_iter_key(at);
        const json_t *id = json_object_iter_value(at);
        if (!json_is_integer(id))
            return txl_fail(draft->error, TXL_FORMAT,
                            "%s: symbol \"%.60s\": expected an id, a whole number", draft->path,
                            key);
        status = place(draft, (struct vocabulary_entry){key, strlen(key)}, json_integer_value(id));
    }
    return status;
}

/* ---- Text --------------------------------------------------------------------------------- */

/* Bytes of the white space character that the text begins with; 0: another character. */
static size_t white_space(const unsigned char *at, size_t left) {
    struct unicode_decoder decoder = {0};
    uint32_t codes[2];
    for (size_t i = 0; i < left; i++) {
        size_t n = unicode_decode(&decoder, at[i], codes);
        if (n)
            return n == 1 && is_space_code(codes[0]) ? i + 1 : 0;
    }
    return 0;
}

/* The first field of a line; empty if it is blank. */
static struct vocabulary_entry first_field(const unsigned char *line, size_t length) {
    size_t start = 0, end;
    for (size_t n; (n = white_space(line + start, length - start)) > 0;)
        start += n;
    for (end = start; end < length && !white_space(line + end, length - end);)
        end++;
    return (struct vocabulary_entry){(const char *)line + start, end - start};
}

static size_t count_lines(const unsigned char *text, size_t length) {
    size_t n_line = 1;
    for (size_t i = 0; i < length; i++)
        n_line += text[i] == '\n';
    return n_line;
}

/* Skips repeated symbols, as the training code does when it builds a vocabulary from a file. */
static txl_status drop_repeated(struct draft *draft) {
    bool *first = NULL;
    txl_status status = find_first(draft, &first);
    size_t n = 0;
    for (size_t i = 0; !status && i < draft->n_symbol; i++)
        if (first[i])
            draft->symbols[n++] = draft->symbols[i];
    free(first);
    draft->n_symbol = n;
    return status;
}

static txl_status from_text(struct draft *draft, const unsigned char *text, size_t length) {
    if (memchr(text, 0, length))
        return txl_fail(draft->error, TXL_UNSUPPORTED,
                        "%s: no vocabulary: neither a pickle nor JSON nor text", draft->path);
    size_t mark = byte_order_mark_length((const char *)text, length);
    text += mark;
    length -= mark;
    txl_status status = allocate(draft, count_lines(text, length));
    if (status)
        return status;
    size_t n = 0, blank = 0; /* the first blank line, counted from 1; 0: none */
    for (size_t at = 0, line = 1; at < length; line++) {
        const unsigned char *end = memchr(text + at, '\n', length - at);
        size_t line_length = end ? (size_t)(end - (text + at)) : length - at;
        struct vocabulary_entry symbol = first_field(text + at, line_length);
        if (symbol.length == 0 && !blank)
            blank = line;
        if (symbol.length > 0 && blank)
            return txl_fail(draft->error, TXL_FORMAT, "%s: line %zu: expected a symbol",
                            draft->path, blank);
        if (symbol.length > 0)
            draft->symbols[n++] = symbol;
        at += line_length + 1;
    }
    draft->n_symbol = n;
    if (n == 0)
        return txl_fail(draft->error, TXL_FORMAT, "%s: a vocabulary without symbols", draft->path);
    return drop_repeated(draft);
}

/* ---- Any ---------------------------------------------------------------------------------- */

/* Copies what the draft points to, so that the file can be closed. */
static txl_status finish_draft(struct draft *draft, const struct pickle_value *dataset) {
    struct vocabulary_file *vocabulary = draft->vocabulary;
    const bool named = dataset && dataset->kind == PICKLE_STRING;
    const size_t n_name = named ? dataset->string.length : 0;
    size_t total = n_name + 1;
    for (size_t i = 0; i < draft->n_symbol; i++)
        total += draft->symbols[i].length;
    char *bytes = malloc(total);
    if (!bytes)
        return txl_fail_memory(draft->error, "a vocabulary", total);
    vocabulary->bytes = bytes;
    if (named)
        vocabulary->dataset = memcpy(bytes, dataset->string.bytes, n_name);
    bytes[n_name] = '\0';
    bytes += n_name + 1;
    for (size_t i = 0; i < draft->n_symbol; i++) {
        struct vocabulary_entry *symbol = &draft->symbols[i];
        symbol->text = memcpy(bytes, symbol->text, symbol->length);
        bytes += symbol->length;
    }
    vocabulary->symbols = draft->symbols;
    vocabulary->n_symbol = draft->n_symbol;
    draft->symbols = NULL;
    return TXL_OK;
}

static txl_status read_pickle(struct draft *draft, const struct mapped_file *file) {
    struct pickle *pickle;
    txl_status status = torch_save_read_pickle(file, &pickle, draft->error);
    if (!status)
        status = from_value(draft, pickle->root);
    if (!status)
        status = finish_draft(draft, pickle_get(pickle->root, "dataset"));
    pickle_free(pickle);
    return status;
}

static txl_status read_plain(struct draft *draft, const struct mapped_file *file) {
    json_error_t about;
    json_t *json = NULL;
    bool named_json = ends_with(file->path, ".json");
    txl_status status = TXL_FORMAT;
    if (file->data[0] == '{' || named_json) {
        json = json_loadb((const char *)file->data, (size_t)file->size, JSON_REJECT_DUPLICATES,
                          &about);
        if (!json && json_lacked_memory(&about))
            status = TXL_MEMORY;
    }
    if (json_is_object(json))
        status = from_json(draft, json);
    else if (named_json || status == TXL_MEMORY)
        status =
            txl_fail(draft->error, status, "%s: line %d: expected a JSON object: %s", file->path,
                     json ? 1 : about.line, json ? "found another value" : about.text);
    else /* a text's first symbol may be a brace */
        status = from_text(draft, file->data, (size_t)file->size);
    if (!status)
        status = finish_draft(draft, NULL);
    json_decref(json);
    return status;
}

/* Keeps the model unchecked; sentencepiece_pack checks it. */
static txl_status keep_model(struct draft *draft, const struct mapped_file *file) {
    struct vocabulary_file *vocabulary = draft->vocabulary;
    vocabulary->model = malloc(file->size);
    if (!vocabulary->model)
        return txl_fail_memory(draft->error, "a SentencePiece model", file->size);
    memcpy(vocabulary->model, file->data, file->size);
    vocabulary->model_size = file->size;
    return TXL_OK;
}

static txl_status read_content(struct draft *draft, const struct mapped_file *file) {
    if (zip_looks_like(file->data, file->size) || pickle_looks_like(file->data, file->size))
        return read_pickle(draft, file);
    return sentencepiece_recognise(file->data, file->size) ? keep_model(draft, file)
                                                           : read_plain(draft, file);
}

txl_status vocabulary_file_read(const char *path, struct vocabulary_file *vocabulary,
                                txl_error *error) {
    *vocabulary = (struct vocabulary_file){.unk = -1, .path = strdup(path)};
    if (!vocabulary->path)
        return txl_fail_memory(error, "a file name", strlen(path) + 1);
    struct draft draft = {.path = path, .vocabulary = vocabulary, .error = error};
    struct mapped_file file;
    txl_status status = mapped_file_open(path, &file, error);
    if (!status) {
        draft.file_size = file.size;
        status = foreign_refuse(&file, error);
        if (!status)
            status = read_content(&draft, &file);
        mapped_file_close(&file);
    }
    free(draft.symbols);
    if (status)
        vocabulary_file_free(vocabulary);
    return status;
}

void vocabulary_file_free(struct vocabulary_file *vocabulary) {
    free(vocabulary->path);
    free(vocabulary->symbols);
    free(vocabulary->bytes);
    free(vocabulary->model);
    *vocabulary = (struct vocabulary_file){.unk = -1};
}

/* ---- Packing ------------------------------------------------------------------------------ */

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
    const struct vocabulary_entry *symbols = file->symbols;
    const size_t n = file->n_symbol;
    txl_kind guessed = vocabulary_guess_kind(symbols, n, file->characters);
    txl_status status = choose_kind(file, tokenizer, guessed, &v->kind, error);
    v->lower_case = file->lower_case;
    v->unk = file->unk >= 0 ? file->unk : vocabulary_guess_unk(symbols, n);
    v->eos = vocabulary_guess_eos(symbols, n, v->kind);
    return status ? status : vocabulary_pack(symbols, n, &v->section, &v->size, error);
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

txl_status vocabulary_file_pack(const struct vocabulary_file *file, const char *tokenizer,
                                txl_kind pieces, struct convert_vocabulary *packed,
                                txl_error *error) {
    *packed = (struct convert_vocabulary){.n = (int32_t)file->n_symbol};
    return file->model ? pack_pieces(file, tokenizer, pieces, packed, error)
                       : pack_symbols(file, tokenizer, packed, error);
}

txl_status convert_vocabulary_read(const char *path, struct convert_vocabulary *vocabulary,
                                   txl_error *error) {
    struct vocabulary_file file;
    *vocabulary = (struct convert_vocabulary){.section = NULL};
    txl_status status = vocabulary_file_read(path, &file, error);
    if (!status)
        status = vocabulary_file_pack(&file, NULL, TXL_PIECES, vocabulary, error);
    vocabulary_file_free(&file);
    return status;
}

/* ---- Finding ------------------------------------------------------------------------------ */

static bool is_there(const char *path) {
    struct stat about;
    return stat(path, &about) == 0;
}

txl_status vocabulary_file_find(const char *source, char **path, txl_error *error) {
    *path = NULL;
    struct stat about;
    if (stat(source, &about) != 0)
        return txl_fail(error, TXL_IO, "%s: %s", source, strerror(errno));
    const bool is_folder = S_ISDIR(about.st_mode);
    const size_t length = is_folder ? strlen(source) : beside_folder_length(source);
    const char *slash = is_folder && source[length - 1] != '/' ? "/" : "";
    char *start = NULL;
    if (asprintf(&start, "%.*s%s", (int)length, source, slash) < 0)
        return txl_fail_memory(error, "a file name", length);
    txl_status status = beside_find(start, strlen(start), file_names,
                                    sizeof file_names / sizeof *file_names, is_there, path, error);
    free(start);
    if (status || *path)
        return status;
    return txl_fail(error, TXL_IO,
                    "%s: no vocabulary beside it, expected one of %s; name another with --vocab",
                    source, file_names_text);
}
