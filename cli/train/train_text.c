/* The texts of txl train: reading, holding out, counting symbols. */
#include "train_text.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/text/tokens.h"
#include "lib/base/error.h"
#include "lib/base/white_space.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Reading texts with their end held back. */

enum {
    READ_BYTES = 1 << 16,
    MOST_HELD = 1 << 20, /* most bytes of the held-out part */
    HELD_SHARE = 50,     /* the held-out part is at most one of this many */
    SLACK = 1 << 18      /* bytes read beyond what is held back before they are moved */
};

bool train_text_open(struct train_text *text, char **paths, int n) {
    bool bytes = txl_kind_takes_bytes(text->kind) && !text->ids;
    text->input = calloc((size_t)n, sizeof *text->input);
    text->begin = calloc((size_t)n, sizeof *text->begin);
    if (!text->input || !text->begin)
        return terminal_error("out of memory");
    for (int i = 0; i < n; i++) {
        text->input[i].handle = -1;
        text->n = i + 1;
        struct input *input = &text->input[i];
        if (!input_open_text(input, paths[i], bytes, &text->common.form))
            return false;
        if (!text->ids)
            tokens_unwrap(input, text->kind, text->common.unwrap);
        if (text->seekable && !input_make_seekable(input))
            return false;
    }
    return true;
}

void train_text_close(struct train_text *text) {
    for (int i = 0; i < text->n; i++)
        input_close(&text->input[i]);
    free(text->input);
    free(text->begin);
    buffer_free(&text->tail);
    *text = (struct train_text){0};
}

/* Where the held-out part begins in the tail: after the next line end; if there is none, where a
 * character or an id ends. */
static size_t find_cut(const struct train_text *text) {
    const char *tail = text->tail.data;
    size_t length = text->tail.length;
    uint64_t held = text->bytes / HELD_SHARE;
    held = held < MOST_HELD ? held : MOST_HELD;
    size_t cut = length - (size_t)(held < length ? held : length);
    const char *line_end = cut < length ? memchr(tail + cut, '\n', length - cut) : NULL;
    if (line_end && line_end + 1 < tail + length)
        return (size_t)(line_end + 1 - tail);
    while (cut < length && ((unsigned char)tail[cut] & 0xc0) == 0x80)
        cut++;
    while (text->ids && cut < length && !is_space_byte(tail[cut]))
        cut++;
    return cut;
}

/* Passes on the text before the last `keep` bytes. */
static txl_status pass_on(struct train_text *text, size_t keep,
                          txl_status (*take)(void *, const char *, size_t), void *context) {
    size_t n = text->tail.length > keep ? text->tail.length - keep : 0;
    txl_status status = n > 0 ? take(context, text->tail.data, n) : TXL_OK;
    buffer_drop(&text->tail, n);
    return status;
}

static txl_status read_input(struct train_text *text, struct input *input,
                             txl_status (*take)(void *, const char *, size_t), void *context) {
    char buffer[READ_BYTES];
    txl_status status = TXL_OK;
    ssize_t n;
    while (!status && (n = input_read(input, buffer, sizeof buffer)) != 0) {
        if (n < 0)
            return TXL_IO;
        text->bytes += (uint64_t)n;
        if (!buffer_append(&text->tail, buffer, (size_t)n))
            return terminal_lacks_memory();
        if (text->tail.length > MOST_HELD + SLACK)
            status = pass_on(text, MOST_HELD, take, context);
        if (!status && signals_stopped())
            return TXL_STOPPED;
    }
    return !status && signals_stopped() ? TXL_STOPPED : status;
}

txl_status train_text_read(struct train_text *text,
                           txl_status (*take)(void *, const char *, size_t), void *context) {
    txl_status status = TXL_OK;
    text->bytes = 0;
    text->tail.length = 0;
    for (int i = 0; i < text->n; i++)
        text->begin[i] = UINT64_MAX;
    for (int i = 0; i < text->n && !status; i++) {
        text->begin[i] = text->bytes;
        if (text->input[i].read > 0 && !input_rewind(&text->input[i]))
            return TXL_IO;
        status = read_input(text, &text->input[i], take, context);
    }
    if (!status) {
        size_t cut = text->holds_out ? find_cut(text) : text->tail.length;
        status = pass_on(text, text->tail.length - cut, take, context);
    }
    return status;
}

