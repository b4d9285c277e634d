/* The work: jobs that wait, and the one thread that uses the model.  It takes up to so many slots
 * of them at a time, reads a stretch of a prompt and then draws a token for each slot that writes,
 * so that the weights are read once for up to 8 of them. */
#ifndef CLI_WORK_H
#define CLI_WORK_H

#include "background.h"
#include "http.h"
#include "request.h"
#include "slot.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MOST_PARALLEL = MOST_TEXTS, MOST_WAITING = 64 };

struct work;

/* A copy of the model that has learned from a text; the last one is kept. */
struct learned {
    uint64_t name;
    txl_learner *learner;
    const txl_model *model;
    size_t users; /* jobs */
};

/* A request that takes the model. */
struct job {
    struct job *next;
    struct work *work;
    struct exchange *exchange;
    const struct job_kind *kind;
    struct request c;
    struct text_rules rules; /* of its slots */
    struct id_list
        after_blank;    /* what the first token may not be if the prompt ends with a blank */
    struct slot *slots; /* [n_slot] */
    size_t n_slot, n_started, n_done;
    txl_settings settings; /* of its sessions, if `own_settings` */
    bool own_settings;
    const txl_model *other;  /* than the server's, with `own_settings`; NULL: that */
    struct learned *learned; /* whose model it is, or NULL */
    void *more;              /* of the kind */

    uint64_t name; /* of its answer: none can guess what names the text of another */
    int64_t created;
    bool begun;          /* a stream's head was sent */
    bool is_long;        /* its slots are done, and its answer takes long to write */
    bool over;           /* it was answered, or nobody waits for the answer */
    double sent;         /* when a stream last sent something */
    uint64_t runs;       /* of a job without slots */
    uint64_t read, made; /* tokens */
};

/* What differs between jobs.  The functions return false when memory is short. */
struct job_kind {
    bool (*run)(struct job *job); /* of a job without slots: does some of it, at the end answers;
                                     true: all */
    bool (*send)(struct job *job, struct slot *slot); /* of a stream: the slot has something new */
    bool (*finish)(struct job *job);                  /* all slots are done: answers */
    void (*free)(struct job *job);                    /* what is in `more` */
    bool one_at_a_time; /* without slots: the next one begins when this one is done */
};

struct work {
    const struct http_module *http;
    struct model model, compared; /* another model of the same vocabulary, or none; answers tell
                                     their files' names, no folders */
    txl_settings compared_settings;
    char fingerprint[64], compared_fingerprint[64];
    struct session_pool pool;
    struct former_texts former_texts;
    size_t parallel;

    struct background answers; /* large ones */

    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    struct job *first, **end; /* that the thread has not yet seen */
    size_t waiting;           /* jobs of which no slot was started */
    struct learned *learned;  /* NULL: none */
    bool closing;             /* no more are taken */
    bool abandoned;           /* all are ended at once */
    bool ended;               /* the thread */

    /* The thread's own. */
    struct job *jobs; /* in the order of their coming */
    struct active {
        struct job *job;
        struct slot *slot;
    } active[MOST_PARALLEL]; /* [n_active] slots that are read or written */
    struct texts texts;      /* of those that are written */
    size_t n_active, turn;

    /* What /metrics tells. */
    atomic_uint_fast64_t requests, failed, tokens_read, tokens_made, microseconds;
    atomic_size_t sessions;
};

/* Opens sessions for the model with these settings, and begins to work; `compared_settings` are
 * set. False with the error printed. */
bool work_open(struct work *work, const txl_settings *settings, size_t parallel);
bool work_start(struct work *work);

/* Takes a job, whose exchange it answers and releases, and which it frees; or frees it at once if
 * it is not `good`, or if too many wait.  False with the problem. */
bool work_take(struct work *work, struct job *job, bool good, struct problem *problem);

/* Takes no more jobs.  With `abandon` the others are ended at once. */
void work_end(struct work *work, bool abandon);
/* Whether the thread has ended, once no more are taken. */
bool work_has_ended(struct work *work);
/* Waits until the thread has ended. */
void work_join(struct work *work);
void work_close(struct work *work);

/* Sends a stream's event.  Takes the reference; false when memory is short. */
bool job_send(struct job *job, json_t *object);

/* Answers with JSON.  Takes the reference. */
bool job_answer(struct job *job, json_t *object);

/* The same of what is text already. */
bool job_send_text(struct job *job, const struct buffer *text);
void job_answer_text(struct job *job, const struct buffer *text);

/* A job for the exchange, with the completion's slots; NULL when memory is short. */
struct job *job_new(struct work *work, struct exchange *exchange, const struct job_kind *kind);
void job_free(struct job *job);

/* Tells what is wrong, and does nothing more for the job. */
void job_fail(struct job *job, const struct problem *problem);

/* Lets the job's sessions be of another model: the one that the server compares with, or what was
 * learned under a name (NULL: neither).  Its settings are chosen before.  False with the problem.
 */
bool job_choose_model(struct job *job, const char *learned, bool compares, struct problem *problem);

/* "learned-" and 16 hexadecimal digits. */
enum { LEARNED_NAME = 32 };
void learned_name(uint64_t name, char text[LEARNED_NAME]);
/* Keeps it; the one before was forgotten when this one began, and one learns at a time. */
void learned_install(struct work *work, struct learned *learned);
/* Frees the one that is kept.  False: jobs use it. */
bool learned_forget(struct work *work);
void learned_free(struct learned *learned);

/* Makes the slots.  False with the problem. */
bool job_open_slots(struct job *job, bool scoring, bool detailed, struct problem *problem);

/* Sends JSON to an exchange.  Takes the reference; NULL is an error of the server. */
void http_answer_json(const struct http_module *http, struct exchange *exchange, int status,
                      json_t *object, const struct http_header *headers, size_t n);
void http_answer_problem(const struct http_module *http, struct exchange *exchange,
                         const struct problem *problem);

#endif
