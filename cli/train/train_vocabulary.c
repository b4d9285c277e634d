/* Making vocabularies. */
#include "train_vocabulary.h"

#include "cli/io/terminal.h"
#include "cli/text/tokens.h"
#include "lib/base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const char unknown[] = "<unk>", boundary[] = "<eos>";

/* ---- Counting spellings ------------------------------------------------------------------- */

struct counted {
    size_t first, length; /* in the spellings */
    uint64_t count;
};

/* Open addressing, at most half full. */
struct counter {
    struct buffer spellings;
    struct counted *entry;
    size_t n, capacity;
    uint32_t *slot; /* an entry's number + 1, or 0 */
    size_t n_slot;  /* a power of two */
    const struct train_text *text;
    struct token_reader reader;
};

static uint32_t *find_slot(const struct counter *c, const char *text, size_t length) {
    size_t i = (size_t)XXH3_64bits(text, length) & (c->n_slot - 1);
    for (; c->slot[i] > 0; i = (i + 1) & (c->n_slot - 1)) {
        const struct counted *entry = &c->entry[c->slot[i] - 1];
        if (entry->length == length && memcmp(c->spellings.data + entry->first, text, length) == 0)
            break;
    }
    return &c->slot[i];
}

static bool grow_counter(struct counter *c) {
    size_t capacity = c->capacity > 0 ? 2 * c->capacity : 1 << 10, n_slot = 2 * capacity;
    struct counted *entry = realloc(c->entry, capacity * sizeof *entry);
    if (entry)
        c->entry = entry;
    uint32_t *slot = entry ? calloc(n_slot, sizeof *slot) : NULL;
    if (!slot)
        return false;
    free(c->slot);
    c->slot = slot;
    c->n_slot = n_slot;
    c->capacity = capacity;
    for (size_t i = 0; i < c->n; i++)
        *find_slot(c, c->spellings.data + entry[i].first, entry[i].length) = (uint32_t)i + 1;
    return true;
}

static bool count_symbol(struct counter *c, const char *text, size_t length, uint64_t times) {
    if (c->n == c->capacity && !grow_counter(c))
        return false;
    uint32_t *slot = find_slot(c, text, length);
    if (*slot == 0) {
        c->entry[c->n] = (struct counted){c->spellings.length, length, 0};
        if (!buffer_append(&c->spellings, text, length))
            return false;
        *slot = (uint32_t)++c->n;
    }
    c->entry[*slot - 1].count += times;
    return true;
}

static void counter_free(struct counter *c) {
    token_reader_close(&c->reader);
    buffer_free(&c->spellings);
    free(c->entry);
    free(c->slot);
}

