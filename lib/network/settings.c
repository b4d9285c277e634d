/* Reads settings from JSON, checks them, and writes them. */
#include "settings.h"
#include "family.h"
#include "lib/base/error.h"
#include "lib/base/json_memory.h"
#include "lib/base/limits.h"
#include "lib/text/kind.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistr.h>

#define PLACE(member) .place = offsetof(struct model_settings, member)

static const struct setting text_table[] = {
    {"name", SETTING_NAME, .optional = true, .left_out = true, PLACE(name),
     .help = "a name for people"},
    {"tokenizer", SETTING_WORD, .spelling = text_kind_name, PLACE(tokenizer),
     .help = "how text becomes symbols"},
    {"lower_case", SETTING_TRUTH, PLACE(lower_case),
     .help = "whether text is lower-cased before it is looked up"},
    {"unk_id", SETTING_ID, PLACE(unk_id), .help = "the symbol for unknown ones, or null"},
    {"eos_id", SETTING_ID, PLACE(eos_id), .help = "the symbol of the line boundary, or null"},
    {"n_token", SETTING_INTEGER, 1, MAX_N_TOKEN, PLACE(n_token),
     .help = "symbols in the vocabulary"},
};

static const struct setting length_table[] = {
    {"tgt_len", SETTING_INTEGER, 1, TXL_MAX_TGT_LEN, PLACE(tgt_len), .help = "tokens of a segment"},
    {"mem_len", SETTING_INTEGER, 0, TXL_MAX_MEM_LEN, PLACE(mem_len),
     .help = "rows of memory before the segment"},
    {"clamp_len", SETTING_INTEGER, -1, INT32_MAX, PLACE(clamp_len),
     .help = "longest distance with a position of its own; -1 is none"},
    {"same_length", SETTING_TRUTH, PLACE(same_length),
     .help = "whether every token sees exactly mem_len positions"},
    {"dynamic_lr", SETTING_REAL, 0, 1, .optional = true, .left_out = true, .above = true,
     PLACE(dynamic_lr), .help = "the default of Adam's rate in dynamic evaluation"},
    {"type", SETTING_WORD, .spelling = weights_type_name, .optional = true, PLACE(type),
     .help = "the type of the matrices"},
};

const struct setting_table settings_of_text = {text_table, sizeof text_table / sizeof *text_table};
const struct setting_table settings_of_lengths = {length_table,
                                                  sizeof length_table / sizeof *length_table};

int setting_word(const char *(*spelling)(uint32_t number), const char *text) {
    for (uint32_t i = 0; text && spelling(i); i++)
        if (strcmp(spelling(i), text) == 0)
            return (int)i;
    return -1;
}

static bool is_text(const char *text, size_t most) {
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return false;
    return n >= 1 && n <= most && !u8_check((const uint8_t *)text, n);
}

bool setting_is_name(const char *text) {
    return is_text(text, MAX_MODEL_NAME);
}

bool setting_is_label(const char *text) {
    return is_text(text, MAX_LABEL_NAME);
}

/* Enums without a negative member are unsigned ints, which are read and written as ints. */
_Static_assert(sizeof(txl_kind) == sizeof(int), "an enum is as large as an int");

/* ---- Reading ------------------------------------------------------------------------------ */

/* Where values come from, for messages, and the status of a wrong one. */
struct origin {
    const char *name;
    txl_status failure;
};

static txl_status wrong_setting(const struct origin *from, const char *key, txl_error *error,
                                const char *expected, ...) __attribute__((format(printf, 4, 5)));
static txl_status wrong_setting(const struct origin *from, const char *key, txl_error *error,
                                const char *expected, ...) {
    char what[120];
    va_list args;
    va_start(args, expected);
    vsnprintf(what, sizeof what, expected, args);
    va_end(args);
    return txl_fail(error, from->failure, "%s: setting \"%s\" is missing or not %s", from->name,
                    key, what);
}

static txl_status read_name(const struct origin *from, const char *key, const json_t *value,
                            char *out, txl_error *error) {
    const char *text = json_string_value(value);
    if (!text || !setting_is_name(text))
        return wrong_setting(from, key, error, SETTING_NAME_RULE);
    strcpy(out, text);
    return TXL_OK;
}

static txl_status read_integer(const struct origin *from, const char *key, const json_t *value,
                               long long low, long long high, int *out, txl_error *error) {
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < low || n > high)
        return wrong_setting(from, key, error, "an integer from %lld to %lld", low, high);
    *out = (int)n;
    return TXL_OK;
}

