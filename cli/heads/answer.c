/* txl answer: finds the answer to a question in a text. */
#include "cli/commands.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "cli/model/settings.h"
#include "heads.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const char answer_topics[]; /* cli/heads/answer.txt */

/* A stretch of the text that is read with the question. */
struct window {
    size_t start, length;
};

/* Tokens i .. j of a window. */
struct candidate {
    double logprob;
    size_t window, i, j;
};

struct answer {
    struct heads heads;
    struct pieces text, question;
    struct window *windows; /* [inputs.n] */
    size_t windows_room;
    struct inputs inputs;
    size_t *owner;          /* [text.n]: the window in which an answer that begins there counts */
    double *share;          /* [text.n]: how well that suits */
    struct candidate *best; /* [n_best], best first, at most --top */
    size_t n_best;
    double least;        /* the least probability, or logit, of no answer so far */
    double *start, *end; /* [text.n + 1] log-probabilities in a window */
    float *logits;       /* [2 most] of windows that are read at once */
    json_t *list;        /* --logits: an object per window */
};

/* ---- Windows ------------------------------------------------------------------------------ */

static bool add_window(struct answer *a, size_t start, size_t length) {
    if (a->inputs.n == a->windows_room) {
        const size_t room = 2 * a->windows_room + 16;
        struct window *windows = reallocarray(a->windows, room, sizeof *windows);
        if (!windows)
            return false;
        a->windows = windows;
        a->windows_room = room;
    }
    a->windows[a->inputs.n] = (struct window){start, length};
    const int32_t *ids = a->text.ids ? a->text.ids + start : NULL;
    return inputs_add(&a->heads, &a->inputs, ids, length, a->question.ids, a->question.n);
}

/* Of the windows that hold a token, the one with the most context on its shorter side has it, plus
 * 0.01 times the window's length; the earlier of equal ones. */
static void share_tokens(struct answer *a) {
    for (size_t at = 0; at < a->text.n; at++)
        a->share[at] = -1;
    for (size_t w = 0; w < a->inputs.n; w++) {
        const struct window *window = &a->windows[w];
        for (size_t i = 0; i < window->length; i++) {
            const size_t left = i, right = window->length - 1 - i;
            const double share =
                (double)(left < right ? left : right) + 0.01 * (double)window->length;
            if (share > a->share[window->start + i]) {
                a->share[window->start + i] = share;
                a->owner[window->start + i] = w;
            }
        }
    }
}

static bool reserve(struct answer *a, size_t n) {
    free(a->owner);
    free(a->share);
    free(a->start);
    free(a->end);
    a->owner = calloc(n, sizeof *a->owner);
    a->share = calloc(n, sizeof *a->share);
    a->start = calloc(n, sizeof *a->start);
    a->end = calloc(n, sizeof *a->end);
    return a->owner && a->share && a->start && a->end;
}

/* Makes the windows of the text.  Their first token is `stride` after that of the one before, and
 * the last is the first that reaches the end. */
static bool make_windows(struct answer *a, size_t room) {
    const size_t stride = (size_t)a->heads.options->stride, n = a->text.n;
    bool good = reserve(a, n + 1);
    inputs_clear(&a->inputs);
    for (size_t start = 0; good; start += stride) {
        good = add_window(a, start, n - start < room ? n - start : room);
        if (start + room >= n)
            break;
    }
    if (good)
        share_tokens(a);
    return good || terminal_error("out of memory");
}

/* ---- Candidates --------------------------------------------------------------------------- */

/* Keeps the candidate if it is among the best so far; of equal ones the earlier stays before. */
static void offer(struct answer *a, size_t w, size_t i, size_t j, double logprob) {
    const size_t most = (size_t)a->heads.options->top;
    const struct window *window = &a->windows[w];
    size_t at = a->n_best;
    if (i > j || j >= window->length || j - i >= (size_t)a->heads.options->max_answer ||
        a->owner[window->start + i] != w)
        return;
    while (at > 0 && a->best[at - 1].logprob < logprob)
        at--;
    if (at == most)
        return;
    a->n_best += a->n_best < most;
    memmove(a->best + at + 1, a->best + at, (a->n_best - 1 - at) * sizeof *a->best);
    a->best[at] = (struct candidate){logprob, w, i, j};
}

