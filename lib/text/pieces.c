/* Text to SentencePiece pieces.
 *
 *   raw     text that the normaliser has yet to take
 *   window  normalised text, from the first byte on that is not yet cut into pieces
 *   nodes   for each place in the window, the best way to cut the text up to it
 *
 * The best way is found as in a hidden Markov model (Viterbi 1967): the score of a way is the sum
 * of its pieces' log-probabilities, and the best one to a place goes through the best ones to the
 * places where the last piece may begin. */
#include "pieces.h"
#include "lib/base/error.h"
#include "lib/base/white_space.h"
#include "tokenizer.h"
#include "unicode.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* Bytes of raw text beyond the normaliser's lookahead. */
    RAW_ROOM = 4096,
    /* Bytes of the first window; it grows to hold a stretch without agreement (see
     * find_agreement). */
    LEAST_WINDOW = 4096,
    /* Most bytes of the window without agreement; a rule may make several bytes of one. */
    MOST_UNCUT = 4 * PIECES_EXACT,
    /* Plain characters taken at once. */
    PLAIN_RUN = 512,
    /* After this many bytes the stream looks for a place where all ways agree. */
    AGREEMENT_STEP = 4096,
    /* Spaces at the end that are held back, in bytes of the window; unknown characters that are
     * joined to one piece, likewise. */
    MOST_SPACES = PIECES_EXACT,
    MOST_UNKNOWN = PIECES_EXACT,
};

#define NOWHERE UINT32_MAX
#define UNKNOWN_UNIT 0 /* of the trie, for an unknown character: the root's */

/* The best way to a place. */
struct node {
    float score;
    uint32_t from; /* where its last piece begins; NOWHERE: there is no way */
    uint32_t unit; /* of the trie, where that piece ends */
};

struct piece_stream {
    const struct sentencepiece *pieces;
    take_piece *take;
    void *context;

    /* Raw text. */
    char *raw; /* [raw_room] */
    struct span *raw_spans;
    size_t raw_room, raw_begin, raw_end;
    size_t ahead;     /* bytes that the normaliser has to see, or the text's end */
    bool begun;       /* the window has received text, so no space is leading any more */
    bool continues;   /* there is no word mark before the text */
    bool after_space; /* the normaliser's last character was a space, so further ones are dropped */
    bool dropped;     /* a part of the source was dropped before the window received any */
    struct span leading; /* the dropped part, or the place where the text begins */

    /* The window. */
    char *text;         /* [room] */
    struct span *spans; /* [room] */
    struct node *nodes; /* [room + 1] */
    uint32_t *way;      /* [room + 1]: places, while a way is passed on */
    uint32_t room;
    uint32_t first; /* pieces before this place were passed on */
    uint32_t at;    /* nodes before this place are final */
    uint32_t reach; /* the last place that has a node */
    uint32_t solid; /* after it are only spaces, which may be the text's last */
    uint32_t end;
    uint32_t asked;    /* where find_agreement was last called */
    struct node start; /* of the text's begin */

    /* Unknown characters that may go on. */
    char *unknown; /* [unknown_room] */
    struct span *unknown_spans;
    size_t unknown_room, n_unknown;
};

/* ---- Making, freeing ---------------------------------------------------------------------- */

txl_status piece_stream_new(const struct sentencepiece *pieces, take_piece *take, void *context,
                            struct piece_stream **stream, txl_error *error) {
    struct piece_stream *s = calloc(1, sizeof *s);
    if (!s)
        return txl_fail_memory(error, "the encoder", sizeof *s);
    s->pieces = pieces;
    s->take = take;
    s->context = context;
    /* At least one code point, or a plain character and the one after it. */
    s->ahead = pieces->longest_prefix < 4 ? 4 : pieces->longest_prefix;
    s->raw_room = s->ahead + RAW_ROOM;
    s->raw = malloc(s->raw_room);
    size_t size = s->raw_room * sizeof *s->raw_spans;
    s->raw_spans = malloc(size);
    if (!s->raw || !s->raw_spans) {
        piece_stream_free(s);
        return txl_fail_memory(error, "the encoder", size);
    }
    piece_stream_start(s, false, 0);
    *stream = s;
    return TXL_OK;
}

