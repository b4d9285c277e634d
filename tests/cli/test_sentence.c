/* Where sentences end, in texts that come in pieces of every size. */
#include "cli/texts/endings.h"
#include "tests/unit.h"

#include <stdio.h>
#include <string.h>

/* The texts; | stands where white space would end a sentence, but for the first words' ends. */
static const char *const texts[] = {
    "He went.| She stayed!| Why?| \"Who knows?\"| (Nobody.)| [So it is.']}| And so on...| Well",
    ("He said \u201cNo.\u201d| She \u2018Yes!\u2019| They \u00abPerhaps?\u00bb| And\u2026| so "
     "\u203aon.\u203a| x"),
    "No 3.5 in it, nor a.b, nor x.\u2014y nor e.g., so it.| ends",
    "One.Two. Three.| Four",
    /* Titles and initials. */
    "With Mr. Smith, \"Mrs. Smith\", \u201cDr. Watson, M. and Mme. Noir, Messrs. A. B. Cox.| y",
    "To St. Paul's with Col. Ross, (Capt. Roy), J.P. Sands and Lieut. Grey.| z",
    "It was I.| Chapter II.| So am A!| He called him Dr!| Mister.| Mrx.| a.| He was a Gen?| x",
    "He was the Messrsx.| The Messrsmessrs.| He said \"Mr.\"| xMr.| the 2nd.| x",
};

/* Feeds `piece` bytes at a time, up to the next place that is looked at. */
static void check(const char *text, size_t piece) {
    struct sentence sentence = {0};
    for (size_t at = 0; text[at] != '\0';) {
        size_t n = strcspn(text + at, "| ");
        for (size_t i = 0; i < n; i += piece)
            sentence_add(&sentence, text + at + i, n - i < piece ? n - i : piece);
        at += n;
        bool expected = text[at] == '|';
        at += expected;
        if (sentence_ended(&sentence) != expected)
            fail_msg("'%.*s'", (int)at, text);
        if (text[at] == ' ')
            sentence_add(&sentence, text + at++, 1);
    }
}

TEST(sentences_end_where_they_do) {
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t piece = 1; piece <= 9; piece++)
            check(texts[i], piece);
}

int main(void) {
    return cmocka_run_group_tests(tests, NULL, NULL);
}
