/* Reads SentencePiece model files, and these fields of their protobuf message ModelProto:
 *
 *     1      pieces: 1 spelling, 2 score (float), 3 type
 *     2      trainer: 3 kind of model, 24 word marks as suffixes, 35 byte fallback, 44 surface of
 *            unknown pieces
 *     3, 5   normaliser, denormaliser: 2 rules, 3 dummy prefix, 4 removal of extra spaces, 5 word
 *            marks for spaces */
#include "kind.h"
#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/base/protobuf.h"
#include "sentencepiece.h"
#include "vocabulary.h"

#include <endian.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Models ------------------------------------------------------------------------------- */

struct model {
    const char *file;
    const uint8_t *data;
    size_t n;                         /* pieces */
    struct vocabulary_entry *entries; /* [n] */
    float *scores;                    /* [n] */
    unsigned char *types;             /* [n] */
    unsigned flags;
    uint64_t kind; /* as the trainer numbers them: 1 unigram, 2 BPE, 3 words, 4 characters */
    bool suffix, denormalises;
    const char *surface;
    size_t n_surface;
    const uint8_t *charsmap;
    size_t n_charsmap;
};

/* `of` and `name` say where the field is. */
static txl_status bad_message(const struct model *model, const struct protobuf *message,
                              const char *of, const char *name, txl_error *error) {
    return txl_fail(error, TXL_FORMAT,
                    "%s: not a SentencePiece model: a field%s%s at byte %zu does not end within it",
                    model->file, of, name, (size_t)(message->at - model->data));
}

static txl_status bad_field(const struct model *model, const char *what, unsigned type,
                            txl_error *error) {
    return txl_fail(error, TXL_FORMAT,
                    "%s: not a SentencePiece model: %s has a value of protobuf type %u",
                    model->file, what, type);
}

static void take_piece(struct model *model, const struct protobuf_field *field) {
    uint32_t bits = (uint32_t)field->value;
    if (field->number == 1)
        model->entries[model->n] =
            (struct vocabulary_entry){(const char *)field->data, field->length};
    else if (field->number == 2)
        memcpy(&model->scores[model->n], &bits, sizeof bits);
    else if (field->number == 3)
        model->types[model->n] = field->value > PIECE_BYTE ? 0 : (unsigned char)field->value;
}

static void set_flag(struct model *model, unsigned flag, uint64_t value) {
    model->flags = (model->flags & ~flag) | (value != 0 ? flag : 0);
}

static void take_trainer(struct model *model, const struct protobuf_field *field) {
    if (field->number == 3) {
        model->kind = field->value;
    } else if (field->number == 24) {
        model->suffix = field->value != 0;
    } else if (field->number == 35) {
        set_flag(model, PIECES_BYTE_FALLBACK, field->value);
    } else if (field->number == 44) {
        model->surface = (const char *)field->data;
        model->n_surface = field->length;
    }
}

static void take_normaliser(struct model *model, const struct protobuf_field *field) {
    static const unsigned flags[] = {
        [3] = PIECES_DUMMY_PREFIX, [4] = PIECES_REMOVE_SPACES, [5] = PIECES_ESCAPE_SPACES};
    if (field->number == 2) {
        model->charsmap = field->data;
        model->n_charsmap = field->length;
    } else if (field->number >= 3 && field->number <= 5) {
        set_flag(model, flags[field->number], field->value);
    }
}

static void take_denormaliser(struct model *model, const struct protobuf_field *field) {
    if (field->number == 2)
        model->denormalises = field->length > 0;
}

/* Whether a field that is used has the type of its values. */
static bool has_type(uint64_t part, const struct protobuf_field *field) {
    static const struct {
        uint64_t part, number;
        unsigned type;
    } used[] = {
        {1, 1, PROTOBUF_BYTES},  {1, 2, PROTOBUF_32},      {1, 3, PROTOBUF_VARINT},
        {2, 3, PROTOBUF_VARINT}, {2, 24, PROTOBUF_VARINT}, {2, 35, PROTOBUF_VARINT},
        {2, 44, PROTOBUF_BYTES}, {3, 2, PROTOBUF_BYTES},   {3, 3, PROTOBUF_VARINT},
        {3, 4, PROTOBUF_VARINT}, {3, 5, PROTOBUF_VARINT},
    };
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        if (used[i].part == part && used[i].number == field->number)
            return used[i].type == field->type;
    return true;
}

