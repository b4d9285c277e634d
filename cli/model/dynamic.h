/* Dynamic evaluation (--dynamic): a model that learns from each segment after it has scored it.
 * What ppl and generate share. */
#ifndef CLI_DYNAMIC_H
#define CLI_DYNAMIC_H

#include "settings.h"

#include <math.h>

struct dynamic_options {
    bool on;
    int method; /* CHOICE_UNSET: not given */
    double lr;  /* NAN: not given */
    struct string_list statistics;
    const char *output; /* NULL: none */
    int type;           /* CHOICE_UNSET: f32 */
};

#define DYNAMIC_UNSET                                                                              \
    { .method = CHOICE_UNSET, .type = CHOICE_UNSET, .lr = NAN }

/* The first tokens of a text of statistics that are read, as in the published code, and its epsilon
 * for WikiText-103; a rate that suits many texts (docs/train.md), where the model states none. */
#define DYNAMIC_STATISTICS_TOKENS 20000
#define DYNAMIC_RMS_EPSILON 1e-5
#define DYNAMIC_ADAM_LR 3e-4
#define DYNAMIC_ADAM_EPSILON 1e-8
#define DYNAMIC_ADAM_DEFAULT "adam: the model's own, else " TEXT_OF(DYNAMIC_ADAM_LR)

/* What a learning model cannot do, in any command. */
#define DYNAMIC_EXCLUDES "memory-type compute arithmetic=exact low-memory"

/* Rows that ppl and generate have; ppl alone has the finer ones between them. */
#define DYNAMIC_ROW(type, member, what, others)                                                    \
    OPTION_ROW("dynamic", OPTION_FLAG, offsetof(type, member.on), what,                            \
               .section = "Dynamic evaluation", .excludes = (others))
#define DYNAMIC_LR_ROW(type, member)                                                               \
    OPTION_ROW("dynamic-lr", OPTION_REAL, offsetof(type, member.lr),                               \
               "learning rate; with 0 the model stays as it is", .standard = DYNAMIC_ADAM_DEFAULT, \
               .most = 1e6, .needs = "dynamic")
#define STATISTICS_ROW(type, member)                                                               \
    OPTION_ROW("statistics", OPTION_LIST, offsetof(type, member.statistics),                       \
               "rms: learn from FILE, like the training text, how far each weight may move; or "   \
               "PREFIX.index of a TensorFlow checkpoint",                                          \
               .file = FILE_READ, .needs = "dynamic")

#define DYNAMIC_ROWS(type, member, what, others)                                                   \
    DYNAMIC_ROW(type, member, what, others),                                                       \
        OPTION_ROW("dynamic-method", OPTION_CHOICE, offsetof(type, member.method),                 \
                   "choose how the weights follow a segment's gradient",                           \
                   .choices = dynamic_methods, .standard = "rms with --statistics, else adam",     \
                   .needs = "dynamic"),                                                            \
        DYNAMIC_LR_ROW(type, member), STATISTICS_ROW(type, member)

extern const char *const dynamic_methods[]; /* sgd, rms, adam: as txl_learning_method */

/* Refuses what the options of --dynamic cannot be among themselves.  Returns OPTIONS_RUN or the
 * status. */
int dynamic_check(const struct command *command, const struct dynamic_options *options);

/* Adam's rate where the user gives none. */
double dynamic_adam_lr(const txl_model *model);

/* How a text of statistics is read: as the texts are. */
struct dynamic_text {
    bool raw, ids, skip_unknown;
    const struct common_options *common; /* --binary, --unwrap */
};

struct dynamic {
    const struct dynamic_options *options;
    txl_learner *learner, *fixed; /* fixed: the same with rate 0, or NULL */
    struct dynamic_settings settings;
};

/* Says how much memory the learner takes, makes it, and collects the statistics; with `compared`,
 * makes the fixed one too.  False with the error printed, or after a signal; end with
 * dynamic_close. */
bool dynamic_open(struct dynamic *dynamic, const struct dynamic_options *options,
                  const struct model *model, const txl_settings *settings,
                  const struct dynamic_text *text, bool compared);
void dynamic_close(struct dynamic *dynamic);

/* Writes what the model became, if --dynamic-output asks for it.  False with the error printed. */
bool dynamic_write(struct dynamic *dynamic);

/* The object "dynamic" of a result; NULL when memory is short. */
json_t *dynamic_to_json(const struct dynamic_settings *settings, double drift);

#endif
