/* Reads files, standard input and strings alike. */
#include "input.h"

#include "signals.h"
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fail(const char *name) {
    terminal_error("%s: %s", name, strerror(errno));
    return false;
}

/* Whether standard output or error writes to this file. */
static bool is_written(const struct stat *file) {
    struct stat output;
    for (int i = STDOUT_FILENO; i <= STDERR_FILENO; i++)
        if (fstat(i, &output) == 0 && output.st_dev == file->st_dev &&
            output.st_ino == file->st_ino)
            return true;
    return false;
}

static void measure(struct input *input) {
    struct stat status;
    off_t base = lseek(input->handle, 0, SEEK_CUR);
    if (fstat(input->handle, &status) != 0 || !S_ISREG(status.st_mode) || base < 0)
        return;
    input->base = base;
    input->size = status.st_size > base ? (uint64_t)(status.st_size - base) : 0;
    input->bounded = is_written(&status);
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
            return fail(path);
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

void input_close(struct input *input) {
    if (input->handle > STDERR_FILENO)
        close(input->handle);
    input->handle = -1;
}

ssize_t input_read(struct input *input, char *buffer, size_t size) {
    ssize_t n;
    if (input->bounded && input->size - input->read < size)
        size = (size_t)(input->size - input->read);
    if (input->handle < 0) {
        n = (ssize_t)(input->left < size ? input->left : size);
        memcpy(buffer, input->string, (size_t)n);
        input->string += n;
        input->left -= (size_t)n;
    } else {
        signals_end_reads(true);
        do {
            n = signals_stopped() && !input->to_end ? 0 : read(input->handle, buffer, size);
        } while (n < 0 && errno == EINTR);
        signals_end_reads(false);
        if (n < 0) {
            input->failed = true;
            fail(input->name);
            return -1;
        }
    }
    input->read += (uint64_t)n;
    return n;
}

/* Copies the rest of the input to `copy`, which becomes its source. */
static bool copy_rest(struct input *input, int copy) {
    char buffer[1 << 16];
    ssize_t n;
    while ((n = input_read(input, buffer, sizeof buffer)) > 0) {
        for (ssize_t done = 0; done < n;) {
            ssize_t written = write(copy, buffer + done, (size_t)(n - done));
            if (written < 0 && errno != EINTR)
                return fail("temporary file");
            done += written > 0 ? written : 0;
        }
    }
    if (n < 0 || lseek(copy, 0, SEEK_SET) < 0 || dup2(copy, input->handle) < 0)
        return n == 0 && fail("temporary file");
    measure(input);
    input->read = 0;
    return true;
}

bool input_make_seekable(struct input *input) {
    if (input->handle < 0 || lseek(input->handle, 0, SEEK_CUR) >= 0)
        return true;
    FILE *file = tmpfile();
    if (!file)
        return fail("temporary file");
    bool copied = copy_rest(input, fileno(file));
    fclose(file);
    return copied;
}

bool input_rewind(struct input *input) {
    if (input->handle < 0) {
        input->string -= input->read;
        input->left += input->read;
    } else if (lseek(input->handle, input->base, SEEK_SET) < 0) {
        return fail(input->name);
    }
    input->read = 0;
    return true;
}

bool input_is_piped(void) {
    return !isatty(STDIN_FILENO);
}
