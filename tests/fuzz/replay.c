/* Runs a harness without libFuzzer: over what it starts from, over some mutations of that, and over
 * the inputs that once broke something.
 *
 *     fuzz_NAME NAME CASES FOUND-FOLDER
 */
#include "fuzz.h"
#include "seeds.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { MUTATIONS = 30, ROOM = 64 /* bytes that a mutation may add */ };

/* Without libFuzzer's own: some bytes change, or the end is cut off.  The same in every run. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size) {
    static uint64_t random = 1;
    (void)max_size;
    for (int i = 0; i < 3 && size > 0; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        uint8_t change = (uint8_t)(random >> 56);
        data[(random >> 8) % size] ^= change % 3 ? 1 << change % 8 : change;
    }
    return random >> 32 & 7 ? size : size - size / 8;
}

/* A harness may do without one. */
extern size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
    __attribute__((weak));

static unsigned n_run;

/* Of exactly its size, so that a read beyond it is noticed. */
static void run_copy(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size > 0 ? size : 1);
    fuzz_require(copy, "out of memory");
    memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    n_run++;
}

static void run_seed(void *context, const uint8_t *data, size_t size) {
    (void)context;
    run_copy(data, size);
    uint8_t *changed = malloc(size + ROOM);
    fuzz_require(changed, "out of memory");
    for (unsigned i = 0; i < MUTATIONS; i++) {
        memcpy(changed, data, size);
        size_t n = LLVMFuzzerCustomMutator ? LLVMFuzzerCustomMutator(changed, size, size + ROOM, i)
                                           : LLVMFuzzerMutate(changed, size, size + ROOM);
        run_copy(changed, n);
    }
    free(changed);
}

static void run_found(const char *folder) {
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        size_t size;
        uint8_t *data = fuzz_read(path, &size);
        run_copy(data, size);
        free(data);
    }
    if (directory)
        closedir(directory);
}

int main(int argc, char **argv) {
    if (argc != 4 || !seeds_make(argv[1], argv[2], run_seed, NULL)) {
        fputs("usage: fuzz_NAME NAME CASES FOUND-FOLDER\n", stderr);
        return 1;
    }
    run_found(argv[3]);
    dprintf(2, "%u inputs\n1 passed, 0 failed\n", n_run);
    return 0;
}
