/* The end of a text. */
#include "recent.h"

#include "cli/io/terminal.h"
#include "cli/model/sampling.h"

#include <stdlib.h>
#include <string.h>

bool recent_copy(struct id_list *recent, const txl_history *history) {
    *recent = (struct id_list){.ids = calloc(HISTORY_WINDOW, sizeof *recent->ids)};
    if (!recent->ids)
        return terminal_error("out of memory");
    recent->n = txl_history_recent(history, recent->ids, HISTORY_WINDOW);
    return true;
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
