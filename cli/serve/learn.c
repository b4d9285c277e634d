/* Learns from a text, segment by segment (Krause et al. 2019), and keeps what the model became. */
#include "endpoints.h"

#include "cli/io/output.h"
#include "cli/model/dynamic.h"
#include "lib/base/error.h"

#include <stdlib.h>
#include <string.h>

/* The most memory that a learner may take. */
static const uint64_t MOST_BYTES = (uint64_t)4 << 30;

struct learning {
    double rate;
    struct learned *learned; /* in the making */
    int32_t *ids;            /* [n + 1]: the first context, and the text's */
    float *nats;             /* [tgt_len] */
    size_t n, done, tgt_len, segments;
    double sum; /* of all nats */
};

/* ---- The request --------------------------------------------------------------------------- */

static bool read_rate(struct learning *l, const txl_model *model, const json_t *body,
                      struct problem *problem) {
    const json_t *rate = json_object_get(body, "rate");
    l->rate = dynamic_adam_lr(model);
    if (!rate || json_is_null(rate))
        return true;
    l->rate = json_number_value(rate);
    return (json_is_number(rate) && l->rate > 0 && l->rate <= 1) ||
           problem_set(problem, 400, "rate", "rate is no number above 0 and up to 1");
}

static bool read_request(struct job *job, const json_t *body, struct problem *problem) {
    struct learning *l = job->more;
    const json_t *text = json_object_get(body, "text");
    const txl_model *model = job->work->model.handle;
    struct prompt_tokens tokens = {0};
    bool good = body_raw(body, "split", &job->c.raw, problem) &&
                body_boolean(body, "stream", &job->c.stream, problem) &&
                read_rate(l, model, body, problem);
    const struct prompt_form form = {.raw = job->c.raw, .corpus = true, .blank_symbol = true};
    if (good && !json_is_string(text))
        good = problem_set(problem, 400, "text", "text is no string");
    good = good && prompt_tokens_encode(&tokens, model, &form, json_string_value(text),
                                        json_string_length(text), problem);
    l->n = tokens.list.n;
    if (good && l->n == 0)
        good = problem_set(problem, 400, "text", "text is empty");
    l->ids = good ? malloc((l->n + 1) * sizeof *l->ids) : NULL;
    if (good && !l->ids)
        good = problem_lacks_memory(problem);
    if (good) {
        l->ids[0] = txl_model_first_context(model);
        memcpy(l->ids + 1, tokens.list.ids, l->n * sizeof *l->ids);
    }
    prompt_tokens_free(&tokens);
    return good;
}

/* ---- Learning ------------------------------------------------------------------------------ */

/* Makes the learner, once none is left of the one before. */
static bool open_learner(struct job *job, struct problem *problem) {
    struct learning *l = job->more;
    const txl_learning how = {TXL_LEARNING_ADAM, l->rate, 0, DYNAMIC_ADAM_EPSILON, {0}};
    const txl_settings *usual = &job->work->pool.settings;
    const txl_settings settings = {.tgt_len = usual->tgt_len,
                                   .mem_len = usual->mem_len,
                                   .clamp_len = usual->clamp_len,
                                   .same_length = usual->same_length,
                                   .threads = usual->threads};
    const txl_model *model = job->work->model.handle;
    uint64_t bytes = txl_learner_bytes(model, &settings, &how);
    txl_error error;
    if (bytes > MOST_BYTES)
        return problem_set(problem, 400, NULL, "learning takes %.1f GB; at most %.1f are used",
                           (double)bytes / 1e9, (double)MOST_BYTES / 1e9);
    if (!learned_forget(job->work))
        return problem_set(problem, 429, NULL,
                           "a text is being made with what was learned before; try again");
    l->tgt_len = (size_t)settings.tgt_len;
    l->learned = calloc(1, sizeof *l->learned);
    l->nats = malloc(l->tgt_len * sizeof *l->nats);
    if (!l->learned || !l->nats)
        return problem_lacks_memory(problem);
    txl_status status = txl_learner_new(model, &settings, &how, &l->learned->learner, &error);
    if (status)
        return problem_set(problem, status == TXL_UNSUPPORTED ? 400 : 500, NULL, "%s",
                           error.message);
    txl_learner_start(l->learned->learner);
    return true;
}

