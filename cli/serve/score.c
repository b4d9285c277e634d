/* Scores texts, each after its context alone, and sums their regions. */
#include "endpoints.h"

#include "answers.h"
#include "cli/io/output.h"
#include "cli/score/regions.h"
#include "cli/score/source.h"
#include "cli/score/table_writer.h"
#include "cli/score/words.h"
#include "lib/base/white_space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A text, as the request has it. */
struct item {
    json_t *item, *condition; /* of the request; NULL: none */
    struct regions regions;
    size_t n_before; /* bytes of the context in what was encoded */
    size_t first;    /* token of the text */
};

struct scoring {
    struct item *items; /* [n] */
    size_t n;
    bool lists_top, no_eos, compares;
};

/* ---- The request --------------------------------------------------------------------------- */

/* The string under a name, "" where there is none and it is not needed. */
static bool read_string(const json_t *object, const char *name, bool needed, const char **text,
                        size_t *length, struct problem *problem) {
    const json_t *value = json_object_get(object, name);
    bool none = !value || json_is_null(value);
    *text = "";
    *length = 0;
    if (none && !needed)
        return true;
    if (!json_is_string(value))
        return problem_set(problem, 400, name, none ? "an item has no %s" : "%s is no string",
                           name);
    *text = json_string_value(value);
    *length = json_string_length(value);
    return true;
}

/* Joins the context and the text, as a table of items does. */
static bool join_text(struct item *item, const txl_model *model, const char *context,
                      size_t n_context, struct buffer *all) {
    const struct buffer *bare = &item->regions.text;
    bool good = buffer_append(all, context, n_context);
    if (good && n_context > 0)
        before_open(all, model);
    good = good && before_join(all, bare->data, bare->length);
    item->n_before = all->length - bare->length;
    return good;
}

/* Tokens that end before the text are its context. */
static void find_first(struct item *item, const struct prompt_tokens *tokens) {
    while (item->first < tokens->list.n && tokens->ends[item->first] <= item->n_before &&
           item->n_before > 0)
        item->first++;
}

static bool read_item(struct job *job, const json_t *object, struct problem *problem) {
    struct scoring *s = job->more;
    struct item *item = &s->items[s->n++];
    struct prompt_tokens *tokens = &job->c.prompts[job->c.n_prompt++];
    const txl_model *model = job->work->model.handle;
    const char *text, *context;
    size_t length, n_context;
    struct buffer all = {0};
    if (!json_is_object(object))
        return problem_set(problem, 400, "items", "an item is no object");
    if (!read_string(object, "text", true, &text, &length, problem) ||
        !read_string(object, "context", false, &context, &n_context, problem))
        return false;
    item->item = json_incref(json_object_get(object, "item"));
    item->condition = json_incref(json_object_get(object, "condition"));
    bool good = regions_part(&item->regions, text, length) &&
                join_text(item, model, context, n_context, &all);
    if (!good)
        problem_lacks_memory(problem);
    const struct buffer *bare = &item->regions.text;
    if (good && is_all_space(bare->data, bare->length))
        good = problem_set(problem, 400, "text", "text is empty");
    const struct prompt_form form = {.raw = job->c.raw, .corpus = true};
    good = good && prompt_tokens_encode(tokens, model, &form, all.data, all.length, problem);
    buffer_free(&all);
    if (!good)
        return false;
    find_first(item, tokens);
    job->c.n_ids += tokens->list.n;
    return (item->first < tokens->list.n && job->c.n_ids <= MOST_TOKENS) ||
           problem_set(problem, 400, "items",
                       item->first < tokens->list.n ? "more than %d tokens in all"
                                                    : "a text has no token to score",
                       MOST_TOKENS);
}

/* {"items": [...]}, or the members of one item. */
static bool read_items(struct job *job, const json_t *body, struct problem *problem) {
    struct scoring *s = job->more;
    const json_t *items = json_object_get(body, "items");
    size_t n = items ? json_array_size(items) : 1;
    if (n == 0 || n > MOST_PROMPTS)
        return problem_set(problem, 400, "items", "items is no list of 1 to %d texts",
                           MOST_PROMPTS);
    s->items = calloc(n, sizeof *s->items);
    job->c.prompts = calloc(n, sizeof *job->c.prompts);
    bool good = (s->items && job->c.prompts) || problem_lacks_memory(problem);
    for (size_t i = 0; i < n && good; i++)
        good = read_item(job, items ? json_array_get(items, i) : body, problem);
    return good;
}

