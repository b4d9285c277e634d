/* Plain pickles of a state dict, in which every storage is a torch.save file of its own.  They are
 * made from the cases' checkpoints as Python's pickle writes them, in each protocol. */
#include "convert/containers/checkpoint_internal.h"

#include "checkpoint_files.h"

#include <math.h>

/* ---- Writing pickles ---------------------------------------------------------------------- */

static void number(FILE *out, int width, uint64_t value) {
    for (int i = 0; i < width; i++)
        putc((int)(value >> 8 * i & 0xff), out);
}

static void unicode(FILE *out, const char *text, size_t length) {
    putc('X', out);
    number(out, 4, length);
    fwrite(text, 1, length, out);
}

/* A class or function by its name. */
static void global(FILE *out, int protocol, const char *module, const char *name) {
    if (protocol < 4) {
        fprintf(out, "c%s\n%s\n", module, name);
        return;
    }
    fprintf(out, "\x8c%c%s\x8c%c%s\x93", (char)strlen(module), module, (char)strlen(name), name);
}

/* Protocols below 3 have no bytes: they write them as Latin-1 text. */
static void bytes(FILE *out, int protocol, const char *data, size_t size) {
    if (protocol >= 3) {
        putc(protocol == 3 ? 'B' : '\x8e', out);
        number(out, protocol == 3 ? 4 : 8, size);
        fwrite(data, 1, size, out);
        return;
    }
    char *text = malloc(2 * size + 1);
    size_t length = 0;
    assert_non_null(text);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c >= 0x80)
            text[length++] = (char)(0xc0 | c >> 6);
        text[length++] = (char)(c < 0x80 ? c : 0x80 | (c & 0x3f));
    }
    global(out, protocol, "_codecs", "encode");
    unicode(out, text, length);
    unicode(out, "latin1", 6);
    fputs("\x86R", out); /* TUPLE2, REDUCE */
    free(text);
}

/* ---- A storage by torch.save -------------------------------------------------------------- */

struct file {
    char *data;
    size_t size;
};