/* The log-softmax over the text's tokens and <cls> of every second logit. */
static void spread(struct answer *a, const float *logits, size_t w, double *logprob) {
    const size_t length = a->windows[w].length, last = a->inputs.list[w].n - 1;
    double most = (double)logits[2 * last], sum = 0;
    for (size_t i = 0; i < length; i++)
        most = fmax(most, (double)logits[2 * i]);
    for (size_t i = 0; i <= length; i++) {
        logprob[i] = (double)logits[2 * (i < length ? i : last)] - most;
        sum += exp(logprob[i]);
    }
    for (size_t i = 0; i <= length; i++)
        logprob[i] -= log(sum);
}

/* What the logits of starts and ends say of a window. */
static void take_spans(struct answer *a, size_t w, const float *logits) {
    const size_t length = a->windows[w].length, longest = (size_t)a->heads.options->max_answer;
    spread(a, logits, w, a->start);
    spread(a, logits + 1, w, a->end);
    a->least = fmin(a->least, exp(a->start[length] + a->end[length]));
    for (size_t i = 0; i < length; i++)
        for (size_t j = i; j < length && j - i < longest; j++)
            offer(a, w, i, j, a->start[i] + a->end[j]);
}

static void take_beams(struct answer *a, size_t w, const txl_beams *beams) {
    a->least = fmin(a->least, (double)beams->no_answer);
    for (size_t k = 0; k < beams->n_start; k++)
        for (size_t l = 0; l < beams->n_end; l++)
            offer(a, w, beams->start[k], beams->end[k * beams->n_end + l],
                  beams->start_logprob[k] + beams->end_logprob[k * beams->n_end + l]);
}

/* ---- What --logits prints ----------------------------------------------------------------- */

static json_t *window_object(const struct answer *a, size_t w) {
    const txl_input *input = &a->inputs.list[w];
    return json_pack("{s:I, s:I, s:o, s:o}", "start", (json_int_t)a->windows[w].start, "length",
                     (json_int_t)a->windows[w].length, "ids", heads_ids(input), "segments",
                     heads_segments(input));
}

static bool list_spans(const struct answer *a, size_t w, const float *logits) {
    const size_t n = a->inputs.list[w].n;
    json_t *object = window_object(a, w);
    bool good = output_json_append(object, json_pack("{s:o, s:o}", "start_logits",
                                                     heads_reals(logits, n, 2), "end_logits",
                                                     heads_reals(logits + 1, n, 2)));
    return json_array_append_new(a->list, output_json_if(good, object)) == 0;
}

/* [[place, probability], ..] */
static json_t *likely_places(const size_t *place, const double *logprob, size_t n) {
    json_t *list = json_array();
    bool good = list != NULL;
    for (size_t i = 0; i < n && good; i++)
        good = json_array_append_new(
                   list, json_pack("[I, f]", (json_int_t)place[i], exp(logprob[i]))) == 0;
    return output_json_if(good, list);
}

static bool list_beams(const struct answer *a, size_t w, const txl_beams *b) {
    json_t *object = window_object(a, w), *ends = json_array();
    bool good = object && ends;
    for (size_t k = 0; k < b->n_start && good; k++)
        good = json_array_append_new(ends,
                                     likely_places(b->end + k * b->n_end,
                                                   b->end_logprob + k * b->n_end, b->n_end)) == 0;
    good = output_json_append(
        object, json_pack("{s:o, s:o, s:o, s:f}", "start_logits",
                          heads_reals(b->start_logits, a->inputs.list[w].n, 1), "start_top",
                          likely_places(b->start, b->start_logprob, b->n_start), "end_top",
                          output_json_if(good, ends), "cls_logit", (double)b->no_answer));
    return json_array_append_new(a->list, output_json_if(good, object)) == 0;
}

/* ---- Running ------------------------------------------------------------------------------ */

