/* What the head of a fine-tuned model says of inputs. */
#include "lib/base/error.h"
#include "session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Checks ------------------------------------------------------------------------------- */

static txl_status check_inputs(const txl_session *s, const txl_input *inputs, size_t n,
                               txl_error *error) {
    const size_t most = (size_t)s->timeline->settings.tgt_len;
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        txl_status status = CHECK_RESERVED(txl_input, &inputs[i], error);
        if (!status && (inputs[i].n < 1 || inputs[i].n > most - sum))
            status = txl_fail(error, TXL_ARGUMENT,
                              "an input of %zu ids after %zu others; there can be 1 to %zu in all",
                              inputs[i].n, sum, most);
        for (size_t k = 0; k < inputs[i].n && !status; k++)
            if (inputs[i].ids[k] < 0 || inputs[i].ids[k] >= s->model->vocabulary.n)
                status = txl_fail(error, TXL_ARGUMENT, "id %d is not from 0 to %d",
                                  inputs[i].ids[k], s->model->vocabulary.n - 1);
        if (status)
            return status;
        sum += inputs[i].n;
    }
    return n > 0 ? TXL_OK : txl_fail(error, TXL_ARGUMENT, "there is no input");
}

/* Whether the model's head is one of the two. */
static txl_status check_head(const txl_session *s, txl_head head, txl_head other,
                             txl_error *error) {
    const txl_head own = s->model->network->head;
    return own == head || own == other
               ? TXL_OK
               : txl_fail(error, TXL_UNSUPPORTED, "%s: its head is \"%s\", not \"%s\"",
                          s->model->weights->name, txl_head_name(own), txl_head_name(head));
}

static txl_status check_finite(const txl_session *s, size_t n, const float *logits,
                               txl_error *error) {
    for (size_t i = 0; i < n; i++)
        if (!isfinite(logits[i]))
            return session_not_finite(s, error);
    return TXL_OK;
}

/* ---- Rows --------------------------------------------------------------------------------- */

/* Reads the inputs, which have `*n_row` rows. */
static txl_status read_inputs(txl_session *s, const txl_input *inputs, size_t n,
                              const float **hidden, size_t *n_row, txl_error *error) {
    if (!s->model->family->heads)
        return txl_fail(error, TXL_UNSUPPORTED, "%s: only an XLNet reads inputs of heads",
                        s->model->weights->name);
    txl_status status = check_inputs(s, inputs, n, error);
    if (status)
        return status;
    txl_session_reset(s);
    *n_row = 0;
    for (size_t i = 0; i < n; i++)
        *n_row += inputs[i].n;
    return s->model->family->heads->read(s->timeline, inputs, n, hidden, error);
}

txl_status txl_session_hidden(txl_session *s, const txl_input *inputs, size_t n, float *hidden,
                              txl_error *error) {
    const float *rows;
    size_t n_row, d_model = s->model->network->bands.d_model;
    txl_status status = read_inputs(s, inputs, n, &rows, &n_row, error);
    if (status)
        return status;
    memcpy(hidden, rows, n_row * d_model * sizeof *hidden);
    return check_finite(s, n_row * d_model, hidden, error);
}

txl_status txl_session_classify(txl_session *s, const txl_input *inputs, size_t n, float *logits,
                                txl_error *error) {
    const float *rows;
    size_t n_row;
    txl_status status = check_head(s, TXL_HEAD_SEQUENCE, TXL_HEAD_CHOICE, error);
    if (!status)
        status = read_inputs(s, inputs, n, &rows, &n_row, error);
    if (status)
        return status;
    s->model->family->heads->inputs(s->timeline, rows, inputs, n, logits);
    return check_finite(s, n * (size_t)s->model->network->n_logit, logits, error);
}

static txl_status each_row(txl_session *s, txl_head head, const txl_input *inputs, size_t n,
                           float *logits, txl_error *error) {
    const float *rows;
    size_t n_row;
    txl_status status = check_head(s, head, head, error);
    if (!status)
        status = read_inputs(s, inputs, n, &rows, &n_row, error);
    if (status)
        return status;
    s->model->family->heads->rows(s->timeline, rows, n_row, logits);
    return check_finite(s, n_row * (size_t)s->model->network->n_logit, logits, error);
}

txl_status txl_session_classify_tokens(txl_session *s, const txl_input *inputs, size_t n,
                                       float *logits, txl_error *error) {
    return each_row(s, TXL_HEAD_TOKENS, inputs, n, logits, error);
}

txl_status txl_session_spans(txl_session *s, const txl_input *inputs, size_t n, float *logits,
                             txl_error *error) {
    return each_row(s, TXL_HEAD_SPANS, inputs, n, logits, error);
}

/* ---- Beams -------------------------------------------------------------------------------- */

/* What the caller gets, and what is needed for it. */
struct beams {
    struct shared_arena memory; /* the first member */
    txl_beams result;
    size_t n_row;    /* rows where answers may begin and end, */
    size_t *row;     /* [n_row], */
    float *logit;    /* [n_row] their logits, */
    double *logprob; /* [n_row] and the log-softmax of these */
    float *mean;     /* [d_model] */
};

struct beams_plan {
    size_t n, n_row, n_start, n_end, d_model;
};

