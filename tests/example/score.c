/* Scores the lines of a file in four threads, as `txl surprisal --lines` does, through the
 * installed library:
 *     cc score.c -pthread $(pkg-config --cflags --libs txl) -o score
 *     ./score model.txl lines.txt      # each line's tokens and nats
 * The model is read-only, so that the threads share it; each has a session of its own. */
#include <err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <txl.h>

enum { THREADS = 4, MOST = 4096 };

static txl_model *model;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static struct line {
    char *text;
    size_t length, tokens;
    double nats;
} * lines; /* [n_line] */
static size_t n_line, next;

static void check(txl_status status, const txl_error *error) {
    if (status)
        errx(1, "%s", error->message);
}

/* The model's first context comes before the line, and is not scored. */
static void score_line(txl_session *session, struct line *line) {
    int32_t ids[MOST + 1] = {txl_model_first_context(model)}, *own = ids + 1;
    float nats[MOST];
    size_t n;
    txl_error error;
    const txl_encoding encoding = {.raw = false}; /* words are split already; true: prose */
    check(txl_encode(model, &encoding, line->text, line->length, own, MOST, &n, &error), &error);
    if (n > MOST)
        errx(1, "a line has more than %d tokens", MOST);
    if (n > 0 && own[0] == ids[0] &&
        txl_kind_line_end(txl_model_kind(model)) == TXL_LINE_END_PAIR) {
        memmove(own, own + 1, (n - 1) * sizeof *own); /* the line begins with it itself */
        n--;
    }
    txl_session_reset(session);
    check(txl_session_score(session, ids, n, own, nats, &error), &error);
    line->tokens = n;
    for (size_t i = 0; i < n; i++)
        line->nats += nats[i];
}

static void *work(void *unused) {
    txl_settings settings;
    txl_session *session;
    txl_error error;
    txl_model_defaults(model, &settings);
    settings.threads = 1; /* this one */
    check(txl_session_new(model, &settings, &session, &error), &error);
    for (;;) {
        pthread_mutex_lock(&mutex);
        struct line *line = next < n_line ? &lines[next++] : NULL;
        pthread_mutex_unlock(&mutex);
        if (!line)
            break;
        score_line(session, line);
    }
    txl_session_free(session);
    return unused;
}

int main(int argc, char **argv) {
    txl_error error;
    pthread_t threads[THREADS];
    FILE *file = argc == 3 ? fopen(argv[2], "r") : NULL;
    if (!file)
        errx(2, "usage: score MODEL.txl FILE");
    check(txl_model_open(argv[1], 0, &model, &error), &error);
    char *text = NULL;
    size_t room = 0;
    for (ssize_t n; (n = getline(&text, &room, file)) > 0; text = NULL, room = 0) {
        lines = realloc(lines, (n_line + 1) * sizeof *lines);
        if (!lines)
            errx(1, "out of memory");
        lines[n_line++] = (struct line){.text = text, .length = (size_t)n};
    }
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, NULL))
            errx(1, "no thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < n_line; i++) {
        printf("%zu\t%.4f\n", lines[i].tokens, lines[i].nats);
        free(lines[i].text);
    }
    free(text);
    free(lines);
    fclose(file);
    txl_model_close(model);
}
