/* Vocabulary files: the input is one, of any kind.  A vocabulary that can be read must be usable as
 * a model's. */
#include "fuzz.h"

#include "convert/vocabulary_file.h"
#include "lib/text/sentencepiece.h"
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

/* Opens and frees a section. */
static void use_section(void *section, size_t size, int32_t n, txl_kind kind, int32_t unk,
                        int32_t eos) {
    struct vocabulary vocabulary;
    txl_error error;
    fuzz_require_ok(
        vocabulary_open(&vocabulary, section, size, n, kind, false, unk, eos, "input", &error),
        &error);
    look_up(&vocabulary);
    vocabulary_close(&vocabulary);
    free(section);
}

/* A SentencePiece model, which is read only now. */
static void use_model(const struct vocabulary_file *file) {
    struct packed_pieces packed;
    txl_error error;
    if (!sentencepiece_pack(file->model, file->model_size, TXL_PIECES, "input", &packed, &error))
        use_section(packed.section, packed.size, packed.n, TXL_PIECES, packed.unk, packed.eos);
}

static void use_symbols(const struct vocabulary_file *file) {
    struct vocabulary_entry *entries = calloc(file->n_symbol, sizeof *entries);
    void *section;
    size_t size;
    txl_error error;
    fuzz_require(entries, "out of memory");
    for (size_t i = 0; i < file->n_symbol; i++)
        entries[i] = (struct vocabulary_entry){file->symbols[i].bytes, file->symbols[i].length};
    txl_kind kind =
        vocabulary_guess_kind(entries, file->n_symbol, file->delimiter == VOCABULARY_CHARACTERS);
    int32_t unk = file->unk >= 0 ? file->unk : vocabulary_guess_unk(entries, file->n_symbol);
    int32_t eos = vocabulary_guess_eos(entries, file->n_symbol, kind);
    fuzz_require_ok(vocabulary_pack(entries, file->n_symbol, &section, &size, &error), &error);
    use_section(section, size, (int32_t)file->n_symbol, kind, unk, eos);
    free(entries);
}

static void read_file(const char *path) {
    struct vocabulary_file file;
    txl_error error;
    if (!vocabulary_file_read(path, &file, &error))
        (file.model ? use_model : use_symbols)(&file);
    vocabulary_file_free(&file);
}

/* The same file under the name by which JSON is told. */
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
