/* The pickle machine: protocols 0 to 5, every opcode that pickled data contains.  The opcodes are
 * documented in the Python library's pickletools.py. */
#include "pickle.h"

#include "lib/base/error.h"
#include "lib/base/numbers.h"
#include "lib/text/unicode.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PROTOCOL 5 /* the newest that there is */
#define MAX_NUMBER 64  /* characters of a real number */

enum { PROTO = 0x80, STOP = '.' };

/* ---- The stream --------------------------------------------------------------------------- */

static const unsigned char *take_bytes(struct pickle_reader *reader, uint64_t count) {
    if (count > reader->size - reader->at)
        return pickle_fail(reader, TXL_FORMAT,
                           "the pickle is cut short: expected %" PRIu64 " more bytes, %" PRIu64
                           " are left",
                           count, reader->size - reader->at);
    const unsigned char *bytes = reader->data + reader->at;
    reader->at += count;
    return bytes;
}

/* An unsigned little-endian number of `width` bytes. */
static bool take_number(struct pickle_reader *reader, int width, uint64_t *number) {
    const unsigned char *bytes = take_bytes(reader, (uint64_t)width);
    if (!bytes)
        return false;
    *number = 0;
    for (int i = width; i-- > 0;)
        *number = *number << 8 | bytes[i];
    return true;
}

/* Bytes after their length, a number of `width` bytes. */
static bool take_string(struct pickle_reader *reader, int width, struct pickle_string *string) {
    uint64_t length = 0;
    if (!take_number(reader, width, &length))
        return false;
    const unsigned char *bytes = take_bytes(reader, length);
    if (!bytes)
        return false;
    *string = (struct pickle_string){(const char *)bytes, (size_t)length};
    return true;
}

/* The argument of a text opcode: up to the line feed, which is consumed. */
static bool take_line(struct pickle_reader *reader, struct pickle_string *line) {
    const unsigned char *start = reader->data + reader->at;
    const unsigned char *end = memchr(start, '\n', (size_t)(reader->size - reader->at));
    if (!end) {
        pickle_fail(reader, TXL_FORMAT, "the pickle is cut short: expected a line feed");
        return false; /* which tells the compiler that no line is used */
    }
    *line = (struct pickle_string){(const char *)start, (size_t)(end - start)};
    reader->at += line->length + 1;
    return true;
}

/* ---- The stack ---------------------------------------------------------------------------- */

/* Makes room for so many values; the array may move. */
static bool reserve(struct pickle_reader *reader, struct pickle_items *items, size_t count) {
    if (count <= items->capacity)
        return true;
    size_t larger = count < 32 ? 64 : 2 * count;
    void *memory = realloc(items->at, larger * sizeof *items->at);
    if (!memory) {
        reader->status =
            txl_fail_memory(reader->error, "a pickle's values", larger * sizeof *items->at);
        return false;
    }
    items->at = memory;
    items->capacity = larger;
    return true;
}

static bool push(struct pickle_reader *reader, struct pickle_value *value) {
    if (!reserve(reader, &reader->stack, reader->stack.count + 1))
        return false;
    reader->stack.at[reader->stack.count++] = value;
    return true;
}

static bool push_mark(struct pickle_reader *reader) {
    return push(reader, NULL);
}

static bool push_value(struct pickle_reader *reader, struct pickle_value *value) {
    return value && push(reader, value); /* what failed to make it has reported why */
}

/* How many values lie above the last mark, or are there at all; counts no further than `most`. */
static size_t count_values(const struct pickle_reader *reader, size_t most) {
    const struct pickle_items *stack = &reader->stack;
    size_t n = 0;
    while (n < most && n < stack->count && stack->at[stack->count - 1 - n])
        n++;
    return n;
}

/* The `count` values at the top of the stack, which stay there. */
static struct pickle_value **peek(struct pickle_reader *reader, size_t count) {
    if (count_values(reader, count) < count)
        return pickle_fail(reader, TXL_FORMAT, "the stack holds too few values for opcode 0x%02x",
                           reader->data[reader->opcode]);
    return reader->stack.at + reader->stack.count - count;
}

