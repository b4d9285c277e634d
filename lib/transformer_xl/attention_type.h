/* The types of attention, as published code numbers them. */
#ifndef TXL_ATTENTION_TYPE_H
#define TXL_ATTENTION_TYPE_H

#include <stdbool.h>

enum attention_type {
    ATTENTION_RELATIVE = 0,         /* sinusoid distances through a learned matrix: the paper's */
    ATTENTION_LEARNED_DISTANCE = 1, /* a learned row and bias for each distance (Shaw et al.) */
    ATTENTION_SINUSOID = 2,         /* vanilla Transformer, sinusoid positions on the input */
    ATTENTION_LEARNED_POSITION = 3  /* vanilla Transformer, learned positions on each layer */
};

/* Whether scores depend on the distance between query and key.  The other types have no memory. */
static inline bool attention_is_relative(enum attention_type type) {
    return type == ATTENTION_RELATIVE || type == ATTENTION_LEARNED_DISTANCE;
}

/* Whether each position or distance has a learned row. */
static inline bool attention_is_learned(enum attention_type type) {
    return type == ATTENTION_LEARNED_DISTANCE || type == ATTENTION_LEARNED_POSITION;
}

#endif
