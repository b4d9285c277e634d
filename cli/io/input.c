/* Reads files, standard input and strings alike, in UTF-8 or another encoding, packed or not. */
#include "input.h"

#include "clean.h"
#include "lib/base/white_space.h"
#include "output.h"
#include "signals.h"
#include "terminal.h"
#include "unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <iconv.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Reading --------------------------------------------------------------------------- */

static bool fail_input(const char *name) {
    return terminal_error("%s: %s", name, strerror(errno));
}

static void measure(struct input *input) {
    struct stat status;
    off_t base = lseek(input->handle, 0, SEEK_CUR);
    if (fstat(input->handle, &status) != 0 || !S_ISREG(status.st_mode) || base < 0)
        return;
    input->base = base;
    input->size = status.st_size > base ? (uint64_t)(status.st_size - base) : 0;
    input->bounded = output_standard_handle(&status) >= 0;
}

bool input_open(struct input *input, const char *path) {
    *input = (struct input){.name = path, .handle = STDIN_FILENO};
    if (strcmp(path, "-") == 0) {
        input->name = "standard input";
    } else {
        signals_end_reads(true); /* opening a pipe waits for a writer */
        input->handle = signals_stopped() ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        signals_end_reads(false);
        if (input->handle < 0 && signals_stopped())
            return false;
        if (input->handle < 0)
            return fail_input(path);
    }
    measure(input);
    return true;
}

void input_open_string(struct input *input, const char *name, const char *string) {
    *input = (struct input){.name = name,
                            .handle = -1,
                            .string = string,
                            .left = strlen(string),
                            .size = strlen(string)};
}

static void drop_head(struct input *input) {
    free(input->head);
    input->head = NULL;
    input->n_head = input->at_head = 0;
}

/* What comes is read as it is from now on. */
static void end_conversions(struct input *input) {
    unpacker_free(input->unpacker);
    input->unpacker = NULL;
    if (input->iconv)
        iconv_close(input->iconv);
    input->iconv = NULL;
    buffer_free(&input->raw);
    input->check.on = false;
}

bool input_is_as_stored(const struct input *input) {
    return !input->unpacker && !input->iconv;
}

void input_close(struct input *input) {
    if (input->handle > STDERR_FILENO)
        close(input->handle);
    input->handle = -1;
    end_conversions(input);
    drop_head(input);
}

/* Reads bytes of the file. */
static ssize_t read_file(struct input *input, char *buffer, size_t size) {
    ssize_t n;
    if (input->bounded && input->size - input->taken < size)
        size = (size_t)(input->size - input->taken);
    signals_end_reads(true);
    do {
        n = signals_stopped() && !input->to_end ? 0 : read(input->handle, buffer, size);
    } while (n < 0 && errno == EINTR);
    signals_end_reads(false);
    if (n < 0) {
        input->failed = true;
        fail_input(input->name);
        return -1;
    }
    input->taken += (uint64_t)n;
    return n;
}

/* Takes the first bytes, which were read before. */
static size_t take_head(struct input *input, char *buffer, size_t size) {
    size_t n = input->n_head - input->at_head;
    n = n < size ? n : size;
    if (n > 0)
        memcpy(buffer, input->head + input->at_head, n);
    input->at_head += n;
    return n;
}

static ssize_t read_packed(void *context, char *buffer, size_t size) {
    return read_file(context, buffer, size);
}

static ssize_t read_expanded(struct input *input, char *buffer, size_t size) {
    const char *problem;
    ssize_t n = unpacker_read(input->unpacker, read_packed, input, buffer, size, &problem);
    if (n != -2)
        return n;
    if (signals_stopped() && !input->to_end)
        return 0;
    input->failed = true;
    terminal_error("%s: its compressed data cannot be read: %s", input->name, problem);
    return -1;
}

static ssize_t read_unpacked(struct input *input, char *buffer, size_t size) {
    return input->unpacker ? read_expanded(input, buffer, size) : read_file(input, buffer, size);
}

static ssize_t fail_conversion(struct input *input, const char *problem) {
    input->failed = true;
    terminal_error("%s: %s", input->name, problem);
    return -1;
}

/* Converts what waits, as far as there is room. */
static ssize_t convert_raw(struct input *input, char *buffer, size_t size) {
    char *from = input->raw.data, *to = buffer;
    size_t left = input->raw.length, room = size;
    bool good = iconv(input->iconv, &from, &left, &to, &room) != (size_t)-1 || errno != EILSEQ;
    buffer_drop(&input->raw, input->raw.length - left);
    if (good || room < size)
        return (ssize_t)(size - room);
    return fail_conversion(input, "is not text in the encoding that --encoding names");
}