/* The same, but removes them; they may be used until the next push. */
static struct pickle_value **pop(struct pickle_reader *reader, size_t count) {
    struct pickle_value **values = peek(reader, count);
    if (values)
        reader->stack.count -= count;
    return values;
}

/* Removes the last mark and the values above it, and returns these. */
static struct pickle_value **pop_mark(struct pickle_reader *reader, size_t *count) {
    *count = count_values(reader, SIZE_MAX);
    if (*count == reader->stack.count)
        return pickle_fail(reader, TXL_FORMAT, "opcode 0x%02x needs a mark on the stack",
                           reader->data[reader->opcode]);
    reader->stack.count -= *count + 1;
    return reader->stack.at + reader->stack.count + 1;
}

/* ---- Numbers ------------------------------------------------------------------------------ */

static bool push_scalar(struct pickle_reader *reader, struct pickle_value scalar) {
    struct pickle_value *value = pickle_new(reader, scalar.kind);
    if (value)
        *value = scalar;
    return push_value(reader, value);
}

static bool push_int(struct pickle_reader *reader, int64_t integer) {
    return push_scalar(reader, (struct pickle_value){PICKLE_INT, .integer = integer});
}

static bool push_bool(struct pickle_reader *reader, int boolean) {
    return push_scalar(reader, (struct pickle_value){PICKLE_BOOL, .boolean = boolean != 0});
}

static bool push_float(struct pickle_reader *reader, double real) {
    return push_scalar(reader, (struct pickle_value){PICKLE_FLOAT, .real = real});
}

static bool push_string(struct pickle_reader *reader, enum pickle_kind kind,
                        const struct pickle_string *string) {
    return push_scalar(reader, (struct pickle_value){kind, .string = *string});
}

/* The one of 4 bytes alone is signed. */
static bool push_number(struct pickle_reader *reader, int width) {
    uint64_t number = 0;
    return take_number(reader, width, &number) &&
           push_int(reader, width == 4 ? (int32_t)(uint32_t)number : (int64_t)number);
}

/* A two's complement number after its length, which is a number of `width` bytes. */
static bool push_long(struct pickle_reader *reader, int width) {
    struct pickle_string bytes;
    if (!take_string(reader, width, &bytes))
        return false;
    if (bytes.length > 8)
        return push_string(reader, PICKLE_BIG_INT, &bytes);
    uint64_t number = 0;
    if (bytes.length && bytes.bytes[bytes.length - 1] & 0x80)
        number = UINT64_MAX;
    for (size_t i = bytes.length; i-- > 0;)
        number = number << 8 | (unsigned char)bytes.bytes[i];
    return push_int(reader, (int64_t)number);
}

static bool all_digits(const struct pickle_string *line) {
    for (size_t i = 0; i < line->length; i++)
        if ((line->bytes[i] < '0' || line->bytes[i] > '9') && !(i == 0 && line->bytes[i] == '-'))
            return false;
    return line->length > 0;
}

static bool push_decimal(struct pickle_reader *reader) {
    struct pickle_string line;
    if (!take_line(reader, &line))
        return false;
    /* How protocols 0 and 1 write truth values. */
    if (line.length == 2 && memcmp(line.bytes, "00", 2) == 0)
        return push_bool(reader, false);
    if (line.length == 2 && memcmp(line.bytes, "01", 2) == 0)
        return push_bool(reader, true);

    if (line.length && line.bytes[line.length - 1] == 'L')
        line.length--;
    if (!all_digits(&line))
        return pickle_fail(reader, TXL_FORMAT, "expected a decimal number");
    errno = 0;
    long long integer = strtoll(line.bytes, NULL, 10); /* the line's end ends it */
    return errno == ERANGE ? push_string(reader, PICKLE_BIG_INT, &line) : push_int(reader, integer);
}

static bool push_float_line(struct pickle_reader *reader) {
    struct pickle_string line;
    char text[MAX_NUMBER], *end;
    if (!take_line(reader, &line))
        return false;
    if (line.length == 0 || line.length >= MAX_NUMBER)
        return pickle_fail(reader, TXL_FORMAT, "expected a number");
    memcpy(text, line.bytes, line.length);
    text[line.length] = '\0';
    double real = strtod(text, &end);
    if (*end)
        return pickle_fail(reader, TXL_FORMAT, "expected a floating-point number");
    return push_float(reader, real);
}

