/* Finds the tensors of parameters in a checkpoint, by the tables of published names. */
#include "names.h"
#include "lib/base/error.h"
#include "lib/base/files.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Names -------------------------------------------------------------------------------- */

/* `name` is that of the tensor with the mark, and `length` the bytes before the mark. */
static void set_prefixes(struct names *n, const char *name, size_t length) {
    const struct dialect *d = &n->table->dialect[n->dialect];
    snprintf(n->prefix, sizeof n->prefix, "%.*s", (int)length, name);
    strcpy(n->head_prefix, n->prefix);
    bool whole = !ends_with(n->prefix, d->body);
    for (const char *const *head = d->heads; *head && !whole; head++)
        whole = names_begin(n, *head);
    if (!whole)
        n->head_prefix[length - strlen(d->body)] = '\0';
}

bool names_find(const struct name_table *table, const struct checkpoint *checkpoint,
                struct names *n) {
    *n = (struct names){.checkpoint = checkpoint, .table = table};
    for (int d = 0; d < N_DIALECT; d++) {
        const char *mark = table->dialect[d].mark;
        for (size_t i = 0; mark && i < checkpoint_n_tensor(checkpoint); i++) {
            const char *name = checkpoint_tensor_at(checkpoint, i)->name;
            size_t length = strlen(name);
            if (!ends_with(name, mark) || length - strlen(mark) >= NAMES_MAX_PREFIX)
                continue;
            n->dialect = (enum dialect_number)d;
            set_prefixes(n, name, length - strlen(mark));
            return true;
        }
    }
    return false;
}

/* Whether the name is of the softmax or a head. */
static bool is_of_head(const struct names *n, const char *name) {
    const char *const *head = n->table->dialect[n->dialect].heads;
    while (*head && strncmp(name, *head, strlen(*head)) != 0)
        head++;
    return *head;
}

struct names_text names_spell(const struct names *n, const char *name, int i) {
    struct names_text out;
    const char *star = strchr(name, '*');
    const char *prefix = is_of_head(n, name) ? n->head_prefix : n->prefix;
    if (star)
        snprintf(out.text, sizeof out.text, "%s%.*s%d%s", prefix, (int)(star - name), name, i,
                 star + 1);
    else
        snprintf(out.text, sizeof out.text, "%s%s", prefix, name);
    return out;
}

static const struct origin *origins(const struct names *n, int number) {
    const struct origin *row = n->table->row[number][n->dialect];
    return n->dialect == DIALECT_NVIDIA && !row->name ? n->table->row[number][DIALECT_PYTORCH]
                                                      : row;
}

static bool is_usable(const struct names *n, const struct origin *from) {
    return from->name && (!(from->flags & ALL_BANDS) || n->all_bands);
}

bool names_begin(const struct names *n, const char *start) {
    const struct names_text text = names_spell(n, start, 0);
    size_t i = 0;
    while (i < checkpoint_n_tensor(n->checkpoint) &&
           strncmp(checkpoint_tensor_at(n->checkpoint, i)->name, text.text, strlen(text.text)) != 0)
        i++;
    return i < checkpoint_n_tensor(n->checkpoint);
}

struct names_text names_usual(const struct names *n, int number, int i) {
    return names_spell(n, origins(n, number)->name, i);
}

/* ---- Tensors ------------------------------------------------------------------------------ */

static int dimensions(const struct names *n, int number, const struct origin *from) {
    const struct parameter *parameter = &n->table->family->parameters->parameter[number];
    return from->shape ? (int)strlen(from->shape) : parameter->kind == PARAMETER_VECTOR ? 1 : 2;
}

static const struct checkpoint_tensor *find_origin(const struct names *n, const struct origin *from,
                                                   int i) {
    return checkpoint_find(n->checkpoint, names_spell(n, from->name, i).text);
}

