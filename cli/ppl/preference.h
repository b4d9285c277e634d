/* --prefer A,B: in how many items condition A has fewer nats than B.
 *
 * An item's rows may stand anywhere in the table, so 24 bytes are kept of each item, and 5 to 10 of
 * an index; the names are in an unnamed temporary file. */
#ifndef CLI_PREFERENCE_H
#define CLI_PREFERENCE_H

#include "table.h"

#include <jansson.h>

struct preference {
    bool on;
    const char *name;  /* of the table, for messages */
    const char *a, *b; /* conditions, of [n_a] and [n_b] bytes */
    size_t n_a, n_b;
    int64_t region; /* < 0: the whole text */
    struct known_item {
        uint64_t hash;  /* of its name */
        uint64_t state; /* flags, and above them where its name is */
        double nats;    /* of the condition that came first */
    } * items;          /* [room]; the first n are taken */
    size_t n, room;
    uint32_t *slots; /* [n_slot], a hash table with open addressing: an item's number plus 1; 0:
                        none */
    size_t n_slot;
    FILE *names; /* of each item: struct name_head, then the name */
    uint64_t names_end;
    uint64_t pairs;     /* items with both conditions */
    uint64_t preferred; /* of these: A has fewer nats */
    uint64_t ties;
    uint64_t left_out; /* items that miss a condition or have one twice */
};

/* Takes "A,B", which must live as long; false if it is no such pair. */
bool preference_parse(struct preference *preference, const char *text);

/* Adds a text; `nats` is NULL if the text has no such region.  False with the error printed. */
bool preference_add(struct preference *preference, const struct own_value *item,
                    const struct own_value *condition, const double *nats, uint64_t line);

/* Counts; with `all` names the items that miss a condition.  False with the error printed. */
bool preference_end(struct preference *preference, bool all);
void preference_free(struct preference *preference);

/* Both conditions, shares and counts; NULL when memory is short. */
json_t *preference_to_json(const struct preference *preference);

/* A line for people on standard output. */
bool preference_print(const struct preference *preference, const char *name);

#endif
