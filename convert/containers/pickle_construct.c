/* The callables that a pickle may call, and the plain data that each call becomes. */
#include "pickle.h"

#include <string.h>

enum meaning {
    RECORD,    /* the callable's name and its arguments */
    DICT,      /* empty, or with the first argument's entries or pairs */
    DEFAULT,   /* the same; the first argument makes defaults */
    SET,       /* with the first argument's items */
    FIRST,     /* its first argument */
    NEW,       /* an object of the class that is its first argument */
    ENCODED,   /* a string's bytes in an encoding */
    FROM_TYPE, /* the third argument, converted by the first */
    NESTED,    /* a record of a torch.save file, which is the first argument */
};

static const struct constructor {
    const char *name;
    enum meaning meaning;
} constructors[] = {
    {"__builtin__.bytearray", RECORD},
    {"__builtin__.complex", RECORD},
    {"__builtin__.dict", DICT},
    {"__builtin__.frozenset", SET},
    {"__builtin__.object", RECORD},
    {"__builtin__.set", SET},
    {"__builtin__.slice", RECORD},
    {"__builtin__.xrange", RECORD},
    {"_codecs.encode", ENCODED},
    {"argparse.Namespace", RECORD},
    {"builtins.bytearray", RECORD},
    {"builtins.complex", RECORD},
    {"builtins.dict", DICT},
    {"builtins.frozenset", SET},
    {"builtins.object", RECORD},
    {"builtins.range", RECORD},
    {"builtins.set", SET},
    {"builtins.slice", RECORD},
    {"collections.Counter", DICT},
    {"collections.OrderedDict", DICT},
    {"collections.defaultdict", DEFAULT},
    {"collections.deque", RECORD},
    {"copy_reg._reconstructor", NEW},
    {"copyreg._reconstructor", NEW},
    {"datetime.date", RECORD},
    {"datetime.datetime", RECORD},
    {"datetime.timedelta", RECORD},
    {"numpy._core.multiarray._reconstruct", RECORD},
    {"numpy._core.multiarray.scalar", RECORD},
    {"numpy.core.multiarray._reconstruct", RECORD},
    {"numpy.core.multiarray.scalar", RECORD},
    {"numpy.dtype", RECORD},
    {"numpy.ndarray", RECORD},
    {"pathlib.Path", RECORD},
    {"pathlib.PosixPath", RECORD},
    {"pathlib.PurePosixPath", RECORD},
    {"pathlib.PureWindowsPath", RECORD},
    {"pathlib.WindowsPath", RECORD},
    {"torch.Size", FIRST},
    {"torch._tensor._rebuild_from_type_v2", FROM_TYPE},
    {"torch._utils._rebuild_parameter", FIRST},
    {"torch._utils._rebuild_parameter_with_state", FIRST},
    {"torch._utils._rebuild_tensor", RECORD},
    {"torch._utils._rebuild_tensor_v2", RECORD},
    {"torch._utils._rebuild_tensor_v3", RECORD},
    {"torch.device", RECORD},
    {"torch.nn.backends.thnn._get_thnn_function_backend", RECORD},
    {"torch.nn.parameter.Parameter", FIRST},
    {"torch.storage._load_from_bytes", NESTED},
};

static const struct constructor *find_constructor(const char *name) {
    for (size_t i = 0; i < sizeof constructors / sizeof *constructors; i++)
        if (strcmp(constructors[i].name, name) == 0)
            return &constructors[i];
    return NULL;
}

static struct pickle_value *argument(const struct pickle_value *args, size_t i) {
    return i < args->items.count ? args->items.at[i] : NULL;
}

static struct pickle_value *refuse(struct pickle_reader *reader, const char *name,
                                   const struct pickle_value *given) {
    return pickle_fail(reader, TXL_FORMAT, "calls %s with %s, which it does not take", name,
                       pickle_kind_name(given));
}

/* A dict of [[key, value], ...], the form in which Python 2 pickled an OrderedDict. */
static struct pickle_value *dict_of_pairs(struct pickle_reader *reader, const char *name,
                                          const struct pickle_value *list) {
    struct pickle_value *dict = pickle_new(reader, PICKLE_DICT);
    if (!dict || !pickle_may_copy(reader, list->items.count))
        return NULL;
    for (size_t i = 0; i < list->items.count; i++) {
        const struct pickle_value *pair = list->items.at[i];
        if ((pair->kind != PICKLE_LIST && pair->kind != PICKLE_TUPLE) || pair->items.count != 2)
            return refuse(reader, name, list);
        if (!pickle_store(reader, &dict->pairs, pair->items.at[0], pair->items.at[1]))
            return NULL;
    }
    return dict;
}

static struct pickle_value *make_dict(struct pickle_reader *reader, const char *name,
                                      struct pickle_value *source) {
    if (!source)
        return pickle_new(reader, PICKLE_DICT);
    if (source->kind == PICKLE_DICT)
        return source; /* nothing else refers to it: pickling made it for this call */
    if (source->kind == PICKLE_LIST || source->kind == PICKLE_TUPLE)
        return dict_of_pairs(reader, name, source);
    return refuse(reader, name, source);
}

static struct pickle_value *make_set(struct pickle_reader *reader, const char *name,
                                     const struct pickle_value *source) {
    if (source && source->kind != PICKLE_LIST && source->kind != PICKLE_TUPLE &&
        source->kind != PICKLE_SET)
        return refuse(reader, name, source);
    struct pickle_value *set = pickle_new(reader, PICKLE_SET);
    if (!set || !source)
        return set;
    if (!pickle_may_copy(reader, source->items.count) ||
        !pickle_append(reader, &set->items, source->items.at, source->items.count))
        return NULL;
    return set;
}

