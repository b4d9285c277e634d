/* Sums tokens over regions and texts, and writes the rows of all levels. */
#include "levels.h"
#include "cli/io/terminal.h"
#include "cli/model/model.h"
#include "distribution.h"
#include "lib/base/error.h"
#include "lib/base/white_space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const level_names[] = {"token", "word", "region", "text", NULL};

/* ---- Tables ------------------------------------------------------------------------------- */

/* The columns after those of the user's table. */
static const char *const columns[N_LEVEL] = {
    "* line text_n index id token text offset length word_n region bits nats",
    "* line text_n word_n region word offset length tokens unknown bits nats",
    "* line text_n region text words tokens unknown bits nats",
    "* line text_n text words tokens unknown bits nats"};

const char *const levels_columns[] = {
    "* line text_n index id token text offset length word_n region bits nats [ nats_other kl ] "
    "[ probability rank entropy ] top*",
    "* line text_n word_n region word offset length tokens unknown bits nats [ bits_corrected ] "
    "[ entropy reduction ] [ nats_other kl ]",
    "* line text_n region text words tokens unknown bits nats [ bits_corrected ] "
    "[ entropy reduction ] [ nats_other kl ]",
    "* line text_n text words tokens unknown bits nats [ bits_corrected ] bits_end "
    "[ entropy reduction ] [ nats_other kl ]",
    NULL};

static bool has_corrected(const struct levels *l, enum level level) {
    return level != LEVEL_TOKEN && l->wanted.corrects;
}

static bool open_table(struct levels *l, enum level level) {
    const struct levels_wanted *wanted = &l->wanted;
    char *names = NULL;
    size_t size;
    FILE *out = open_memstream(&names, &size);
    if (!out)
        return terminal_error("out of memory");
    fputs(columns[level], out);
    fputs(has_corrected(l, level) ? " bits_corrected" : "", out);
    fputs(level == LEVEL_TEXT ? " bits_end" : "", out);
    fputs(level != LEVEL_TOKEN && wanted->entropy ? " entropy reduction" : "", out);
    fputs(wanted->comparison ? " nats_other kl" : "", out);
    if (level == LEVEL_TOKEN && wanted->n_top > 0) {
        fputs(" probability rank entropy", out);
        for (int32_t i = 1; i <= wanted->n_top; i++)
            fprintf(out, " top%d top%d_nats", (int)i, (int)i);
    }
    /* Without memory fclose sets names to NULL, and returns no error. */
    bool good = (fclose(out) == 0 && names) || terminal_error("out of memory");
    good = good && table_open(&l->table[level], wanted->path[level], names, l->own, TABLE_COMMAS);
    free(names);
    return good;
}

/* Models of words have no token for a space, and so nothing to correct. */
static bool needs_boundaries(const struct levels_wanted *wanted, const txl_model *model) {
    return wanted->corrects && model_unit(model) != TXL_UNIT_WORD;
}

bool levels_need_distributions(const struct levels_wanted *wanted, const txl_model *model) {
    return wanted->entropy || wanted->n_top > 0 || needs_boundaries(wanted, model);
}

bool levels_open(struct levels *l, const struct levels_wanted *wanted,
                 const struct own_columns *own, const txl_model *model) {
    *l = (struct levels){.wanted = *wanted, .own = own, .model = model};
    l->top = calloc((size_t)wanted->n_top + 1, sizeof *l->top);
    if (needs_boundaries(wanted, model))
        l->begins = words_boundaries(model);
    if (!l->top || (needs_boundaries(wanted, model) && !l->begins))
        return terminal_error("out of memory");
    for (enum level i = 0; i < N_LEVEL; i++)
        if (wanted->path[i] && !open_table(l, i))
            return false;
    return true;
}

void levels_close(struct levels *l) {
    for (enum level i = 0; i < N_LEVEL; i++)
        table_abandon(&l->table[i]);
    free(l->begins);
    free(l->top);
    *l = (struct levels){0};
}

void levels_files(struct levels *l, struct outfile *files[N_LEVEL]) {
    for (enum level i = 0; i < N_LEVEL; i++)
        files[i] = &l->table[i].file;
}

void levels_mark(struct levels *l) {
    for (enum level i = 0; i < N_LEVEL; i++)
        table_mark(&l->table[i]);
}

void levels_take_back(struct levels *l) {
    for (enum level i = 0; i < N_LEVEL; i++)
        table_take_back(&l->table[i]);
}

static bool is_open(const struct levels *l, enum level level) {
    return l->table[level].file.stream;
}

/* ---- Rows --------------------------------------------------------------------------------- */

static void put_number(struct table *table, double value) {
    if (isnan(value))
        table_unknown(table);
    else
        table_real(table, value);
}

/* The number of the region that has this byte; null where there are none. */
static void put_region(struct levels *l, struct table *table, size_t region) {
    if (l->parted && region > 0)
        table_integer(table, region);
    else
        table_unknown(table);
}

/* The number of the region that has the first byte; 0: there are none. */
static size_t region_of(const struct levels *l, const struct place *place) {
    return l->regions ? regions_at(l->regions, place->offset) : 0;
}

