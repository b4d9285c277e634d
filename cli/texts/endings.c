/* Where a text ends: at a stop string, or after a sentence. */
#include "endings.h"
#include "lib/base/white_space.h"

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

/* ---- Sentences, byte by byte --------------------------------------------------------------- */

/* Closing quotes beyond ASCII, in UTF-8. */
static const char *const closing[] = {"\u2019", "\u201d", "\u203a"};
static const char ellipsis[] = "\u2026", guillemet[] = "\u00bb";

/* Whether the bytes so far end with the character. */
static bool ends_with(const unsigned char bytes[3], const char *character) {
    size_t n = strlen(character);
    return memcmp(bytes + 3 - n, character, n) == 0;
}

/* Whether the byte is inside one of these three-byte characters, and so changes nothing yet. */
static bool is_within(unsigned char byte, unsigned char before) {
    return byte == 0xe2 || byte == 0xc2 || (byte == 0x80 && before == 0xe2);
}

/* Titles that are written with a full stop before a name. */
static const char *const titles[] = {"Mr",  "Mrs", "Ms",   "Messrs", "Mme", "Mlle", "Dr", "Prof",
                                     "Rev", "Hon", "Capt", "Lieut",  "Col", "Gen",  "St"};

/* Whether the letters are a title, or the initial of a name; I is mostly a word or a number. */
static bool is_abbreviation(const char *letters, size_t n) {
    if (n == 1)
        return letters[0] <= 'Z' && letters[0] != 'I';
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (strlen(titles[i]) == n && memcmp(titles[i], letters, n) == 0)
            return true;
    return false;
}

static void follow_letters(struct sentence *s, char byte) {
    bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
    s->abbreviated = byte == '.' && is_abbreviation(s->letters, s->n_letters);
    if (!letter)
        s->n_letters = 0;
    else if (s->n_letters < sizeof s->letters)
        s->letters[s->n_letters++] = byte;
}

static void add_byte(struct sentence *s, unsigned char byte) {
    const unsigned char bytes[3] = {s->last[0], s->last[1], byte};
    bool space = is_space_byte((char)byte);
    bool closes = strchr("\"')]}", byte) && byte != 0;
    for (size_t i = 0; i < sizeof closing / sizeof *closing; i++)
        closes = closes || ends_with(bytes, closing[i]);
    closes = closes || ends_with(bytes, guillemet);
    if ((byte != 0 && strchr(".!?", byte)) || ends_with(bytes, ellipsis))
        s->ended = true;
    else if (space || !(closes || is_within(byte, s->last[1])))
        s->ended = false;
    follow_letters(s, (char)byte);
    s->words += !space && !s->in_word;
    s->in_word = !space;
    s->last[0] = s->last[1];
    s->last[1] = byte;
}

void sentence_add(struct sentence *sentence, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++)
        add_byte(sentence, (unsigned char)text[i]);
}

bool sentence_ended(const struct sentence *sentence) {
    return sentence->ended && !sentence->abbreviated && sentence->words >= 2;
}
