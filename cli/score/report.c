/* Writes the page of a report: the frame from report.html, with the data in its place. */
#include "report.h"

#include "cli/io/terminal.h"
#include "distribution.h"
#include "lib/base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 4096, N_TOP = 5 };

/* Surprises of alternatives are written in steps of 1 / SURPRISE_STEPS nats. */
static const float SURPRISE_STEPS = 2048;

/* The tokens of the current chunk. */
struct report_chunk {
    int32_t n_token;
    int n_top, id_bytes;
    int n;
    int32_t ids[CHUNK];
    uint8_t line_ends[CHUNK];
    struct report_scores { /* by one model */
        float nats[CHUNK];
        int32_t ranks[CHUNK], top_ids[CHUNK][N_TOP];
        uint16_t top_surprises[CHUNK][N_TOP];
    } scores[MOST_SESSIONS];
};

/* ---- Base64 ------------------------------------------------------------------------------- */

/* Bytes that wait for a group of three. */
struct base64 {
    FILE *stream;
    uint32_t group;
    int n;
};

static void base64_group(struct base64 *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char text[4] = "====";
    for (int i = 0; i <= out->n; i++)
        text[i] = digits[out->group >> (18 - 6 * i) & 63];
    fwrite(text, 1, sizeof text, out->stream);
    out->group = 0;
    out->n = 0;
}

static void base64_byte(struct base64 *out, unsigned byte) {
    out->group |= (uint32_t)byte << (16 - 8 * out->n);
    if (++out->n == 3)
        base64_group(out);
}

static void base64_end(struct base64 *out) {
    if (out->n > 0)
        base64_group(out);
}

/* The `n_bytes` low bytes of `value`, the lowest first. */
static void base64_number(struct base64 *out, uint32_t value, int n_bytes) {
    for (int i = 0; i < n_bytes; i++)
        base64_byte(out, value >> 8 * i & 255);
}

/* ---- Elements ----------------------------------------------------------------------------- */

static struct base64 begin_element(FILE *stream, const char *class) {
    fprintf(stream, "<script type=\"text/plain\" class=\"%s\">", class);
    return (struct base64){.stream = stream};
}

static void end_element(struct base64 *out) {
    base64_end(out);
    fputs("</script>\n", out->stream);
}

static void write_tokens(const struct report *report) {
    const struct report_chunk *chunk = report->chunk;
    struct base64 out = begin_element(report->file.stream, "tokens");
    for (size_t k = 0; k < report->n_model; k++) {
        for (int i = 0; i < chunk->n; i++) {
            uint32_t bits;
            memcpy(&bits, &chunk->scores[k].nats[i], sizeof bits);
            base64_number(&out, bits, sizeof bits);
        }
    }
    for (int i = 0; i < chunk->n; i++)
        base64_number(&out, (uint32_t)chunk->ids[i], chunk->id_bytes);
    for (size_t k = 0; k < report->n_model; k++)
        for (int i = 0; i < chunk->n; i++)
            base64_number(&out, (uint32_t)chunk->scores[k].ranks[i], chunk->id_bytes);
    for (int i = 0; i < chunk->n; i++)
        base64_byte(&out, chunk->line_ends[i]);
    end_element(&out);
}

static void write_alternatives(const struct report *report) {
    const struct report_chunk *chunk = report->chunk;
    struct base64 out = begin_element(report->file.stream, "alternatives");
    for (size_t k = 0; k < report->n_model; k++) {
        for (int i = 0; i < chunk->n; i++)
            for (int j = 0; j < chunk->n_top; j++)
                base64_number(&out, (uint32_t)chunk->scores[k].top_ids[i][j], chunk->id_bytes);
    }
    for (size_t k = 0; k < report->n_model; k++) {
        for (int i = 0; i < chunk->n; i++)
            for (int j = 0; j < chunk->n_top; j++)
                base64_number(&out, chunk->scores[k].top_surprises[i][j], sizeof(uint16_t));
    }
    end_element(&out);
}