txl_status train_text_feed(const struct train_text *text, uint64_t first,
                           struct token_reader *reader, const char *bytes, size_t length) {
    txl_status status = TXL_OK;
    if (!text->common.unwrap)
        return token_reader_feed(reader, bytes, length);
    for (size_t i = 0, n; i < length && !status; i += n) {
        const uint64_t at = first + reader->fed;
        int in = 0, next = 0;
        for (; next < text->n && text->begin[next] <= at; next++)
            in = next;
        n = length - i;
        if (next < text->n && text->begin[next] - at < n)
            n = (size_t)(text->begin[next] - at);
        if (reader->fed == 0 || text->begin[in] == at)
            status = token_reader_next_text(reader, text->input[in].wrap);
        if (!status)
            status = token_reader_feed(reader, bytes + i, n);
    }
    return status;
}

/* Scoring the held-out text. */

enum { SCORED = 512 }; /* ids of one call, or more */

static txl_status add_heldout_symbol(void *context, const txl_symbol *symbol, txl_error *error) {
    struct heldout *h = context;
    if (!symbol->text)
        return TXL_OK;
    if (id_list_add(&h->list, symbol->id))
        return TXL_OK;
    return txl_fail(error, TXL_MEMORY, "out of memory");
}

const char *train_text_name(const struct train_text *text) {
    return text->n == 1 ? text->input[0].name : "the texts, one after the other";
}

bool heldout_read(struct heldout *h, const txl_model *model, const char *path,
                  const struct train_text *text, bool raw, bool skip_unknown) {
    const bool ids = text->ids;
    struct input input = {.name = path ? path : "the held-out text", .handle = -1};
    struct token_reader reader = {0};
    const txl_encoding encoding = {.raw = raw,
                                   .skip_unknown = skip_unknown,
                                   .lookup = true,
                                   .symbol = add_heldout_symbol,
                                   .context = h,
                                   .unknown = unknown_add,
                                   .unknown_context = &h->unknown};
    *h = (struct heldout){.name = input.name,
                          .letters = txl_kind_unit(txl_model_kind(model)) == TXL_UNIT_CHARACTER};
    bool good = (!path || tokens_open_text(&input, path, model, ids, &text->common)) &&
                token_reader_open(&reader, model, &input, &encoding, ids);
    if (good && path)
        good = !token_reader_run(&reader, NULL, NULL);
    else if (good)
        good = !train_text_feed(text, text->bytes - text->tail.length, &reader, text->tail.data,
                                text->tail.length) &&
               !token_reader_finish(&reader);
    token_reader_counts(&reader, &h->counts);
    token_reader_close(&reader);
    input_close(&input);
    if (good)
        unknown_note(&h->unknown, h->name, txl_model_unk(model) >= 0);
    if (good && h->list.n < 2) {
        if (path)
            terminal_error("%s: fewer than two tokens, so there is nothing to score", h->name);
        else
            terminal_error(
                "%s: too short: the part of it that is held out has fewer than two tokens, "
                "so there is nothing to score; train on a longer text, or name another "
                "with --valid",
                train_text_name(text));
        good = false;
    }
    return good;
}

void heldout_free(struct heldout *h) {
    id_list_free(&h->list);
    *h = (struct heldout){0};
}

txl_status heldout_score(const struct heldout *h, const txl_model *model,
                         const txl_settings *settings, size_t ext_len, struct heldout_score *score,
                         txl_error *error) {
    txl_session *session = NULL;
    size_t tgt_len = (size_t)settings->tgt_len;
    /* Whole segments: absolute positions are counted from a segment's last token. */
    size_t piece = ext_len > 0 ? tgt_len - ext_len : (SCORED + tgt_len - 1) / tgt_len * tgt_len;
    *score = (struct heldout_score){0};
    float *nats = calloc(ext_len + piece, sizeof *nats);
    txl_status status = nats ? txl_session_new(model, settings, &session, error)
                             : txl_fail(error, TXL_MEMORY, "out of memory");
    for (size_t i = 0; i + 1 < h->list.n && !status;) {
        size_t left = h->list.n - 1 - i, n = left < piece ? left : piece;
        size_t before = i < ext_len ? i : ext_len;
        const int32_t *ids = h->list.ids + i - before;
        if (ext_len > 0)
            txl_session_reset(session);
        status = txl_session_score(session, ids, before + n, ids + 1, nats, error);
        for (size_t k = before; k < before + n && !status; k++)
            score->nats += nats[k];
        score->predicted += n;
        i += n;
        if (!status && signals_stopped())
            status = TXL_STOPPED;
    }
    txl_session_free(session);
    free(nats);
    return status;
}

double heldout_bits(const struct heldout *h, const struct heldout_score *score) {
    uint64_t characters = h->letters ? 0 : h->counts.characters;
    return score->nats / log(2) / (double)(characters > 0 ? characters : score->predicted);
}

/* Making vocabularies. */

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
