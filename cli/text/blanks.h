/* Blanks that change a number unseen: those at the edges of a text or at the ends of its lines,
 * several in a row, no-break and zero-width spaces, soft hyphens.  They are counted as the text is
 * read, and one note tells of those that the model's tokenizer does not drop. */
#ifndef CLI_BLANKS_H
#define CLI_BLANKS_H

#include "txl.h"

enum { BLANK_KINDS = 7 };

struct blanks {
    bool by_line; /* each line is a unit, else what blanks_end ends */
    bool inside;  /* the beginning of a unit and blanks within it count too */

    uint64_t units;
    uint64_t n[1 << BLANK_KINDS];     /* units that have exactly this set of kinds */
    uint64_t first[1 << BLANK_KINDS]; /* the line of the first of them */

    /* The current unit, and its current line. */
    uint64_t line;    /* from 1 */
    unsigned has;     /* a set of kinds */
    bool begun;       /* the unit has a character */
    bool solid;       /* the line has more than white space */
    bool carriage;    /* a CR, which is white space unless LF follows */
    bool wide;        /* the only white space so far behind the last letter is no U+0020 */
    unsigned n_space; /* so many white-space characters */
    char held[4];     /* of a character that is not complete */
    size_t n_held;
};

/* Begins to count. */
void blanks_start(struct blanks *blanks, bool by_line, bool inside);

void blanks_see(struct blanks *blanks, const char *text, size_t length);

/* Sees a line end that joins two lines by one blank, with the white space before it. */
void blanks_join(struct blanks *blanks);

/* What follows goes on in the line in which another text ends. */
void blanks_go_on(struct blanks *blanks);

/* Ends the unit, unless lines are units and it is empty.  The caller sets the line of texts. */
void blanks_end(struct blanks *blanks);

/* Prints a note if some change what the model reads; `raw` as in txl_encoding.  False with the
 * error printed. */
bool blanks_note(const struct blanks *blanks, const char *name, const txl_model *model, bool raw);

#endif
