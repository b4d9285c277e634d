/* The kept beginnings of texts: of sessions the one that was not used longest goes first, of
 * answers the oldest. */
#include "prefixes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void forget(struct prefix *p) {
    txl_session_free(p->session);
    scores_free(&p->scores);
    free(p->ids);
    *p = (struct prefix){0};
}

static bool suffices(const struct prefix *p, const struct prefix_need *need) {
    if (!p->session || p->n > need->n || memcmp(p->ids, need->ids, p->n * sizeof *p->ids) != 0)
        return false;
    return !need->scores || (p->scored && p->scores.k >= need->scores->k &&
                             (p->scores.detailed || !need->scores->detailed));
}

static struct prefix *find(struct prefixes *all, const struct prefix_need *need) {
    struct prefix *best = NULL;
    for (size_t i = 0; i < all->most; i++)
        if (suffices(&all->list[i], need) && (!best || all->list[i].n > best->n))
            best = &all->list[i];
    if (best)
        best->used = ++all->time;
    return best;
}

struct prefix *prefixes_find(struct prefixes *all, const struct prefix_need *need) {
    struct prefix *p = find(all, need);
    all->asked++;
    all->found += p != NULL;
    return p;
}

/* A free place, or that of the one not used for longest; first of all one that says less about the
 * same ids. */
static struct prefix *choose_place(struct prefixes *all, const struct prefix_need *need) {
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

void prefixes_keep(struct prefixes *all, const struct prefix_need *need, txl_session *session) {
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
    p->scores = (struct scores){
        .k = need->scores->k, .detailed = need->scores->detailed, .of = need->scores->of};
    if (!scores_add_first(&p->scores, need->scores, need->n))
        forget(p);
}

void prefixes_free(struct prefixes *all) {
    for (size_t i = 0; i < MOST_PREFIXES; i++)
        forget(&all->list[i]);
}

/* ---- Former answers ------------------------------------------------------------------------ */

void past_name(uint64_t name, char text[PAST_NAME]) {
    snprintf(text, PAST_NAME, "cmpl-%016" PRIx64, name);
}

void past_free(struct past *past) {
    id_list_free(&past->list);
    *past = (struct past){0};
}

void pasts_open(struct pasts *all) {
    *all = (struct pasts){0};
    pthread_mutex_init(&all->lock, NULL);
}

static void forget_oldest(struct pasts *all) {
    struct past *past = &all->list[all->first].past;
    all->n_ids -= past->list.n;
    past_free(past);
    all->first = (all->first + 1) % MOST_PASTS;
    all->n--;
}

void pasts_close(struct pasts *all) {
    while (all->n > 0)
        forget_oldest(all);
    pthread_mutex_destroy(&all->lock);
}

void pasts_keep(struct pasts *all, uint64_t name, size_t choice, struct past *past) {
    pthread_mutex_lock(&all->lock);
    while (all->n > 0 && (all->n == MOST_PASTS || all->n_ids + past->list.n > MOST_PAST_TOKENS))
        forget_oldest(all);
    all->list[(all->first + all->n++) % MOST_PASTS] = (struct kept_past){name, choice, *past};
    all->n_ids += past->list.n;
    pthread_mutex_unlock(&all->lock);
    *past = (struct past){0};
}

/* Whether the text names choice K of the answer; without ":K" it names the first. */
static bool is_named(const struct kept_past *kept, const char *text) {
    char name[PAST_NAME];
    past_name(kept->name, name);
    size_t n = strlen(name);
    if (kept->choice == 0 && strcmp(name, text) == 0)
        return true;
    snprintf(name + n, sizeof name - n, ":%zu", kept->choice);
    return strcmp(name, text) == 0;
}

bool pasts_find(struct pasts *all, const char *name, struct past *past) {
    bool good = true;
    *past = (struct past){0};
    pthread_mutex_lock(&all->lock);
    for (size_t i = 0; i < all->n && past->list.n == 0 && good; i++) {
        const struct kept_past *kept = &all->list[(all->first + i) % MOST_PASTS];
        if (!is_named(kept, name))
            continue;
        *past = (struct past){.context = kept->past.context, .tail = kept->past.tail};
        for (size_t k = 0; k < kept->past.list.n && good; k++)
            good = id_list_add(&past->list, kept->past.list.ids[k]);
    }
    pthread_mutex_unlock(&all->lock);
    return good;
}
