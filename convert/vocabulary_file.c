/* Reads vocabularies from pickles, JSON and text, and packs them. */
#include "vocabulary_file.h"

#include "added_pieces.h"
#include "convert/containers/foreign.h"
#include "convert/containers/pickle.h"
#include "convert/containers/torch_save.h"
#include "convert/containers/zip.h"
#include "lib/base/error.h"
#include "lib/base/files.h"
#include "lib/base/json_memory.h"
#include "lib/base/limits.h"
#include "lib/base/white_space.h"
#include "lib/text/kind.h"
#include "lib/text/sentencepiece.h"
#include "lib/text/unicode.h"
#include "tokenizer_json.h"

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
                                      "vocab.txt, 1b_word_vocab.txt, spiece.model, tokenizer.json";

/* How much of a symbol a message shows. */
#define SHOWN(symbol) ((symbol).length < 60 ? (int)(symbol).length : 60), (symbol).text

static txl_status allocate(struct vocabulary_file *file, size_t n_symbol, txl_error *error) {
    const char *path = file->map.path;
    if (n_symbol == 0)
        return txl_fail(error, TXL_FORMAT, "%s: a vocabulary without symbols", path);
    if (n_symbol > MAX_N_TOKEN)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: more than %d symbols", path, MAX_N_TOKEN);
    file->symbols = calloc(n_symbol, sizeof *file->symbols);
    if (!file->symbols)
        return txl_fail_memory(error, "a vocabulary", n_symbol * sizeof *file->symbols);
    file->n_symbol = n_symbol;
    return TXL_OK;
}