static txl_status read_part(struct model *model, const struct protobuf_field *whole,
                            txl_error *error) {
    static const struct {
        const char *name;
        void (*take)(struct model *model, const struct protobuf_field *field);
    } parts[] = {
        [1] = {"a piece", take_piece},
        [2] = {"the trainer's settings", take_trainer},
        [3] = {"the normaliser", take_normaliser},
        [5] = {"the denormaliser", take_denormaliser},
    };
    const uint64_t part = whole->number;
    if (part >= sizeof parts / sizeof *parts || !parts[part].name)
        return TXL_OK;
    if (whole->type != PROTOBUF_BYTES)
        return bad_field(model, "a part", whole->type, error);
    if (part == 1) {
        model->entries[model->n] = (struct vocabulary_entry){"", 0};
        model->types[model->n] = PIECE_NORMAL;
    }
    struct protobuf message = protobuf_inside(whole);
    while (message.at < message.end) {
        struct protobuf_field field;
        if (!protobuf_field(&message, &field))
            return bad_message(model, &message, " of ", parts[part].name, error);
        if (!has_type(part, &field))
            return bad_field(model, parts[part].name, field.type, error);
        parts[part].take(model, &field);
    }
    model->n += part == 1;
    return TXL_OK;
}

static void free_model(struct model *model) {
    free(model->entries);
    free(model->scores);
    free(model->types);
}

/* Counts the pieces, so that their arrays can be made. */
static txl_status count_pieces(const struct model *model, size_t size, size_t *n,
                               txl_error *error) {
    struct protobuf message = {model->data, model->data + size};
    *n = 0;
    while (message.at < message.end) {
        struct protobuf_field field;
        if (!protobuf_field(&message, &field))
            return bad_message(model, &message, "", "", error);
        *n += field.number == 1;
    }
    if (*n == 0 || *n > MAX_N_TOKEN)
        return txl_fail(error, TXL_FORMAT,
                        "%s: not a SentencePiece model: %zu pieces, expected 1 to %d", model->file,
                        *n, MAX_N_TOKEN);
    return TXL_OK;
}

static txl_status read_model(struct model *model, size_t size, txl_error *error) {
    size_t n;
    txl_status status = count_pieces(model, size, &n, error);
    if (status)
        return status;
    model->entries = calloc(n, sizeof *model->entries);
    model->scores = calloc(n, sizeof *model->scores);
    model->types = calloc(n, sizeof *model->types);
    if (!model->entries || !model->scores || !model->types)
        return txl_fail_memory(error, "the pieces", n * (sizeof *model->entries + 5));
    struct protobuf message = {model->data, model->data + size};
    struct protobuf_field field;
    while (!status && message.at < message.end && protobuf_field(&message, &field))
        status = read_part(model, &field, error);
    return status;
}

static txl_status check_model(const struct model *model, txl_error *error) {
    static const char *const kinds[] = {"unknown", "unigram", "BPE", "word", "char"};
    const char *wrong = NULL;
    if (model->kind != 1)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: a SentencePiece model of the %s kind; unigram models alone are "
                        "supported",
                        model->file, kinds[model->kind < 5 ? model->kind : 0]);
    if (model->suffix)
        wrong = "that puts word marks after words (treat_whitespace_as_suffix)";
    else if (model->denormalises)
        wrong = "with denormalisation rules";
    if (wrong)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: a SentencePiece model %s is not supported",
                        model->file, wrong);
    return TXL_OK;
}

/* ---- The section -------------------------------------------------------------------------- */

static void *put_bytes(void *at, const void *bytes, size_t size) {
    if (size > 0)
        memcpy(at, bytes, size);
    return (char *)at + size;
}

