/* The source of a conversion: a checkpoint, recognised, and its vocabulary. */
#ifndef CONVERT_SOURCE_H
#define CONVERT_SOURCE_H

#include "convert.h"
#include "recognise.h"

/* Opens the checkpoint at `source` and recognises it. */
txl_status source_recognise(const char *source, const struct convert_options *options,
                            struct recognised *r, txl_error *error);

/* Packs the vocabulary at `path`, which must be that of the recognised model, and sets in
 * r->settings what it says about the text.  `tokenizer` is the name of a kind; NULL: the usual one.
 * vocabulary->section is the caller's to free even after a failure. */
txl_status source_read_vocabulary(const char *path, const char *tokenizer, struct recognised *r,
                                  struct convert_vocabulary *vocabulary, txl_error *error);

#endif
