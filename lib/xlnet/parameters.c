/* The tables of an XLNet's settings and parameters. */
#include "parameters.h"
#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/network/parameters.h"
#include "xlnet.h"

/* ---- Settings ----------------------------------------------------------------------------- */

const char *xlnet_activation_name(uint32_t activation) {
    static const char *const names[] = {"relu", "gelu-tanh", "gelu-erf", "swish"};
    return activation < sizeof names / sizeof *names ? names[activation] : NULL;
}

const char *xlnet_attention_name(uint32_t attention) {
    static const char *const names[] = {"bi", "uni"};
    return attention < sizeof names / sizeof *names ? names[attention] : NULL;
}

static const char *memory_start_name(uint32_t start) {
    return start == 0 ? "empty" : NULL;
}

const char *txl_head_name(txl_head head) {
    static const char *const names[] = {[TXL_HEAD_NONE] = "none",
                                        [TXL_HEAD_SEQUENCE] = "sequence-classification",
                                        [TXL_HEAD_CHOICE] = "multiple-choice",
                                        [TXL_HEAD_TOKENS] = "token-classification",
                                        [TXL_HEAD_SPANS] = "question-answering-simple",
                                        [TXL_HEAD_BEAMS] = "question-answering"};
    return (size_t)head < sizeof names / sizeof *names ? names[head] : NULL;
}

static const char *head_name(uint32_t head) {
    return txl_head_name((txl_head)head);
}

static const char *summary_name(uint32_t summary) {
    static const char *const names[] = {"none", "last", "first", "mean"};
    return summary < sizeof names / sizeof *names ? names[summary] : NULL;
}

static const char *summary_activation_name(uint32_t activation) {
    static const char *const names[] = {"linear",    "tanh",  "relu",   "gelu-erf",
                                        "gelu-tanh", "swish", "sigmoid"};
    return activation < sizeof names / sizeof *names ? names[activation] : NULL;
}

#define PLACE(member) .place = offsetof(struct xlnet_settings, member)

static const struct setting settings_table[] = {
    {"n_layer", SETTING_INTEGER, 1, MAX_N_LAYER, PLACE(n_layer), .help = "layers"},
    {"n_head", SETTING_INTEGER, 1, MAX_N_HEAD, PLACE(n_head), .help = "attention heads"},
    {"d_head", SETTING_INTEGER, 1, MAX_D_HEAD, PLACE(d_head), .help = "width of a head"},
    {"d_model", SETTING_INTEGER, 2, MAX_D_MODEL, PLACE(d_model), .help = "width of a layer"},
    {"d_inner", SETTING_INTEGER, 1, MAX_D_INNER, PLACE(d_inner),
     .help = "width inside the feed-forward part"},
    {"ff_activation", SETTING_WORD, .spelling = xlnet_activation_name, PLACE(ff_activation),
     .help = "what is between the two matrices of the feed-forward part; `gelu-tanh` is the form "
             "with tanh"},
    {"attn_type", SETTING_WORD, .spelling = xlnet_attention_name, PLACE(attn_type),
     .help = "`bi`, or `uni`: no position sees what is to its right"},
    {"layer_norm_eps", SETTING_REAL, 0, 1, PLACE(layer_norm_eps),
     .help = "what layer norm adds to the variance"},
    {"tied_weights", SETTING_TRUTH, PLACE(tied_weights),
     .help = "whether the softmax's weights are the embedding's"},
    {"memory_start", SETTING_WORD, .spelling = memory_start_name, PLACE(memory_start),
     .help = "what the memory holds before the first token"},
    {"language_model", SETTING_TRUTH, .optional = true, .fallback = 1, .left_out = true,
     PLACE(language_model), .help = "whether there is a softmax"},
    {"head", SETTING_WORD, .spelling = head_name, .optional = true, .left_out = true, PLACE(head),
     .help = "the head of a fine-tuned model"},
    {"labels", SETTING_LABELS, .optional = true, .left_out = true, PLACE(labels),
     .count = offsetof(struct xlnet_settings, n_label), .help = "the names of its labels"},
    {"multi_label", SETTING_TRUTH, .optional = true, .left_out = true, PLACE(multi_label),
     .help = "whether a text may have several labels"},
    {"summary", SETTING_WORD, .spelling = summary_name, .optional = true, .left_out = true,
     PLACE(summary), .help = "which row stands for a text"},
    {"summary_projected", SETTING_TRUTH, .optional = true, .left_out = true,
     PLACE(summary_projected), .help = "whether a linear layer follows that row"},
    {"summary_activation", SETTING_WORD, .spelling = summary_activation_name, .optional = true,
     .left_out = true, PLACE(summary_activation), .help = "the activation after that"},
    {"start_n_top", SETTING_INTEGER, 0, MAX_N_TOP, .optional = true, .left_out = true,
     PLACE(start_n_top), .help = "how many starts of answers are kept"},
    {"end_n_top", SETTING_INTEGER, 0, MAX_N_TOP, .optional = true, .left_out = true,
     PLACE(end_n_top), .help = "how many ends are kept for each of them"},
};