static ssize_t read_converted(struct input *input, char *buffer, size_t size) {
    ssize_t n = 0, made = 0;
    do {
        char bytes[4096];
        n = input->raw.length < sizeof bytes / 2 ? read_unpacked(input, bytes, sizeof bytes) : 1;
        if (n < 0)
            return -1;
        if (input->raw.length < sizeof bytes / 2 && !buffer_append(&input->raw, bytes, (size_t)n))
            return fail_conversion(input, "out of memory");
        made = convert_raw(input, buffer, size);
    } while (made == 0 && n > 0);
    if (made == 0 && input->raw.length > 0 && !signals_stopped())
        return fail_conversion(input,
                               "ends within a character of the encoding that --encoding names");
    return made;
}

/* Bytes that stand for letters in one of the encodings, and for little in the other. */
static const char *guess_encoding(const char *text, size_t n) {
    size_t windows = 0, macintosh = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        windows += c >= 0xe0 || c == 0x85 || (c >= 0x91 && c <= 0x97);
        macintosh += (c >= 0x80 && c <= 0x9f && c != 0x85 && !(c >= 0x91 && c <= 0x97)) ||
                     (c >= 0xd0 && c <= 0xd5);
    }
    return macintosh > windows ? "MACINTOSH" : "WINDOWS-1252";
}

/* Refuses a text in an encoding of one byte a character. */
static bool refuse_single_bytes(struct input *input, const char *at, size_t left) {
    const char *encoding = guess_encoding(at, left < 1 << 14 ? left : 1 << 14);
    input->failed = true;
    return terminal_error("%s: line %llu: the byte 0x%02x is not UTF-8; if this is text in %s, "
                          "--encoding %s reads it (iconv -f %s -t UTF-8 converts it), and "
                          "--invalid replace reads U+FFFD",
                          input->name, (unsigned long long)input->check.line + 1,
                          (unsigned)(unsigned char)*at, encoding, encoding, encoding);
}

/* Looks at the next bytes of the text.  Where a character of several bytes came before, an invalid
 * byte is damage, which the encoder replaces and counts. */
static bool check_bytes(struct input *input, const char *text, size_t n) {
    for (size_t i = 0; input->check.on && i < n;) {
        const bool has_cut = input->check.n > 0;
        if (!has_cut && (unsigned char)text[i] < 0x80) {
            input->check.line += text[i++] == '\n';
            continue;
        }
        char *cut = input->check.cut;
        if (has_cut)
            cut[input->check.n++] = text[i++];
        enum utf8_what what;
        size_t length =
            has_cut ? utf8_first(cut, input->check.n, &what) : utf8_first(text + i, n - i, &what);
        if (what == UTF8_CUT && !has_cut) {
            memcpy(cut, text + i, n - i);
            input->check.n = n - i;
            return true;
        }
        if (what == UTF8_INVALID)
            return refuse_single_bytes(input, has_cut ? cut : text + i, has_cut ? 1 : n - i);
        i += has_cut ? 0 : length;
        input->check.on = what == UTF8_CUT;
    }
    return true;
}

ssize_t input_read(struct input *input, char *buffer, size_t size) {
    ssize_t n = (ssize_t)take_head(input, buffer, size);
    if (input->handle < 0) {
        n = (ssize_t)(input->left < size ? input->left : size);
        memcpy(buffer, input->string, (size_t)n);
        input->string += n;
        input->left -= (size_t)n;
    } else if (n == 0) {
        n = input->iconv ? read_converted(input, buffer, size) : read_unpacked(input, buffer, size);
        if (n > 0 && !check_bytes(input, buffer, (size_t)n))
            return -1;
    }
    input->read += n > 0 ? (uint64_t)n : 0;
    return n;
}

bool input_read_all(struct input *input, struct buffer *to, size_t most) {
    char bytes[1 << 14];
    ssize_t n = 1;
    while (to->length <= most && (n = input_read(input, bytes, sizeof bytes)) > 0)
        if (!buffer_append(to, bytes, (size_t)n))
            return terminal_error("out of memory");
    return n >= 0 && !signals_stopped();
}

bool input_read_list(const char *path, struct buffer *list, size_t most) {
    struct input input;
    if (!input_open(&input, path))
        return false;
    bool good = input_read_all(&input, list, most);
    input_close(&input);
    if (good && list->length == 0)
        return terminal_error("%s: it is empty", path);
    if (good && list->length >= most)
        return terminal_error("%s: it is longer than %zu MiB", path, most >> 20);
    return good;
}

