/* The model that a command works with. */
#ifndef CLI_MODEL_H
#define CLI_MODEL_H

#include "cli/options/options.h"
#include "txl.h"

struct model {
    txl_model *handle;
    const char *name; /* the path, or BUILT_IN */
};

/* Opens --model, else $TXL_MODEL, else the model within the program, which is to be a language
 * model.  False with the error printed. */
bool model_open(struct model *model, const struct common_options *options);

/* The same of a model of any kind, and of one with a head for txl classify, or for `questions`, of
 * txl answer. */
bool model_open_any(struct model *model, const struct common_options *options);
bool model_open_head(struct model *model, const struct common_options *options, bool questions);
void model_close(struct model *model);

/* Whether `path`, NULL or BUILT_IN, means the model within the program. */
bool model_is_built_in(const char *path);

/* The weights file within the program. */
const void *model_built_in(size_t *size);

/* Opens the file at `path`, or the model within the program.  A failure is in `error`. */
txl_status model_open_file(struct model *model, const char *path, int threads, bool low_memory,
                           txl_error *error);

/* $TXL_MODEL, or NULL where it names none. */
const char *model_environment(void);

/* What a message adds to a path that $TXL_MODEL names, as the command line may not; else "". */
const char *model_origin(const char *path);

/* The checksum that tells models apart, as 16 hexadecimal digits. */
struct model_checksum {
    char text[17];
};
struct model_checksum model_checksum(const struct model *model);

/* How many ids to score in one call: 1,024, which lets more targets outside the softmax's first
 * band be scored together, or 512 where 1,024 would take more than 200 GFLOP and make Ctrl-C wait.
 */
size_t model_score_tokens(const struct model *model);

/* False with the error printed if the model has fewer symbols than --logprobs asks for. */
bool model_has_symbols(const struct model *model, int64_t logprobs);

/* The number of trained parameters: without the sinusoids' frequencies. */
uint64_t model_parameters(const txl_model *model);

/* True for an XLNet, whose tokens see both sides. */
bool model_sees_both_sides(const struct model *model);

/* What its symbols are: words, pieces of a SentencePiece model, or characters, letters or bytes. */
txl_unit model_unit(const txl_model *model);

/* An option that was given, and why it means nothing to an XLNet. */
struct meaningless {
    bool given;
    const char *option, *reason;
};

/* False with the error printed if one of the `n` is given and the model is an XLNet. */
bool model_allows(const struct model *model, const struct meaningless *options, size_t n);

/* The same for options that mean something to an XLNet alone. */
bool model_needs_both_sides(const struct model *model, const struct meaningless *options, size_t n);

/* Bytes of available memory, or what is left of the process's own limit. */
double free_memory(void);

#endif