static bool read_request(struct job *job, const json_t *body, struct problem *problem) {
    struct scoring *s = job->more;
    struct request *c = &job->c;
    int64_t most = job->work->pool.settings.mem_len, mem_len = -1;
    int32_t n_token = txl_model_n_token(job->work->model.handle);
    c->n = 1;
    c->special = true;
    c->arithmetic = job->work->pool.settings.arithmetic;
    bool good = body_raw(body, "split", &c->raw, problem) &&
                body_boolean(body, "stream", &c->stream, problem) &&
                body_boolean(body, "no_eos", &s->no_eos, problem) &&
                body_boolean(body, "compare", &s->compares, problem) &&
                body_string(body, "learned", &c->learned, problem) &&
                body_arithmetic(body, &c->arithmetic, problem) &&
                body_integer(body, "mem_len", 0, most, &mem_len, problem) &&
                body_integer(body, "logprobs", 0, n_token < MOST_TOP ? n_token : MOST_TOP, &c->top,
                             problem);
    job->settings = job->work->pool.settings;
    job->own_settings =
        (mem_len >= 0 && mem_len != most) || c->arithmetic != job->settings.arithmetic;
    job->settings.arithmetic = c->arithmetic;
    if (mem_len >= 0)
        job->settings.mem_len = (int)mem_len;
    s->lists_top = c->top > 0;
    good = good && job_choose_model(job, c->learned, s->compares, problem);
    return good && read_items(job, body, problem) && body_may_list(c->n_ids, c->top, problem);
}

/* ---- The answer ---------------------------------------------------------------------------- */

static struct item *item_of(const struct job *job, const struct slot *slot) {
    return &((struct scoring *)job->more)->items[slot->prompt];
}

/* Null for NAN. */
static json_t *real(double value) {
    return isnan(value) ? json_null() : json_real(value);
}

/* Where the token stands in the text without its bars; the symbol that closes it has no bytes. */
static struct place place_of(const struct job *job, const struct slot *slot, size_t token) {
    const struct item *item = item_of(job, slot);
    const struct prompt_tokens *t = slot->tokens;
    size_t length = item->regions.text.length;
    size_t begin = t->begins[token] < item->n_before ? 0 : t->begins[token] - item->n_before;
    size_t end = t->ends[token] - item->n_before;
    begin = smaller(begin, length);
    end = smaller(end, length);
    return (struct place){.offset = begin, .bytes = end - begin};
}

static json_t *token_object(const struct job *job, const struct slot *slot, size_t token) {
    const struct token_scores *scores = &slot->scores;
    const struct scoring *s = job->more;
    const struct token_spelling spelling = {.model = job->work->model.handle,
                                            .scratch = job->rules.scratch};
    const struct place place = place_of(job, slot, token);
    size_t at = slot_score_of(slot, token), length;
    int32_t id = slot->ids[at];
    const char *symbol = txl_model_symbol(spelling.model, id, &length);
    double nats = -(double)scores->logprob[at];
    json_t *object = json_pack(
        "{s:I, s:I, s:i, s:o, s:o, s:o, s:o, s:i}", "offset", (json_int_t)place.offset, "length",
        (json_int_t)place.bytes, "id", (int)id, "token", output_json_bytes(symbol, length), "text",
        output_json_bytes(item_of(job, slot)->regions.text.data + place.offset,
                          (size_t)place.bytes),
        "nats", real(nats), "entropy", real((double)scores->entropy[at]), "rank",
        (int)scores->rank[at]);
    if (object && scores->of && model_unit(spelling.model) == TXL_UNIT_PIECE)
        json_object_set_new(object, "begins", real((double)scores->begins[at]));
    bool good = !s->lists_top || !object ||
                json_object_set_new(object, "top", answer_top(&spelling, slot, token)) == 0;
    return output_json_if(good, object);
}

/* Without boundaries, whatever their place, as bits_end of txl surprisal. */
static bool is_listed(const struct job *job, const struct slot *slot, size_t token) {
    const struct scoring *s = job->more;
    size_t at = slot_score_of(slot, token);
    return !isnan(slot->scores.logprob[at]) &&
           !(s->no_eos && slot->ids[at] == txl_model_eos(job->work->model.handle));
}

/* The tokens of the text up to `end` that are not yet listed. */
static bool write_tokens(const struct job *job, struct slot *slot, size_t end, struct buffer *out) {
    bool good = answer_append(out, "["), some = false;
    slot->listed =
        slot->listed > item_of(job, slot)->first ? slot->listed : item_of(job, slot)->first;
    for (; slot->listed < end && good; slot->listed++) {
        if (!is_listed(job, slot, slot->listed))
            continue;
        good = (!some || answer_append(out, ",")) &&
               answer_write(out, token_object(job, slot, slot->listed));
        some = true;
    }
    return good && answer_append(out, "]");
}

