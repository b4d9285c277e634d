/* TensorFlow checkpoints: the index, its entries, the data files; bundles with one fault each. */
#include "checkpoint_files.h"

#include "convert/containers/sorted_table.h"
#include "tests/bundle_table.h"

#include <glob.h>

/* ---- Checksums ---------------------------------------------------------------------------- */

/* The values of RFC 3720, B.4. */
TEST(test_crc32c) {
    unsigned char bytes[32] = {0};
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32c(0, bytes, 32), 0x8a9136aa);
    memset(bytes, 0xff, 32);
    assert_int_equal(crc32c(0, bytes, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(crc32c(0, bytes, 32), 0x46dd794e);
    assert_int_equal(crc32c(crc32c(0, bytes, 13), bytes + 13, 19), 0x46dd794e);
    for (size_t begin = 0; begin < 9; begin++)
        for (size_t n = 0; begin + n <= 32; n++)
            assert_int_equal(crc32c_portable(7, bytes + begin, n), crc32c(7, bytes + begin, n));
}

/* ---- Files -------------------------------------------------------------------------------- */

static const char *bundle_file(const char *name, const char *ending) {
    char path[256];
    snprintf(path, sizeof path, "tensorflow/hostile/%s%s", name, ending);
    return case_path(path);
}

static const char data_name[] = "model.ckpt-0.data-00000-of-00001";

/* Puts a case's index and, unless NULL, data into the scratch folder; returns the index's path. */
static const char *lay_out(const char *index, const char *data) {
    size_t size;
    unlink(scratch_path(data_name));
    if (data) {
        unsigned char *bytes = read_file(bundle_file(data, ".data"), &size);
        write_file(data_name, bytes, size);
        free(bytes);
    }
    unsigned char *bytes = read_file(bundle_file(index, ".index"), &size);
    const char *path = write_file("model.ckpt-0.index", bytes, size);
    free(bytes);
    return path;
}

/* The tensor's elements, which the caller frees; NULL with the error. */
static float *elements_of(const struct checkpoint_tensor *tensor, txl_error *error) {
    float *x = calloc(tensor->n_element + 1, sizeof *x);
    assert_non_null(x);
    if (!checkpoint_read_float(tensor, 0, tensor->n_element, x, error))
        return x;
    free(x);
    return NULL;
}

/* Reads all elements of all tensors but strings. */
static txl_status read_all(const char *path, txl_error *error) {
    struct checkpoint *checkpoint;
    txl_status status = checkpoint_open(path, &checkpoint, error);
    for (size_t i = 0; !status && i < checkpoint_n_tensor(checkpoint); i++) {
        const struct checkpoint_tensor *tensor = checkpoint_tensor_at(checkpoint, i);
        float *x = tensor->dtype == CHECKPOINT_STRING ? NULL : elements_of(tensor, error);
        if (!x && tensor->dtype != CHECKPOINT_STRING)
            status = error->status;
        free(x);
    }
    checkpoint_close(checkpoint);
    return status;
}

static void assert_unread(const char *path, txl_status status, const char *text) {
    txl_error error;
    if (read_all(path, &error) != status)
        fail_msg("%s: not %d: %s", path, status, error.message);
    assert_says(&error, text);
}

static void open_and_read(const char *path) {
    txl_error error;
    (void)read_all(path, &error);
}

/* ---- Whole bundles ------------------------------------------------------------------------ */

static const char kernel[] = "transformer/layer_0/ff/layer_1/kernel";

TEST(test_bundle) {
    txl_error error;
    const char *path = lay_out("plain", "plain");
    struct checkpoint *checkpoint = open_or_fail(path);
    assert_string_equal(checkpoint_path(checkpoint), path);
    assert_null(checkpoint_root(checkpoint));
    assert_true(checkpoint_reads(checkpoint, path));
    assert_true(checkpoint_reads(checkpoint, scratch_path("model.ckpt-0.data-00000-of-00001")));
    assert_int_equal(checkpoint_n_tensor(checkpoint), 27);
    const struct checkpoint_tensor *step = checkpoint_find(checkpoint, "global_step");
    assert_non_null(step);
    assert_string_equal(checkpoint_dtype_name(step->dtype), "int64");
    assert_int_equal(step->n_dim, 0);
    const struct checkpoint_tensor *tensor = checkpoint_find(checkpoint, kernel);
    assert_non_null(tensor);
    assert_int_equal(tensor->n_dim, 2);
    assert_true(checkpoint_is_contiguous(tensor));
    assert_true(checkpoint_same_view(tensor, tensor));
    assert_false(checkpoint_same_view(tensor, step));

    /* The same in two parts, one beside the other. */
    float *x = elements_of(tensor, &error);
    assert_non_null(x);
    size_t n = tensor->n_element;
    checkpoint_close(checkpoint);
    checkpoint = open_or_fail(lay_out("slices-right", "slices-right"));
    tensor = checkpoint_find(checkpoint, kernel);
    assert_int_equal(tensor->n_element, n);
    assert_int_equal(checkpoint_n_tensor(checkpoint), 27);
    float *y = elements_of(tensor, &error);
    assert_non_null(y);
    assert_memory_equal(x, y, n * sizeof *x);
    double middle[3];
    checkpoint_release(tensor);
    assert_int_equal(checkpoint_read_double(tensor, n / 2, 3, middle, &error), TXL_OK);
    for (int i = 0; i < 3; i++)
        assert_true(middle[i] == x[n / 2 + i]);
    assert_false(checkpoint_same_view(tensor, checkpoint_find(checkpoint, "global_step")));
    checkpoint_close(checkpoint);
    free(x);
    free(y);
}

/* Any range of a transposed view, which is copied by squares where it has whole rows. */
TEST(test_transposed) {
    txl_error error;
    struct checkpoint *checkpoint = open_or_fail(lay_out("plain", "plain"));
    struct checkpoint_tensor view = *checkpoint_find(checkpoint, kernel);
    assert_int_equal(view.n_element, 20 * 64);
    float *whole = elements_of(&view, &error), x[20 * 64];
    assert_non_null(whole);
    view.shape[0] = view.stride[1] = 64; /* as if the file had 20 rows of 64 */
    view.shape[1] = 20;
    view.stride[0] = 1;
    assert_false(checkpoint_is_contiguous(&view));
    for (uint64_t first = 0; first < view.n_element; first += 29)
        for (uint64_t n = 0; first + n <= view.n_element; n += 7) {
            assert_int_equal(checkpoint_read_float(&view, first, n, x, &error), TXL_OK);
            for (uint64_t i = 0; i < n; i++)
                assert_true(x[i] == whole[(first + i) % 20 * 64 + (first + i) / 20]);
        }
    checkpoint_close(checkpoint);
    free(whole);
}

/* ---- Tables that TensorFlow does not write ------------------------------------------------ */

/* The plain bundle with its table written anew, and with this header unless that is NULL. */
static const char *write_anew(size_t per_block, const char *header, size_t length) {
    struct mapped_file file;
    struct table table;
    txl_error error;
    size_t size;
    lay_out("plain", "plain");
    assert_int_equal(mapped_file_open(bundle_file("plain", ".index"), &file, &error), TXL_OK);
    assert_int_equal(table_read(&file, &table, &error), TXL_OK);
    if (header) {
        table.entries[0].value = (const uint8_t *)header;
        table.entries[0].length = length;
    }
    uint8_t *bytes = bundle_table(table.entries, table.n, per_block, &size);
    const char *path = write_file("model.ckpt-0.index", bytes, size);
    free(bytes);
    table_free(&table);
    mapped_file_close(&file);
    return path;
}

/* Every element of the plain bundle, in the order of its tensors; the caller frees it. */
static uint8_t *bytes_of(const char *path, bool swapped, size_t *size) {
    struct checkpoint *checkpoint = open_or_fail(path);
    struct buffer all = {0};
    txl_error error;
    for (size_t i = 0; i < checkpoint_n_tensor(checkpoint); i++) {
        const struct checkpoint_tensor *tensor = checkpoint_tensor_at(checkpoint, i);
        assert_true(buffer_append(&all, tensor->name, strlen(tensor->name)));
        if (tensor->dtype != CHECKPOINT_F32)
            continue;
        float *x = elements_of(tensor, &error);
        if (!x)
            fail_msg("%s", error.message);
        for (uint64_t k = 0; k < tensor->n_element; k++) {
            uint32_t bits;
            memcpy(&bits, &x[k], sizeof bits);
            bits = swapped ? __builtin_bswap32(bits) : bits;
            assert_true(buffer_append(&all, &bits, sizeof bits));
        }
        free(x);
    }
    checkpoint_close(checkpoint);
    *size = all.length;
    return (uint8_t *)all.data;
}

TEST(test_blocks) {
    size_t size, n;
    uint8_t *expected = bytes_of(lay_out("plain", "plain"), false, &size);
    assert_true(size > 60000);
    for (size_t per_block = 1; per_block <= 64; per_block = per_block * 3 - 1 + (per_block == 1)) {
        uint8_t *found = bytes_of(write_anew(per_block, NULL, 0), false, &n);
        assert_int_equal(n, size);
        assert_memory_equal(found, expected, n);
        free(found);
    }
    free(expected);
}

/* Of a big-endian bundle the elements' bytes are swapped, and nothing else. */
TEST(test_byte_order) {
    static const char big_endian[] = "\x08\x01\x10\x01\x1a\x02\x08\x01";
    size_t size, n;
    uint8_t *expected = bytes_of(lay_out("plain", "plain"), false, &size);
    uint8_t *found = bytes_of(write_anew(100, big_endian, sizeof big_endian - 1), true, &n);
    assert_int_equal(n, size);
    assert_memory_equal(found, expected, n);
    free(found);
    free(expected);
}

/* Every type, by TensorFlow's number, in either byte order; odd offsets, as behind a string. */
TEST(test_types) {
    static const struct {
        const char *name;
        uint8_t number, size, bytes[8]; /* little-endian */
        double value;
    } types[] = {
        {"float32", 1, 4, {0, 0, 0xa0, 0x3f}, 1.25},
        {"float64", 2, 8, {0, 0, 0, 0, 0, 0, 0xf4, 0x3f}, 1.25},
        {"int32", 3, 4, {0xfe, 0xff, 0xff, 0xff}, -2},
        {"uint8", 4, 1, {0xfe}, 254},
        {"int16", 5, 2, {0xfe, 0xff}, -2},
        {"int8", 6, 1, {0xfe}, -2},
        {"int64", 9, 8, {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, -2},
        {"bool", 10, 1, {1}, 1},
        {"bfloat16", 14, 2, {0xa0, 0x3f}, 1.25},
        {"uint16", 17, 2, {0xfe, 0xff}, 65534},
        {"float16", 19, 2, {0, 0x3d}, 1.25},
        {"uint32", 22, 4, {0xfe, 0xff, 0xff, 0xff}, 4294967294.0},
        {"uint64", 23, 8, {0, 1}, 256},
    };
    for (size_t i = 0; i < 2 * sizeof types / sizeof *types; i++) {
        const size_t t = i / 2, n = types[t].size;
        const bool big = i % 2 == 1;
        uint8_t data[9] = {0}, header[] = {8, 1, 0x10, big, 0x1a, 2, 8, 1};
        uint8_t entry[] = {8, types[t].number, 0x12, 0, 0x20, 1, 0x28, types[t].size, 0x35, 0, 0, 0,
                           0};
        for (size_t k = 0; k < n; k++)
            data[1 + k] = types[t].bytes[big ? n - 1 - k : k];
        uint32_t crc = crc32c(0, data + 1, n);
        crc = (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
        memcpy(entry + sizeof entry - sizeof crc, &crc, sizeof crc);
        const struct table_entry table[] = {{"", 0, header, sizeof header},
                                            {"x", 1, entry, sizeof entry}};
        size_t size;
        uint8_t *index = bundle_table(table, 2, 2, &size);
        write_file(data_name, data, n + 1);
        struct checkpoint *checkpoint = open_or_fail(write_file("model.ckpt-0.index", index, size));
        const struct checkpoint_tensor *x = checkpoint_find(checkpoint, "x");
        double value;
        float narrow;
        txl_error error;
        assert_string_equal(checkpoint_dtype_name(x->dtype), types[t].name);
        assert_int_equal(checkpoint_read_double(x, 0, 1, &value, &error), TXL_OK);
        assert_int_equal(checkpoint_read_float(x, 0, 1, &narrow, &error), TXL_OK);
        assert_true(value == types[t].value && narrow == (float)value);
        checkpoint_close(checkpoint);
        free(index);
    }
}

/* Readers of version 1 are refused where it is a bad one, as a number or in a list. */
TEST(test_bad_consumers) {
    static const struct {
        const char *header;
        size_t length;
        bool allowed;
    } headers[] = {
        {"\x08\x01\x1a\x04\x08\x01\x18\x01", 8, false},
        {"\x08\x01\x1a\x04\x08\x01\x18\x02", 8, true},
        {"\x08\x01\x1a\x06\x08\x01\x1a\x02\x02\x01", 10, false},
        {"\x08\x01\x1a\x06\x08\x01\x1a\x02\x02\x03", 10, true},
        {"\x08\x01\x1a\x04\x08\x01\x10\x01", 8, true},
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        txl_error error;
        const char *path = write_anew(100, headers[i].header, headers[i].length);
        assert_int_equal(read_all(path, &error), headers[i].allowed ? TXL_OK : TXL_UNSUPPORTED);
        if (!headers[i].allowed)
            assert_says(&error, "written for readers of a later version of the format than 1");
    }
}

/* Blocks may be compressed; those of language models are not. */
TEST(compressed_blocks_are_refused) {
    uint8_t file[128] = {"\x08\x0c\x61\x62\x63\x64\x01\x04\x01"};
    const size_t n = 8;
    uint32_t crc = crc32c(0, file, n + 1);
    crc = (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
    memcpy(file + n + 1, &crc, sizeof crc);
    file[n + 5 + 3] = (uint8_t)n; /* the index's block; the metaindex's is at 0 with 0 bytes */
    memcpy(file + n + 5 + 40, "\x57\xfb\x80\x8b\x24\x75\x47\xdb", 8);
    assert_unread(write_file("model.ckpt-0.index", file, n + 5 + 48), TXL_UNSUPPORTED,
                  "a block is compressed with Snappy (1)");
}

/* Changes a byte of the data that is laid out, unless that is 0, and cuts its end off. */
static void damage_data(size_t altered, size_t cut) {
    size_t size;
    if (altered == 0 && cut == 0)
        return;
    unsigned char *data = read_file(scratch_path(data_name), &size);
    data[altered] ^= altered > 0;
    write_file(data_name, data, size - cut);
    free(data);
}

/* One fault each.  The message is that of opening, or of reading all. */
TEST(test_hostile) {
    static const struct {
        const char *index, *data;
        txl_status status;
        const char *message;
        size_t altered, cut; /* a byte of the data, and how many are missing at its end */
    } cases[] = {
        {"index-truncated", "plain", TXL_UNSUPPORTED, "the file is cut short"},
        {"index-empty", "plain", TXL_FORMAT, "the file is empty"},
        {"index-47-bytes", "plain", TXL_UNSUPPORTED, "the file is cut short"},
        {"bad-magic", "plain", TXL_UNSUPPORTED, "not the index of a TensorFlow checkpoint"},
        {"lfs-pointer", "plain", TXL_UNSUPPORTED, "git lfs pull"},
        {"block-crc", "plain", TXL_FORMAT, "offset 0: a block's checksum differs"},
        {"block-type-2", "plain", TXL_FORMAT, "a block's checksum differs"},
        {"restarts-huge", "plain", TXL_FORMAT, "a block's restart points do not fit it"},
        {"restarts-zero", "plain", TXL_FORMAT, "a block's restart points do not fit it"},
        {"shared-first", "plain", TXL_FORMAT, "a key shares more with the one before"},
        {"value-length-4G", "plain", TXL_FORMAT, "a block's entry does not end within it"},
        {"index-handle-outside", "plain", TXL_FORMAT, "a block of the index reaches beyond it"},
        {"index-handle-wraps", "plain", TXL_FORMAT, "a block of the index reaches beyond it"},
        {"no-header", "plain", TXL_FORMAT, "a table without the header of a checkpoint"},
        {"header-v1", "plain", TXL_UNSUPPORTED, "of the old format V1; save it again"},
        {"min-consumer-2", "plain", TXL_UNSUPPORTED, "for readers of a later version"},
        {"shards-0", "plain", TXL_FORMAT, "0 data files, expected one or more"},
        {"shards-2-billion", "plain", TXL_IO, "data-00000-of-2147483647: No such file"},
        {"endianness-7", "plain", TXL_UNSUPPORTED, "byte order 7 is not known"},
        {"shard-5", "plain", TXL_FORMAT,
         "layer_1/kernel: it is in none of the data files; the file is damaged, fetch it again"},
        {"shard-negative", "plain", TXL_FORMAT, "it is in none of the data files"},
        {"offset-outside", "plain", TXL_FORMAT, "layer_1/kernel: reaches beyond the end of "},
        {"offset-negative", "plain", TXL_FORMAT, "reaches beyond the end of "},
        {"offset-wraps", "plain", TXL_FORMAT, "reaches beyond the end of "},
        {"size-differs", "plain", TXL_FORMAT, "its size does not fit its shape"},
        {"shape-overflows", "plain", TXL_FORMAT, "more elements than a file has room for"},
        {"shape-negative", "plain", TXL_FORMAT, "a dimension is negative"},
        {"shape-254-dims", "plain", TXL_UNSUPPORTED, "more dimensions than 8"},
        {"rank-unknown", "plain", TXL_FORMAT, "its shape is not known"},
        {"dtype-0", "plain", TXL_UNSUPPORTED, "TensorFlow's type 0 is not read"},
        {"dtype-101", "plain", TXL_UNSUPPORTED, "TensorFlow's type 101 is not read"},
        {"tensor-crc", "plain", TXL_FORMAT, "layer_1/kernel: its checksum is "},
        {"data-altered", "plain", TXL_FORMAT, "lookup_table: its checksum is ", .altered = 5000},
        {"data-truncated", "plain", TXL_FORMAT, "r_bias: reaches beyond the end of ", .cut = 100},
        {"data-missing", NULL, TXL_IO, "data-00000-of-00001: No such file"},
        {"overlap", "plain", TXL_FORMAT, ": its checksum is "},
        {"shape-zero", "plain", TXL_FORMAT, "layer_1/kernel: its checksum is 00000000"},
        {"control-characters", "plain", TXL_FORMAT, "its tensors have 60796 bytes"},
        {"key-twice", "plain", TXL_FORMAT, "its keys are not in order"},
        {"entry-garbage", "plain", TXL_FORMAT, "layer_1/kernel: its entry is malformed"},
        {"varint-11", "plain", TXL_FORMAT, "layer_1/kernel: its entry is malformed"},
        {"slices-hole", "slices-hole", TXL_FORMAT, "its parts leave a hole"},
        {"slices-overlap", "slices-right", TXL_FORMAT, "two of its parts overlap"},
        {"slice-missing", "slices-hole", TXL_FORMAT, "one of its parts is missing"},
        {"slice-outside", "slices-hole", TXL_FORMAT, "one of its parts lies outside it"},
        {"slices-2000", "plain", TXL_UNSUPPORTED, "2000 parts; at most 1024 are read"},
        {"snappy-4G", "plain", TXL_UNSUPPORTED, "compressed with Snappy"},
        /* What is wrong with these is for others to find. */
        {"dtype-string", "plain", TXL_OK, NULL},
        {"kernel-missing", "plain", TXL_OK, NULL},
        {"kernel-transposed", "plain", TXL_OK, NULL},
        {"nan", "nan", TXL_OK, NULL},
        {"slices-right", "slices-right", TXL_OK, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        txl_error error;
        const char *path = lay_out(cases[i].index, cases[i].data);
        damage_data(cases[i].altered, cases[i].cut);
        if (read_all(path, &error) != cases[i].status)
            fail_msg("%s: not %d: %s", cases[i].index, cases[i].status, error.message);
        if (cases[i].message)
            assert_says(&error, cases[i].message);
    }
}

/* ---- Entries and blocks at their bounds --------------------------------------------------- */

/* The case's bundle with `n` bytes appended to the entry of the first name that begins with the
 * `n_key` bytes: of two fields with one number the last counts. */
static const char *append_field(const char *name, const char *key, size_t n_key, const char *field,
                                size_t n) {
    struct mapped_file file;
    struct table table;
    txl_error error;
    size_t size;
    char value[4096];
    lay_out(name, name);
    assert_int_equal(mapped_file_open(bundle_file(name, ".index"), &file, &error), TXL_OK);
    assert_int_equal(table_read(&file, &table, &error), TXL_OK);
    size_t i = 0;
    while (i < table.n &&
           (table.entries[i].key_length < n_key || memcmp(table.entries[i].key, key, n_key) != 0))
        i++;
    assert_true(i < table.n && table.entries[i].length + n <= sizeof value);
    memcpy(value, table.entries[i].value, table.entries[i].length);
    memcpy(value + table.entries[i].length, field, n);
    table.entries[i].value = (const uint8_t *)value;
    table.entries[i].length += n;
    uint8_t *bytes = bundle_table(table.entries, table.n, 16, &size);
    const char *path = write_file("model.ckpt-0.index", bytes, size);
    free(bytes);
    table_free(&table);
    mapped_file_close(&file);
    return path;
}

TEST(bounds_of_entries) {
    static const char part[] = {0, 't', 'r', 'a', 'n', 's'};
    static const struct {
        const char *name, *key;
        size_t n_key;
        const char *field;
        size_t n;
        const char *message;
    } cases[] = {
        {"plain", kernel, sizeof kernel - 1, "\x18\x01", 2, "it is in none of the data files"},
        {"plain", "global_step", 11, "\x28\x10", 2, "its size does not fit its shape"},
        {"slices-right", kernel, sizeof kernel - 1, "\x3a\x08\x0a\x02\x10\x00\x0a\x02\x10\x00", 10,
         "one of its parts lies outside it"},
        {"slices-right", part, sizeof part, "\x3a\x00", 2, "its entry is malformed"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_unread(
            append_field(cases[i].name, cases[i].key, cases[i].n_key, cases[i].field, cases[i].n),
            TXL_FORMAT, cases[i].message);
}

/* Appends a block with its trailer to the file; `place` receives where it is, as two varints. */
static void put_raw_block(struct buffer *file, const char *content, size_t n, char place[4]) {
    const uint8_t type = 0;
    uint32_t crc = crc32c(crc32c(0, content, n), &type, 1);
    crc = (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
    assert_true(file->length < 64 * 128 && n < 64 * 128);
    place[0] = (char)((file->length & 127) | 128);
    place[1] = (char)(file->length >> 7);
    place[2] = (char)((n & 127) | 128);
    place[3] = (char)(n >> 7);
    assert_true(buffer_append(file, content, n) && buffer_append(file, (const char *)&type, 1) &&
                buffer_append(file, (const char *)&crc, 4));
}

/* Reads a table of one or two data blocks as they are given, the entries of the index being "m" and
 * "z"; `reach` is added to the size of the first. */
static txl_status read_blocks(const char *first, size_t n_first, const char *second,
                              size_t n_second, int reach, txl_error *error) {
    struct buffer file = {0};
    char place[2][4], index[64], foot[48] = {0};
    size_t n = 0;
    const char *content[] = {first, second}, keys[] = {'m', 'z'};
    const size_t length[] = {n_first, n_second};
    for (int i = 0; i < 2 && content[i]; i++) {
        put_raw_block(&file, content[i], length[i], place[i]);
        place[i][2] = (char)(place[i][2] + (i == 0 ? reach : 0));
        memcpy(index + n, (const char[]){0, 1, 4, keys[i]}, 4);
        memcpy(index + n + 4, place[i], 4);
        n += 8;
    }
    memcpy(index + n, "\0\0\0\0\1\0\0\0", 8);
    put_raw_block(&file, index, n + 8, foot + 2);
    memcpy(foot + 40, "\x57\xfb\x80\x8b\x24\x75\x47\xdb", 8);
    assert_true(buffer_append(&file, foot, sizeof foot));
    const char *path = write_file("blocks", (const unsigned char *)file.data, file.length);
    struct mapped_file mapped;
    struct table table;
    assert_int_equal(mapped_file_open(path, &mapped, error), TXL_OK);
    txl_status status = table_read(&mapped, &table, error);
    table_free(&table);
    mapped_file_close(&mapped);
    unlink(path);
    buffer_free(&file);
    return status;
}

#define END_OF_BLOCK "\0\0\0\0\1\0\0\0" /* one restart point */

TEST(bounds_of_blocks) {
    static const struct {
        const char *first;
        size_t n_first;
        const char *second;
        size_t n_second;
        int reach;
        const char *message; /* NULL: it is read */
    } cases[] = {
        {"\0\1\1ax" END_OF_BLOCK, 13, NULL, 0, 0, NULL},
        {"\0\1\2ax" END_OF_BLOCK, 13, NULL, 0, 0, "a block's entry does not end within it"},
        {"\0\1\0a\2\1\0b" END_OF_BLOCK, 16, NULL, 0, 0, "a key shares more with the one before"},
        {"\0\0\0\0\2\0\0\0", 8, NULL, 0, 0, "a block's restart points do not fit it"},
        {"\0\1\0a" END_OF_BLOCK, 12, "\0\1\0n" END_OF_BLOCK, 12, 0, NULL},
        {"\0\1\0a" END_OF_BLOCK, 12, "\0\1\0m" END_OF_BLOCK, 12, 0, "its keys are not in order"},
        /* The trailer of the first block would be in the footer. */
        {"\0\1\0a" END_OF_BLOCK, 12, NULL, 0, 21, "a block's checksum differs"},
        {"\0\1\0a" END_OF_BLOCK, 12, NULL, 0, 22, "a block of the index reaches beyond it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        txl_error error = {0};
        txl_status status = read_blocks(cases[i].first, cases[i].n_first, cases[i].second,
                                        cases[i].n_second, cases[i].reach, &error);
        if (status != (cases[i].message ? TXL_FORMAT : TXL_OK))
            fail_msg("case %zu: %d: %s", i, status, error.message);
        if (cases[i].message)
            assert_says(&error, cases[i].message);
    }
}

TEST(the_longest_name) {
    char block[TABLE_MAX_KEY + 64];
    for (size_t more = 0; more < 2; more++) {
        txl_error error;
        size_t length = TABLE_MAX_KEY + more, n = 0;
        block[n++] = 0;
        block[n++] = (char)((length & 127) | 128);
        block[n++] = (char)(length >> 7);
        block[n++] = 0;
        memset(block + n, 'a', length);
        n += length;
        memcpy(block + n, END_OF_BLOCK, 8);
        assert_int_equal(read_blocks(block, n + 8, NULL, 0, 0, &error),
                         more ? TXL_UNSUPPORTED : TXL_OK);
    }
}

TEST(test_data_files) {
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\n";
    size_t size;
    txl_error error;
    char path[4096];
    strcpy(path, lay_out("plain", "plain"));
    unsigned char *data = read_file(scratch_path(data_name), &size);
    data[size / 2] ^= 1;
    write_file(data_name, data, size);
    assert_unread(path, TXL_FORMAT, ": its checksum is ");
    data[size / 2] ^= 1;
    write_file(data_name, data, size - 1);
    assert_unread(path, TXL_FORMAT, "which is cut short or another checkpoint's");
    write_file(data_name, pointer, strlen(pointer));
    assert_unread(path, TXL_UNSUPPORTED, "git lfs pull");
    unlink(scratch_path(data_name));
    assert_int_equal(mkfifo(scratch_path(data_name), 0600), 0);
    assert_unread(path, TXL_IO, "not a regular file");
    unlink(scratch_path(data_name));

    /* A name from which the data's does not follow. */
    rename(path, scratch_path("renamed"));
    assert_unread(scratch_path("renamed"), TXL_FORMAT, "whose name must end in .index");
    unlink(scratch_path("renamed"));

    /* A file that becomes shorter. */
    lay_out("plain", "plain");
    struct checkpoint *checkpoint = open_or_fail(path);
    assert_int_equal(truncate(scratch_path(data_name), 100), 0);
    float *x = elements_of(checkpoint_find(checkpoint, kernel), &error);
    assert_null(x);
    assert_says(&error, "shrank from");
    checkpoint_close(checkpoint);
    free(data);
}

/* The file `checkpoint` leads nowhere but to its own folder: there to the only checkpoint, or to a
 * question. */
TEST(test_lists) {
    static const struct {
        const char *name, *text;
        size_t length;
    } lists[] = {
        {"checkpoint-outside", "model_checkpoint_path: \"../../../../etc/passwd\"\n", 48},
        {"checkpoint-garbage", "\0\1 nonsense", 11},
        {"checkpoint-escape", "model_checkpoint_path: \"a\\377\\n\\\"b\"\n", 36},
    };
    enum { N = sizeof lists / sizeof *lists };
    struct checkpoint *checkpoint;
    char path[4096];
    strcpy(path, lay_out("plain", "plain"));
    for (size_t i = 0; i < N; i++) {
        write_file("checkpoint", lists[i].text, lists[i].length);
        checkpoint = open_or_fail(scratch);
        assert_string_equal(checkpoint_path(checkpoint), path);
        checkpoint_close(checkpoint);
    }
    write_file("other.index", "", 0);
    for (size_t i = 0; i < N; i++) {
        write_file("checkpoint", lists[i].text, lists[i].length);
        assert_not_opened(scratch, TXL_ARGUMENT,
                          "has 2 TensorFlow checkpoints, and its file checkpoint names none");
    }
    /* Unless it has that name. */
    static const char odd_data[] = "a\377\n\"b.data-00000-of-00001";
    assert_int_equal(rename(path, scratch_path("a\377\n\"b.index")), 0);
    assert_int_equal(rename(scratch_path(data_name), scratch_path(odd_data)), 0);
    checkpoint = open_or_fail(scratch);
    assert_string_equal(checkpoint_path(checkpoint), scratch_path("a\377\n\"b.index"));
    checkpoint_close(checkpoint);
    unlink(scratch_path("a\377\n\"b.index"));
    unlink(scratch_path(odd_data));
    unlink(scratch_path("other.index"));
    unlink(scratch_path("checkpoint"));
}

/* A V1 checkpoint is one file.  The file `checkpoint` names it; else the first by name is taken
 * whose content is a table. */
TEST(test_old_folder) {
    char later[32];
    static const char list[] = "model_checkpoint_path: \"/home/me/model.ckpt-0\"\n";
    assert_int_equal(rename(lay_out("header-v1", NULL), scratch_path("model.ckpt-0")), 0);
    write_file("graph.pbtxt", "x", 1);
    for (int i = 0; i < 8; i++) {
        snprintf(later, sizeof later, "model.ckpt-%d", 9 - i);
        assert_int_equal(rename(lay_out("header-v1", NULL), scratch_path(later)), 0);
    }
    assert_not_opened(scratch, TXL_UNSUPPORTED,
                      "/model.ckpt-0: a TensorFlow checkpoint of the old format V1");
    /* The newest comes before the first by name, and those in model/ last. */
    assert_int_equal(mkdir(scratch_path("model"), 0700), 0);
    write_file("checkpoint", list, sizeof list - 1);
    assert_int_equal(rename(lay_out("header-v1", NULL), scratch_path("a")), 0);
    assert_not_opened(scratch, TXL_UNSUPPORTED,
                      "/model.ckpt-0: a TensorFlow checkpoint of the old format V1");
    for (int i = 0; i < 10; i++) {
        snprintf(later, sizeof later, "model.ckpt-%d", i);
        unlink(scratch_path(later));
    }
    unlink(scratch_path("checkpoint"));
    assert_int_equal(rename(scratch_path("a"), scratch_path("model/a")), 0);
    assert_not_opened(scratch, TXL_UNSUPPORTED,
                      "/model/a: a TensorFlow checkpoint of the old format V1");
    unlink(scratch_path("model/a"));
    rmdir(scratch_path("model"));
    unlink(scratch_path("graph.pbtxt"));
}

/* The message names the missing file, and asks to fetch it. */
TEST(test_missing_files) {
    static const char parts[] =
        "/model: holds parts of a TensorFlow checkpoint, but not its .index file";
    char path[4096];
    strcpy(path, lay_out("plain", NULL));
    unlink(scratch_path(data_name));
    assert_not_opened(scratch, TXL_IO,
                      ".data-00000-of-00001: No such file or directory; it has tensors of ");
    assert_not_opened(scratch, TXL_IO, "model.ckpt-0.index, fetch it too");
    unlink(path);
    assert_int_equal(mkdir(scratch_path("model"), 0700), 0);
    write_file("model/model.ckpt-0.data-00000-of-00001", "x", 1);
    assert_not_opened(scratch, TXL_UNSUPPORTED, parts);
    assert_not_opened(scratch_path("model"), TXL_UNSUPPORTED, parts);
    unlink(scratch_path("model/model.ckpt-0.data-00000-of-00001"));
    rmdir(scratch_path("model"));
}

TEST(test_damage) {
    lay_out("plain", "plain");
    abuse_file(bundle_file("plain", ".index"), "model.ckpt-0.index", SIZE_MAX, 300, open_and_read);
}

/* Every checksum of the genuine bundles, each in a folder below the given one, must be right. */
TEST(test_genuine) {
    const char *folder = getenv("TXL_TENSORFLOW_FILES");
    char pattern[4096];
    glob_t found;
    if (!folder)
        skip();
    snprintf(pattern, sizeof pattern, "%s/*/*.index", folder);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        txl_error error;
        txl_status status = read_all(found.gl_pathv[i], &error);
        bool old = strstr(found.gl_pathv[i], "/v1-") != NULL;
        if (status != (old ? TXL_UNSUPPORTED : TXL_OK))
            fail_msg("%s: %s", found.gl_pathv[i], error.message);
    }
    globfree(&found);
}

int main(void) {
    return cmocka_run_group_tests_name("tensor_bundle", tests, make_scratch, remove_scratch);
}
