/* The options of txl train, and the settings of a run that follow from them. */
#ifndef CLI_TRAIN_OPTIONS_H
#define CLI_TRAIN_OPTIONS_H

#include "cli/model/settings.h"
#include "cli/text/tokens.h"
#include "train_report.h"

/* Defaults: a model of characters that two cores train on a novel in half an hour. */
#define TRAIN_VOCAB "characters"
#define TRAIN_MIN_COUNT 1
#define TRAIN_N_LAYER 6
#define TRAIN_N_HEAD 4
#define TRAIN_D_HEAD 64
#define TRAIN_D_MODEL 256
#define TRAIN_D_INNER 1024
#define TRAIN_DIV_VAL 1
#define TRAIN_TGT_LEN 128
#define TRAIN_MEM_LEN 128
/* Streams of a short text: fewer than TRAIN_BATCH where they would have less than TRAIN_SEGMENTS
 * segments; fewer than TRAIN_FEW where they would not have two. */
#define TRAIN_SEGMENTS 50
#define TRAIN_FEW 4
#define TRAIN_LR 0.001
#define TRAIN_INIT_LR 0.0003
#define TRAIN_LR_MIN 0
#define TRAIN_MUON 20 /* Muon's rate for each of Adam's */
#define TRAIN_WARMUP 100
#define TRAIN_DROPATT 0
#define TRAIN_STEPS 5000
#define TRAIN_EPOCHS 60
#define TRAIN_INIT_EPOCHS 6
#define TRAIN_EVAL_EVERY 250
#define TRAIN_PATIENCE 10
#define TRAIN_SAVE_EVERY 500
#define TRAIN_SEED 1
#define TRAIN_HEAD_EPOCHS 100

struct train_options {
    struct common_options common;
    const char *output, *name, *valid, *init, *also, *vocab, *cutoffs, *state, *resume, *log,
        *report;
    struct string_list columns;
    int task, text, shape, pre_lnorm, same_length, type, embeddings, compute, optimizer;
    bool ids, skip_unknown;
    int64_t attn_type, min_count, n_layer, n_head, d_head, d_model, d_inner, d_embed, div_val;
    int64_t tgt_len, ext_len, mem_len, clamp_len, batch, warmup, steps, epochs, eval_every,
        save_every, seed, forget_every, patience;
    double lr, lr_min, muon_lr, clip, epsilon, dropout, dropatt, hours;
};

enum { OPTIMIZER_ADAM, OPTIMIZER_MUON };
extern const char *const train_optimizers[];

/* Of a run that is resumed. */
#define RESUME_TAKES_ALL                                                                           \
    "--resume takes all settings from the state, except --steps, --epochs and --hours"

extern const struct option_row train_option_rows[];

/* Everything that a run of training depends on, except the model and the texts, and its progress.
 * The state keeps it. */
struct train_run {
    txl_training training;
    txl_schedule schedule;
    int64_t steps, epochs;          /* 0: no bound */
    double hours;                   /* likewise */
    int64_t eval_every, save_every; /* steps */
    int64_t patience;               /* evaluations that may be no better; 0: any number */
    int64_t waited;                 /* evaluations since the best one */
    bool carries_on;                /* began with an existing model, which is measured too */
    int text;                       /* TEXT_RAW, TEXT_TOKENS */
    bool ids;                       /* the texts are ids */
    bool skip_unknown;              /* leave out what the vocabulary lacks */
    bool unwrap;                    /* join the lines of paragraphs */
    int type;                       /* of the output, an index into weight_types */
    int embeddings;                 /* of embedding_types, + 1; 0: as `type` */
    bool holds_out;                 /* there is a held-out text */
    double seconds;                 /* of work so far, over all resumptions */
    double best;                    /* nats a token of the held-out text; NAN: not measured yet */
    int64_t best_step;              /* steps taken until then; -1: none */
    int64_t evaluated;              /* steps taken until the last measurement; -1: none */
    double valid_nats, valid_bits;  /* what it gave: a token, and as heldout_bits; NAN: none */
    double before_nats;             /* the same of the model that it began with; NAN: none */
    double late;                    /* running mean of the steps' nats a token; NAN: none */
    uint64_t valid_checksum;        /* of the held-out ids */
};

/* Takes the options, and defaults for those not given; `model` is the model to train, NULL for a
 * new one. */
void train_run_init(struct train_run *run, const struct train_options *options,
                    const txl_model *model);

/* Fits defaults to a text of this many tokens: fewer streams, less warm-up, more evaluations and an
 * earlier end for a short one. */
void train_run_fit(struct train_run *run, const struct train_options *options, uint64_t tokens);

/* Convert a run and its curves to the note of a state and back.  The text is the caller's to free,
 * NULL when memory is short; false if the note is not this command's. */
char *train_run_to_text(const struct train_run *run, const struct curves *curves);
bool train_run_from_text(struct train_run *run, struct curves *curves, const char *text);

/* The run and the settings of its training as an object; NULL when memory is short. */
json_t *train_run_to_json(const struct train_run *run);

#endif
