/* A flag, and bytes predicted by the byte before: their frequencies follow what was coded so far.
 * Knows no model. */
#ifndef TXL_COMPRESS_BYTE_MODEL_H
#define TXL_COMPRESS_BYTE_MODEL_H

#include "range_coder.h"

/* A flag.  Its probability of being true is `share` / FLAG_TOTAL; each flag moves it by a
 * 128th of the way to what it was. */
enum { FLAG_TOTAL = 1 << 16, FLAG_SHIFT = 7, FLAG_LEAST = 2 };

struct flag {
    uint32_t share; /* FLAG_LEAST to FLAG_TOTAL - FLAG_LEAST */
};

void flag_encode(struct flag *flag, struct range_encoder *encoder, bool value);

/* False: the data is damaged. */
bool flag_decode(struct flag *flag, struct range_decoder *decoder, bool *value);

/* Bytes, each with frequencies that the same byte before it has had. */
struct byte_model {
    unsigned char before;
    uint16_t total[256];
    uint16_t frequency[256][256];
};

void byte_model_start(struct byte_model *model);
void byte_encode(struct byte_model *model, struct range_encoder *encoder, unsigned char byte);

/* False: the data is damaged. */
bool byte_decode(struct byte_model *model, struct range_decoder *decoder, unsigned char *byte);

#endif
