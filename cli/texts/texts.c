/* Texts side by side: draws for each, feeds all. */
#include "text.h"

#include "lib/base/error.h"

#include <string.h>

/* The most memory that texts made together may take. */
static const uint64_t MOST_BYTES = (uint64_t)4 << 30;

size_t texts_most(const struct text_rules *rules) {
    uint64_t fit = MOST_BYTES / txl_session_bytes(rules->network, &rules->settings);
    return fit > TEXTS_TOGETHER ? TEXTS_TOGETHER : fit > 0 ? (size_t)fit : 1;
}

void texts_add(struct texts *all, struct text *text) {
    all->list[all->n++] = text;
}

static void remove_at(struct texts *all, size_t i) {
    all->n--;
    memmove(&all->list[i], &all->list[i + 1], (all->n - i) * sizeof(struct text *));
}

void texts_remove(struct texts *all, const struct text *text) {
    for (size_t i = 0; i < all->n; i++)
        if (all->list[i] == text)
            remove_at(all, i);
}

struct text *texts_take(struct texts *all) {
    for (size_t i = 0; i < all->n; i++) {
        struct text *text = all->list[i];
        if (!text->done && !text->status)
            continue;
        remove_at(all, i);
        return text;
    }
    return NULL;
}

void texts_draw(struct texts *all) {
    for (size_t i = 0; i < all->n; i++) {
        struct text *text = all->list[i];
        if (text->paused || text->done || text->status)
            continue;
        text->status = text_draw(text, &text->error);
        text->drawn = !text->status;
    }
}

/* Whether the token just drawn ends a round: then all known tokens are read again, instead of
 * feeding it. */
static bool ends_round(struct text *text) {
    const struct reading *reading = &text->rules->reading;
    if (!reading->both_sides)
        return false;
    text->round++;
    if (reading->refresh == 0 || text->round < reading->refresh)
        txl_session_end_segment(text->session);
    else
        text->round = 0;
    return reading->refresh > 0 && text->round == 0;
}

/* Whether what was drawn is still to be fed by txl_session_feed_each. */
static bool is_fed(struct text *text) {
    if (!text->drawn || (text->done && (!text->rules->keeps || text->refused)))
        return false;
    if (!ends_round(text))
        return true;
    text->status =
        reading_refresh(&text->rules->reading, text->session, text->history, &text->error);
    return false;
}

/* Whether the sessions of two texts can be fed in one call. */
static bool are_alike(const struct text *a, const struct text *b) {
    return a->rules->network == b->rules->network &&
           a->rules->settings.arithmetic == b->rules->settings.arithmetic;
}

/* Feeds text `first` and those after it that go together with it, up to eight in all. */
static void feed_alike(struct texts *all, size_t first) {
    struct text *fed[TEXTS_TOGETHER];
    txl_session *session[TEXTS_TOGETHER] = {NULL};
    int32_t id[TEXTS_TOGETHER] = {0};
    txl_error error;
    size_t n = 0;
    for (size_t i = first; i < all->n && n < TEXTS_TOGETHER; i++) {
        struct text *text = all->list[i];
        if (!text->drawn || !are_alike(all->list[first], text))
            continue;
        text->drawn = false;
        session[n] = text->session;
        id[n] = text->id;
        fed[n++] = text;
    }
    txl_status status = txl_session_feed_each(session, n, id, &error);
    for (size_t i = 0; i < n && status; i++) {
        fed[i]->status = status;
        fed[i]->error = error;
    }
}

/* Lets the session of a text without company read ahead. */
static void draft(struct text *text) {
    if (!text->drafts || text_rules_read_text(text->rules))
        return;
    text->status = drafts_feed(text->drafts, text->session, text->id, &text->error);
    text->drawn = !text->status;
}

void texts_feed(struct texts *all) {
    for (size_t i = 0; i < all->n; i++)
        all->list[i]->drawn = is_fed(all->list[i]);
    if (all->n == 1 && all->list[0]->drawn)
        draft(all->list[0]);
    for (size_t i = 0; i < all->n; i++)
        if (all->list[i]->drawn)
            feed_alike(all, i);
}
