/* Recognises a model by the names of its tensors. */
#include "recognise.h"
#include "lib/base/error.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const struct name_table *names;
    txl_kind pieces;
    const char *config[N_DIALECT]; /* the name of the JSON that states facts */
    recognition_step *const *steps;
} families[] = {
    {&xlnet_names, TXL_XLNET, {"config.json", "xlnet_config.json"}, xlnet_steps},
    {&transformer_xl_names, TXL_PIECES, {"config.json", "corpus-info.json"}, transformer_xl_steps}};
enum { N_FAMILY = sizeof families / sizeof *families };

void convert_options_init(struct convert_options *options) {
    *options = (struct convert_options){.level = -1,
                                        .pre_lnorm = CONVERT_UNSET,
                                        .same_length = CONVERT_UNSET,
                                        .layer_norm_eps = -1,
                                        .tgt_len = -1,
                                        .mem_len = -1};
}

txl_status recognise_nothing(struct recognised *r, const char *name, txl_error *error) {
    const struct checkpoint *checkpoint = r->names.checkpoint;
    const char *path = checkpoint_path(checkpoint);
    r->unknown = true;
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
                     recognise_dataset *find_dataset, struct recognised *r, txl_error *error) {
    const char *path = checkpoint_path(checkpoint);
    size_t family = 0;
    *r = (struct recognised){.names = {.checkpoint = checkpoint}};
    while (family < N_FAMILY && !names_find(families[family].names, checkpoint, &r->names))
        family++;
    if (family == N_FAMILY)
        return recognise_nothing(r,
                                 checkpoint_is_bundle(checkpoint)
                                     ? "transformer/layer_0/rel_attn/qkv/kernel"
                                     : "layers.0.dec_attn.o_net.weight",
                                 error);
    r->pieces = families[family].pieces;
    struct recognition recognition = {.recognised = r,
                                      .options = options,
                                      .names = &r->names,
                                      .tensorflow = r->names.dialect == DIALECT_TENSORFLOW,
                                      .path = path,
                                      .find_dataset = find_dataset,
                                      .config_name = families[family].config[r->names.dialect],
                                      .error = error};
    txl_status status = TXL_OK;
    for (recognition_step *const *step = families[family].steps; *step && !status; step++)
        status = (*step)(&recognition);
    json_decref(recognition.config);
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
