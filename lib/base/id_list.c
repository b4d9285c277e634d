/* A list of ids that grows.  The ids are not checked. */
#include "id_list.h"

#include <stdlib.h>

bool id_list_add(struct id_list *list, int32_t id) {
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        int32_t *ids = reallocarray(list->ids, capacity, sizeof *ids);
        if (!ids)
            return false;
        list->ids = ids;
        list->capacity = capacity;
    }
    list->ids[list->n++] = id;
    return true;
}

void id_list_free(struct id_list *list) {
    free(list->ids);
    *list = (struct id_list){0};
}
