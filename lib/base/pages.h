/* Memory straight from the system: zero, untouched, and in huge pages where it is large. */
#ifndef TXL_PAGES_H
#define TXL_PAGES_H

#include <stddef.h>

/* NULL when out of memory.  Memory of at least a huge page is aligned to one. */
void *pages_map(size_t size);
void pages_unmap(void *memory, size_t size); /* NULL is fine */

#endif
