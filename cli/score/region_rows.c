/* Parts texts into regions, and sums tokens over them. */
#include "region_rows.h"

#include "cli/io/terminal.h"
#include "cli/model/model.h"
#include "distribution.h"
#include "lib/base/white_space.h"
#include "word_rows.h"
#include "words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Regions ------------------------------------------------------------------------------ */

static bool end_region(struct regions *regions) {
    if (regions->n == regions->room) {
        size_t room = 2 * regions->room + 8;
        struct region *list = reallocarray(regions->list, room, sizeof *list);
        if (!list)
            return false;
        regions->list = list;
        regions->room = room;
    }
    regions->list[regions->n++] = (struct region){.end = regions->text.length};
    return true;
}

/* The length of the bars and white space that text[length] begins with. */
static size_t seam_length(const char *text, size_t length, size_t *n_bar) {
    size_t at = 0, n = 1;
    for (*n_bar = 0; at < length && n > 0; at += n) {
        bool bar = text[at] == '|';
        *n_bar += bar;
        n = bar ? 1 : space_length(text + at, length - at);
    }
    return at;
}

/* Adds what a seam with bars keeps: its line ends, else one blank, between two words. */
static bool add_seam(struct regions *regions, const char *text, size_t length, bool between) {
    const char *blank = NULL;
    size_t n_blank = 0;
    bool good = true, line_end = memchr(text, '\n', length);
    for (size_t i = 0, n; i < length && good; i += n) {
        n = text[i] == '|' ? 1 : space_length(text + i, length - i);
        if (text[i] == '|')
            continue;
        bool carriage = text[i] == '\r' && i + 1 < length && text[i + 1] == '\n';
        if (text[i] == '\n' || carriage)
            good = buffer_append(&regions->text, text + i, 1);
        else if (!blank || text[i] == ' ') {
            blank = text + i;
            n_blank = n;
        }
    }
    return good &&
           (line_end || !blank || !between || buffer_append(&regions->text, blank, n_blank));
}

bool regions_part(struct regions *regions, const char *text, size_t length) {
    regions->text.length = regions->n = 0;
    bool good = end_region(regions) && buffer_reserve(&regions->text, length + 1);
    for (size_t i = 0, n, n_bar; i < length && good; i += n) {
        n = seam_length(text + i, length - i, &n_bar);
        bool between = i > 0 && i + n < length;
        for (size_t k = 0; k < n_bar && good; k++)
            good = end_region(regions);
        if (n_bar > 0) {
            good = good && add_seam(regions, text + i, n, between);
        } else {
            bool escaped = n == 0 && text[i] == '\\' && i + 1 < length && text[i + 1] == '|';
            good = buffer_append(&regions->text, text + i + escaped, n > 0 ? n : 1);
            n = n > 0 ? n : 1u + escaped;
        }
    }
    return good && end_region(regions);
}

bool regions_whole(struct regions *regions, const char *text, size_t length) {
    regions->text.length = regions->n = 0;
    return end_region(regions) && buffer_reserve(&regions->text, length + 1) &&
           buffer_append(&regions->text, text, length) && end_region(regions);
}

void regions_free(struct regions *regions) {
    buffer_free(&regions->text);
    free(regions->list);
    *regions = (struct regions){0};
}

/* ---- Tokens ------------------------------------------------------------------------------- */

bool region_rows_open(struct region_rows *rows, const struct table_options *options,
                      const struct own_columns *own, const txl_model *model) {
    const bool file = options->several;
    char columns[96];
    *rows = (struct region_rows){.on = true,
                                 .own = own,
                                 .has_file = file,
                                 .eos = txl_model_eos(model),
                                 .model = model,
                                 .previous = options->previous,
                                 .entropy = options->entropy};
    if (tables_correct(model, options) && !(rows->begins = words_boundaries(model)))
        return terminal_error("out of memory");
    snprintf(columns, sizeof columns, "%s* region text words tokens nats bits %sunknown",
             file ? "file " : "", rows->entropy ? "entropy reduction " : "");
    return !options->regions ||
           table_open(&rows->table, options->regions, columns, own, TABLE_TABS);
}

void region_rows_close(struct region_rows *rows) {
    table_abandon(&rows->table);
    free(rows->begins);
    rows->begins = NULL;
}

void region_rows_start(struct region_rows *rows, const char *file, struct regions *regions) {
    rows->file = file;
    rows->regions = regions;
    rows->from = rows->solid = 0;
    rows->current = NULL;
    rows->correction = 0;
}

/* The first byte from `from` on that is not white space. */
static size_t find_solid(struct region_rows *rows, size_t from) {
    const struct buffer *text = &rows->regions->text;
    if (from >= rows->from && from <= rows->solid)
        return rows->solid;
    size_t at = from, n = 0;
    while (at < text->length && (n = space_length(text->data + at, text->length - at)) > 0)
        at += n;
    rows->from = from;
    rows->solid = at;
    return at;
}