static txl_status read_real(const struct origin *from, const struct setting *s, const json_t *value,
                            double *out, txl_error *error) {
    double number = json_number_value(value);
    bool high_enough = s->above ? number > (double)s->low : number >= (double)s->low;
    if (!json_is_number(value) || !(high_enough && number <= (double)s->high))
        return wrong_setting(from, s->key, error, "a number %s %lld %s %lld",
                             s->above ? "above" : "from", s->low, s->above ? "and up to" : "to",
                             s->high);
    *out = number;
    return TXL_OK;
}

static txl_status read_truth(const struct origin *from, const char *key, const json_t *value,
                             bool *out, txl_error *error) {
    if (!json_is_boolean(value))
        return wrong_setting(from, key, error, "true or false");
    *out = json_is_true(value);
    return TXL_OK;
}

static txl_status read_word(const struct origin *from, const struct setting *s, const json_t *value,
                            int *out, txl_error *error) {
    *out = setting_word(s->spelling, json_string_value(value));
    if (*out >= 0)
        return TXL_OK;
    char expected[120] = "";
    for (uint32_t i = 0; s->spelling(i); i++) {
        const char *before = i == 0 ? "" : s->spelling(i + 1) ? ", " : " or ";
        size_t used = strlen(expected);
        snprintf(expected + used, sizeof expected - used, "%s%s", before, s->spelling(i));
    }
    return wrong_setting(from, s->key, error, "%s", expected);
}

static txl_status read_id(const struct origin *from, const char *key, const json_t *value,
                          const struct model_settings *settings, int *out, txl_error *error) {
    *out = -1;
    return json_is_null(value)
               ? TXL_OK
               : read_integer(from, key, value, 0, settings->n_token - 1, out, error);
}

static txl_status read_labels(const struct origin *from, const char *key, const json_t *value,
                              json_t **labels, int *count, txl_error *error) {
    size_t n = json_array_size(value);
    bool good = n >= 1 && n <= MAX_LABEL;
    for (size_t i = 0; i < n && good; i++) {
        const json_t *label = json_array_get(value, i);
        good = json_is_string(label) && setting_is_label(json_string_value(label));
    }
    *labels = (json_t *)value;
    *count = (int)n;
    return good ? TXL_OK : wrong_setting(from, key, error, SETTING_LABELS_RULE);
}

static txl_status read_cutoffs(const struct origin *from, const char *key, const json_t *value,
                               int n_token, int *cutoff, int *n_band, txl_error *error) {
    size_t n = json_array_size(value);
    if (!json_is_array(value) || n > MAX_BAND - 1)
        return wrong_setting(from, key, error, "a list of up to %d", MAX_BAND - 1);
    for (size_t i = 0; i < n; i++) {
        json_int_t at = json_integer_value(json_array_get(value, i));
        if (at <= (i > 0 ? cutoff[i - 1] : 0) || at >= n_token)
            return txl_fail(error, from->failure,
                            "%s: the cutoffs do not ascend to below n_token (%d)", from->name,
                            n_token);
        cutoff[i] = (int)at;
    }
    *n_band = (int)n + 1;
    return TXL_OK;
}

/* Values missing at the end of the list are false. */
static txl_status read_truths(const struct origin *from, const char *key, const json_t *value,
                              int count, bool *out, txl_error *error) {
    if (!json_is_array(value))
        return wrong_setting(from, key, error, "a list");
    for (int i = 0; i < count; i++)
        out[i] = json_is_true(json_array_get(value, (size_t)i));
    return TXL_OK;
}

static txl_status read_setting(const struct origin *from, const struct setting *s,
                               const json_t *object, void *settings, txl_error *error) {
    const json_t *value = json_object_get(object, s->key);
    const struct model_settings *common = settings;
    void *place = (char *)settings + s->place;
    int *count = (int *)((char *)settings + s->count);
    if (!value && s->optional) {
        if (s->type == SETTING_INTEGER || s->type == SETTING_WORD)
            *(int *)place = s->fallback;
        else if (s->type == SETTING_TRUTH)
            *(bool *)place = s->fallback != 0;
        else if (s->type == SETTING_REAL)
            *(double *)place = s->real_fallback;
        return TXL_OK;
    }
    switch (s->type) {
    case SETTING_NAME:
        return read_name(from, s->key, value, place, error);
    case SETTING_INTEGER:
        return read_integer(from, s->key, value, s->low, s->high, place, error);
    case SETTING_TRUTH:
        return read_truth(from, s->key, value, place, error);
    case SETTING_REAL:
        return read_real(from, s, value, place, error);
    case SETTING_WORD:
        return read_word(from, s, value, place, error);
    case SETTING_ID:
        return read_id(from, s->key, value, common, place, error);
    case SETTING_LABELS:
        return read_labels(from, s->key, value, place, count, error);
    case SETTING_CUTOFFS:
        return read_cutoffs(from, s->key, value, common->n_token, place, count, error);
    case SETTING_TRUTHS:
        return read_truths(from, s->key, value, *count, place, error);
    }
    return TXL_OK;
}

