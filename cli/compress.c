/* txl compress, txl decompress: files to few bytes and back, with the habits of zstd. */
#include "cli/io/input.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/model/model.h"
#include "cli/options/options.h"
#include "commands.h"
#include "lib/base/error.h"
#include "txl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_KNOWN_MODELS = 16, SECONDS_TO_JUDGE = 3, LONG_SECONDS = 60 };

struct known_models {
    const struct common_options *common;
    struct model models[MAX_KNOWN_MODELS]; /* those that are open */
    char *names[MAX_KNOWN_MODELS];         /* paths, which the models refer to; NULL: built in */
    size_t n;
};

struct transfer {
    txl_compressor *compressor; /* either of the two, which transfer_run feeds */
    txl_decompressor *decompressor;
    struct known_models *known; /* that it decompresses with */
    struct input input;
    const char *output; /* NULL: none, only checks; "-": standard output */
    struct outfile file;
    uint64_t text, stored; /* bytes so far; of the text also those that are lost, at the end */
    uint64_t written;      /* of the text that is decompressed */
    struct progress progress;
    bool judged; /* how long it will take was told, or is short */
    char unit[40];
    /* Of the frames: */
    uint64_t frames, streams;
    txl_frame last;
    char name[64]; /* of its model */
    bool salvage;
    bool damaged;   /* --salvage has left something out: */
    uint64_t lost;  /* so many bytes of the text, */
    bool lost_more; /* and an unknown number */
};

/* ---- Models, found by the checksums in the headers of weights files ------------------------ */

#ifndef MODELS_FOLDER
#error "MODELS_FOLDER is where older built-in models are installed"
#endif

static txl_status open_model(struct known_models *known, const char *path, txl_error *error) {
    if (known->n == MAX_KNOWN_MODELS)
        return txl_fail(error, TXL_ARGUMENT,
                        "the texts of one call were compressed with more than 16 models; "
                        "decompress them one by one");
    char *name = path ? strdup(path) : NULL;
    if (path && !name)
        return txl_fail(error, TXL_MEMORY, "out of memory");
    txl_status status = model_open_file(&known->models[known->n], name, (int)known->common->threads,
                                        known->common->low_memory, error);
    if (status)
        free(name);
    else
        known->names[known->n++] = name;
    return status;
}

/* Takes the file if it is the model.  A file that is none is passed over. */
static bool try_file(struct known_models *known, const char *path, uint64_t checksum,
                     txl_status *status, txl_error *error) {
    uint64_t found;
    if (!path || txl_file_checksum(path, &found, NULL) || found != checksum)
        return false;
    *status = open_model(known, path, error);
    return true;
}

static bool try_built_in(struct known_models *known, uint64_t checksum, txl_status *status,
                         txl_error *error) {
    for (size_t i = 0; i < known->n; i++)
        if (!known->names[i])
            return false; /* it was open already, and is not the one */
    *status = open_model(known, NULL, error);
    return *status || txl_model_checksum(known->models[known->n - 1].handle) == checksum;
}

static bool ends_in_txl(const char *name) {
    const size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, ".txl") == 0;
}

static bool try_folder(struct known_models *known, const char *path, uint64_t checksum,
                       txl_status *status, txl_error *error) {
    DIR *folder = opendir(path);
    bool found = false;
    for (struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        char *file = NULL;
        if (ends_in_txl(entry->d_name) && asprintf(&file, "%s/%s", path, entry->d_name) >= 0)
            found = try_file(known, file, checksum, status, error);
        free(file);
    }
    if (folder)
        closedir(folder);
    return found;
}

/* `folders` are divided by colons. */
static bool try_folders(struct known_models *known, const char *folders, uint64_t checksum,
                        txl_status *status, txl_error *error) {
    char *copy = folders ? strdup(folders) : NULL, *rest = copy;
    bool found = false;
    for (char *path; !found && (path = strsep(&rest, ":"));)
        found = *path != '\0' && try_folder(known, path, checksum, status, error);
    free(copy);
    return found;
}