void piece_stream_free(struct piece_stream *stream) {
    if (!stream)
        return;
    free(stream->raw);
    free(stream->raw_spans);
    free(stream->text);
    free(stream->spans);
    free(stream->nodes);
    free(stream->way);
    free(stream->unknown);
    free(stream->unknown_spans);
    free(stream);
}

static txl_status grow_window(struct piece_stream *s, uint32_t room, txl_error *error) {
    char *text = realloc(s->text, room);
    s->text = text ? text : s->text;
    struct span *spans = realloc(s->spans, room * sizeof *spans);
    s->spans = spans ? spans : s->spans;
    struct node *nodes = realloc(s->nodes, (room + 1) * sizeof *nodes);
    s->nodes = nodes ? nodes : s->nodes;
    uint32_t *way = realloc(s->way, (room + 1) * sizeof *way);
    s->way = way ? way : s->way;
    if (!text || !spans || !nodes || !way)
        return txl_fail_memory(error, "the encoder", room * sizeof *spans);
    s->room = room;
    return TXL_OK;
}

/* Moves what is left to the beginning of the window. */
static void slide_window(struct piece_stream *s) {
    uint32_t by = s->first;
    if (by == 0)
        return;
    memmove(s->text, s->text + by, s->end - by);
    memmove(s->spans, s->spans + by, (s->end - by) * sizeof *s->spans);
    memmove(s->nodes, s->nodes + by, (s->reach - by + 1) * sizeof *s->nodes);
    for (uint32_t i = 0; i <= s->reach - by; i++)
        if (s->nodes[i].from != NOWHERE)
            s->nodes[i].from -= by < s->nodes[i].from ? by : s->nodes[i].from;
    s->first = 0;
    s->at -= by;
    s->reach -= by;
    s->solid -= by;
    s->end -= by;
    s->asked -= by < s->asked ? by : s->asked;
}

/* ---- Passing pieces on -------------------------------------------------------------------- */

static txl_status pass_unknown(struct piece_stream *s, txl_error *error) {
    size_t n = s->n_unknown;
    if (n == 0)
        return TXL_OK;
    s->n_unknown = 0;
    const struct span *spans = s->unknown_spans;
    const struct piece piece = {.text = s->unknown,
                                .length = n,
                                .id = s->pieces->unk,
                                .unknown = true,
                                .span = span_join(&spans[0], &spans[n - 1]),
                                .spans = spans};
    return s->take(s->context, &piece, error);
}

/* Neighbouring unknown characters are one piece. */
static txl_status add_unknown(struct piece_stream *s, uint32_t begin, uint32_t end,
                              txl_error *error) {
    size_t n = end - begin;
    if (s->n_unknown + n > MOST_UNKNOWN) {
        txl_status status = pass_unknown(s, error);
        if (status)
            return status;
    }
    if (s->n_unknown + n > s->unknown_room) {
        size_t room = 2 * (s->n_unknown + n) + 64;
        char *unknown = realloc(s->unknown, room);
        s->unknown = unknown ? unknown : s->unknown;
        struct span *spans = realloc(s->unknown_spans, room * sizeof *spans);
        s->unknown_spans = spans ? spans : s->unknown_spans;
        if (!unknown || !spans)
            return txl_fail_memory(error, "the encoder", room * sizeof *spans);
        s->unknown_room = room;
    }
    memcpy(s->unknown + s->n_unknown, s->text + begin, n);
    memcpy(s->unknown_spans + s->n_unknown, s->spans + begin, n * sizeof *s->spans);
    s->n_unknown += n;
    return TXL_OK;
}

