/* Texts that are made side by side, so that the weights are read once for up to eight of them. Each
 * is what it would be by itself. */
#ifndef CLI_TEXTS_H
#define CLI_TEXTS_H

#include "text.h"

/* Texts at a time; those of them that are fed in one call, by which their numbers stay the same
 * (txl_session_feed_each). */
enum { MOST_TEXTS = 64, TEXTS_TOGETHER = 8 };

struct texts {
    struct text *list[MOST_TEXTS]; /* [n], the first to come first */
    size_t n;
};

/* How many may be made at a time, of up to 8: fewer where their memories are large. */
size_t texts_most(const struct text_rules *rules);

/* Adds a text that was started.  There is room for it. */
void texts_add(struct texts *texts, struct text *text);

/* Draws a token for each that goes on and is not paused.  What fails has the reason. */
void texts_draw(struct texts *texts);

/* Feeds each of them what it drew, unless it has ended or was removed. */
void texts_feed(struct texts *texts);

/* Removes the first text that has ended or failed, and returns it; NULL: there is none. */
struct text *texts_take(struct texts *texts);

/* Removes a text, if it is there. */
void texts_remove(struct texts *texts, const struct text *text);

#endif