static txl_status not_found(uint64_t checksum, const char *name, txl_error *error) {
    char message[sizeof error->message], called[80] = "a model";
    if (*name != '\0')
        snprintf(called, sizeof called, "the model %s", name);
    snprintf(message, sizeof message,
             "compressed with %s, of checksum %016" PRIx64
             ", which is neither the model in use nor the built-in one, nor in %s or a folder of "
             "$TXL_MODELS; name its file with --model%s",
             called, checksum, MODELS_FOLDER,
             *name != '\0' ? " (built-in models of other releases are files of those releases)"
                           : "");
    return txl_fail(error, TXL_ARGUMENT, "%s", message);
}

/* Finds the model in --model, $TXL_MODEL, the program itself, the folder of the installation, or
 * the folders of $TXL_MODELS. */
static txl_status known_models_find(struct known_models *known, uint64_t checksum, const char *name,
                                    const txl_model **model, txl_error *error) {
    const char *named = known->common->model;
    uint64_t other;
    txl_status status = TXL_OK;
    for (size_t i = 0; i < known->n; i++) {
        if (txl_model_checksum(known->models[i].handle) == checksum) {
            *model = known->models[i].handle;
            return TXL_OK;
        }
    }
    if (named && !model_is_built_in(named) && txl_file_checksum(named, &other, error))
        return error->status;
    bool found = try_file(known, named, checksum, &status, error) ||
                 try_file(known, model_environment(), checksum, &status, error) ||
                 try_built_in(known, checksum, &status, error) ||
                 try_folder(known, MODELS_FOLDER, checksum, &status, error) ||
                 try_folders(known, getenv("TXL_MODELS"), checksum, &status, error);
    if (!found)
        return not_found(checksum, name, error);
    if (!status)
        *model = known->models[known->n - 1].handle;
    return status;
}

static void known_models_close(struct known_models *known) {
    for (size_t i = 0; i < known->n; i++) {
        model_close(&known->models[i]);
        free(known->names[i]);
    }
    known->n = 0;
}

/* ---- One file on its way through a compressor or decompressor ------------------------------ */

/* The share as a percentage, of 0 bytes 0. */
static double percentage(uint64_t stored, uint64_t text) {
    return text > 0 ? 100.0 * (double)stored / (double)text : 0;
}

/* Opens both ends; the output replaces a file only if it `replaces`.  False with the error printed.
 */