/* Each byte of an unknown character stands for all of it. */
static txl_status pass_bytes(struct piece_stream *s, uint32_t begin, uint32_t end,
                             txl_error *error) {
    txl_status status = TXL_OK;
    for (uint32_t i = begin; i < end && !status; i++) {
        static const char digits[] = "0123456789ABCDEF";
        unsigned char byte = (unsigned char)s->text[i];
        const char text[] = {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};
        const struct piece piece = {.text = text,
                                    .length = sizeof text,
                                    .id = s->pieces->byte_id[byte],
                                    .span = span_join(&s->spans[begin], &s->spans[end - 1])};
        status = s->take(s->context, &piece, error);
    }
    return status;
}

static txl_status pass_piece(struct piece_stream *s, uint32_t begin, uint32_t end, uint32_t unit,
                             txl_error *error) {
    if (unit == UNKNOWN_UNIT)
        return s->pieces->flags & PIECES_BYTE_FALLBACK ? pass_bytes(s, begin, end, error)
                                                       : add_unknown(s, begin, end, error);
    txl_status status = pass_unknown(s, error);
    if (status)
        return status;
    const struct span *spans = s->spans + begin;
    const struct piece piece = {.text = s->text + begin,
                                .length = end - begin,
                                .id = s->pieces->trie_id[unit],
                                .span = span_join(&spans[0], &spans[end - begin - 1]),
                                .spans = spans};
    return s->take(s->context, &piece, error);
}

/* Passes on the best way to place `end`. */
static txl_status pass_way(struct piece_stream *s, uint32_t end, txl_error *error) {
    uint32_t n = 0, begin = s->first;
    for (uint32_t i = end; i > s->first; i = s->nodes[i].from)
        s->way[n++] = i;
    txl_status status = TXL_OK;
    while (n > 0 && !status) {
        uint32_t next = s->way[--n];
        status = pass_piece(s, begin, next, s->nodes[next].unit, error);
        begin = next;
    }
    s->first = end;
    s->asked = end > s->asked ? end : s->asked;
    return status;
}

/* ---- The best way ------------------------------------------------------------------------- */

/* Offers a way to `place` whose last piece begins at `from`.  The first of equal ones wins. */
static void offer_piece(struct piece_stream *s, uint32_t from, uint32_t place, uint32_t unit,
                        double sum) {
    while (s->reach < place)
        s->nodes[++s->reach].from = NOWHERE;
    struct node *node = &s->nodes[place];
    if (node->from == NOWHERE || sum > (double)node->score)
        *node = (struct node){(float)sum, from, unit};
}

/* Extends the best way to s->at by each piece that begins there.  Returns false if a piece might go
 * beyond the end of the window.
 *
 * Like the library, adds scores in double precision, except that of an unknown character, compares
 * the sums in double precision and stores them as floats.  This decides between ways whose scores
 * differ by less than a float's precision. */
static bool offer_pieces(struct piece_stream *s, bool last) {
    const struct sentencepiece *pieces = s->pieces;
    const struct trie_unit *trie = pieces->trie;
    const uint32_t at = s->at;
    const uint32_t width = (uint32_t)unicode_length(s->text[at]);
    const float before = s->nodes[at].score;
    uint32_t unit = 0, place = at;
    bool single = false;
    while (place < s->solid) {
        unsigned char byte = (unsigned char)s->text[place];
        unit = (trie[unit].base_label >> 8) ^ byte;
        if ((trie[unit].base_label & 0xff) != byte)
            break;
        place++;
        uint32_t bits = trie[unit].score.bits;
        if (bits == TRIE_NO_PIECE)
            continue;
        double score = bits == TRIE_USER_DEFINED
                           ? sentencepiece_user_defined_score(pieces, place - at)
                           : (double)trie[unit].score.value;
        offer_piece(s, at, place, unit, score + (double)before);
        single = single || place == at + width;
    }
    if (place == s->solid && !last)
        return false;
    if (!single) {
        const float sum = pieces->unknown_score + before;
        offer_piece(s, at, at + width, UNKNOWN_UNIT, (double)sum);
    }
    s->at = at + width;
    return true;
}

