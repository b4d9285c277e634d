/* The drafts of a text against the plainest way to the same: a list of all contexts, searched one
 * by one.  What is counted is how many tokens came as they were drafted. */
#include "cli/texts/drafts.h"
#include "tests/model_cases.h"
#include "tests/unit.h"

#include <string.h>

enum { ORDERS = 3, MOST_ORDER = 6, MOST_TEXT = 6000, COUNTS = 16, TRIED = 512 };

static const size_t characters[ORDERS] = {6, 4, 2}, words[ORDERS] = {3, 2, 1};

/* A context that has come: its tokens, the oldest first, and what came after it. */
struct context {
    size_t order;
    int32_t tokens[MOST_ORDER], next;
    int again;
};

struct plain {
    const size_t *order;
    struct context list[ORDERS * MOST_TEXT];
    size_t n;
    int right[ORDERS][COUNTS], tried[ORDERS][COUNTS];
    int32_t text[MOST_TEXT + DRAFT_MOST];
    size_t length;
    int32_t draft[DRAFT_MOST];
    size_t n_draft, come;
    uint64_t accepted;
};

static struct plain plain;

static struct context *find(size_t k, size_t length) {
    const size_t order = plain.order[k];
    for (size_t i = 0; i < plain.n && length >= order; i++)
        if (plain.list[i].order == order &&
            !memcmp(plain.list[i].tokens, plain.text + length - order, order * sizeof(int32_t)))
            return &plain.list[i];
    return NULL;
}

static void learn(int32_t id) {
    for (size_t k = 0; k < ORDERS; k++) {
        const size_t order = plain.order[k];
        struct context *c = find(k, plain.length);
        if (!c && plain.length >= order) {
            c = &plain.list[plain.n++];
            *c = (struct context){.order = order, .next = id};
            memcpy(c->tokens, plain.text + plain.length - order, order * sizeof(int32_t));
        } else if (c) {
            const int count = c->again;
            plain.right[k][count] += c->next == id;
            if (++plain.tried[k][count] == TRIED) {
                plain.right[k][count] /= 2;
                plain.tried[k][count] /= 2;
            }
            if (c->next == id) {
                c->again = count < COUNTS - 1 ? count + 1 : count;
            } else {
                c->again = count / 2;
                c->next = count < 2 ? id : c->next;
            }
        }
    }
    plain.text[plain.length++] = id;
}

/* A draft grows for as long as anything came in its contexts, and is left out if it is worth less
 * than a twentieth of a token. */
static void draft(size_t most) {
    const size_t length = plain.length;
    double chance = 1, tokens = 0;
    plain.n_draft = plain.come = 0;
    while (plain.n_draft < most) {
        double best = 0;
        int32_t id = -1;
        for (size_t k = 0; k < ORDERS; k++) {
            const struct context *c = find(k, plain.length);
            const double share =
                c ? (plain.right[k][c->again] + 0.5) / (plain.tried[k][c->again] + 1.0) : 0;
            if (share > best) {
                best = share;
                id = c->next;
            }
        }
        if (id < 0)
            break;
        chance *= best;
        tokens += chance;
        plain.draft[plain.n_draft++] = plain.text[plain.length++] = id;
    }
    plain.length = length;
    if (tokens < 0.05)
        plain.n_draft = 0;
}

static void feed_plain(txl_session *session, int32_t id, size_t most) {
    txl_error error;
    const bool right = plain.come < plain.n_draft && plain.draft[plain.come] == id;
    learn(id);
    plain.come += right;
    plain.accepted += right;
    if (right)
        return;
    draft(most);
    assert_good(txl_session_expect(session, plain.draft, plain.n_draft, &plain.n_draft, &error),
                &error);
}

/* A text of few different tokens, 0 among them, whose habits change as it goes on.  Its contexts
 * are too few for one to take the slot of another, which the plain way knows nothing of. */
static void make_text(int32_t *ids, size_t n, uint64_t random) {
    for (size_t i = 0; i < n; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const uint64_t drawn = random >> 33;
        const size_t period = 2 + i / 700 % 9;
        const bool habit = i > 16 && drawn % 100 < 95 - i / 500 * 6;
        ids[i] = habit ? ids[i - period] : (int32_t)(drawn / 100 % 5);
    }
}

struct run {
    txl_unit unit;
    size_t most, n_prompt, n;
    size_t restart;  /* where the drafts begin anew, in the middle of a draft or not; 0: nowhere */
    int64_t tgt_len; /* of the session; 0: one that ends no draft */
};

static const struct run runs[] = {
    {TXL_UNIT_CHARACTER, 7, 0, 1500, 0, 0},     {TXL_UNIT_CHARACTER, 3, 200, 900, 0, 0},
    {TXL_UNIT_CHARACTER, 1, 5, 900, 0, 0},      {TXL_UNIT_WORD, 7, 0, 5000, 0, 0},
    {TXL_UNIT_WORD, 2, 300, 900, 0, 0},         {TXL_UNIT_CHARACTER, 7, 100, 900, 333, 0},
    {TXL_UNIT_CHARACTER, 7, 100, 900, 334, 0},  {TXL_UNIT_CHARACTER, 7, 100, 900, 335, 0},
    {TXL_UNIT_WORD, 7, 100, 900, 336, 0},       {TXL_UNIT_CHARACTER, 7, 0, 900, 0, 3},
    {TXL_UNIT_CHARACTER, 5, 100, 900, 400, 11},
};

static struct model_case enwik;

static int set_up(void **state) {
    (void)state;
    case_open(&enwik, "enwik8-zip", NULL, -1);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    case_close(&enwik);
    return 0;
}

static txl_session *new_session(const struct run *row) {
    txl_settings settings = case_settings(&enwik, 1);
    txl_error error;
    txl_session *session;
    if (row->tgt_len > 0)
        settings.tgt_len = row->tgt_len;
    assert_good(txl_session_new(enwik.model, &settings, &session, &error), &error);
    return session;
}

static void start_both(struct drafts *drafts, const int32_t *ids, size_t n) {
    const size_t *order = plain.order;
    const uint64_t accepted = plain.accepted;
    plain = (struct plain){.order = order, .accepted = accepted};
    for (size_t i = 0; i < n; i++)
        learn(ids[i]);
    drafts_start(drafts, ids, n);
}

TEST_EACH(as_many_come_as_by_the_plain_way, runs) {
    static int32_t ids[MOST_TEXT];
    txl_error error;
    txl_session *session = new_session(row), *other = new_session(row);
    struct drafts *drafts = drafts_new(row->unit, row->most, true);
    assert_non_null(drafts);
    make_text(ids, row->n, row->n + row->most);
    plain.order = row->unit == TXL_UNIT_CHARACTER ? characters : words;
    plain.accepted = 0;
    start_both(drafts, ids, row->n_prompt);
    for (size_t i = row->n_prompt; i < row->n; i++) {
        if (row->restart > 0 && i == row->restart)
            start_both(drafts, ids, 3);
        assert_good(drafts_feed(drafts, session, ids[i], &error), &error);
        feed_plain(other, ids[i], row->most);
        assert_int_equal(drafts_accepted(drafts), plain.accepted);
        assert_good(txl_session_feed(session, &ids[i], 1, &error), &error);
        assert_good(txl_session_feed(other, &ids[i], 1, &error), &error);
    }
    assert_true(plain.accepted > (row->n - row->n_prompt) / 10);
    drafts_free(drafts);
    txl_session_free(session);
    txl_session_free(other);
}

int main(void) {
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
