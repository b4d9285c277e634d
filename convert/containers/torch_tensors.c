/* From the graph of objects in a torch.save file to its tensors and their names. */
#include "torch_save.h"

#include "lib/base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NAME 512  /* of a tensor, its keys joined: ten times the longest published */
#define MAX_DEPTH 100 /* of the graph: the walk recurses, and modules nest far less deep */
/* A value may be reached in several ways, in a crafted graph in exponentially many.  So a walk
 * follows at most this many edges for each byte of the pickle. */
#define EDGES_PER_BYTE 4

struct walk {
    struct checkpoint *checkpoint;
    const struct checkpoint_source *source;
    char name[MAX_NAME + 1];
    size_t length;                              /* of the name, its part beyond MAX_NAME included */
    const struct pickle_value *path[MAX_DEPTH]; /* from the root to the current value */
    size_t depth;
    uint64_t edges_left;
    unsigned char *reached;  /* a bit for the rank of each tensor that has a name */
    unsigned char *searched; /* one for each value whose hidden tensors were looked for */
    txl_error *error;
};

/* Sets a value's bit; returns whether it was set before. */
static bool mark(unsigned char *bits, const struct pickle_value *value) {
    unsigned char *byte = &bits[value->rank / 8], bit = (unsigned char)(1 << value->rank % 8);
    bool was_set = *byte & bit;
    *byte |= bit;
    return was_set;
}

/* Whether the names of tensors omit this key of a module's state. */
static bool is_transparent(const struct pickle_value *key) {
    return pickle_is_string(key, "_parameters") || pickle_is_string(key, "_buffers") ||
           pickle_is_string(key, "_modules");
}

/* ---- Tensors ------------------------------------------------------------------------------ */

/* torch._utils._rebuild_tensor(storage, offset, shape, stride).  v2 has more arguments; one of v3's
 * is the dtype. */
static bool is_tensor(const struct pickle_value *value) {
    return pickle_is_object(value, "torch._utils._rebuild_tensor_v2") ||
           pickle_is_object(value, "torch._utils._rebuild_tensor") ||
           pickle_is_object(value, "torch._utils._rebuild_tensor_v3");
}

static txl_status refuse(const struct walk *walk, txl_status status, const char *what) {
    return txl_fail(walk->error, status, "%s: tensor %.*s: %s", walk->source->where, MAX_NAME,
                    walk->name, what);
}

static txl_status read_name(const struct walk *walk, struct checkpoint_tensor *claim) {
    if (walk->length > MAX_NAME)
        return refuse(walk, TXL_UNSUPPORTED, "its name is too long");
    if (memchr(walk->name, 0, walk->length))
        return refuse(walk, TXL_FORMAT, "its name holds a NUL");
    claim->name = walk->length ? walk->name : ".";
    return TXL_OK;
}

/* `*first`: elements of its view before (0, ..., 0). */
static txl_status read_layout(const struct walk *walk, const struct pickle_value *args,
                              struct checkpoint_tensor *claim, uint64_t *first) {
    const struct pickle_value *shape = pickle_item(args, 2), *stride = pickle_item(args, 3);
    if (!pickle_unsigned(pickle_item(args, 1), first))
        return refuse(walk, TXL_FORMAT, "expected an offset into its storage");
    if (!shape || !stride || shape->kind != PICKLE_TUPLE || stride->kind != PICKLE_TUPLE ||
        shape->items.count != stride->items.count)
        return refuse(walk, TXL_FORMAT, "expected a shape and as many strides");
    if (shape->items.count > CHECKPOINT_MAX_DIM)
        return checkpoint_refuse_dimensions(walk->source->where, claim->name, walk->error);
    claim->n_dim = (int)shape->items.count;
    for (int i = 0; i < claim->n_dim; i++) {
        const struct pickle_value *step = stride->items.at[i];
        if (!pickle_unsigned(shape->items.at[i], &claim->shape[i]) || step->kind != PICKLE_INT)
            return refuse(walk, TXL_FORMAT, "its shape or stride is not made of numbers");
        if (!pickle_unsigned(step, &claim->stride[i]))
            return refuse(walk, TXL_UNSUPPORTED, "it has a negative stride");
    }
    return TXL_OK;
}

static txl_status read_storage(const struct walk *walk, const struct pickle_value *args,
                               struct checkpoint_tensor *claim) {
    const struct pickle_value *storage = pickle_item(args, 0);
    struct torch_nested *nested = torch_find_nested(walk->source, storage);
    struct torch_reference reference;
    if (nested) {
        reference = nested->reference;
        claim->storage = &nested->storage;
    } else {
        if (!storage || storage->kind != PICKLE_PERSISTENT)
            return refuse(walk, TXL_FORMAT, "expected a storage that it is a view of");
        txl_status status = torch_read_reference(walk->source, storage, &reference, walk->error);
        if (status)
            return status;
        claim->storage = torch_find_storage(walk->source, &reference.key);
    }
    size_t size = checkpoint_dtype_size(reference.dtype);
    claim->dtype = reference.dtype;
    claim->offset = reference.view_start * size;
    claim->n_element = reference.view_n;
    return TXL_OK;
}

