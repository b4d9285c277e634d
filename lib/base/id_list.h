/* A list of ids that grows.  The ids are not checked. */
#ifndef TXL_ID_LIST_H
#define TXL_ID_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero is an empty list. */
struct id_list {
    int32_t *ids; /* [n] */
    size_t n, capacity;
};

/* Adds an id at the end.  False when there is no memory; the list is then as it was. */
bool id_list_add(struct id_list *list, int32_t id);

void id_list_free(struct id_list *list);

#endif
