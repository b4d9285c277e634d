/* Reads added_tokens.json, which gives tokens their ids after the last piece, and writes them as
 * what SentencePiece itself has for such tokens: pieces of the protobuf message ModelProto (1
 * spelling, 2 score, 3 type) that are found whole.  Parts of a message may be appended to it. */
#include "added_pieces.h"

#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/base/protobuf.h"
#include "recognise.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ADDED_BYTES = 1000 };

static size_t count_pieces(const struct buffer *model) {
    const uint8_t *data = (const uint8_t *)model->data;
    struct protobuf message = {data, data + model->length};
    struct protobuf_field field;
    size_t n = 0;
    while (message.at < message.end && protobuf_field(&message, &field))
        n += field.number == 1;
    return n;
}

bool piece_append(struct buffer *model, const char *text, float score, enum piece_type type) {
    struct buffer piece = {0};
    bool good = protobuf_append_bytes(&piece, 1, text, strlen(text)) &&
                protobuf_append_float(&piece, 2, score) &&
                protobuf_append_number(&piece, 3, type) &&
                protobuf_append_bytes(model, 1, piece.data, piece.length);
    buffer_free(&piece);
    return good;
}

/* Puts each token at its place, counted from the first id after the pieces; lower ids are the
 * model's own pieces. */
static txl_status place_tokens(const char *path, json_t *tokens, size_t n_piece, const char **at,
                               size_t n, txl_error *error) {
    const char *token;
    json_t *id;
    json_object_foreach(tokens, token, id) {
        const json_int_t number = json_is_integer(id) ? json_integer_value(id) : -1;
        const size_t length = strlen(token);
        if (length == 0 || length > MAX_ADDED_BYTES)
            return txl_fail(error, TXL_UNSUPPORTED,
                            "%s: an added token of %zu bytes, expected 1 to %d", path, length,
                            MAX_ADDED_BYTES);
        if (number >= 0 && (uint64_t)number < n_piece)
            continue;
        if (number < 0 || (uint64_t)number - n_piece >= n || at[(size_t)number - n_piece])
            return txl_fail(error, TXL_FORMAT,
                            "%s: the id of \"%.60s\" is not one of those that follow the %zu "
                            "pieces of the SentencePiece model, each once",
                            path, token, n_piece);
        at[(size_t)number - n_piece] = token;
    }
    return TXL_OK;
}

static txl_status append_tokens(const char *path, json_t *tokens, struct buffer *model,
                                size_t *n_added, txl_error *error) {
    const size_t n = json_object_size(tokens), n_piece = count_pieces(model);
    if (n > MAX_N_TOKEN)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: more than %d tokens", path, MAX_N_TOKEN);
    const char **at = calloc(n + 1, sizeof *at);
    if (!at)
        return txl_fail_memory(error, "the added tokens", (n + 1) * sizeof *at);
    txl_status status = place_tokens(path, tokens, n_piece, at, n, error);
    size_t last = n;
    while (last > 0 && !at[last - 1])
        last--;
    for (size_t i = 0; i < last && !status; i++)
        if (!at[i])
            status = txl_fail(error, TXL_FORMAT, "%s: no token has id %zu", path, n_piece + i);
        else if (!piece_append(model, at[i], 0, PIECE_USER_DEFINED))
            status = txl_fail_memory(error, "the added tokens", model->length);
    free(at);
    *n_added = last;
    return status;
}

txl_status added_pieces_append(const char *path, struct buffer *model, size_t *n,
                               txl_error *error) {
    json_t *tokens = NULL;
    char *found = NULL;
    *n = 0;
    txl_status status = config_file_load(path, "added_tokens.json", &found, &tokens, error);
    if (!status && found)
        status = append_tokens(found, tokens, model, n, error);
    json_decref(tokens);
    free(found);
    return status;
}
