/* The lines of txl generate --prompts.  One that is accepted has a prompt, and options that are the
 * command line's or within the bounds of the command's table. */
#include "fuzz.h"

#include "cli/commands.h"
#include "cli/generate/generate.h"
#include "cli/io/json_lines.h"

#include <string.h>

static void check_number(const struct option_row *row, const struct generate_options *options) {
    const void *value = (const char *)options + row->offset;
    bool real = row->kind == OPTION_REAL;
    if (memcmp(value, (const char *)&generate_defaults + row->offset, sizeof(int64_t)) == 0)
        return;
    double number = real ? *(const double *)value : (double)*(const int64_t *)value;
    /* With "greedy" the temperature is 0. */
    bool greedy =
        options->own.sampling.greedy && value == (const void *)&options->own.sampling.temperature;
    fuzz_require(greedy || (number >= row->least && number <= row->most), row->name);
}

static void check_options(const struct generate_options *options) {
    fuzz_require(options->prompt_text, "a line without a prompt");
    fuzz_require(options->own.n != 0, "a text that does not end");
    for (const struct option_row *row = generate_command.options; row->name; row++)
        if (row->kind == OPTION_INTEGER || row->kind == OPTION_REAL)
            check_number(row, options);
    for (size_t i = 0; i < options->own.stop.n; i++)
        fuzz_require(options->own.stop.items[i], "a stop that is missing");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct json_lines lines;
    json_t *object;
    /* Expanding a file takes as much memory as its maker's zstd did. */
    static const uint8_t zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
    if (size >= sizeof zstd && memcmp(data, zstd, sizeof zstd) == 0)
        return 0;
    fuzz_silence();
    if (!json_lines_open(&lines, fuzz_write("prompts.jsonl", data, size)))
        return 0;
    uint64_t last = 0;
    for (enum json_line got; (got = json_lines_next(&lines, true, &object)) == JSON_LINE_OBJECT ||
                             got == JSON_LINE_WRONG;) {
        fuzz_require(lines.line > last && lines.used <= size, "a line that is none");
        last = lines.line;
        if (got == JSON_LINE_WRONG)
            continue;
        struct prompt_line line;
        struct prompt_line_problem problem = {""};
        if (prompt_line_read(&line, object, &generate_command, &generate_defaults, &problem))
            check_options(&line.options);
        else
            fuzz_require(*problem.text != '\0', "a line that is wrong without a reason");
        prompt_line_free(&line);
    }
    json_lines_close(&lines);
    return 0;
}
