/* Stop strings across pieces of text. */
#include "stop.h"

#include <stdlib.h>
#include <string.h>

/* Takes one byte: returns the length of the longest prefix of the stop string that ends the
 * text. */
static size_t stop_advance(const struct stop *stop, size_t matched, char c) {
    while (matched > 0 && (matched == stop->length || stop->text[matched] != c))
        matched = stop->border[matched - 1];
    return stop->text[matched] == c ? matched + 1 : 0;
}

static bool prepare_stop(struct stop *stop, const char *text) {
    *stop = (struct stop){.text = text, .length = strlen(text)};
    stop->border = calloc(stop->length, sizeof *stop->border);
    if (!stop->border)
        return false;
    for (size_t i = 1; i < stop->length; i++)
        stop->border[i] = stop_advance(stop, stop->border[i - 1], text[i]);
    return true;
}

bool stop_search_new(struct stop_search *search, const struct string_list *strings) {
    *search = (struct stop_search){0};
    if (strings->n == 0)
        return true;
    search->stops = calloc(strings->n, sizeof *search->stops);
    for (size_t i = 0; search->stops && i < strings->n; i++) {
        if (!prepare_stop(&search->stops[i], strings->items[i]))
            return false;
        search->n++;
    }
    return search->stops != NULL;
}

void stop_search_free(struct stop_search *search) {
    for (size_t i = 0; i < search->n; i++)
        free(search->stops[i].border);
    free(search->stops);
    buffer_free(&search->held);
}

bool stop_search_feed(struct stop_search *search, const char *text, size_t length,
                      struct buffer *out, bool *found) {
    *found = false;
    for (size_t i = 0; i < length; i++) {
        size_t partial = 0, complete = 0;
        for (size_t k = 0; k < search->n; k++) {
            struct stop *stop = &search->stops[k];
            stop->matched = stop_advance(stop, stop->matched, text[i]);
            partial = stop->matched > partial ? stop->matched : partial;
            if (stop->matched == stop->length && stop->length > complete)
                complete = stop->length;
        }
        *found = complete > 0;
        size_t keep = *found ? complete : partial;
        if (!buffer_append(&search->held, &text[i], 1))
            return false;
        size_t certain = search->held.length - keep;
        if (!buffer_append(out, search->held.data, certain))
            return false;
        buffer_drop(&search->held, certain);
        if (*found)
            return true;
    }
    return true;
}

bool stop_search_finish(struct stop_search *search, struct buffer *out) {
    bool good = buffer_append(out, search->held.data, search->held.length);
    stop_search_reset(search);
    return good;
}

void stop_search_reset(struct stop_search *search) {
    search->held.length = 0;
    for (size_t k = 0; k < search->n; k++)
        search->stops[k].matched = 0;
}
