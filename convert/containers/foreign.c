/* Files that are taken for checkpoints or vocabularies, and are something else. */
#include "foreign.h"

#include "lib/base/error.h"
#include "lib/base/files.h"
#include "lib/base/json_memory.h"
#include "lib/base/white_space.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <string.h>

static const char bundle_part[] = "part of a TensorFlow checkpoint; name its .index file";
static const char bundle_parts[] =
    "holds parts of a TensorFlow checkpoint, but not its .index file; fetch that too";
static const char bundle_index[] =
    "not the index of a TensorFlow checkpoint, whose end is another; the file is cut short or "
    "damaged, fetch it again";
static const char pointer[] = "a git-LFS pointer, which stands for the file; fetch the file itself "
                              "with `git lfs pull`";
static const char other_framework[] =
    "weights for TensorFlow or Flax; take pytorch_model.bin or model.safetensors from the same "
    "place";
static const char compressed_text[] = "a text that txl compress made; `txl decompress` reads it";

/* Files that begin with fixed bytes, or have them further on. */
static const struct format {
    size_t offset;
    const char *bytes, *what;
} formats[] = {
    {0, "version https://git-lfs", pointer},
    {0, "\x89HDF\r\n\x1a\n", other_framework},
    {0, "model_checkpoint_path:", bundle_part},
    {257, "ustar",
     "a tar archive; unpack it and name what is inside (if torch.save wrote it, before PyTorch "
     "0.1.10, load and save it with a newer PyTorch)"},
    {0, "\x1f\x8b", "packed with gzip; unpack it"},
    {0, "GGUF", "a GGUF file; convert the PyTorch checkpoint instead"},
    {0, "\x93TXL",
     "a weights file of txl, converted already; for other options convert the checkpoint again"},
    {0, "\x93TXM", "a memory that txl saved; `txl generate --load-memory` continues it"},
    {0, "\x93TXZ", compressed_text},
    {0, "\x93TXE", compressed_text},
};

static bool is_of(const struct mapped_file *file, const struct format *format) {
    size_t length = strlen(format->bytes);
    return file->size >= format->offset + length &&
           memcmp(file->data + format->offset, format->bytes, length) == 0;
}

/* Whether the file begins with the text, in upper or lower case, after white space. */
static bool begins_with_tag(const struct mapped_file *file, const char *tag) {
    uint64_t at = 0;
    while (at < file->size && at < 64 && is_space_byte((char)file->data[at]))
        at++;
    for (; *tag; tag++, at++)
        if (at == file->size || tolower(file->data[at]) != *tag)
            return false;
    return true;
}

static const char *what_content_is(const struct mapped_file *file) {
    if (begins_with_tag(file, "<!doctype html") || begins_with_tag(file, "<html") ||
        begins_with_tag(file, "<?xml"))
        return "a web page, saved where a file was meant; fetch the file itself (on Hugging Face "
               "from a link with /resolve/ in it)";
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (is_of(file, &formats[i]))
            return formats[i].what;
    return NULL;
}

static const char *what_name_says(const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (strstr(name, ".ckpt") && (strstr(name, ".data-") || ends_with(name, ".meta")))
        return bundle_part;
    if (ends_with(name, ".index"))
        return bundle_index;
    if (ends_with(name, ".h5") || ends_with(name, ".msgpack"))
        return other_framework;
    return NULL;
}

txl_status foreign_refuse(const struct mapped_file *file, txl_error *error) {
    const char *what = what_content_is(file);
    if (!what)
        what = what_name_says(file->path);
    return what ? txl_fail(error, TXL_UNSUPPORTED, "%s: %s", file->path, what) : TXL_OK;
}

txl_status foreign_refuse_pointer(const struct mapped_file *file, txl_error *error) {
    return what_content_is(file) == pointer
               ? txl_fail(error, TXL_UNSUPPORTED, "%s: %s", file->path, pointer)
               : TXL_OK;
}

txl_status foreign_read_json(const char *path,
                             txl_status (*refuse)(const struct mapped_file *, txl_error *),
                             size_t flags, const char *what, json_t **json, txl_error *error) {
    struct mapped_file file;
    json_error_t about;
    txl_status status = mapped_file_open(path, &file, error);
    if (status)
        return status;
    status = refuse(&file, error);
    if (!status) {
        *json = json_loadb((const char *)file.data, (size_t)file.size, flags, &about);
        if (!*json)
            status = txl_fail(error, json_lacked_memory(&about) ? TXL_MEMORY : TXL_FORMAT,
                              "%s: line %d: %s%s", path, about.line, what, about.text);
    }
    mapped_file_close(&file);
    return status;
}

/* Which of the formats the names in a folder show; NULL if none, or if it cannot be read. */
static const char *what_folder_holds(const char *path) {
    DIR *directory = opendir(path);
    const char *what = NULL;
    for (struct dirent *entry; directory && !what && (entry = readdir(directory));)
        what = what_name_says(entry->d_name);
    if (directory)
        closedir(directory);
    return what == bundle_part ? bundle_parts : what;
}

txl_status foreign_refuse_directory(const char *path, const char *inner, const char *expected,
                                    txl_error *error) {
    const char *const folders[] = {path, inner};
    DIR *directory = opendir(path);
    if (!directory)
        return txl_fail(error, TXL_IO, "%s: %s", path, strerror(errno));
    closedir(directory);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *what = what_folder_holds(folders[i]);
        if (what)
            return txl_fail(error, TXL_UNSUPPORTED, "%s: %s", folders[i], what);
    }
    return txl_fail(error, TXL_IO, "%s: holds no checkpoint; expected one of %s", path, expected);
}