static bool learn_segment(struct job *job, struct problem *problem) {
    struct learning *l = job->more;
    txl_error error;
    const int32_t *ids = l->ids + l->done;
    size_t n = smaller(l->n - l->done, l->tgt_len);
    txl_status status =
        txl_learner_score(l->learned->learner, ids, n, ids + 1, l->nats, NULL, &error);
    if (status)
        return problem_set(problem, status == TXL_FORMAT ? 400 : 500, NULL, "%s", error.message);
    for (size_t i = 0; i < n; i++)
        l->sum += (double)l->nats[i];
    l->done += n;
    l->segments++;
    return true;
}

/* The members of an event: how far it is. */
static json_t *progress_object(const struct job *job) {
    const struct learning *l = job->more;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:f}", "object", "learn", "segments",
                     (json_int_t)l->segments, "of", (json_int_t)((l->n - 1) / l->tgt_len + 1),
                     "tokens", (json_int_t)l->done, "of_tokens", (json_int_t)l->n, "nats", l->sum);
}

/* Keeps what was learned, and tells its name. */
static bool finish(struct job *job, struct problem *problem) {
    struct learning *l = job->more;
    char name[LEARNED_NAME];
    double drift = txl_learner_drift(l->learned->learner);
    if (!isfinite(drift))
        return problem_set(problem, 400, "rate",
                           "some weights are not numbers; try a smaller rate");
    l->learned->model = txl_learner_model(l->learned->learner);
    l->learned->name = job->name;
    learned_name(job->name, name);
    learned_install(job->work, l->learned);
    l->learned = NULL;
    json_t *object = progress_object(job);
    bool good = output_json_append(object, json_pack("{s:s, s:I, s:s, s:s, s:f, s:f}", "id", name,
                                                     "created", (json_int_t)job->created, "model",
                                                     job->work->model.name, "system_fingerprint",
                                                     job->work->fingerprint, "rate", l->rate,
                                                     "drift", drift));
    object = output_json_if(good, object);
    return (job->c.stream ? job_send(job, object) : job_answer(job, object)) ||
           problem_lacks_memory(problem);
}

/* Opens the learner, then learns a segment each time. */
static bool run(struct job *job) {
    struct learning *l = job->more;
    struct problem problem;
    bool good = l->learned ? learn_segment(job, &problem) : open_learner(job, &problem);
    bool all = good && l->done == l->n;
    if (good && !all && job->c.stream && !job_send(job, progress_object(job)))
        good = problem_lacks_memory(&problem);
    if (all)
        good = finish(job, &problem);
    if (!good)
        job_fail(job, &problem);
    return all || !good;
}

static void free_learning(struct job *job) {
    struct learning *l = job->more;
    if (!l)
        return;
    learned_free(l->learned);
    free(l->ids);
    free(l->nats);
    free(l);
}

/* One learner takes as much memory as help says. */
static const struct job_kind kind = {.run = run, .free = free_learning, .one_at_a_time = true};

bool learn_take(struct work *work, struct exchange *exchange, const json_t *body,
                struct problem *problem) {
    struct job *job = job_new(work, exchange, &kind);
    if (!job || !(job->more = calloc(1, sizeof(struct learning)))) {
        if (job)
            job_free(job);
        return problem_lacks_memory(problem);
    }
    bool good =
        read_request(job, body, problem) && (sampling_seed(INTEGER_UNSET, &job->name) ||
                                             problem_set(problem, 500, NULL, "cannot draw a name"));
    return work_take(work, job, good, problem);
}