const struct setting_table xlnet_setting_table = {settings_table,
                                                  sizeof settings_table / sizeof *settings_table};

#undef PLACE

int xlnet_n_logit(const struct xlnet_settings *s) {
    const bool labelled = s->head == TXL_HEAD_SEQUENCE || s->head == TXL_HEAD_TOKENS;
    return labelled ? s->n_label : s->head == TXL_HEAD_SPANS ? 2 : 1;
}

/* What each head has besides its tensors, and no other. */
static txl_status check_head(const struct xlnet_settings *s, const char *name, txl_status failure,
                             txl_error *error) {
    const char *head = txl_head_name((txl_head)s->head);
    const bool labelled = s->head == TXL_HEAD_SEQUENCE || s->head == TXL_HEAD_TOKENS;
    const bool summed_up = s->head == TXL_HEAD_SEQUENCE || s->head == TXL_HEAD_CHOICE;
    const bool beams = s->head == TXL_HEAD_BEAMS;
    const struct {
        const char *key;
        bool there, needed, allowed;
    } settings[] = {
        {"labels", s->labels, labelled, labelled},
        {"multi_label", s->multi_label, false, s->head == TXL_HEAD_SEQUENCE},
        {"summary", s->summary != XLNET_NO_SUMMARY, summed_up, summed_up},
        {"summary_projected", s->summary_projected, false, summed_up},
        {"summary_activation", s->summary_activation != XLNET_SUMMARY_LINEAR, false, summed_up},
        {"start_n_top", s->start_n_top > 0, beams, beams},
        {"end_n_top", s->end_n_top > 0, beams, beams},
    };
    if (s->head == TXL_HEAD_NONE && !s->language_model)
        return txl_fail(error, failure, "%s: there is neither a language model nor a head", name);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (settings[i].there ? !settings[i].allowed : settings[i].needed)
            return txl_fail(error, failure, "%s: setting \"%s\" is %s, but the head is %s", name,
                            settings[i].key, settings[i].there ? "there" : "missing", head);
    return TXL_OK;
}

txl_status xlnet_check(const void *settings, const char *name, txl_status failure,
                       txl_error *error) {
    const struct xlnet_settings *s = settings;
    if (s->d_model % 2)
        return txl_fail(error, failure, "%s: d_model is %d, an odd number", name, s->d_model);
    if (s->attn_type == XLNET_UNI && s->model.same_length)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: attn_type uni with same_length: the first tokens would see nothing",
                        name);
    return check_head(s, name, failure, error);
}

/* ---- Parameters --------------------------------------------------------------------------- */

/* Sizes of tensors. */
enum {
    TOKENS,
    MODEL,
    INNER,
    HEADS, /* all heads side by side */
    QKV,
    SEGMENTS,
    LOGITS, /* of a head, for a row */
    PAIR,   /* two rows side by side */
    ONE
};

/* Conditions under which a parameter exists. */
enum { ALWAYS, SOFTMAX, UNTIED, PROJECTED, HEAD, BEAMS };

#define LAYER_STRUCT struct xlnet_layer

/* The rows of a head's linear part and of its layer norm. */
#define HEAD_ROW(kind, member)                                                                     \
    PARAMETER_GLOBAL, PARAMETER_##kind, USED_BY_TOKEN, .place = offsetof(struct xlnet, head.member)
