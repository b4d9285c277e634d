/* Pages of HTML that a command writes, with everything they need inside.
 *
 * Nothing that a stranger wrote can become markup: data are in script elements that are not
 * executed, as base64 or as ASCII JSON without angle brackets, and the page's content security
 * policy runs only the script with its nonce. */
#ifndef CLI_PAGE_H
#define CLI_PAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Shared by all pages: their head, their style, the beginning of their scripts, and plots. */
extern const char page_head_html[];
extern const char page_css[];
extern const char page_elements_js[];
extern const char page_plot_js[];

/* Replaces a mark of a page by a text.  At a mark without text page_write stops, so that the caller
 * can write there. */
struct page_part {
    const char *mark, *text; /* "@name@" */
};

/* A random number that replaces "@nonce@"; no text can guess it. */
struct page_nonce {
    char text[33];
};

/* False with the error printed. */
bool page_draw_nonce(struct page_nonce *nonce);

/* Writes the beginning of a page; `name` says what made it. */
void page_write_head(FILE *stream, const char *name, const struct page_nonce *nonce);

/* Writes the page from `html` to the first mark without text, or to its end, and returns what
 * follows.  Replaces the `n` parts, "@nonce@", and the marks of the shared texts: "@style@",
 * "@elements@" and "@plot@". */
const char *page_write(FILE *stream, const char *html, const struct page_nonce *nonce,
                       const struct page_part *parts, size_t n);

/* Writes the object into the element with id "data".  False when memory is short. */
bool page_write_data(FILE *stream, const json_t *data);

#endif