static bool push_binary_float(struct pickle_reader *reader) {
    const unsigned char *bytes = take_bytes(reader, 8);
    if (!bytes)
        return false;
    uint64_t bits = 0; /* the only argument that is big-endian */
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | bytes[i];
    double real;
    memcpy(&real, &bits, sizeof real);
    return push_float(reader, real);
}

/* ---- Strings ------------------------------------------------------------------------------ */

static bool push_binary_string(struct pickle_reader *reader, int width) {
    struct pickle_string string;
    return take_string(reader, width, &string) && push_string(reader, PICKLE_STRING, &string);
}

/* The value of `count` digits of base 8 or 16, or -1. */
static int64_t digits(const char *at, size_t count, int base) {
    int64_t number = 0;
    for (size_t i = 0; i < count; i++) {
        int digit = at[i] >= '0' && at[i] <= '9'   ? at[i] - '0'
                    : at[i] >= 'a' && at[i] <= 'f' ? at[i] - 'a' + 10
                    : at[i] >= 'A' && at[i] <= 'F' ? at[i] - 'A' + 10
                                                   : base;
        if (digit >= base)
            return -1;
        number = number * base + digit;
    }
    return number;
}

/* Decodes one escape of a Python 2 string literal, after its backslash; returns the characters
 * read, or 0. */
static size_t unescape(const char *at, size_t left, char *out, size_t *n_out) {
    static const char names[] = "\\'\"abfnrtv", meanings[] = "\\'\"\a\b\f\n\r\t\v";
    const char *name = left && at[0] ? strchr(names, at[0]) : NULL;
    if (name) {
        out[(*n_out)++] = meanings[name - names];
        return 1;
    }
    if (left >= 3 && at[0] == 'x') {
        int64_t byte = digits(at + 1, 2, 16);
        out[(*n_out)++] = (char)byte;
        return byte < 0 ? 0 : 3;
    }
    size_t n_octal = 0;
    while (n_octal < 3 && n_octal < left && at[n_octal] >= '0' && at[n_octal] <= '7')
        n_octal++;
    if (n_octal)
        out[(*n_out)++] = (char)digits(at, n_octal, 8);
    return n_octal;
}

/* A string literal as Python 2's repr writes it. */
static bool push_literal(struct pickle_reader *reader) {
    struct pickle_string line;
    if (!take_line(reader, &line))
        return false;
    if (line.length < 2 || (line.bytes[0] != '\'' && line.bytes[0] != '"') ||
        line.bytes[line.length - 1] != line.bytes[0])
        return pickle_fail(reader, TXL_FORMAT, "expected a string in quotes");
    char *out = pickle_allocate(reader, line.length);
    if (!out)
        return false;
    size_t n_out = 0, end = line.length - 1;
    for (size_t i = 1; i < end;) {
        if (line.bytes[i] != '\\') {
            out[n_out++] = line.bytes[i++];
            continue;
        }
        size_t read = unescape(line.bytes + i + 1, end - i - 1, out, &n_out);
        if (read == 0)
            return pickle_fail(reader, TXL_FORMAT, "the string has an unknown escape");
        i += 1 + read;
    }
    return push_string(reader, PICKLE_STRING, &(struct pickle_string){out, n_out});
}

/* One character of Python's raw-unicode-escape: Latin-1, with \uXXXX and \UXXXXXXXX for the rest.
 * Returns the bytes read, 0 for a bad escape. */
static size_t raw_unicode_character(const char *at, size_t left, uint32_t *c) {
    size_t n_digit = left < 2 || at[0] != '\\' ? 0 : at[1] == 'u' ? 4 : at[1] == 'U' ? 8 : 0;
    if (n_digit == 0) {
        *c = (unsigned char)at[0];
        return 1;
    }
    int64_t number = left < 2 + n_digit ? -1 : digits(at + 2, n_digit, 16);
    if (number < 0 || number > 0x10ffff)
        return 0;
    *c = (uint32_t)number;
    return 2 + n_digit;
}