/* The last place up to s->at that all ways go through; the ways end in the places from s->at to
 * s->reach. */
static uint32_t find_agreement(struct piece_stream *s) {
    /* s->way marks the places from which a way has yet to be followed back. */
    uint32_t *marked = s->way;
    uint32_t n = 0;
    memset(marked + s->first, 0, (s->reach - s->first + 1) * sizeof *marked);
    for (uint32_t i = s->at; i <= s->reach; i++) {
        marked[i] = s->nodes[i].from != NOWHERE;
        n += marked[i];
    }
    for (uint32_t i = s->reach;; i--) {
        if (!marked[i])
            continue;
        if (n == 1 && i <= s->at)
            return i;
        uint32_t from = s->nodes[i].from;
        n -= marked[from];
        marked[from] = 1;
    }
}

/* The window is as long as it may be.  Passes on what all ways agree on, or the best way so far if
 * they agree on nothing. */
static txl_status pass_agreement(struct piece_stream *s, txl_error *error) {
    s->asked = s->at;
    uint32_t place = find_agreement(s);
    if (place > s->first)
        return pass_way(s, place, error);
    bool full = s->at - s->first >= MOST_UNCUT ||
                s->spans[s->at - 1].end - s->spans[s->first].begin >= PIECES_EXACT;
    if (!full)
        return TXL_OK;
    s->reach = s->at;
    return pass_way(s, s->at, error);
}

/* Cuts the text in the window; `last`: no more text follows. */
static txl_status cut_window(struct piece_stream *s, bool last, txl_error *error) {
    txl_status status = TXL_OK;
    while (!status && s->at < s->solid) {
        /* No piece crosses this place, so everything before it can be passed on. */
        if (s->reach == s->at && s->at > s->first)
            status = pass_way(s, s->at, error);
        else if (s->at - s->asked >= AGREEMENT_STEP)
            status = pass_agreement(s, error);
        if (status || !offer_pieces(s, last))
            break;
    }
    return status;
}

/* ---- The normaliser ----------------------------------------------------------------------- */

/* Makes room for `length` bytes in the window; cuts the text that is there first. */
static txl_status make_room(struct piece_stream *s, size_t length, txl_error *error) {
    if (length <= s->room - s->end)
        return TXL_OK;
    txl_status status = cut_window(s, false, error);
    slide_window(s);
    size_t needed = s->end + length;
    if (status || needed <= s->room / 2)
        return status;
    uint32_t room = s->room < LEAST_WINDOW ? LEAST_WINDOW : 2 * s->room;
    while (room < needed)
        room *= 2;
    bool fresh = s->room == 0;
    status = grow_window(s, room, error);
    if (!status && fresh)
        s->nodes[0] = s->start;
    return status;
}

/* Adds bytes to the window, all of the same span. */
static txl_status put_bytes(struct piece_stream *s, const char *bytes, size_t length,
                            const struct span *span, txl_error *error) {
    txl_status status = make_room(s, length, error);
    if (status)
        return status;
    memcpy(s->text + s->end, bytes, length);
    for (size_t i = 0; i < length; i++)
        s->spans[s->end + i] = *span;
    s->end += (uint32_t)length;
    return TXL_OK;
}

static bool removes_spaces(const struct piece_stream *s) {
    return s->pieces->flags & PIECES_REMOVE_SPACES;
}

static txl_status put_space(struct piece_stream *s, const struct span *span, txl_error *error) {
    return s->pieces->flags & PIECES_ESCAPE_SPACES
               ? put_bytes(s, WORD_MARK, WORD_MARK_BYTES, span, error)
               : put_bytes(s, " ", 1, span, error);
}

/* A dropped part belongs to the character before it; at the beginning of the text, to the one after
 * it. */
static void drop_part(struct piece_stream *s, const struct span *span) {
    if (s->begun && s->end > s->first)
        s->spans[s->end - 1] = span_join(&s->spans[s->end - 1], span);
    else if (s->dropped)
        s->leading = span_join(&s->leading, span);
    else
        s->leading = *span;
    s->dropped = s->dropped || s->end == s->first;
}