static bool run_beams(struct answer *a, size_t w) {
    const txl_beams *beams;
    txl_error error;
    txl_status status = txl_session_beams(a->heads.session, &a->inputs.list[w],
                                          a->windows[w].length, &beams, &error);
    if (!terminal_report(status, &error))
        return false;
    take_beams(a, w, beams);
    bool good = !a->list || list_beams(a, w, beams) || output_lacks_memory();
    txl_beams_free(beams);
    return good;
}

/* Windows first .. first + n - 1 at once. */
static bool run_spans(struct answer *a, size_t first, size_t n) {
    txl_error error;
    const float *logits = a->logits;
    bool good = true;
    txl_status status =
        txl_session_spans(a->heads.session, a->inputs.list + first, n, a->logits, &error);
    if (!terminal_report(status, &error))
        return false;
    for (size_t w = first; w < first + n && good; w++) {
        take_spans(a, w, logits);
        good = !a->list || list_spans(a, w, logits) || output_lacks_memory();
        logits += 2 * a->inputs.list[w].n;
    }
    return good;
}

static bool run_windows(struct answer *a, const struct record *record) {
    struct heads *h = &a->heads;
    bool good = true;
    a->n_best = 0;
    a->least = INFINITY;
    for (size_t w = 0, n; w < a->inputs.n && good; w += n) {
        n = h->head == TXL_HEAD_BEAMS ? 1 : inputs_together(h, &a->inputs, w);
        good = (h->head == TXL_HEAD_BEAMS ? run_beams(a, w) : run_spans(a, w, n)) &&
               !signals_stopped();
        h->windows += n;
        if (!record->table)
            progress_update(&h->progress, (double)(w + n) / (double)a->inputs.n, h->windows);
    }
    h->tokens += a->inputs.ids;
    return good;
}

/* ---- Rows and objects --------------------------------------------------------------------- */

static const char *const answer_columns[] = {
    "* answer offset length logprob probability no_answer windows", NULL};

/* The answer's bytes of the text: from its first token's first to its last token's last. */
static void place_of(const struct answer *a, const struct candidate *c, size_t *begin,
                     size_t *length) {
    const size_t start = a->windows[c->window].start;
    *begin = (size_t)a->text.at[start + c->i].begin;
    *length = (size_t)a->text.at[start + c->j].end - *begin;
}

static double no_answer(const struct answer *a) {
    return a->heads.head == TXL_HEAD_BEAMS ? 1 / (1 + exp(-a->least)) : a->least;
}

/* A row for each of the best answers, or one without an answer. */
static bool put_rows(struct answer *a, const struct record *record) {
    struct table *table = &a->heads.table;
    bool good = true;
    for (size_t k = 0; k < (a->n_best > 0 ? a->n_best : 1) && good; k++) {
        size_t begin, length;
        table_own(table, &a->heads.items.own, 0);
        if (a->n_best > 0) {
            place_of(a, &a->best[k], &begin, &length);
            table_text(table, record->text.text + begin, length);
            table_integer(table, begin);
            table_integer(table, length);
            table_real(table, a->best[k].logprob);
            table_real(table, exp(a->best[k].logprob));
        }
        for (size_t i = 0; i < 5 && a->n_best == 0; i++)
            table_unknown(table);
        table_real(table, no_answer(a));
        table_integer(table, a->inputs.n);
        good = !table_end_row(table);
    }
    return good;
}

static bool print_object(const struct answer *a, const struct record *record) {
    json_t *object = heads_object(&a->heads, record->name, record->row), *list = json_array();
    bool good = object && list;
    for (size_t k = 0; k < a->n_best && good; k++) {
        size_t begin, length;
        place_of(a, &a->best[k], &begin, &length);
        good = json_array_append_new(
                   list, json_pack("{s:o, s:I, s:I, s:f}", "answer",
                                   output_json_bytes(record->text.text + begin, length), "offset",
                                   (json_int_t)begin, "length", (json_int_t)length, "logprob",
                                   a->best[k].logprob)) == 0;
    }
    good = json_object_set_new(object, "answers", list) == 0 && good;
    good = output_json_append(object, json_pack("{s:f, s:I}", "no_answer", no_answer(a), "windows",
                                                (json_int_t)a->inputs.n)) &&
           good;
    if (a->heads.head == TXL_HEAD_BEAMS)
        good = json_object_set_new(object, "cls_logit", json_real(a->least)) == 0 && good;
    return output_json(output_json_if(good, object));
}