/* The Latin-1 bytes of UTF-8 text: how protocols below 3 write bytes. */
static struct pickle_value *latin1_of_utf8(struct pickle_reader *reader,
                                           const struct pickle_string *text) {
    struct pickle_value *value = pickle_new(reader, PICKLE_STRING);
    if (!value || !pickle_may_copy(reader, text->length))
        return NULL;
    char *out = pickle_allocate(reader, text->length);
    if (!out)
        return NULL;
    size_t n = 0;
    for (size_t i = 0; i < text->length; i++) {
        unsigned char c = (unsigned char)text->bytes[i];
        if (c >= 0x80) {
            /* Code points U+0080 to U+00FF begin with C2 or C3. */
            unsigned char next = i + 1 < text->length ? (unsigned char)text->bytes[i + 1] : 0;
            if ((c != 0xc2 && c != 0xc3) || (next & 0xc0) != 0x80)
                return pickle_fail(reader, TXL_FORMAT,
                                   "encodes a string as latin1 with characters beyond it");
            c = (unsigned char)((c & 3) << 6 | (next & 0x3f));
            i++;
        }
        out[n++] = (char)c;
    }
    value->string = (struct pickle_string){out, n};
    return value;
}

static struct pickle_value *encode(struct pickle_reader *reader, struct pickle_value *text,
                                   const struct pickle_value *encoding) {
    if (!text || text->kind != PICKLE_STRING)
        return refuse(reader, "_codecs.encode", text);
    if (!encoding || pickle_is_string(encoding, "utf-8") || pickle_is_string(encoding, "utf8"))
        return text;
    if (pickle_is_string(encoding, "latin1") || pickle_is_string(encoding, "latin-1"))
        return latin1_of_utf8(reader, &text->string);
    return pickle_fail(reader, TXL_UNSUPPORTED,
                       "calls _codecs.encode with another encoding than utf-8 or latin1");
}

static struct pickle_value *make_nested(struct pickle_reader *reader, const char *name,
                                        struct pickle_value *args) {
    const struct pickle_value *file = argument(args, 0);
    if (!file || file->kind != PICKLE_STRING)
        return refuse(reader, name, file);
    struct pickle_value *record = pickle_new_object(reader, PICKLE_OBJECT, name, args);
    bool listed = record && pickle_append(reader, &reader->pickle->nested, &record, 1);
    return listed ? record : NULL;
}

static struct pickle_value *construct(struct pickle_reader *reader,
                                      const struct constructor *constructor,
                                      struct pickle_value *args) {
    struct pickle_value *first = argument(args, 0);
    switch (constructor->meaning) {
    case RECORD:
        return pickle_new_object(reader, PICKLE_OBJECT, constructor->name, args);
    case DICT:
        return make_dict(reader, constructor->name, first);
    case DEFAULT:
        return make_dict(reader, constructor->name, argument(args, 1));
    case SET:
        return make_set(reader, constructor->name, first);
    case FIRST:
        return first ? first : refuse(reader, constructor->name, first);
    case NEW:
        if (!first || first->kind != PICKLE_GLOBAL)
            return refuse(reader, constructor->name, first);
        return pickle_new_object(reader, PICKLE_OBJECT, first->name, args);
    case ENCODED:
        return encode(reader, first, argument(args, 1));
    case NESTED:
        return make_nested(reader, constructor->name, args);
    case FROM_TYPE:
        break; /* resolved by the caller */
    }
    return refuse(reader, constructor->name, first);
}

void *pickle_refuse_call(struct pickle_reader *reader, const char *name) {
    return pickle_fail(reader, TXL_UNSUPPORTED,
                       "the pickle calls %s, which txl does not know; it calls nothing and knows "
                       "only what checkpoints need",
                       name);
}

/* A call that makes a tensor must be known: else the tensor would be missing, and pass for tied. */
static bool makes_tensor(const char *name) {
    static const char rebuild[] = "torch._utils._rebuild_";
    return strncmp(name, rebuild, strlen(rebuild)) == 0;
}

struct pickle_value *pickle_construct(struct pickle_reader *reader, struct pickle_value *callable,
                                      struct pickle_value *args) {
    const bool is_result = callable->kind == PICKLE_OPAQUE;
    if ((callable->kind != PICKLE_GLOBAL && !is_result) || args->kind != PICKLE_TUPLE)
        return pickle_fail(reader, TXL_FORMAT,
                           "expected a function and a tuple to call it with, not %s "
                           "and %s",
                           pickle_kind_name(callable), pickle_kind_name(args));
    const char *name = is_result ? callable->object->class_name : callable->name;
    const struct constructor *constructor = is_result ? NULL : find_constructor(name);
    bool must_know = makes_tensor(name);
    if (constructor && constructor->meaning == FROM_TYPE) {
        callable = argument(args, 0);
        args = argument(args, 2);
        if (!callable || callable->kind != PICKLE_GLOBAL || !args || args->kind != PICKLE_TUPLE)
            return refuse(reader, constructor->name, callable);
        name = callable->name;
        constructor = find_constructor(name);
        must_know = true;
    }
    if (constructor)
        return construct(reader, constructor, args);
    if (!must_know)
        return pickle_new_object(reader, PICKLE_OPAQUE, name, args);
    return pickle_refuse_call(reader, name);
}
