/* What a draw asks of a history: the ids that its rules against repetition touch. */
#ifndef TXL_HISTORY_H
#define TXL_HISTORY_H

#include "txl.h"

/* Ids that the history remembers: what was pushed, at most its window. */
size_t history_length(const txl_history *history);
size_t history_window(const txl_history *history);

/* The id `back` places before the last, which is 0; back < history_length. */
int32_t history_id(const txl_history *history, size_t back);

/* The ids that followed where the last n - 1 ids stood before, each once: those that would repeat
 * an n-gram.  From 0 on, gives an id and where to ask for the next; 0 when there is none. */
uint64_t history_next_repeat(const txl_history *history, uint64_t at, int32_t *id);

#endif