/* Sums the tokens over the regions; returns the sum of all. */
static double sum_regions(const struct job *job, const struct slot *slot) {
    struct item *item = item_of(job, slot);
    const struct regions *regions = &item->regions;
    const txl_model *model = job->work->model.handle;
    double sum = 0;
    for (size_t i = item->first; i < slot_prompt_tokens(slot); i++) {
        size_t at = slot_score_of(slot, i);
        const struct place place = place_of(job, slot, i);
        const uint64_t end = place.offset + place.bytes;
        const size_t solid = regions_solid(regions, (size_t)place.offset);
        if (!is_listed(job, slot, i))
            continue;
        const bool closes =
            slot->ids[at] == txl_model_eos(model) && end >= regions->text.length && solid >= end;
        const size_t byte = solid < regions->text.length ? solid : (size_t)place.offset;
        struct region *region = &regions->list[closes ? 0 : regions_at(regions, byte)];
        region->tokens++;
        region->unknown += slot->ids[at] == txl_model_unk(model);
        region->nats -= (double)slot->scores.logprob[at];
        sum -= (double)slot->scores.logprob[at];
    }
    return sum;
}

static json_t *region_object(const struct regions *regions, size_t i, bool *in_word) {
    const struct region *region = &regions->list[i];
    size_t begin = i > 0 ? regions->list[i - 1].end : 0;
    const char *text = regions->text.data ? regions->text.data + begin : "";
    size_t length = i > 0 ? region->end - begin : 0;
    uint64_t words = i > 0 ? regions_words(&regions->text, begin, region->end, in_word) : 0;
    return json_pack("{s:I, s:o, s:I, s:I, s:f, s:f, s:I}", "region", (json_int_t)i, "text",
                     output_json_bytes(text, length), "words", (json_int_t)words, "tokens",
                     (json_int_t)region->tokens, "nats", region->nats, "bits", region->nats / LN_2,
                     "unknown", (json_int_t)region->unknown);
}

/* Regions from 1; the symbol that closes the text, region 0, comes last if there is one. */
static json_t *regions_list(const struct regions *regions) {
    json_t *list = json_array();
    bool in_word = false;
    int bad = 0;
    for (size_t i = 1; i < regions->n; i++)
        bad |= json_array_append_new(list, region_object(regions, i, &in_word));
    if (regions->list[0].tokens > 0)
        bad |= json_array_append_new(list, region_object(regions, 0, &in_word));
    return output_json_if(bad == 0, list);
}

/* ---- Words ------------------------------------------------------------------------------- */

/* The words of an item, as JSON. */
struct word_list {
    const struct regions *regions;
    json_t *list;
    bool lacks_memory;
};

/* With the columns of txl surprisal --per word as keys. */
static txl_status add_word(void *context, const struct found_word *word, txl_error *error) {
    struct word_list *words = context;
    const struct regions *regions = words->regions;
    const struct place *place = &word->place;
    const size_t region = regions_at(regions, place->offset);
    (void)error;
    json_t *object =
        json_pack("{s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:f, s:f, s:o}", "word_n",
                  (json_int_t)word->number, "region", (json_int_t)region, "word",
                  output_json_bytes(regions->text.data + place->offset, (size_t)place->bytes),
                  "offset", (json_int_t)place->offset, "length", (json_int_t)place->bytes, "tokens",
                  (json_int_t)word->sums.tokens, "unknown", (json_int_t)word->sums.unknown, "bits",
                  word->sums.nats / LN_2, "nats", word->sums.nats, "bits_corrected",
                  real(word->corrected / LN_2));
    words->lacks_memory = words->lacks_memory || json_array_append_new(words->list, object) != 0;
    return TXL_OK;
}

static json_t *words_list(const struct job *job, const struct slot *slot) {
    struct item *item = item_of(job, slot);
    const txl_model *model = job->work->model.handle;
    struct word_list list = {&item->regions, json_array(), false};
    struct source source;
    txl_error error;
    uint64_t reached = 0;
    struct words words = {.model = model,
                          .begins = slot->scores.of,
                          .subwords = model_unit(model) == TXL_UNIT_PIECE,
                          .found = add_word,
                          .context = &list};
    source_of_text(&source, item->regions.text.data, item->regions.text.length);
    words_start(&words, &source, 1);
    for (size_t i = item->first; i < slot_prompt_tokens(slot) && list.list; i++) {
        const size_t at = slot_score_of(slot, i);
        struct place place = place_of(job, slot, i);
        const uint64_t end = place.offset + place.bytes;
        if (isnan(slot->scores.logprob[at]))
            continue;
        place.share.bytes = end - reached;
        reached = end;
        const struct scored token = {.id = slot->ids[at], .place = &place};
        const struct moment before = {.begins = words.begins ? (double)slot->scores.begins[at] : 0};
        const struct sums sums = {.tokens = 1,
                                  .unknown = slot->ids[at] == txl_model_unk(model),
                                  .nats = -(double)slot->scores.logprob[at]};
        words_token(&words, &token, &sums, &before, &error); /* memory alone: it cannot fail */
    }
    words_end(&words, false, &error);
    return output_json_if(!list.lacks_memory, list.list);
}

