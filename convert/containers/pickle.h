/* Reads Python's pickle as data: the objects of a stream become a graph of inert values.
 *
 * Nothing that the stream names is imported, called or built.  An object of a class becomes a
 * record of the class's name, its arguments and its state.  Calls of a few callables
 * (collections.OrderedDict, set, _codecs.encode ...) become plain data, calls of some others
 * records (pickle_construct.c lists them).  The result of any other call is opaque: it has neither
 * keys nor attributes.  A stream whose value is such a result is refused by the call's name.
 *
 * A stream may refer to its values again and again, in cycles too, so code that walks the graph
 * must bound depth and work itself.  Reading a stream takes time and memory in proportion to its
 * size. */
#ifndef CONVERT_PICKLE_H
#define CONVERT_PICKLE_H

#include "txl.h"

/* ---- Values ------------------------------------------------------------------------------- */

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INT,
    PICKLE_BIG_INT, /* beyond int64_t */
    PICKLE_FLOAT,
    PICKLE_STRING, /* str, unicode, bytes and bytearray alike */
    PICKLE_LIST,
    PICKLE_TUPLE,
    PICKLE_SET,
    PICKLE_DICT, /* OrderedDict, Counter and defaultdict too */
    PICKLE_OBJECT,
    PICKLE_OPAQUE,    /* the result of a call that the reader does not know */
    PICKLE_GLOBAL,    /* a class or function that is only named */
    PICKLE_PERSISTENT /* something outside the stream; torch.save: a storage */
};

struct pickle_value;

struct pickle_string {
    const char *bytes; /* not NUL-terminated; unicode is UTF-8 */
    size_t length;
};

struct pickle_items {
    struct pickle_value **at;
    size_t count, capacity;
};

struct pickle_pair {
    struct pickle_value *key, *value;
};

struct pickle_pairs {
    struct pickle_pair *at; /* in order of insertion; no string or integer is a key twice */
    size_t count, capacity;
};

struct pickle_object {
    const char *class_name;     /* "module.Name", of the class or the callable */
    struct pickle_value *args;  /* the constructor's arguments */
    struct pickle_value *state; /* usually a dict of its attributes; NULL: none */
    struct pickle_value *items; /* list or set: what was added to it; NULL: nothing */
    struct pickle_value *pairs; /* dict: what was stored in it by key; NULL: nothing */
};

struct pickle_value {
    enum pickle_kind kind;
    uint32_t rank; /* of a string or an integer, for the reader: equal keys have the same; of a
                      container or an object: its number in the stream, from 1 */
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct pickle_string string;  /* STRING; BIG_INT: two's complement, lowest byte first, or
                                         decimal digits (protocol 0) */
        struct pickle_items items;    /* LIST, TUPLE, SET */
        struct pickle_pairs pairs;    /* DICT */
        struct pickle_object *object; /* OBJECT, OPAQUE */
        const char *name;             /* GLOBAL: "module.Name" */
        struct pickle_value *id;      /* PERSISTENT */
    };
};

/* The values of one stream, which lie in the chunks. */
struct pickle {
    struct pickle_value *root;
    struct pickle_items persistent; /* the PERSISTENT values in order; torch.save writes one each
                                       time a storage is referred to */
    struct pickle_items
        nested;       /* the records of torch.save files within the stream
                         (torch.storage._load_from_bytes), in order, as often as they occur */
    uint64_t n_byte;  /* of the stream; no container has more items than that */
    uint64_t n_value; /* that were made: no rank of a container or an object is larger */
    bool has_opaque;  /* the stream makes an unknown call */
    struct arena_chunk *chunks;
};

/* Frees the pickle with all of its values; NULL is fine. */
void pickle_free(struct pickle *pickle);

/* ---- Looking at values; NULL is a value that is nothing ----------------------------------- */

/* "a list", "an object" ... for messages. */
const char *pickle_kind_name(const struct pickle_value *value);

/* The entry of a dict, or the attribute of an object, under a string key; NULL if there is none,
 * or the value is neither.  Takes time in proportion to the entries. */
const struct pickle_value *pickle_get(const struct pickle_value *value, const char *key);

bool pickle_is_string(const struct pickle_value *value, const char *text);

/* Reads an integer; false if the value is none, or is negative. */
bool pickle_unsigned(const struct pickle_value *value, uint64_t *number);

/* Whether it is a record of the class or callable of that name. */
bool pickle_is_object(const struct pickle_value *value, const char *class_name);

/* Item `i` of a list or tuple; NULL if there is none, or the value is neither. */
const struct pickle_value *pickle_item(const struct pickle_value *value, size_t i);

/* Shared by the parts of the pickle reader: its state, and how it makes values. */

#define PICKLE_MAX_NAME 512 /* of a module or a class: messages show it whole */

struct pickle_reader {
    struct pickle *pickle;
    const unsigned char *data;
    uint64_t size, start, at;
    uint64_t opcode; /* offset of the current opcode */
    const char *where;

    struct pickle_items stack; /* NULL: a mark */
    struct pickle_items memo;  /* NULL: nothing stored there */
    uint64_t n_memoized;       /* values stored so far: the number that MEMOIZE stores under */

    /* How much opcodes copied from earlier in the stream.  A few bytes can ask for a large copy, so
     * the sum may not exceed the size of the stream. */
    uint64_t copied;

    struct pickle_items dicts; /* all of them */

    txl_error *error;
    txl_status status; /* of the failure, once one of the functions below returned false or NULL */
};

/* Notes the failure, with its place, and returns NULL, which is false too. */
void *pickle_fail(struct pickle_reader *reader, txl_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* `size` bytes that live as long as the pickle; NULL: failed. */
void *pickle_allocate(struct pickle_reader *reader, size_t size);

/* A new, empty value; NULL: failed. */
struct pickle_value *pickle_new(struct pickle_reader *reader, enum pickle_kind kind);
struct pickle_value *pickle_new_object(struct pickle_reader *reader, enum pickle_kind kind,
                                       const char *class_name, struct pickle_value *args);

/* Counts a copy against the limit. */
bool pickle_may_copy(struct pickle_reader *reader, uint64_t amount);

bool pickle_append(struct pickle_reader *reader, struct pickle_items *items,
                   struct pickle_value *const *more, size_t count);
bool pickle_store(struct pickle_reader *reader, struct pickle_pairs *pairs,
                  struct pickle_value *key, struct pickle_value *value);

/* Refuses a dict in which a string or an integer is a key twice. */
bool pickle_check_keys(struct pickle_reader *reader);

/* Refuses a call of the callable of that name. */
void *pickle_refuse_call(struct pickle_reader *reader, const char *name);

/* The value of calling `callable` with the tuple `args`; NULL: failed. */
struct pickle_value *pickle_construct(struct pickle_reader *reader, struct pickle_value *callable,
                                      struct pickle_value *args);

/* Reads the stream that begins at data[start].  Strings may point into `data`, which must outlive
 * the pickle.  `where` names the data in messages, offsets count from data[0].  `*end`, unless
 * NULL, receives the offset of the first byte after the stream. */
txl_status pickle_read(const unsigned char *data, uint64_t size, uint64_t start, const char *where,
                       struct pickle **pickle, uint64_t *end, txl_error *error);

/* Whether data begins like a pickle of any protocol. */
bool pickle_looks_like(const unsigned char *data, uint64_t size);

#endif
