/* The settings of a run: the options that give them, and how every result states those that decide
 * its numbers. */
#ifndef CLI_SETTINGS_H
#define CLI_SETTINGS_H

#include "convert/published.h"
#include "model.h"
#include "txl.h"

#include <jansson.h>

/* --tgt-len, --mem-len, --clamp-len, --same-length, --memory-type. */
struct session_options {
    int64_t tgt_len, mem_len, clamp_len;
    int same_length; /* an index into answers */
    int memory_type; /* an index into memory_types */
    int compute;     /* an index into session_computes */
    int arithmetic;  /* an index into arithmetics */
};

extern const char *const weight_types[];    /* of a weights file's matrices: f32, ... */
extern const char *const embedding_types[]; /* q8, q4: of the others if these are q4 or q5 */
extern const char *const memory_types[];    /* f32, f16, bf16, q8: as txl_memory_type */

extern const char *const session_computes[]; /* f32, int8, bf16: as txl_compute */
extern const char *const arithmetics[];      /* fast, exact: as txl_arithmetic */
extern const char *const train_computes[];   /* what training multiplies in: f32, bf16 */
enum { COMPUTE_F32, COMPUTE_BF16 };

/* A file's type of weights as txl_model_write takes it; `type` and `embeddings` index the tables
 * above, and embeddings may be CHOICE_UNSET. */
enum { WEIGHT_TYPE_TEXT = 16 };
void weight_type_text(int type, int embeddings, char text[WEIGHT_TYPE_TEXT]);

#define EMBEDDINGS_ROW(offset)                                                                     \
    {                                                                                              \
        "embeddings", OPTION_CHOICE, offset,                                                       \
            "with --type q4 or q5: type of the embeddings and the softmax's weights",              \
            .choices = embedding_types, .standard = "--type's", .needs = "type=q4 type=q5"         \
    }

/* Defaults that txl bench measures with too: new tokens that an XLNet generates before it reads all
 * known ones again, and training. */
#define REFRESH_TOKENS 16
#define TRAIN_BATCH 16
#define TRAIN_CLIP 0.25
#define TRAIN_EPSILON 1e-8
#define TRAIN_DROPOUT 0.1

#define SESSION_UNSET                                                                              \
    { INTEGER_UNSET, INTEGER_UNSET, INTEGER_UNSET, CHOICE_UNSET, CHOICE_UNSET, CHOICE_UNSET }

/* Rows of options that several commands have.  In the brackets stand .offset, .standard and what
 * else a command has its own of. */
#define TGT_LEN_ROW(...)                                                                           \
    OPTION_ROW("tgt-len", OPTION_INTEGER, .help = "tokens of a segment", .least = 1,               \
               .most = TXL_MAX_TGT_LEN, __VA_ARGS__)
#define MEM_LEN_ROW(...)                                                                           \
    OPTION_ROW("mem-len", OPTION_INTEGER, .help = "tokens of memory before the segment",           \
               .most = TXL_MAX_MEM_LEN, __VA_ARGS__)
#define CLAMP_LEN_ROW(...)                                                                         \
    OPTION_ROW("clamp-len", OPTION_INTEGER,                                                        \
               .help = "treat longer distances as N; 0 or -1: no limit", .least = -1,              \
               .most = INT32_MAX, __VA_ARGS__)
#define SAME_LENGTH_ROW(...)                                                                       \
    OPTION_ROW("same-length", OPTION_CHOICE, .choices = answers,                                   \
               .help = "let every token see exactly mem-len positions, itself included",           \
               __VA_ARGS__)
#define MEMORY_TYPE_ROW(...)                                                                       \
    OPTION_ROW("memory-type", OPTION_CHOICE,                                                       \
               .help = "keep the memory in this type; f16 takes half of f32, q8 a quarter",        \
               .choices = memory_types, __VA_ARGS__)
#define COMPUTE_ROW(place)                                                                         \
    OPTION_ROW("compute", OPTION_CHOICE, (place),                                                  \
               "bf16: multiply bf16 weights in bf16. int8: multiply q8, q5 and q4 weights in 8 "   \
               "bits. Faster where the processor supports it, with more than 8 tokens at a time; " \
               "rounds slightly",                                                                  \
               .choices = session_computes, .standard = "f32")
#define PRE_LNORM_ROW(...)                                                                         \
    OPTION_ROW("pre-lnorm", OPTION_CHOICE, .choices = answers,                                     \
               .help = "normalise before each sublayer instead of after it", __VA_ARGS__)