bool input_is_ready(const struct input *input) {
    struct pollfd file = {.fd = input->handle, .events = POLLIN};
    return input->handle < 0 || input->at_head < input->n_head || poll(&file, 1, 0) > 0;
}

double input_fraction(const struct input *input, uint64_t used) {
    if (input->size == 0 || input->read == 0)
        return -1;
    uint64_t taken = input->handle < 0 ? input->read : input->taken;
    return (double)used / (double)input->read * (double)taken / (double)input->size;
}

/* Copies the rest of the input to `copy`, which becomes its source. */
static bool copy_rest(struct input *input, int copy) {
    char buffer[1 << 16];
    ssize_t n;
    while ((n = input_read(input, buffer, sizeof buffer)) > 0) {
        for (ssize_t done = 0; done < n;) {
            ssize_t written = write(copy, buffer + done, (size_t)(n - done));
            if (written < 0 && errno != EINTR)
                return fail_input("temporary file");
            done += written > 0 ? written : 0;
        }
    }
    if (n < 0 || lseek(copy, 0, SEEK_SET) < 0 || dup2(copy, input->handle) < 0)
        return n == 0 && fail_input("temporary file");
    end_conversions(input);
    drop_head(input);
    measure(input);
    input->read = input->taken = 0;
    return true;
}

bool input_make_seekable(struct input *input) {
    if (input->handle < 0 || lseek(input->handle, 0, SEEK_CUR) >= 0)
        return true;
    FILE *file = tmpfile();
    if (!file)
        return fail_input("temporary file");
    bool copied = copy_rest(input, fileno(file));
    fclose(file);
    return copied;
}

/* Starts to expand the file, whose first `n` bytes were read. */
static bool expand_from_start(struct input *input, const char *first, size_t n) {
    unpacker_free(input->unpacker);
    input->unpacker = unpacker_new(input->packing, first, n);
    if (!input->unpacker)
        terminal_error("out of memory");
    return input->unpacker;
}

bool input_rewind(struct input *input) {
    if (input->handle < 0) {
        input->string -= input->read;
        input->left += input->read;
    } else if (lseek(input->handle, input->base, SEEK_SET) < 0) {
        return fail_input(input->name);
    }
    input->read = input->taken = 0;
    drop_head(input);
    if (input->iconv)
        iconv(input->iconv, NULL, NULL, NULL, NULL);
    input->raw.length = input->check.n = 0;
    input->check.line = 0;
    return !input->unpacker || expand_from_start(input, NULL, 0);
}

/* ---- What kind of file it is -------------------------------------------------------------- */

/* Reads the start of the text, which input_read gives again; what comes at `once`, or all of it. */
static bool read_head(struct input *input, bool once) {
    drop_head(input);
    input->head = malloc(UNPACK_FIRST);
    if (!input->head)
        return terminal_error("out of memory");
    ssize_t n = 1;
    while (n > 0 && input->n_head < UNPACK_FIRST) {
        char *end = input->head + input->n_head;
        size_t left = UNPACK_FIRST - input->n_head;
        n = input->iconv ? read_converted(input, end, left) : read_unpacked(input, end, left);
        input->n_head += n > 0 ? (size_t)n : 0;
        if (once && n > 0)
            break;
    }
    return n >= 0;
}