/* What all levels but tokens end with. */
static txl_status put_sums(struct levels *l, enum level level, const struct sums *sums,
                           double corrected, double end, double entropy, double reduction) {
    struct table *table = &l->table[level];
    table_integer(table, sums->tokens);
    table_integer(table, sums->unknown);
    table_real(table, sums->nats / LN_2);
    table_real(table, sums->nats);
    if (has_corrected(l, level))
        put_number(table, corrected / LN_2);
    if (level == LEVEL_TEXT)
        table_real(table, end / LN_2);
    if (l->wanted.entropy) {
        put_number(table, entropy);
        put_number(table, reduction);
    }
    if (l->wanted.comparison) {
        table_real(table, sums->nats_other);
        table_real(table, sums->kl);
    }
    return table_end_row(table);
}

/* What all rows begin with. */
static void put_start(struct levels *l, enum level level, size_t own, uint64_t line) {
    table_own(&l->table[level], l->own, l->own->by_region ? own : 0);
    table_integer(&l->table[level], line);
    table_integer(&l->table[level], l->text_n);
}

/* Receives the words. */
static txl_status take_word(void *context, const struct found_word *word, txl_error *error) {
    struct levels *l = context;
    struct table *table = &l->table[LEVEL_WORD];
    const struct place *place = &word->place;
    l->n_word++;
    sums_add(&l->sums, &word->sums);
    l->corrected += word->corrected;
    if (!is_open(l, LEVEL_WORD))
        return TXL_OK;
    put_start(l, LEVEL_WORD, region_of(l, place), place->line);
    table_integer(table, word->number);
    put_region(l, table, region_of(l, place));
    txl_status status = table_source(table, l->source, place->offset, place->bytes, error);
    if (status)
        return status;
    table_integer(table, place->offset);
    table_integer(table, place->bytes);
    return put_sums(l, LEVEL_WORD, &word->sums, word->corrected, 0, word->entropy, word->reduction);
}

static void put_symbol(struct levels *l, int32_t id) {
    size_t length = 0;
    const char *symbol = txl_model_symbol(l->model, id, &length);
    table_text(&l->table[LEVEL_TOKEN], symbol, length);
}

static void put_alternatives(struct levels *l, const struct scored *token) {
    struct table *table = &l->table[LEVEL_TOKEN];
    const float *logprob = token->logprob[0];
    const int32_t n = txl_model_n_token(l->model);
    table_real(table, exp(-(double)token->nats[0]));
    table_integer(table, (uint64_t)rank_of(token->id, logprob, n));
    table_real(table, entropy_of(logprob, n));
    likeliest(logprob, n, l->top, l->wanted.n_top);
    for (int32_t i = 0; i < l->wanted.n_top; i++) {
        put_symbol(l, l->top[i]);
        table_real(table, fmax(-(double)logprob[l->top[i]], 0));
    }
}

static txl_status put_token(struct levels *l, const struct scored *token, size_t region,
                            txl_error *error) {
    struct table *table = &l->table[LEVEL_TOKEN];
    const struct place *place = token->place;
    const uint64_t word = words_number(&l->words);
    put_start(l, LEVEL_TOKEN, region_of(l, place), place->line);
    table_integer(table, token->index);
    table_integer(table, (uint64_t)token->id);
    put_symbol(l, token->id);
    txl_status status = table_source(table, l->source, place->offset, place->bytes, error);
    if (status)
        return status;
    table_integer(table, place->offset);
    table_integer(table, place->bytes);
    if (word > 0)
        table_integer(table, word);
    else
        table_unknown(table);
    put_region(l, table, region);
    table_real(table, (double)token->nats[0] / LN_2);
    table_real(table, (double)token->nats[0]);
    if (l->wanted.comparison) {
        table_real(table, (double)token->nats[1]);
        table_real(table, l->wanted.comparison->last_divergence);
    }
    if (l->wanted.n_top > 0)
        put_alternatives(l, token);
    return table_end_row(table);
}

/* ---- Regions ------------------------------------------------------------------------------ */

/* Whether a word is at this byte. */
static bool is_boundary(const struct buffer *text, size_t at) {
    return at == 0 || space_at_end(text->data, at) > 0;
}

/* Where a token of another row, or what closes the text, comes next. */
static void leave_row(struct levels *l, const struct moment *before) {
    struct region *left = &l->regions->list[l->row];
    left->reduction = left->entropy - before->entropy;
}

/* Adds a token to its region: that of its first byte that is not white space, and for `corrected`
 * as words have it.  Returns the region's number, 0 for a token after the last word. */