static void write_surfaces(struct report *report) {
    if (report->surfaces.length == 0)
        return;
    struct base64 out = begin_element(report->file.stream, "surfaces");
    for (size_t i = 0; i < report->surfaces.length; i++)
        base64_byte(&out, (unsigned char)report->surfaces.data[i]);
    end_element(&out);
    report->surfaces.length = 0;
}

static void write_chunk(struct report *report) {
    if (report->chunk->n > 0) {
        write_tokens(report);
        write_alternatives(report);
        write_surfaces(report);
        report->chunk->n = 0;
    }
}

static void write_symbols(const struct report *report) {
    struct base64 out = begin_element(report->file.stream, "symbols");
    for (int32_t id = 0; id < report->chunk->n_token; id++) {
        if (report->named[id]) {
            size_t length;
            const char *symbol = txl_model_symbol(report->model, id, &length);
            base64_number(&out, (uint32_t)id, sizeof(uint32_t));
            base64_number(&out, (uint32_t)length, sizeof(uint32_t));
            for (size_t i = 0; i < length; i++)
                base64_byte(&out, (unsigned char)symbol[i]);
        }
    }
    end_element(&out);
}

/* ---- The frame ---------------------------------------------------------------------------- */

/* The texts of the page (report_page.c).  In report_html, "@report_data@" and "@report@" stand for
 * the others, "@data@" for the data; for the rest see page.h. */
extern const char report_html[], report_data_js[], report_js[];

/* Writes the page from `html` to the place of its data, or to its end, and returns what follows. */
static const char *write_frame(struct report *report, const char *html) {
    const struct page_part parts[] = {
        {"@report_data@", report_data_js}, {"@report@", report_js}, {"@data@", NULL}};
    return page_write(report->file.stream, html, &report->nonce, parts,
                      sizeof parts / sizeof *parts);
}

/* ---- The report --------------------------------------------------------------------------- */

static struct report_chunk *chunk_new(int32_t n_token) {
    struct report_chunk *chunk = calloc(1, sizeof *chunk);
    if (chunk) {
        chunk->n_token = n_token;
        chunk->n_top = n_token < N_TOP ? (int)n_token : N_TOP;
        do {
            chunk->id_bytes++;
        } while (n_token > (int64_t)1 << 8 * chunk->id_bytes);
    }
    return chunk;
}

bool report_open(struct report *report, const char *path, const txl_model *model, size_t n_model,
                 struct source *source) {
    int32_t n_token = txl_model_n_token(model);
    *report = (struct report){.model = model,
                              .n_model = n_model,
                              .source = source,
                              .chunk = chunk_new(n_token),
                              .line_ends = calloc(REPORT_TOKENS, sizeof *report->line_ends),
                              .named = calloc((size_t)n_token, sizeof *report->named),
                              .results = json_array()};
    if (!report->chunk || !report->line_ends || !report->named || !report->results)
        return terminal_error("out of memory");
    if (!page_draw_nonce(&report->nonce) || !outfile_open(&report->file, path))
        return false;
    page_write_head(report->file.stream, "txl ppl", &report->nonce);
    report->rest = write_frame(report, report_html);
    return outfile_usable(&report->file) || output_closed();
}

void report_line_end(struct report *report, uint64_t index) {
    if (index < REPORT_TOKENS && report->line_ends[index] < UINT8_MAX)
        report->line_ends[index]++;
}

void report_start_item(struct report *report, uint64_t index) {
    report->first = index;
    if (index > 0 && index < REPORT_TOKENS)
        report->line_ends[index] = 1;
}

static json_t *text_or_null(const struct own_value *value) {
    return value->text ? output_json_bytes(value->text, value->length) : json_null();
}

/* Region 0, of the closing symbol, is the last. */
static json_t *regions_to_json(const struct regions *regions) {
    json_t *list = json_array();
    bool good = list;
    for (size_t i = 1; i <= regions->n && good; i++) {
        const struct region *region = &regions->list[i % regions->n];
        size_t begin = i < regions->n ? regions->list[i - 1].end : region->end;
        json_t *text = output_json_bytes(regions->text.data + begin, region->end - begin);
        if (i < regions->n || region->tokens > 0)
            good =
                json_array_append_new(list, json_pack("[o, I, f]", text, (json_int_t)region->tokens,
                                                      region->nats)) == 0;
        else
            json_decref(text);
    }
    return output_json_if(good, list);
}

