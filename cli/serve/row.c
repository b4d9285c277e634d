/* Reads a prompt and writes behind it. */
#include "row.h"

#include "lib/base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static txl_status fail_for_memory(txl_error *error) {
    return txl_fail(error, TXL_MEMORY, "out of memory");
}

size_t row_prompt_tokens(const struct row *r) {
    return r->n - r->n_before;
}

size_t row_score_of(const struct row *r, size_t token) {
    size_t prompt = row_prompt_tokens(r);
    if (token < prompt)
        return token + r->n_before;
    return token - prompt + (r->scoring ? r->n : 0);
}

/* ---- Beginning and end --------------------------------------------------------------------- */

/* Where the tokens of a prompt of text end.  Of the pieces of one character, of which each stands
 * for all of it, the last has its text, as a decoder has it. */
static bool end_prompt_tokens(struct row *r, const struct prompt_tokens *t) {
    size_t end = 0;
    bool good = true;
    for (size_t i = 0; i < t->list.n && good; i++) {
        bool goes_on = i + 1 < t->list.n && t->begins[i + 1] < t->ends[i];
        end = goes_on ? end : t->ends[i];
        good = buffer_append(&r->prompt_ends, &end, sizeof end);
    }
    return good;
}

txl_status row_open(struct row *r, const struct model *model, const struct former_text *former,
                    bool special, txl_error *error) {
    const struct id_list *list = &r->tokens->list, *before = &former->list;
    int32_t first = txl_model_first_context(model->handle);
    bool context = list->n == 0 || (special && list->ids[0] != first);
    r->n_context = before->n > 0 ? former->context : context;
    r->n_before = before->n > 0 ? before->n : r->n_context;
    r->tail = former->tail;
    r->n = list->n + r->n_before;
    r->ids = malloc(r->n * sizeof *r->ids);
    if (!r->ids)
        return fail_for_memory(error);
    r->ids[0] = first;
    if (before->n > 0)
        memcpy(r->ids, before->ids, before->n * sizeof *r->ids);
    if (list->n > 0)
        memcpy(r->ids + r->n_before, list->ids, list->n * sizeof *r->ids);
    const struct prompt_tokens *t = r->tokens;
    if (!t->text)
        return txl_decoder_new(model->handle, r->rules->raw, &r->decoder, error);
    bool good = buffer_append(&r->prompt_text, t->text, t->length) && end_prompt_tokens(r, t);
    return good ? TXL_OK : fail_for_memory(error);
}

void row_close(struct row *r) {
    text_close(&r->text);
    token_scores_free(&r->scores);
    id_list_free(&r->made);
    buffer_free(&r->spelled);
    buffer_free(&r->ends);
    buffer_free(&r->prompt_text);
    buffer_free(&r->prompt_ends);
    txl_decoder_free(r->decoder);
    free(r->ids);
    *r = (struct row){.state = ROW_DONE};
}

bool row_former_text(const struct row *r, struct former_text *former) {
    const struct buffer *made = &r->spelled, *prompt = &r->prompt_text;
    const struct buffer *last = made->length > 0 ? made : prompt;
    *former =
        (struct former_text){.context = r->n_context > 0,
                             .tail = last->length > 0 ? last->data[last->length - 1] : r->tail};
    bool good = true;
    for (size_t i = 0; i < r->n && good; i++)
        good = id_list_add(&former->list, r->ids[i]);
    for (size_t i = 0; i < r->made.n && good; i++)
        good = id_list_add(&former->list, r->made.ids[i]);
    if (!good)
        former_text_free(former);
    return good;
}

/* ---- The prompt ---------------------------------------------------------------------------- */

