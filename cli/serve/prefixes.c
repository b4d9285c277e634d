/* The kept beginnings of texts, of which the one that was not used longest goes first. */
#include "prefixes.h"

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
    p->scores = (struct scores){.k = need->scores->k, .detailed = need->scores->detailed};
    if (!scores_add_first(&p->scores, need->scores, need->n))
        forget(p);
}

void prefixes_free(struct prefixes *all) {
    for (size_t i = 0; i < MOST_PREFIXES; i++)
        forget(&all->list[i]);
}
