/* The largest model that the converter writes and the loader opens.  A few bytes of a file state
 * its sizes, so they are compared with these limits before anything of that size is allocated.
 * Each limit is far above the largest published value, which stands before the reason.  The bounds
 * of a session's settings are in txl.h, those of one reader alone (nesting, names, shards) in that
 * reader. */
#ifndef TXL_MODEL_LIMITS_H
#define TXL_MODEL_LIMITS_H

#include "txl.h"

#include <assert.h>

#define MAX_MODEL_NAME 63 /* bytes; 5: a compressed text states the length in a byte */

enum {
    MAX_N_TOKEN = 1 << 24, /* 793,471: a session's distributions stay below 400 MB */
    MAX_N_LAYER = 1 << 10, /* 24: the table of layers stays below 1 MiB */
    MAX_N_HEAD = 1 << 12,  /* 16: see the assertion */
    MAX_D_HEAD = 1 << 14,  /* 128: likewise */
    MAX_D_MODEL = 1 << 16, /* 1,280: activations of a pass of 512 tokens stay below 1 GB */
    MAX_D_INNER = 1 << 20, /* 8,192: likewise, 3 GB */
    MAX_LABEL = 1 << 16,   /* 3: a table with a column for each is still one */
    MAX_LABEL_NAME = 255,  /* bytes; 25 */
    MAX_N_TOP = 1 << 12,   /* 5: answers that a head keeps are its square */
    MAX_BAND = 65,         /* 4: so that tables of bands can be arrays */
    MAX_KLEN = TXL_MAX_TGT_LEN + TXL_MAX_MEM_LEN, /* learned distances: those that are ever seen */
    MAX_TENSOR = 1 << 18 /* under 400: 16 for each of MAX_N_LAYER layers, 16 times over */
};

/* The bytes of the longest session's keys, values and position rows fit 64 bits. */
static_assert((uint64_t)MAX_N_LAYER * MAX_N_HEAD * MAX_D_HEAD <=
                  UINT64_MAX / 4 / sizeof(float) / (TXL_MAX_TGT_LEN + TXL_MAX_MEM_LEN),
              "a session's memory may not fit 64 bits");

#endif
