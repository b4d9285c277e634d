/* Recognises a model by the names of its tensors. */
#include "recognise.h"
#include "lib/base/error.h"
#include "vocabulary_file.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const struct name_table *names;
    txl_kind pieces;
    txl_status (*recognise)(struct recognised *r, const struct convert_options *options,
                            txl_error *error);
} families[] = {{&xlnet_names, TXL_XLNET, recognise_xlnet},
                {&transformer_xl_names, TXL_PIECES, recognise_transformer_xl}};

/* A vocabulary may be a pickle too. */
txl_status recognise_nothing(const struct checkpoint *checkpoint, const char *name,
                             txl_error *error) {
    struct vocabulary_file vocabulary;
    const char *path = checkpoint_path(checkpoint);
    if (checkpoint_root(checkpoint) && !vocabulary_file_read(path, &vocabulary, error)) {
        size_t n = vocabulary.n_symbol;
        vocabulary_file_free(&vocabulary);
        return txl_fail(error, TXL_UNSUPPORTED,
                        "%s: a vocabulary of %zu symbols, not a checkpoint; name the checkpoint, "
                        "and this file with --vocab",
                        path, n);
    }
    for (size_t i = 0; i < checkpoint_n_tensor(checkpoint); i++)
        if (strstr(checkpoint_tensor_at(checkpoint, i)->name, "/.ATTRIBUTES/"))
            return txl_fail(error, TXL_UNSUPPORTED,
                            "%s: an object-based checkpoint of TensorFlow 2, of other code than "
                            "the published models; convert the authors' own checkpoint, or a model "
                            "for PyTorch",
                            path);
    return txl_fail(error, TXL_UNSUPPORTED,
                    "%s: %s: no tensor named %s among its %zu (txl info --tensors lists them)",
                    path,
                    checkpoint_is_bundle(checkpoint)
                        ? "neither a Transformer-XL nor an XLNet of their authors' code"
                        : "not a Transformer-XL",
                    name, checkpoint_n_tensor(checkpoint));
}

txl_status recognise(const struct checkpoint *checkpoint, const struct convert_options *options,
                     struct recognised *r, txl_error *error) {
    *r = (struct recognised){.names = {.checkpoint = checkpoint}};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (names_find(families[i].names, checkpoint, &r->names)) {
            r->pieces = families[i].pieces;
            return families[i].recognise(r, options, error);
        }
    return recognise_nothing(checkpoint,
                             checkpoint_is_bundle(checkpoint)
                                 ? "transformer/layer_0/rel_attn/qkv/kernel"
                                 : "layers.0.dec_attn.o_net.weight",
                             error);
}

txl_status recognise_source(const char *source, const struct convert_options *options,
                            struct recognised *r, txl_error *error) {
    struct checkpoint *checkpoint;
    *r = (struct recognised){.opened = NULL};
    txl_status status = checkpoint_open(source, &checkpoint, error);
    if (!status)
        status = recognise(checkpoint, options, r, error);
    r->opened = checkpoint;
    return status;
}

void recognised_free(struct recognised *r) {
    checkpoint_close(r->opened);
    free(r->config_path);
}

txl_status recognise_complete(const struct recognised *r, txl_error *error) {
    if (r->missing[0] == '\0')
        return TXL_OK;
    return txl_fail(error, TXL_ARGUMENT,
                    "%s: does not tell all of its settings; add what it was trained with:%s",
                    checkpoint_path(r->names.checkpoint), r->missing);
}
