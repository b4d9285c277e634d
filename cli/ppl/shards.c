/* Shards as JSON, and their sum. */
#include "shards.h"

#include "cli/io/input.h"
#include "cli/io/output.h"
#include "cli/io/signals.h"
#include "cli/io/terminal.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool shard_parse(struct shard *shard, const char *text) {
    char *slash, *end;
    errno = 0;
    shard->number = strtoull(text, &slash, 10);
    if (!isdigit((unsigned char)*text) || *slash != '/' || !isdigit((unsigned char)slash[1]))
        return false;
    shard->of = strtoull(slash + 1, &end, 10);
    return *end == '\0' && errno == 0 && shard->number >= 1 && shard->number <= shard->of &&
           shard->of <= INT32_MAX;
}

/* ---- Writing ------------------------------------------------------------------------------ */

bool shard_to_json(json_t *object, const struct shard *shard, const struct result *result,
                   const struct setup *setup, const struct model *model) {
    struct model_checksum checksum = model_checksum(model);
    json_t *o = json_pack("{s:I, s:I, s:f, s:f, s:s, s:o, s:s, s:s, s:s, s:s, s:b, s:b, s:b}",
                          "number", (json_int_t)shard->number, "of", (json_int_t)shard->of, "mean",
                          result->score.mean, "squares", result->score.squares, "checksum",
                          checksum.text, "model", output_json_string(model->name), "mode",
                          setup->mode, "text", setup->text, "kernels", txl_kernels_name(NULL),
                          "blas", txl_blas_name(), "words", setup->words, "pieces", setup->pieces,
                          "replaces_unknown", setup->replaces_unknown);
    return json_object_set_new(object, "shard", o) == 0;
}

/* ---- Reading ------------------------------------------------------------------------------ */

/* Members that must be the same in all shards, by the object that they are in. */
static const char *const same_text[] = {"tokens", "unknown", "invalid", NULL};
static const char *const same_run[] = {"of",    "checksum",         "mode", "text",
                                       "words", "replaces_unknown", NULL};

/* A shard as read from a file. */
struct part {
    const char *path;
    json_t *object;
    struct shard shard;
    struct result result;
};

static bool refuse_part(const char *path, const char *what) {
    return terminal_error("%s: %s; it must be what txl ppl --shard I/N --json prints", path, what);
}

/* Reads a count, which null stands for too where it may. */
static bool get_count(const json_t *object, const char *key, bool or_null, uint64_t *count) {
    const json_t *value = json_object_get(object, key);
    *count = (uint64_t)json_integer_value(value);
    return (or_null && json_is_null(value)) ||
           (json_is_integer(value) && json_integer_value(value) >= 0);
}

static bool get_number(const json_t *object, const char *key, double *number) {
    const json_t *value = json_object_get(object, key);
    *number = json_number_value(value);
    return json_is_number(value) && *number >= 0;
}

static bool has_scalars(const json_t *object, const char *const *keys) {
    for (; *keys; keys++) {
        const json_t *value = json_object_get(object, *keys);
        if (!value || json_is_object(value) || json_is_array(value))
            return false;
    }
    return true;
}

static bool has_settings(const json_t *settings) {
    bool always;
    const char *key;
    for (size_t i = 0; (key = settings_shared_key(i, &always)); i++) {
        const json_t *value = json_object_get(settings, key);
        if ((always && !value) || json_is_object(value) || json_is_array(value))
            return false;
    }
    return true;
}

static bool parse_part(struct part *part) {
    const json_t *o = part->object, *settings = json_object_get(o, "settings");
    const json_t *shard = json_object_get(o, "shard");
    struct result *r = &part->result;
    if (!json_is_object(shard))
        return refuse_part(part->path, "not the result of a shard");
    bool good =
        get_count(o, "tokens", false, &r->tokens) &&
        get_count(o, "predicted", false, &r->score.predicted) &&
        get_count(o, "unknown", true, &r->unknown) && get_count(o, "invalid", true, &r->invalid) &&
        get_count(o, "bytes", true, &r->score.share.bytes) &&
        get_count(o, "characters", true, &r->score.share.characters) &&
        get_count(o, "words", true, &r->score.share.words) &&
        get_count(o, "known_predicted", true, &r->score.known.predicted) &&
        get_count(o, "known_characters", true, &r->score.known.characters) &&
        (json_is_null(json_object_get(o, "known_nats")) ||
         get_number(o, "known_nats", &r->score.known.nats)) &&
        r->score.known.predicted <= r->score.predicted && get_number(o, "nats", &r->score.nats) &&
        get_number(o, "seconds", &r->seconds) && get_number(shard, "mean", &r->score.mean) &&
        get_number(shard, "squares", &r->score.squares) &&
        get_count(shard, "number", false, &part->shard.number) &&
        get_count(shard, "of", false, &part->shard.of) && part->shard.number >= 1 &&
        part->shard.number <= part->shard.of && json_is_string(json_object_get(o, "file")) &&
        has_settings(settings) && has_scalars(shard, same_run) &&
        json_is_integer(json_object_get(settings, "threads")) &&
        json_is_string(json_object_get(shard, "mode")) &&
        json_is_string(json_object_get(shard, "text")) &&
        json_is_string(json_object_get(shard, "model")) &&
        json_is_string(json_object_get(shard, "kernels")) &&
        json_is_string(json_object_get(shard, "blas"));
    if (!good)
        return refuse_part(part->path, "a field is missing or not what it should be");
    r->file = json_string_value(json_object_get(o, "file"));
    if (r->score.predicted + 1 != r->tokens / part->shard.of)
        return refuse_part(part->path, "the shard was not scored to its end");
    return true;
}

