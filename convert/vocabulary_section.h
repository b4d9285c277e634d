/* Vocabularies as sections of a weights file. */
#ifndef CONVERT_VOCABULARY_SECTION_H
#define CONVERT_VOCABULARY_SECTION_H

#include "convert.h"
#include "recognise.h"

/* Packs the vocabulary at `path`, which must be that of the recognised model, and sets in
 * r->settings what it says about the text.  `tokenizer` is the name of a kind; NULL: the usual one.
 * vocabulary->section is the caller's to free even after a failure. */
txl_status vocabulary_section_read(const char *path, const char *tokenizer, struct recognised *r,
                                   struct convert_vocabulary *vocabulary, txl_error *error);

#endif
