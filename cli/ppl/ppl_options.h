/* The command line of txl ppl: its options, which of them can be combined, and its help. */
#ifndef CLI_PPL_OPTIONS_H
#define CLI_PPL_OPTIONS_H

#include "cli/model/dynamic.h"
#include "cli/model/settings.h"
#include "cli/text/tokens.h"

enum { WITHIN_WORD_BOTH, WITHIN_WORD_LEFT };
enum { SPACE_WITH_NEXT, SPACE_WITH_PREVIOUS };

struct ppl_options {
    struct common_options common;
    struct session_options session;
    int preset, text, space_with;
    int64_t batch, sliding_window, max_tokens, logprobs, refresh; /* 0: off; batch 0: not given */
    int64_t prefer_region;                                        /* -1: the whole text */
    bool both_sides, recl;
    int within_word;
    const char *factorization;
    bool per_line, entropy, no_eos, ids, skip_unknown, json, heat, merge, cache;
    const char *per_token, *per_word, *report, *sweep_memory, *shard;
    struct string_list items, columns, compare;
    const char *per_region, *prefer, *prefer_by, *context, *context_text;
    double fail_above; /* NAN: off */
    struct dynamic_options dynamic;
};

extern const struct option_row ppl_option_rows[];
extern const struct operand_row ppl_operands[];
extern const struct note ppl_notes[];
extern const struct example ppl_examples[];

/* OTHER of --compare; NULL: none.  With --recl all are models of a group. */
const char *ppl_other(const struct ppl_options *options);

/* How many tables, but for that of lines, come on standard output, before the results. */
int ppl_tables_shown(const struct ppl_options *options);

/* OPTIONS_RUN, or the status after printing which options cannot be combined. */
int ppl_options_check(const struct command *command, const struct ppl_options *options,
                      const struct operands *files);

#endif