bool report_item(struct report *report, const struct own_value *item,
                 const struct own_value *condition, const struct regions *regions) {
    if (report->first >= REPORT_TOKENS)
        return true;
    if (!report->items)
        report->items = json_array();
    json_t *one = json_pack("{s:I, s:o, s:o, s:o}", "at", (json_int_t)report->first, "item",
                            text_or_null(item), "condition", text_or_null(condition), "regions",
                            regions_to_json(regions));
    return json_array_append_new(report->items, one) == 0 || output_lacks_memory();
}

/* Finds the likeliest tokens and the rank of `id`; ties go to the lower id. */
static void rank_tokens(const struct report *report, struct report_scores *scores, int32_t id,
                        const float *logprob) {
    const struct report_chunk *chunk = report->chunk;
    int32_t *top = scores->top_ids[chunk->n];
    likeliest(logprob, chunk->n_token, top, chunk->n_top);
    scores->ranks[chunk->n] = rank_of(id, logprob, chunk->n_token) - 1;
    for (int k = 0; k < chunk->n_top; k++) {
        float steps = fmaxf(-logprob[top[k]] * SURPRISE_STEPS, 0);
        scores->top_surprises[chunk->n][k] = (uint16_t)lrintf(fminf(steps, (float)UINT16_MAX));
        report->named[top[k]] = true;
    }
}

static bool append_number(struct buffer *bytes, uint32_t value) {
    const char low_first[4] = {(char)value, (char)(value >> 8), (char)(value >> 16),
                               (char)(value >> 24)};
    return buffer_append(bytes, low_first, sizeof low_first);
}