#define ARITHMETIC_ROW(place)                                                                      \
    OPTION_ROW("arithmetic", OPTION_CHOICE, (place),                                               \
               "exact: the same results to the last digit on every machine, however the text is "  \
               "divided; slower",                                                                  \
               .choices = arithmetics, .standard = "fast")

/* The rows of a command that runs sessions with the checkpoint's settings. */
#define LENGTH_ROWS(type, member)                                                                  \
    TGT_LEN_ROW(.section = "Segments and memory", .standard = "the checkpoint's",                  \
                .offset = offsetof(type, member.tgt_len)),                                         \
        MEM_LEN_ROW(.standard = "the checkpoint's", .offset = offsetof(type, member.mem_len)),     \
        CLAMP_LEN_ROW(.standard = "the checkpoint's", .offset = offsetof(type, member.clamp_len))
#define SESSION_ROWS(type, member, memory_standard)                                                \
    LENGTH_ROWS(type, member),                                                                     \
        SAME_LENGTH_ROW(.standard = "the checkpoint's",                                            \
                        .offset = offsetof(type, member.same_length)),                             \
        MEMORY_TYPE_ROW(.standard = (memory_standard),                                             \
                        .offset = offsetof(type, member.memory_type)),                             \
        COMPUTE_ROW(offsetof(type, member.compute))

/* Overrides the settings that the command line gives. */
void settings_override(txl_settings *settings, const struct session_options *options,
                       const struct common_options *common);

/* Opens a session; false with the error printed. */
bool session_open(const struct model *model, const txl_settings *settings, txl_session **session);

/* How a model learned from what it had scored (--dynamic). */
struct dynamic_settings {
    const char *method;
    double lr;
    bool from_checkpoint;         /* the statistics are a checkpoint's moments */
    uint64_t statistics_segments; /* else: whose squared gradients were summed */
};

/* What a result depends on in addition to the session's settings. */
struct run_settings {
    int64_t streams;  /* 0: without a meaning */
    const char *mode; /* segments, lines, items, sliding; NULL: without a meaning */
    const char *text; /* as text_form says it */
    const struct dynamic_settings *dynamic; /* NULL: the model did not learn */
    bool unwrap;                            /* the lines of paragraphs were joined */
    bool cache;                             /* counts of the text are mixed in */
    bool context_start;                     /* every text comes after the first context */

    /* Of an XLNet: */
    bool generates, fills;
    uint64_t refresh;  /* new tokens before all known ones are read again; 0: never */
    const char *order; /* how it reads the prompt if it never refreshes, or how it fills gaps */
    const char *both_sides; /* how tokens are scored from both; NULL: they are not */
};

/* Appends the settings to a JSON object, in the order of the table in settings.c; null what has no
 * meaning.  False when out of memory. */
bool settings_to_json(json_t *object, const struct model *model, const txl_settings *settings,
                      const struct run_settings *run);

/* Sets in an object, among what else a weights file states, the settings that the model has by
 * default, also those that the file leaves out because they are the usual ones.  False when out of
 * memory. */
bool settings_of_model(json_t *object, const struct model *model);

/* The end of the summary line, the same for every command: key=value, with blanks between.  First
 * what the network computes, then how; the model's name comes last and runs to the
 * end of the line. */
void settings_to_text(char *text, size_t size, const struct model *model,
                      const txl_settings *settings, const struct run_settings *run);

/* The same of settings that settings_to_json wrote. */
void settings_json_to_text(char *text, size_t size, const json_t *settings, const char *model);

/* The settings that must be the same in all shards of one evaluation: key `i` of them, NULL after
 * the last.  *always: every result states it. */
const char *settings_shared_key(size_t i, bool *always);

/* The published models' shapes (--shape) and the settings they were evaluated with (--preset
 * published), of the table in convert/published.c. */

/* The names of the shapes on a command line; "small" is not a published one.  Ends with NULL. */
extern const char *const published_shapes[];

/* The published model of this model's shape, or NULL. */
const struct published *published_find(const txl_model *model);

/* Sets the settings of its evaluation, but not `threads`. */
void published_apply(const struct published *published, txl_settings *settings);

/* The streams of its evaluation: TensorFlow's, to which the model's same_length_reach belongs, cut
 * the text into others. */
int published_streams(const struct published *published, const txl_model *model);

/* False for an XLNet's. */
bool published_is_transformer_xl(int shape);

/* The settings of a weights file of published_shapes[shape], as JSON, for the caller to free; NULL
 * when memory is short.  `evaluated`: as the published one was, which may be in TensorFlow's
 * dialect; else in that of training. */
char *published_settings_json(int shape, bool evaluated);

#endif