/* Whether the window ends with a space, which may be at the text's end.  A literal word mark counts
 * as a space. */
static bool ends_with_space(const struct piece_stream *s) {
    if (s->pieces->flags & PIECES_ESCAPE_SPACES)
        return s->end - s->first >= 3 && begins_with_word_mark(s->text + s->end - 3, 3);
    return s->end > s->first && s->text[s->end - 1] == ' ';
}

static void settle_pieces(struct piece_stream *s) {
    if (!removes_spaces(s) || !ends_with_space(s) || s->end - s->solid > MOST_SPACES)
        s->solid = s->end;
}

/* Puts the word mark before the text.  It stands for the spaces that were dropped there. */
static txl_status put_mark(struct piece_stream *s, const struct span *span, txl_error *error) {
    struct span mark = s->dropped ? s->leading : *span;
    if (!s->dropped) {
        mark.end = mark.begin;
        mark.character_end = mark.character;
    }
    bool puts = s->pieces->flags & PIECES_DUMMY_PREFIX && !s->continues;
    s->begun = true;
    s->after_space = removes_spaces(s) && !s->continues;
    txl_status status = puts ? put_space(s, &mark, error) : TXL_OK;
    if (puts) {
        s->dropped = false;
        settle_pieces(s);
    }
    return status;
}

/* Adds the normalised form of one or more characters. */
static txl_status add_normal(struct piece_stream *s, const char *bytes, size_t length,
                             const struct span *source, txl_error *error) {
    struct span span = *source;
    if (!s->begun && removes_spaces(s) && !s->continues && length == 1 && bytes[0] == ' ') {
        drop_part(s, &span);
        return TXL_OK;
    }
    txl_status status = s->begun ? TXL_OK : put_mark(s, &span, error);
    while (s->after_space && length > 0 && bytes[0] == ' ') {
        bytes++;
        length--;
    }
    if (length == 0) {
        drop_part(s, &span);
        return status;
    }
    if (s->dropped) {
        span = span_join(&s->leading, &span);
        s->dropped = false;
    }
    for (size_t i = 0, n; i < length && !status; i += n) {
        const char *space = memchr(bytes + i, ' ', length - i);
        n = space == bytes + i ? 1 : space ? (size_t)(space - bytes) - i : length - i;
        status = space == bytes + i ? put_space(s, &span, error)
                                    : put_bytes(s, bytes + i, n, &span, error);
        settle_pieces(s);
    }
    s->after_space = removes_spaces(s) && bytes[length - 1] == ' ';
    return status;
}

/* Bytes of the longest user-defined piece that the raw text begins with, or 0. */
static size_t match_user_defined(const struct piece_stream *s, const char *text, size_t length) {
    const struct trie_unit *trie = s->pieces->trie;
    size_t found = 0;
    uint32_t unit = 0;
    if (!s->pieces->user_defined[(unsigned char)text[0]])
        return 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        unit = (trie[unit].base_label >> 8) ^ byte;
        if ((trie[unit].base_label & 0xff) != byte)
            break;
        if (trie[unit].score.bits == TRIE_USER_DEFINED)
            found = i + 1;
    }
    return found;
}

/* Normalises the next character, user-defined piece or rule's match of the raw text. */
static txl_status normalise_one(struct piece_stream *s, txl_error *error) {
    const char *text = s->raw + s->raw_begin;
    size_t length = s->raw_end - s->raw_begin;
    size_t consumed = match_user_defined(s, text, length), n = consumed;
    const char *made = text;
    if (consumed == 0) {
        const char *string = sentencepiece_rule(s->pieces, text, length, &consumed);
        if (string) {
            made = string;
            n = strlen(string);
        } else {
            n = consumed = unicode_length(text[0]);
        }
    }
    const struct span *spans = s->raw_spans + s->raw_begin;
    const struct span span = span_join(&spans[0], &spans[consumed - 1]);
    s->raw_begin += consumed;
    return add_normal(s, made, n, &span, error);
}

