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
    decoder->end = size > 0 ? decoder->next + size : decoder->next; /* NULL + 0 is not defined */
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

/* ---- Bits --------------------------------------------------------------------------------- */

enum { BIT_TOTAL = 1 << 16 };

static void add_cost(struct bit_cost *cost, uint64_t part) {
    const uint64_t range = (cost->range ? cost->range : UINT64_MAX) / BIT_TOTAL * part;
    const int shift = __builtin_clzll(range);
    cost->doubled += (uint64_t)shift;
    cost->range = range << shift;
}

/* A 1 comes first. */
int bit_code(struct bit_coder *coder, int bit, unsigned p) {
    if (!coder->encoder) {
        const uint64_t place = coder->damaged ? p : range_decode_place(coder->decoder, BIT_TOTAL);
        coder->damaged = coder->damaged || place >= BIT_TOTAL;
        bit = place < p;
    }
    const uint64_t below = bit ? 0 : p, part = bit ? p : BIT_TOTAL - p;
    if (coder->encoder)
        range_encode(coder->encoder, below, part, BIT_TOTAL);
    else if (!coder->damaged)
        range_decode(coder->decoder, below, part, BIT_TOTAL);
    add_cost(coder->cost, part);
    return bit;
}

/* ---- Flags and bytes ---------------------------------------------------------------------- */

/* Moves the share by at least 1, so that it reaches its bounds. */
static void flag_learn(struct flag *flag, bool value) {
    const uint32_t up = (1 << FLAG_SHIFT) - 1, most = FLAG_TOTAL - FLAG_LEAST;
    uint32_t share = flag->share;
    share = value ? share + ((FLAG_TOTAL - share + up) >> FLAG_SHIFT)
                  : share - ((share + up) >> FLAG_SHIFT);
    flag->share = share < FLAG_LEAST ? FLAG_LEAST : share > most ? most : share;
}

/* True comes first. */
void flag_encode(struct flag *flag, struct range_encoder *encoder, bool value) {
    uint32_t share = flag->share;
    range_encode(encoder, value ? 0 : share, value ? share : FLAG_TOTAL - share, FLAG_TOTAL);
    flag_learn(flag, value);
}

bool flag_decode(struct flag *flag, struct range_decoder *decoder, bool *value) {
    uint32_t share = flag->share;
    uint64_t place = range_decode_place(decoder, FLAG_TOTAL);
    if (place >= FLAG_TOTAL)
        return false;
    *value = place < share;
    range_decode(decoder, *value ? 0 : share, *value ? share : FLAG_TOTAL - share, FLAG_TOTAL);
    flag_learn(flag, *value);
    return true;
}

/* A byte that came weighs as much as 32 that did not yet; old ones count less when the sum is
 * halved. */
enum { BYTE_STEP = 32, BYTE_TOTAL_END = 1 << 13 };

void byte_model_start(struct byte_model *model) {
    model->before = 0;
    for (int i = 0; i < 256; i++) {
        model->total[i] = 256;
        for (int j = 0; j < 256; j++)
            model->frequency[i][j] = 1;
    }
}

static void byte_learn(struct byte_model *model, unsigned char byte) {
    uint16_t *frequency = model->frequency[model->before], *total = &model->total[model->before];
    frequency[byte] = (uint16_t)(frequency[byte] + BYTE_STEP);
    *total = (uint16_t)(*total + BYTE_STEP);
    if (*total >= BYTE_TOTAL_END) {
        *total = 0;
        for (int i = 0; i < 256; i++) {
            frequency[i] = (uint16_t)((frequency[i] + 1) / 2);
            *total = (uint16_t)(*total + frequency[i]);
        }
    }
    model->before = byte;
}

void byte_encode(struct byte_model *model, struct range_encoder *encoder, unsigned char byte) {
    const uint16_t *frequency = model->frequency[model->before];
    uint64_t below = 0;
    for (int i = 0; i < byte; i++)
        below += frequency[i];
    range_encode(encoder, below, frequency[byte], model->total[model->before]);
    byte_learn(model, byte);
}

bool byte_decode(struct byte_model *model, struct range_decoder *decoder, unsigned char *byte) {
    const uint16_t *frequency = model->frequency[model->before];
    uint64_t total = model->total[model->before], below = 0;
    uint64_t place = range_decode_place(decoder, total);
    if (place >= total)
        return false;
    int i = 0;
    while (below + frequency[i] <= place)
        below += frequency[i++];
    range_decode(decoder, below, frequency[i], total);
    byte_learn(model, (unsigned char)i);
    *byte = (unsigned char)i;
    return true;
}

/* ---- A softmax as frequencies ------------------------------------------------------------ */

enum { FEW_ENTRIES = 65536 };

uint64_t quantise(const float *e, size_t n, double sum, const unsigned char *used,
                  uint64_t *frequency) {
    const double whole = n > FEW_ENTRIES ? 1 << 30 : 1 << 24, unit = (whole - (double)n) / sum;
    if (!(sum >= 1 && unit > 0)) /* NaN neither */
        return 0;
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++)
        frequency[i] = (uint64_t)(1 + (int32_t)((double)e[i] * unit));
    for (size_t i = 0; used && i < n; i++)
        frequency[i] &= -(uint64_t)(used[i] != 0);
    for (size_t i = n; i < quantised_room(n); i++)
        frequency[i] = 0;
    for (size_t i = 0; i < n; i++)
        total += frequency[i];
    return total;
}

uint64_t quantised_mix(uint64_t *frequency, size_t n, uint64_t total, uint32_t share,
                       const uint32_t *count, uint32_t unit, const uint32_t *extra, double scale) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        frequency[i] =
            share * frequency[i] + quantised_given(count[i] * unit + extra[i], scale, total);
    for (size_t i = 0; i < n; i++)
        sum += frequency[i];
    return sum;
}

uint64_t quantised_below(const uint64_t *frequency, size_t i) {
    uint64_t below = 0;
    for (size_t j = 0; j < i; j++)
        below += frequency[j];
    return below;
}

size_t quantised_find(const uint64_t *frequency, uint64_t place, uint64_t *below) {
    size_t i = 0;
    *below = 0;
    for (uint64_t sum; *below + (sum = quantised_below(frequency + i, 64)) <= place; i += 64)
        *below += sum;
    while (*below + frequency[i] <= place)
        *below += frequency[i++];
    return i;
}
