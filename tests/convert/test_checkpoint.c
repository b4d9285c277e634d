/* Checkpoints: the containers, the tensors in them, and damaged or malicious files. */
#include "checkpoint_files.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <sys/resource.h>
#include <zlib.h>

static const struct checkpoint_tensor *find_or_fail(const struct checkpoint *checkpoint,
                                                    const char *name) {
    const struct checkpoint_tensor *tensor = checkpoint_find(checkpoint, name);
    if (!tensor)
        fail_msg("no tensor %s", name);
    return tensor;
}

static double sum_of(const struct checkpoint_tensor *tensor) {
    double *elements = doubles_of(tensor), sum = 0;
    for (uint64_t i = 0; i < tensor->n_element; i++)
        sum += elements[i];
    free(elements);
    return sum;
}

/* ---- The made cases ----------------------------------------------------------------------- */

/* As PyTorch reads them: the entries of state_dict(), the sum of all their elements. */
static const struct {
    const char *name;
    size_t n_tensor;
    double sum;
} made_cases[] = {
    {"absolute-learned", 26, 75.304909007},
    {"absolute-sinusoid", 37, 108.771141948},
    {"characters", 39, 160.475668542},
    {"enwik8-legacy", 28, 67.050246552},
    {"enwik8-zip", 28, 176.123980434},
    {"half-precision", 39, 216.060610056},
    {"hf-bin", 62, 516.409279636},
    {"hf-safetensors", 42, 331.302451733},
    {"hf-sharded", 62, 521.389727484},
    {"learnable-positions", 26, 84.739646203},
    {"lm1b", 53, 135.972542187},
    {"pre-lnorm", 28, 80.892270758},
    {"projected-div1", 35, 255.044178475},
    {"text8", 28, 120.966898713},
    {"untied", 58, 453.666483650},
    {"wt103-legacy", 58, 503.265550675},
    {"wt103-zip", 58, 401.855018771},
};

TEST_EACH(test_cases, made_cases) {
    struct checkpoint *checkpoint = open_or_fail(case_path(row->name));
    double sum = 0;
    assert_int_equal(checkpoint_n_tensor(checkpoint), row->n_tensor);
    for (size_t k = 0; k < row->n_tensor; k++) {
        const struct checkpoint_tensor *tensor = checkpoint_tensor_at(checkpoint, k);
        assert_ptr_equal(checkpoint_find(checkpoint, tensor->name), tensor);
        sum += sum_of(tensor);
        checkpoint_release(tensor);
    }
    if (fabs(sum - row->sum) > 1e-6)
        fail_msg("%s: sum %.9f, expected %.9f", row->name, sum, row->sum);
    checkpoint_close(checkpoint);
}

static const struct {
    const char *opened, *path;
    bool has_root;
} opened_paths[] = {
    {"hf-bin", "hf-bin/pytorch_model.bin", true},
    {"hf-safetensors/", "hf-safetensors/model.safetensors", false},
    {"hf-sharded", "hf-sharded/pytorch_model.bin.index.json", false},
    {"text8", "text8/model.pt", true},
    {"text8/cache.pt", "text8/cache.pt", true},
};

TEST_EACH(test_paths_and_roots, opened_paths) {
    struct checkpoint *checkpoint = open_or_fail(case_path(row->opened));
    assert_string_equal(checkpoint_path(checkpoint), case_path(row->path));
    assert_int_equal(checkpoint_root(checkpoint) != NULL, row->has_root);
    checkpoint_close(checkpoint);
}

static bool same_view(const struct checkpoint *checkpoint, const char *a, const char *b) {
    return checkpoint_same_view(find_or_fail(checkpoint, a), find_or_fail(checkpoint, b));
}

static const struct {
    const char *name, *a, *b;
    bool tied;
} tensor_pairs[] = {
    {"enwik8-zip", "word_emb.emb_layers.0.weight", "crit.out_layers.0.weight", true},
    {"enwik8-zip", "word_emb.emb_layers.0.weight", "crit.out_layers.0.bias", false},
    {"wt103-legacy", "word_emb.emb_projs.1", "crit.out_projs.1", true},
    {"untied", "word_emb.emb_layers.0.weight", "crit.out_layers.0.weight", false},
};

TEST_EACH(test_tied, tensor_pairs) {
    struct checkpoint *checkpoint = open_or_fail(case_file(row->name, "model.pt"));
    assert_int_equal(same_view(checkpoint, row->a, row->b), row->tied);
    checkpoint_close(checkpoint);
}

TEST(test_attributes) {
    struct checkpoint *checkpoint = open_or_fail(case_path("wt103-zip/model.pt"));
    const struct pickle_value *model = checkpoint_root(checkpoint);
    assert_true(pickle_is_object(model, "mem_transformer.MemTransformerLM"));
    assert_int_equal(checkpoint_attribute(model, "tgt_len")->integer, 12);
    const struct pickle_value *crit = checkpoint_attribute(model, "crit");
    assert_true(pickle_is_object(crit, "proj_adaptive_softmax.ProjectedAdaptiveLogSoftmax"));
    assert_int_equal(checkpoint_attribute(crit, "div_val")->kind, PICKLE_INT);
    assert_non_null(checkpoint_attribute(model, "r_w_bias"));
    assert_null(checkpoint_attribute(model, "no_such"));
    assert_null(checkpoint_attribute(NULL, "no_such"));
    checkpoint_close(checkpoint);
}

/* ---- Hand-made archives ------------------------------------------------------------------- */

struct buffer {
    unsigned char at[1 << 16];
    size_t size;
};

