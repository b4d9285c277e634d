/* Chooses how a text is split. */
#include "text_form.h"

#include "cli/system/terminal.h"

const char *const text_forms[] = {"raw", "tokens", NULL};

const char *text_form(const struct model *model, int form, bool ids) {
    return ids ? "ids" : model_has_words(model) ? text_forms[form] : "-";
}

bool text_form_choose(txl_kind kind, int asked, int standard, int *form) {
    *form = asked == CHOICE_UNSET ? standard : asked;
    if (asked == CHOICE_UNSET || txl_kind_unit(kind) == TXL_UNIT_WORD)
        return true;
    terminal_error("--text %s is for models of words; this model's text is split in one way only",
                   text_forms[asked]);
    return false;
}
