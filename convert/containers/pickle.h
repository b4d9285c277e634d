/* Python's pickle as data: what a stream would build becomes a graph of inert values.
 *
 * Nothing is imported, called or built that the stream names.  An object of a class is a record of
 * the class's name, its arguments and its state.  The few callables that stand for plain data
 * (collections.OrderedDict, set, _codecs.encode ...) become that data, some others (the list is in
 * pickle_construct.c) become records, and a stream that calls anything else is refused by name.
 *
 * A stream may refer to its values again and again, in cycles too.  So who walks over the graph
 * has to bound depth and work himself; reading it takes time and memory in proportion to the
 * stream's size. */
#ifndef CONVERT_PICKLE_H
#define CONVERT_PICKLE_H

#include "txl.h"

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
    struct pickle_pair *at; /* in order of insertion; of equal keys the last one counts */
    size_t count, capacity;
};

struct pickle_object {
    const char *class_name;     /* "module.Name", of the class or the callable */
    struct pickle_value *args;  /* what it was made with */
    struct pickle_value *state; /* a dict of its attributes as a rule; NULL: none */
    struct pickle_value *items; /* list or set: what was added to it; NULL: nothing */
    struct pickle_value *pairs; /* dict: what was stored in it by key; NULL: nothing */
};

struct pickle_value {
    enum pickle_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct pickle_string string; /* STRING; BIG_INT: two's complement, lowest byte first, or
                                        decimal digits (protocol 0) */
        struct pickle_items items;   /* LIST, TUPLE, SET */
        struct pickle_pairs pairs;   /* DICT */
        struct pickle_object *object;
        const char *name;        /* GLOBAL: "module.Name" */
        struct pickle_value *id; /* PERSISTENT */
    };
};

struct pickle; /* owns the values of one stream */

/* Reads the stream that begins at data[start].  Strings may point into `data`, which must outlive
 * the pickle.  `where` names the data in messages, offsets count from data[0].  `*end`, unless
 * NULL, receives the offset of the first byte after the stream. */
txl_status pickle_read(const unsigned char *data, uint64_t size, uint64_t start, const char *where,
                       struct pickle **pickle, uint64_t *end, txl_error *error);

/* Frees the pickle with all of its values; NULL is fine. */
void pickle_free(struct pickle *pickle);

/* What the stream stands for. */
const struct pickle_value *pickle_root(const struct pickle *pickle);

/* The stream's length.  No container can have been filled with more items than that. */
uint64_t pickle_n_byte(const struct pickle *pickle);

/* The PERSISTENT values in order; torch.save writes one each time a storage is referred to. */
size_t pickle_n_persistent(const struct pickle *pickle);
const struct pickle_value *pickle_persistent(const struct pickle *pickle, size_t i);

/* Whether data begins like a pickle of any protocol. */
bool pickle_looks_like(const unsigned char *data, uint64_t size);

/* ---- Looking at values; NULL is a value that is nothing ------------------------------------ */

/* "a list", "an object" ... for messages. */
const char *pickle_kind_name(const struct pickle_value *value);

/* The entry of a dict, or the attribute of an object, under a string key; NULL if there is none,
 * or the value is neither.  Takes time in proportion to the entries. */
const struct pickle_value *pickle_get(const struct pickle_value *value, const char *key);

bool pickle_is_string(const struct pickle_value *value, const char *text);

/* Whether it is a record of the class or callable of that name. */
bool pickle_is_object(const struct pickle_value *value, const char *class_name);

/* Item `i` of a list or tuple; NULL if there is none, or the value is neither. */
const struct pickle_value *pickle_item(const struct pickle_value *value, size_t i);

#endif
