/* The model that a command works with, and the settings it runs with. */
#ifndef CLI_MODEL_H
#define CLI_MODEL_H

#include "cli/options/options.h"
#include "txl.h"

#include <jansson.h>

struct model {
    txl_model *handle;
    const char *name; /* the path, or BUILT_IN */
};

/* Opens --model, else $TXL_MODEL, else the model within the program.  False with the error
 * printed. */
bool model_open(struct model *model, const struct common_options *options);
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

/* The checksum that tells models apart, as 16 hexadecimal digits. */
struct model_checksum {
    char text[17];
};
struct model_checksum model_checksum(const struct model *model);

/* How many ids to score in one call: 1,024, which lets more targets outside the softmax's first
 * band be scored together, or 512 where 1,024 would take more than 200 GFLOP and make Ctrl-C wait.
 */
size_t model_score_tokens(const struct model *model);

/* True for an XLNet, whose tokens see both sides. */
bool model_sees_both_sides(const struct model *model);

/* An option that was given, and why it means nothing to an XLNet. */
struct meaningless {
    bool given;
    const char *option, *reason;
};

/* False with the error printed if one of the `n` is given and the model is an XLNet. */
bool model_allows(const struct model *model, const struct meaningless *options, size_t n);

/* The same for options that mean something to an XLNet alone. */
bool model_needs_both_sides(const struct model *model, const struct meaningless *options, size_t n);

/* True for the kinds whose symbols are words. */
bool model_has_words(const struct model *model);

/* True for the kinds whose symbols are bytes, letters or characters. */
bool model_has_characters(const struct model *model);

/* True for the kinds whose symbols are pieces of a SentencePiece model. */
bool model_has_pieces(const struct model *model);

/* --tgt-len, --mem-len, --clamp-len, --same-length, --memory-type. */
struct session_options {
    int64_t tgt_len, mem_len, clamp_len;
    int same_length; /* an index into answers */
    int memory_type; /* an index into memory_types */
    int compute;     /* an index into session_computes */
    int arithmetic;  /* an index into arithmetics */
};

extern const char *const answers[]; /* yes, no */
enum { ANSWER_YES, ANSWER_NO };

extern const char *const memory_types[]; /* f32, f16, bf16: as txl_memory_type */

extern const char *const session_computes[]; /* type, int8: as txl_compute */
extern const char *const arithmetics[];      /* fast, exact: as txl_arithmetic */
extern const char *const computes[];         /* what training multiplies in: f32, bf16 */
enum { COMPUTE_F32, COMPUTE_BF16 };

extern const char *const text_forms[]; /* raw, tokens */
enum { TEXT_RAW, TEXT_TOKENS };

/* How the run's text is split, for the summary: "raw", "tokens" or "ids"; "-" for models that split
 * text in only one way. */
const char *text_form(const struct model *model, int form, bool ids);

/* Sets `*form` to `asked`, the value of --text, or to `standard` if that is CHOICE_UNSET.  False
 * with the error printed if --text is given for a kind that splits text in only one way. */
bool text_form_choose(txl_kind kind, int asked, int standard, int *form);

#define SESSION_UNSET                                                                              \
    { INTEGER_UNSET, INTEGER_UNSET, INTEGER_UNSET, CHOICE_UNSET, CHOICE_UNSET, CHOICE_UNSET }

#define LENGTH_ROWS(type, member)                                                                  \
    {.section = "Segments and memory",                                                             \
     .name = "tgt-len",                                                                            \
     .kind = OPTION_INTEGER,                                                                       \
     .argument = "N",                                                                              \
     .standard = "the checkpoint's",                                                               \
     .help = "tokens of a segment",                                                                \
     .offset = offsetof(type, member.tgt_len),                                                     \
     .least = 1,                                                                                   \
     .most = TXL_MAX_TGT_LEN},                                                                     \
        {.name = "mem-len",                                                                        \
         .kind = OPTION_INTEGER,                                                                   \
         .argument = "N",                                                                          \
         .standard = "the checkpoint's",                                                           \
         .help = "tokens of memory before the segment",                                            \
         .offset = offsetof(type, member.mem_len),                                                 \
         .least = 0,                                                                               \
         .most = TXL_MAX_MEM_LEN},                                                                 \
    {                                                                                              \
        .name = "clamp-len", .kind = OPTION_INTEGER, .argument = "N",                              \
        .standard = "the checkpoint's",                                                            \
        .help = "longest distance with a position of its own; 0 or -1: no limit",                  \
        .offset = offsetof(type, member.clamp_len), .least = -1, .most = INT32_MAX                 \
    }
#define MEMORY_TYPE_ROW(type, member)                                                              \
    {                                                                                              \
        .name = "memory-type", .kind = OPTION_CHOICE, .choices = memory_types, .standard = "f32",  \
        .help =                                                                                    \
            "type that keys, values and position rows are kept in; 16 bits take half the memory",  \
        .offset = offsetof(type, member.memory_type)                                               \
    }
#define SESSION_ROWS(type, member)                                                                 \
    LENGTH_ROWS(type, member),                                                                     \
        {.name = "same-length",                                                                    \
         .kind = OPTION_CHOICE,                                                                    \
         .choices = answers,                                                                       \
         .standard = "the checkpoint's",                                                           \
         .help = "let every token see exactly mem-len positions, itself included",                 \
         .offset = offsetof(type, member.same_length)},                                            \
        MEMORY_TYPE_ROW(type, member)

#define ARITHMETIC_ROW(type, member)                                                               \
    {                                                                                              \
        .name = "arithmetic", .kind = OPTION_CHOICE, .choices = arithmetics, .standard = "fast",   \
        .help = "exact: every number has the same bits on every machine, however the text is "     \
                "divided; slower",                                                                 \
        .offset = offsetof(type, member.arithmetic)                                                \
    }

/* Overrides the settings that the command line gives. */
void settings_override(txl_settings *settings, const struct session_options *options,
                       const struct common_options *common);

/* Opens a session; false with the error printed. */
bool session_open(const struct model *model, const txl_settings *settings, txl_session **session);

#endif
