/* Vocabulary files: the input is one, of any kind.  A vocabulary that can be read must be usable as
 * a model's. */
#include "fuzz.h"

#include "convert/vocabulary_file.h"
#include "lib/text/vocabulary.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void look_up(const struct vocabulary *vocabulary) {
    for (int32_t id = 0; id < vocabulary->n; id++) {
        size_t length, found_length;
        const char *text = vocabulary_symbol(vocabulary, id, &length);
        int32_t found_id = vocabulary_find(vocabulary, text, length);
        if (vocabulary->kind == TXL_BYTES && found_id < 0)
            continue; /* a spelling of one byte that is no number */
        const char *found = vocabulary_symbol(vocabulary, found_id, &found_length);
        fuzz_require(found_id <= id && found_length == length && memcmp(found, text, length) == 0,
                     "a symbol is not found again");
    }
}

/* A SentencePiece model or a tokenizer.json may be wrong in itself, which shows only when it is
 * packed. */
static void use(const struct vocabulary_file *file, txl_kind kind) {
    struct convert_vocabulary packed;
    struct vocabulary vocabulary;
    txl_error error;
    txl_status status = vocabulary_file_pack(file, NULL, kind, &packed, &error);
    if (!file->model.data && file->n_piece == 0)
        fuzz_require_ok(status, &error);
    if (status)
        return;
    const struct vocabulary_settings settings = {packed.n, packed.kind, false, packed.unk,
                                                 packed.eos};
    fuzz_require_ok(
        vocabulary_open(&vocabulary, packed.section, packed.size, &settings, "input", &error),
        &error);
    look_up(&vocabulary);
    vocabulary_close(&vocabulary);
    free(packed.section);
}

static void read_file(const char *path) {
    struct vocabulary_file file;
    txl_error error;
    if (!vocabulary_file_read(path, &file, &error)) {
        use(&file, TXL_PIECES);
        if (file.n_piece > 0)
            use(&file, TXL_XLNET);
    }
    vocabulary_file_free(&file);
}

/* The same file under a name that ends in .json. */
static const char *json_name(const char *path) {
    const char *name = fuzz_write("vocabulary.json", NULL, 0);
    if (access(name, F_OK) != 0)
        fuzz_require(symlink(path, name) == 0, "a link cannot be made");
    return name;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *path = fuzz_file(data, size);
    read_file(path);
    read_file(json_name(path));
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 16 != 0)
        fuzz_repair_zip(data, size);
    return size;
}
