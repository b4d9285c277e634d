/* Tokens out of an input: text through the library's encoder, or decimal ids with blanks between
 * them (--ids), in the same events. */
#ifndef CLI_TOKENS_H
#define CLI_TOKENS_H

#include "cli/system/input.h"
#include "txl.h"

struct id_parser {
    const txl_model *model;
    uint64_t line, column; /* of the next character, from 1 */
    uint64_t start;        /* column of the number at hand */
    uint64_t offset;       /* of the next character in the input, in bytes */
    uint64_t begin;        /* of the number at hand */
    int64_t number;        /* -1: between numbers */
};

struct token_reader {
    struct input *input;
    struct txl_encoding encoding;
    txl_encoder *encoder; /* NULL: the input is ids */
    struct id_parser ids;
    /* NULL, or sees the text before the symbols that come of it; receives the encoding's context.
     * What it returns, if not TXL_OK, ends the reading. */
    txl_status (*see_text)(void *context, const char *text, size_t length, txl_error *error);
    uint64_t fed; /* bytes passed on */
    bool ended;   /* the text was read to its end */
};

/* `encoding` says how text becomes symbols, and who receives them.  False with the error printed.
 */
bool token_reader_open(struct token_reader *reader, const txl_model *model, struct input *input,
                       const struct txl_encoding *encoding, bool ids);

/* Passes `length` bytes on to the encoder or the parser.  The receiver's own TXL_STOPPED comes back
 * without a message; every other failure has had its error printed, with the input's name. */
txl_status token_reader_feed(struct token_reader *reader, const char *text, size_t length);
txl_status token_reader_finish(struct token_reader *reader);

/* Reads the whole input.  `progress`, unless NULL, is called again and again. */
txl_status token_reader_run(struct token_reader *reader, void (*progress)(void *), void *context);

/* Bytes, characters and unknown symbols of the text so far. */
void token_reader_counts(const struct token_reader *reader, txl_encoded *counts);
void token_reader_close(struct token_reader *reader);

#endif
