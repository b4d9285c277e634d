/* The range coder.
 *
 * The code is a binary fraction.  `low` and `range` bound it: 64 bits, after those that were
 * written.  A symbol takes its share of the range, and bytes that are decided are written.  A sum
 * that overflows `low` is carried into the bytes written before.  As the range never falls below
 * 2^56, a total below 2^32 is divided with a relative error of less than 2^-24, and one below 2^48,
 * of many entries and a cache, of less than 2^-8 at worst and a hundredth of that as a rule. */
#include "range_coder.h"

static const uint64_t least_range = (uint64_t)1 << 56;

static void write_byte(struct range_encoder *encoder, unsigned char byte) {
    encoder->failed = !buffer_append(encoder->out, &byte, 1) || encoder->failed;
}

/* The code lies below 1, so that the carry ends within what was written. */
static void carry_into_code(struct range_encoder *encoder) {
    size_t i = encoder->out->length;
    if (encoder->failed)
        return;
    do
        i--;
    while (++encoder->out->data[i] == 0 && i > encoder->start);
}

void range_encoder_start(struct range_encoder *encoder, struct buffer *out) {
    *encoder = (struct range_encoder){.range = UINT64_MAX, .start = out->length, .out = out};
}

void range_encode(struct range_encoder *encoder, uint64_t below, uint64_t frequency,
                  uint64_t total) {
    uint64_t unit = encoder->range / total, low = encoder->low;
    encoder->low += unit * below;
    encoder->range = unit * frequency;
    if (encoder->low < low)
        carry_into_code(encoder);
    for (; encoder->range < least_range; encoder->range <<= 8, encoder->low <<= 8)
        write_byte(encoder, (unsigned char)(encoder->low >> 56));
}

bool range_encoder_finish(struct range_encoder *encoder) {
    /* The range holds a multiple of 2^56: a byte is enough, and zeros follow it. */
    const uint64_t mask = least_range - 1, code = (encoder->low + mask) & ~mask;
    struct buffer *out = encoder->out;
    if (code < encoder->low)
        carry_into_code(encoder);
    write_byte(encoder, (unsigned char)(code >> 56));
    while (!encoder->failed && out->length > encoder->start && out->data[out->length - 1] == 0)
        out->length--;
    return !encoder->failed;
}

static unsigned char next_byte(struct range_decoder *decoder) {
    if (decoder->next < decoder->end)
        return *decoder->next++;
    decoder->behind++;
    return 0;
}

void range_decoder_start(struct range_decoder *decoder, const void *data, size_t size) {
    *decoder = (struct range_decoder){.range = UINT64_MAX, .start = data, .next = data};
    decoder->end = decoder->next + size;
    for (int i = 0; i < 8; i++)
        decoder->code = decoder->code << 8 | next_byte(decoder);
}

uint64_t range_decode_place(struct range_decoder *decoder, uint64_t total) {
    return decoder->code / (decoder->range / total);
}

void range_decode(struct range_decoder *decoder, uint64_t below, uint64_t frequency,
                  uint64_t total) {
    uint64_t unit = decoder->range / total;
    decoder->code -= unit * below;
    decoder->range = unit * frequency;
    for (; decoder->range < least_range; decoder->range <<= 8)
        decoder->code = decoder->code << 8 | next_byte(decoder);
}

/* The code is a multiple of 2^56 if 7 of the 8 bytes that were taken last are after the end; it is
 * the lowest one above `low` if it is less than 2^56 above; and zeros at the end are left out. */
bool range_decoder_ends(const struct range_decoder *decoder) {
    const size_t size = (size_t)(decoder->end - decoder->start);
    return decoder->behind >= 7 && decoder->code < least_range &&
           (size <= 1 || decoder->end[-1] != 0);
}
