/* The options of a session, and the settings that it runs with. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include "model.h"

/* --tgt-len, --mem-len, --clamp-len, --same-length, --memory-type. */
struct session_options {
    int64_t tgt_len, mem_len, clamp_len;
    int same_length; /* an index into answers */
    int memory_type; /* an index into memory_types */
    int compute;     /* an index into session_computes */
    int arithmetic;  /* an index into arithmetics */
};

extern const char *const memory_types[]; /* f32, f16, bf16: as txl_memory_type */

extern const char *const session_computes[]; /* type, int8: as txl_compute */
extern const char *const arithmetics[];      /* fast, exact: as txl_arithmetic */
extern const char *const train_computes[];   /* what training multiplies in: f32, bf16 */
enum { COMPUTE_F32, COMPUTE_BF16 };

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