static struct prefix_need need_of(const struct row *r, size_t n) {
    return (struct prefix_need){.ids = r->ids, .n = n, .scores = r->scoring ? &r->scores : NULL};
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

void row_release_session(struct row *r, struct session_pool *pool) {
    txl_session *session = r->text.session;
    r->text.session = NULL;
    if (r->own_settings || pool->n_idle == MOST_IDLE) {
        txl_session_free(session);
        return;
    }
    txl_session_reset(session);
    pool->idle[pool->n_idle++] = session;
}

/* Decodes ids [r->done, end) of the prompt. */
static txl_status decode_prompt(struct row *r, size_t end, txl_error *error) {
    const char *text;
    size_t length;
    for (size_t i = r->done; r->decoder && i < end; i++) {
        if (i < r->n_context)
            continue;
        txl_status status = txl_decoder_push(r->decoder, r->ids[i], &text, &length, error);
        if (status)
            return status;
        bool good = i < r->n_before || buffer_append(&r->prompt_text, text, length);
        if (good && i + 1 == r->n) {
            status = txl_decoder_finish(r->decoder, &text, &length, error);
            good = !status && buffer_append(&r->prompt_text, text, length);
        }
        if (status)
            return status;
        size_t at = r->prompt_text.length;
        good = good && (i < r->n_before || buffer_append(&r->prompt_ends, &at, sizeof at));
        if (!good)
            return fail_for_memory(error);
    }
    return TXL_OK;
}

txl_status row_start(struct row *r, struct session_pool *pool, txl_error *error) {
    const struct prefix_need need = need_of(r, r->n);
    bool refreshes = (r->rules->reading.both_sides && !r->scoring) || r->in_parts;
    const struct prefix *p = refreshes ? NULL : prefix_cache_find(&pool->prefixes, &need);
    txl_session *session;
    txl_status status = new_session(pool, p ? p->session : pool->unfed, &session, error);
    if (status)
        return status;
    status = text_open(&r->text, r->rules, session, error);
    if (status)
        return status;
    r->state = ROW_READING;
    if (!p)
        return TXL_OK;
    status = decode_prompt(r, p->n, error);
    r->done = p->n;
    size_t skipped = r->rules->reading.both_sides ? 0 : r->n_context;
    if (p->n > skipped)
        txl_history_push(r->text.history, r->ids + skipped, p->n - skipped);
    if (!status && r->scoring && !token_scores_add_first(&r->scores, &p->scores, p->n))
        status = fail_for_memory(error);
    return status;
}

/* The distribution in the place of the first id to be read, by the session as it is. */
static txl_status score_first(struct row *r, struct session_pool *pool, txl_error *error) {
    int32_t n_token = txl_model_n_token(pool->model->handle);
    if (r->done == 0)
        return token_scores_add_none(&r->scores) ? TXL_OK : fail_for_memory(error);
    txl_status status = txl_session_logprobs(r->text.session, pool->logprob, error);
    if (!status && !token_scores_add(&r->scores, r->ids[r->done], pool->logprob, n_token))
        status = fail_for_memory(error);
    return status;
}

static txl_status feed_scored(struct row *r, struct session_pool *pool, size_t n,
                              txl_error *error) {
    int32_t n_token = txl_model_n_token(pool->model->handle);
    const int32_t *ids = r->ids + r->done;
    size_t last = pool->by_segment && r->done + n == r->n && n > 1; /* fed alone */
    txl_status status = score_first(r, pool, error);
    if (!status)
        status = txl_session_distributions(r->text.session, ids, n - last, pool->logprob, error);
    if (!status && last > 0)
        status = txl_session_feed(r->text.session, ids + n - last, last, error);
    for (size_t i = 1; i < n && !status; i++)
        if (!token_scores_add(&r->scores, ids[i], pool->logprob + (i - 1) * (size_t)n_token,
                              n_token))
            status = fail_for_memory(error);
    return status;
}

/* A model that sees both sides writes in a session with a memory of its own length, and reads what
 * is known as a block. */
static txl_status refresh_session(struct row *r, txl_error *error) {
    txl_session *session;
    txl_status status =
        txl_session_new(r->rules->model->handle, &r->rules->settings, &session, error);
    if (status)
        return status;
    txl_session_free(r->text.session);
    r->text.session = session;
    r->own_settings = true;
    return reading_refresh(&r->rules->reading, session, r->text.history, error);
}

/* The prompt was read. */
static txl_status begin_writing(struct row *r, txl_error *error) {
    const struct buffer *text = &r->prompt_text;
    char tail = text->length > 0 ? text->data[text->length - 1] : r->tail;
    txl_decoder_free(r->decoder);
    r->decoder = NULL;
    r->state = r->most > 0 ? ROW_WRITING : ROW_DONE;
    if (r->most == 0)
        r->text.done = "length";
    txl_status status =
        r->most > 0 && r->rules->reading.both_sides ? refresh_session(r, error) : TXL_OK;
    if (status)
        return status;
    const struct text_start start = {
        .random = {.seed = (uint64_t)r->rules->options->seed, .stream = r->number},
        .tail = tail,
        .first_banned = r->first_banned};
    return r->most > 0 ? text_start(&r->text, &start, error) : TXL_OK;
}

txl_status row_read(struct row *r, struct session_pool *pool, txl_error *error) {
    size_t n = smaller(r->n - r->done, pool->chunk), end = r->done + n;
    const int32_t *ids = r->ids + r->done;
    txl_status status = TXL_OK;
    bool refreshes = r->rules->reading.both_sides && !r->scoring; /* all of it, once it is known */
    if (n > 0 && r->scoring)
        status = feed_scored(r, pool, n, error);
    else if (n > 0 && !refreshes)
        status = txl_session_feed(r->text.session, ids, n, error);
    if (!status)
        status = decode_prompt(r, end, error);
    if (status)
        return status;
    bool counts =
        r->rules->reading.both_sides; /* the first context: it is read again with the rest */
    size_t skipped = r->done < r->n_context && !counts ? r->n_context - r->done : 0;
    if (n > skipped)
        txl_history_push(r->text.history, ids + skipped, n - skipped);
    r->done = end;
    if (!r->own_settings && !refreshes && n == pool->chunk && r->n - end < pool->chunk) {
        const struct prefix_need need = need_of(r, end);
        prefix_cache_keep(&pool->prefixes, &need, r->text.session);
    }
    return end == r->n ? begin_writing(r, error) : TXL_OK;
}

/* ---- What is written ----------------------------------------------------------------------- */

bool row_note(struct row *r) {
    const struct text *t = &r->text;
    bool good =
        t->refused || (id_list_add(&r->made, t->id) &&
                       buffer_append(&r->spelled, t->decoded.data, t->decoded.length) &&
                       buffer_append(&r->ends, &r->spelled.length, sizeof r->spelled.length) &&
                       (r->top < 0 || token_scores_add_drawn(&r->scores, t->id, t->logprob,
                                                             t->top_ids, t->top_logprobs)));
    if (t->done)
        r->state = ROW_DONE;
    return good;
}
