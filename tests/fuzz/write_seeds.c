/* fuzz_seeds HARNESS CASES FOLDER: writes the inputs that a harness starts from into a folder. */
#include "seeds.h"

#include <stdio.h>

struct folder {
    const char *path;
    unsigned n;
    bool failed;
};

static void write_seed(void *context, const uint8_t *data, size_t size) {
    struct folder *folder = context;
    char path[4096];
    snprintf(path, sizeof path, "%s/seed-%03u", folder->path, folder->n++);
    FILE *file = fopen(path, "wb");
    bool written = file && fwrite(data, 1, size, file) == size;
    folder->failed |= !file || fclose(file) != 0 || !written;
}

int main(int argc, char **argv) {
    struct folder folder = {.path = argc == 4 ? argv[3] : NULL};
    if (argc != 4 || !seeds_make(argv[1], argv[2], write_seed, &folder) || folder.failed) {
        fputs("fuzz_seeds: cannot write the inputs of that harness there\n", stderr);
        return 1;
    }
    return 0;
}