/* jansson's callback for reading. */
static size_t read_more(void *buffer, size_t size, void *context) {
    ssize_t n = input_read(context, buffer, size);
    return n < 0 ? (size_t)-1 : (size_t)n;
}

/* Where memory lacks amid a number's digits, jansson 2.14 ends the process by an assertion.  So the
 * program ends itself: nothing is written before all shards are read. */
static const char *part_read;

static void *allocate_or_end(size_t size) {
    void *memory = malloc(size);
    if (!memory) {
        terminal_error("%s: out of memory", part_read);
        exit(EXIT_FAILURE);
    }
    return memory;
}

static json_t *load_object(struct input *input, json_error_t *error) {
    json_malloc_t allocate;
    json_free_t release;
    json_get_alloc_funcs(&allocate, &release);
    json_set_alloc_funcs(allocate_or_end, release);
    part_read = input->name;
    json_t *object = json_load_callback(read_more, input, 0, error);
    json_set_alloc_funcs(allocate, release);
    return object;
}

static bool read_part(struct part *part, const char *path) {
    struct input input;
    json_error_t error;
    if (!input_open(&input, path))
        return false;
    *part = (struct part){.path = input.name};
    part->object = load_object(&input, &error);
    bool failed = input.failed;
    input_close(&input);
    if (part->object)
        return parse_part(part);
    if (failed || signals_stopped())
        return false;
    return terminal_error("%s: line %d: %s; it must be what txl ppl --shard I/N --json prints",
                          part->path, error.line, error.text);
}

/* ---- Fitting together --------------------------------------------------------------------- */

static bool check_key(const struct part *a, const struct part *b, const char *object,
                      const char *key) {
    const json_t *in_a = a->object, *in_b = b->object;
    if (object) {
        in_a = json_object_get(in_a, object);
        in_b = json_object_get(in_b, object);
    }
    const json_t *x = json_object_get(in_a, key), *y = json_object_get(in_b, key);
    if ((!x && !y) || json_equal(x, y))
        return true;
    return terminal_error(
        "%s: its \"%s\" is not that of %s: these are not shards of one evaluation", b->path, key,
        a->path);
}

static bool check_same(const struct part *a, const struct part *b, const char *object,
                       const char *const *keys) {
    while (*keys && check_key(a, b, object, *keys))
        keys++;
    return !*keys;
}

static bool check_settings(const struct part *a, const struct part *b) {
    bool always;
    size_t i = 0;
    const char *key;
    while ((key = settings_shared_key(i, &always)) && check_key(a, b, "settings", key))
        i++;
    return !key;
}

static int compare_numbers(const void *a, const void *b) {
    uint64_t x = ((const struct part *)a)->shard.number, y = ((const struct part *)b)->shard.number;
    return (x > y) - (x < y);
}

/* Sorts the parts, and checks that they are shards 1 to N of one evaluation. */
static bool check_parts(struct part *parts, int n) {
    for (int i = 1; i < n; i++)
        if (!check_same(&parts[0], &parts[i], "shard", same_run) ||
            !check_settings(&parts[0], &parts[i]) ||
            !check_same(&parts[0], &parts[i], NULL, same_text))
            return false;
    qsort(parts, (size_t)n, sizeof *parts, compare_numbers);
    uint64_t of = parts[0].shard.of, expected = 1;
    for (int i = 0; i < n; i++, expected++) {
        if (i > 0 && parts[i].shard.number == parts[i - 1].shard.number) {
            return terminal_error("%s and %s are both shard %" PRIu64 " of %" PRIu64,
                                  parts[i - 1].path, parts[i].path, parts[i].shard.number, of);
        }
        if (parts[i].shard.number != expected)
            break;
    }
    if (expected <= of)
        return terminal_error("shard %" PRIu64 " of %" PRIu64 " is missing", expected, of);
    return true;
}

