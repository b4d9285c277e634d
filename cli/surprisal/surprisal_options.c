/* The table of txl surprisal's options. */
#include "surprisal_options.h"

#include <stdlib.h>
#include <string.h>

bool surprisal_has_context(const struct surprisal_options *o) {
    return o->context || o->context_text;
}

int surprisal_options_check(const struct command *command, const struct surprisal_options *o,
                            const struct operands *files) {
    if (o->context && strcmp(o->context, "-") == 0)
        for (int i = 0; i < files->n; i++)
            if (strcmp(files->items[i], "-") == 0)
                return options_wrong(command,
                                     "--context and the text cannot both be standard input");
    return dynamic_check(command, &o->scoring.dynamic);
}

/* ---- Levels ------------------------------------------------------------------------------- */

/* The level that text[length] names, or N_LEVEL. */
static enum level find_level(const char *text, size_t length) {
    enum level i = 0;
    while (i < N_LEVEL &&
           !(strlen(level_names[i]) == length && memcmp(level_names[i], text, length) == 0))
        i++;
    return i;
}

int surprisal_levels(const struct command *command, const struct surprisal_options *o,
                     const char *path[N_LEVEL]) {
    const bool result_alone =
        (o->prefer || o->scoring.heat || o->scoring.json) && o->per.n == 0 && !o->output;
    const char *unnamed = o->output ? o->output : "-";
    bool used = false;
    for (size_t i = 0; i < o->per.n; i++) {
        const char *equals = strchr(o->per.items[i], '=');
        const size_t length = equals ? (size_t)(equals - o->per.items[i]) : strlen(o->per.items[i]);
        const enum level level = find_level(o->per.items[i], length);
        if (level == N_LEVEL || (equals && equals[1] == '\0'))
            return options_wrong(command,
                                 "--per '%s': token, word, region or text is expected, or one of "
                                 "them and =FILE",
                                 o->per.items[i]);
        if (path[level])
            return options_wrong(command, "--per %s is given twice", level_names[level]);
        if (!equals && used)
            return options_wrong(command, "only one --per can be without =FILE");
        path[level] = equals ? equals + 1 : unnamed;
        used = used || !equals;
    }
    if (o->per.n == 0 && !result_alone && !o->scoring.report)
        path[LEVEL_WORD] = unnamed;
    else if (o->output && !used && o->per.n == 0)
        path[LEVEL_WORD] = o->output;
    else if (o->output && !used)
        return options_wrong(command, "-o needs a --per without =FILE");
    if (o->logprobs > 0 && !path[LEVEL_TOKEN])
        return options_wrong(command, "--logprobs needs --per token");
    int shown = 0;
    for (enum level i = 0; i < N_LEVEL; i++)
        shown += table_is_standard_output(path[i]);
    if (shown > 1)
        return options_wrong(command, "only one --per can go to standard output");
    return shown > 0 && o->scoring.json
               ? options_wrong(command, "a table on standard output cannot be combined with --json")
               : OPTIONS_RUN;
}

/* ---- The table ---------------------------------------------------------------------------- */

static const char *const within_words[] = {"both", "left", NULL};

#define PLACE(member) offsetof(struct surprisal_options, member)