static bool push_raw_unicode(struct pickle_reader *reader) {
    struct pickle_string line;
    if (!take_line(reader, &line))
        return false;
    char *out = pickle_allocate(reader, 2 * line.length); /* a Latin-1 byte may become two */
    if (!out)
        return false;
    size_t n_out = 0;
    for (size_t i = 0; i < line.length;) {
        uint32_t c = 0, low = 0;
        size_t read = raw_unicode_character(line.bytes + i, line.length - i, &c);
        if (read == 0)
            return pickle_fail(reader, TXL_FORMAT, "the string has a bad \\u escape");
        i += read;
        /* A narrow Python 2 writes a character beyond 16 bits as two surrogates. */
        if (c >= 0xd800 && c < 0xdc00 && i < line.length) {
            read = raw_unicode_character(line.bytes + i, line.length - i, &low);
            if (read && low >= 0xdc00 && low < 0xe000) {
                c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
                i += read;
            }
        }
        bool lone_surrogate = c >= 0xd800 && c < 0xe000;
        char utf8[4];
        size_t n_utf8 = unicode_encode(lone_surrogate ? UNICODE_REPLACEMENT : c, utf8);
        memcpy(out + n_out, utf8, n_utf8);
        n_out += n_utf8;
    }
    return push_string(reader, PICKLE_STRING, &(struct pickle_string){out, n_out});
}

/* ---- Containers --------------------------------------------------------------------------- */

/* Adds items to a list, tuple or set, or to a dict keys before their values. */
static bool add(struct pickle_reader *reader, struct pickle_value *into,
                struct pickle_value *const *items, size_t count) {
    if (into->kind != PICKLE_DICT)
        return pickle_append(reader, &into->items, items, count);
    if (count % 2)
        return pickle_fail(reader, TXL_FORMAT, "a key has no value");
    for (size_t i = 0; i < count; i += 2)
        if (!pickle_store(reader, &into->pairs, items[i], items[i + 1]))
            return false;
    return true;
}

static bool push_items(struct pickle_reader *reader, enum pickle_kind kind,
                       struct pickle_value *const *items, size_t count) {
    struct pickle_value *value = items ? pickle_new(reader, kind) : NULL;
    return value && add(reader, value, items, count) && push_value(reader, value);
}

/* An empty value. */
static bool push_new(struct pickle_reader *reader, int kind) {
    return push_value(reader, pickle_new(reader, (enum pickle_kind)kind));
}

static bool push_tuple(struct pickle_reader *reader, int count) {
    return push_items(reader, PICKLE_TUPLE, pop(reader, (size_t)count), (size_t)count);
}

static bool push_marked(struct pickle_reader *reader, int kind) {
    size_t count = 0;
    struct pickle_value **items = pop_mark(reader, &count);
    return push_items(reader, (enum pickle_kind)kind, items, count);
}

/* The value that receives items of a `kind` (LIST, SET, DICT): an object whose class extends one of
 * these has such a value in addition to its attributes. */
static struct pickle_value *container(struct pickle_reader *reader, struct pickle_value *target,
                                      enum pickle_kind kind) {
    if (target->kind == PICKLE_OBJECT || target->kind == PICKLE_OPAQUE) {
        struct pickle_value **own =
            kind == PICKLE_DICT ? &target->object->pairs : &target->object->items;
        if (!*own)
            *own = pickle_new(reader, kind);
        return *own;
    }
    if (target->kind == kind)
        return target;
    return pickle_fail(reader, TXL_FORMAT, "opcode 0x%02x cannot add to %s",
                       reader->data[reader->opcode], pickle_kind_name(target));
}

/* Adds to the list, set or dict below them. */
static bool add_below(struct pickle_reader *reader, struct pickle_value **items, size_t count,
                      enum pickle_kind kind) {
    struct pickle_value **target = items ? peek(reader, 1) : NULL;
    struct pickle_value *into = target ? container(reader, *target, kind) : NULL;
    return into && add(reader, into, items, count);
}