/* What is known of a text at its end. */
static bool write_item(const struct job *job, struct slot *slot, struct buffer *out) {
    struct item *item = item_of(job, slot);
    double nats = sum_regions(job, slot);
    json_t *object = json_pack(
        "{s:I, s:O?, s:O?, s:o, s:f, s:f, s:I, s:o, s:o}", "index", (json_int_t)slot->prompt,
        "item", item->item, "condition", item->condition, "text",
        output_json_bytes(item->regions.text.data ? item->regions.text.data : "",
                          item->regions.text.length),
        "nats", nats, "bits", nats / LN_2, "unknown", (json_int_t)slot->tokens->unknown, "regions",
        regions_list(&item->regions), "words", words_list(job, slot));
    return answer_open(out, object) && answer_append(out, ",\"tokens\":") &&
           write_tokens(job, slot, slot_prompt_tokens(slot), out) && answer_append(out, "}");
}

static json_t *answer_object(const struct job *job) {
    const struct run_settings run = {
        .mode = "items",
        .text = text_form(job->work->model.handle, job->c.raw ? TEXT_RAW : TEXT_TOKENS, false),
        .context_start = true};
    const struct work *w = job->work;
    const struct scoring *s = job->more;
    const struct model *model = s->compares ? &w->compared : &w->model;
    json_t *settings = json_object();
    bool good = settings_to_json(settings, model, &job->settings, &run) &&
                output_json_append(settings, json_pack("{s:s*}", "learned", job->c.learned));
    return json_pack("{s:s, s:I, s:s, s:s, s:o}", "object", "score", "created",
                     (json_int_t)job->created, "model", model->name, "system_fingerprint",
                     s->compares ? w->compared_fingerprint : w->fingerprint, "settings",
                     output_json_if(good, settings));
}

/* Of a stream: the new tokens of a text, and at its end also its sums. */
static bool send_new(struct job *job, struct slot *slot) {
    size_t scored = slot->scores.n > slot->n_before ? slot->scores.n - slot->n_before : 0;
    struct buffer out = {0};
    bool good = true;
    if (slot->state != SLOT_DONE && (scored <= item_of(job, slot)->first || scored <= slot->listed))
        return true;
    if (slot->state == SLOT_DONE)
        good = write_item(job, slot, &out);
    else
        good = answer_open(&out, json_pack("{s:I}", "index", (json_int_t)slot->prompt)) &&
               answer_append(&out, ",\"tokens\":") && write_tokens(job, slot, scored, &out) &&
               answer_append(&out, "}");
    good = good && job_send_text(job, &out);
    buffer_free(&out);
    return good;
}

static bool finish(struct job *job) {
    struct buffer out = {0};
    if (job->c.stream)
        return job_send(job, answer_object(job));
    bool good = answer_open(&out, answer_object(job)) && answer_append(&out, ",\"items\":[");
    for (size_t i = 0; i < job->n_slot && good; i++)
        good = (i == 0 || answer_append(&out, ",")) && write_item(job, &job->slots[i], &out);
    good = good && answer_append(&out, "]}");
    if (good)
        job_answer_text(job, &out);
    buffer_free(&out);
    return good;
}

static void free_scoring(struct job *job) {
    struct scoring *s = job->more;
    for (size_t i = 0; s && i < s->n; i++) {
        json_decref(s->items[i].item);
        json_decref(s->items[i].condition);
        regions_free(&s->items[i].regions);
    }
    if (s)
        free(s->items);
    free(s);
}

static const struct job_kind kind = {.send = send_new, .finish = finish, .free = free_scoring};

bool score_take(struct work *work, struct exchange *exchange, const struct text_options *usual,
                const json_t *body, struct problem *problem) {
    struct job *job = job_new(work, exchange, &kind);
    if (!job || !(job->more = calloc(1, sizeof(struct scoring)))) {
        if (job)
            job_free(job);
        return problem_lacks_memory(problem);
    }
    job->c.options = *usual;
    bool good = read_request(job, body, problem) && job_open_slots(job, true, true, problem);
    return work_take(work, job, good, problem);
}