/* Takes plain characters unchanged, as many as are known to be followed by ASCII. Does not take
 * spaces, nor anything before the text has begun. */
static txl_status take_plain(struct piece_stream *s, txl_error *error) {
    const bool *plain = s->pieces->plain;
    const char *text = s->raw + s->raw_begin;
    size_t length = s->raw_end - s->raw_begin, n = 0;
    while (n + 1 < length && n < PLAIN_RUN && (unsigned char)text[n + 1] < 0x80 &&
           (unsigned char)text[n] < 0x80 && text[n] != ' ' && plain[(unsigned char)text[n]])
        n++;
    if (n == 0)
        return TXL_OK;
    txl_status status = make_room(s, n, error);
    if (status)
        return status;
    memcpy(s->text + s->end, text, n);
    memcpy(s->spans + s->end, s->raw_spans + s->raw_begin, n * sizeof *s->spans);
    s->end += (uint32_t)n;
    s->solid = s->end;
    s->after_space = false;
    s->raw_begin += n;
    return TXL_OK;
}

/* Normalises the raw text as far as the lookahead allows; `last`: all of it. */
static txl_status normalise(struct piece_stream *s, bool last, txl_error *error) {
    txl_status status = TXL_OK;
    while (!status && s->raw_begin < s->raw_end) {
        if (s->begun && !s->dropped)
            status = take_plain(s, error);
        size_t left = s->raw_end - s->raw_begin;
        if (status || left == 0 || (!last && left < s->ahead))
            break;
        status = normalise_one(s, error);
    }
    return status;
}

/* ---- The public functions ----------------------------------------------------------------- */

void piece_stream_start(struct piece_stream *s, bool continues, float score) {
    s->raw_begin = s->raw_end = 0;
    s->begun = s->dropped = s->after_space = false;
    s->continues = continues;
    s->first = s->at = s->reach = s->solid = s->end = s->asked = 0;
    s->n_unknown = 0;
    s->start = (struct node){.score = score, .from = NOWHERE};
    if (s->nodes)
        s->nodes[0] = s->start;
}

/* Makes room for some raw text, and returns how much of `length` bytes fits. */
static txl_status make_raw_room(struct piece_stream *s, size_t length, size_t *fits,
                                txl_error *error) {
    txl_status status = TXL_OK;
    if (s->raw_room - s->raw_end < length) {
        status = normalise(s, false, error);
        size_t left = s->raw_end - s->raw_begin;
        memmove(s->raw, s->raw + s->raw_begin, left);
        memmove(s->raw_spans, s->raw_spans + s->raw_begin, left * sizeof *s->raw_spans);
        s->raw_begin = 0;
        s->raw_end = left;
    }
    *fits = s->raw_room - s->raw_end < length ? s->raw_room - s->raw_end : length;
    return status;
}

/* Adds `length` bytes; with `each`, `first` is the span of the first one alone. */
static txl_status add_raw(struct piece_stream *s, const char *text, size_t length,
                          const struct span *first, bool each, txl_error *error) {
    struct span span = *first;
    txl_status status = TXL_OK;
    for (size_t i = 0, n; i < length && !status; i += n) {
        status = make_raw_room(s, length - i, &n, error);
        if (status)
            break;
        memcpy(s->raw + s->raw_end, text + i, n);
        for (size_t k = 0; k < n; k++) {
            s->raw_spans[s->raw_end++] = span;
            if (each)
                span_step(&span);
        }
    }
    return status;
}

txl_status piece_stream_add(struct piece_stream *s, const char *utf8, size_t length,
                            const struct span *span, txl_error *error) {
    return add_raw(s, utf8, length, span, false, error);
}

txl_status piece_stream_add_ascii(struct piece_stream *s, const char *text, size_t n,
                                  const struct span *first, txl_error *error) {
    return add_raw(s, text, n, first, true, error);
}