#define HEAD_ROWS(number, name, matrix, vector, n_row, n_column, condition)                        \
    [number##_WEIGHT] = {name ".weight", HEAD_ROW(HEAD, matrix), MATRIX(n_row, n_column),          \
                         .when = condition},                                                       \
    [number##_BIAS] = {name ".bias", HEAD_ROW(VECTOR, vector), VECTOR(n_row), .when = condition}

static const struct parameter parameters[N_XLNET_PARAMETER] = {
    [XLNET_EMBEDDING] = {"embedding.*.weight", BAND(MATRIX, embedding), MATRIX(TOKENS, MODEL)},
    [XLNET_SOFTMAX] = {"softmax.*.weight", BAND(MATRIX, softmax), MATRIX(TOKENS, MODEL),
                       .when = UNTIED},
    [XLNET_SOFTMAX_BIAS] = {"softmax.*.bias", BAND(VECTOR, softmax_bias), VECTOR(TOKENS),
                            .when = SOFTMAX},
    [XLNET_MASK] = {"embedding.mask", PARAMETER_GLOBAL, PARAMETER_VECTOR, USED_BY_TOKEN,
                    VECTOR(MODEL), .place = offsetof(struct xlnet, mask)},
    HEAD_ROWS(XLNET_SUMMARY, "head.summary", summary, summary_bias, MODEL, MODEL, PROJECTED),
    HEAD_ROWS(XLNET_HEAD, "head.logits", logits, logits_bias, LOGITS, MODEL, HEAD),
    HEAD_ROWS(XLNET_END_HIDDEN, "head.end.hidden", end_hidden, end_hidden_bias, MODEL, PAIR, BEAMS),
    [XLNET_END_NORM_WEIGHT] = {"head.end.norm.weight", HEAD_ROW(VECTOR, end_norm.weight),
                               VECTOR(MODEL), .when = BEAMS, .mean = 1},
    [XLNET_END_NORM_BIAS] = {"head.end.norm.bias", HEAD_ROW(VECTOR, end_norm.bias), VECTOR(MODEL),
                             .when = BEAMS},
    HEAD_ROWS(XLNET_END, "head.end.logit", end, end_bias, ONE, MODEL, BEAMS),
    HEAD_ROWS(XLNET_ANSWER_HIDDEN, "head.answer.hidden", answer_hidden, answer_hidden_bias, MODEL,
              PAIR, BEAMS),
    [XLNET_ANSWER_WEIGHT] = {"head.answer.logit.weight", HEAD_ROW(HEAD, answer), MATRIX(ONE, MODEL),
                             .when = BEAMS},
    [XLNET_QKV] = {"layer.*.attention.qkv", LAYER(MATRIX, USED_BY_TOKEN, qkv), MATRIX(QKV, MODEL)},
    [XLNET_O] = {"layer.*.attention.o", LAYER(MATRIX, USED_BY_TOKEN, o), MATRIX(MODEL, HEADS)},
    [XLNET_R] = {"layer.*.attention.r", LAYER(MATRIX, USED_BY_POSITIONS, r), MATRIX(HEADS, MODEL)},
    [XLNET_U] = {"layer.*.attention.u", LAYER(VECTOR, USED_BY_TOKEN, u), VECTOR(HEADS)},
    [XLNET_V] = {"layer.*.attention.v", LAYER(VECTOR, USED_BY_TOKEN, v), VECTOR(HEADS)},
    [XLNET_S] = {"layer.*.attention.s", LAYER(VECTOR, USED_BY_POSITIONS, s), VECTOR(HEADS)},
    [XLNET_SEGMENT] = {"layer.*.attention.segment", LAYER(VECTOR, USED_BY_POSITIONS, segment),
                       VECTOR(SEGMENTS)},
    NORM_ROWS(XLNET_ATTENTION_NORM, "layer.*.attention.norm", attention_norm),
    LINEAR_ROWS(XLNET_FEED_FORWARD_1, "layer.*.feed_forward.1", feed_forward_1, feed_forward_bias_1,
                INNER, MODEL),
    LINEAR_ROWS(XLNET_FEED_FORWARD_2, "layer.*.feed_forward.2", feed_forward_2, feed_forward_bias_2,
                MODEL, INNER),
    NORM_ROWS(XLNET_FEED_FORWARD_NORM, "layer.*.feed_forward.norm", feed_forward_norm),
};

static int count_parts(const void *settings, enum parameter_scope scope) {
    const struct xlnet_settings *s = settings;
    return scope == PARAMETER_LAYER ? s->n_layer : 1;
}

static bool has_parameter(const void *settings, int when, int i) {
    const struct xlnet_settings *s = settings;
    (void)i;
    switch (when) {
    case SOFTMAX:
        return s->language_model;
    case UNTIED:
        return s->language_model && !s->tied_weights;
    case PROJECTED:
        return s->summary_projected;
    case HEAD:
        return s->head != TXL_HEAD_NONE;
    case BEAMS:
        return s->head == TXL_HEAD_BEAMS;
    default:
        return true;
    }
}

static uint64_t parameter_size(const void *settings, int size, int i) {
    const struct xlnet_settings *s = settings;
    const int heads = s->n_head * s->d_head;
    const int sizes[] = {[TOKENS] = s->model.n_token,
                         [MODEL] = s->d_model,
                         [INNER] = s->d_inner,
                         [HEADS] = heads,
                         [QKV] = 3 * heads,
                         [SEGMENTS] = 2 * heads,
                         [LOGITS] = xlnet_n_logit(s),
                         [PAIR] = 2 * s->d_model,
                         [ONE] = 1};
    (void)i;
    return (uint64_t)sizes[size];
}

const struct parameter_table xlnet_parameters = {.parameter = parameters,
                                                 .n = N_XLNET_PARAMETER,
                                                 .count = count_parts,
                                                 .has = has_parameter,
                                                 .size = parameter_size,
                                                 .layer_size = sizeof(struct xlnet_layer)};
