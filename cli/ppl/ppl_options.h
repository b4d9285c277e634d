/* The command line of txl ppl: its options, which of them can be combined, and its help. */
#ifndef CLI_PPL_OPTIONS_H
#define CLI_PPL_OPTIONS_H

#include "cli/score/run.h"

struct ppl_options {
    struct common_options common;
    struct scoring_options scoring;
    int preset;
    int64_t batch, sliding_window, refresh; /* 0: off; batch 0: not given */
    bool recl, ids, merge;
    const char *sweep_memory, *shard;
    struct string_list compare;
    double fail_above; /* NAN: off */
};

extern const struct option_row ppl_option_rows[];
extern const struct moved_option ppl_moved[];
extern const struct operand_row ppl_operands[];
extern const char ppl_topics[];
extern const struct example ppl_examples[];

/* OTHER of --compare; NULL: none.  With --recl all are models of a group. */
const char *ppl_other(const struct ppl_options *options);

#endif
