/* How a command's text is split into symbols (--text). */
#ifndef CLI_TEXT_FORM_H
#define CLI_TEXT_FORM_H

#include "model.h"

extern const char *const text_forms[]; /* raw, tokens */
enum { TEXT_RAW, TEXT_TOKENS };

/* Rows of options that several commands have.  In the brackets stand .offset and what else a
 * command has its own of. */
#define TEXT_ROW(...)                                                                              \
    {                                                                                              \
        .name = "text", .kind = OPTION_CHOICE, .choices = text_forms,                              \
        .help = "for models of words: tokens is text that is split at white space, raw is prose",  \
        __VA_ARGS__                                                                                \
    }
#define SKIP_UNKNOWN_ROW(when, place)                                                              \
    {                                                                                              \
        .name = "skip-unknown", .kind = OPTION_FLAG,                                               \
        .help = when "leave out symbols that the vocabulary lacks, where it has no <unk>",         \
        .offset = (place)                                                                          \
    }

/* How the run's text is split, for the summary: "raw", "tokens" or "ids"; "-" for models that split
 * text in only one way. */
const char *text_form(const struct model *model, int form, bool ids);

/* Sets `*form` to `asked`, the value of --text, or to `standard` if that is CHOICE_UNSET.  False
 * with the error printed if --text is given for a kind that splits text in only one way. */
bool text_form_choose(txl_kind kind, int asked, int standard, int *form);

#endif
