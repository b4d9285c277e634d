/* Numbers on the command line, in plain decimal.  Everything else is refused: hexadecimal, blanks,
 * any sign but a minus, a minus before zero, and text behind the number. */
#ifndef CLI_NUMBERS_H
#define CLI_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Both return false unless the whole text is such a number and the type can hold it. */
bool number_integer(const char *text, int64_t *value);

/* Digits, with a decimal point and an exponent if need be.  A double cannot hold a number that
 * would be rounded to 0. */
bool number_real(const char *text, double *value);

/* Reads a list of at least one whole number from 0 to 2^31 - 1, between commas: *n of them, for the
 * caller to free.  NULL if the text is no such list, or memory is short. */
int *number_list(const char *text, size_t *n);

#endif
