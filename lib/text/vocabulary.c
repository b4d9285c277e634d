/* Opens the vocabulary section of a weights file, and finds symbols by spelling. */
#include "vocabulary.h"
#include "kind.h"
#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/base/memory.h"
#include "lib/base/secret.h"
#include "sentencepiece.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>
#include <xxhash.h>

int vocabulary_byte(const char *text, size_t length) {
    if (length == 0 || length > 3 || (length > 1 && text[0] == '0'))
        return -1;
    int value = 0;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        value = 10 * value + (text[i] - '0');
    }
    return value < 256 ? value : -1;
}

/* ---- The hash table ----------------------------------------------------------------------- */

static uint64_t hash_of(const struct vocabulary *vocabulary, const char *text, size_t length) {
    return XXH3_64bits_withSeed(text, length, vocabulary->seed);
}

/* A slot is 0 if it is free.  Else its bits in `mask` are an id + 1, which is less than the number
 * of slots, and the others a tag: a part of the hash, which few other spellings nearby have too. */
static uint32_t tag_of(const struct vocabulary *vocabulary, uint64_t hash) {
    return (uint32_t)(hash >> 32) & ~vocabulary->mask;
}

/* The slot that holds the spelling, or the free one where it belongs. */
static uint32_t *slot_of(const struct vocabulary *vocabulary, uint64_t hash, const char *text,
                         size_t length) {
    for (uint32_t i = (uint32_t)hash & vocabulary->mask;; i = (i + 1) & vocabulary->mask) {
        uint32_t *slot = &vocabulary->slots[i], above = *slot & vocabulary->mask;
        if (above == 0)
            return slot;
        if ((*slot ^ above) != tag_of(vocabulary, hash))
            continue;
        size_t other_length;
        const char *other = spelling_at(&vocabulary->spellings, (int32_t)above - 1, &other_length);
        if (other_length == length && memcmp(other, text, length) == 0)
            return slot;
    }
}

static size_t table_size(const struct vocabulary *vocabulary) {
    return ((size_t)vocabulary->mask + 1) * sizeof *vocabulary->slots;
}

enum { TOGETHER = 32 };

static txl_status build_table(struct vocabulary *vocabulary, txl_error *error) {
    uint64_t n_slots = 2;
    while (3 * n_slots < 5 * (uint64_t)vocabulary->n)
        n_slots *= 2;
    vocabulary->mask = (uint32_t)(n_slots - 1);
    vocabulary->slots = pages_map(table_size(vocabulary));
    if (!vocabulary->slots)
        return txl_fail_memory(error, "the vocabulary", table_size(vocabulary));
    vocabulary->seed = secret_number();
    /* Slots are far apart in memory, so those of several spellings are prefetched together. */
    uint64_t hash[TOGETHER];
    for (int32_t first = 0; first < vocabulary->n; first += TOGETHER) {
        int32_t left = vocabulary->n - first, n = left < TOGETHER ? left : TOGETHER;
        size_t length;
        for (int32_t i = 0; i < n; i++) {
            const char *text = spelling_at(&vocabulary->spellings, first + i, &length);
            hash[i] = hash_of(vocabulary, text, length);
            __builtin_prefetch(&vocabulary->slots[hash[i] & vocabulary->mask], 1);
        }
        for (int32_t i = 0; i < n; i++) {
            const char *text = spelling_at(&vocabulary->spellings, first + i, &length);
            uint32_t *slot = slot_of(vocabulary, hash[i], text, length);
            if (*slot == 0)
                *slot = tag_of(vocabulary, hash[i]) | ((uint32_t)(first + i) + 1);
        }
    }
    return TXL_OK;
}

static void fill_byte_ids(struct vocabulary *vocabulary) {
    for (int byte = 0; byte < 256; byte++)
        vocabulary->byte_id[byte] = -1;
    for (int32_t id = 0; id < vocabulary->n; id++) {
        size_t length;
        const char *text = spelling_at(&vocabulary->spellings, id, &length);
        int byte = -1;
        if (vocabulary->takes_bytes)
            byte = vocabulary_byte(text, length);
        else if (length == 1)
            byte = (unsigned char)text[0];
        if (byte >= 0 && vocabulary->byte_id[byte] < 0)
            vocabulary->byte_id[byte] = id;
    }
}

/* ---- Opening, finding --------------------------------------------------------------------- */

