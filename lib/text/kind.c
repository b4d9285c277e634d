/* The table of the kinds of text: the only place that lists them. */
#include "kind.h"

#include <string.h>

static const struct text_kind kinds[] = {
    [TXL_WORDS] = {.name = "words",
                   .unit = TXL_UNIT_WORD,
                   .line_end = TXL_LINE_END_SYMBOL,
                   .boundary = "<eos>",
                   .encoder = &words_encoder,
                   .decoder = &words_decoder},
    [TXL_LM1B] = {.name = "lm1b",
                  .unit = TXL_UNIT_WORD,
                  .line_end = TXL_LINE_END_PAIR,
                  .boundary = "<S>",
                  .encoder = &words_encoder,
                  .decoder = &words_decoder},
    [TXL_BYTES] = {.name = "bytes",
                   .unit = TXL_UNIT_CHARACTER,
                   .line_end = TXL_LINE_END_NONE,
                   .space = "32",
                   .encoder = &bytes_encoder,
                   .decoder = &bytes_decoder},
    [TXL_TEXT8] = {.name = "text8",
                   .unit = TXL_UNIT_CHARACTER,
                   .line_end = TXL_LINE_END_NONE,
                   .space = "_",
                   .encoder = &characters_encoder,
                   .decoder = &characters_decoder},
    [TXL_CHARACTERS] = {.name = "characters",
                        .unit = TXL_UNIT_CHARACTER,
                        .line_end = TXL_LINE_END_SYMBOL,
                        .boundary = "<eos>",
                        .space = " ",
                        .encoder = &characters_encoder,
                        .decoder = &characters_decoder},
    [TXL_PIECES] = {.name = "pieces",
                    .unit = TXL_UNIT_PIECE,
                    .line_end = TXL_LINE_END_SYMBOL,
                    .boundary = "</s>",
                    .encoder = &pieces_encoder,
                    .decoder = &pieces_decoder},
    [TXL_XLNET] = {.name = "xlnet",
                   .unit = TXL_UNIT_PIECE,
                   .line_end = TXL_LINE_END_SPACE,
                   .boundary = "<eod>",
                   .encoder = &xlnet_encoder,
                   .decoder = &xlnet_decoder},
};

enum { N_KIND = sizeof kinds / sizeof *kinds };

const struct text_kind *text_kind(txl_kind kind) {
    return &kinds[kind];
}

const char *text_kind_name(uint32_t kind) {
    return kind < N_KIND ? kinds[kind].name : NULL;
}

const char *txl_kind_name(txl_kind kind) {
    return text_kind_name((uint32_t)kind);
}

txl_unit txl_kind_unit(txl_kind kind) {
    return kinds[kind].unit;
}

txl_line_end txl_kind_line_end(txl_kind kind) {
    return kinds[kind].line_end;
}

const char *txl_kind_space(txl_kind kind) {
    return kinds[kind].space;
}

bool txl_kind_takes_bytes(txl_kind kind) {
    return kinds[kind].encoder->undecoded != NULL;
}

bool text_kind_find(const char *name, txl_kind *kind) {
    for (int i = 0; i < N_KIND; i++) {
        if (strcmp(name, kinds[i].name) == 0) {
            *kind = (txl_kind)i;
            return true;
        }
    }
    return false;
}
