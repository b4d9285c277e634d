/* The kept beginnings of texts: of sessions the one that was not used longest goes first, of
 * answers the oldest. */
#include "prefix_cache.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void forget(struct prefix *p) {
    txl_session_free(p->session);
    token_scores_free(&p->scores);
    free(p->ids);
    *p = (struct prefix){0};
}

static bool suffices(const struct prefix *p, const struct prefix_need *need) {
    if (!p->session || p->n > need->n || memcmp(p->ids, need->ids, p->n * sizeof *p->ids) != 0)
        return false;
    return !need->scores || (p->scored && p->scores.k >= need->scores->k &&
                             (p->scores.detailed || !need->scores->detailed));
}

static struct prefix *find(struct prefix_cache *all, const struct prefix_need *need) {
    struct prefix *best = NULL;
    for (size_t i = 0; i < all->most; i++)
        if (suffices(&all->list[i], need) && (!best || all->list[i].n > best->n))
            best = &all->list[i];
    if (best)
        best->used = ++all->time;
    return best;
}

struct prefix *prefix_cache_find(struct prefix_cache *all, const struct prefix_need *need) {
    struct prefix *p = find(all, need);
    atomic_fetch_add(&all->asked, 1);
    atomic_fetch_add(&all->found, p ? 1 : 0);
    return p;
}

/* A free place, or that of the one not used for longest; first of all one that says less about the
 * same ids. */
static struct prefix *choose_place(struct prefix_cache *all, const struct prefix_need *need) {
    struct prefix *place = &all->list[0];
    for (size_t i = 0; i < all->most; i++) {
        struct prefix *p = &all->list[i];
        if (p->n == need->n && memcmp(p->ids, need->ids, p->n * sizeof *p->ids) == 0)
            return p;
        if (p->used < place->used)
            place = p;
    }
    return place;
}

void prefix_cache_keep(struct prefix_cache *all, const struct prefix_need *need,
                       txl_session *session) {
    const struct prefix *known = all->most > 0 ? find(all, need) : NULL;
    if (all->most == 0 || (known && known->n == need->n))
        return;
    struct prefix *p = choose_place(all, need);
    forget(p);
    p->ids = malloc(need->n * sizeof *p->ids);
    if (!p->ids || txl_session_copy(session, &p->session, NULL)) {
        forget(p);
        return;
    }
    memcpy(p->ids, need->ids, need->n * sizeof *p->ids);
    p->n = need->n;
    p->used = ++all->time;
    if (!need->scores)
        return;
    p->scored = true;
    p->scores = (struct token_scores){
        .k = need->scores->k, .detailed = need->scores->detailed, .of = need->scores->of};
    if (!token_scores_add_first(&p->scores, need->scores, need->n))
        forget(p);
}

void prefix_cache_free(struct prefix_cache *all) {
    for (size_t i = 0; i < MOST_PREFIXES; i++)
        forget(&all->list[i]);
}

/* ---- Former answers ------------------------------------------------------------------------ */

void answer_name(uint64_t name, char text[ANSWER_NAME]) {
    snprintf(text, ANSWER_NAME, "cmpl-%016" PRIx64, name);
}

void former_text_free(struct former_text *former) {
    id_list_free(&former->list);
    *former = (struct former_text){0};
}

void former_texts_open(struct former_texts *all) {
    *all = (struct former_texts){0};
    pthread_mutex_init(&all->lock, NULL);
}

static void forget_oldest(struct former_texts *all) {
    struct former_text *former = &all->list[all->first].former;
    all->n_ids -= former->list.n;
    former_text_free(former);
    all->first = (all->first + 1) % MOST_FORMER_TEXTS;
    all->n--;
}

void former_texts_close(struct former_texts *all) {
    while (all->n > 0)
        forget_oldest(all);
    pthread_mutex_destroy(&all->lock);
}

void former_texts_keep(struct former_texts *all, uint64_t name, size_t choice,
                       struct former_text *former) {
    pthread_mutex_lock(&all->lock);
    while (all->n > 0 &&
           (all->n == MOST_FORMER_TEXTS || all->n_ids + former->list.n > MOST_FORMER_TOKENS))
        forget_oldest(all);
    all->list[(all->first + all->n++) % MOST_FORMER_TEXTS] =
        (struct kept_text){name, choice, *former};
    all->n_ids += former->list.n;
    pthread_mutex_unlock(&all->lock);
    *former = (struct former_text){0};
}

/* Whether the text names choice K of the answer; without ":K" it names the first. */
static bool is_named(const struct kept_text *kept, const char *text) {
    char name[ANSWER_NAME];
    answer_name(kept->name, name);
    size_t n = strlen(name);
    if (kept->choice == 0 && strcmp(name, text) == 0)
        return true;
    snprintf(name + n, sizeof name - n, ":%zu", kept->choice);
    return strcmp(name, text) == 0;
}

bool former_texts_find(struct former_texts *all, const char *name, struct former_text *former) {
    bool good = true;
    *former = (struct former_text){0};
    pthread_mutex_lock(&all->lock);
    for (size_t i = 0; i < all->n && former->list.n == 0 && good; i++) {
        const struct kept_text *kept = &all->list[(all->first + i) % MOST_FORMER_TEXTS];
        if (!is_named(kept, name))
            continue;
        *former = (struct former_text){.context = kept->former.context, .tail = kept->former.tail};
        for (size_t k = 0; k < kept->former.list.n && good; k++)
            good = id_list_add(&former->list, kept->former.list.ids[k]);
    }
    pthread_mutex_unlock(&all->lock);
    return good;
}
