/* The files that a checkpoint is read from. */
#include "checkpoint_internal.h"

#include "lib/base/error.h"

#include <stdlib.h>

struct checkpoint_source *checkpoint_new_source(struct checkpoint *checkpoint, txl_error *error) {
    size_t room = (checkpoint->n_source + 1) * sizeof(struct checkpoint_source *);
    struct checkpoint_source **sources = realloc(checkpoint->sources, room);
    if (sources)
        checkpoint->sources = sources;
    struct checkpoint_source *source = sources ? calloc(1, sizeof *source) : NULL;
    if (!source) {
        txl_fail_memory(error, "a checkpoint", room + sizeof *source);
        return NULL;
    }
    checkpoint->sources[checkpoint->n_source++] = source;
    return source;
}

void checkpoint_close_source(struct checkpoint_source *source) {
    torch_save_free(source);
    free(source->parts);
    mapped_file_close(&source->file);
    free(source);
}