static txl_status check_ends(struct vocabulary *vocabulary, size_t n_bytes, const char *file,
                             txl_error *error) {
    uint32_t begin = 0;
    for (int32_t id = 0; id < vocabulary->n; id++) {
        uint32_t end = spelling_end(&vocabulary->spellings, id);
        if (end < begin || end > n_bytes)
            return txl_fail(error, TXL_FORMAT,
                            "%s: vocabulary: symbol %" PRId32 " ends at byte %" PRIu32
                            ", expected %" PRIu32 " to %zu",
                            file, id, end, begin, n_bytes);
        if (end - begin > vocabulary->longest)
            vocabulary->longest = end - begin;
        begin = end;
    }
    return TXL_OK;
}

static bool is_id(const struct vocabulary *vocabulary, int32_t id) {
    return id >= -1 && id < vocabulary->n;
}

txl_status vocabulary_open(struct vocabulary *vocabulary, const void *section, size_t size,
                           const struct vocabulary_settings *settings, const char *file,
                           txl_error *error) {
    const int32_t n_token = settings->n_token, unk = settings->unk, eos = settings->eos;
    *vocabulary = (struct vocabulary){.kind = settings->kind,
                                      .takes_bytes = txl_kind_takes_bytes(settings->kind),
                                      .lower_case = settings->lower_case,
                                      .unk = unk,
                                      .eos = eos};
    if (size < 4)
        return txl_fail(error, TXL_FORMAT, "%s: vocabulary: %zu bytes, expected 4 or more", file,
                        size);
    uint32_t n = read_u32(section);
    if (n_token < 1 || n != (uint32_t)n_token)
        return txl_fail(error, TXL_FORMAT,
                        "%s: vocabulary: %" PRIu32 " symbols, expected the network's %" PRId32,
                        file, n, n_token);
    if (n > (size - 4) / 4)
        return txl_fail(error, TXL_FORMAT,
                        "%s: vocabulary: %" PRIu32 " symbols in a section of %zu bytes", file, n,
                        size);
    vocabulary->n = n_token;
    if (!is_id(vocabulary, unk) || !is_id(vocabulary, eos))
        return txl_fail(error, TXL_FORMAT,
                        "%s: vocabulary: unk %" PRId32 ", eos %" PRId32
                        ", expected ids below %" PRId32 " or -1",
                        file, unk, eos, n_token);
    const unsigned char *ends = (const unsigned char *)section + 4;
    vocabulary->spellings = (struct spellings){ends, (const char *)ends + (size_t)n * 4, n_token};
    txl_status status = check_ends(vocabulary, size - 4 - (size_t)n * 4, file, error);
    if (status)
        return status;
    fill_byte_ids(vocabulary);
    status = build_table(vocabulary, error);
    if (status || txl_kind_unit(settings->kind) != TXL_UNIT_PIECE)
        return status;
    if (settings->lower_case)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: lower_case is true; this txl reads pieces as their model spells them",
                        file);
    size_t end = 4 + (size_t)n * 4 + spelling_end(&vocabulary->spellings, n_token - 1),
           tail = (end + 3) & ~(size_t)3;
    const struct pieces_section pieces = {
        .spellings = vocabulary->spellings,
        .unk = unk,
        .eos = eos,
        .tail = (const char *)section + (tail < size ? tail : size),
        .n_tail = tail < size ? size - tail : 0,
        .file = file,
    };
    return sentencepiece_open(&pieces, &vocabulary->pieces, error);
}

void vocabulary_close(struct vocabulary *vocabulary) {
    pages_unmap(vocabulary->slots, table_size(vocabulary));
    sentencepiece_close(vocabulary->pieces);
    *vocabulary = (struct vocabulary){0};
}

int32_t vocabulary_find(const struct vocabulary *vocabulary, const char *text, size_t length) {
    if (length == 1 && !vocabulary->takes_bytes)
        return vocabulary->byte_id[(unsigned char)text[0]];
    if (length > vocabulary->longest)
        return -1;
    uint64_t hash = hash_of(vocabulary, text, length);
    return (int32_t)(*slot_of(vocabulary, hash, text, length) & vocabulary->mask) - 1;
}

const char *vocabulary_symbol(const struct vocabulary *vocabulary, int32_t id, size_t *length) {
    return id >= 0 && id < vocabulary->n ? spelling_at(&vocabulary->spellings, id, length) : NULL;
}

/* ---- Making ------------------------------------------------------------------------------- */

