/* Files that are taken for checkpoints or vocabularies, and are something else. */
#include "foreign.h"

#include "lib/base/ends_with.h"
#include "lib/base/error.h"
#include "lib/base/json_memory.h"
#include "lib/base/white_space.h"
#include "lib/weights/layout.h"

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

static bool has_bytes(const struct mapped_file *file, uint64_t offset, const char *bytes,
                      size_t length) {
    return file->size >= offset + length && memcmp(file->data + offset, bytes, length) == 0;
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

static bool is_pointer(const struct mapped_file *file) {
    static const char start[] = "version https://git-lfs";
    return has_bytes(file, 0, start, strlen(start));
}

static const char *what_content_is(const struct mapped_file *file) {
    static const char checkpoint_list[] = "model_checkpoint_path:";
    if (is_pointer(file))
        return pointer;
    if (begins_with_tag(file, "<!doctype html") || begins_with_tag(file, "<html") ||
        begins_with_tag(file, "<?xml"))
        return "a web page, saved where a file was meant; fetch the file itself (on Hugging Face "
               "from a link with /resolve/ in it)";
    if (has_bytes(file, 0, "\x89HDF\r\n\x1a\n", 8))
        return other_framework;
    if (has_bytes(file, 0, checkpoint_list, strlen(checkpoint_list)))
        return bundle_part;
    if (has_bytes(file, 257, "ustar", 5))
        return "a tar archive; unpack it and name what is inside (if torch.save wrote it, before "
               "PyTorch 0.1.10, load and save it with a newer PyTorch)";
    if (has_bytes(file, 0, "\x1f\x8b", 2))
        return "packed with gzip; unpack it";
    if (has_bytes(file, 0, "GGUF", 4))
        return "a GGUF file; convert the PyTorch checkpoint instead";
    if (has_bytes(file, 0, LAYOUT_MAGIC, 4))
        return "a weights file of txl, converted already; for other options convert the checkpoint "
               "again";
    if (has_bytes(file, 0, "\x93TXM", 4))
        return "a memory that txl saved; `txl generate --load-memory` goes on with it";
    if (has_bytes(file, 0, "\x93TXZ", 4) || has_bytes(file, 0, "\x93TXE", 4))
        return "a text that txl compress made; `txl decompress` reads it";
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
    return is_pointer(file) ? txl_fail(error, TXL_UNSUPPORTED, "%s: %s", file->path, pointer)
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

/* What the names in a folder say that it holds; NULL if they do not, or it cannot be read. */
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