/* Refuses what is no text by its first bytes, with what to do instead. */
static bool check_kind(const struct input *input) {
    static const struct {
        const char *bytes;
        size_t n;
        const char *what;
    } kinds[] = {
        {"\xff\xfe\0\0", 4, "is text in UTF-32; iconv -f UTF-32 -t UTF-8 makes it UTF-8"},
        {"\0\0\xfe\xff", 4, "is text in UTF-32; iconv -f UTF-32 -t UTF-8 makes it UTF-8"},
        {"\xff\xfe", 2, "is text in UTF-16; iconv -f UTF-16 -t UTF-8 makes it UTF-8"},
        {"\xfe\xff", 2, "is text in UTF-16; iconv -f UTF-16 -t UTF-8 makes it UTF-8"},
        {"\x93TXL", 4, "is a weights file, not a text; txl info describes it, --model uses it"},
        {"\x93TXZ", 4, "is a text that txl compressed; txl decompress -c expands it"},
        {"\x93TXM", 4, "is a saved memory, not a text; txl generate --load-memory continues it"},
        {"PK\x03\x04", 4,
         "is a zip archive; unzip -p prints the text in it, pandoc -t plain that of a .docx or "
         ".epub; a spreadsheet (.xlsx, .ods) is to be saved as .csv"},
        {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 8,
         "is a document of an office program; save a spreadsheet as .csv, a text as plain text"},
        {"%PDF-", 5, "is a PDF document; pdftotext makes a text of it"},
        {"\xfd"
         "7zXZ",
         5, "is compressed by xz; xz -dc expands it"},
        {"BZh", 3, "is compressed by bzip2; bzip2 -dc expands it"},
    };
    if (input->unpacker && unpack_packing(input->head, input->n_head) != PACKING_NONE) {
        return terminal_error("%s: is compressed twice; gzip -dc or zstd -dc expands it once",
                              input->name);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (input->n_head >= kinds[i].n && memcmp(input->head, kinds[i].bytes, kinds[i].n) == 0)
            return terminal_error("%s: %s", input->name, kinds[i].what);
    return true;
}

/* Refuses a text that has a NUL, or in which more than one character in ten is invalid. */
static bool check_characters(const struct input *input) {
    enum { FEW = 10 };
    size_t n = 0, invalid = 0;
    const char *text = input->head, *nul = memchr(text, 0, input->n_head);
    for (size_t i = 0; i < input->n_head && !nul; n++) {
        enum utf8_what what;
        i += utf8_first(text + i, input->n_head - i, &what);
        invalid += what == UTF8_INVALID || (what == UTF8_CUT && input->n_head < UNPACK_FIRST);
    }
    if (nul)
        terminal_error("%s: is not text: byte %zu is NUL; --binary reads it anyway", input->name,
                       (size_t)(nul - text) + 1);
    else if (invalid > n / FEW)
        terminal_error("%s: is not text in UTF-8: of its first %zu characters %zu are invalid; "
                       "--encoding NAME converts other text, --binary reads it anyway",
                       input->name, n, invalid);
    return !nul && invalid <= n / FEW;
}

/* Reads the head of an opened input, expanded. */
static bool find_head(struct input *input, bool once) {
    bool good = read_head(input, once);
    input->packing = good ? unpack_packing(input->head, input->n_head) : PACKING_NONE;
    if (input->packing != PACKING_NONE)
        good = expand_from_start(input, input->head, input->n_head) && read_head(input, once);
    return good;
}

/* Converts the head and what comes after it from the encoding. */
static bool start_conversion(struct input *input, const char *encoding) {
    iconv_t descriptor = iconv_open("UTF-8", encoding);
    if (descriptor == (iconv_t)-1)
        return terminal_error("--encoding %s: not known; iconv -l lists encodings", encoding);
    input->iconv = descriptor;
    if (!buffer_append(&input->raw, input->head, input->n_head))
        return terminal_error("out of memory");
    return read_head(input, false);
}

bool input_open_text(struct input *input, const char *path, bool bytes,
                     const struct input_form *form) {
    if (!input_open(input, path))
        return false;
    bool good = (bytes && form->binary) || find_head(input, false);
    if (good && !bytes && form->encoding)
        good = start_conversion(input, form->encoding);
    if (good && !bytes && !form->binary) {
        input->check.on = form->invalid != INVALID_REPLACE;
        good = check_kind(input) && check_characters(input) &&
               check_bytes(input, input->head, input->n_head);
    }
    if (!good)
        input_close(input);
    return good;
}

bool input_open_lines(struct input *input, const char *path) {
    if (!input_open(input, path))
        return false;
    bool good = find_head(input, true) && check_kind(input);
    if (!good)
        input_close(input);
    return good;
}

struct wrap input_wrap(const struct input *input) {
    size_t left = input->left < UNPACK_FIRST ? input->left : UNPACK_FIRST;
    return input->handle < 0 ? wrap_measure(input->string, left)
                             : wrap_measure(input->head, input->n_head);
}

bool input_has_text(void) {
    struct stat about;
    int n = 0;
    if (fstat(STDIN_FILENO, &about) != 0)
        return false;
    if (S_ISREG(about.st_mode))
        return lseek(STDIN_FILENO, 0, SEEK_CUR) == 0 && about.st_size > 0;
    return S_ISFIFO(about.st_mode) && ioctl(STDIN_FILENO, FIONREAD, &n) == 0 && n > 0;
}

bool input_is_piped(void) {
    return !isatty(STDIN_FILENO);
}