txl_status piece_stream_drop(struct piece_stream *s, const struct span *span, txl_error *error) {
    (void)error;
    if (s->raw_end > s->raw_begin)
        s->raw_spans[s->raw_end - 1] = span_join(&s->raw_spans[s->raw_end - 1], span);
    else
        drop_part(s, span);
    return TXL_OK;
}

/* Drops spaces at the end, and the word mark before the text if nothing else is left. */
static void strip_spaces(struct piece_stream *s) {
    uint32_t width = s->pieces->flags & PIECES_ESCAPE_SPACES ? 3 : 1, end = s->end;
    while (s->end > s->solid && ends_with_space(s))
        s->end -= width;
    if (s->end > s->first)
        s->spans[s->end - 1] = span_join(&s->spans[s->end - 1], &s->spans[end - 1]);
}

txl_status piece_stream_finish(struct piece_stream *s, txl_error *error) {
    txl_status status = normalise(s, true, error);
    if (removes_spaces(s))
        strip_spaces(s);
    s->solid = s->end;
    if (!status)
        status = cut_window(s, true, error);
    if (!status && s->end > s->first)
        status = pass_way(s, s->end, error);
    if (!status)
        status = pass_unknown(s, error);
    piece_stream_start(s, false, 0);
    return status;
}

/* The kind whose symbols are the pieces of a SentencePiece model: each line is cut as the model
 * cuts a text; the line boundary follows it. */

/* ---- Text to symbols ---------------------------------------------------------------------- */

static txl_status open_encoder(txl_encoder *encoder, txl_error *error) {
    struct piece_stream *stream = NULL;
    txl_status status =
        piece_stream_new(encoder->vocabulary->pieces, encode_piece, encoder, &stream, error);
    encoder->own = stream;
    return status;
}

static void close_encoder(txl_encoder *encoder) {
    piece_stream_free(encoder->own);
}

static void start_text(txl_encoder *encoder) {
    piece_stream_start(encoder->own, encoder->how.continues, 0);
}

static txl_status pieces_letters(txl_encoder *encoder, const char *utf8, size_t length, size_t n,
                                 txl_error *error) {
    const struct position *at = &encoder->at;
    const struct span span = encode_first_span(at, n);
    return n > 1 ? piece_stream_add_ascii(encoder->own, utf8, n, &span, error)
                 : piece_stream_add(encoder->own, utf8, length, &span, error);
}

/* The line has ended; or the text: a corpus's last line has ended already, a prompt's stays open.
 */
static txl_status finish_line(txl_encoder *encoder, txl_error *error) {
    return piece_stream_finish(encoder->own, error);
}

const struct kind_encoder pieces_encoder = {.open = open_encoder,
                                            .close = close_encoder,
                                            .start = start_text,
                                            .letters = pieces_letters,
                                            .line_end = finish_line,
                                            .finish = finish_line,
                                            .least = ' '};

/* ---- Symbols to text ---------------------------------------------------------------------- */

struct joiner {
    bool text_begun;             /* the line has text, so the next word mark is a space */
    bool mark_seen;              /* the mark before the line was dropped */
    struct unicode_decoder utf8; /* of byte pieces in a row */
    char bytes[4];               /* of the incomplete sequence */
};

static void start_decoding(txl_decoder *decoder) {
    *(struct joiner *)decoder->own = (struct joiner){0};
}

static txl_status pieces_add(txl_decoder *decoder, const char *bytes, size_t length,
                             txl_error *error) {
    struct joiner *own = decoder->own;
    own->text_begun = own->text_begun || length > 0;
    return decode_add(decoder, bytes, length, error);
}

/* Adds one U+FFFD for each of n bytes that belong to no character. */
static txl_status add_replaced(txl_decoder *decoder, size_t n, txl_error *error) {
    txl_status status = TXL_OK;
    for (; n > 0 && !status; n--)
        status = pieces_add(decoder, "\xef\xbf\xbd", 3, error);
    return status;
}

