/* Reads texts and labels, and holds some out. */
#include "labelled_texts.h"

#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"
#include "lib/base/limits.h"
#include "lib/base/numbers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

/* Of a label's texts one in so many is held out. */
enum { HELD_SHARE = 10 };

/* The stream of random numbers that choose these; epochs have those from 1 on. */
static const uint64_t SPLIT_STREAM = UINT64_MAX;

void shuffle(size_t *order, size_t n, uint64_t seed, uint64_t stream) {
    txl_random random = {.seed = seed, .stream = stream};
    for (size_t i = n; i > 1; i--) {
        const size_t k = (size_t)(random_uniform(&random) * (double)i), last = order[i - 1];
        order[i - 1] = order[k];
        order[k] = last;
    }
}

/* ---- Labels ------------------------------------------------------------------------------- */

/* Where the label is among those so far, or has to be put; `*found` says which. */
static size_t find_label(const struct labelled_texts *t, const char *name, size_t length,
                         bool *found) {
    size_t low = 0, high = t->n_label;
    *found = false;
    while (low < high && !*found) {
        const size_t middle = low + (high - low) / 2;
        const char *other = t->labels[middle]->name;
        int order = strncmp(name, other, length);
        order = order == 0 && other[length] != '\0' ? -1 : order;
        *found = order == 0;
        if (*found || order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}

/* Whether a weights file can have such a label. */
static bool is_label(const struct own_value *value) {
    bool good = value->length <= MAX_LABEL_NAME && !(value->bare && strchr("{[", *value->text)) &&
                !u8_check((const uint8_t *)value->text, value->length);
    for (size_t i = 0; i < value->length && good; i++)
        good = (unsigned char)value->text[i] >= ' ' && value->text[i] != 0x7f;
    return good;
}

/* The label of that name, which may be new; NULL with the error printed. */
static struct label *take_label(struct labelled_texts *t, const struct own_value *value) {
    bool found;
    const size_t at = find_label(t, value->text, value->length, &found);
    if (found)
        return t->labels[at];
    if (t->n_label == MAX_LABEL) {
        terminal_error("there are more than %d labels: is another column meant? --columns "
                       "label=NAME names it",
                       MAX_LABEL);
        return NULL;
    }
    struct label *label = calloc(1, sizeof *label);
    char *name = strndup(value->text, value->length);
    if (t->n_label == t->labels_room) {
        const size_t room = 2 * t->labels_room + 16;
        struct label **labels = reallocarray(t->labels, room, sizeof *labels);
        t->labels = labels ? labels : t->labels;
        t->labels_room = labels ? room : t->labels_room;
    }
    if (!label || !name || t->n_label == t->labels_room) {
        terminal_error("out of memory");
        free(label);
        free(name);
        return NULL;
    }
    label->name = name;
    memmove(t->labels + at + 1, t->labels + at, (t->n_label - at) * sizeof(struct label *));
    t->labels[at] = label;
    t->n_label++;
    return label;
}

/* ---- Texts -------------------------------------------------------------------------------- */

static bool reserve_text(struct labelled_texts *t) {
    if (t->inputs.n < t->texts_room)
        return true;
    const size_t room = 2 * t->texts_room + 64;
    struct labelled_text *texts = reallocarray(t->texts, room, sizeof *texts);
    if (!texts)
        return terminal_error("out of memory");
    t->texts = texts;
    t->texts_room = room;
    return true;
}

/* Adds a text with its label.  False with the error printed. */
static bool add_text(struct labelled_texts *t, const struct record *record, bool held) {
    struct heads *h = &t->heads;
    struct own_value name = record->label;
    size_t n, cut;
    if (name.text)
        items_trim(&name.text, &name.length);
    if (!name.text || name.length == 0 || items_is_missing(&name)) {
        t->first_line = t->unlabelled == 0 ? record->table->record : t->first_line;
        t->first_table = t->unlabelled++ == 0 ? record->name : t->first_table;
        return true;
    }
    if (!is_label(&name)) {
        items_table_wrong(record->table, "its label is not 1 to %d bytes of UTF-8 in one line",
                          MAX_LABEL_NAME);
        return true;
    }
    struct label *label = take_label(t, &name);
    if (!label || !reserve_text(t) || !heads_encode(h, &record->text, &t->text) ||
        (record->other.text && !heads_encode(h, &record->other, &t->other)))
        return false;
    t->texts[t->inputs.n] = (struct labelled_text){.label = label, .held = held};
    label->n++;
    label->n_held += held;
    if (!heads_add_input(h, &t->inputs, &t->text, record->other.text ? &t->other : NULL, &n, &cut))
        return false;
    items_table_right(record->table);
    h->texts++;
    h->cut += cut > 0;
    return true;
}

/* Reads all texts; false with the error printed, or at a signal. */
static bool read_texts(struct labelled_texts *t, bool valid) {
    struct heads *h = &t->heads;
    struct record record;
    bool good = true;
    while (good && heads_next(h, &record))
        good = add_text(t, &record, valid && record.table == &h->items.tables[h->items.n - 1]);
    if (!good || h->failed || signals_stopped())
        return false;
    if (h->lacks > 0)
        return terminal_error("nothing was trained: mend the row%s, or take %s out",
                              plural(h->lacks), h->lacks == 1 ? "it" : "them");
    if (t->unlabelled > 0)
        terminal_note("%" PRIu64 " row%s without a label %s left out; the first is line %" PRIu64
                      " of %s",
                      t->unlabelled, plural(t->unlabelled), t->unlabelled == 1 ? "is" : "are",
                      t->first_line, t->first_table);
    heads_note_cut(h);
    return true;
}

/* ---- Holding out -------------------------------------------------------------------------- */

/* Holds out a tenth of each label's texts. */
static void hold_out(struct labelled_texts *t, size_t *order, uint64_t seed) {
    shuffle(order, t->inputs.n, seed, SPLIT_STREAM);
    for (size_t i = 0; i < t->inputs.n; i++) {
        struct labelled_text *text = &t->texts[order[i]];
        text->held = text->label->n_held < (text->label->n + HELD_SHARE / 2) / HELD_SHARE;
        text->label->n_held += text->held;
    }
}

/* Numbers the labels, and lists the texts to learn from and those that are held out. */
static bool split(struct labelled_texts *t, const struct train_options *o, uint64_t seed) {
    const size_t n = t->inputs.n;
    t->learned = calloc(n + 1, sizeof *t->learned);
    t->held = calloc(n + 1, sizeof *t->held);
    if (!t->learned || !t->held)
        return terminal_error("out of memory");
    for (size_t i = 0; i < n; i++)
        t->learned[i] = i;
    if (!o->valid)
        hold_out(t, t->learned, seed);
    for (size_t i = 0; i < n; i++)
        if (t->texts[i].held)
            t->held[t->n_held++] = i;
        else
            t->learned[t->n_learned++] = i;
    for (size_t i = 0; i < t->n_label; i++) {
        struct label *label = t->labels[i];
        label->number = (int32_t)i;
        if (label->n_held == label->n)
            return terminal_error("%s: the label '%s' is in none of the tables to train on",
                                  o->valid, label->name);
    }
    return true;
}

/* ---- All of it ---------------------------------------------------------------------------- */

/* The tables, and at the end that of --valid. */
static bool list_files(struct labelled_texts *t, const struct operands *tables, const char *valid) {
    t->files.items = calloc((size_t)tables->n + 2, sizeof *t->files.items);
    if (!t->files.items)
        return terminal_error("out of memory");
    for (int i = 0; i < tables->n; i++)
        t->files.items[t->files.n++] = tables->items[i];
    if (valid)
        t->files.items[t->files.n++] = (char *)valid;
    return true;
}

static bool check_labels(const struct labelled_texts *t) {
    const char *name = t->files.items[0];
    if (t->n_label == 0)
        return terminal_error("%s: there is no row with a text and a label", name);
    return t->n_label > 1 ||
           terminal_error("%s: all texts have the label '%s'; two labels at least "
                          "are needed",
                          name, t->labels[0]->name);
}

int labelled_texts_read(struct labelled_texts *t, const struct command *command,
                        const struct train_options *o, const struct operands *tables,
                        uint64_t seed) {
    const char *valid = o->valid && strcmp(o->valid, "none") != 0 ? o->valid : NULL;
    t->how = (struct heads_options){.common = o->common,
                                    .columns = o->columns,
                                    .max_len = HEADS_MAX_LEN,
                                    .compute = CHOICE_UNSET};
    t->how.common.model = o->init;
    t->heads.trains = true;
    const int status = heads_check(command, &t->heads, &t->how);
    if (status != OPTIONS_RUN)
        return status;
    const bool good = list_files(t, tables, valid) && heads_open(&t->heads, &t->how, &t->files) &&
                      !t->heads.failed && read_texts(t, valid) && check_labels(t) &&
                      split(t, o, seed);
    return good ? OPTIONS_RUN : signals_stopped() ? signals_status() : STATUS_FAILURE;
}

void labelled_texts_close(struct labelled_texts *t) {
    for (size_t i = 0; i < t->n_label; i++) {
        free(t->labels[i]->name);
        free(t->labels[i]);
    }
    free(t->labels);
    free(t->texts);
    free(t->learned);
    free(t->held);
    free(t->files.items);
    inputs_free(&t->inputs);
    pieces_free(&t->text);
    pieces_free(&t->other);
    heads_close(&t->heads);
}

bool labelled_texts_checksum(const struct labelled_texts *t, uint64_t *checksum) {
    txl_ids *ids;
    txl_error error;
    if (txl_ids_new(txl_model_n_token(t->heads.model.handle), &ids, &error))
        return false;
    bool good = true;
    for (size_t i = 0; i < t->inputs.n && good; i++)
        good = !txl_ids_add(ids, t->inputs.list[i].ids, t->inputs.list[i].n, &error);
    *checksum = txl_ids_checksum(ids);
    txl_ids_free(ids);
    return good;
}