txl_status vocabulary_pack(const struct vocabulary_entry *symbols, size_t n, void **section,
                           size_t *size, txl_error *error) {
    uint64_t n_bytes = 0;
    for (size_t i = 0; i < n && n_bytes <= UINT32_MAX; i++)
        n_bytes += symbols[i].length;
    if (n > MAX_N_TOKEN || n_bytes > UINT32_MAX)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "vocabulary: %zu symbols of more than 4 GiB, or more than %d of them", n,
                        MAX_N_TOKEN);
    size_t needed = 4 + n * 4 + n_bytes;
    unsigned char *bytes = malloc(needed);
    if (!bytes)
        return txl_fail_memory(error, "the vocabulary", needed);
    uint32_t word = htole32((uint32_t)n);
    memcpy(bytes, &word, 4);
    unsigned char *spellings = bytes + 4 + n * 4;
    uint32_t end = 0;
    for (size_t i = 0; i < n; i++) {
        if (symbols[i].length > 0)
            memcpy(spellings + end, symbols[i].text, symbols[i].length);
        end += (uint32_t)symbols[i].length;
        word = htole32(end);
        memcpy(bytes + 4 + i * 4, &word, 4);
    }
    *section = bytes;
    *size = needed;
    return TXL_OK;
}

/* ---- Guessing ----------------------------------------------------------------------------- */

static bool is_byte(const struct vocabulary_entry *symbol) {
    return vocabulary_byte(symbol->text, symbol->length) >= 0;
}

static bool is_letter(const struct vocabulary_entry *symbol) {
    return symbol->length == 1 &&
           ((symbol->text[0] >= 'a' && symbol->text[0] <= 'z') || symbol->text[0] == '_');
}

static bool is_character(const struct vocabulary_entry *symbol) {
    const uint8_t *text = (const uint8_t *)symbol->text;
    return symbol->length >= 1 && symbol->length <= 4 && !u8_check(text, symbol->length) &&
           u8_mbsnlen(text, symbol->length) == 1;
}

static bool is_special_or_character(const struct vocabulary_entry *symbol) {
    bool special =
        symbol->length > 2 && symbol->text[0] == '<' && symbol->text[symbol->length - 1] == '>';
    return special || is_character(symbol);
}

static size_t count_symbols(const struct vocabulary_entry *symbols, size_t n,
                            bool (*is)(const struct vocabulary_entry *)) {
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        found += is(&symbols[i]);
    return found;
}

static int32_t index_of(const struct vocabulary_entry *symbols, size_t n, const char *text) {
    size_t length = strlen(text);
    for (size_t i = 0; i < n && i < INT32_MAX; i++)
        if (symbols[i].length == length && memcmp(symbols[i].text, text, length) == 0)
            return (int32_t)i;
    return -1;
}

txl_kind vocabulary_guess_kind(const struct vocabulary_entry *symbols, size_t n,
                               bool splits_characters) {
    if (splits_characters)
        return TXL_CHARACTERS;
    if (n > 0 && count_symbols(symbols, n, is_byte) == n)
        return TXL_BYTES;
    if (n > 0 && count_symbols(symbols, n, is_letter) == n)
        return TXL_TEXT8;
    if (count_symbols(symbols, n, is_character) > 0 &&
        count_symbols(symbols, n, is_special_or_character) == n)
        return TXL_CHARACTERS;
    if (index_of(symbols, n, "<S>") >= 0 && index_of(symbols, n, "<eos>") < 0)
        return TXL_LM1B;
    return TXL_WORDS;
}

int32_t vocabulary_guess_unk(const struct vocabulary_entry *symbols, size_t n) {
    int32_t unk = index_of(symbols, n, "<unk>");
    return unk >= 0 ? unk : index_of(symbols, n, "<UNK>");
}

int32_t vocabulary_guess_eos(const struct vocabulary_entry *symbols, size_t n, txl_kind kind) {
    const char *boundary = text_kind(kind)->boundary;
    return boundary ? index_of(symbols, n, boundary) : -1;
}

txl_status txl_vocabulary_pack(const txl_spelling *symbols, size_t n, void **section, size_t *size,
                               txl_error *error) {
    struct vocabulary_entry *entry = calloc(n + 1, sizeof *entry);
    if (!entry)
        return txl_fail_memory(error, "the vocabulary", n * sizeof *entry);
    for (size_t i = 0; i < n; i++)
        entry[i] = (struct vocabulary_entry){symbols[i].text, symbols[i].length};
    txl_status status = vocabulary_pack(entry, n, section, size, error);
    free(entry);
    return status;
}
