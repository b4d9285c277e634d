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

#include "pickle_value.h"

struct pickle; /* owns the values of one stream */

/* Reads the stream that begins at data[start].  Strings may point into `data`, which must outlive
 * the pickle.  `where` names the data in messages, offsets count from data[0].  `*end`, unless
 * NULL, receives the offset of the first byte after the stream. */
txl_status pickle_read(const unsigned char *data, uint64_t size, uint64_t start, const char *where,
                       struct pickle **pickle, uint64_t *end, txl_error *error);

/* Frees the pickle with all of its values; NULL is fine. */
void pickle_free(struct pickle *pickle);

/* The value of the stream. */
const struct pickle_value *pickle_root(const struct pickle *pickle);

/* Whether the stream makes an unknown call. */
bool pickle_has_opaque(const struct pickle *pickle);

/* How many values were made: no rank of a container or an object is larger. */
uint64_t pickle_n_value(const struct pickle *pickle);

/* The stream's length.  No container has more items than that. */
uint64_t pickle_n_byte(const struct pickle *pickle);

/* The PERSISTENT values in order; torch.save writes one each time a storage is referred to. */
size_t pickle_n_persistent(const struct pickle *pickle);
const struct pickle_value *pickle_persistent(const struct pickle *pickle, size_t i);

/* The records of torch.save files within the stream (torch.storage._load_from_bytes), in order, as
 * often as they occur. */
size_t pickle_n_nested(const struct pickle *pickle);
const struct pickle_value *pickle_nested(const struct pickle *pickle, size_t i);

/* Whether data begins like a pickle of any protocol. */
bool pickle_looks_like(const unsigned char *data, uint64_t size);

#endif
