/* Pages of HTML that a command writes, with everything they need inside.
 *
 * Nothing that a stranger wrote can become markup: data are base64, or JSON of ASCII without angle
 * brackets, in script elements that nothing executes, and the page's own policy runs no script but
 * the one with its nonce. */
#ifndef CLI_PAGE_H
#define CLI_PAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* What all pages share: their head, their style, the beginning of their scripts, and the drawing of
 * lines. */
extern const char page_head_html[];
extern const char page_css[];
extern const char page_elements_js[];
extern const char page_plot_js[];

/* The text that replaces a mark of a page.  A mark without text is a place where the caller writes:
 * page_write stops there. */
struct page_part {
    const char *mark, *text; /* "@name@" */
};

/* A random number that no text can know; it replaces "@nonce@". */
struct page_nonce {
    char text[33];
};

/* False with the error printed. */
bool page_draw_nonce(struct page_nonce *nonce);

/* Writes what a page begins with, `name` being what made it. */
void page_write_head(FILE *stream, const char *name, const struct page_nonce *nonce);

/* Writes the rest of the page from `html` to the first mark without text, or to its end, and
 * returns what follows.  It replaces the `n` parts, "@nonce@", and the marks of what all pages
 * share: "@style@", "@elements@" and "@plot@". */
const char *page_write(FILE *stream, const char *html, const struct page_nonce *nonce,
                       const struct page_part *parts, size_t n);

/* Writes the object as the element of the id "facts".  False when memory is short. */
bool page_write_facts(FILE *stream, const json_t *facts);

#endif