static bool transfer_open(struct transfer *transfer, const char *input, const char *output,
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

/* Compresses or decompresses all of the input.  False with the error printed, or when a signal
 * asked to stop. */
static bool transfer_run(struct transfer *transfer) {
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

/* Closes both ends; the output stays only if `good`, with the input's owner, group, mode and times.
 * False with the error printed. */
static bool transfer_close(struct transfer *transfer, bool good) {
    if (transfer->file.stream && good && fflush(transfer->file.stream) == 0)
        keep_attributes(transfer);
    if (transfer->file.stream && good)
        good = outfile_commit(&transfer->file);
    else
        outfile_abandon(&transfer->file);
    input_close(&transfer->input);
    return good && (!transfer->output || strcmp(transfer->output, "-") != 0 || output_flush());
}

/* Callbacks of txl_compression and txl_decompression, whose context is the struct transfer. */
static txl_status transfer_write(void *context, const void *bytes, size_t n, txl_error *error) {
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

/* Says how long a long run will take, as soon as its speed is known: the first steps, while models
 * and tables come into memory, say little of it. */
static void tell_duration(struct transfer *transfer, double fraction, uint64_t text) {
    const double elapsed = terminal_seconds() - transfer->progress.start;
    if (transfer->judged || fraction <= 0 || elapsed < SECONDS_TO_JUDGE ||
        (fraction < 0.02 && elapsed < 4 * SECONDS_TO_JUDGE))
        return;
    const double whole = elapsed / fraction;
    transfer->judged = true;
    if (whole >= LONG_SECONDS)
        terminal_note("%s: takes about %.0f minutes, at %.1f KiB/s", transfer->input.name,
                      whole / 60, (double)text / 1024 / elapsed);
}

static bool transfer_progress(void *context, uint64_t text, uint64_t stored) {
    struct transfer *transfer = context;
    transfer->text = text;
    transfer->stored = stored;
    const double done = transfer->decompressor ? (double)stored : (double)text;
    const double fraction = transfer->input.size > 0 ? done / (double)transfer->input.size : -1;
    if (stored > 0)
        snprintf(transfer->unit, sizeof transfer->unit, "KiB at %.1f %%", percentage(stored, text));
    transfer->progress.unit = stored > 0 ? transfer->unit : "KiB";
    tell_duration(transfer, fraction, text);
    progress_update(&transfer->progress, fraction, text >> 10);
    return !signals_stopped() && is_usable(transfer);
}

static txl_status transfer_model(void *context, uint64_t checksum, const char *name,
                                 const txl_model **model, txl_error *error) {
    return known_models_find(((struct transfer *)context)->known, checksum, name, model, error);
}

static void transfer_frame(void *context, const txl_frame *frame) {
    struct transfer *transfer = context;
    transfer->frames++;
    transfer->streams += (uint64_t)frame->streams;
    transfer->last = *frame;
    snprintf(transfer->name, sizeof transfer->name, "%s", frame->name);
}

static void transfer_lost(void *context, uint64_t begin, uint64_t end, const char *why) {
    struct transfer *transfer = context;
    transfer->damaged = true;
    if (end == UINT64_MAX) {
        transfer->lost_more = true;
        terminal_error("%s: lost from byte %s of the text: %s", transfer->input.name,
                       grouped((double)begin, 0).text, why);
    } else if (end > begin) {
        transfer->lost = add(transfer->lost, end - begin);
        terminal_error("%s: lost bytes %s to %s of the text: %s", transfer->input.name,
                       grouped((double)begin, 0).text, grouped((double)(end - 1), 0).text, why);
    } else {
        terminal_error("%s: %s", transfer->input.name, why);
    }
}

#define SUFFIX ".txlz"

struct compress_options {
    struct common_options common;
    bool decompress, keep, list, test, to_stdout, force, remove, salvage, no_cache;
    const char *output;
    int64_t streams;
};

struct run {
    const struct command *command;
    const struct compress_options *options;
    const struct operands *inputs;
    struct named_file *named; /* [inputs->n + 3]: all inputs; room for one, its output, the model */
    bool decompresses;        /* or lists, or tests */
    struct model model;       /* that compresses */
    struct known_models known;
    /* Totals: */
    uint64_t files, text, stored;
    double start;
};

/* ---- Names -------------------------------------------------------------------------------- */

static bool is_standard_input(const char *path) {
    return strcmp(path, "-") == 0;
}

static bool has_suffix(const char *path) {
    const size_t length = strlen(path), suffix = strlen(SUFFIX);
    return length > suffix && strcmp(path + length - suffix, SUFFIX) == 0;
}

/* Whether a file holds something else than a compressed text; of a pipe nothing is known before it
 * is read. */
static bool is_other_file(const char *path) {
    static const char magic[4] = "\x93TXZ";
    char start[sizeof magic];
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode))
        return false;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    const bool other = read(file, start, sizeof start) != (ssize_t)sizeof start ||
                       memcmp(start, magic, sizeof magic) != 0;
    close(file);
    return other;
}

/* Where the result of `input` goes: NULL for nowhere; *made is to be freed.  False with the error
 * printed. */
static bool name_output(const struct run *run, const char *input, const char **output,
                        char **made) {
    const struct compress_options *o = run->options;
    *made = NULL;
    *output = o->test || o->list                         ? NULL
              : o->output                                ? o->output
              : o->to_stdout || is_standard_input(input) ? "-"
                                                         : "";
    if (!*output || **output != '\0')
        return true;
    if (run->decompresses && !has_suffix(input) && is_other_file(input))
        return terminal_error("%s: not a compressed text (txl compress makes one)", input);
    if (run->decompresses && !has_suffix(input)) {
        return terminal_error("%s: the name does not end in " SUFFIX "; name the output with -o",
                              input);
    }
    const size_t length = strlen(input);
    *made = run->decompresses ? strndup(input, length - strlen(SUFFIX)) : NULL;
    if (!run->decompresses && asprintf(made, "%s" SUFFIX, input) < 0)
        *made = NULL;
    *output = *made;
    if (!*made)
        terminal_error("out of memory");
    return *made;
}

static bool name_inputs(struct run *run) {
    const size_t n = (size_t)run->inputs->n;
    run->named = calloc(n + 3, sizeof *run->named);
    if (!run->named)
        return terminal_error("out of memory");
    for (size_t i = 0; i < n; i++)
        run->named[i] = (struct named_file){FILE_READ, "", "FILE", run->inputs->items[i]};
    return true;
}

/* Whether `output` may be written; it may be a device, but no file that is there already, unless
 * forced, and never an input. */
static bool check_output(const struct run *run, const char *input, const char *output) {
    const struct compress_options *o = run->options;
    const size_t n = (size_t)run->inputs->n;
    struct named_file *own = run->named + n;
    struct stat about;
    if (!output)
        return true;
    if (strcmp(output, "-") == 0) {
        if (run->decompresses || o->force || !isatty(STDOUT_FILENO))
            return true;
        return terminal_error(
            "compressed text is not for a terminal; name an output with -o, or force it with -f");
    }
    own[0] = (struct named_file){FILE_READ, "", "FILE", input};
    own[1] = (struct named_file){o->output ? FILE_STREAM : FILE_WHOLE, "", "output", output};
    own[2] = (struct named_file){FILE_READ, "--", "model", o->common.model};
    if (named_files_check(own, o->common.model ? 3 : 2, NULL) != OPTIONS_RUN)
        return false;
    if (stat(output, &about) != 0 || !S_ISREG(about.st_mode))
        return true;
    if (!o->force)
        return terminal_error("%s: exists; -f replaces it", output);
    return named_files_check(run->named, n + 2, NULL) ==
           OPTIONS_RUN; /* inputs that are still to be read */
}

/* Links are passed over, as a folder may have both a file and links to it.  Those to pipes are what
 * a shell names for
 * `<(...)`, and /dev has those to what is open: no folder of files has either. */
static bool is_skipped(const struct run *run, const char *input) {
    struct stat about;
    if (strncmp(input, "/dev/", 5) == 0 || (stat(input, &about) == 0 && !S_ISREG(about.st_mode)))
        return false;
    if (run->options->force || is_standard_input(input) || lstat(input, &about) != 0 ||
        !S_ISLNK(about.st_mode))
        return false;
    terminal_note("%s: a symbolic link, which is left out; -f follows it", input);
    return true;
}

/* ---- One file ----------------------------------------------------------------------------- */

static bool run_compressor(const struct run *run, struct transfer *transfer) {
    const txl_compression how = {.streams = (int)run->options->streams,
                                 .no_cache = run->options->no_cache,
                                 .threads = (int)run->options->common.threads,
                                 .write = transfer_write,
                                 .progress = transfer_progress,
                                 .context = transfer};
    txl_error error;
    if (txl_compressor_new(run->model.handle, &how, &transfer->compressor, &error))
        return terminal_error("%s", error.message);
    bool good = transfer_run(transfer);
    txl_compressor_free(transfer->compressor);
    return good;
}

static bool run_decompressor(struct run *run, struct transfer *transfer) {
    const txl_decompression how = {.threads = (int)run->options->common.threads,
                                   .list = run->options->list,
                                   .salvage = run->options->salvage,
                                   .model = transfer_model,
                                   .write = transfer_write,
                                   .progress = transfer_progress,
                                   .frame = transfer_frame,
                                   .lost = transfer_lost,
                                   .context = transfer};
    txl_error error;
    transfer->known = &run->known;
    transfer->salvage = how.salvage;
    if (txl_decompressor_new(&how, &transfer->decompressor, &error))
        return terminal_error("%s", error.message);
    bool good = transfer_run(transfer);
    txl_decompressor_free(transfer->decompressor);
    return good;
}

static void print_list(const struct transfer *t) {
    static const char *const forms[] = {"none", "linear", "mixing"};
    char model[64 + 40] = "none";
    if (t->frames > 0)
        snprintf(model, sizeof model, "%s%s%016" PRIx64, t->name, *t->name ? " " : "",
                 t->last.checksum);
    output_line("%s: %.1f %% (%s -> %s bytes), frames %" PRIu64 ", streams %" PRIu64
                ", tgt_len %d, mem_len %d, arithmetic %d, form %s, model %s",
                t->input.name, percentage(t->stored, t->text), grouped((double)t->text, 0).text,
                grouped((double)t->stored, 0).text, t->frames, t->streams, t->last.settings.tgt_len,
                t->last.settings.mem_len, t->last.arithmetic, forms[t->last.mixing], model);
}

static void print_result(const struct run *run, const struct transfer *t) {
    const struct compress_options *o = run->options;
    if (o->list)
        print_list(t);
    if (o->list || o->common.quiet)
        return;
    if (t->lost > 0 || t->lost_more)
        terminal_line("%s: %s of %s%s bytes", t->input.name, grouped((double)t->written, 0).text,
                      t->lost_more ? "at least " : "", grouped((double)t->text, 0).text);
    else if (o->test)
        terminal_line("%s: OK (%s bytes)", t->input.name, grouped((double)t->text, 0).text);
    else if (run->decompresses)
        terminal_line("%s: %s bytes", t->input.name, grouped((double)t->text, 0).text);
    else
        terminal_line("%s: %.1f %% (%s -> %s bytes)", t->input.name, percentage(t->stored, t->text),
                      grouped((double)t->text, 0).text, grouped((double)t->stored, 0).text);
}

/* Removes an input, unless the output lacks a part of it, or is gone, as in a pipe or a device. */
static bool remove_input(const char *path, const struct transfer *transfer) {
    if (is_standard_input(path))
        return true;
    if (transfer->damaged || !transfer->file.is_whole) {
        terminal_note("%s: is kept, as %s", path,
                      transfer->damaged ? "a part of it is not in the output"
                                        : "the output is no regular file");
        return true;
    }
    txl_error error;
    if (!terminal_report(output_file_flush_folder(transfer->output, &error), &error))
        return false;
    if (unlink(path) == 0)
        return true;
    return terminal_error("%s: cannot be removed: %s", path, strerror(errno));
}

static bool run_file(struct run *run, const char *path) {
    const char *output;
    char *made;
    bool good = name_output(run, path, &output, &made) && check_output(run, path, output);
    struct transfer transfer = {0};
    if (good)
        good = transfer_open(&transfer, path, output, run->options->force);
    if (good) {
        bool done =
            run->decompresses ? run_decompressor(run, &transfer) : run_compressor(run, &transfer);
        good = transfer_close(&transfer, done) && done;
    }
    if (good) {
        run->files++;
        run->text += transfer.text;
        run->stored += transfer.stored;
        print_result(run, &transfer);
    }
    if (good && run->options->remove)
        good = remove_input(path, &transfer);
    free(made);
    return good && !transfer.damaged;
}

/* ---- The commands ------------------------------------------------------------------------- */

static int check_options(const struct run *run, int n) {
    const struct compress_options *o = run->options;
    const char *no_output = o->list ? "--list" : o->test ? "--test" : NULL;
    const bool to_stdout = o->to_stdout || (o->output && strcmp(o->output, "-") == 0);
    if (o->output && o->to_stdout)
        return options_wrong(run->command, "--stdout and --output exclude each other");
    if (o->output && n > 1)
        return options_wrong(run->command, "--output is for one FILE");
    if (no_output && (o->output || o->to_stdout))
        return options_wrong(run->command, "%s writes no output", no_output);
    if (o->remove && (o->keep || no_output || to_stdout))
        return options_wrong(run->command, "--rm and %s exclude each other",
                             o->keep        ? "--keep"
                             : no_output    ? no_output
                             : o->to_stdout ? "--stdout"
                                            : "--output -");
    if (o->list && o->test)
        return options_wrong(run->command, "--list and --test exclude each other");
    if (o->salvage && !run->decompresses)
        return options_wrong(run->command, "--salvage is for decompressing");
    if (o->streams != 0 && run->decompresses)
        return options_wrong(run->command, "--streams is for compressing");
    return OPTIONS_RUN;
}

static int run_files(struct run *run, const struct operands *files) {
    int failed = 0, skipped = 0;
    for (int i = 0; i < files->n && !signals_stopped() && !output_closed() && !output_failed(); i++)
        if (is_skipped(run, files->items[i]))
            skipped++;
        else
            failed += !run_file(run, files->items[i]);
    const bool none = skipped == files->n;
    int status = output_finish(signals_stopped()    ? signals_status()
                               : failed > 0 || none ? STATUS_FAILURE
                                                    : STATUS_OK);
    terminal_summary("files=%" PRIu64 " bytes=%" PRIu64 " stored=%" PRIu64
                     " seconds=%.2f kernels=%s",
                     run->files, run->text, run->stored, terminal_seconds() - run->start,
                     txl_kernels_name(NULL));
    return status;
}

static int run_command(const struct command *command, void *values, struct operands *files) {
    const struct compress_options *options = values;
    struct run run = {.command = command,
                      .options = options,
                      .inputs = files,
                      .decompresses = options->decompress || options->list || options->test,
                      .known = {.common = &options->common},
                      .start = terminal_seconds()};
    int status = check_options(&run, files->n);
    if (status == OPTIONS_RUN) {
        status = STATUS_FAILURE;
        if (name_inputs(&run) && (run.decompresses || model_open(&run.model, &options->common)))
            status = run_files(&run, files);
    }
    free(run.named);
    if (run.model.handle)
        model_close(&run.model);
    known_models_close(&run.known);
    return status;
}

static const struct compress_options compressing, decompressing = {.decompress = true};

/* ---- The tables --------------------------------------------------------------------------- */

#define PLACE(member) offsetof(struct compress_options, member)

#define OUTPUT_ROWS                                                                                \
    OPTION_ROW("output", OPTION_STRING, PLACE(output), "write to FILE; -: to standard output",     \
               .section = "Output", .letter = 'o', .file = FILE_STREAM),                           \
        OPTION_ROW("stdout", OPTION_FLAG, PLACE(to_stdout),                                        \
                   "write to standard output, one text after the other", .letter = 'c'),           \
        OPTION_ROW("force", OPTION_FLAG, PLACE(force),                                             \
                   "replace existing outputs, follow symbolic links, write to a terminal",         \
                   .letter = 'f'),                                                                 \
        OPTION_ROW("keep", OPTION_FLAG, PLACE(keep), "keep each FILE; this is the default",        \
                   .letter = 'k'),                                                                 \
        OPTION_ROW("rm", OPTION_FLAG, PLACE(remove),                                               \
                   "remove each FILE once its output is complete")

#define INSTEAD_ROWS(heading)                                                                      \
    OPTION_ROW("decompress", OPTION_FLAG, PLACE(decompress), "decompress", .section = (heading),   \
               .letter = 'd'),                                                                     \
        OPTION_ROW("list", OPTION_FLAG, PLACE(list),                                               \
                   "print the sizes, the form, the model and the settings of compressed FILEs",    \
                   .letter = 'l'),                                                                 \
        OPTION_ROW("test", OPTION_FLAG, PLACE(test),                                               \
                   "decompress and compare checksums, but write nothing", .letter = 't'),          \
        OPTION_ROW("salvage", OPTION_FLAG, PLACE(salvage),                                         \
                   "write what is intact of damaged compressed FILEs, and say what is lost")

#define COMMON_ROWS_AS_ZSTD COMMON_ROWS_WITH('T')

static const struct option_row compress_rows[] = {
    OUTPUT_ROWS,
    INSTEAD_ROWS("Instead of compressing"),
    {"streams", OPTION_INTEGER, PLACE(streams),
     "read N parts of the text side by side, each of at most 128 KiB; 1 is slow and saves "
     "a little",
     .section = "Compression", .standard = "one per 8 KiB, up to 16", .least = 1,
     .most = TXL_MAX_STREAMS},
    OPTION_ROW(
        "no-cache", OPTION_FLAG, PLACE(no_cache),
        "learn nothing from the text so far: larger as a rule, but damage in one stream spares "
        "the others, where it loses 2 MiB else"),
    FILES_FROM_ROW("Input"),
    MODEL_ROW,
    LOW_MEMORY_ROW,
    COMMON_ROWS_AS_ZSTD,
    {0}};

static const struct option_row decompress_rows[] = {OUTPUT_ROWS,
                                                    INSTEAD_ROWS("Ways of decompressing"),
                                                    FILES_FROM_ROW("Input"),
                                                    MODEL_ROW,
                                                    LOW_MEMORY_ROW,
                                                    COMMON_ROWS_AS_ZSTD,
                                                    {0}};

static const struct operand_row compress_operands[] = {{.name = "FILE",
                                                        .help = "file to compress",
                                                        .optional = true,
                                                        .standard_input = true,
                                                        .repeats = true},
                                                       {0}};

static const struct operand_row decompress_operands[] = {{.name = "FILE",
                                                          .help = "compressed file, *" SUFFIX,
                                                          .optional = true,
                                                          .standard_input = true,
                                                          .repeats = true},
                                                         {0}};

static const struct note notes[] = {
    {"Models",
     "A text can only be decompressed with the model that compressed it. Its file has the "
     "checksum of that model, which txl looks for in this order: --model, $TXL_MODEL, the "
     "program itself, " MODELS_FOLDER
     ", which has the built-in models of earlier releases, and the folders of "
     "$TXL_MODELS, with colons between them."},
    {"Any bytes",
     "Any FILE comes back byte for byte. The model's predictions are mixed with what the text has "
     "had so far, so that text of other kinds and languages becomes small too; random bytes are "
     "written as they are. The result is the same on every machine and with any number of "
     "threads, and later versions read it. txl compress -l names the form of a file: mixing; "
     "linear, with models whose softmax has several bands; none, with --no-cache."},
    {"Damage",
     "A compressed FILE consists of frames of up to 2 MiB of text. Damage loses the frame that it "
     "is in, and with --no-cache only a stream of it, at most 128 KiB. --salvage writes the "
     "rest."},
    {"Outputs",
     "An output has the owner, group, mode and times of its FILE, as far as the user may give "
     "them. Without -f nothing is replaced, not even a file that another process has written "
     "since."},
    {0}};

static const struct example compress_examples[] = {
    {"txl compress novel.txt", "makes novel.txt" SUFFIX},
    {"txl compress -d novel.txt" SUFFIX, "makes novel.txt, as txl decompress does"},
    {"cat *.txt | txl compress > all" SUFFIX, "in a pipe"},
    {"txl compress -l *" SUFFIX, "sizes and models"},
    {0}};

static const struct example decompress_examples[] = {
    {"txl decompress novel.txt" SUFFIX, "makes novel.txt"},
    {"txl decompress < all" SUFFIX " | less", "in a pipe"},
    {"txl decompress --salvage -o rest.txt damaged" SUFFIX, "what is left of a damaged file"},
    {0}};

/* The options of -h. */
static const char *const brief[] = {"decompress", "stdout",   "force",   "keep",  "output", "test",
                                    "threads",    "no-cache", "salvage", "model", NULL};

const struct command compress_command = {
    .name = "compress",
    .summary = "make files smaller, without loss",
    .description =
        "Compresses each FILE to FILE" SUFFIX
        " by the model's predictions and what the text has had so far. Files are half to nine "
        "tenths as large as xz's. It is slow: ten to thirty kilobytes a second.",
    .options = compress_rows,
    .brief = brief,
    .operands = compress_operands,
    .examples = compress_examples,
    .notes = notes,
    .shared = "summary",
    .defaults = &compressing,
    .size = sizeof compressing,
    .run = run_command,
};

static const char *const decompress_brief[] = {"stdout",  "force", "keep",    "output",
                                               "test",    "list",  "salvage", "files-from",
                                               "threads", "model", NULL};

const struct command decompress_command = {
    .name = "decompress",
    .summary = "restore files that txl compress made",
    .description = "Decompresses each FILE, named *" SUFFIX ", to a file without that suffix.",
    .options = decompress_rows,
    .brief = decompress_brief,
    .operands = decompress_operands,
    .examples = decompress_examples,
    .notes = notes,
    .shared = "summary",
    .defaults = &decompressing,
    .size = sizeof decompressing,
    .run = run_command,
};