/* An item, or a key and its value. */
static bool add_one(struct pickle_reader *reader, int kind) {
    const size_t count = kind == PICKLE_DICT ? 2 : 1;
    return add_below(reader, pop(reader, count), count, (enum pickle_kind)kind);
}

static bool add_marked(struct pickle_reader *reader, int kind) {
    size_t count = 0;
    struct pickle_value **items = pop_mark(reader, &count);
    return add_below(reader, items, count, (enum pickle_kind)kind);
}

/* ---- Names and objects -------------------------------------------------------------------- */

static bool push_global(struct pickle_reader *reader, const struct pickle_string *module,
                        const struct pickle_string *name) {
    if (module->length > PICKLE_MAX_NAME || name->length > PICKLE_MAX_NAME)
        return pickle_fail(reader, TXL_UNSUPPORTED, "a class name is longer than %d bytes",
                           PICKLE_MAX_NAME);
    if (memchr(module->bytes, 0, module->length) || memchr(name->bytes, 0, name->length))
        return pickle_fail(reader, TXL_FORMAT, "a class name holds a NUL");
    struct pickle_value *value = pickle_new(reader, PICKLE_GLOBAL);
    char *text = value ? pickle_allocate(reader, module->length + name->length + 2) : NULL;
    if (!text)
        return false;
    memcpy(text, module->bytes, module->length);
    text[module->length] = '.';
    memcpy(text + module->length + 1, name->bytes, name->length);
    text[module->length + 1 + name->length] = '\0';
    value->name = text;
    return push_value(reader, value);
}

static bool push_global_lines(struct pickle_reader *reader) {
    struct pickle_string module, name;
    return take_line(reader, &module) && take_line(reader, &name) &&
           push_global(reader, &module, &name);
}

static bool push_stack_global(struct pickle_reader *reader) {
    struct pickle_value **names = pop(reader, 2);
    if (!names)
        return false;
    if (names[0]->kind != PICKLE_STRING || names[1]->kind != PICKLE_STRING)
        return pickle_fail(reader, TXL_FORMAT, "a class is named by %s and %s",
                           pickle_kind_name(names[0]), pickle_kind_name(names[1]));
    return push_global(reader, &names[0]->string, &names[1]->string);
}

static bool push_object(struct pickle_reader *reader, const struct pickle_value *class,
                        struct pickle_value *args) {
    if (class->kind != PICKLE_GLOBAL)
        return pickle_fail(reader, TXL_FORMAT, "expected a class to make an object of, not %s",
                           pickle_kind_name(class));
    return push_value(reader, pickle_new_object(reader, PICKLE_OBJECT, class->name, args));
}

/* NEWOBJ: class, args.  NEWOBJ_EX: class, args, keyword args. */
static bool new_object(struct pickle_reader *reader, int count) {
    struct pickle_value **values = pop(reader, (size_t)count);
    return values && push_object(reader, values[0], values[1]);
}

/* INST: an instance of one of Python 2's old-style classes; its argument names the class, the
 * constructor's arguments are above the mark. */
static bool old_instance(struct pickle_reader *reader) {
    if (!push_global_lines(reader))
        return false;
    const struct pickle_value *class = *pop(reader, 1);
    return push_marked(reader, PICKLE_TUPLE) && push_object(reader, class, *pop(reader, 1));
}

/* OBJ: the same, with the class first above the mark. */
static bool old_object(struct pickle_reader *reader) {
    size_t count = 0;
    struct pickle_value **items = pop_mark(reader, &count);
    if (!items)
        return false;
    if (count == 0)
        return pickle_fail(reader, TXL_FORMAT, "expected a class above the mark");
    const struct pickle_value *class = items[0];
    return push_items(reader, PICKLE_TUPLE, items + 1, count - 1) &&
           push_object(reader, class, *pop(reader, 1));
}

static bool reduce(struct pickle_reader *reader) {
    struct pickle_value **values = pop(reader, 2);
    return values && push_value(reader, pickle_construct(reader, values[0], values[1]));
}