static txl_status add_byte(txl_decoder *decoder, unsigned char byte, txl_error *error) {
    struct joiner *own = decoder->own;
    unsigned before = own->utf8.taken;
    uint32_t codes[2];
    size_t n = unicode_decode(&own->utf8, byte, codes);
    bool whole = n == 1 && own->utf8.taken == 0 && (codes[0] != UNICODE_REPLACEMENT || before == 2);
    own->bytes[before < 4 ? before : 0] = (char)byte;
    if (n == 0)
        return TXL_OK;
    if (whole)
        return pieces_add(decoder, own->bytes, before + 1, error);
    /* The incomplete sequence is replaced; this byte begins a new one or is replaced too. */
    txl_status status = add_replaced(decoder, before + (own->utf8.taken == 0), error);
    own->bytes[0] = (char)byte;
    return status;
}

static txl_status end_bytes(txl_decoder *decoder, txl_error *error) {
    struct joiner *own = decoder->own;
    unsigned cut = own->utf8.taken;
    unicode_decode_end(&own->utf8);
    return add_replaced(decoder, cut, error);
}

static txl_status add_spelling(txl_decoder *decoder, const char *spelling, size_t length,
                               txl_error *error) {
    struct joiner *own = decoder->own;
    const unsigned flags = decoder->vocabulary->pieces->flags;
    bool drops = flags & (PIECES_DUMMY_PREFIX | PIECES_REMOVE_SPACES);
    if (drops && !own->text_begun && begins_with_word_mark(spelling, length)) {
        spelling += 3;
        length -= 3;
        own->mark_seen = !(flags & PIECES_REMOVE_SPACES);
    }
    txl_status status = TXL_OK;
    while (length > 0 && !status) {
        const char *mark = memmem(spelling, length, WORD_MARK, WORD_MARK_BYTES);
        size_t n = mark ? (size_t)(mark - spelling) : length;
        status = pieces_add(decoder, spelling, n, error);
        if (!status && mark)
            status = pieces_add(decoder, " ", 1, error);
        spelling += mark ? n + 3 : n;
        length -= mark ? n + 3 : n;
    }
    return status;
}

static txl_status pieces_push(txl_decoder *decoder, int32_t id, const char *spelling, size_t length,
                              txl_error *error) {
    const struct sentencepiece *pieces = decoder->vocabulary->pieces;
    const unsigned char type = id >= 0 ? pieces->types[id] : PIECE_UNKNOWN;
    if (type == PIECE_BYTE)
        return add_byte(decoder, (unsigned char)sentencepiece_byte(spelling, length), error);
    txl_status status = end_bytes(decoder, error);
    if (status)
        return status;
    if (id >= 0 && id == decoder->vocabulary->eos) {
        start_decoding(decoder);
        return decode_add(decoder, "\n", 1, error);
    }
    struct joiner *own = decoder->own;
    own->text_begun = own->text_begun || own->mark_seen;
    own->mark_seen = false;
    if (type == PIECE_CONTROL)
        return TXL_OK;
    if (id < 0)
        return pieces_add(decoder, spelling, length, error);
    return type == PIECE_UNKNOWN ? pieces_add(decoder, pieces->surface, pieces->n_surface, error)
                                 : add_spelling(decoder, spelling, length, error);
}

/* If text was shown, a line has begun, unless the last byte was a line end; after a blank the next
 * word needs none. */
static txl_status pieces_shown(txl_decoder *decoder, char tail, txl_error *error) {
    struct joiner *own = decoder->own;
    (void)error;
    own->text_begun = tail != '\0' && !is_space_byte(tail);
    own->mark_seen = false;
    return TXL_OK;
}

const struct kind_decoder pieces_decoder = {.own_size = sizeof(struct joiner),
                                            .start = start_decoding,
                                            .symbol = pieces_push,
                                            .finish = end_bytes,
                                            .shown = pieces_shown};