int names_which(const struct names *n, int number, int i) {
    for (int k = 0; k < NAMES_MAX_ORIGIN; k++) {
        const struct origin *from = &origins(n, number)[k];
        if (from->flags & (FREQUENCIES | ZEROS))
            return k;
        for (bool usable = is_usable(n, from); usable && from; from = from->next) { /* any piece */
            const struct checkpoint_tensor *t = find_origin(n, from, i);
            if (t && (!(from->flags & BY_RANK) || t->n_dim == dimensions(n, number, from)))
                return k;
        }
    }
    return -1;
}

/* The spelling to read, or to name in an error. */
static const struct origin *choose(const struct names *n, int number, int i) {
    const struct origin *from = origins(n, number);
    int which = names_which(n, number, i);
    for (int k = 0; which < 0 && k < NAMES_MAX_ORIGIN; k++)
        if (is_usable(n, &from[k]))
            which = k;
    return &from[which];
}

enum origin_flags names_computed(const struct names *n, int number, int i) {
    return choose(n, number, i)->flags & (FREQUENCIES | ZEROS);
}

const struct checkpoint_tensor *names_own(const struct names *n, int number, int i) {
    const struct origin *from = origins(n, number);
    return is_usable(n, from) ? find_origin(n, from, i) : NULL;
}

static int count_origin(const struct names *n, const struct origin *from) {
    const char *star = from->name ? strchr(from->name, '*') : NULL;
    if (!star)
        return from->name && find_origin(n, from, 0);
    struct names_text start = names_spell(n, from->name, 0);
    size_t length = strlen(start.text) - strlen(star);
    int count = 0;
    for (size_t i = 0; i < checkpoint_n_tensor(n->checkpoint); i++) {
        const char *text = checkpoint_tensor_at(n->checkpoint, i)->name;
        char *end;
        if (strncmp(text, start.text, length) != 0)
            continue;
        unsigned long number = strtoul(text + length, &end, 10);
        if (end > text + length && *end == star[1] && number >= (unsigned long)count)
            count = number < INT_MAX ? (int)number + 1 : INT_MAX;
    }
    return count;
}

int names_count(const struct names *n, int number) {
    int most = 0;
    for (int k = 0; k < NAMES_MAX_ORIGIN; k++) {
        int count = count_origin(n, &origins(n, number)[k]);
        most = count > most ? count : most;
    }
    return most;
}

struct shape_text {
    char text[CHECKPOINT_MAX_DIM * 24];
};

static struct shape_text shape_text(int n_dim, const uint64_t *shape) {
    struct shape_text out = {"[]"};
    size_t used = 0;
    for (int d = 0; d < n_dim; d++)
        used += (size_t)snprintf(out.text + used, sizeof out.text - used, "%s%" PRIu64 "%s",
                                 d == 0 ? "[" : ", ", shape[d], d == n_dim - 1 ? "]" : "");
    return out;
}

/* The tensor as a weights file has it: layer i's row of it, and rows of outputs where it takes rows
 * of inputs. */
static struct checkpoint_tensor view_of(const struct checkpoint_tensor *tensor,
                                        const struct origin *from, int i) {
    struct checkpoint_tensor view = *tensor;
    const int skipped = from->shape && *from->shape == 'L';
    const int turned = from->flags & TRANSPOSED ? 1 : 0;
    if (skipped) {
        view.offset += (uint64_t)i * view.stride[0] * checkpoint_dtype_size(view.dtype);
        view.n_element /= view.shape[0];
        view.n_dim--;
    }
    for (int d = 0; d < view.n_dim; d++) {
        view.shape[d] = tensor->shape[skipped + (d + turned) % view.n_dim];
        view.stride[d] = tensor->stride[skipped + (d + turned) % view.n_dim];
    }
    return view;
}

