/* The end of a text. */
#include "recent.h"

#include "cli/system/terminal.h"
#include "sampling.h"

#include <stdlib.h>

bool recent_copy(struct recent *recent, const txl_history *history) {
    *recent = (struct recent){.ids = calloc(HISTORY_WINDOW, sizeof *recent->ids)};
    if (!recent->ids) {
        terminal_error("out of memory");
        return false;
    }
    recent->n = txl_history_recent(history, recent->ids, HISTORY_WINDOW);
    return true;
}

void recent_free(struct recent *recent) {
    free(recent->ids);
    *recent = (struct recent){0};
}

int32_t recent_line_end(const txl_model *model) {
    switch (txl_model_kind(model)) {
    case TXL_BYTES:
        return txl_model_id(model, "32", 2);
    case TXL_TEXT8:
        return txl_model_id(model, "_", 1);
    default:
        return txl_model_eos(model);
    }
}

int32_t recent_blank(const txl_model *model) {
    txl_kind kind = txl_model_kind(model);
    return kind == TXL_CHARACTERS                   ? txl_model_id(model, " ", 1)
           : kind == TXL_BYTES || kind == TXL_TEXT8 ? recent_line_end(model)
                                                    : -1;
}

/* Where the line ends that the text ends with begin. */
static size_t before_line_ends(const int32_t *ids, size_t n, const txl_model *model) {
    while (n > 0 && ids[n - 1] == recent_line_end(model))
        n--;
    return n;
}

size_t recent_line(const int32_t *ids, size_t n, const txl_model *model) {
    txl_kind kind = txl_model_kind(model);
    if (kind != TXL_WORDS && kind != TXL_LM1B)
        return n;
    size_t i = before_line_ends(ids, n, model);
    if (i < n) /* the word before tells which <S> closes a line */
        return i > 0 ? i - 1 : 0;
    while (i > 0 && ids[i - 1] != txl_model_eos(model))
        i--;
    return i;
}

bool recent_line_is_open(const int32_t *ids, size_t n, const txl_model *model) {
    size_t words = before_line_ends(ids, n, model), boundaries = n - words;
    if (txl_model_kind(model) == TXL_LM1B)
        return (words > 0) == (boundaries % 2 == 0);
    return n > 0 && boundaries == 0;
}
