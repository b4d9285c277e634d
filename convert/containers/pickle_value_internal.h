/* Shared by the parts of the pickle reader: its state, and how it makes values. */
#ifndef CONVERT_PICKLE_VALUE_INTERNAL_H
#define CONVERT_PICKLE_VALUE_INTERNAL_H

#include "pickle_value.h"

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

#endif
