/* Numbers on the command line, in plain decimal.  Anything else is refused, rather than read up to
 * where it stops being a number: hexadecimal, blanks, any sign but a minus, and a minus before
 * zero.
 */
#ifndef CLI_NUMBERS_H
#define CLI_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each is false when the whole text is no such number, or one beyond the type. */
bool number_integer(const char *text, int64_t *value);

/* Digits, with a decimal point and an exponent if need be.  A number other than 0 that is too small
 * for a double is beyond the type too. */
bool number_real(const char *text, double *value);

/* Whole numbers from 0 to 2^31 - 1 between commas, at least one: n of them, to be freed.  NULL when
 * the text is no such list, or memory is short. */
int *number_list(const char *text, size_t *n);

#endif
