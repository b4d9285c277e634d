/* Memory straight from the system: zero, untouched, and in huge pages where it is large. */
#ifndef TXL_PAGES_H
#define TXL_PAGES_H

#include <stddef.h>

/* NULL: the system has none.  What is large begins where a huge page does. */
void *pages_map(size_t size);
void pages_unmap(void *memory, size_t size); /* NULL is fine */

#endif
