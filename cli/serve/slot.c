/* Reads a prompt and writes behind it. */
#include "slot.h"

#include "lib/base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static txl_status fail_for_memory(txl_error *error) {
    return txl_fail(error, TXL_MEMORY, "out of memory");
}

size_t slot_prompt_tokens(const struct slot *slot) {
    return slot->n - slot->n_before;
}

size_t slot_score_of(const struct slot *slot, size_t token) {
    size_t prompt = slot_prompt_tokens(slot);
    if (token < prompt)
        return token + slot->n_before;
    return token - prompt + (slot->scoring ? slot->n : 0);
}

/* ---- Beginning and end --------------------------------------------------------------------- */

/* Where the tokens of a prompt of text end.  Of the pieces of one character, of which each stands
 * for all of it, the last has its text, as a decoder has it. */
static bool end_prompt_tokens(struct slot *slot, const struct prompt_tokens *t) {
    size_t end = 0;
    bool good = true;
    for (size_t i = 0; i < t->list.n && good; i++) {
        bool continues = i + 1 < t->list.n && t->begins[i + 1] < t->ends[i];
        end = continues ? end : t->ends[i];
        good = buffer_append(&slot->prompt_ends, &end, sizeof end);
    }
    return good;
}

txl_status slot_open(struct slot *slot, const struct model *model, const struct former_text *former,
                     bool special, txl_error *error) {
    const struct id_list *list = &slot->tokens->list, *before = &former->list;
    int32_t first = txl_model_first_context(model->handle);
    bool context = list->n == 0 || (special && list->ids[0] != first);
    slot->n_context = before->n > 0 ? former->context : context;
    slot->n_before = before->n > 0 ? before->n : slot->n_context;
    slot->tail = former->tail;
    slot->n = list->n + slot->n_before;
    slot->ids = malloc(slot->n * sizeof *slot->ids);
    if (!slot->ids)
        return fail_for_memory(error);
    slot->ids[0] = first;
    if (before->n > 0)
        memcpy(slot->ids, before->ids, before->n * sizeof *slot->ids);
    if (list->n > 0)
        memcpy(slot->ids + slot->n_before, list->ids, list->n * sizeof *slot->ids);
    const struct prompt_tokens *t = slot->tokens;
    if (!t->text)
        return txl_decoder_new(model->handle, slot->rules->raw, &slot->decoder, error);
    bool good = buffer_append(&slot->prompt_text, t->text, t->length) && end_prompt_tokens(slot, t);
    return good ? TXL_OK : fail_for_memory(error);
}

void slot_close(struct slot *slot) {
    text_close(&slot->text);
    token_scores_free(&slot->scores);
    id_list_free(&slot->made);
    buffer_free(&slot->spelled);
    buffer_free(&slot->ends);
    buffer_free(&slot->prompt_text);
    buffer_free(&slot->prompt_ends);
    txl_decoder_free(slot->decoder);
    free(slot->ids);
    *slot = (struct slot){.state = SLOT_DONE};
}

bool slot_former_text(const struct slot *slot, struct former_text *former) {
    const struct buffer *made = &slot->spelled, *prompt = &slot->prompt_text;
    const struct buffer *last = made->length > 0 ? made : prompt;
    *former =
        (struct former_text){.context = slot->n_context > 0,
                             .tail = last->length > 0 ? last->data[last->length - 1] : slot->tail};
    bool good = true;
    for (size_t i = 0; i < slot->n && good; i++)
        good = id_list_add(&former->list, slot->ids[i]);
    for (size_t i = 0; i < slot->made.n && good; i++)
        good = id_list_add(&former->list, slot->made.ids[i]);
    if (!good)
        former_text_free(former);
    return good;
}

/* ---- The prompt ---------------------------------------------------------------------------- */

static struct prefix_need need_of(const struct slot *slot, size_t n) {
    return (struct prefix_need){
        .ids = slot->ids, .n = n, .scores = slot->scoring ? &slot->scores : NULL};
}

