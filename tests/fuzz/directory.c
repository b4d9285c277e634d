/* The JSON files of a checkpoint in shards: the input is a config.json, a NUL and a
 * pytorch_model.bin.index.json.  The shards that the index may name, one to four, hold a
 * model each, the last two an XLNet. */
#include "fuzz.h"
#include "tiny.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void write_shard(const char *name, const struct tiny *model) {
    size_t size;
    uint8_t *bytes = tiny_safetensors(model, &size);
    fuzz_write(name, bytes, size);
    free(bytes);
}

static const char *make_directory(void) {
    static char path[256];
    if (!path[0]) {
        snprintf(path, sizeof path, "%s", fuzz_write("checkpoint", NULL, 0));
        fuzz_require(mkdir(path, 0700) == 0, "no folder");
        write_shard("checkpoint/one", &tiny_models[1]);
        write_shard("checkpoint/two", &tiny_models[4]);
        for (const struct tiny *m = tiny_models; m->tokenizer; m++)
            if (m->activation && m->d_model == 4)
                write_shard(m->untied ? "checkpoint/four" : "checkpoint/three", m);
    }
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *nul = size > 0 ? memchr(data, 0, size) : NULL;
    if (!nul)
        return 0;
    const char *path = make_directory();
    size_t config = (size_t)(nul - data);
    fuzz_write("checkpoint/config.json", data, config);
    fuzz_write("checkpoint/pytorch_model.bin.index.json", nul + 1, size - config - 1);
    fuzz_checkpoint(path);
    return 0;
}
