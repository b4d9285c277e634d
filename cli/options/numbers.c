/* Checks the form of a number before the C library reads it. */
#include "numbers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char digits[] = "0123456789";

static bool is_whole(const char *text) {
    text += *text == '-';
    return *text != '\0' && text[strspn(text, digits)] == '\0';
}

bool number_integer(const char *text, int64_t *value) {
    if (!is_whole(text))
        return false;
    errno = 0;
    long long number = strtoll(text, NULL, 10);
    if (errno != 0 || (number == 0 && *text == '-'))
        return false;
    *value = number;
    return true;
}

/* "-12.5e-3": either part of the mantissa may be empty, not both. */
static bool is_decimal(const char *text) {
    text += *text == '-';
    size_t before = strspn(text, digits), after = 0;
    text += before;
    if (*text == '.') {
        after = strspn(++text, digits);
        text += after;
    }
    if (before + after == 0)
        return false;
    if (*text != 'e' && *text != 'E')
        return *text == '\0';
    text++;
    text += *text == '-' || *text == '+';
    return *text != '\0' && text[strspn(text, digits)] == '\0';
}

bool number_real(const char *text, double *value) {
    if (!is_decimal(text))
        return false;
    errno = 0;
    double number = strtod(text, NULL);
    if (errno != 0 || (number == 0 && *text == '-'))
        return false;
    *value = number;
    return true;
}

int *number_list(const char *text, size_t *n) {
    int *list = calloc(strlen(text) / 2 + 1, sizeof *list);
    bool good = list;
    for (*n = 0; good; text++) {
        size_t length = strspn(text, digits);
        char *end;
        errno = 0;
        long value = strtol(text, &end, 10);
        good = length > 0 && errno == 0 && value <= INT32_MAX && (*end == ',' || *end == '\0');
        if (!good)
            break;
        list[(*n)++] = (int)value;
        text = end;
        if (*text == '\0')
            return list;
    }
    free(list);
    return NULL;
}