static void add(struct buffer *bytes, const void *more, size_t size) {
    assert_true(size <= sizeof bytes->at - bytes->size);
    memcpy(bytes->at + bytes->size, more, size);
    bytes->size += size;
}

/* Numbers of so many bytes each, a digit for each number. */
static void add_numbers(struct buffer *bytes, const char *widths, const uint64_t *numbers) {
    for (; *widths; widths++, numbers++)
        for (int i = 0; i < *widths - '0'; i++)
            add(bytes, &(unsigned char){(unsigned char)(*numbers >> 8 * i)}, 1);
}
#define ADD(bytes, widths, ...) add_numbers(bytes, widths, (const uint64_t[]){__VA_ARGS__})

struct made_entry {
    const char *name;
    const void *data;
    size_t size;
    int method;         /* 0: stored */
    int flags;          /* 1: encrypted */
    bool bare;          /* of ZIP64, without the field that has the sizes */
    uint32_t wrong_crc; /* added to the right one */
};

/* An archive of these entries.  ZIP64 ones have no 32-bit size or offset at all. */
static const char *write_zip(const char *name, const struct made_entry *entries, size_t n,
                             bool zip64) {
    static struct buffer zip, directory;
    zip.size = directory.size = 0;
    for (size_t i = 0; i < n; i++) {
        const struct made_entry *entry = &entries[i];
        uint32_t crc = (uint32_t)crc32(0, entry->data, (uInt)entry->size) + entry->wrong_crc;
        uint64_t header = zip.size, size = zip64 ? UINT32_MAX : entry->size;
        uint64_t name_length = strlen(entry->name);
        uint64_t extra = !zip64 ? 0 : entry->bare ? 6 : 34;

        ADD(&zip, "4222444422", 0x04034b50, 45, (uint64_t)entry->flags, (uint64_t)entry->method, 0,
            crc, size, size, name_length, 3);
        add(&zip, entry->name, name_length);
        add(&zip, "pad", 3);
        add(&zip, entry->data, entry->size);

        ADD(&directory, "4422444422824", 0x02014b50, 45 | 45 << 16, (uint64_t)entry->flags,
            (uint64_t)entry->method, 0, crc, size, size, name_length, extra, 0, 0,
            zip64 ? UINT32_MAX : header);
        add(&directory, entry->name, name_length);
        if (zip64) /* behind a field that is to be skipped */
            ADD(&directory, "222", 0x5455, 2, 0);
        if (zip64 && !entry->bare)
            ADD(&directory, "22888", 1, 24, entry->size, entry->size, header);
    }
    uint64_t start = zip.size, end;
    add(&zip, directory.at, directory.size);
    end = zip.size;
    if (zip64) {
        ADD(&zip, "484888884484", 0x06064b50, 44, 45 | 45 << 16, 0, n, n, directory.size, start,
            0x07064b50, 0, end, 1);
    }
    ADD(&zip, "4422442", 0x06054b50, 0, zip64 ? UINT16_MAX : n, zip64 ? UINT16_MAX : n,
        zip64 ? UINT32_MAX : directory.size, zip64 ? UINT32_MAX : start, 0);
    return write_file(name, zip.at, zip.size);
}

/* A protocol 0 pickle of one tensor; shape and strides are of the form "I2\nI3\n". */
static const char *tensor_pickle(const char *storage, const char *n_item, const char *offset,
                                 const char *shape, const char *stride) {
    static char text[1024];
    snprintf(text, sizeof text,
             "ctorch._utils\n_rebuild_tensor_v2\n((Vstorage\nctorch\n%s\nV0\nVcpu\nI%s\ntQI%s\n"
             "(%st(%stI00\nccollections\nOrderedDict\n)RtR.",
             storage, n_item, offset, shape, stride);
    return text;
}

static const char *write_tensor(const char *pickle, const void *data, size_t size) {
    const struct made_entry entries[] = {
        {.name = "m/data.pkl", .data = pickle, .size = strlen(pickle)},
        {.name = "m/data/0", .data = data, .size = size}};
    return write_zip("tensor.pt", entries, 2, false);
}