static bool build(struct pickle_reader *reader) {
    struct pickle_value **state = pop(reader, 1);
    struct pickle_value **target = state ? peek(reader, 1) : NULL;
    if (!target)
        return false;
    /* A value that is not an object was reduced to plain data.  Its attributes, such as the
     * _metadata of a state dict, are dropped. */
    if ((*target)->kind == PICKLE_OBJECT || (*target)->kind == PICKLE_OPAQUE)
        (*target)->object->state = *state;
    return true;
}

/* For a class with its source, torch.save writes the id ("module", class, file, source), which
 * stands for the class.  The reader of the storages handles every other id. */
static bool push_persistent(struct pickle_reader *reader) {
    struct pickle_value **top = pop(reader, 1), *id = top ? *top : NULL;
    const struct pickle_value *class = pickle_item(id, 1);
    if (pickle_is_string(pickle_item(id, 0), "module") && class && class->kind == PICKLE_GLOBAL)
        return push_value(reader, id->items.at[1]);
    struct pickle_value *value = id ? pickle_new(reader, PICKLE_PERSISTENT) : NULL;
    if (!value)
        return false;
    value->id = id;
    return pickle_append(reader, &reader->pickle->persistent, &value, 1) &&
           push_value(reader, value);
}

static bool push_persistent_line(struct pickle_reader *reader) {
    struct pickle_string line;
    return take_line(reader, &line) && push_string(reader, PICKLE_STRING, &line) &&
           push_persistent(reader);
}

/* ---- The memo ----------------------------------------------------------------------------- */

static bool memoize(struct pickle_reader *reader, uint64_t index) {
    struct pickle_value **value = peek(reader, 1);
    if (!value)
        return false;
    /* Picklers number stored values from 0 or 1, and each value takes at least a byte. */
    if (index > reader->at - reader->start)
        return pickle_fail(reader, TXL_FORMAT,
                           "the memo's entry %" PRIu64 " is beyond what the stream can have stored",
                           index);
    struct pickle_items *memo = &reader->memo;
    if (index >= memo->count) {
        if (!reserve(reader, memo, (size_t)index + 1))
            return false;
        memset(memo->at + memo->count, 0, (index + 1 - memo->count) * sizeof *memo->at);
        memo->count = (size_t)index + 1;
    }
    memo->at[index] = *value;
    return true;
}

/* MEMOIZE: stores a value under the next number, the count of those stored. */
static bool memoize_next(struct pickle_reader *reader) {
    return memoize(reader, reader->n_memoized++);
}

/* The argument of PUT, GET and their like: `width` bytes, or a decimal line if that is 0. */
static bool take_index(struct pickle_reader *reader, int width, uint64_t *index) {
    if (width)
        return take_number(reader, width, index);
    struct pickle_string line;
    if (!take_line(reader, &line))
        return false;
    if (!all_digits(&line) || line.bytes[0] == '-')
        return pickle_fail(reader, TXL_FORMAT, "expected a decimal number");
    *index = strtoull(line.bytes, NULL, 10); /* its maximum for a number that is too large */
    return true;
}

static bool put_memo(struct pickle_reader *reader, int width) {
    uint64_t index = 0;
    if (!take_index(reader, width, &index))
        return false;
    reader->n_memoized++;
    return memoize(reader, index);
}

static bool get_memo(struct pickle_reader *reader, int width) {
    uint64_t index = 0;
    if (!take_index(reader, width, &index))
        return false;
    if (index >= reader->memo.count || !reader->memo.at[index])
        return pickle_fail(reader, TXL_FORMAT, "nothing was stored as the memo's entry %" PRIu64,
                           index);
    return push_value(reader, reader->memo.at[index]);
}

/* ---- The machine -------------------------------------------------------------------------- */

static bool check_protocol(struct pickle_reader *reader) {
    uint64_t protocol = 0;
    if (!take_number(reader, 1, &protocol))
        return false;
    if (protocol > MAX_PROTOCOL)
        return pickle_fail(reader, TXL_UNSUPPORTED, "pickle protocol %d; 0 to %d are known",
                           (int)protocol, MAX_PROTOCOL);
    return true;
}

/* A reader of a pipe fetches a frame at once.  Here the stream is complete, and must hold the
 * frame. */