const struct option_row surprisal_option_rows[] = {
    {"per", OPTION_LIST, PLACE(per),
     "write a row per token, word, region or text, to FILE if it is named; may be repeated",
     .section = "Output", .argument = "LEVEL[=FILE]", .standard = "word", .file = FILE_STREAM,
     .file_after = '=', .output = OUTPUT_TABLE, .columns = levels_columns},
    ROWS_OUTPUT_ROW(PLACE(output), levels_columns, .section = NULL),
    {"entropy", OPTION_FLAG, PLACE(entropy),
     "add the entropy of the next token before each word, region or text, and how much of it that "
     "removes"},
    {"logprobs", OPTION_INTEGER, PLACE(logprobs),
     "with --per token: add each token's probability and rank, the entropy, and the K most likely "
     "tokens in its place",
     .argument = "K", .least = 1, .most = 100000},
    {"json", OPTION_FLAG, PLACE(scoring.json), "print the result of each FILE as an object"},
    {"heat", OPTION_FLAG, PLACE(scoring.heat),
     "print the text, coloured by the surprisal of each token",
     .excludes = "lines json per output"},
    {"report", OPTION_STRING, PLACE(scoring.report),
     "write a page to OUT.html: the text coloured by the surprisal of its tokens, and all figures",
     .argument = "OUT.html", .file = FILE_STREAM, .output = OUTPUT_PAGE, .excludes = "lines FILES"},
    FORCE_ROW,
    {"prefer", OPTION_STRING, PLACE(prefer),
     "print in how many items condition A is more likely than B", .section = "Items",
     .argument = "A,B", .standard = "good,bad for lines of BLiMP"},
    {"prefer-region", OPTION_INTEGER, PLACE(prefer_region), "with --prefer: compare region N only",
     .least = 1, .most = 1000000},
    {"prefer-by", OPTION_STRING, PLACE(prefer_by),
     "with --prefer: print the same for each value of a column", .argument = "COLUMN"},
    {"columns", OPTION_LIST, PLACE(columns),
     "what columns of a table are called, such as text=Sentence,item=sent_id; region=NAME: each "
     "row is a region of its item and condition; join=none: regions are joined without spaces",
     .argument = "ROLE=NAME,..."},
    {"lines", OPTION_FLAG, PLACE(lines), "score each line of FILE alone", .section = "Text",
     .excludes = "unwrap max-tokens"},
    TEXT_ROW(.standard = "raw", .offset = PLACE(scoring.text)),
    BINARY_ROW,
    UNWRAP_ROW,
    SKIP_UNKNOWN_ROW("", PLACE(scoring.skip_unknown)),
    {"max-tokens", OPTION_INTEGER, PLACE(scoring.max_tokens),
     "read only the first N tokens of each running text", .least = 1, .most = MOST_INTEGER},
    {"context", OPTION_STRING, PLACE(context),
     "read FILE before each text, and do not score it; a space joins them if neither side has one",
     .file = FILE_READ},
    {"context-text", OPTION_STRING, PLACE(context_text), "the same with STRING",
     .argument = "STRING", .excludes = "context"},
    {"compare", OPTION_STRING, PLACE(compare),
     "score the same tokens with another model of the same vocabulary too: columns nats_other and "
     "kl",
     .section = "Evaluation", .argument = "OTHER.txl", .file = FILE_MODEL},
    {"cache", OPTION_FLAG, PLACE(scoring.cache),
     "mix the model with counts of the text so far: what repeats becomes more likely"},
    {"both-sides", OPTION_FLAG, PLACE(both_sides),
     "XLNet: score each token with all others of its text, or of its window of tgt-len tokens, "
     "known",
     .excludes = "dynamic cache mem-len entropy"},
    {"within-word", OPTION_CHOICE, PLACE(within_word),
     "with --both-sides: left hides from a subword those to its right in its word too",
     .choices = within_words, .standard = "both", .needs = "both-sides"},
    DYNAMIC_ROW(struct surprisal_options, scoring.dynamic,
                "learn from each segment of running text after scoring it",
                DYNAMIC_EXCLUDES " lines context context-text"),
    DYNAMIC_LR_ROW(struct surprisal_options, scoring.dynamic),
    SESSION_ROWS(struct surprisal_options, scoring.session, "f32"),
    ARITHMETIC_ROW(PLACE(scoring.session.arithmetic)),
    MODEL_ROW,
    LOW_MEMORY_ROW,
    COMMON_ROWS,
    {0}};

const struct operand_row surprisal_operands[] = {
    {.name = "FILE",
     .help = "table (.csv, .tsv, .jsonl, .json) or text to score",
     .optional = true,
     .standard_input = true,
     .repeats = true},
    {0}};

const struct example surprisal_examples[] = {
    {"txl surprisal sentences.csv > words.csv", "One row per word of each text in a table"},
    {"txl surprisal --lines sentences.txt > words.csv",
     "The same of a text with a sentence per line"},
    {"txl surprisal --per region -o regions.csv items.csv",
     "One row per region; bars | part a text"},
    {"txl surprisal --prefer good,bad items.csv",
     "In how many items is good more likely than bad?"},
    {"txl surprisal novel.txt > words.csv", "Running text: all of it is context"},
    {0}};
