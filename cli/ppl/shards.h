/* An evaluation in parts: what a shard (--shard I/N) states in addition to its result, and how
 * --merge computes the whole result from all shards, bit for bit that of --batch N. */
#ifndef CLI_PPL_SHARDS_H
#define CLI_PPL_SHARDS_H

#include "cli/score/result.h"

struct shard {
    uint64_t number, of; /* `number` counts from 1; `of` is 0 if there are no shards */
};

/* Parses a shard such as "3/10".  False if it is none. */
bool shard_parse(struct shard *shard, const char *text);

/* Adds everything that a merge needs to the result's object. */
bool shard_to_json(json_t *object, const struct shard *shard, const struct result *result,
                   const struct setup *setup, const struct model *model);

/* The result of a merge; end with merged_free. */
struct merged {
    struct setup setup;
    struct result result;
    json_t *first; /* the object of shard 1, whose strings the others point to */
};

/* Reads the shards' files, in any order.  False after a signal, or with the error printed: it names
 * the missing shard, or the file that is no shard, belongs to another evaluation, was interrupted,
 * or repeats a shard. */
bool merge_files(struct merged *merged, char **paths, int n);
void merged_free(struct merged *merged);

#endif