static const float twelve[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

static void assert_tensor_refused(const char *pickle, txl_status status, const char *message) {
    assert_not_opened(write_tensor(pickle, twelve, sizeof twelve), status, message);
}

static void assert_elements(const char *shape, const char *stride, const char *offset,
                            const double *expected, size_t n) {
    const char *pickle = tensor_pickle("FloatStorage", "12", offset, shape, stride);
    struct checkpoint *checkpoint = open_or_fail(write_tensor(pickle, twelve, sizeof twelve));
    const struct checkpoint_tensor *tensor = find_or_fail(checkpoint, ".");
    assert_int_equal(tensor->n_element, n);
    double *elements = doubles_of(tensor);
    for (size_t i = 0; i < n; i++)
        assert_true(elements[i] == expected[i]);
    free(elements);
    /* Every range, in the other type. */
    for (size_t first = 0; first <= n; first++) {
        for (size_t count = 0; first + count <= n; count++) {
            float some[16];
            txl_error error;
            assert_int_equal(checkpoint_read_float(tensor, first, count, some, &error), TXL_OK);
            for (size_t i = 0; i < count; i++)
                assert_true(some[i] == (float)expected[first + i]);
        }
    }
    txl_error error;
    double none;
    assert_int_equal(checkpoint_read_double(tensor, n, 1, &none, &error), TXL_ARGUMENT);
    assert_int_equal(checkpoint_read_double(tensor, 1, UINT64_MAX, &none, &error), TXL_ARGUMENT);
    checkpoint_close(checkpoint);
}

TEST(test_views) {
    assert_elements("I3\nI2\n", "I2\nI1\n", "1", (double[]){1, 2, 3, 4, 5, 6}, 6);
    assert_elements("I2\nI3\n", "I1\nI4\n", "2", (double[]){2, 6, 10, 3, 7, 11}, 6);
    assert_elements("I2\nI2\n", "I0\nI5\n", "6", (double[]){6, 11, 6, 11}, 4);
    assert_elements("I2\nI1\nI2\n", "I6\nI99\nI3\n", "0", (double[]){0, 3, 6, 9}, 4);
    assert_elements("", "", "11", (double[]){11}, 1);
    assert_elements("I0\nI5\n", "I5\nI1\n", "99", NULL, 0);
    assert_elements("I1\nI1\nI1\nI1\nI1\nI1\nI1\nI2\n", "I9\nI9\nI9\nI9\nI9\nI9\nI9\nI3\n", "0",
                    (double[]){0, 3}, 2);
}

/* A tensor larger than what is gathered at a time. */
TEST(test_large_view) {
    enum { N = 60 };
    static float square[N * N];
    for (int i = 0; i < N * N; i++)
        square[i] = (float)i;
    const char *pickle = tensor_pickle("FloatStorage", "3600", "0", "I60\nI60\n", "I1\nI60\n");
    struct checkpoint *checkpoint = open_or_fail(write_tensor(pickle, square, sizeof square));
    const struct checkpoint_tensor *tensor = find_or_fail(checkpoint, ".");
    assert_false(checkpoint_is_contiguous(tensor));
    double *elements = doubles_of(tensor);
    for (int i = 0; i < N * N; i++)
        assert_true(elements[i] == i % N * N + i / N);
    free(elements);
    checkpoint_close(checkpoint);
}

static const struct {
    const char *n_item, *offset, *shape, *stride;
    txl_status status;
    const char *message;
} wrong_tensors[] = {
    {"12", "0", "I13\n", "I1\n", TXL_FORMAT, "tensor .: reaches beyond its storage of 12"},
    {"12", "1", "I3\nI4\n", "I4\nI1\n", TXL_FORMAT, "reaches beyond its storage"},
    {"12", "12", "", "", TXL_FORMAT, "reaches beyond its storage"},
    {"12", "0", "I3\n", "I9223372036854775807\n", TXL_FORMAT, "reaches beyond its storage"},
    {"12", "0", "I4\n", "I9223372036854775807\n", TXL_FORMAT, "reaches beyond its storage"},
    {"12", "9223372036854775807", "I2\n", "I9223372036854775807\n", TXL_FORMAT,
     "reaches beyond its storage"},
    {"12", "0", "I4294967296\nI4294967296\n", "I0\nI0\n", TXL_FORMAT, "more elements than"},
    {"12", "0", "I9223372036854775807\n", "I0\n", TXL_FORMAT, "more elements than"},
    {"12", "0", "I1000\n", "I0\n", TXL_FORMAT, "more elements than"},
    {"12", "0", "I2\n", "I-1\n", TXL_UNSUPPORTED, "negative stride"},
    {"12", "0", "I-2\n", "I1\n", TXL_FORMAT, "not made of numbers"},
    {"12", "0", "Va\n", "I1\n", TXL_FORMAT, "not made of numbers"},
    {"12", "0", "I2\n", "", TXL_FORMAT, "expected a shape and as many strides"},
    {"12", "-1", "I2\n", "I1\n", TXL_FORMAT, "expected an offset"},
    {"12", "0", "I1\nI1\nI1\nI1\nI1\nI1\nI1\nI1\nI1\n", "I1\nI1\nI1\nI1\nI1\nI1\nI1\nI1\nI1\n",
     TXL_UNSUPPORTED, "more dimensions than 8"},
    {"13", "0", "I12\n", "I1\n", TXL_FORMAT, "entry m/data/0 has 48 bytes, expected 52"},
    {"4611686018427387904", "0", "I12\n", "I1\n", TXL_FORMAT, "more than the file has room"},
    {"-1", "0", "I12\n", "I1\n", TXL_FORMAT, "in a way that torch.save does not"},
};

TEST_EACH(test_tensors_refused, wrong_tensors) {
    const char *pickle =
        tensor_pickle("FloatStorage", row->n_item, row->offset, row->shape, row->stride);
    assert_tensor_refused(pickle, row->status, row->message);
}

TEST(test_quantised_tensors_are_refused) {
    assert_not_opened(write_tensor(tensor_pickle("QInt8Storage", "1", "0", "", ""), twelve, 4),
                      TXL_UNSUPPORTED, "torch.QInt8Storage");
}

static const struct {
    const char *storage, *dtype;
    unsigned char bytes[16];
    size_t size;
    double value;
} types[] = {
    {"FloatStorage", "float32", {0, 0, 0x20, 0xc0}, 4, -2.5},
    {"HalfStorage", "float16", {0, 0xc1}, 2, -2.5},
    {"HalfStorage", "float16", {1, 0}, 2, 0x1p-24},
    {"BFloat16Storage", "bfloat16", {0x20, 0xc0}, 2, -2.5},
    {"DoubleStorage", "float64", {0, 0, 0, 0, 0, 0, 4, 0xc0}, 8, -2.5},
    {"CharStorage", "int8", {0xff}, 1, -1},
    {"ShortStorage", "int16", {0xfe, 0xff}, 2, -2},
    {"IntStorage", "int32", {0xfd, 0xff, 0xff, 0xff}, 4, -3},
    {"LongStorage", "int64", {0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 8, -4},
    {"ByteStorage", "uint8", {0xff}, 1, 255},
    {"BoolStorage", "bool", {1}, 1, 1},
    {"UntypedStorage", "uint8", {7}, 1, 7},
};

TEST_EACH(test_dtypes, types) {
    const char *pickle = tensor_pickle(row->storage, "1", "0", "", "");
    struct checkpoint *checkpoint = open_or_fail(write_tensor(pickle, row->bytes, row->size));
    const struct checkpoint_tensor *tensor = find_or_fail(checkpoint, ".");
    assert_string_equal(checkpoint_dtype_name(tensor->dtype), row->dtype);
    assert_int_equal(checkpoint_dtype_size(tensor->dtype), row->size);
    txl_error error;
    float x;
    double y;
    assert_int_equal(checkpoint_read_float(tensor, 0, 1, &x, &error), TXL_OK);
    assert_int_equal(checkpoint_read_double(tensor, 0, 1, &y, &error), TXL_OK);
    assert_true(x == (float)row->value);
    assert_true(y == row->value);
    checkpoint_close(checkpoint);
}

TEST(test_complex_tensors_are_listed) {
    /* Listed, but not read. */
    struct checkpoint *checkpoint = open_or_fail(
        write_tensor(tensor_pickle("ComplexFloatStorage", "1", "0", "", ""), twelve, 8));
    const struct checkpoint_tensor *tensor = find_or_fail(checkpoint, ".");
    assert_string_equal(checkpoint_dtype_name(tensor->dtype), "complex64");
    txl_error error;
    float x;
    assert_int_equal(checkpoint_read_float(tensor, 0, 1, &x, &error), TXL_UNSUPPORTED);
    assert_says(&error, "complex64");
    checkpoint_close(checkpoint);
}

/* The newest way to write a tensor: untyped bytes, here 16, and the dtype beside them. */
#define UNTYPED(offset, length, dtype)                                                             \
    "ctorch._utils\n_rebuild_tensor_v3\n((Vstorage\nctorch.storage\nUntypedStorage\nV0\nVcpu\n"    \
    "I16\ntQI" offset "\n(I" length "\nt(I1\ntI00\nccollections\nOrderedDict\n)R" dtype "tR."

static const unsigned char untyped[16] = {1, 0, 0xff, 0xff, 3, 1};

static const struct {
    const char *pickle, *dtype;
    double first;
} untyped_tensors[] = {
    {UNTYPED("1", "2", "ctorch\nuint16\n"), "uint16", 0xffff},
    {UNTYPED("0", "4", "ctorch\nuint32\n"), "uint32", 0xffff0001},
    {UNTYPED("0", "2", "ctorch\nuint64\n"), "uint64", 0x0103ffff0001},
};

TEST_EACH(test_untyped_storage, untyped_tensors) {
    struct checkpoint *checkpoint =
        open_or_fail(write_tensor(row->pickle, untyped, sizeof untyped));
    const struct checkpoint_tensor *tensor = find_or_fail(checkpoint, ".");
    assert_string_equal(checkpoint_dtype_name(tensor->dtype), row->dtype);
    double *elements = doubles_of(tensor);
    assert_true(elements[0] == row->first);
    free(elements);
    checkpoint_close(checkpoint);
}

TEST(test_untyped_storage_refused) {
    assert_not_opened(write_tensor(UNTYPED("0", "3", "ctorch\nuint64\n"), untyped, sizeof untyped),
                      TXL_FORMAT, "reaches beyond its storage of 2 elements");
    assert_not_opened(write_tensor(UNTYPED("0", "1", "Vuint64\n"), untyped, sizeof untyped),
                      TXL_FORMAT, "expected a dtype");
    assert_not_opened(write_tensor(UNTYPED("0", "1", "ctorch\nquint4\n"), untyped, sizeof untyped),
                      TXL_UNSUPPORTED, "its dtype is not known");
}

static void assert_names(const char *pickle, const char *const *names, size_t n) {
    struct checkpoint *checkpoint = open_or_fail(write_tensor(pickle, twelve, sizeof twelve));
    assert_int_equal(checkpoint_n_tensor(checkpoint), n);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(checkpoint_tensor_at(checkpoint, i)->name, names[i]);
    checkpoint_close(checkpoint);
}

TEST(test_names) {
#define T(memo)                                                                                    \
    "ctorch._utils\n_rebuild_tensor\n((Vstorage\nctorch\nFloatStorage\nV0\nVcpu\n"                 \
    "I12\ntQI0\n(I12\nt(I1\nttRp" memo "\n"
    static const char pickle[] =
        "(dp0\n"
        "Va\n(d"
        "I-3\n" T("1") "s"
                       "s" /* a.-3 */
                       "Vlist\n(lI1\na" T(
                           "2") "a"
                                "s" /* list.1: an index counts what is no tensor */
                                "Vobject\ncm\nM\n)\x81(dV_modules\n(dVx\ncm\nN\n)\x81(dV_"
                                "parameters\n(dVw\ng1\nss"
                                "bss"
                                "bs"
                                "Vplain\n(dV_parameters\n(dVw\ng1\nsss" /* not a module: nothing is
                                                                           left out */
                                ".";
    static const char *const names[] = {"a.-3", "list.1", "object.x.w", "plain._parameters.w"};
    assert_names(pickle, names, sizeof names / sizeof *names);
    struct checkpoint *checkpoint = open_or_fail(write_tensor(pickle, twelve, sizeof twelve));
    assert_true(same_view(checkpoint, "a.-3", "object.x.w"));
    assert_null(checkpoint_find(checkpoint, "a"));
    checkpoint_close(checkpoint);

    static const char twice[] = "(dVa.b\n" T("1") "sVa\n(dVb\ng1\nss.";
    assert_tensor_refused(twice, TXL_FORMAT, "two tensors are named a.b");

    /* Python has None there. */
    static const char replaced[] = "(dVa\n" T("1") "sVa\nNs.";
    assert_tensor_refused(replaced, TXL_FORMAT,
                          "tensor.pt: m/data.pkl: a dict has the key \"a\" twice");

    /* Tensors in an object with __slots__, or of a class derived from list or dict. */
    static const char object[] = "cm\nC\n)\x81(N(dVslot\n" T("1") "stb"
                                                                  "g1\na"
                                                                  "Vkey\n(lg1\nas.";
    static const char *const parts[] = {"slot", "0", "key.0"};
    assert_names(object, parts, sizeof parts / sizeof *parts);

    char name[600], longer[1024];
    memset(name, 'n', sizeof name);
    snprintf(longer, sizeof longer, "(dV%.513s\n" T("1") "s.", name);
    assert_tensor_refused(longer, TXL_UNSUPPORTED, "its name is too long");
    snprintf(longer, sizeof longer, "(dV%.512s\n" T("1") "s.", name);
    checkpoint = open_or_fail(write_tensor(longer, twelve, sizeof twelve));
    assert_int_equal(strlen(checkpoint_tensor_at(checkpoint, 0)->name), 512);
    checkpoint_close(checkpoint);
#undef T
    assert_tensor_refused("ctorch._utils\n_rebuild_tensor_v2\n(NI0\n(t(tI00\n}tR.", TXL_FORMAT,
                          "expected a storage");
}

TEST(test_archives) {
    const char *pickle = tensor_pickle("FloatStorage", "12", "0", "I12\n", "I1\n");
#define PICKLE .name = "m/data.pkl", .data = pickle, .size = strlen(pickle)
#define STORAGE .name = "m/data/0", .data = twelve, .size = sizeof twelve
    const struct {
        const char *message;
        txl_status status;            /* of opening */
        struct made_entry entries[3]; /* up to one without a name */
        bool zip64;
    } archives[] = {
        {NULL, TXL_OK, {{PICKLE}, {STORAGE}, {"m/byteorder", "little", 6}}, true},
        {"the entry needs a ZIP64 field and has none",
         TXL_FORMAT,
         {{PICKLE}, {STORAGE}, {"m/byteorder", "little", 6, .bare = true}},
         true},
        {NULL, TXL_OK, {{"m/extra/data.pkl", "N.", 2}, {PICKLE}, {STORAGE}}},
        {"not little-endian", TXL_UNSUPPORTED, {{PICKLE}, {STORAGE}, {"m/byteorder", "big", 3}}},
        {"a TorchScript archive, not a torch.save file",
         TXL_UNSUPPORTED,
         {{PICKLE}, {STORAGE}, {"m/code/__torch__.py", "", 0}}},
        {"has no entry m/data/0", TXL_FORMAT, {{PICKLE}}},
        {"without data.pkl", TXL_UNSUPPORTED, {{STORAGE}}},
        {"two entries are named m/data/0", TXL_FORMAT, {{PICKLE}, {STORAGE}, {STORAGE}}},
        {"entry m/data/0 is compressed", TXL_UNSUPPORTED, {{PICKLE}, {STORAGE, .method = 8}}},
        {"entry m/data/0 is encrypted", TXL_UNSUPPORTED, {{PICKLE}, {STORAGE, .flags = 1}}},
        {"m/data.pkl: the checksum does not match",
         TXL_FORMAT,
         {{PICKLE, .wrong_crc = 1}, {STORAGE}}},
        /* Altered weights are detected when they are read. */
        {"entry data/0: its checksum is", TXL_OK, {{PICKLE}, {STORAGE, .wrong_crc = 1}}},
    };
#undef PICKLE
#undef STORAGE
    for (size_t i = 0; i < sizeof archives / sizeof *archives; i++) {
        size_t n = 0;
        while (n < 3 && archives[i].entries[n].name)
            n++;
        const char *path = write_zip("archive.pt", archives[i].entries, n, archives[i].zip64);
        if (archives[i].status) {
            assert_not_opened(path, archives[i].status, archives[i].message);
            continue;
        }
        struct checkpoint *checkpoint = open_or_fail(path);
        const struct checkpoint_tensor *tensor = find_or_fail(checkpoint, ".");
        txl_error error;
        float x;
        if (!archives[i].message) {
            assert_true(sum_of(tensor) == 66);
        } else {
            assert_int_equal(checkpoint_read_float(tensor, 0, 1, &x, &error), TXL_FORMAT);
            assert_says(&error, archives[i].message);
        }
        checkpoint_close(checkpoint);
    }
}

TEST(test_shrunk_file) {
    const char *pickle = tensor_pickle("FloatStorage", "12", "0", "I12\n", "I1\n");
    const char *path = write_tensor(pickle, twelve, sizeof twelve);
    struct checkpoint *checkpoint = open_or_fail(path);
    assert_int_equal(truncate(path, 10), 0);
    txl_error error;
    float x;
    assert_int_equal(checkpoint_read_float(find_or_fail(checkpoint, "."), 0, 1, &x, &error),
                     TXL_IO);
    assert_says(&error, "shrank from");
    checkpoint_close(checkpoint);
}

/* ---- The legacy container ----------------------------------------------------------------- */

#define LEGACY_MAGIC "\x80\2\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19."

static const char *write_legacy(const char *protocol, const char *facts, const char *object,
                                const char *keys, uint64_t n_item) {
    static struct buffer file;
    file.size = 0;
    add(&file, LEGACY_MAGIC, sizeof LEGACY_MAGIC - 1);
    add(&file, protocol, strlen(protocol));
    add(&file, facts, strlen(facts));
    add(&file, object, strlen(object));
    add(&file, keys, strlen(keys));
    ADD(&file, "8", n_item);
    add(&file, twelve, sizeof twelve);
    return write_file("legacy.pt", file.at, file.size);
}

/* A tensor whose storage is items [first, first + count) of the one in the file. */
#define VIEW(module, first, count, offset, length)                                                 \
    "ctorch._utils\n_rebuild_tensor\n((Vstorage\n" module "\nFloatStorage\nV0\nVcpu\nI12\n"        \
    "(Vview\nI" first "\nI" count "\nttQI" offset "\n(I" length "\nt(I1\nttR."

static const char legacy_object[] = VIEW("ctorch.cuda", "2", "8", "1", "3");
static const char version[] = "I1001\n.", little[] = "(dVlittle_endian\nI01\ns.",
                  keys[] = "(lV0\na.";
static const char twofold[] =
    "(ctorch._utils\n_rebuild_tensor\n((Vstorage\nctorch\nFloatStorage\nV0\nVcpu\nI12\ntQ"
    "I0\n(I8\nt(I1\nttR(Vstorage\nctorch\nFloatStorage\nV0\nVcpu\nI11\ntQl.";

TEST(test_legacy) {
    struct checkpoint *checkpoint =
        open_or_fail(write_legacy(version, little, legacy_object, keys, 12));
    assert_true(sum_of(find_or_fail(checkpoint, ".")) == 3 + 4 + 5);
    checkpoint_close(checkpoint);
}

static const struct {
    const char *version, *facts, *object, *keys;
    uint64_t n_item;
    txl_status status;
    const char *message;
} legacy_files[] = {
    {version, little, VIEW("ctorch", "2", "8", "1", "8"), keys, 12, TXL_FORMAT,
     "reaches beyond its storage of 8 elements"},
    {version, little, twofold, keys, 12, TXL_FORMAT, "storage 0 has two sizes"},
    {version, little, VIEW("ctorch", "5", "8", "0", "1"), keys, 12, TXL_FORMAT,
     "in a way that torch.save does not"},
    {"I1000\n.", little, legacy_object, keys, 12, TXL_UNSUPPORTED, "expected version 1001"},
    {version, "(dVlittle_endian\nI00\ns.", legacy_object, keys, 12, TXL_UNSUPPORTED,
     "not little-endian"},
    {version, little, legacy_object, "(lV1\na.", 12, TXL_FORMAT,
     "names one that no tensor refers to"},
    {version, little, legacy_object, "(lV0\naV0\na.", 12, TXL_FORMAT, "or one twice"},
    {version, little, legacy_object, "(l.", 12, TXL_FORMAT, "storage 0 is not in the file"},
    {version, little, legacy_object, "I7\n.", 12, TXL_FORMAT, "expected a list of storages"},
    {version, little, legacy_object, keys, 11, TXL_FORMAT,
     "storage 0 has 11 elements, expected 12"},
};

TEST_EACH(test_legacy_refused, legacy_files) {
    assert_not_opened(write_legacy(row->version, row->facts, row->object, row->keys, row->n_item),
                      row->status, row->message);
}

/* ---- safetensors -------------------------------------------------------------------------- */

static const char *write_header(const char *header, size_t n_data) {
    static const unsigned char data[256];
    return write_safetensors("model.safetensors", header, data, n_data);
}

#define TENSOR(dtype, shape, offsets)                                                              \
    "{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" offsets "]}"
static const struct {
    const char *header;
    size_t n_data;
    txl_status status;
    const char *message;
} wrong_headers[] = {
    {"{\"a\":" TENSOR("F32", "1", "0,4") "}", 3, TXL_FORMAT, "not within the file"},
    {"{\"a\":" TENSOR("F32", "1", "0,4") "}", 5, TXL_FORMAT, "the tensors end at byte 4"},
    {"{\"a\":" TENSOR("F32", "1", "4,8") "}", 8, TXL_FORMAT, "hole at byte 0"},
    {"{\"a\":" TENSOR("F32", "2", "0,4") "}", 8, TXL_FORMAT, "do not fit its shape"},
    {"{\"a\":" TENSOR("F32", "1", "4,0") "}", 8, TXL_FORMAT, "not within the file"},
    {"{\"a\":" TENSOR("F32", "1", "-4,0") "}", 8, TXL_FORMAT, "not within the file"},
    {"{\"a\":" TENSOR("F32", "1", "0") "}", 8, TXL_FORMAT, "not within the file"},
    {"{\"a\":" TENSOR("F32", "-1", "0,4") "}", 8, TXL_FORMAT, "not made of numbers"},
    {"{\"a\":" TENSOR("F32", "1e9", "0,4") "}", 8, TXL_FORMAT, "not made of numbers"},
    {"{\"a\":" TENSOR("F32", "4294967296,4294967296", "0,0") "}", 0, TXL_FORMAT,
     "do not fit its shape"},
    {"{\"a\":" TENSOR("F32", "4611686018427387904", "0,0") "}", 0, TXL_FORMAT,
     "do not fit its shape"},
    {"{\"a\":" TENSOR("F4", "1", "0,4") "}", 4, TXL_UNSUPPORTED, "dtype F4 is not known"},
    {"{\"a\":" TENSOR("U8", "1,1,1,1,1,1,1,1,1", "0,1") "}", 1, TXL_UNSUPPORTED,
     "more dimensions than 8"},
    {"{\"a\":" TENSOR("U8", "2", "0,2") ",\"b\":" TENSOR("U8", "2", "1,3") "}", 3, TXL_FORMAT,
     "overlap"},
    {"{\"a\":" TENSOR("U8", "1", "0,1") ",\"a\":" TENSOR("U8", "1", "1,2") "}", 2, TXL_FORMAT,
     "duplicate object key"},
    {"{\"a\":[]}", 0, TXL_FORMAT, "tensor a: expected a dtype"},
    {"{\"a\":{\"dtype\":\"U8\"}}", 0, TXL_FORMAT, "tensor a: expected a shape"},
    {"{", 0, TXL_FORMAT, "the header is not JSON"},
    {"{]", 0, TXL_FORMAT, "the header is not JSON"},
};
#undef TENSOR

TEST_EACH(test_safetensors_refused, wrong_headers) {
    assert_not_opened(write_header(row->header, row->n_data), row->status, row->message);
}

TEST(test_safetensors) {
    static const char good[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                               "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,0],\"data_offsets\":[4,4]},"
                               "\"c\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[4,6]},"
                               "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}";
    struct checkpoint *checkpoint = open_or_fail(write_header(good, 6));
    assert_int_equal(checkpoint_n_tensor(checkpoint), 3);
    assert_int_equal(find_or_fail(checkpoint, "a")->n_dim, 0);
    assert_int_equal(find_or_fail(checkpoint, "b")->n_element, 0);
    assert_string_equal(checkpoint_dtype_name(find_or_fail(checkpoint, "c")->dtype),
                        "float8_e4m3fn");
    checkpoint_close(checkpoint);

    static const char huge[] = "\xff\xff\xff\xff\xff\xff\xff\xff{}";
    assert_not_opened(write_file("huge.safetensors", huge, sizeof huge - 1), TXL_FORMAT,
                      "a safetensors header of 18446744073709551615 bytes");
}

/* ---- Shards, directories, other files ----------------------------------------------------- */

static const struct {
    const char *index;
    txl_status status;
    const char *message;
} wrong_indexes[] = {
    {"{\"weight_map\":{\"a\":\"../x\"}}", TXL_FORMAT, "names the file \"../x\""},
    {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", TXL_FORMAT, "in the same folder"},
    {"{\"weight_map\":{\"a\":\"..\"}}", TXL_FORMAT, "in the same folder"},
    {"{\"weight_map\":{\"a\":\"\"}}", TXL_FORMAT, "in the same folder"},
    {"{\"weight_map\":{\"a\":1}}", TXL_FORMAT, "tensor a: expected a file name"},
    {"{\"weight_map\":{\"a\":\"missing\"}}", TXL_IO, "No such file"},
    {"{\"weight_map\":{\"a\":\"model.safetensors\",\"b\":\"model.safetensors\"}}", TXL_FORMAT,
     "tensor b is in none of the shards"},
    {"{\"weight_map\":{}}", TXL_FORMAT, "with a weight_map"},
    {"[]", TXL_FORMAT, "with a weight_map"},
    {"{", TXL_FORMAT, "not JSON"},
};

TEST_EACH(test_shards_refused, wrong_indexes) {
    write_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
    assert_not_opened(write_file("model.safetensors.index.json", row->index, strlen(row->index)),
                      row->status, row->message);
}

TEST(test_shards) {
    static const char good[] = "{\"weight_map\":{\"a\":\"model.safetensors\"}}";
    struct checkpoint *checkpoint = open_or_fail(write_file("x.index.json", good, sizeof good - 1));
    assert_int_equal(checkpoint_n_tensor(checkpoint), 1);
    checkpoint_close(checkpoint);
}

TEST(test_many_shards) {
    enum { TOO_MANY = 513 };
    static char index[64 * TOO_MANY];
    size_t length = (size_t)sprintf(index, "{\"weight_map\":{");
    for (int i = 0; i < TOO_MANY; i++) {
        static const char header[] =
            "{\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
        char name[32], tensor[128];
        snprintf(tensor, sizeof tensor, header, i);
        snprintf(name, sizeof name, "shard%d", i);
        write_safetensors(name, tensor, "", 1);
        length += (size_t)sprintf(index + length, "%s\"t%d\":\"%s\"", i ? "," : "", i, name);
    }
    length += (size_t)sprintf(index + length, "}}");
    assert_not_opened(write_file("many.index.json", index, length), TXL_UNSUPPORTED,
                      "more than 512 shards");
}

static const struct {
    const char *name, *content;
    const char *message;
} other_files[] = {
    {"a.bin", "version https://git-lfs.github.com/spec/v1\n", "a git-LFS pointer"},
    {"b.bin", "<!DOCTYPE html>", "a web page"},
    {"c.bin", "<HTML>", "a web page"},
    {"checkpoint", "model_checkpoint_path: \"model.ckpt-0\"\n", "a TensorFlow checkpoint"},
    {"model.ckpt-0.data-00000-of-00001", "x", "a TensorFlow checkpoint"},
    {"model.ckpt-0.meta", "x", "a TensorFlow checkpoint"},
    {"tf.index", "....\x57\xfb\x80\x8b\x24\x75\x47\xdb", "a TensorFlow checkpoint"},
    {"tf_model.h5", "\x89HDF\r\n\x1a\n", "weights for TensorFlow or Flax"},
    {"flax_model.msgpack", "x", "weights for TensorFlow or Flax"},
    {"model.gz", "\x1f\x8b\x08", "packed with gzip"},
    {"model.gguf", "GGUF", "a GGUF file"},
    {"model.txl", "\x93TXL\r\n\x1a\n", "a weights file of txl, converted already"},
    {"text.memory", "\x93TXM\r\n\x1a\n", "a memory that txl saved"},
    {"text.txz", "\x93TXZ\r\n\x1a\n", "a text that txl compress made"},
    {"text.txe", "\x93TXE\r\n\x1a\n", "a text that txl compress made"},
    {"notes.txt", "hello",
     "nor a checkpoint (torch.save, safetensors); it begins with the "
     "bytes 68 65"},
};

TEST_EACH(test_other_files, other_files) {
    assert_not_opened(write_file(row->name, row->content, strlen(row->content)), TXL_UNSUPPORTED,
                      row->message);
}

TEST(test_no_files) {
    unsigned char tar[512] = "pickle";
    memcpy(tar + 257, "ustar", 5);
    assert_not_opened(write_file("old.pt", tar, sizeof tar), TXL_UNSUPPORTED, "a tar archive");
    assert_not_opened(write_file("empty.pt", "", 0), TXL_FORMAT, "the file is empty");
    assert_not_opened(scratch_path("missing.pt"), TXL_IO, "No such file");
    assert_not_opened("/dev/null", TXL_IO, "not a regular file");
}

TEST(test_directories) {
    const char *folder = scratch_path("tf");
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_not_opened(folder, TXL_IO, "holds no checkpoint; expected one of model.safetensors");
    write_file("tf/model.ckpt.index", "x", 1);
    assert_not_opened(folder, TXL_UNSUPPORTED, "a TensorFlow checkpoint");

    struct rlimit limit, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){.rlim_max = limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_not_opened(folder, TXL_IO, "tf: Too many open files");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* ---- Damage ------------------------------------------------------------------------------- */

static void open_and_read(const char *path) {
    struct checkpoint *checkpoint;
    txl_error error = {0};
    if (checkpoint_open(path, &checkpoint, &error)) {
        assert_int_not_equal(error.message[0], '\0');
        return;
    }
    for (size_t i = 0; i < checkpoint_n_tensor(checkpoint); i++) {
        const struct checkpoint_tensor *tensor = checkpoint_tensor_at(checkpoint, i);
        float x[64];
        for (uint64_t first = 0; first < tensor->n_element; first += 64) {
            uint64_t left = tensor->n_element - first;
            if (checkpoint_read_float(tensor, first, left < 64 ? left : 64, x, &error))
                break;
        }
    }
    checkpoint_close(checkpoint);
}

/* The objects of a zip take some kilobytes at its start, those of a legacy file more. */
static const struct {
    const char *path;
    size_t size_altered;
} damaged_files[] = {
    {"enwik8-zip/model.pt", 12000},
    {"enwik8-legacy/model.pt", 40000},
    {"half-precision/model.pt", 30000},
    {"hf-safetensors/model.safetensors", 5000},
};

TEST_EACH(test_damage, damaged_files) {
    abuse_file(case_path(row->path), "damaged", row->size_altered, 400, open_and_read);
}

TEST(test_damaged_shards) {
    abuse_file(case_path("hf-sharded/pytorch_model.bin.index.json"), "damaged.index.json", 5000,
               400, open_and_read);
}

/* ---- Files of other projects -------------------------------------------------------------- */

static void compare_tensor(const char *file, const char *name, const json_t *expected,
                           const struct checkpoint_tensor *tensor) {
    if (!tensor)
        fail_msg("%s: no tensor %s", file, name);
    assert_string_equal(checkpoint_dtype_name(tensor->dtype),
                        json_string_value(json_object_get(expected, "dtype")));
    const json_t *shape = json_object_get(expected, "shape");
    assert_int_equal(tensor->n_dim, json_array_size(shape));
    for (int i = 0; i < tensor->n_dim; i++)
        assert_int_equal(tensor->shape[i], json_integer_value(json_array_get(shape, (size_t)i)));
    const json_t *first = json_object_get(expected, "first");
    double *elements = doubles_of(tensor);
    for (size_t i = 0; i < json_array_size(first); i++)
        assert_true(elements[i] == json_number_value(json_array_get(first, i)));
    free(elements);
    double sum = json_number_value(json_object_get(expected, "sum"));
    if (fabs(sum_of(tensor) - sum) > 1e-9 * fmax(1, fabs(sum)))
        fail_msg("%s: %s: sum %.17g, expected %.17g", file, name, sum_of(tensor), sum);
}

static void compare_file(const char *folder, const char *name, json_t *expected) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const char *refusal = json_string_value(json_object_get(expected, "error"));
    if (refusal) {
        assert_not_opened(path, TXL_UNSUPPORTED, refusal);
        return;
    }
    struct checkpoint *checkpoint = open_or_fail(path);
    assert_int_equal(checkpoint_n_tensor(checkpoint), json_object_size(expected));
    for (void *at = json_object_iter(expected); at; at = json_object_iter_next(expected, at)) {
        const char *tensor = json_object_iter_key(at);
        compare_tensor(name, tensor, json_object_iter_value(at),
                       checkpoint_find(checkpoint, tensor));
    }
    checkpoint_close(checkpoint);
    abuse_file(path, "other-project", 3000, 200, open_and_read);
}

/* Genuine files.  tensors.json has the tensors that PyTorch reads from them. */
TEST(test_torch_files) {
    const char *folder = getenv("TXL_TORCH_FILES");
    if (!folder)
        skip();
    char path[4096];
    snprintf(path, sizeof path, "%s/tensors.json", folder);
    json_error_t about;
    json_t *files = json_load_file(path, 0, &about);
    if (!files)
        fail_msg("%s: line %d: %s", path, about.line, about.text);
    assert_true(json_object_size(files) > 0);
    for (void *at = json_object_iter(files); at; at = json_object_iter_next(files, at))
        compare_file(folder, json_object_iter_key(at), json_object_iter_value(at));
    json_decref(files);
}

int main(void) {
    return cmocka_run_group_tests_name("checkpoint", tests, make_scratch, remove_scratch);
}
