/* Parts texts into regions. */
#include "regions.h"
#include "lib/base/white_space.h"

#include <stdlib.h>
#include <string.h>

static bool end_region(struct regions *regions) {
    if (regions->n == regions->room) {
        size_t room = 2 * regions->room + 8;
        struct region *list = reallocarray(regions->list, room, sizeof *list);
        if (!list)
            return false;
        regions->list = list;
        regions->room = room;
    }
    regions->list[regions->n++] = (struct region){.end = regions->text.length};
    return true;
}

/* The length of the bars and white space that text[length] begins with. */
static size_t seam_length(const char *text, size_t length, size_t *n_bar) {
    size_t at = 0, n = 1;
    for (*n_bar = 0; at < length && n > 0; at += n) {
        bool bar = text[at] == '|';
        *n_bar += bar;
        n = bar ? 1 : space_length(text + at, length - at);
    }
    return at;
}

/* Adds what a seam with bars keeps: its line ends, else one blank, between two words. */
static bool add_seam(struct regions *regions, const char *text, size_t length, bool between) {
    const char *blank = NULL;
    size_t n_blank = 0;
    bool good = true, line_end = memchr(text, '\n', length);
    for (size_t i = 0, n; i < length && good; i += n) {
        n = text[i] == '|' ? 1 : space_length(text + i, length - i);
        if (text[i] == '|')
            continue;
        bool carriage = text[i] == '\r' && i + 1 < length && text[i + 1] == '\n';
        if (text[i] == '\n' || carriage)
            good = buffer_append(&regions->text, text + i, 1);
        else if (!blank || text[i] == ' ') {
            blank = text + i;
            n_blank = n;
        }
    }
    return good &&
           (line_end || !blank || !between || buffer_append(&regions->text, blank, n_blank));
}

bool regions_part(struct regions *regions, const char *text, size_t length) {
    regions->text.length = regions->n = 0;
    bool good = end_region(regions) && buffer_reserve(&regions->text, length + 1);
    for (size_t i = 0, n, n_bar; i < length && good; i += n) {
        n = seam_length(text + i, length - i, &n_bar);
        bool between = i > 0 && i + n < length;
        for (size_t k = 0; k < n_bar && good; k++)
            good = end_region(regions);
        if (n_bar > 0) {
            good = good && add_seam(regions, text + i, n, between);
        } else {
            bool escaped = n == 0 && text[i] == '\\' && i + 1 < length && text[i + 1] == '|';
            good = buffer_append(&regions->text, text + i + escaped, n > 0 ? n : 1);
            n = n > 0 ? n : 1u + escaped;
        }
    }
    return good && end_region(regions);
}

bool regions_whole(struct regions *regions, const char *text, size_t length) {
    regions->text.length = regions->n = 0;
    return end_region(regions) && buffer_reserve(&regions->text, length + 1) &&
           buffer_append(&regions->text, text, length) && end_region(regions);
}

void regions_free(struct regions *regions) {
    buffer_free(&regions->text);
    free(regions->list);
    *regions = (struct regions){0};
}

size_t regions_solid(const struct regions *regions, size_t at) {
    const struct buffer *text = &regions->text;
    for (size_t n = 1; at < text->length && n > 0; at += n)
        n = space_length(text->data + at, text->length - at);
    return at;
}

size_t regions_at(const struct regions *regions, uint64_t at) {
    size_t low = 1, high = regions->n - 1;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (at < regions->list[middle].end)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

uint64_t regions_words(const struct buffer *text, size_t begin, size_t end, bool *in_word) {
    uint64_t words = 0;
    for (size_t at = begin, n; at<end; at += n> 0 ? n : 1) {
        n = space_length(text->data + at, text->length - at);
        words += n == 0 && !*in_word;
        *in_word = n == 0;
    }
    return words;
}
