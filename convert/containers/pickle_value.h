/* The values of a pickle, and access to them. */
#ifndef CONVERT_PICKLE_VALUE_H
#define CONVERT_PICKLE_VALUE_H

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

/* ---- Looking at values; NULL is a value that is nothing ------------------------------------ */

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

#endif
