/* The settings of a model, as the header of its weights file states them: one table for each
 * family, which reads them from JSON and writes them to it. */
#ifndef TXL_SETTINGS_H
#define TXL_SETTINGS_H

#include "lib/base/error.h"
#include "lib/base/limits.h"
#include "lib/weights/weights.h"
#include "txl.h"

#include <jansson.h>

/* The settings of every family.  A family's settings are a struct that begins with this one. */
struct model_settings {
    char name[MAX_MODEL_NAME + 1]; /* "": none */
    txl_kind tokenizer;
    bool lower_case;
    int unk_id, eos_id; /* -1: none */
    int n_token;
    int tgt_len, mem_len, clamp_len;
    bool same_length;
    double dynamic_lr; /* Adam's rate in dynamic evaluation; 0: none is stated */
    int type;          /* enum weights_type, of the matrices */
};

enum setting_type {
    SETTING_NAME,    /* char[MAX_MODEL_NAME + 1]: text without control characters, "" for none */
    SETTING_INTEGER, /* an int, or an enum, in [low, high] */
    SETTING_TRUTH,   /* a bool */
    SETTING_REAL,    /* a double in [low, high], or in (low, high] with `above` */
    SETTING_WORD,    /* an int, or an enum: the index of a word */
    SETTING_ID,      /* an int: the id of a symbol, or -1 for null */
    SETTING_LABELS,  /* json_t *: strings, owned by what the settings were read from; NULL for
                        none, and `count` is their number */
    SETTING_CUTOFFS, /* int[MAX_BAND], ascending to n_token; `count` is their number plus one */
    SETTING_TRUTHS   /* bool[MAX_BAND]; `count` is their number */
};

struct setting {
    const char *key;
    enum setting_type type;
    long long low, high;
    const char *(*spelling)(uint32_t number); /* NULL for a number beyond the last */
    bool optional;                            /* a file may leave it out; then it is `fallback` */
    int fallback;
    double real_fallback; /* of a SETTING_REAL */
    bool above;           /* a SETTING_REAL exceeds `low` */
    bool left_out;        /* a file leaves it out where it is the fallback */
    size_t place, count;  /* offsets in the settings */
    const char *help;     /* its meaning, for weights-format.md */
};

struct setting_table {
    const struct setting *setting;
    size_t n;
};

/* The tables of the settings of every family: those of the text come first in a file, lengths and
 * the type of the matrices last. */
extern const struct setting_table settings_of_text, settings_of_lengths;

/* Reads the settings of a table.  `name` is the file for messages, `failure` the status of a
 * setting that is missing or wrong. */
txl_status settings_read(const struct setting_table *table, const json_t *object, const char *name,
                         txl_status failure, void *settings, txl_error *error);

/* Adds the settings of a table to the object; false: out of memory. */
bool settings_write(const struct setting_table *table, const void *settings, json_t *object);

/* Whether a model may have this name, and a label of its head this one. */
bool setting_is_name(const char *text);
bool setting_is_label(const char *text);
#define SETTING_NAME_RULE                                                                          \
    "1 to " TEXT_OF(MAX_MODEL_NAME) " bytes of UTF-8 without control characters"
#define SETTING_LABEL_RULE "1 to 255 bytes of UTF-8 without control characters"
#define SETTING_LABELS_RULE "1 to 65,536 names, each " SETTING_LABEL_RULE

/* The index of the word that `text` is, or -1; `text` may be NULL. */
int setting_word(const char *(*spelling)(uint32_t number), const char *text);

#endif