txl_status settings_read(const struct setting_table *table, const json_t *object, const char *name,
                         txl_status failure, void *settings, txl_error *error) {
    const struct origin from = {name, failure};
    txl_status status = TXL_OK;
    /* Ids come last, because n_token bounds them. */
    for (int ids = 0; ids < 2; ids++) {
        for (size_t i = 0; i < table->n && !status; i++)
            if ((table->setting[i].type == SETTING_ID) == (ids == 1))
                status = read_setting(&from, &table->setting[i], object, settings, error);
    }
    return status;
}

/* ---- Writing ------------------------------------------------------------------------------ */

static json_t *write_list(const struct setting *s, const void *settings) {
    const int *cutoff = (const int *)((const char *)settings + s->place);
    const bool *truth = (const bool *)((const char *)settings + s->place);
    int count = *(const int *)((const char *)settings + s->count);
    json_t *list = json_array();
    bool good = list != NULL;
    for (int i = 0; i + 1 < count && s->type == SETTING_CUTOFFS; i++)
        good = json_array_append_new(list, json_integer(cutoff[i])) == 0 && good;
    for (int i = 0; i < count && s->type == SETTING_TRUTHS; i++)
        good = json_array_append_new(list, json_boolean(truth[i])) == 0 && good;
    if (good)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *write_setting(const struct setting *s, const void *settings) {
    const void *place = (const char *)settings + s->place;
    int number = 0;
    if (s->type == SETTING_INTEGER || s->type == SETTING_WORD || s->type == SETTING_ID)
        number = *(const int *)place;
    switch (s->type) {
    case SETTING_NAME:
        return json_string(place);
    case SETTING_INTEGER:
        return json_integer(number);
    case SETTING_TRUTH:
        return json_boolean(*(const bool *)place);
    case SETTING_REAL:
        return json_real(*(const double *)place);
    case SETTING_WORD:
        return json_string(s->spelling((uint32_t)number));
    case SETTING_ID:
        return number < 0 ? json_null() : json_integer(number);
    case SETTING_LABELS:
        return json_incref(*(json_t *const *)place);
    case SETTING_CUTOFFS:
    case SETTING_TRUTHS:
        break;
    }
    return write_list(s, settings);
}

static bool is_fallback(const struct setting *s, const void *settings) {
    const void *place = (const char *)settings + s->place;
    if (s->type == SETTING_NAME)
        return *(const char *)place == '\0';
    if (s->type == SETTING_LABELS)
        return !*(json_t *const *)place;
    if (s->type == SETTING_REAL)
        return *(const double *)place == s->real_fallback;
    if (s->type == SETTING_TRUTH)
        return *(const bool *)place == (s->fallback != 0);
    return *(const int *)place == s->fallback;
}

bool settings_write(const struct setting_table *table, const void *settings, json_t *object) {
    for (size_t i = 0; i < table->n; i++) {
        const struct setting *s = &table->setting[i];
        if (s->left_out && is_fallback(s, settings))
            continue;
        if (json_object_set_new(object, s->key, write_setting(s, settings)) != 0)
            return false;
    }
    return true;
}

/* ---- All settings of a family ------------------------------------------------------------- */

txl_status family_read_settings(const struct family *family, const json_t *object, const char *name,
                                txl_status failure, void *settings, txl_error *error) {
    txl_status status = settings_read(&settings_of_lengths, object, name, failure, settings, error);
    if (!status)
        status = settings_read(family->settings, object, name, failure, settings, error);
    return status ? status : family->check(settings, name, failure, error);
}

char *family_settings_text(const struct family *family, const void *settings) {
    json_t *object = json_pack("{s:s}", "family", family->name);
    bool good = object && settings_write(&settings_of_text, settings, object) &&
                settings_write(family->settings, settings, object) &&
                settings_write(&settings_of_lengths, settings, object);
    char *text = good ? json_text(object, JSON_INDENT(1)) : NULL;
    json_decref(object);
    return text;
}