/* A v3 tensor's storage is bytes, and its dtype an argument. */
static txl_status read_dtype(const struct walk *walk, const struct pickle_value *args,
                             struct checkpoint_tensor *claim) {
    static const char module[] = "torch.";
    const struct pickle_value *dtype = pickle_item(args, 6);
    if (!dtype || dtype->kind != PICKLE_GLOBAL || strncmp(dtype->name, module, strlen(module)) != 0)
        return refuse(walk, TXL_FORMAT, "expected a dtype");
    int found = checkpoint_dtype_find(DTYPE_OF_PYTORCH, dtype->name + strlen(module));
    if (found < 0)
        return refuse(walk, TXL_UNSUPPORTED, "its dtype is not known");
    size_t storage_size = checkpoint_dtype_size(claim->dtype);
    claim->dtype = (enum checkpoint_dtype)found;
    claim->n_element = claim->n_element * storage_size / checkpoint_dtype_size(claim->dtype);
    return TXL_OK;
}

static txl_status add_tensor(struct walk *walk, const struct pickle_value *tensor) {
    const struct pickle_value *args = tensor->object->args;
    struct checkpoint_tensor claim = {0};
    uint64_t first = 0;
    mark(walk->reached, tensor);
    txl_status status = read_name(walk, &claim);
    if (!status)
        status = read_layout(walk, args, &claim, &first);
    if (!status)
        status = read_storage(walk, args, &claim);
    if (!status && pickle_is_object(tensor, "torch._utils._rebuild_tensor_v3"))
        status = read_dtype(walk, args, &claim);
    if (!status)
        status = checkpoint_add(walk->checkpoint, &claim, first, walk->error);
    return status;
}

/* ---- The walk ----------------------------------------------------------------------------- */

static void cut_name(struct walk *walk, size_t length) {
    walk->length = length;
    walk->name[length < MAX_NAME ? length : MAX_NAME] = '\0';
}

static void append(struct walk *walk, const char *bytes, size_t length) {
    size_t room = walk->length < MAX_NAME ? MAX_NAME - walk->length : 0;
    if (length)
        memcpy(walk->name + (MAX_NAME - room), bytes, length < room ? length : room);
    cut_name(walk, walk->length + length);
}

static void append_key(struct walk *walk, const struct pickle_value *key, size_t index) {
    char number[32];
    if (walk->length)
        append(walk, ".", 1);
    if (key && key->kind == PICKLE_STRING) {
        append(walk, key->string.bytes, key->string.length);
        return;
    }
    int length = key && key->kind == PICKLE_INT
                     ? snprintf(number, sizeof number, "%" PRId64, key->integer)
                     : snprintf(number, sizeof number, "%zu", index);
    append(walk, number, (size_t)length);
}

/* Value i of a list, a tuple, a set or a dict; NULL after the last.  `*key` is its key in a dict,
 * else NULL. */
static const struct pickle_value *child(const struct pickle_value *container, size_t i,
                                        const struct pickle_value **key) {
    const bool is_dict = container->kind == PICKLE_DICT;
    if (i >= (is_dict ? container->pairs.count : container->items.count))
        return NULL;
    *key = is_dict ? container->pairs.at[i].key : NULL;
    return is_dict ? container->pairs.at[i].value : container->items.at[i];
}

static bool may_lead_to_tensors(const struct walk *walk, const struct pickle_value *value) {
    if (value->kind != PICKLE_LIST && value->kind != PICKLE_TUPLE && value->kind != PICKLE_DICT &&
        value->kind != PICKLE_OBJECT)
        return false;
    for (size_t i = 0; i < walk->depth; i++)
        if (walk->path[i] == value)
            return false; /* a cycle, in which everything has a name already */
    return true;
}

static txl_status visit(struct walk *walk, const struct pickle_value *value);

/* Follows the edge to `value`, which its container has under `key`, or without a key as item
 * `index`.  If `named`, the key or index becomes part of the names of the tensors below it. */
static txl_status follow(struct walk *walk, const struct pickle_value *value,
                         const struct pickle_value *key, size_t index, bool named) {
    if (walk->edges_left-- == 0)
        return txl_fail(walk->error, TXL_FORMAT,
                        "%s: its objects refer to each other more often than a checkpoint's do",
                        walk->source->where);
    if (!may_lead_to_tensors(walk, value))
        return TXL_OK;
    size_t length = walk->length;
    if (named)
        append_key(walk, key, index);
    txl_status status = visit(walk, value);
    cut_name(walk, length);
    return status;
}

/* Follows the values of a list or dict.  `is_state`: they are the attributes of a module. */
static txl_status follow_children(struct walk *walk, const struct pickle_value *container,
                                  bool is_state) {
    const struct pickle_value *value, *key;
    txl_status status = TXL_OK;
    for (size_t i = 0; !status && (value = child(container, i, &key)); i++)
        status = follow(walk, value, key, i, !is_state || !is_transparent(key));
    return status;
}