static txl_status place(struct vocabulary_file *file, struct vocabulary_entry symbol, int64_t id,
                        txl_error *error) {
    if (id < 0 || (uint64_t)id >= file->n_symbol || file->symbols[id].text)
        return txl_fail(error, TXL_FORMAT,
                        "%s: symbol \"%.*s\" has id %" PRId64
                        ", expected each id from 0 to %zu once",
                        file->map.path, SHOWN(symbol), id, file->n_symbol - 1);
    /* A pickle may refer to one long string from many ids. */
    file->n_byte += symbol.length;
    if (file->n_byte > file->map.size)
        return txl_fail(error, TXL_FORMAT, "%s: its symbols are longer than the whole file",
                        file->map.path);
    file->symbols[id] = symbol;
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
static txl_status find_first(const struct vocabulary_file *file, bool **first, txl_error *error) {
    size_t n = file->n_symbol;
    struct spelling *spellings = malloc(n * sizeof *spellings);
    *first = malloc(n * sizeof **first);
    if (!spellings || !*first) {
        free(spellings);
        return txl_fail_memory(error, "a vocabulary", n * sizeof *spellings);
    }
    for (size_t i = 0; i < n; i++)
        spellings[i] = (struct spelling){file->symbols[i], i};
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

static txl_status from_list(struct vocabulary_file *file, const struct pickle_value *list,
                            txl_error *error) {
    txl_status status = allocate(file, list->items.count, error);
    for (size_t i = 0; !status && i < file->n_symbol; i++) {
        const struct pickle_value *item = list->items.at[i];
        if (item->kind != PICKLE_STRING)
            return txl_fail(error, TXL_FORMAT, "%s: id %zu: expected a symbol's string, not %s",
                            file->map.path, i, pickle_kind_name(item));
        status = place(file, symbol_of(item), (int64_t)i, error);
    }
    return status;
}

/* The symbol and the id of an entry. */
static txl_status check_entry(const struct vocabulary_file *file, const struct pickle_pair *pair,
                              txl_error *error) {
    if (pair->key->kind == PICKLE_STRING && pair->value->kind == PICKLE_INT)
        return TXL_OK;
    return txl_fail(error, TXL_FORMAT,
                    "%s: expected a dict from symbols to ids, found one from %s to %s",
                    file->map.path, pickle_kind_name(pair->key), pickle_kind_name(pair->value));
}

static txl_status from_dict(struct vocabulary_file *file, const struct pickle_value *dict,
                            txl_error *error) {
    txl_status status = allocate(file, dict->pairs.count, error);
    for (size_t i = 0; !status && i < file->n_symbol; i++) {
        const struct pickle_pair *pair = &dict->pairs.at[i];
        status = check_entry(file, pair, error);
        if (!status)
            status = place(file, symbol_of(pair->key), pair->value->integer, error);
    }
    return status;
}

/* Marks the ids that sym2idx leads to. */
static txl_status mark_ids(const struct vocabulary_file *file, const struct pickle_value *sym2idx,
                           bool *marked, txl_error *error) {
    for (size_t i = 0; i < sym2idx->pairs.count; i++) {
        const struct pickle_pair *pair = &sym2idx->pairs.at[i];
        txl_status status = check_entry(file, pair, error);
        if (status)
            return status;
        int64_t id = pair->value->integer;
        if (id < 0 || (uint64_t)id >= file->n_symbol ||
            !same(file->symbols[id], symbol_of(pair->key)))
            return txl_fail(error, TXL_FORMAT,
                            "%s: sym2idx has \"%.*s\" as id %" PRId64 ", idx2sym has not",
                            file->map.path, SHOWN(symbol_of(pair->key)), id);
        marked[id] = true;
    }
    return TXL_OK;
}

/* Checks that sym2idx has the lowest id of each spelling, and nothing else. */
static txl_status check_sym2idx(const struct vocabulary_file *file,
                                const struct pickle_value *sym2idx, txl_error *error) {
    bool *first = NULL, *marked = calloc(file->n_symbol, sizeof *marked);
    txl_status status = marked ? find_first(file, &first, error)
                               : txl_fail_memory(error, "a vocabulary", file->n_symbol);
    if (!status)
        status = mark_ids(file, sym2idx, marked, error);
    for (size_t i = 0; !status && i < file->n_symbol; i++) {
        if (first[i] != marked[i])
            status = txl_fail(error, TXL_FORMAT, "%s: idx2sym has \"%.*s\" as id %zu, %s",
                              file->map.path, SHOWN(file->symbols[i]), i,
                              first[i] ? "sym2idx lacks it"
                                       : "and as a lower one, which sym2idx ignores");
    }
    free(first);
    free(marked);
    return status;
}

static txl_status read_unk(struct vocabulary_file *file, const struct pickle_value *unk,
                           txl_error *error) {
    uint64_t id;
    if (!unk || unk->kind == PICKLE_NONE)
        return TXL_OK;
    if (!pickle_unsigned(unk, &id) || id >= file->n_symbol)
        return txl_fail(error, TXL_FORMAT, "%s: unk_idx is not the id of a symbol", file->map.path);
    file->unk = (int32_t)id;
    return TXL_OK;
}

/* The attributes of the training code's Vocab, as an object or as a dict. */
static txl_status from_vocab(struct vocabulary_file *file, const struct pickle_value *vocab,
                             txl_error *error) {
    const struct pickle_value *idx2sym = pickle_get(vocab, "idx2sym");
    const struct pickle_value *sym2idx = pickle_get(vocab, "sym2idx");
    const struct pickle_value *lower_case = pickle_get(vocab, "lower_case");
    if (sym2idx && sym2idx->kind != PICKLE_DICT)
        sym2idx = NULL;
    txl_status status;
    if (idx2sym && idx2sym->kind == PICKLE_LIST) {
        status = from_list(file, idx2sym, error);
        if (!status && sym2idx)
            status = check_sym2idx(file, sym2idx, error);
    } else if (sym2idx) {
        status = from_dict(file, sym2idx, error);
    } else {
        status = txl_fail(error, TXL_FORMAT,
                          "%s: expected the list idx2sym or the dict sym2idx in the vocabulary",
                          file->map.path);
    }
    if (!status)
        status = read_unk(file, pickle_get(vocab, "unk_idx"), error);
    file->lower_case = lower_case && lower_case->kind == PICKLE_BOOL && lower_case->boolean;
    file->characters = pickle_is_string(pickle_get(vocab, "delimiter"), "");
    return status;
}

static bool is_vocab(const struct pickle_value *value) {
    return pickle_get(value, "idx2sym") || pickle_get(value, "sym2idx");
}

static txl_status from_value(struct vocabulary_file *file, const struct pickle_value *root,
                             txl_error *error) {
    const struct pickle_value *vocab = is_vocab(root) ? root : pickle_get(root, "vocab");
    if (is_vocab(vocab))
        return from_vocab(file, vocab, error);
    if (root && root->kind == PICKLE_DICT)
        return from_dict(file, root, error);
    if (root && root->kind == PICKLE_LIST)
        return from_list(file, root, error);
    return txl_fail(
        error, TXL_FORMAT, "%s: expected a pickled corpus or vocabulary, found %s", file->map.path,
        root && root->kind == PICKLE_OBJECT ? root->object->class_name : pickle_kind_name(root));
}

/* ---- JSON --------------------------------------------------------------------------------- */

static txl_status from_json(struct vocabulary_file *file, txl_error *error) {
    if (json_is_object(json_object_get(file->json, "model")))
        return tokenizer_json_count(file->map.path, file->json, &file->n_piece, &file->n_added,
                                    error);
    txl_status status = allocate(file, json_object_size(file->json), error);
    for (void *at = json_object_iter(file->json); at && !status;
         at = json_object_iter_next(file->json, at)) {
        const char *key = json_object_iter_key(at);
        const json_t *id = json_object_iter_value(at);
        if (!json_is_integer(id))
            return txl_fail(error, TXL_FORMAT,
                            "%s: symbol \"%.60s\": expected an id, a whole number", file->map.path,
                            key);
        status =
            place(file, (struct vocabulary_entry){key, strlen(key)}, json_integer_value(id), error);
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
static txl_status drop_repeated(struct vocabulary_file *file, txl_error *error) {
    bool *first = NULL;
    txl_status status = find_first(file, &first, error);
    size_t n = 0;
    for (size_t i = 0; !status && i < file->n_symbol; i++)
        if (first[i])
            file->symbols[n++] = file->symbols[i];
    free(first);
    file->n_symbol = n;
    return status;
}

static txl_status from_text(struct vocabulary_file *file, txl_error *error) {
    const unsigned char *text = file->map.data;
    size_t length = (size_t)file->map.size;
    if (memchr(text, 0, length))
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: no vocabulary: neither a pickle nor JSON nor text", file->map.path);
    size_t mark = byte_order_mark_length((const char *)text, length);
    text += mark;
    length -= mark;
    txl_status status = allocate(file, count_lines(text, length), error);
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
            return txl_fail(error, TXL_FORMAT, "%s: line %zu: expected a symbol", file->map.path,
                            blank);
        if (symbol.length > 0)
            file->symbols[n++] = symbol;
        at += line_length + 1;
    }
    file->n_symbol = n;
    if (n == 0)
        return txl_fail(error, TXL_FORMAT, "%s: a vocabulary without symbols", file->map.path);
    return drop_repeated(file, error);
}

/* ---- Any ---------------------------------------------------------------------------------- */

static txl_status read_pickle(struct vocabulary_file *file, txl_error *error) {
    txl_status status = torch_save_read_pickle(&file->map, &file->pickle, error);
    if (!status)
        status = from_value(file, file->pickle->root, error);
    if (status)
        return status;
    const struct pickle_value *dataset = pickle_get(file->pickle->root, "dataset");
    if (!dataset || dataset->kind != PICKLE_STRING)
        return TXL_OK;
    file->dataset = strndup(dataset->string.bytes, dataset->string.length);
    return file->dataset ? TXL_OK : txl_fail_memory(error, "a vocabulary", dataset->string.length);
}

static txl_status read_plain(struct vocabulary_file *file, txl_error *error) {
    const char *path = file->map.path, *text = (const char *)file->map.data;
    json_error_t about;
    bool named_json = ends_with(path, ".json"), lacked = false;
    if (text[0] == '{' || named_json) {
        file->json = json_loadb(text, (size_t)file->map.size, JSON_REJECT_DUPLICATES, &about);
        lacked = !file->json && json_lacked_memory(&about);
    }
    if (json_is_object(file->json))
        return from_json(file, error);
    if (named_json || lacked)
        return txl_fail(
            error, lacked ? TXL_MEMORY : TXL_FORMAT, "%s: line %d: expected a JSON object: %s",
            path, file->json ? 1 : about.line, file->json ? "found another value" : about.text);
    return from_text(file, error); /* whose first symbol may be a brace */
}

/* Keeps the model unchecked; sentencepiece_pack checks it, in a copy that no other process
 * changes. */
static txl_status keep_model(struct vocabulary_file *file, txl_error *error) {
    if (!buffer_append(&file->model, file->map.data, file->map.size))
        return txl_fail_memory(error, "a SentencePiece model", file->map.size);
    return added_pieces_append(file->map.path, &file->model, &file->n_added, error);
}

static txl_status read_content(struct vocabulary_file *file, txl_error *error) {
    const unsigned char *data = file->map.data;
    const uint64_t size = file->map.size;
    if (zip_looks_like(data, size) || pickle_looks_like(data, size))
        return read_pickle(file, error);
    return sentencepiece_recognise(data, size) ? keep_model(file, error) : read_plain(file, error);
}

txl_status vocabulary_file_read(const char *path, struct vocabulary_file *file, txl_error *error) {
    *file = (struct vocabulary_file){.unk = -1};
    txl_status status = mapped_file_open(path, &file->map, error);
    if (!status)
        status = foreign_refuse(&file->map, error);
    if (!status)
        status = read_content(file, error);
    if (status)
        vocabulary_file_free(file);
    return status;
}

void vocabulary_file_free(struct vocabulary_file *file) {
    free(file->symbols);
    free(file->dataset);
    buffer_free(&file->model);
    pickle_free(file->pickle);
    json_decref(file->json);
    mapped_file_close(&file->map);
    *file = (struct vocabulary_file){.unk = -1};
}

/* ---- Packing ------------------------------------------------------------------------------ */

static bool has_pieces(const struct vocabulary_file *file) {
    return file->model.data || file->n_piece > 0;
}

/* Takes the kind that was asked for instead of the guessed one; only a SentencePiece model has
 * pieces. */
static txl_status choose_kind(const struct vocabulary_file *file, const char *asked, txl_kind *kind,
                              txl_error *error) {
    const bool is_model = has_pieces(file);
    if (asked && !text_kind_find(asked, kind))
        return txl_fail(error, TXL_ARGUMENT, "unknown tokenizer \"%s\"", asked);
    if ((txl_kind_unit(*kind) == TXL_UNIT_PIECE) == is_model)
        return TXL_OK;
    return txl_fail(error, TXL_ARGUMENT,
                    is_model ? "%s: the %s tokenizer does not cut text into pieces"
                             : "%s: the %s tokenizer takes a SentencePiece model",
                    file->map.path, asked);
}

static txl_status pack_tokenizer_json(const struct vocabulary_file *file, txl_kind kind,
                                      struct packed_pieces *packed, txl_error *error) {
    const char *path = file->map.path;
    struct buffer model = {0};
    txl_status status = tokenizer_json_model(path, file->json, kind, &model, error);
    if (!status)
        status = sentencepiece_pack(model.data, model.length, kind, path, packed, error);
    buffer_free(&model);
    return status;
}

txl_status vocabulary_file_pack(const struct vocabulary_file *file, const char *tokenizer,
                                txl_kind pieces, struct convert_vocabulary *v, txl_error *error) {
    const struct vocabulary_entry *symbols = file->symbols;
    const size_t n = file->n_symbol;
    txl_kind kind = has_pieces(file) ? pieces : vocabulary_guess_kind(symbols, n, file->characters);
    struct packed_pieces packed = {.section = NULL};
    *v = (struct convert_vocabulary){.section = NULL};
    txl_status status = choose_kind(file, tokenizer, &kind, error);
    if (!status && file->n_piece > 0) {
        status = pack_tokenizer_json(file, kind, &packed, error);
    } else if (!status && file->model.data) {
        status = sentencepiece_pack(file->model.data, file->model.length, kind, file->map.path,
                                    &packed, error);
    } else if (!status) {
        packed.n = (int32_t)n;
        packed.unk = file->unk >= 0 ? file->unk : vocabulary_guess_unk(symbols, n);
        packed.eos = vocabulary_guess_eos(symbols, n, kind);
        status = vocabulary_pack(symbols, n, &packed.section, &packed.size, error);
    }
    if (!status)
        *v = (struct convert_vocabulary){.kind = kind,
                                         .lower_case = file->lower_case,
                                         .n = packed.n,
                                         .unk = packed.unk,
                                         .eos = packed.eos,
                                         .section = packed.section,
                                         .size = packed.size,
                                         .n_added = file->n_added};
    return status;
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
    static const char *const tokenizers = "tokenizer.json"; /* which is to be the only one */
    if (!status && !*path)
        status = beside_find(start, strlen(start), &tokenizers, 1, is_there, path, error);
    free(start);
    if (status || *path)
        return status;
    return txl_fail(error, TXL_IO,
                    "%s: no vocabulary beside it, expected one of %s; name another with --vocab",
                    source, file_names_text);
}