static void *lay_out_beams(const void *planned, struct arena *arena) {
    const struct beams_plan *p = planned;
    struct beams unused, *taken = arena_take(arena, 1, sizeof *taken), *b = taken ? taken : &unused;
    *b = (struct beams){.n_row = p->n_row, .result = {.n_start = p->n_start, .n_end = p->n_end}};
    b->row = arena_take(arena, p->n_row, sizeof *b->row);
    b->logit = arena_take(arena, p->n_row, sizeof *b->logit);
    b->logprob = arena_take(arena, p->n_row, sizeof *b->logprob);
    b->mean = arena_take(arena, p->d_model, sizeof *b->mean);
    b->result.start = arena_take(arena, p->n_start, sizeof *b->result.start);
    b->result.start_logprob = arena_take(arena, p->n_start, sizeof *b->result.start_logprob);
    b->result.end = arena_take(arena, p->n_start * p->n_end, sizeof *b->result.end);
    b->result.end_logprob = arena_take(arena, p->n_start * p->n_end, sizeof *b->result.end_logprob);
    b->result.start_logits = arena_take(arena, p->n, sizeof *b->result.start_logits);
    return taken;
}

static void log_softmax(size_t n, const float *logit, double *logprob) {
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, (double)logit[i]);
    for (size_t i = 0; i < n; i++)
        sum += exp((double)logit[i] - most);
    for (size_t i = 0; i < n; i++)
        logprob[i] = (double)logit[i] - most - log(sum);
}

/* Keeps the k likeliest of the rows, best first; of equally likely ones the first comes first. */
static void keep_likeliest(const struct beams *b, size_t k, size_t *row, double *logprob) {
    size_t kept = 0;
    for (size_t i = 0; i < b->n_row; i++) {
        size_t at = kept;
        while (at > 0 && logprob[at - 1] < b->logprob[i])
            at--;
        if (at == k)
            continue;
        kept += kept < k;
        memmove(row + at + 1, row + at, (kept - 1 - at) * sizeof *row);
        memmove(logprob + at + 1, logprob + at, (kept - 1 - at) * sizeof *logprob);
        row[at] = b->row[i];
        logprob[at] = b->logprob[i];
    }
}

/* mean = the rows of `hidden`, weighed by their probabilities as starts. */
static void weigh_starts(struct beams *b, const float *hidden, size_t d_model) {
    for (size_t k = 0; k < d_model; k++) {
        double sum = 0;
        for (size_t i = 0; i < b->n_row; i++)
            sum += exp(b->logprob[i]) * (double)hidden[b->row[i] * d_model + k];
        b->mean[k] = (float)sum;
    }
}

static txl_status find_beams(txl_session *s, const float *hidden, size_t n, struct beams *b,
                             txl_error *error) {
    const struct head_functions *heads = s->model->family->heads;
    const size_t d_model = s->model->network->bands.d_model;
    txl_beams *r = &b->result;
    float *start_logits = (float *)r->start_logits;
    heads->rows(s->timeline, hidden, n, start_logits);
    txl_status status = check_finite(s, n, start_logits, error);
    for (size_t i = 0; i < b->n_row; i++) {
        b->row[i] = i + 1 < b->n_row ? i : n - 1;
        b->logit[i] = start_logits[b->row[i]];
    }
    log_softmax(b->n_row, b->logit, b->logprob);
    keep_likeliest(b, r->n_start, (size_t *)r->start, (double *)r->start_logprob);
    weigh_starts(b, hidden, d_model);
    r->no_answer = heads->no_answer(s->timeline, b->mean, hidden + (n - 1) * d_model);
    if (!status)
        status = check_finite(s, 1, &r->no_answer, error);
    for (size_t i = 0; i < r->n_start && !status; i++) {
        heads->ends(s->timeline, hidden, b->row, b->n_row, r->start[i], b->logit);
        status = check_finite(s, b->n_row, b->logit, error);
        log_softmax(b->n_row, b->logit, b->logprob);
        keep_likeliest(b, r->n_end, (size_t *)r->end + i * r->n_end,
                       (double *)r->end_logprob + i * r->n_end);
    }
    return status;
}

txl_status txl_session_beams(txl_session *s, const txl_input *input, size_t text,
                             const txl_beams **beams, txl_error *error) {
    const float *hidden;
    struct beams_plan plan = {
        .n = input->n, .n_row = text + 1, .d_model = s->model->network->bands.d_model};
    txl_status status = check_head(s, TXL_HEAD_BEAMS, TXL_HEAD_BEAMS, error);
    if (!status && text >= input->n)
        status =
            txl_fail(error, TXL_ARGUMENT, "a text of %zu ids in an input of %zu", text, input->n);
    if (!status)
        status = read_inputs(s, input, 1, &hidden, &plan.n, error);
    if (status)
        return status;
    s->model->family->heads->kept(s->model->network, &plan.n_start, &plan.n_end);
    plan.n_start = smaller(plan.n_start, plan.n_row);
    plan.n_end = smaller(plan.n_end, plan.n_row);
    struct beams *b = arena_new(lay_out_beams, &plan, "the beams", error);
    if (!b)
        return TXL_MEMORY;
    status = find_beams(s, hidden, input->n, b, error);
    *beams = &b->result;
    if (status)
        arena_leave(b);
    return status;
}

void txl_beams_free(const txl_beams *beams) {
    if (beams)
        arena_leave((char *)beams - offsetof(struct beams, result));
}