/* The legacy container, whose object is `object`, with one storage under the key "0". */
static struct file legacy_file(const char *object, size_t object_size, uint64_t n_item,
                               const void *data, size_t size) {
    static const char head[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
                               "\x80\x02M\xe9\x03."
                               "\x80\x02}X\x0d\0\0\0little_endian\x88s.";
    struct file file;
    FILE *out = open_memstream(&file.data, &file.size);
    assert_non_null(out);
    fwrite(head, 1, sizeof head - 1, out);
    fwrite(object, 1, object_size, out);
    fwrite("\x80\x02]X\x01\0\0\0"
           "0a.",
           1, 11, out);
    number(out, 8, n_item);
    fwrite(data, 1, size, out);
    assert_int_equal(fclose(out), 0);
    return file;
}

static const char *storage_class(enum checkpoint_dtype dtype) {
    return dtype == CHECKPOINT_F32   ? "FloatStorage"
           : dtype == CHECKPOINT_F16 ? "HalfStorage"
           : dtype == CHECKPOINT_F64 ? "DoubleStorage"
           : dtype == CHECKPOINT_I64 ? "LongStorage"
                                     : "BFloat16Storage";
}

static struct file storage_file(enum checkpoint_dtype dtype, const void *data, size_t size) {
    char *object;
    size_t object_size, n_item = size / checkpoint_dtype_size(dtype);
    FILE *out = open_memstream(&object, &object_size);
    assert_non_null(out);
    fprintf(out, "\x80\x02(");
    unicode(out, "storage", 7);
    global(out, 2, "torch", storage_class(dtype));
    unicode(out, "0", 1);
    unicode(out, "cpu", 3);
    putc('J', out);
    number(out, 4, n_item);
    fputs("NtQ.", out);
    assert_int_equal(fclose(out), 0);
    struct file file = legacy_file(object, object_size, n_item, data, size);
    free(object);
    return file;
}

/* ---- A state dict ------------------------------------------------------------------------- */

static void put_storage_record(FILE *out, int protocol, const char *data, size_t size) {
    global(out, protocol, "torch.storage", "_load_from_bytes");
    bytes(out, protocol, data, size);
    fputs("\x85R", out); /* TUPLE1, REDUCE */
}

static void put_tuple(FILE *out, const uint64_t *numbers, int n) {
    putc('(', out);
    for (int i = 0; i < n; i++) {
        putc('J', out);
        number(out, 4, numbers[i]);
    }
    putc('t', out);
}

/* The storage is memoised under the number of the first tensor in it; later ones name it. */
static void put_tensor(FILE *out, int protocol, const struct checkpoint *from, size_t i) {
    const struct checkpoint_tensor *tensor = checkpoint_tensor_at(from, i);
    const struct checkpoint_storage *storage = tensor->storage;
    size_t first = 0;
    while (checkpoint_tensor_at(from, first)->storage != storage)
        first++;
    global(out, protocol, "torch._utils", "_rebuild_tensor_v2");
    putc('(', out);
    if (first < i) {
        putc('j', out); /* LONG_BINGET */
        number(out, 4, first);
    } else {
        struct file file = storage_file(tensor->dtype, storage->data, storage->size);
        put_storage_record(out, protocol, file.data, file.size);
        putc('r', out); /* LONG_BINPUT */
        number(out, 4, i);
        free(file.data);
    }
    putc('J', out);
    number(out, 4, tensor->offset / checkpoint_dtype_size(tensor->dtype));
    put_tuple(out, tensor->shape, tensor->n_dim);
    put_tuple(out, tensor->stride, tensor->n_dim);
    putc('\x89', out); /* requires no gradient */
    global(out, protocol, "collections", "OrderedDict");
    fputs(")RtR", out);
}

/* `behind` is the last item's key and value; the first tensor is memoised as 255. */
static void put_state(FILE *out, int protocol, const struct checkpoint *from, const char *behind,
                      size_t size) {
    global(out, protocol, "collections", "OrderedDict");
    fputs(")R(", out);
    for (size_t i = 0; i < checkpoint_n_tensor(from); i++) {
        const char *name = checkpoint_tensor_at(from, i)->name;
        unicode(out, name, strlen(name));
        put_tensor(out, protocol, from, i);
        if (i == 0)
            fwrite("r\xff\0\0\0", 1, 5, out); /* LONG_BINPUT */
    }
    fwrite(behind, 1, size, out);
    fputs("u.", out);
}

/* Protocols from 4 on put what they write into frames. */
static const char *write_state_before(int protocol, const struct checkpoint *from,
                                      const char *behind, size_t behind_size) {
    struct file body, all;
    FILE *out = open_memstream(&body.data, &body.size);
    assert_non_null(out);
    put_state(out, protocol, from, behind, behind_size);
    assert_int_equal(fclose(out), 0);
    out = open_memstream(&all.data, &all.size);
    assert_non_null(out);
    putc('\x80', out);
    putc(protocol, out);
    if (protocol >= 4) {
        putc('\x95', out);
        number(out, 8, body.size);
    }
    fwrite(body.data, 1, body.size, out);
    assert_int_equal(fclose(out), 0);
    const char *path = write_file("state.pkl", all.data, all.size);
    free(body.data);
    free(all.data);
    return path;
}

static const char *write_state(int protocol, const struct checkpoint *from) {
    return write_state_before(protocol, from, "", 0);
}

/* ---- Tests -------------------------------------------------------------------------------- */

/* Reads twice, because released memory must be there again. */
static void assert_same_tensor(const struct checkpoint_tensor *a,
                               const struct checkpoint_tensor *b) {
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->n_dim, b->n_dim);
    assert_memory_equal(a->shape, b->shape, sizeof a->shape);
    assert_memory_equal(a->stride, b->stride, sizeof a->stride);
    double *expected = doubles_of(b);
    for (int i = 0; i < 2; i++) {
        double *x = doubles_of(a);
        assert_memory_equal(x, expected, a->n_element * sizeof *x);
        checkpoint_release(a);
        free(x);
    }
    free(expected);
}

TEST(state_dicts_are_read_in_every_protocol) {
    static const char *const names[] = {"wt103-zip/model.pt", "text8/model.pt", "half-precision",
                                        "hf-bin/pytorch_model.bin", "wt103-legacy/model.pt"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        struct checkpoint *from = open_or_fail(case_path(names[k]));
        for (int protocol = 2; protocol <= 5; protocol++) {
            struct checkpoint *read = open_or_fail(write_state(protocol, from));
            assert_int_equal(checkpoint_n_tensor(read), checkpoint_n_tensor(from));
            for (size_t i = 0; i < checkpoint_n_tensor(from); i++) {
                assert_same_tensor(checkpoint_tensor_at(read, i), checkpoint_tensor_at(from, i));
                for (size_t j = 0; j < i; j++)
                    assert_int_equal(checkpoint_same_view(checkpoint_tensor_at(read, i),
                                                          checkpoint_tensor_at(read, j)),
                                     checkpoint_same_view(checkpoint_tensor_at(from, i),
                                                          checkpoint_tensor_at(from, j)));
            }
            checkpoint_close(read);
        }
        checkpoint_close(from);
    }
}

