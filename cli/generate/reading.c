/* Reading what is known. */
#include "reading.h"
#include "lib/base/error.h"

#include <stdlib.h>

enum { MOST_CHUNK = 4096 };

size_t reading_chunk(const struct reading *r) {
    bool blocks = r->both_sides && !r->left;
    return blocks || r->tgt_len < MOST_CHUNK ? r->tgt_len : MOST_CHUNK;
}

txl_status reading_feed(const struct reading *r, txl_session *session, const int32_t *ids, size_t n,
                        txl_error *error) {
    if (!r->both_sides || (r->refresh == 0 && r->left))
        return txl_session_feed(session, ids, n, error);
    return r->refresh > 0 ? TXL_OK : txl_session_feed_block(session, ids, n, error);
}

txl_status reading_afresh(const struct reading *r, txl_session *session, const txl_history *known,
                          txl_error *error) {
    int32_t *ids = calloc(r->tgt_len, sizeof *ids);
    if (!ids)
        return txl_fail(error, TXL_MEMORY, "out of memory");
    txl_session_reset(session);
    size_t n = txl_history_recent(known, ids, r->tgt_len);
    txl_status status = txl_session_feed_block(session, ids, n, error);
    free(ids);
    return status;
}