void pool_drop_idle(struct session_pool *pool) {
    if (pool->n_idle > 0)
        txl_session_free(pool->idle[--pool->n_idle]);
}

static txl_status new_session(struct session_pool *pool, txl_session *from, txl_session **session,
                              txl_error *error) {
    if (from == pool->unfed && pool->n_idle > 0) {
        *session = pool->idle[--pool->n_idle];
        return TXL_OK;
    }
    if (from == pool->unfed && pool->own_settings)
        return txl_session_new(pool->of, &pool->settings, session, error);
    pool_drop_idle(pool);
    return txl_session_copy(from, session, error);
}

void slot_release_session(struct slot *slot, struct session_pool *pool) {
    txl_session *session = slot->text.session;
    slot->text.session = NULL;
    if (slot->own_settings || pool->n_idle == MOST_IDLE) {
        txl_session_free(session);
        return;
    }
    txl_session_reset(session);
    pool->idle[pool->n_idle++] = session;
}

/* Decodes ids [slot->done, end) of the prompt. */
static txl_status decode_prompt(struct slot *slot, size_t end, txl_error *error) {
    const char *text;
    size_t length;
    for (size_t i = slot->done; slot->decoder && i < end; i++) {
        if (i < slot->n_context)
            continue;
        txl_status status = txl_decoder_push(slot->decoder, slot->ids[i], &text, &length, error);
        if (status)
            return status;
        bool good = i < slot->n_before || buffer_append(&slot->prompt_text, text, length);
        if (good && i + 1 == slot->n) {
            status = txl_decoder_finish(slot->decoder, &text, &length, error);
            good = !status && buffer_append(&slot->prompt_text, text, length);
        }
        if (status)
            return status;
        size_t at = slot->prompt_text.length;
        good = good && (i < slot->n_before || buffer_append(&slot->prompt_ends, &at, sizeof at));
        if (!good)
            return fail_for_memory(error);
    }
    return TXL_OK;
}

txl_status slot_start(struct slot *slot, struct session_pool *pool, txl_error *error) {
    const struct prefix_need need = need_of(slot, slot->n);
    bool refreshes = (slot->rules->reading.both_sides && !slot->scoring) || slot->in_parts;
    const struct prefix *p = refreshes ? NULL : prefix_cache_find(&pool->prefixes, &need);
    txl_session *session;
    txl_status status = new_session(pool, p ? p->session : pool->unfed, &session, error);
    if (status)
        return status;
    status = text_open(&slot->text, slot->rules, session, error);
    if (status)
        return status;
    slot->state = SLOT_READING;
    if (!p)
        return TXL_OK;
    status = decode_prompt(slot, p->n, error);
    slot->done = p->n;
    size_t skipped = slot->rules->reading.both_sides ? 0 : slot->n_context;
    if (p->n > skipped)
        txl_history_push(slot->text.history, slot->ids + skipped, p->n - skipped);
    if (!status && slot->scoring && !token_scores_add_first(&slot->scores, &p->scores, p->n))
        status = fail_for_memory(error);
    return status;
}

/* The distribution in the place of the first id to be read, by the session as it is. */
static txl_status score_first(struct slot *slot, struct session_pool *pool, txl_error *error) {
    int32_t n_token = txl_model_n_token(pool->model->handle);
    if (slot->done == 0)
        return token_scores_add_none(&slot->scores) ? TXL_OK : fail_for_memory(error);
    txl_status status = txl_session_logprobs(slot->text.session, pool->logprob, error);
    if (!status && !token_scores_add(&slot->scores, slot->ids[slot->done], pool->logprob, n_token))
        status = fail_for_memory(error);
    return status;
}

