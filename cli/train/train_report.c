/* Writes the page, and the text that the model writes for it. */
#include "train_report.h"

#include "cli/io/output.h"
#include "cli/io/terminal.h"
#include "cli/page/page.h"
#include "lib/base/error.h"
#include "lib/base/memory.h"

#include <stdlib.h>
#include <string.h>

extern const char train_report_html[], train_report_js[]; /* of train_page.c */

/* ---- What the model writes ---------------------------------------------------------------- */

enum { PROMPT_IDS = 32, WRITTEN_IDS = 240 };

static txl_status append_text(struct buffer *text, const char *bytes, size_t length,
                              txl_error *error) {
    if (buffer_append(text, bytes, length))
        return TXL_OK;
    return txl_fail(error, TXL_MEMORY, "out of memory");
}

static txl_status decode_sample(txl_decoder *decoder, int32_t id, struct buffer *text,
                                txl_error *error) {
    const char *bytes;
    size_t length;
    txl_status status = txl_decoder_push(decoder, id, &bytes, &length, error);
    return status ? status : append_text(text, bytes, length, error);
}

static txl_status finish_sample(txl_decoder *decoder, struct buffer *text, txl_error *error) {
    const char *bytes;
    size_t length;
    txl_status status = txl_decoder_finish(decoder, &bytes, &length, error);
    if (!status)
        status = append_text(text, bytes, length, error);
    return status ? status : append_text(text, "", 1, error);
}

static txl_status write_on(const txl_model *model, txl_session *session, txl_decoder *decoder,
                           struct buffer *text, txl_error *error) {
    txl_sampling sampling;
    txl_random random = {.seed = 1};
    txl_status status = TXL_OK;
    txl_sampling_defaults(model, &sampling);
    for (int i = 0; i < WRITTEN_IDS && !status; i++) {
        int32_t id;
        float logprob;
        status = txl_session_sample(session, &sampling, &random, &id, &logprob, error);
        if (!status)
            status = decode_sample(decoder, id, text, error);
        if (!status)
            status = txl_session_feed(session, &id, 1, error);
    }
    return status ? status : finish_sample(decoder, text, error);
}

char *train_report_write(const txl_model *model, const txl_settings *settings, const int32_t *ids,
                         size_t n, char **prompt, txl_error *error) {
    txl_session *session = NULL;
    txl_decoder *decoder = NULL;
    struct buffer text = {0}, before = {0};
    n = n < PROMPT_IDS ? n : PROMPT_IDS;
    txl_status status = txl_session_new(model, settings, &session, error);
    if (!status)
        status = txl_decoder_new(model, true, &decoder, error);
    for (size_t i = 0; i < n && !status; i++)
        status = decode_sample(decoder, ids[i], &before, error);
    if (!status)
        status = finish_sample(decoder, &before, error);
    if (!status)
        status = txl_session_feed(session, ids, n, error);
    if (!status)
        status = txl_decoder_continue(
            decoder, ids, n, before.length > 1 ? before.data[before.length - 2] : 0, error);
    if (!status)
        status = write_on(model, session, decoder, &text, error);
    txl_decoder_free(decoder);
    txl_session_free(session);
    if (status) {
        buffer_free(&text);
        buffer_free(&before);
        return NULL;
    }
    free(*prompt);
    *prompt = before.data;
    return text.data;
}

/* ---- The page ----------------------------------------------------------------------------- */

static bool write_page(FILE *stream, const json_t *data) {
    const struct page_part parts[] = {{"@report@", train_report_js}, {"@data@", NULL}};
    const size_t n = sizeof parts / sizeof *parts;
    struct page_nonce nonce;
    if (!page_draw_nonce(&nonce))
        return false;
    page_write_head(stream, "txl train", &nonce);
    const char *rest = page_write(stream, train_report_html, &nonce, parts, n);
    if (!page_write_data(stream, data))
        return terminal_error("out of memory");
    page_write(stream, rest, &nonce, parts, n);
    return true;
}

bool train_report_save(const struct train_report *r, const char *path) {
    struct outfile file;
    json_t *data = json_pack(
        "{s:o, s:o, s:b, s:O, s:o, s:O}", "output", output_json_string(r->output), "prompt",
        r->prompt ? output_json_string(r->prompt) : json_null(), "letters", r->letters, "settings",
        r->settings, "points", curves_points(r->curves), "evaluations", r->curves->evaluations);
    if (!data)
        return terminal_error("out of memory");
    bool good = outfile_open(&file, path) && write_page(file.stream, data);
    good = good && outfile_commit(&file);
    outfile_abandon(&file);
    json_decref(data);
    return good;
}
