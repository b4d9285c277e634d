/* Writing a page. */
#include "page.h"

#include "cli/io/output.h"
#include "cli/io/terminal.h"
#include "lib/base/json_memory.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

bool page_draw_nonce(struct page_nonce *nonce) {
    uint64_t random[2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return terminal_error("random numbers: %s", strerror(errno));
    snprintf(nonce->text, sizeof nonce->text, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    return true;
}

static const struct page_part *find_part(const char *at, const struct page_part *parts, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strncmp(at, parts[i].mark, strlen(parts[i].mark)) == 0)
            return &parts[i];
    return NULL;
}

const char *page_write(FILE *stream, const char *html, const struct page_nonce *nonce,
                       const struct page_part *parts, size_t n) {
    const struct page_part shared[] = {{"@nonce@", nonce->text},
                                       {"@style@", page_css},
                                       {"@elements@", page_elements_js},
                                       {"@plot@", page_plot_js}};
    const char *at;
    while ((at = strchr(html, '@'))) {
        const struct page_part *part = find_part(at, shared, sizeof shared / sizeof *shared);
        if (!part)
            part = find_part(at, parts, n);
        assert(part);
        fwrite(html, 1, (size_t)(at - html), stream);
        html = at + strlen(part->mark);
        if (!part->text)
            return html;
        fputs(part->text, stream);
    }
    fputs(html, stream);
    return html + strlen(html);
}

void page_write_head(FILE *stream, const char *name, const struct page_nonce *nonce) {
    const struct page_part parts[] = {{"@name@", name}, {"@version@", txl_version()}};
    page_write(stream, page_head_html, nonce, parts, sizeof parts / sizeof *parts);
}

/* JSON has angle brackets and ampersands only in strings, where \u escapes can spell them. */
bool page_write_data(FILE *stream, const json_t *data) {
    char *text = json_text(data, OUTPUT_JSON_FORM | JSON_ENSURE_ASCII);
    if (!text)
        return false;
    fputs("<script type=\"application/json\" id=\"data\">", stream);
    for (const char *c = text; *c != '\0'; c++)
        if (strchr("<>&", *c))
            fprintf(stream, "\\u%04x", (unsigned)*c);
        else
            putc(*c, stream);
    fputs("</script>\n", stream);
    free(text);
    return true;
}