static bool check_frame(struct pickle_reader *reader) {
    uint64_t length = 0;
    if (!take_number(reader, 8, &length) || !take_bytes(reader, length))
        return false;
    reader->at -= length;
    return true;
}

static bool drop(struct pickle_reader *reader) {
    if (reader->stack.count == 0 || reader->stack.at[reader->stack.count - 1])
        return pop(reader, 1) != NULL;
    reader->stack.count--; /* a mark */
    return true;
}

static bool drop_marked(struct pickle_reader *reader) {
    size_t count = 0;
    return pop_mark(reader, &count) != NULL;
}

static bool duplicate(struct pickle_reader *reader) {
    struct pickle_value **value = peek(reader, 1);
    return value && push_value(reader, *value);
}

/* The opcodes.  The argument is the width of a number in the stream, the count of values that are
 * popped, their kind, or a truth value. */
static const struct operation {
    bool (*run)(struct pickle_reader *reader);
    bool (*with)(struct pickle_reader *reader, int argument);
    int argument;
} operations[256] = {
    [PROTO] = {check_protocol},                  /* PROTO */
    [0x95] = {check_frame},                      /* FRAME */
    ['('] = {push_mark},                         /* MARK */
    ['0'] = {drop},                              /* POP */
    ['1'] = {drop_marked},                       /* POP_MARK */
    ['2'] = {duplicate},                         /* DUP */
    ['N'] = {.with = push_new, PICKLE_NONE},     /* NONE */
    [0x88] = {.with = push_bool, true},          /* NEWTRUE */
    [0x89] = {.with = push_bool, false},         /* NEWFALSE */
    ['I'] = {push_decimal},                      /* INT */
    ['L'] = {push_decimal},                      /* LONG */
    ['J'] = {.with = push_number, 4},            /* BININT */
    ['K'] = {.with = push_number, 1},            /* BININT1 */
    ['M'] = {.with = push_number, 2},            /* BININT2 */
    [0x8a] = {.with = push_long, 1},             /* LONG1 */
    [0x8b] = {.with = push_long, 4},             /* LONG4 */
    ['F'] = {push_float_line},                   /* FLOAT */
    ['G'] = {push_binary_float},                 /* BINFLOAT */
    ['S'] = {push_literal},                      /* STRING */
    ['V'] = {push_raw_unicode},                  /* UNICODE */
    ['U'] = {.with = push_binary_string, 1},     /* SHORT_BINSTRING */
    ['C'] = {.with = push_binary_string, 1},     /* SHORT_BINBYTES */
    [0x8c] = {.with = push_binary_string, 1},    /* SHORT_BINUNICODE */
    ['T'] = {.with = push_binary_string, 4},     /* BINSTRING */
    ['B'] = {.with = push_binary_string, 4},     /* BINBYTES */
    ['X'] = {.with = push_binary_string, 4},     /* BINUNICODE */
    [0x8e] = {.with = push_binary_string, 8},    /* BINBYTES8 */
    [0x8d] = {.with = push_binary_string, 8},    /* BINUNICODE8 */
    [0x96] = {.with = push_binary_string, 8},    /* BYTEARRAY8 */
    [')'] = {.with = push_tuple, 0},             /* EMPTY_TUPLE */
    [0x85] = {.with = push_tuple, 1},            /* TUPLE1 */
    [0x86] = {.with = push_tuple, 2},            /* TUPLE2 */
    [0x87] = {.with = push_tuple, 3},            /* TUPLE3 */
    ['t'] = {.with = push_marked, PICKLE_TUPLE}, /* TUPLE */
    [']'] = {.with = push_new, PICKLE_LIST},     /* EMPTY_LIST */
    ['l'] = {.with = push_marked, PICKLE_LIST},  /* LIST */
    ['a'] = {.with = add_one, PICKLE_LIST},      /* APPEND */
    ['e'] = {.with = add_marked, PICKLE_LIST},   /* APPENDS */
    [0x8f] = {.with = push_new, PICKLE_SET},     /* EMPTY_SET */
    [0x91] = {.with = push_marked, PICKLE_SET},  /* FROZENSET */
    [0x90] = {.with = add_marked, PICKLE_SET},   /* ADDITEMS */
    ['}'] = {.with = push_new, PICKLE_DICT},     /* EMPTY_DICT */
    ['d'] = {.with = push_marked, PICKLE_DICT},  /* DICT */
    ['s'] = {.with = add_one, PICKLE_DICT},      /* SETITEM */
    ['u'] = {.with = add_marked, PICKLE_DICT},   /* SETITEMS */
    ['c'] = {push_global_lines},                 /* GLOBAL */
    [0x93] = {push_stack_global},                /* STACK_GLOBAL */
    [0x81] = {.with = new_object, 2},            /* NEWOBJ */
    [0x92] = {.with = new_object, 3},            /* NEWOBJ_EX */
    ['i'] = {old_instance},                      /* INST */
    ['o'] = {old_object},                        /* OBJ */
    ['R'] = {reduce},                            /* REDUCE */
    ['b'] = {build},                             /* BUILD */
    ['P'] = {push_persistent_line},              /* PERSID */
    ['Q'] = {push_persistent},                   /* BINPERSID */
    ['p'] = {.with = put_memo, 0},               /* PUT */
    ['q'] = {.with = put_memo, 1},               /* BINPUT */
    ['r'] = {.with = put_memo, 4},               /* LONG_BINPUT */
    [0x94] = {memoize_next},                     /* MEMOIZE */
    ['g'] = {.with = get_memo, 0},               /* GET */
    ['h'] = {.with = get_memo, 1},               /* BINGET */
    ['j'] = {.with = get_memo, 4},               /* LONG_BINGET */
};

