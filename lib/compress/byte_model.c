/* Codes flags and bytes by the frequencies of those before. */
#include "byte_model.h"

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
