/* Rows that a body has computed, in a file from which the training of a head goes on.
 * weights-format.md specifies it. */
#include "lib/base/error.h"
#include "lib/base/json_memory.h"
#include "lib/base/limits.h"
#include "saved_file.h"
#include "txl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct txl_rows {
    struct saved_file file;
    json_t *description;
    float *rows; /* [n, width] */
    size_t n, width;
};

txl_status txl_rows_save(const char *path, const char *note, const float *rows, size_t n,
                         size_t width, txl_error *error) {
    json_t *description = json_pack("{s:I, s:I, s:s}", "rows", (json_int_t)n, "width",
                                    (json_int_t)width, "note", note);
    char *text = description ? json_text(description, JSON_COMPACT) : NULL;
    json_decref(description);
    if (!text)
        return txl_fail_memory(error, "a state", 4096);
    const struct saved_piece parts[N_PART] = {[PART_DESCRIPTION] = {text, strlen(text)},
                                              [PART_WEIGHTS] = {rows, n * width * sizeof *rows}};
    struct saved_writer w;
    txl_status status = saved_begin(&w, path, error);
    for (int i = 0; i < N_PART && !status; i++)
        status = saved_write_part(&w, (enum saved_part)i, &parts[i], 1, error);
    status = saved_end(&w, status, error);
    free(text);
    return status;
}

static txl_status read_description(txl_rows *r, txl_error *error) {
    json_error_t where;
    json_int_t n = 0, width = 0;
    const char *note;
    r->description = json_loadb((const char *)r->file.part[PART_DESCRIPTION],
                                (size_t)r->file.header.part[PART_DESCRIPTION].size, 0, &where);
    if (!r->description)
        return saved_not_unpacked(&r->file, &where, error);
    if (!json_object_get(r->description, "rows"))
        return saved_damaged(&r->file, "the state of another training, not of a head's", error);
    if (json_unpack_ex(r->description, &where, 0, "{s:I, s:I, s:s}", "rows", &n, "width", &width,
                       "note", &note) != 0)
        return saved_not_unpacked(&r->file, &where, error);
    const uint64_t size = r->file.header.part[PART_WEIGHTS].size;
    if (n < 0 || width < 1 || width > MAX_D_MODEL ||
        (uint64_t)n > size / ((uint64_t)width * sizeof(float)) ||
        (uint64_t)n * (uint64_t)width * sizeof(float) != size)
        return saved_damaged(&r->file, "the state does not fit its settings", error);
    r->n = (size_t)n;
    r->width = (size_t)width;
    return TXL_OK;
}

/* Copies the rows, which are not aligned in the file. */
static txl_status read_rows(txl_rows *r, txl_error *error) {
    const size_t count = r->n * r->width;
    r->rows = malloc(count * sizeof *r->rows + 1);
    if (!r->rows)
        return txl_fail_memory(error, "a state", count * sizeof *r->rows);
    memcpy(r->rows, r->file.part[PART_WEIGHTS], count * sizeof *r->rows);
    for (size_t i = 0; i < count; i++)
        if (!isfinite(r->rows[i]))
            return saved_damaged(&r->file, "a row has what is no number", error);
    return TXL_OK;
}

txl_status txl_rows_open(const char *path, txl_rows **rows, txl_error *error) {
    txl_rows *r = calloc(1, sizeof *r);
    if (!r)
        return txl_fail_memory(error, "a state", sizeof *r);
    txl_status status = saved_file_open(&r->file, path, error);
    if (!status)
        status = read_description(r, error);
    if (!status)
        status = read_rows(r, error);
    if (status) {
        txl_rows_free(r);
        return status;
    }
    *rows = r;
    return TXL_OK;
}

void txl_rows_free(txl_rows *r) {
    if (!r)
        return;
    json_decref(r->description);
    free(r->rows);
    saved_file_close(&r->file);
    free(r);
}

const char *txl_rows_note(const txl_rows *r) {
    return json_string_value(json_object_get(r->description, "note"));
}

const float *txl_rows_get(const txl_rows *r, size_t *n, size_t *width) {
    *n = r->n;
    *width = r->width;
    return r->rows;
}