/* A pickle of one tensor of two elements, whose storage is the record `n_record` times made of the
 * same bytes, and the last of them is taken. */
static const char *write_one(const char *data, size_t size, size_t n_record) {
    struct file all;
    FILE *out = open_memstream(&all.data, &all.size);
    assert_non_null(out);
    fputs("\x80\x03", out);
    bytes(out, 3, data, size);
    fputs("q\x01"
          "0",
          out); /* BINPUT, POP */
    global(out, 3, "torch._utils", "_rebuild_tensor_v2");
    putc('(', out);
    for (size_t i = 0; i < n_record; i++) {
        if (i > 0)
            putc('0', out);
        global(out, 3, "torch.storage", "_load_from_bytes");
        fputs("h\x01\x85R", out);
    }
    fwrite("K\0K\x02\x85K\x01\x85\x89NtR.", 1, 14, out);
    assert_int_equal(fclose(out), 0);
    const char *path = write_file("one.pkl", all.data, all.size);
    free(all.data);
    return path;
}

TEST(what_is_no_storage_is_refused) {
    static const float two[2] = {3, -4};
    struct file good = storage_file(CHECKPOINT_F32, two, sizeof two);
    struct checkpoint *checkpoint = open_or_fail(write_one(good.data, good.size, 1));
    double *x = doubles_of(checkpoint_tensor_at(checkpoint, 0));
    assert_true(x[0] == 3 && x[1] == -4);
    free(x);
    checkpoint_close(checkpoint);
    for (size_t size = 0; size < good.size; size++)
        assert_not_opened(write_one(good.data, size, 1), TXL_FORMAT, "torch.save file in it");

    struct file short_of = storage_file(CHECKPOINT_F32, two, sizeof two[0]);
    assert_not_opened(write_one(short_of.data, short_of.size, 1), TXL_FORMAT,
                      "reaches beyond its storage");
    free(short_of.data);

    struct file object = legacy_file("\x80\x02K\x05.", 5, 0, two, 0);
    assert_not_opened(write_one(object.data, object.size, 1), TXL_FORMAT,
                      "names one that no tensor");
    free(object.data);

    /* A file in the file in the file. */
    struct file inner;
    FILE *out = open_memstream(&inner.data, &inner.size);
    assert_non_null(out);
    fputs("\x80\x03", out);
    put_storage_record(out, 3, good.data, good.size);
    putc('.', out);
    assert_int_equal(fclose(out), 0);
    assert_not_opened(write_one(inner.data, inner.size, 1), TXL_UNSUPPORTED,
                      "holds an object, expected a storage alone");
    free(inner.data);
    free(good.data);

    static const char number_for_bytes[] = "\x80\x03"
                                           "ctorch.storage\n_load_from_bytes\nK\x05\x85R.";
    assert_not_opened(write_file("a.pkl", number_for_bytes, sizeof number_for_bytes - 1),
                      TXL_FORMAT, "_load_from_bytes with");
}

/* However often it is asked for: else a small file would take hours. */
TEST(a_file_is_read_once) {
    enum { N_ITEM = 1 << 18, N_RECORD = 100000 };
    float *data = calloc(N_ITEM, sizeof *data);
    assert_non_null(data);
    struct file file = storage_file(CHECKPOINT_F32, data, N_ITEM * sizeof *data);
    struct checkpoint *checkpoint = open_or_fail(write_one(file.data, file.size, N_RECORD));
    assert_int_equal(checkpoint_n_tensor(checkpoint), 1);
    checkpoint_close(checkpoint);
    free(file.data);
    free(data);
}

#define BEHIND(text) text, sizeof(text) - 1
/* 2^32 ways lead to one number. */
#define PAIRS_8                                                                                    \
    "2\x86"                                                                                        \
    "2\x86"                                                                                        \
    "2\x86"                                                                                        \
    "2\x86"                                                                                        \
    "2\x86"                                                                                        \
    "2\x86"                                                                                        \
    "2\x86"                                                                                        \
    "2\x86" /* DUP, TUPLE2 */