static bool run_opcodes(struct pickle_reader *reader) {
    /* Allocates the stack at once, so that a range of no values has an address too. */
    if (!reserve(reader, &reader->stack, 1))
        return false;
    for (;;) {
        reader->opcode = reader->at;
        const unsigned char *opcode = take_bytes(reader, 1);
        if (!opcode)
            return false;
        if (*opcode == STOP)
            break;
        const struct operation *operation = &operations[*opcode];
        if (!operation->run && !operation->with)
            return pickle_fail(reader, TXL_UNSUPPORTED, "unknown pickle opcode 0x%02x", *opcode);
        if (!(operation->run ? operation->run(reader)
                             : operation->with(reader, operation->argument)))
            return false;
    }
    struct pickle_value **root = pop(reader, 1);
    if (!root)
        return false;
    if ((*root)->kind == PICKLE_OPAQUE)
        return pickle_refuse_call(reader, (*root)->object->class_name);
    reader->pickle->root = *root;
    reader->pickle->n_byte = reader->at - reader->start;
    return true;
}

txl_status pickle_read(const unsigned char *data, uint64_t size, uint64_t start, const char *where,
                       struct pickle **pickle, uint64_t *end, txl_error *error) {
    assert(start <= size);
    *pickle = calloc(1, sizeof **pickle);
    if (!*pickle)
        return txl_fail_memory(error, "a pickle", sizeof **pickle);
    struct pickle_reader reader = {
        .pickle = *pickle,
        .data = data,
        .size = size,
        .start = start,
        .at = start,
        .opcode = start,
        .where = where,
        .error = error,
    };
    bool done = run_opcodes(&reader) && pickle_check_keys(&reader);
    free(reader.stack.at);
    free(reader.memo.at);
    if (!done) {
        pickle_free(*pickle);
        *pickle = NULL;
        return reader.status;
    }
    if (end)
        *end = reader.at;
    return TXL_OK;
}

bool pickle_looks_like(const unsigned char *data, uint64_t size) {
    if (size < 2)
        return false;
    if (data[0] == PROTO)
        return true;
    /* Protocols 0 and 1 have no magic: a vocabulary's dict, list or object, to the final STOP. */
    static const char *const starts[] = {
        "(d", "(l", "(i", "}q", "]q", "ccopy_reg\n", "ccollections\n"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        size_t length = strlen(starts[i]);
        if (size > length && memcmp(data, starts[i], length) == 0)
            return data[size - 1] == STOP;
    }
    return false;
}