/* `shape`, unless NULL, is the one that the checkpoint's tensor must have. */
static txl_status need(const struct names *n, int number, const struct origin *from, int i,
                       const uint64_t *shape, struct checkpoint_tensor *view, txl_error *error) {
    const char *path = checkpoint_path(n->checkpoint);
    const int n_dim = dimensions(n, number, from);
    struct names_text name = names_spell(n, from->name, i);
    if (n->slot)
        strncat(name.text, n->slot, sizeof name.text - 1 - strlen(name.text));
    const struct checkpoint_tensor *t = checkpoint_find(n->checkpoint, name.text);
    if (!t)
        return txl_fail(error, TXL_FORMAT, "%s: tensor %s is missing", path, name.text);
    if (t->dtype > CHECKPOINT_F64)
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: tensor %s is of type %s; weights are float32, float16, bfloat16 or "
                        "float64",
                        path, t->name, checkpoint_dtype_name(t->dtype));
    if (t->n_dim != n_dim)
        return txl_fail(error, TXL_FORMAT, "%s: tensor %s has the shape %s, not %d dimensions",
                        path, t->name, shape_text(t->n_dim, t->shape).text, n_dim);
    for (int d = 0; d < n_dim; d++)
        if (t->shape[d] == 0 || t->shape[d] > INT32_MAX)
            return txl_fail(error, TXL_FORMAT, "%s: tensor %s has the impossible shape %s", path,
                            t->name, shape_text(n_dim, t->shape).text);
    if (shape && memcmp(t->shape, shape, (size_t)n_dim * sizeof *shape) != 0)
        return txl_fail(error, TXL_FORMAT, "%s: tensor %s has the shape %s, expected %s", path,
                        t->name, shape_text(n_dim, t->shape).text, shape_text(n_dim, shape).text);
    *view = view_of(t, from, i);
    return TXL_OK;
}

txl_status names_need(const struct names *n, int number, int i, struct checkpoint_tensor *view,
                      txl_error *error) {
    return need(n, number, choose(n, number, i), i, NULL, view, error);
}

/* A view of the tensor, whose shape must be the expected one. */
static txl_status add_piece(const struct names *n, const void *settings,
                            const struct parameter_tensor *to, const struct origin *from, int i,
                            struct checkpoint_tensor *piece, txl_error *error) {
    const bool transposed = from->flags & TRANSPOSED;
    uint64_t shape[CHECKPOINT_MAX_DIM] = {transposed ? to->n_column : to->n_row,
                                          transposed ? to->n_row : to->n_column};
    for (int d = 0; from->shape && from->shape[d]; d++)
        shape[d] = n->table->size(settings, from->shape[d], i);
    return need(n, to->number, from, i, shape, piece, error);
}

txl_status names_pieces(const struct names *n, const void *settings,
                        const struct parameter_tensor *to, struct checkpoint_tensor **piece,
                        int *n_piece, txl_error *error) {
    const struct origin *from = choose(n, to->number, to->i);
    const bool all_bands = from->flags & ALL_BANDS;
    int count = all_bands ? count_origin(n, from) : 0;
    for (const struct origin *p = from; p && !all_bands; p = p->next)
        count++;
    *n_piece = count;
    *piece = calloc((size_t)count, sizeof **piece);
    if (!*piece)
        return txl_fail_memory(error, "the list of tensors", (size_t)count * sizeof **piece);
    uint64_t n_element = 0;
    for (int k = 0; k < count; k++, from = all_bands ? from : from->next) {
        txl_status status =
            add_piece(n, settings, to, from, all_bands ? k : to->i, &(*piece)[k], error);
        if (status)
            return status;
        n_element += (*piece)[k].n_element;
    }
    assert(n_element == to->n_row * to->n_column);
    (void)n_element;
    return TXL_OK;
}

/* ---- Tied tensors ------------------------------------------------------------------------- */

txl_status names_tied(const struct names *n, int first, int i, int second, int j, bool has_own,
                      bool *tied, txl_error *error) {
    const struct checkpoint_tensor *a = names_own(n, first, i), *b = names_own(n, second, j);
    *tied = a || b;
    if (a && b) {
        *tied = checkpoint_same_view(a, b);
        return *tied ? TXL_OK : checkpoint_same_numbers(a, b, tied, error);
    }
    if (*tied && has_own)
        return txl_fail(error, TXL_FORMAT, "%s: tensor %s is missing",
                        checkpoint_path(n->checkpoint),
                        a ? names_usual(n, second, j).text : names_usual(n, first, i).text);
    return TXL_OK;
}
