/* Moves one file through a compressor or decompressor. */
#include "transfer.h"

#include "cli/io/signals.h"
#include "known_models.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

struct grouped grouped(uint64_t number) {
    struct grouped to;
    char digits[24];
    const int n = snprintf(digits, sizeof digits, "%" PRIu64, number);
    size_t length = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            to.text[length++] = ',';
        to.text[length++] = digits[i];
    }
    to.text[length] = '\0';
    return to;
}

double percentage(uint64_t stored, uint64_t text) {
    return text > 0 ? 100.0 * (double)stored / (double)text : 0;
}

bool transfer_open(struct transfer *transfer, const char *input, const char *output,
                   bool replaces) {
    transfer->output = output;
    if (!input_open(&transfer->input, input))
        return false;
    if (output && strcmp(output, "-") != 0 && !outfile_open(&transfer->file, output)) {
        input_close(&transfer->input);
        return false;
    }
    transfer->file.whole.keeps_older = !replaces;
    progress_start(&transfer->progress, transfer->input.name, "KiB");
    return true;
}

/* False once the output failed; its error was printed. */
static bool is_usable(struct transfer *transfer) {
    if (!transfer->output)
        return true;
    return transfer->file.stream ? outfile_usable(&transfer->file)
                                 : !output_closed() && !output_failed();
}

static txl_status transfer_feed(struct transfer *t, const void *bytes, size_t n, txl_error *error) {
    return t->compressor ? txl_compressor_feed(t->compressor, bytes, n, error)
                         : txl_decompressor_feed(t->decompressor, bytes, n, error);
}

static txl_status transfer_finish(struct transfer *t, txl_error *error) {
    return t->compressor ? txl_compressor_finish(t->compressor, error)
                         : txl_decompressor_finish(t->decompressor, error);
}

/* The sum; a file may claim that more is lost than can be counted. */
static uint64_t add(uint64_t a, uint64_t b) {
    return b <= UINT64_MAX - a ? a + b : UINT64_MAX;
}

bool transfer_run(struct transfer *transfer) {
    static const size_t size = 1 << 16;
    char bytes[1 << 16];
    txl_error error;
    txl_status status = TXL_OK;
    ssize_t n = 0;
    while (!status && (n = input_read(&transfer->input, bytes, size)) > 0)
        status = transfer_feed(transfer, bytes, (size_t)n, &error);
    if (!status && n == 0 && !signals_stopped())
        status = transfer_finish(transfer, &error);
    progress_end(&transfer->progress);
    bool damaged = status == TXL_FORMAT && strncmp(error.message, "damaged", 7) == 0;
    if (status && status != TXL_STOPPED)
        terminal_error("%s: %s%s", transfer->input.name, error.message,
                       damaged && !transfer->salvage ? "; --salvage writes what is intact" : "");
    if (status || n != 0 || signals_stopped())
        return false;
    if (!transfer->damaged)
        return true;
    transfer->text = add(transfer->written, transfer->lost);
    return transfer->written > 0 || (transfer->lost == 0 && !transfer->lost_more) ||
           terminal_error("%s: nothing of the text is intact, so nothing is written",
                          transfer->input.name);
}

/* So that a compressed file says when its text was written, and who may read it. */
static void keep_attributes(struct transfer *transfer) {
    struct stat about;
    if (!transfer->file.is_whole || fstat(transfer->input.handle, &about) != 0 ||
        !S_ISREG(about.st_mode))
        return;
    const struct timespec times[2] = {about.st_atim, about.st_mtim};
    output_file_resemble(&transfer->file.whole, transfer->input.handle);
    futimens(transfer->file.whole.file, times);
}

bool transfer_close(struct transfer *transfer, bool good) {
    if (transfer->file.stream && good && fflush(transfer->file.stream) == 0)
        keep_attributes(transfer);
    if (transfer->file.stream && good)
        good = outfile_commit(&transfer->file);
    else
        outfile_abandon(&transfer->file);
    input_close(&transfer->input);
    return good && (!transfer->output || strcmp(transfer->output, "-") != 0 || output_flush());
}

txl_status transfer_write(void *context, const void *bytes, size_t n, txl_error *error) {
    struct transfer *transfer = context;
    (void)error;
    transfer->written += n;
    if (!transfer->output)
        return TXL_OK;
    if (transfer->file.stream)
        fwrite(bytes, 1, n, transfer->file.stream);
    else
        output_write(bytes, n);
    return is_usable(transfer) ? TXL_OK : TXL_STOPPED;
}

bool transfer_progress(void *context, uint64_t text, uint64_t stored) {
    struct transfer *transfer = context;
    transfer->text = text;
    transfer->stored = stored;
    const double done = transfer->decompressor ? (double)stored : (double)text;
    const double fraction = transfer->input.size > 0 ? done / (double)transfer->input.size : -1;
    if (stored > 0)
        snprintf(transfer->unit, sizeof transfer->unit, "KiB at %.1f %%", percentage(stored, text));
    transfer->progress.unit = stored > 0 ? transfer->unit : "KiB";
    progress_update(&transfer->progress, fraction, text >> 10);
    return !signals_stopped() && is_usable(transfer);
}

txl_status transfer_model(void *context, uint64_t checksum, const char *name,
                          const txl_model **model, txl_error *error) {
    return known_models_find(((struct transfer *)context)->known, checksum, name, model, error);
}

void transfer_frame(void *context, const txl_frame *frame) {
    struct transfer *transfer = context;
    transfer->frames++;
    transfer->streams += (uint64_t)frame->streams;
    transfer->last = *frame;
    snprintf(transfer->name, sizeof transfer->name, "%s", frame->name);
}

void transfer_lost(void *context, uint64_t begin, uint64_t end, const char *why) {
    struct transfer *transfer = context;
    transfer->damaged = true;
    if (end == UINT64_MAX) {
        transfer->lost_more = true;
        terminal_error("%s: lost from byte %s of the text: %s", transfer->input.name,
                       grouped(begin).text, why);
    } else if (end > begin) {
        transfer->lost = add(transfer->lost, end - begin);
        terminal_error("%s: lost bytes %s to %s of the text: %s", transfer->input.name,
                       grouped(begin).text, grouped(end - 1).text, why);
    } else {
        terminal_error("%s: %s", transfer->input.name, why);
    }
}