static bool print_logits(struct answer *a, const struct record *record) {
    json_t *object = heads_object(&a->heads, record->name, record->row);
    bool good = json_object_set(object, "windows", a->list) == 0;
    return output_json(output_json_if(good, object));
}

/* ---- Texts -------------------------------------------------------------------------------- */

/* Refuses a question: the record is left out, or without a table the file. */
static bool refuse(const struct record *record, const char *what) {
    if (!record->table)
        return terminal_error("%s: %s", record->name, what);
    items_table_wrong(record->table, "%s", what);
    return true;
}

/* Answers the encoded question. */
static bool answer_question(struct answer *a, const struct record *record, size_t room) {
    struct heads *h = &a->heads;
    const struct heads_options *o = h->options;
    a->list = o->logits ? json_array() : NULL;
    bool good = !o->logits || a->list || output_lacks_memory();
    if (good && record->table)
        items_table_right(record->table);
    h->texts++;
    good = good && make_windows(a, room) && run_windows(a, record);
    if (good)
        good = o->logits ? print_logits(a, record)
               : o->json ? print_object(a, record)
                         : put_rows(a, record);
    json_decref(a->list);
    return good;
}

static bool answer_record(struct answer *a, const struct record *record) {
    struct heads *h = &a->heads;
    const size_t most = (size_t)h->options->max_question, max_len = (size_t)h->options->max_len;
    char problem[160];
    if (!heads_encode(h, &record->other, &a->question) || !heads_encode(h, &record->text, &a->text))
        return false;
    if (a->question.n == 0)
        return refuse(record, "the question is empty");
    h->cut += a->question.n > most;
    a->question.n = a->question.n > most ? most : a->question.n;
    const size_t room = max_len > a->question.n + 3 ? max_len - a->question.n - 3 : 0;
    snprintf(
        problem, sizeof problem,
        "--max-len %zu leaves room for %zu tokens of the text beside the question's %zu, fewer "
        "than --stride %" PRId64,
        max_len, room, a->question.n, h->options->stride);
    return room < (size_t)h->options->stride ? refuse(record, problem)
                                             : answer_question(a, record, room);
}

/* ---- The command -------------------------------------------------------------------------- */

static bool set_up(struct answer *a, const struct heads_options *o, const struct operands *files) {
    struct heads *h = &a->heads;
    if (!heads_open(h, o, files) || !heads_open_session(h, (size_t)o->max_len))
        return false;
    a->best = calloc((size_t)o->top + 1, sizeof *a->best);
    a->logits = calloc(2 * h->most, sizeof *a->logits);
    return ((a->best && a->logits) || terminal_error("out of memory")) &&
           heads_open_table(h, answer_columns[0]);
}

static bool answer_texts(struct answer *a) {
    struct record record;
    bool good = true;
    while (good && heads_next(&a->heads, &record))
        good = answer_record(a, &record);
    return good;
}

static int run(const struct command *command, void *values, struct operands *files) {
    const struct heads_options *o = values;
    struct answer *a = calloc(1, sizeof *a); /* too large for a stack whose growth may fail */
    if (!a) {
        terminal_error("out of memory");
        return STATUS_FAILURE;
    }
    a->heads.answers = true;
    int status = heads_check(command, &a->heads, o);
    if (status == OPTIONS_RUN)
        status = set_up(a, o, files)
                     ? heads_finish(&a->heads, answer_texts(a))
                     : output_finish(signals_stopped() ? signals_status() : STATUS_FAILURE);
    inputs_free(&a->inputs);
    pieces_free(&a->text);
    pieces_free(&a->question);
    free(a->windows);
    free(a->owner);
    free(a->share);
    free(a->start);
    free(a->end);
    free(a->best);
    free(a->logits);
    heads_close(&a->heads);
    free(a);
    return status;
}

