/* An evaluation in parts: what a shard (--shard I/N) states beside its result, and the whole result
 * from all shards (--merge), the same bits as of one run with --batch N. */
#ifndef CLI_MERGE_H
#define CLI_MERGE_H

#include "result.h"

struct shard {
    uint64_t number, of; /* the number from 1; of 0: it is none */
};

/* Reads "3/10".  False when it is not such. */
bool shard_parse(struct shard *shard, const char *text);

/* Adds to the result's object all that a merge needs to know. */
bool shard_to_json(json_t *object, const struct shard *shard, const struct result *result,
                   const struct run_facts *facts, const struct model *model);

/* What a merge gives; end with merged_free. */
struct merged {
    struct run_facts facts;
    struct result result;
    json_t *first; /* the object of shard 1, whose strings the others point to */
};

/* Reads the shards' files, in any order.  False after a signal, or with the error printed, which
 * names the file that is no shard, not of the same evaluation, interrupted or there already, or the
 * shard that is missing. */
bool merge_files(struct merged *merged, char **paths, int n);
void merged_free(struct merged *merged);

#endif