static txl_status follow_object(struct walk *walk, const struct pickle_object *object) {
    const struct pickle_value *const states[] = {
        object->state, pickle_item(object->state, 0), /* a class with __slots__ has a pair */
        pickle_item(object->state, 1)};
    txl_status status = TXL_OK;
    for (size_t i = 0; !status && i < 3; i++)
        if (states[i] && states[i]->kind == PICKLE_DICT)
            status = follow_children(walk, states[i], true);
    if (!status && object->items)
        status = follow_children(walk, object->items, false);
    if (!status && object->pairs)
        status = follow_children(walk, object->pairs, false);
    return status;
}

static txl_status visit(struct walk *walk, const struct pickle_value *value) {
    if (is_tensor(value))
        return add_tensor(walk, value);
    if (walk->depth == MAX_DEPTH)
        return txl_fail(walk->error, TXL_UNSUPPORTED, "%s: objects nested deeper than %d levels",
                        walk->source->where, MAX_DEPTH);
    walk->path[walk->depth++] = value;
    txl_status status = value->kind == PICKLE_OBJECT ? follow_object(walk, value->object)
                                                     : follow_children(walk, value, false);
    walk->depth--;
    return status;
}

/* ---- Tensors given to unknown calls ------------------------------------------------------- */

/* An unknown call may make one of the model's tensors out of its arguments.  So a checkpoint is
 * refused if a tensor or storage is an argument of such a call, or can be reached only through its
 * result.  Every value is searched once: results may refer to a whole module. */
static txl_status search(struct walk *walk, const struct pickle_value *value, const char *call);

static txl_status refuse_hidden(const struct walk *walk, const char *call) {
    return txl_fail(walk->error, TXL_UNSUPPORTED,
                    "%s: tensor %.*s is given to a call of %s, which txl does not know; save it "
                    "without",
                    walk->source->where, MAX_NAME, walk->name, call);
}

static bool is_storage(const struct walk *walk, const struct pickle_value *value) {
    return value->kind == PICKLE_PERSISTENT || torch_find_nested(walk->source, value);
}

static txl_status search_object(struct walk *walk, const struct pickle_value *value,
                                const char *call) {
    const struct pickle_object *object = value->object;
    const struct pickle_value *part[] = {call ? object->args : NULL, object->state, object->items,
                                         object->pairs};
    txl_status status = TXL_OK;
    for (size_t i = 0; value->kind == PICKLE_OPAQUE && !status && i < object->args->items.count;
         i++) {
        const struct pickle_value *argument = object->args->items.at[i];
        if (is_tensor(argument) || is_storage(walk, argument))
            status = refuse_hidden(walk, call);
    }
    for (size_t i = 0; !status && i < sizeof part / sizeof *part; i++)
        if (part[i])
            status = search(walk, part[i], call);
    return status;
}

static txl_status search(struct walk *walk, const struct pickle_value *value, const char *call) {
    const struct pickle_value *held, *key;
    txl_status status = TXL_OK;
    call = value->kind == PICKLE_OPAQUE ? value->object->class_name : call;
    if (call && is_storage(walk, value))
        return refuse_hidden(walk, call);
    if (value->rank == 0 || value->kind < PICKLE_LIST)
        return TXL_OK;
    if (is_tensor(value))
        return call && !mark(walk->reached, value) ? refuse_hidden(walk, call) : TXL_OK;
    if (mark(walk->searched, value))
        return TXL_OK;
    if (walk->depth == 2 * MAX_DEPTH) /* here an object's state is a level of its own */
        return txl_fail(walk->error, TXL_UNSUPPORTED, "%s: objects nested deeper than %d levels",
                        walk->source->where, MAX_DEPTH);
    walk->depth++;
    if (value->kind == PICKLE_OBJECT || value->kind == PICKLE_OPAQUE)
        status = search_object(walk, value, call);
    else
        for (size_t i = 0; !status && (held = child(value, i, &key)); i++) {
            size_t length = walk->length;
            append_key(walk, key, i);
            status = search(walk, held, call);
            cut_name(walk, length);
        }
    walk->depth--;
    return status;
}

txl_status torch_collect_tensors(struct checkpoint *checkpoint,
                                 const struct checkpoint_source *source, txl_error *error) {
    const struct pickle_value *root = source->pickle->root;
    const size_t n_byte = (size_t)(source->pickle->n_value / 8 + 1);
    unsigned char *bits = calloc(2, n_byte);
    if (!bits)
        return txl_fail_memory(error, "a pickle's marks", 2 * n_byte);
    struct walk walk = {
        .checkpoint = checkpoint,
        .source = source,
        .edges_left = EDGES_PER_BYTE * source->pickle->n_byte,
        .reached = bits,
        .searched = bits + n_byte,
        .error = error,
    };
    txl_status status = follow(&walk, root, NULL, 0, false);
    if (!status && source->pickle->has_opaque)
        status = search(&walk, root, NULL);
    free(bits);
    return status;
}