static size_t add_to_region(struct levels *l, const struct scored *token, const struct sums *sums,
                            const struct moment *before) {
    const struct buffer *text = &l->regions->text;
    const size_t begin = (size_t)token->place->offset, end = begin + (size_t)token->place->bytes,
                 solid = regions_solid(l->regions, begin);
    struct region *list = l->regions->list, *last = l->region > 0 ? &list[l->region] : NULL;
    const bool is_white = solid >= end, subwords = l->words.subwords;
    if (solid >= text->length) { /* nothing but what closes the text */
        if (!l->is_closing)
            leave_row(l, before);
        if (last && !l->is_closing && l->begins)
            last->corrected -= before->begins;
        l->is_closing = true;
        return 0;
    }
    const size_t number = regions_at(l->regions, solid);
    struct region *region = &list[number];
    const bool moves = l->begins && is_white && (!subwords || token->id == txl_model_eos(l->model));
    const double boundary = subwords && is_boundary(text, solid) ? before->begins : 0;
    if (region != last && !moves) {
        if (last)
            last->corrected -= boundary;
        region->corrected += boundary;
    }
    if (number != l->row)
        leave_row(l, before);
    l->row = number;
    if (region->tokens == 0)
        region->entropy = before->entropy;
    region->reduction = NAN;
    region->tokens += sums->tokens;
    region->unknown += sums->unknown;
    region->nats += sums->nats;
    region->nats_other += sums->nats_other;
    region->kl += sums->kl;
    if (!moves)
        region->corrected += sums->nats;
    else if (last)
        last->corrected += sums->nats;
    if (!moves)
        l->region = number;
    return number;
}

static txl_status put_regions(struct levels *l) {
    struct table *table = &l->table[LEVEL_REGION];
    const struct regions *regions = l->regions;
    txl_status status = TXL_OK;
    bool in_word = false;
    size_t begin = 0;
    for (size_t i = 1; i < regions->n && !status; i++) {
        const struct region *r = &regions->list[i];
        const struct sums sums = {r->tokens, r->unknown, r->nats, r->nats_other, r->kl};
        put_start(l, LEVEL_REGION, i, l->record);
        table_integer(table, i);
        table_text(table, regions->text.data + begin, r->end - begin);
        table_integer(table, regions_words(&regions->text, begin, r->end, &in_word));
        status = put_sums(l, LEVEL_REGION, &sums, r->corrected, 0, r->tokens > 0 ? r->entropy : NAN,
                          r->tokens > 0 ? r->reduction : NAN);
        begin = r->end;
    }
    return status;
}

/* ---- Texts -------------------------------------------------------------------------------- */

txl_status levels_start(struct levels *l, struct source *source, struct regions *regions,
                        bool parted, uint64_t record) {
    txl_status status = TXL_OK;
    l->text_n++;
    l->record = record;
    l->source = source;
    l->regions = regions;
    l->parted = parted;
    l->n_word = 0;
    l->sums = (struct sums){0};
    l->corrected = 0;
    l->region = l->row = 0;
    l->is_closing = false;
    l->words = (struct words){.model = l->model,
                              .begins = l->begins,
                              .subwords = model_unit(l->model) == TXL_UNIT_PIECE,
                              .has_marks = !txl_kind_takes_bytes(txl_model_kind(l->model)),
                              .found = take_word,
                              .context = l};
    words_start(&l->words, source, record);
    for (enum level i = 0; i < N_LEVEL && record > 0 && !status; i++)
        status = table_hold(&l->table[i], l->own);
    return status;
}

txl_status levels_token(void *context, const struct scored *token, txl_error *error) {
    struct levels *l = context;
    struct moment before = {0};
    struct sums sums = {.tokens = 1, .unknown = token->unknown, .nats = (double)token->nats[0]};
    size_t region = 0;
    if (l->begins || l->wanted.entropy)
        before = moment_of(l->model, l->begins, l->wanted.entropy, token);
    if (l->wanted.comparison) {
        sums.nats_other = (double)token->nats[1];
        sums.kl = l->wanted.comparison->last_divergence;
    }
    if (l->words.word.number == 0 && l->words.white.tokens == 0)
        l->first = before;
    txl_status status = words_token(&l->words, token, &sums, &before, error);
    if (!status && l->regions)
        region = add_to_region(l, token, &sums, &before);
    return !status && is_open(l, LEVEL_TOKEN) ? put_token(l, token, region, error) : status;
}

static txl_status put_text(struct levels *l) {
    struct table *table = &l->table[LEVEL_TEXT];
    const struct words *w = &l->words;
    const double reduction = w->white.tokens > 0 ? l->first.entropy - w->before_white.entropy : NAN;
    put_start(l, LEVEL_TEXT, 1, l->record > 0 ? l->record : 1);
    if (l->regions)
        table_text(table, l->regions->text.data, l->regions->text.length);
    else
        table_unknown(table); /* running text may be of any length */
    table_integer(table, l->n_word);
    return put_sums(l, LEVEL_TEXT, &l->sums, l->corrected, w->white.nats, l->first.entropy,
                    reduction);
}

txl_status levels_end(struct levels *l, bool cut, txl_error *error) {
    txl_status status = words_end(&l->words, cut, error);
    if (!status && is_open(l, LEVEL_REGION) && l->regions)
        status = put_regions(l);
    if (!status && is_open(l, LEVEL_TEXT))
        status = put_text(l);
    for (enum level i = 0; i < N_LEVEL && l->record > 0 && !status; i++)
        status = table_repeat(&l->table[i], l->own);
    return status;
}
