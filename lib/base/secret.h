/* A number that nobody outside the process knows: the seed of a hash table that is filled with what
 * strangers wrote, so that none of them can choose entries that share a place.  It must decide no
 * result: an order that is seen is the order of arrival. */
#ifndef TXL_BASE_SECRET_H
#define TXL_BASE_SECRET_H

#include <stdint.h>
#include <sys/random.h>

static inline uint64_t secret_number(void) {
    uint64_t secret;
    if (getrandom(&secret, sizeof secret, GRND_NONBLOCK) != (ssize_t)sizeof secret)
        secret = (uintptr_t)&secret; /* where the system scatters addresses */
    return secret;
}

#endif