/* Keeps the source's text for an <unk>: its beginning, in whole characters. */
static txl_status keep_surface(struct report *report, uint64_t index, const struct place *place,
                               txl_error *error) {
    enum { MOST = 200 };
    char text[MOST + 1];
    size_t length = place->bytes < MOST ? (size_t)place->bytes : MOST, n;
    size_t wanted = length + (length < place->bytes);
    txl_status status = source_copy(report->source, place->offset, wanted, text, &n, error);
    if (status || n < wanted)
        return status;
    while (length < place->bytes && length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
        length--;
    bool good = append_number(&report->surfaces, (uint32_t)index) &&
                append_number(&report->surfaces, (uint32_t)length) &&
                buffer_append(&report->surfaces, text, length);
    return good ? TXL_OK : txl_fail(error, TXL_MEMORY, "out of memory");
}

static txl_status end_token(struct report *report, uint64_t index, int32_t id,
                            const struct place *place, txl_error *error) {
    struct report_chunk *chunk = report->chunk;
    txl_status status = TXL_OK;
    if (report->source && id == txl_model_unk(report->model) && place->bytes > 0)
        status = keep_surface(report, index, place, error);
    report->named[id] = true;
    chunk->ids[chunk->n] = id;
    chunk->line_ends[chunk->n] = report->line_ends[index];
    if (++chunk->n == CHUNK)
        write_chunk(report);
    return status;
}

txl_status report_context(struct report *report, uint64_t index, int32_t id,
                          const struct place *place, txl_error *error) {
    struct report_chunk *chunk = report->chunk;
    if (index >= REPORT_TOKENS)
        return TXL_OK;
    for (size_t k = 0; k < report->n_model; k++) {
        struct report_scores *scores = &chunk->scores[k];
        scores->nats[chunk->n] = NAN;
        scores->ranks[chunk->n] = 0;
        memset(scores->top_ids[chunk->n], 0, sizeof scores->top_ids[0]);
        memset(scores->top_surprises[chunk->n], 0, sizeof scores->top_surprises[0]);
    }
    return end_token(report, index, id, place, error);
}

txl_status report_token(void *context, const struct scored *token, txl_error *error) {
    struct report *report = context; /* outfile_usable prints the error of a file that fails */
    struct report_chunk *chunk = report->chunk;
    uint64_t index = report->first + token->index;
    if (index >= REPORT_TOKENS)
        return TXL_OK;
    for (size_t k = 0; k < report->n_model; k++) {
        chunk->scores[k].nats[chunk->n] = token->nats[k];
        rank_tokens(report, &chunk->scores[k], token->id, token->logprob[k]);
    }
    txl_status status = end_token(report, index, token->id, token->place, error);
    return !status && !outfile_usable(&report->file) ? TXL_STOPPED : status;
}

void report_start_positions(struct report *report, size_t tgt_len) {
    const size_t most = sizeof report->positions.nats / sizeof *report->positions.nats;
    report->positions =
        (struct report_positions){.tgt_len = tgt_len, .n = tgt_len < most ? tgt_len : most};
}

txl_status report_position(void *context, const struct scored *token, txl_error *error) {
    struct report_positions *p = &((struct report *)context)->positions;
    size_t part = (size_t)((token->index - 1) % p->tgt_len) * p->n / p->tgt_len;
    (void)error;
    p->nats[part] += (double)token->nats[0];
    p->tokens[part]++;
    return TXL_OK;
}

bool report_end_positions(struct report *report, int mem_len) {
    const struct report_positions *p = &report->positions;
    json_t *nats = json_array();
    bool good = true;
    if (!report->by_position)
        report->by_position = json_array();
    for (size_t i = 0; i < p->n && good; i++)
        good =
            json_array_append_new(nats, output_json_number(p->nats[i] / (double)p->tokens[i])) == 0;
    json_t *one =
        json_pack("{s:i, s:i, s:o}", "tgt_len", (int)p->tgt_len, "mem_len", mem_len, "nats", nats);
    good = json_array_append_new(report->by_position, one) == 0 && good;
    return good || output_lacks_memory();
}

bool report_result(struct report *report, json_t *result, bool shown) {
    if (shown)
        report->shown = json_array_size(report->results);
    return json_array_append_new(report->results, result) == 0 || output_lacks_memory();
}

static json_t *data_of(const struct report *report, const char *name) {
    static const char *const units[] = {
        [TXL_UNIT_WORD] = "word", [TXL_UNIT_CHARACTER] = "character", [TXL_UNIT_PIECE] = "piece"};
    const struct report_chunk *chunk = report->chunk;
    const txl_kind kind = txl_model_kind(report->model);
    return json_pack(
        "{s:s, s:s?, s:b, s:b, s:i, s:i, s:i, s:i, s:i, s:o, s:O, s:i, s:O*, s:O*, s:O*}", "unit",
        units[txl_kind_unit(kind)], "space", txl_kind_space(kind), "bytes",
        (int)txl_kind_takes_bytes(kind), "line_pairs",
        (int)(txl_kind_line_end(kind) == TXL_LINE_END_PAIR), "n_token", (int)chunk->n_token, "eos",
        (int)txl_model_eos(report->model), "id_bytes", chunk->id_bytes, "n_top", chunk->n_top,
        "chunk", CHUNK, "model", output_json_string(name), "results", report->results, "shown",
        (int)report->shown, "recl", report->recl, "positions", report->by_position, "items",
        report->items);
}

bool report_end(struct report *report, const char *name) {
    if (!report->file.stream)
        return true;
    if (json_array_size(report->results) == 0) {
        report_abandon(report);
        return true;
    }
    write_chunk(report);
    write_symbols(report);
    json_t *data = data_of(report, name);
    bool good = data && page_write_data(report->file.stream, data);
    json_decref(data);
    if (!good)
        return terminal_error("out of memory");
    write_frame(report, report->rest);
    return true;
}

void report_abandon(struct report *report) {
    outfile_abandon(&report->file);
    free(report->chunk);
    free(report->line_ends);
    free(report->named);
    buffer_free(&report->surfaces);
    json_decref(report->results);
    json_decref(report->recl);
    json_decref(report->by_position);
    json_decref(report->items);
    *report = (struct report){0};
}