static txl_status pack_pieces(const struct model *model, struct packed_pieces *packed,
                              txl_error *error) {
    void *spellings;
    size_t size;
    txl_status status = vocabulary_pack(model->entries, model->n, &spellings, &size, error);
    if (status)
        return status;
    size_t padded = (size + 3) & ~(size_t)3;
    size_t whole = padded + 12 + 5 * model->n + model->n_surface + model->n_charsmap;
    unsigned char *section = realloc(spellings, whole);
    if (!section) {
        free(spellings);
        return txl_fail_memory(error, "the vocabulary", whole);
    }
    memset(section + size, 0, padded - size);
    const uint32_t head[] = {htole32(model->flags), htole32((uint32_t)model->n_surface),
                             htole32((uint32_t)model->n_charsmap)};
    void *at = put_bytes(section + padded, head, sizeof head);
    for (size_t i = 0; i < model->n; i++) {
        uint32_t bits;
        memcpy(&bits, &model->scores[i], sizeof bits);
        bits = htole32(bits);
        at = put_bytes(at, &bits, sizeof bits);
    }
    at = put_bytes(at, model->types, model->n);
    at = put_bytes(at, model->surface, model->n_surface);
    put_bytes(at, model->charsmap, model->n_charsmap);
    packed->section = section;
    packed->size = whole;
    return TXL_OK;
}

/* The first piece of that type and, unless NULL, of that spelling; or -1. */
static int32_t find_piece(const struct model *model, enum piece_type type, const char *spelling) {
    for (size_t i = 0; i < model->n; i++) {
        const struct vocabulary_entry *entry = &model->entries[i];
        if (model->types[i] == type &&
            (!spelling || (entry->length == strlen(spelling) &&
                           memcmp(entry->text, spelling, entry->length) == 0)))
            return (int32_t)i;
    }
    return -1;
}

static txl_status pack_model(const struct model *model, txl_kind kind, struct packed_pieces *packed,
                             txl_error *error) {
    const char *boundary = text_kind(kind)->boundary;
    packed->n = (int32_t)model->n;
    packed->unk = find_piece(model, PIECE_UNKNOWN, NULL);
    packed->eos = find_piece(model, PIECE_CONTROL, boundary);
    if (packed->eos < 0)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: the SentencePiece model has no control piece %s, which is needed",
                        model->file, boundary);
    return pack_pieces(model, packed, error);
}

/* Packs the section; opening it checks the rest. */
static txl_status try_section(const struct model *model, txl_kind kind,
                              const struct packed_pieces *packed, txl_error *error) {
    struct vocabulary vocabulary;
    const struct vocabulary_settings settings = {packed->n, kind, false, packed->unk, packed->eos};
    txl_status status =
        vocabulary_open(&vocabulary, packed->section, packed->size, &settings, model->file, error);
    vocabulary_close(&vocabulary);
    return status;
}

bool sentencepiece_recognise(const void *data, size_t size) {
    struct protobuf message = {data, (const uint8_t *)data + size};
    struct protobuf_field field, spelling;
    if (size == 0 || *message.at != 0x0a || !protobuf_field(&message, &field))
        return false;
    struct protobuf piece = protobuf_inside(&field);
    return field.length > 0 && *piece.at == 0x0a && protobuf_field(&piece, &spelling);
}

txl_status sentencepiece_pack(const void *data, size_t size, txl_kind kind, const char *file,
                              struct packed_pieces *packed, txl_error *error) {
    static const char surface[] = " \xe2\x81\x87 ";
    struct model model = {.file = file,
                          .data = data,
                          .kind = 1,
                          .flags =
                              PIECES_DUMMY_PREFIX | PIECES_REMOVE_SPACES | PIECES_ESCAPE_SPACES,
                          .surface = surface,
                          .n_surface = sizeof surface - 1};
    *packed = (struct packed_pieces){0};
    txl_status status = TXL_OK;
    if (size >= UINT32_MAX)
        status =
            txl_fail(error, TXL_UNSUPPORTED, "%s: a SentencePiece model of %zu bytes", file, size);
    if (!status)
        status = read_model(&model, size, error);
    if (!status)
        status = check_model(&model, error);
    if (!status)
        status = pack_model(&model, kind, packed, error);
    if (!status)
        status = try_section(&model, kind, packed, error);
    free_model(&model);
    if (status) {
        free(packed->section);
        *packed = (struct packed_pieces){0};
    }
    return status;
}
