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

/* Reads the stream that begins at data[start].  Strings may point into `data`, which must outlive
 * the pickle.  `where` names the data in messages, offsets count from data[0].  `*end`, unless
 * NULL, receives the offset of the first byte after the stream. */
txl_status pickle_read(const unsigned char *data, uint64_t size, uint64_t start, const char *where,
                       struct pickle **pickle, uint64_t *end, txl_error *error);

/* Whether data begins like a pickle of any protocol. */
bool pickle_looks_like(const unsigned char *data, uint64_t size);

#endif