/* ---- The whole ---------------------------------------------------------------------------- */

/* The string that all shards have at `key`, or "mixed". */
static const char *common_string(const struct part *parts, int n, const char *key) {
    const json_t *first = json_object_get(json_object_get(parts[0].object, "shard"), key);
    for (int i = 1; i < n; i++) {
        json_t *shard = json_object_get(parts[i].object, "shard");
        if (!json_equal(first, json_object_get(shard, key)))
            return "mixed";
    }
    return json_string_value(first);
}

/* Kernels of the fast arithmetic differ in the last digits. */
static void note_mixed(const struct part *parts, int n) {
    static const char *const keys[] = {"kernels", "blas"};
    const json_t *settings = json_object_get(parts[0].object, "settings");
    const char *arithmetic = json_string_value(json_object_get(settings, "arithmetic"));
    if (arithmetic && strcmp(arithmetic, "exact") == 0) {
        terminal_note("the shards were scored in the exact arithmetic: the result has the bits of "
                      "--batch, whatever the kernels");
        return;
    }
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(common_string(parts, n, keys[i]), "mixed") == 0)
            terminal_note("the shards were scored with different %s: the result may differ from "
                          "that of --batch in the last digits",
                          i == 0 ? "kernels" : "kernels of OpenBLAS");
}

/* Strings that may differ between shards of one evaluation become "mixed".  The number of threads
 * changes no bit and may differ too; then none is printed. */
static bool merge_varying(json_t *settings, const struct part *parts, int n) {
    static const char *const keys[] = {"threads", "txl", "model", "kernels", "blas"};
    bool good = true;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        for (int i = 1; i < n; i++) {
            const json_t *other = json_object_get(parts[i].object, "settings");
            if (!json_equal(json_object_get(settings, keys[k]), json_object_get(other, keys[k])))
                good = json_object_set_new(settings, keys[k],
                                           k == 0 ? json_null() : json_string("mixed")) == 0 &&
                       good;
        }
    }
    return good;
}

static bool merge_parts(struct merged *merged, const struct part *parts, int n) {
    json_t *first = parts[0].object, *shard = json_object_get(first, "shard");
    json_t *settings = json_object_get(first, "settings");
    merged->first = json_incref(first);
    merged->result = parts[0].result;
    for (int i = 1; i < n; i++) {
        score_merge(&merged->result.score, &parts[i].result.score);
        merged->result.seconds += parts[i].result.seconds;
    }
    const struct score *score = &merged->result.score;
    if (!isfinite(score->nats) || !isfinite(score->mean) || !isfinite(score->squares) ||
        !isfinite(score->known.nats) || !isfinite(merged->result.seconds))
        return terminal_error("the sum of the shards' numbers is not finite");
    merged->setup =
        (struct setup){.words = json_is_true(json_object_get(shard, "words")),
                       .pieces = json_is_true(json_object_get(shard, "pieces")),
                       .ids = json_is_null(json_object_get(first, "unknown")),
                       .replaces_unknown = json_is_true(json_object_get(shard, "replaces_unknown")),
                       .mode = json_string_value(json_object_get(shard, "mode")),
                       .text = json_string_value(json_object_get(shard, "text")),
                       .model = {.name = json_string_value(json_object_get(shard, "model")),
                                 .settings = json_incref(settings)}};
    bool good = merge_varying(settings, parts, n);
    char line[8192];
    settings_json_to_text(line, sizeof line, settings, common_string(parts, n, "model"));
    merged->setup.model.summary = strdup(line);
    if (!good || !merged->setup.model.summary)
        return terminal_error("out of memory");
    note_mixed(parts, n);
    return true;
}

bool merge_files(struct merged *merged, char **paths, int n) {
    struct part *parts = calloc((size_t)n, sizeof *parts);
    *merged = (struct merged){0};
    if (!parts)
        return terminal_error("out of memory");
    bool good = true;
    for (int i = 0; i < n && good; i++)
        good = read_part(&parts[i], paths[i]);
    good = good && check_parts(parts, n) && merge_parts(merged, parts, n);
    for (int i = 0; i < n; i++)
        json_decref(parts[i].object);
    free(parts);
    if (!good)
        merged_free(merged);
    return good;
}

void merged_free(struct merged *merged) {
    evaluated_free(&merged->setup.model);
    json_decref(merged->first);
    *merged = (struct merged){0};
}