#define PAIRS PAIRS_8 PAIRS_8 PAIRS_8 PAIRS_8
#define KEY "X\x01\0\0\0k"
#define FIRST "j\xff\0\0\0" /* LONG_BINGET 255 */
/* A tensor that nothing else refers to, in the first one's storage. */
#define FRESH                                                                                      \
    "ctorch._utils\n_rebuild_tensor_v2\n(j\0\0\0\0K\0K\x01\x85K\x01\x85\x89"                       \
    "ccollections\nOrderedDict\n)RtR"

/* The result of an unknown call has neither keys nor attributes.  The tensors beside it are read.
 */
TEST(unknown_calls_hide_no_tensor) {
    static const struct {
        const char *behind;
        size_t size;
        const char *refusal; /* NULL: read */
    } files[] = {
        {BEHIND(KEY "cyaml\nload\nX\x01\0\0\0a\x85R"), NULL},
        {BEHIND(KEY "cyaml\nload\n)R}X\x01\0\0\0aK\x01sb"), NULL},
        {BEHIND(KEY "cyaml\nload\n)R(X\x01\0\0\0aK\x01u"), NULL},
        {BEHIND(KEY "cyaml\nload\n)RK\x01"
                    "a"),
         NULL},
        {BEHIND(KEY "cyaml\nload\n(K\x01" PAIRS "tR"), NULL},
        {BEHIND(KEY "cfunctools\npartial\n)R)R"), NULL}, /* a call of the result */
        /* In a tuple the first tensor has its own name too. */
        {BEHIND(KEY "ca\nb\n" FIRST "\x85\x85R"), NULL},
        {BEHIND(KEY "ca\nb\n" FIRST "\x85R"), "tensor k is given to a call of a.b"},
        {BEHIND(KEY "ca\nb\n" FRESH "\x85R"), "tensor k is given to a call of a.b"},
        {BEHIND(KEY "ca\nb\n" FRESH "\x85\x85R"), "tensor k.0.0 is given to a call of a.b"},
        {BEHIND(KEY "ca\nb\n)R}X\x01\0\0\0t" FRESH "sb"), "tensor k.t is given to a call of a.b"},
        {BEHIND(KEY "ca\nb\n)R(X\x01\0\0\0t" FRESH "u"), "tensor k.t is given to a call of a.b"},
        {BEHIND(KEY "ca\nb\n)R" FRESH "a"), "tensor k.0 is given to a call of a.b"},
        {BEHIND(KEY "ca\nb\n)R" FRESH "\x85R"), "tensor k is given to a call of a.b"},
        {BEHIND(KEY "ca\nb\n)R" FRESH "\x85R\x85"), "tensor k.0 is given to a call of a.b"},
        {BEHIND(KEY "((ca\nb\n" FRESH "\x85Rt\x91"), "tensor k.0.0 is given to a call of a.b"},
        {BEHIND(KEY "ca\nb\ncm\nC\n" FRESH "\x85\x81\x85R"),
         "tensor k.0.0 is given to a call of a.b"},
        {BEHIND(KEY "ca\nb\nj\0\0\0\0\x85R"), "tensor k is given to a call of a.b"}, /* a storage */
        {BEHIND(KEY "ca\nb\nj\0\0\0\0\x85\x85R"), "tensor k.0.0 is given to a call of a.b"},
        {BEHIND(KEY "ctorch._utils\n_rebuild_meta_tensor\n)R"),
         "calls torch._utils._rebuild_meta_tensor, which txl does not know"},
    };
    struct checkpoint *from = open_or_fail(case_path("text8/model.pt"));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = write_state_before(2, from, files[i].behind, files[i].size);
        if (files[i].refusal) {
            assert_not_opened(path, TXL_UNSUPPORTED, files[i].refusal);
            continue;
        }
        struct checkpoint *read = open_or_fail(path);
        assert_int_equal(checkpoint_n_tensor(read), checkpoint_n_tensor(from));
        assert_null(pickle_get(pickle_get(checkpoint_root(read), "k"), "a"));
        assert_null(checkpoint_attribute(pickle_get(checkpoint_root(read), "k"), "a"));
        checkpoint_close(read);
    }
    checkpoint_close(from);
}

int main(void) {
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
