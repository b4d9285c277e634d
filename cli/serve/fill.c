/* Answers with the filled text, and with the objects of txl fill --json. */
#include "endpoints.h"

#include "answers.h"
#include "cli/io/output.h"
#include "cli/io/terminal.h"
#include "cli/texts/gaps.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PIECES = 64 };

struct gaps {
    struct fill_options options;
    char *text;
};

/* ---- The request --------------------------------------------------------------------------- */

/* The likeliest piece is taken unless the request says otherwise. */
static bool read_sampling(struct job *job, const struct text_options *usual, const json_t *body,
                          struct problem *problem) {
    struct gaps *gaps = job->more;
    struct text_options options = *usual;
    options.sampling = (struct sampling_options)SAMPLING_STANDARD(0);
    if (!request_read_temperature(&job->c, &job->work->model, &options, body, problem))
        return false;
    gaps->options.sampling = job->c.options.sampling;
    gaps->options.seed = (int64_t)job->c.seed;
    return true;
}

static bool read_request(struct job *job, const struct text_options *usual, const json_t *body,
                         struct problem *problem) {
    struct gaps *gaps = job->more;
    const char *text = json_string_value(json_object_get(body, "text"));
    int32_t n_token = txl_model_n_token(job->work->model.handle);
    gaps->options = (struct fill_options){.session = SESSION_UNSET, .pieces = 1, .json = true};
    if (!text || !strstr(text, "<mask>"))
        return problem_set(problem, 400, "text", "text must be a string with <mask> in it");
    gaps->text = strdup(text);
    if (!gaps->text)
        return problem_lacks_memory(problem);
    return read_sampling(job, usual, body, problem) &&
           body_choice(body, "order", fill_orders, &gaps->options.order, problem) &&
           body_integer(body, "pieces", 1, MOST_PIECES, &gaps->options.pieces, problem) &&
           body_integer(body, "logprobs", 0, n_token < MOST_TOP ? n_token : MOST_TOP,
                        &gaps->options.logprobs, problem);
}

/* ---- The answer ---------------------------------------------------------------------------- */

static bool take_object(void *context, json_t *object) {
    json_t *list = context;
    json_object_del(object, "file");
    return json_array_append_new(list, object) == 0;
}

static json_t *answer_object(const struct job *job, const struct fill *f) {
    struct buffer whole = {0};
    json_t *gaps = json_array(), *object = NULL;
    if (gaps && fill_objects(&f->text, take_object, gaps) && fill_whole(&f->text, &whole))
        object = json_pack("{s:s, s:I, s:s, s:s, s:o, s:O, s:I, s:o}", "object", "fill", "created",
                           (json_int_t)job->created, "model", job->work->model.name,
                           "system_fingerprint", job->work->fingerprint, "text",
                           output_json_bytes(whole.data, whole.length), "gaps", gaps, "seed",
                           (json_int_t)job->c.seed, "settings", fill_settings(f));
    json_decref(gaps);
    buffer_free(&whole);
    return object;
}

static bool run(struct job *job) {
    struct gaps *gaps = job->more;
    struct fill f = {.options = &gaps->options, .model = job->work->model};
    struct input input;
    struct problem problem;
    gaps->options.common.threads = job->work->pool.settings.threads;
    input_open_string(&input, "text", gaps->text);
    bool good = fill_open(&f, &gaps->options, "text") && fill_read(&f.text, &input) && fill_all(&f);
    if (good && !job_answer(job, answer_object(job, &f)))
        good = terminal_error("out of memory");
    if (!good) {
        problem_set(&problem, 400, NULL, "%s", terminal_last_error());
        http_answer_problem(job->work->http, job->exchange, &problem);
    }
    fill_close(&f);
    return true;
}

static void free_gaps(struct job *job) {
    struct gaps *gaps = job->more;
    if (gaps)
        free(gaps->text);
    free(gaps);
}

static const struct job_kind kind = {.run = run, .free = free_gaps};

bool fill_take(struct work *work, struct exchange *exchange, const struct text_options *usual,
               const json_t *body, struct problem *problem) {
    struct job *job = job_new(work, exchange, &kind);
    if (!job || !(job->more = calloc(1, sizeof(struct gaps)))) {
        if (job)
            job_free(job);
        return problem_lacks_memory(problem);
    }
    bool good = read_request(job, usual, body, problem);
    return work_take(work, job, good, problem);
}