/* By falling count; equal ones in the order of their first appearance. */
static int compare_counts(const void *a, const void *b) {
    const struct counted *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* ---- Symbols of a text -------------------------------------------------------------------- */

static txl_status count_received(void *context, const txl_symbol *symbol, txl_error *error) {
    if (!symbol->text || count_symbol(context, symbol->text, symbol->length, 1))
        return TXL_OK;
    return txl_fail(error, TXL_MEMORY, "out of memory");
}

static txl_status feed_encoder(void *context, const char *bytes, size_t length) {
    struct counter *c = context;
    return train_text_feed(c->text, 0, &c->reader, bytes, length);
}

/* Opens a model whose encoder cuts text into symbols of the kind. */
static txl_status open_splitter(txl_kind kind, txl_model **model) {
    static const char form[] =
        "{\"family\": \"transformer-xl\", \"tokenizer\": \"%s\", \"lower_case\": false, "
        "\"unk_id\": 0, \"eos_id\": 1, \"n_token\": 2, \"n_layer\": 1, \"n_head\": 1, "
        "\"d_head\": 2, \"d_model\": 2, \"d_embed\": 2, \"d_inner\": 2, \"attn_type\": 0, "
        "\"pre_lnorm\": false, \"div_val\": 1, \"cutoffs\": [], \"tied_weights\": true, "
        "\"tied_projections\": [false], \"biases_per_layer\": false, \"tgt_len\": 1, "
        "\"mem_len\": 0, \"clamp_len\": -1, \"same_length\": false, \"memory_start\": \"empty\", "
        "\"cluster_order\": \"reversed\"}";
    const txl_spelling symbols[] = {{unknown, strlen(unknown)}, {boundary, strlen(boundary)}};
    char settings[1024];
    void *section = NULL;
    size_t size;
    txl_error error;
    snprintf(settings, sizeof settings, form, txl_kind_name(kind));
    txl_status status = txl_vocabulary_pack(symbols, 2, &section, &size, &error);
    if (!status)
        status = txl_model_new(settings, section, size, 0, 1, model, &error);
    terminal_report(status, &error);
    free(section);
    return status;
}

static txl_status count_text(struct counter *c, const txl_model *splitter, bool raw,
                             struct train_text *text) {
    const txl_encoding encoding = {.raw = raw, .symbol = count_received, .context = c};
    c->text = text;
    if (!token_reader_open(&c->reader, splitter, &text->input[0], &encoding, false))
        return TXL_MEMORY;
    txl_status status = train_text_read(text, feed_encoder, c);
    return status ? status : token_reader_finish(&c->reader);
}

/* Notes that words of --text tokens look like prose, if too many end in a punctuation mark. */
static void note_prose(const struct counter *c) {
    enum { FEW = 20 };
    uint64_t all = 0, marked = 0;
    for (size_t i = 0; i < c->n; i++) {
        const char *text = c->spellings.data + c->entry[i].first;
        size_t length = c->entry[i].length;
        all += c->entry[i].count;
        if (length > 1 && strchr(",.;:!?\"", text[length - 1]))
            marked += c->entry[i].count;
    }
    if (marked > all / FEW)
        terminal_note("more than one word in %d ends in a punctuation mark: --text tokens expects "
                      "text that is tokenized already, --text raw reads prose",
                      FEW);
}

/* Packs the entries that are frequent enough, and always the unknown and the boundary symbol. */
static txl_status pack_counted(struct convert_vocabulary *v, struct counter *c, int64_t min_count) {
    txl_error error;
    if (!count_symbol(c, boundary, strlen(boundary), 0) ||
        !count_symbol(c, unknown, strlen(unknown), 0))
        return terminal_lacks_memory();
    txl_spelling *symbols = calloc(c->n, sizeof *symbols);
    if (!symbols)
        return terminal_lacks_memory();
    qsort(c->entry, c->n, sizeof *c->entry, compare_counts);
    for (size_t i = 0; i < c->n; i++) {
        const char *text = c->spellings.data + c->entry[i].first;
        size_t length = c->entry[i].length;
        bool is_unknown = length == strlen(unknown) && memcmp(text, unknown, length) == 0;
        bool is_boundary = length == strlen(boundary) && memcmp(text, boundary, length) == 0;
        if (!is_unknown && !is_boundary && c->entry[i].count < (uint64_t)min_count)
            continue;
        if (is_unknown)
            v->unk = v->n;
        if (is_boundary)
            v->eos = v->n;
        symbols[v->n++] = (txl_spelling){text, length};
    }
    txl_status status = txl_vocabulary_pack(symbols, (size_t)v->n, &v->section, &v->size, &error);
    terminal_report(status, &error);
    free(symbols);
    return status;
}

static txl_status make_counted(struct convert_vocabulary *v, int64_t min_count, bool raw,
                               struct train_text *text) {
    struct counter counter = {0};
    txl_model *splitter;
    txl_status status = open_splitter(v->kind, &splitter);
    if (status)
        return status;
    status = count_text(&counter, splitter, raw, text);
    if (!status && !raw && v->kind == TXL_WORDS)
        note_prose(&counter);
    if (!status)
        status = pack_counted(v, &counter, min_count);
    counter_free(&counter);
    txl_model_close(splitter);
    return status;
}

/* ---- Fixed symbols ------------------------------------------------------------------------ */

/* Bytes by their numbers, or a to z and the space. */
static txl_status make_fixed(struct convert_vocabulary *v) {
    const bool bytes = v->kind == TXL_BYTES;
    char number[256][12];
    txl_spelling symbols[256];
    txl_error error;
    v->n = bytes ? 256 : 27;
    for (int i = 0; i < v->n; i++) {
        if (bytes)
            snprintf(number[i], sizeof number[i], "%d", i);
        else
            snprintf(number[i], sizeof number[i], "%c", i == 0 ? '_' : 'a' + i - 1);
        symbols[i] = (txl_spelling){number[i], strlen(number[i])};
    }
    txl_status status = txl_vocabulary_pack(symbols, (size_t)v->n, &v->section, &v->size, &error);
    terminal_report(status, &error);
    return status;
}

/* ---- The choice --------------------------------------------------------------------------- */

/* The kinds whose vocabularies are made here; the first two are counted. */
static const txl_kind made[] = {TXL_CHARACTERS, TXL_WORDS, TXL_BYTES, TXL_TEXT8};
enum { N_COUNTED = 2, N_MADE = sizeof made / sizeof *made };

/* The index of the kind of that name, or N_MADE. */
static size_t find_made(const char *name) {
    size_t i = 0;
    while (i < N_MADE && strcmp(name, txl_kind_name(made[i])) != 0)
        i++;
    return i;
}

bool train_vocabulary_counts(const char *name) {
    return find_made(name) < N_COUNTED;
}

txl_status train_vocabulary_make(struct convert_vocabulary *v, const char *name, int64_t min_count,
                                 bool raw, struct train_text *text) {
    size_t i = find_made(name);
    txl_error error;
    if (i == N_MADE)
        return terminal_report(convert_vocabulary_read(name, v, &error), &error) ? TXL_OK
                                                                                 : TXL_FORMAT;
    *v = (struct convert_vocabulary){.kind = made[i], .unk = -1, .eos = -1};
    return i < N_COUNTED ? make_counted(v, min_count, raw, text) : make_fixed(v);
}