/* The region that has this byte; the last one for those after the text. */
static struct region *region_at(const struct regions *regions, size_t at) {
    size_t low = 1, high = regions->n - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (at < regions->list[middle].end)
            high = middle;
        else
            low = middle + 1;
    }
    return &regions->list[low];
}

struct moment moment_of(const txl_model *model, const bool *begins, bool entropy,
                        const struct scored *token) {
    const float *logprob = token->logprob[0];
    const int32_t n = txl_model_n_token(model);
    return (struct moment){.index = token->index,
                           .begins = begins ? log_mass(begins, logprob, n) : 0,
                           .entropy = entropy ? entropy_of(logprob, n) : 0};
}

/* Whether a word, or the end of the text, is at this byte. */
static bool begins_word(const struct regions *regions, size_t at) {
    const struct buffer *text = &regions->text;
    return at == 0 || at >= text->length || is_space_byte(text->data[at - 1]);
}

static void add_term(struct region_rows *rows, struct region *region, double term) {
    region->nats += term;
    rows->correction += term;
}

/* Ends the current region before the token whose first byte that is not white space is at `at`, and
 * begins `region`, which is NULL for a token that is left out. */
static void change_region(struct region_rows *rows, const struct scored *token, size_t at,
                          struct region *region) {
    struct region *before = rows->current;
    rows->current = region;
    if ((!rows->begins && !rows->entropy) || before == region)
        return;
    struct moment moment = moment_of(rows->model, rows->begins, rows->entropy, token);
    if (!begins_word(rows->regions, at))
        moment.begins = 0;
    if (before && token->index == rows->next) {
        add_term(rows, before, -moment.begins);
        before->reduction = before->entropy - moment.entropy;
    }
    if (region) {
        add_term(rows, region, moment.begins);
        region->entropy = moment.entropy;
        region->reduction = NAN;
    }
}

txl_status region_rows_token(void *context, const struct scored *token, txl_error *error) {
    struct region_rows *rows = context;
    struct regions *regions = rows->regions;
    size_t length = regions->text.length, begin = (size_t)token->place->offset,
           end = begin + (size_t)token->place->bytes;
    (void)error;
    size_t solid = find_solid(rows, begin);
    bool closes = token->id == rows->eos && end >= length && solid >= end, blank = solid >= end;
    size_t at = solid < length ? solid : begin;
    if (rows->previous && !rows->begins && blank && begin > 0)
        at = begin - 1;
    struct region *region = closes ? &regions->list[0] : region_at(regions, at);
    change_region(rows, token, solid, token->left_out ? NULL : region);
    rows->next = token->index + 1;
    if (token->left_out)
        return TXL_OK;
    region->tokens++;
    region->unknown += token->unknown;
    region->nats += (double)token->nats[0];
    return TXL_OK;
}

/* ---- Rows --------------------------------------------------------------------------------- */

uint64_t regions_words(const struct buffer *text, size_t begin, size_t end, bool *in_word) {
    uint64_t words = 0;
    for (size_t at = begin, n; at<end; at += n> 0 ? n : 1) {
        n = space_length(text->data + at, text->length - at);
        words += n == 0 && !*in_word;
        *in_word = n == 0;
    }
    return words;
}

static txl_status put_row(struct region_rows *rows, size_t number, size_t begin, uint64_t words) {
    struct table *table = &rows->table;
    const struct region *region = &rows->regions->list[number];
    if (rows->has_file)
        table_text(table, rows->file, strlen(rows->file));
    table_own(table, rows->own, rows->own->by_region ? number : 0);
    table_integer(table, number);
    table_text(table, rows->regions->text.data + begin, region->end - begin);
    table_integer(table, words);
    table_integer(table, region->tokens);
    table_nats(table, region->nats);
    if (rows->entropy && region->tokens > 0)
        table_real(table, region->entropy);
    else if (rows->entropy)
        table_unknown(table);
    if (rows->entropy && region->tokens > 0 && !isnan(region->reduction))
        table_real(table, region->reduction);
    else if (rows->entropy)
        table_unknown(table);
    table_integer(table, region->unknown);
    return table_end_row(table);
}

txl_status region_rows_end(struct region_rows *rows) {
    const struct regions *regions = rows->regions;
    txl_status status = TXL_OK;
    bool in_word = false;
    size_t begin = 0;
    if (!rows->table.file.stream)
        return TXL_OK;
    for (size_t i = 1; i < regions->n && !status; i++) {
        size_t end = regions->list[i].end;
        status = put_row(rows, i, begin, regions_words(&regions->text, begin, end, &in_word));
        begin = end;
    }
    if (!status && regions->list[0].tokens > 0)
        status = put_row(rows, 0, 0, 0);
    return status;
}