static txl_status feed_scored(struct slot *slot, struct session_pool *pool, size_t n,
                              txl_error *error) {
    int32_t n_token = txl_model_n_token(pool->model->handle);
    const int32_t *ids = slot->ids + slot->done;
    size_t last = pool->by_segment && slot->done + n == slot->n && n > 1; /* fed alone */
    txl_status status = score_first(slot, pool, error);
    if (!status)
        status = txl_session_distributions(slot->text.session, ids, n - last, pool->logprob, error);
    if (!status && last > 0)
        status = txl_session_feed(slot->text.session, ids + n - last, last, error);
    for (size_t i = 1; i < n && !status; i++)
        if (!token_scores_add(&slot->scores, ids[i], pool->logprob + (i - 1) * (size_t)n_token,
                              n_token))
            status = fail_for_memory(error);
    return status;
}

/* A model that sees both sides writes in a session with a memory of its own length, and reads what
 * is known as a block. */
static txl_status refresh_session(struct slot *slot, txl_error *error) {
    txl_session *session;
    txl_status status =
        txl_session_new(slot->rules->model->handle, &slot->rules->settings, &session, error);
    if (status)
        return status;
    txl_session_free(slot->text.session);
    slot->text.session = session;
    slot->own_settings = true;
    return reading_refresh(&slot->rules->reading, session, slot->text.history, error);
}

/* The prompt was read. */
static txl_status begin_writing(struct slot *slot, txl_error *error) {
    const struct buffer *text = &slot->prompt_text;
    char tail = text->length > 0 ? text->data[text->length - 1] : slot->tail;
    txl_decoder_free(slot->decoder);
    slot->decoder = NULL;
    slot->state = slot->most > 0 ? SLOT_WRITING : SLOT_DONE;
    if (slot->most == 0)
        slot->text.done = "length";
    txl_status status =
        slot->most > 0 && slot->rules->reading.both_sides ? refresh_session(slot, error) : TXL_OK;
    if (status)
        return status;
    const struct text_start start = {
        .random = {.seed = (uint64_t)slot->rules->options->seed, .stream = slot->number},
        .tail = tail,
        .first_banned = slot->first_banned};
    return slot->most > 0 ? text_start(&slot->text, &start, error) : TXL_OK;
}

txl_status slot_read(struct slot *slot, struct session_pool *pool, txl_error *error) {
    size_t n = smaller(slot->n - slot->done, pool->chunk), end = slot->done + n;
    const int32_t *ids = slot->ids + slot->done;
    txl_status status = TXL_OK;
    bool refreshes =
        slot->rules->reading.both_sides && !slot->scoring; /* all of it, once it is known */
    if (n > 0 && slot->scoring)
        status = feed_scored(slot, pool, n, error);
    else if (n > 0 && !refreshes)
        status = txl_session_feed(slot->text.session, ids, n, error);
    if (!status)
        status = decode_prompt(slot, end, error);
    if (status)
        return status;
    bool counts =
        slot->rules->reading.both_sides; /* the first context: it is read again with the rest */
    size_t skipped = slot->done < slot->n_context && !counts ? slot->n_context - slot->done : 0;
    if (n > skipped)
        txl_history_push(slot->text.history, ids + skipped, n - skipped);
    slot->done = end;
    if (!slot->own_settings && !refreshes && n == pool->chunk && slot->n - end < pool->chunk) {
        const struct prefix_need need = need_of(slot, end);
        prefix_cache_keep(&pool->prefixes, &need, slot->text.session);
    }
    return end == slot->n ? begin_writing(slot, error) : TXL_OK;
}

/* ---- What is written ----------------------------------------------------------------------- */

bool slot_note(struct slot *slot) {
    const struct text *t = &slot->text;
    bool good = t->refused ||
                (id_list_add(&slot->made, t->id) &&
                 buffer_append(&slot->spelled, t->decoded.data, t->decoded.length) &&
                 buffer_append(&slot->ends, &slot->spelled.length, sizeof slot->spelled.length) &&
                 (slot->top < 0 || token_scores_add_drawn(&slot->scores, t->id, t->logprob,
                                                          t->top_ids, t->top_logprobs)));
    if (t->done)
        slot->state = SLOT_DONE;
    return good;
}
