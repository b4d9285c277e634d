/* Feeds what is known, and looks at its end. */
#include "reading.h"

#include "cli/model/sampling.h"
#include "lib/base/error.h"

#include <stdlib.h>
#include <string.h>

/* ---- Feeding what is known ----------------------------------------------------------------- */

enum { MOST_CHUNK = 4096 };

size_t reading_chunk(const struct reading *r) {
    return r->both_sides || r->tgt_len < MOST_CHUNK ? r->tgt_len : MOST_CHUNK;
}

txl_status reading_feed(const struct reading *r, txl_session *session, const int32_t *ids, size_t n,
                        txl_error *error) {
    if (!r->both_sides)
        return txl_session_feed(session, ids, n, error);
    return r->refresh > 0 ? TXL_OK : txl_session_feed_block(session, ids, n, error);
}

txl_status reading_refresh(const struct reading *r, txl_session *session, const txl_history *known,
                           txl_error *error) {
    int32_t *ids = calloc(r->tgt_len, sizeof *ids);
    if (!ids)
        return txl_fail(error, TXL_MEMORY, "out of memory");
    txl_session_reset(session);
    size_t n = txl_history_recent(known, ids, r->tgt_len);
    txl_status status = txl_session_feed_block(session, ids, n, error);
    free(ids);
    return status;
}

/* ---- The end of a text, as ids ------------------------------------------------------------- */

txl_status recent_copy(struct id_list *recent, const txl_history *history, txl_error *error) {
    *recent = (struct id_list){.ids = calloc(HISTORY_WINDOW, sizeof *recent->ids)};
    if (!recent->ids)
        return txl_fail(error, TXL_MEMORY, "out of memory");
    recent->n = txl_history_recent(history, recent->ids, HISTORY_WINDOW);
    return TXL_OK;
}

int32_t recent_line_end(const txl_model *model) {
    bool none = txl_kind_line_end(txl_model_kind(model)) == TXL_LINE_END_NONE;
    return none ? recent_blank(model) : txl_model_eos(model);
}

int32_t recent_blank(const txl_model *model) {
    const char *space = txl_kind_space(txl_model_kind(model));
    return space ? txl_model_id(model, space, strlen(space)) : -1;
}

/* Where the line ends at the end of the text begin. */
static size_t before_line_ends(const int32_t *ids, size_t n, const txl_model *model) {
    while (n > 0 && ids[n - 1] == recent_line_end(model))
        n--;
    return n;
}

size_t recent_line(const int32_t *ids, size_t n, const txl_model *model) {
    if (txl_kind_unit(txl_model_kind(model)) != TXL_UNIT_WORD)
        return n;
    size_t i = before_line_ends(ids, n, model);
    if (i < n) /* the word before decides whether an <S> closes a line */
        return i > 0 ? i - 1 : 0;
    while (i > 0 && ids[i - 1] != txl_model_eos(model))
        i--;
    return i;
}

bool recent_line_is_open(const int32_t *ids, size_t n, const txl_model *model) {
    size_t words = before_line_ends(ids, n, model), boundaries = n - words;
    if (txl_kind_line_end(txl_model_kind(model)) == TXL_LINE_END_PAIR)
        return (words > 0) == (boundaries % 2 == 0);
    return n > 0 && boundaries == 0;
}
