/* Follows sentences byte by byte. */
#include "sentence.h"
#include "lib/base/white_space.h"

#include <string.h>

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
