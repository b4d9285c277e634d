/* Files of a training's state. */
#include "saved_file.h"

#include "lib/base/error.h"
#include "lib/base/json_memory.h"

#include <string.h>
#include <xxhash.h>

#define SAVED_MAGIC                                                                                \
    { 0x93, 'T', 'X', 'T', '\r', '\n', 0x1a, '\n' }

/* ---- Writing ------------------------------------------------------------------------------ */

txl_status saved_begin(struct saved_writer *w, const char *path, txl_error *error) {
    *w = (struct saved_writer){.header = {.magic = SAVED_MAGIC,
                                          .major = SAVED_MAJOR,
                                          .minor = 0,
                                          .header_size = sizeof w->header},
                               .end = sizeof w->header};
    return output_file_open(&w->out, path, error);
}

txl_status saved_write_part(struct saved_writer *w, enum saved_part part,
                            const struct saved_piece *piece, size_t n, txl_error *error) {
    XXH3_state_t *state = XXH3_createState();
    txl_status status = state ? TXL_OK : txl_fail_memory(error, "a checksum", 576);
    if (state)
        XXH3_64bits_reset(state);
    for (size_t i = 0; i < n && !status; i++) {
        status = output_file_write(&w->out, piece[i].data, piece[i].size, w->end, error);
        XXH3_64bits_update(state, piece[i].data, piece[i].size);
        w->end += piece[i].size;
        w->header.part[part].size += piece[i].size;
    }
    if (state)
        w->header.part[part].checksum = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return status;
}

txl_status saved_end(struct saved_writer *w, txl_status status, txl_error *error) {
    w->header.file_size = w->end;
    w->header.checksum = XXH3_64bits(&w->header, offsetof(struct saved_header, checksum));
    if (!status)
        status = output_file_write(&w->out, &w->header, sizeof w->header, 0, error);
    if (!status)
        status = output_file_commit(&w->out, error);
    output_file_close(&w->out);
    return status;
}

/* ---- Reading ------------------------------------------------------------------------------ */

txl_status saved_damaged(const struct saved_file *s, const char *what, txl_error *error) {
    return txl_fail(error, TXL_FORMAT, "%s: %s", s->mapped.path, what);
}

static txl_status read_header(struct saved_file *s, txl_error *error) {
    static const uint8_t magic[8] = SAVED_MAGIC;
    struct saved_header *h = &s->header;
    if (s->mapped.size < sizeof *h || memcmp(s->mapped.data, magic, sizeof magic) != 0)
        return saved_damaged(s, "not a training's state", error);
    memcpy(h, s->mapped.data, sizeof *h);
    if (h->major < SAVED_MAJOR || h->major > SAVED_MAJOR_EXT_LEN)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: a state of version %u, this txl reads versions %d and %d",
                        s->mapped.path, h->major, SAVED_MAJOR, SAVED_MAJOR_EXT_LEN);
    return h->header_size == sizeof *h && h->file_size == s->mapped.size &&
                   h->checksum == XXH3_64bits(h, offsetof(struct saved_header, checksum))
               ? TXL_OK
               : saved_damaged(s, "the state is damaged", error);
}

/* Checks the sizes and checksums of header and parts. */
static txl_status check_parts(struct saved_file *s, txl_error *error) {
    struct saved_header *h = &s->header;
    txl_status status = read_header(s, error);
    if (status)
        return status;
    uint64_t at = h->header_size;
    for (int i = 0; i < N_PART; i++) {
        if (h->part[i].size > s->mapped.size - at)
            return saved_damaged(s, "the state is damaged", error);
        s->part[i] = s->mapped.data + at;
        at += h->part[i].size;
        if (XXH3_64bits(s->part[i], (size_t)h->part[i].size) != h->part[i].checksum)
            return saved_damaged(s, "the state is damaged", error);
    }
    return at == s->mapped.size ? TXL_OK : saved_damaged(s, "the state is damaged", error);
}

txl_status saved_file_open(struct saved_file *s, const char *path, txl_error *error) {
    *s = (struct saved_file){0};
    txl_status status = mapped_file_open(path, &s->mapped, error);
    return status ? status : check_parts(s, error);
}

void saved_file_close(struct saved_file *s) {
    mapped_file_close(&s->mapped);
}

txl_status saved_not_unpacked(const struct saved_file *s, json_error_t *where, txl_error *error) {
    if (json_lacked_memory(where))
        return txl_fail_memory(error, "a state", (uint64_t)s->header.part[PART_DESCRIPTION].size);
    return saved_damaged(s, "the state's settings are damaged", error);
}
