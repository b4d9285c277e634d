/* Writes the page, anew for each request: its nonce cannot be guessed. */
#include "endpoints.h"

#include "cli/page/page.h"

#include <stdio.h>
#include <stdlib.h>

extern const char serve_page_html[], serve_key_html[], serve_page_css[];
extern const char serve_talk_js[], serve_write_js[], serve_read_js[];

static bool write_page(FILE *stream, const struct page_nonce *nonce, const json_t *model) {
    const struct page_part parts[] = {{"@own_style@", serve_page_css},
                                      {"@data@", NULL},
                                      {"@talk@", serve_talk_js},
                                      {"@write@", serve_write_js},
                                      {"@read@", serve_read_js}};
    const size_t n = sizeof parts / sizeof *parts;
    if (!model) {
        page_write(stream, serve_key_html, nonce, parts, n);
        return !ferror(stream);
    }
    const char *rest = page_write(stream, serve_page_html, nonce, parts, n);
    bool good = page_write_data(stream, model);
    page_write(stream, rest, nonce, parts, n);
    return good && !ferror(stream);
}

bool page_route_answer(const struct http_module *http, struct exchange *exchange,
                       const json_t *model) {
    struct page_nonce nonce;
    char *page = NULL, policy[512];
    size_t length = 0;
    FILE *stream = page_draw_nonce(&nonce) ? open_memstream(&page, &length) : NULL;
    bool good = stream && write_page(stream, &nonce, model);
    good = stream && fclose(stream) == 0 && page && good;
    snprintf(policy, sizeof policy,
             "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; connect-src 'self'; "
             "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
             nonce.text, nonce.text);
    const struct http_header headers[] = {{"Content-Type", "text/html; charset=utf-8"},
                                          {"Content-Security-Policy", policy},
                                          {"X-Content-Type-Options", "nosniff"},
                                          {"Referrer-Policy", "no-referrer"},
                                          {"Cache-Control", "no-store"}};
    if (good)
        http->answer(exchange, &(struct http_answer){.status = 200,
                                                     .headers = headers,
                                                     .n_header = sizeof headers / sizeof *headers,
                                                     .body = page,
                                                     .length = length});
    free(page);
    return good;
}
