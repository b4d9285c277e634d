/* Results of shards, which txl ppl --merge reads: the input is up to four files, each ended by a
 * NUL. Files that fit together give a result that can be printed in every form. */
#include "fuzz.h"

#include "cli/io/output.h"
#include "cli/ppl/shards.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 4 }; /* as many paths as fuzz_write keeps */

static void tell(const struct merged *merged) {
    fuzz_require(merged->result.score.predicted <= merged->result.tokens,
                 "more tokens were scored than there are");
    json_t *object = result_to_json(&merged->setup, &merged->result);
    fuzz_require(object, "no JSON");
    json_decref(object);
    result_note_unknown(&merged->setup, &merged->result);
    result_print_text(&merged->setup, &merged->result);
    result_print_summary(&merged->setup, 1, &merged->result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *paths[MAX_FILE];
    int n = 0;
    fuzz_silence();
    for (size_t at = 0; at < size && n < MAX_FILE; n++) {
        char name[32];
        const uint8_t *end = memchr(data + at, '\0', size - at);
        size_t length = end ? (size_t)(end - data) - at : size - at;
        snprintf(name, sizeof name, "%d.json", n);
        paths[n] = strdup(fuzz_write(name, data + at, length));
        fuzz_require(paths[n], "out of memory");
        at += length + 1;
    }
    struct merged merged;
    if (n > 0 && merge_files(&merged, paths, n))
        tell(&merged);
    if (n > 0)
        merged_free(&merged);
    while (n > 0)
        free(paths[--n]);
    return 0;
}