/* ---- The table ---------------------------------------------------------------------------- */

#define ANSWER_MAX_LEN 384
#define ANSWER_STRIDE 128
#define ANSWER_MAX_QUESTION 64
#define ANSWER_MAX_ANSWER 64

static const struct heads_options defaults = {.max_len = ANSWER_MAX_LEN,
                                              .stride = ANSWER_STRIDE,
                                              .max_question = ANSWER_MAX_QUESTION,
                                              .max_answer = ANSWER_MAX_ANSWER,
                                              .top = 1,
                                              .compute = CHOICE_UNSET};

#define PLACE(member) offsetof(struct heads_options, member)

static const struct option_row options[] = {
    ROWS_OUTPUT_ROW(PLACE(output), answer_columns, .section = "Output"),
    {"top", OPTION_INTEGER, PLACE(top), "give the N most likely answers of each text",
     .standard = "1", .least = 1, .most = 10000},
    {"json", OPTION_FLAG, PLACE(json), "print an object per text"},
    {"logits", OPTION_FLAG, PLACE(logits),
     "print an object per text with the ids, segments and logits of each window",
     .excludes = "json"},
    FORCE_ROW,
    {"question", OPTION_STRING, PLACE(question), "ask all texts the question STRING",
     .section = "Text", .argument = "STRING"},
    {"columns", OPTION_LIST, PLACE(columns),
     "what columns of a table are called: item, text and question, such as text=passage",
     .argument = "ROLE=NAME,..."},
    {"max-len", OPTION_INTEGER, PLACE(max_len),
     "read N tokens at a time: a window of the text, the question, and what ends them",
     .standard = TEXT_OF(ANSWER_MAX_LEN), .least = 1, .most = TXL_MAX_TGT_LEN},
    {"stride", OPTION_INTEGER, PLACE(stride), "start the next window N tokens later",
     .standard = TEXT_OF(ANSWER_STRIDE), .least = 1, .most = TXL_MAX_TGT_LEN},
    {"max-question", OPTION_INTEGER, PLACE(max_question),
     "cut longer questions to their first N tokens", .standard = TEXT_OF(ANSWER_MAX_QUESTION),
     .least = 1, .most = TXL_MAX_TGT_LEN},
    {"max-answer", OPTION_INTEGER, PLACE(max_answer), "give answers of at most N tokens",
     .standard = TEXT_OF(ANSWER_MAX_ANSWER), .least = 1, .most = TXL_MAX_TGT_LEN},
    BINARY_ROW,
    COMPUTE_ROW(PLACE(compute)),
    MODEL_ROW,
    LOW_MEMORY_ROW,
    COMMON_ROWS,
    {0}};

static const struct operand_row operands[] = {
    {.name = "FILE",
     .help = "table (.csv, .tsv, .jsonl, .json) or text with the answer",
     .optional = true,
     .standard_input = true,
     .repeats = true},
    {0}};

static const struct example examples[] = {
    {"txl answer --model squad.txl --question \"Who wrote it?\" article.txt", "One question"},
    {"txl answer --model squad.txl questions.csv > answers.csv",
     "The columns text and question of a table"},
    {"txl answer --model squad.txl --top 3 --json questions.csv",
     "The three most likely answers, as JSON"},
    {0}};

/* The options of -h. */
static const char *const brief[] = {"question", "output",  "top",   "columns", "json",
                                    "stride",   "max-len", "model", NULL};

const struct command answer_command = {
    .name = "answer",
    .summary = "find the answer to a question in a text, by a fine-tuned XLNet",
    .description =
        "Writes a table with one row per text: the stretch of the text that most likely answers "
        "the question, where it is, and how likely it is that the text has no answer. A long "
        "text is read in windows.",
    .options = options,
    .brief = brief,
    .operands = operands,
    .examples = examples,
    .topics = answer_topics,
    .shared = "heads outputs summary",
    .defaults = &defaults,
    .size = sizeof defaults,
    .run = run,
};
