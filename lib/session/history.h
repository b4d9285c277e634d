/* The ids so far, as drawing a token reads them for the rules against repetition. */
#ifndef TXL_HISTORY_H
#define TXL_HISTORY_H

#include "txl.h"

/* The number of ids that the history remembers: those pushed, at most its window. */
size_t history_length(const txl_history *history);
size_t history_window(const txl_history *history);

/* The id `back` places before the last one (back 0: the last); back < history_length. */
int32_t history_id(const txl_history *history, size_t back);

/* Walks the ids that would repeat an n-gram: those that followed earlier occurrences of the last
 * n - 1 ids, each once.  Call it with `at` 0 first, then with what it returned; it returns 0 after
 * the last, without an id. */
uint64_t history_next_repeat(const txl_history *history, uint64_t at, int32_t *id);

#endif
