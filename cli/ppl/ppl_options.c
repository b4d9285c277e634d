/* The table of txl ppl's options. */
#include "ppl_options.h"

#include "cli/score/table_writer.h"

#include <math.h>
#include <string.h>

static bool changes_session(const struct session_options *options) {
    const struct session_options unset = SESSION_UNSET;
    return memcmp(options, &unset, sizeof unset) != 0;
}

const char *ppl_other(const struct ppl_options *o) {
    return o->compare.n > 0 && !o->recl ? o->compare.items[0] : NULL;
}

int ppl_tables_shown(const struct ppl_options *o) {
    return table_is_standard_output(o->per_token) + table_is_standard_output(o->per_word) +
           table_is_standard_output(o->per_region);
}

/* What may be given, as far as something excludes it or needs it.  Not all are options. */
enum given {
    BATCH,
    SHARD,
    MERGE,
    PER_LINE,
    ITEMS,
    CONTEXT,
    CONTEXT_TEXT,
    SLIDING_WINDOW,
    SWEEP_MEMORY,
    REFRESH,
    BOTH_SIDES,
    WITHIN_WORD,
    ORDER,
    TGT_LEN,
    MEM_LEN,
    SAME_LENGTH,
    MEMORY_TYPE,
    COMPUTE,
    EXACT,
    SESSION, /* any of its options */
    LOW_MEMORY,
    MODEL,
    PRESET,
    COMPARE, /* not with --recl */
    SEVERAL, /* times, without it */
    RECL,
    CACHE,
    DYNAMIC,
    DYNAMIC_OUTPUT,
    IDS,
    UNWRAP,
    SKIP_UNKNOWN,
    NO_EOS,
    MAX_TOKENS,
    PER_TOKEN,
    PER_WORD,
    PER_REGION,
    LOGPROBS,
    SPACE_WITH,
    ENTROPY,
    COLUMNS,
    PREFER,
    PREFER_REGION,
    PREFER_BY,
    HEAT,
    REPORT,
    JSON,
    FAIL_ABOVE,
    A_TABLE,
    A_FILE,
    FILES,  /* more than one */
    TABLES, /* more than one, of --items */
    N_GIVEN
};

#define SET(given) (UINT64_C(1) << (given))
#define CONTEXTS (SET(CONTEXT) | SET(CONTEXT_TEXT))

/* What excludes what.  The first row that matches is told, by its message where it has one. */
static const struct {
    enum given option;
    uint64_t others;
    const char *message;
} exclusions[] = {
    {DYNAMIC, SET(BATCH) | SET(SHARD) | SET(MERGE) | SET(PER_LINE) | SET(ITEMS) | CONTEXTS |
                  SET(SLIDING_WINDOW) | SET(SWEEP_MEMORY) | SET(REFRESH) | SET(MEMORY_TYPE) |
                  SET(COMPUTE) | SET(EXACT) | SET(LOW_MEMORY)},
    {BOTH_SIDES, SET(DYNAMIC) | SET(CACHE) | SET(BATCH) | SET(SHARD) | SET(SLIDING_WINDOW) |
                     SET(SWEEP_MEMORY) | SET(REFRESH) | SET(MEM_LEN) | SET(SPACE_WITH) |
                     SET(ENTROPY)},
    {ORDER, SET(WITHIN_WORD)},
    {DYNAMIC_OUTPUT, SET(FILES)},
    {CACHE, SET(BATCH) | SET(SHARD)},
    {MERGE, ~(SET(MERGE) | SET(JSON) | SET(FAIL_ABOVE) | SET(A_FILE) | SET(FILES)),
     "--merge reads the results of shards and can be combined with --json and --fail-above only"},
    {UNWRAP, SET(IDS) | SET(PER_LINE) | SET(ITEMS)},
    {SLIDING_WINDOW, SET(TGT_LEN) | SET(MEM_LEN) | SET(SAME_LENGTH),
     "--sliding-window replaces --tgt-len, --mem-len and --same-length"},
    {SLIDING_WINDOW, SET(PER_LINE) | SET(REFRESH) | SET(BATCH)},
    {SWEEP_MEMORY, SET(REFRESH)},
    {RECL, SET(CACHE)},
    {PER_LINE, SET(BATCH)},
    {ITEMS, SET(A_FILE), "--items takes the place of FILE"},
    {ITEMS, SET(IDS) | SET(BATCH) | SET(SHARD) | SET(SLIDING_WINDOW) | SET(PER_LINE) |
                SET(SWEEP_MEMORY) | SET(HEAT) | SET(MAX_TOKENS)},
    {CONTEXT, SET(CONTEXT_TEXT)},
    {CONTEXT, SET(BATCH) | SET(SHARD) | SET(SLIDING_WINDOW) | SET(HEAT) | SET(REPORT)},
    {CONTEXT_TEXT, SET(BATCH) | SET(SHARD) | SET(SLIDING_WINDOW) | SET(HEAT) | SET(REPORT)},
    {A_TABLE, SET(JSON) | SET(HEAT) | SET(PER_LINE)},
    {PER_WORD, SET(IDS)},
    {NO_EOS, SET(SHARD) | SET(REPORT) | SET(HEAT)},
    {SHARD, SET(BATCH) | SET(PER_LINE) | SET(SLIDING_WINDOW) | SET(COMPARE) | SET(FILES)},
    {SWEEP_MEMORY, SET(MEM_LEN) | SET(PER_TOKEN) | SET(PER_WORD) | SET(PER_LINE) |
                       SET(SLIDING_WINDOW) | SET(SHARD) | SET(COMPARE) | SET(FAIL_ABOVE) |
                       SET(FILES)},
    {HEAT, SET(BATCH) | SET(PER_LINE) | SET(SHARD) | SET(SWEEP_MEMORY) | SET(JSON)},
    {REPORT, SET(PER_LINE) | SET(SHARD) | SET(FILES) | SET(TABLES) | SET(ORDER)},
};

static const struct {
    enum given option, needs;
} needs[] = {
    {COLUMNS, ITEMS},   {PER_REGION, ITEMS},   {PREFER, ITEMS},           {PREFER_REGION, ITEMS},
    {PREFER_BY, ITEMS}, {LOGPROBS, PER_TOKEN}, {SEVERAL, RECL},           {RECL, SWEEP_MEMORY},
    {ORDER, ITEMS},     {ORDER, BOTH_SIDES},   {WITHIN_WORD, BOTH_SIDES},
};

/* Finds out what is given, and returns the set of it. */
static uint64_t find_given(const struct ppl_options *o, const struct operands *files,
                           struct option_given given[N_GIVEN]) {
    const struct session_options *session = &o->session;
    const struct option_given all[N_GIVEN] = {
        [BATCH] = {o->batch > 1, "--batch"},
        [SHARD] = {o->shard, "--shard"},
        [MERGE] = {o->merge, "--merge"},
        [PER_LINE] = {o->per_line, "--per-line"},
        [ITEMS] = {o->items.n > 0, "--items"},
        [CONTEXT] = {o->context, "--context"},
        [CONTEXT_TEXT] = {o->context_text, "--context-text"},
        [SLIDING_WINDOW] = {o->sliding_window > 0, "--sliding-window"},
        [SWEEP_MEMORY] = {o->sweep_memory, "--sweep-memory"},
        [REFRESH] = {o->refresh > 0, "--refresh"},
        [BOTH_SIDES] = {o->both_sides, "--both-sides"},
        [WITHIN_WORD] = {o->within_word != WITHIN_WORD_BOTH, "--within-word"},
        [ORDER] = {o->factorization, "--factorization"},
        [TGT_LEN] = {session->tgt_len != INTEGER_UNSET, "--tgt-len"},
        [MEM_LEN] = {session->mem_len != INTEGER_UNSET, "--mem-len"},
        [SAME_LENGTH] = {session->same_length != CHOICE_UNSET, "--same-length"},
        [MEMORY_TYPE] = {session->memory_type != CHOICE_UNSET, "--memory-type"},
        [COMPUTE] = {session->compute != CHOICE_UNSET, "--compute"},
        [EXACT] = {session->arithmetic == TXL_ARITHMETIC_EXACT, "--arithmetic exact"},
        [SESSION] = {changes_session(session), "settings"},
        [LOW_MEMORY] = {o->common.low_memory, "--low-memory"},
        [MODEL] = {o->common.model, "--model"},
        [PRESET] = {o->preset != CHOICE_UNSET, "--preset"},
        [COMPARE] = {ppl_other(o), "--compare"},
        [SEVERAL] = {ppl_other(o) && o->compare.n > 1, "--compare more than once"},
        [RECL] = {o->recl, "--recl"},
        [CACHE] = {o->cache, "--cache"},
        [DYNAMIC] = {o->dynamic.on, "--dynamic"},
        [DYNAMIC_OUTPUT] = {o->dynamic.output, "--dynamic-output"},
        [IDS] = {o->ids, "--ids"},
        [UNWRAP] = {o->common.unwrap, "--unwrap"},
        [SKIP_UNKNOWN] = {o->skip_unknown, "--skip-unknown"},
        [NO_EOS] = {o->no_eos, "--no-eos"},
        [MAX_TOKENS] = {o->max_tokens > 0, "--max-tokens"},
        [PER_TOKEN] = {o->per_token, "--per-token"},
        [PER_WORD] = {o->per_word, "--per-word"},
        [PER_REGION] = {o->per_region, "--per-region"},
        [LOGPROBS] = {o->logprobs > 0, "--logprobs"},
        [SPACE_WITH] = {o->space_with != SPACE_WITH_NEXT, "--space-with"},
        [ENTROPY] = {o->entropy, "--entropy"},
        [COLUMNS] = {o->columns.n > 0, "--columns"},
        [PREFER] = {o->prefer, "--prefer"},
        [PREFER_REGION] = {o->prefer_region >= 0, "--prefer-region"},
        [PREFER_BY] = {o->prefer_by, "--prefer-by"},
        [HEAT] = {o->heat, "--heat"},
        [REPORT] = {o->report, "--report"},
        [JSON] = {o->json, "--json"},
        [FAIL_ABOVE] = {!isnan(o->fail_above), "--fail-above"},
        [A_TABLE] = {ppl_tables_shown(o) > 0, "a table on standard output"},
        [A_FILE] = {files->n > 0, "FILE"},
        [FILES] = {files->n > 1, "one FILE"},
        [TABLES] = {o->items.n > 1, "--items more than once"},
    };
    uint64_t set = 0;
    memcpy(given, all, sizeof all);
    for (int i = 0; i < N_GIVEN; i++)
        set |= all[i].given ? SET(i) : 0;
    return set;
}

/* Whether a text comes from standard input. */
static bool reads_input(const struct ppl_options *o, const struct operands *files) {
    bool reads = o->common.files_from && strcmp(o->common.files_from, "-") == 0;
    for (int i = 0; i < files->n; i++)
        reads = reads || strcmp(files->items[i], "-") == 0;
    for (size_t i = 0; i < o->items.n; i++)
        reads = reads || strcmp(o->items.items[i], "-") == 0;
    return reads;
}

int ppl_options_check(const struct command *command, const struct ppl_options *o,
                      const struct operands *files) {
    struct option_given all[N_GIVEN];
    const uint64_t given = find_given(o, files, all);
    for (size_t i = 0; i < sizeof exclusions / sizeof *exclusions; i++) {
        uint64_t others = given & SET(exclusions[i].option) ? given & exclusions[i].others : 0;
        int other = 0;
        while (others > 0 && !(others & SET(other)))
            other++;
        if (others > 0 && exclusions[i].message)
            return options_wrong(command, "%s", exclusions[i].message);
        if (others > 0)
            return options_wrong(command,
                                 other == FILES ? "%s takes %s" : "%s cannot be combined with %s",
                                 all[exclusions[i].option].name, all[other].name);
    }
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        if (given & SET(needs[i].option) && !(given & SET(needs[i].needs)))
            return options_wrong(command, "%s needs %s", all[needs[i].option].name,
                                 all[needs[i].needs].name);
    if ((o->entropy || o->space_with != SPACE_WITH_NEXT) && !o->per_word && !o->per_region)
        return options_wrong(command, "%s needs --per-word or --per-region",
                             all[o->entropy ? ENTROPY : SPACE_WITH].name);
    if (o->context && strcmp(o->context, "-") == 0 && reads_input(o, files))
        return options_wrong(command, "--context and the text cannot both be standard input");
    if (o->factorization && strcmp(o->factorization, "-") == 0 && reads_input(o, files))
        return options_wrong(command,
                             "--factorization and the items cannot both be standard input");
    if (ppl_tables_shown(o) > 1)
        return options_wrong(command, "only one of the tables of tokens, words and regions can go "
                                      "to standard output");
    return dynamic_check(command, &o->dynamic, NULL, 0);
}

static const char *const neighbours[] = {"next", "previous", NULL};

static const char *const within_words[] = {"both", "left", NULL};

static const char *const presets[] = {"published", NULL};

#define PLACE(member) offsetof(struct ppl_options, member)

/* The columns of the tables, by which they are known (own_files.h). */
static const char *const token_columns[] = {
    "file line offset length index id token text nats bits [ nats_other kl ] "
    "[ probability rank entropy ] top *",
    NULL};
static const char *const word_columns[] = {
    "file line offset length word tokens nats bits [ entropy reduction ] unknown *", NULL};
static const char *const region_columns[] = {
    "* region text words tokens nats bits [ entropy reduction ] unknown", NULL};

const struct option_row ppl_option_rows[] = {
    TEXT_ROW(.section = "Text", .standard = "tokens", .offset = PLACE(text)),
    {"ids", OPTION_FLAG, PLACE(ids), "read decimal ids"},
    BINARY_ROW,
    UNWRAP_ROW,
    SKIP_UNKNOWN_ROW("", PLACE(skip_unknown)),
    {"max-tokens", OPTION_INTEGER, PLACE(max_tokens), "read only the first N tokens of each FILE",
     .least = 1, .most = MOST_INTEGER},
    FILES_FROM_ROW(NULL),
    {"preset", OPTION_CHOICE, PLACE(preset),
     "use the settings and streams with which the published model of this shape was "
     "evaluated, and print the paper's result too",
     .section = "Evaluation", .choices = presets},
    {"batch", OPTION_INTEGER, PLACE(batch),
     "cut the tokens into N equal streams and drop the remainder, as published evaluations do",
     .standard = "1", .least = 1, .most = INT32_MAX},
    {"per-line", OPTION_FLAG, PLACE(per_line),
     "score each line alone, after <eos> or what stands for it, and print a table of lines instead "
     "of the result"},
    {"items", OPTION_LIST, PLACE(items),
     "score each text of a table alone, after <eos>, --context and its own context: .csv, .tsv "
     "or .jsonl with a column text and perhaps item, condition and context, or lines of BLiMP; "
     "may be repeated; see Items below",
     .file = FILE_READ},
    {"columns", OPTION_LIST, PLACE(columns),
     "with --items: what columns are called, such as text=Sentence,item=sent_id; region=NAME: "
     "each row is a region of its item and condition",
     .argument = "ROLE=NAME,..."},
    {"context", OPTION_STRING, PLACE(context),
     "read <eos> and FILE before each text, with --per-line before each line, and do not score "
     "them; the text continues FILE, after a blank if neither side has one",
     .file = FILE_READ},
    {"context-text", OPTION_STRING, PLACE(context_text),
     "the same with STRING; it may be empty, so that the text's first token is scored too",
     .argument = "STRING"},
    {"no-eos", OPTION_FLAG, PLACE(no_eos),
     "leave the tokens of line ends out of sums and tables; the model reads them all the "
     "same"},
    {"sliding-window", OPTION_INTEGER, PLACE(sliding_window),
     "score each token in a new segment after the N tokens before it, without memory", .least = 1,
     .most = TXL_MAX_TGT_LEN},
    {"refresh", OPTION_INTEGER, PLACE(refresh),
     "XLNet: before every R tokens read the tgt-len tokens before them again as one "
     "block, as txl generate does; without it read from left to right",
     .argument = "R", .least = 1, .most = TXL_MAX_ASKED},
    {"both-sides", OPTION_FLAG, PLACE(both_sides),
     "XLNet: score each token with all others of its line, item or window of tgt-len tokens known; "
     "see Both sides below"},
    {"within-word", OPTION_CHOICE, PLACE(within_word),
     "with --both-sides: left hides from a piece the pieces to its right in its word too",
     .choices = within_words, .standard = "both"},
    {"factorization", OPTION_STRING, PLACE(factorization),
     "with --both-sides and --items: score the tokens of each text in the order that its line of "
     "FILE gives, instead of a column order",
     .argument = "FILE", .file = FILE_READ},
    {"compare", OPTION_LIST, PLACE(compare),
     "score the same tokens with another model of the same vocabulary too, and print how "
     "its predictions differ; with --recl a model of the group, and may be repeated",
     .argument = "OTHER.txl", .file = FILE_MODEL},
    {"sweep-memory", OPTION_STRING, PLACE(sweep_memory),
     "score the text with each memory length of LIST, such as 0,64,128,640,1600, and "
     "print a table",
     .argument = "LIST"},
    {"recl", OPTION_FLAG, PLACE(recl),
     "with --sweep-memory: print the relative effective context length, of this model and of those "
     "of --compare; see Memory sweep below"},
    {"shard", OPTION_STRING, PLACE(shard),
     "score only stream I of --batch N; --json then prints what --merge needs", .argument = "I/N"},
    {"merge", OPTION_FLAG, PLACE(merge),
     "read from each FILE what --shard I/N --json printed, and print the result of all N, "
     "that of --batch N"},
    SESSION_ROWS(struct ppl_options, session, "f32"),
    ARITHMETIC_ROW(PLACE(session.arithmetic)),
    {"cache", OPTION_FLAG, PLACE(cache),
     "mix the model with counts of the text so far, as txl compress does: what repeats becomes "
     "likelier"},
    DYNAMIC_ROWS(struct ppl_options, dynamic,
                 "learn from each segment after scoring it: the text's own words and names "
                 "become likelier"),
    {"dynamic-output", OPTION_STRING, PLACE(dynamic.output),
     "write what the model became to OUT.txl, after Ctrl-C too; takes one FILE",
     .argument = "OUT.txl", .file = FILE_WHOLE, .output = OUTPUT_WEIGHTS},
    {"type", OPTION_CHOICE, PLACE(dynamic.type),
     "with --dynamic-output: type of the matrices in OUT.txl", .choices = weight_types,
     .standard = "f32"},
    {"json", OPTION_FLAG, PLACE(json), "print an object for each file", .section = "Output"},
    {"per-token", OPTION_STRING, PLACE(per_token),
     "write a table of the scored tokens to FILE: place, text, nats", .file = FILE_STREAM,
     .output = OUTPUT_TABLE, .columns = token_columns},
    {"logprobs", OPTION_INTEGER, PLACE(logprobs),
     "with --per-token: add each token's probability and rank, the entropy, and the K "
     "likeliest tokens in its place",
     .argument = "K", .least = 1, .most = 100000},
    {"per-word", OPTION_STRING, PLACE(per_word),
     "write a table of the words to FILE, with the sum over the tokens of each",
     .file = FILE_STREAM, .output = OUTPUT_TABLE, .columns = word_columns},
    {"space-with", OPTION_CHOICE, PLACE(space_with),
     "with --per-word and --per-region: count white space and line ends to the next word or to "
     "the previous one",
     .choices = neighbours, .standard = "next"},
    {"entropy", OPTION_FLAG, PLACE(entropy),
     "with --per-word and --per-region: add the entropy of the next token before each word or "
     "region, and how much of it that removes"},
    {"per-region", OPTION_STRING, PLACE(per_region),
     "with --items: write a table of the regions to FILE, into which bars part a text",
     .file = FILE_STREAM, .output = OUTPUT_TABLE, .columns = region_columns},
    {"prefer", OPTION_STRING, PLACE(prefer),
     "with --items: print in how many items condition A has fewer nats than B", .argument = "A,B",
     .standard = "good,bad for lines of BLiMP"},
    {"prefer-region", OPTION_INTEGER, PLACE(prefer_region),
     "with --prefer: compare only the nats of region N", .most = 1000000},
    {"prefer-by", OPTION_STRING, PLACE(prefer_by),
     "with --prefer: print the same for the items of each value of a column too",
     .argument = "COLUMN"},
    {"heat", OPTION_FLAG, PLACE(heat),
     "print the text, coloured by the nats of each token, instead of the result"},
    {"report", OPTION_STRING, PLACE(report),
     "write a page to OUT.html: the text coloured by the nats of its tokens, and all "
     "figures",
     .argument = "OUT.html", .file = FILE_STREAM, .output = OUTPUT_PAGE},
    FORCE_ROW,
    {"fail-above", OPTION_REAL, PLACE(fail_above),
     "exit with status 1 if the result, of several FILEs the total, is above X: "
     "perplexity for words, bits per character for all other kinds of text",
     .most = INFINITY},
    MODEL_ROW,
    LOW_MEMORY_ROW,
    COMMON_ROWS,
    {0}};

const struct operand_row ppl_operands[] = {{.name = "FILE",
                                            .help = "text to score",
                                            .optional = true,
                                            .standard_input = true,
                                            .instead = "items",
                                            .repeats = true},
                                           {0}};

const struct note ppl_notes[] = {
    UNWRAP_NOTE,
    OUTPUTS_NOTE,
    SUMMARY_NOTE(
        " txl ppl: files tokens predicted unknown nats_per_token perplexity\n"
        "     bits_per_token bits_per_character seconds tokens_per_second mode\n"
        "     text tgt_len mem_len clamp_len same_length same_length_reach\n"
        "     layer_norm_eps memory_start cluster_order [unwrap] [context_start]\n"
        "     type memory_type compute threads streams kernels blas model",
        "It states every setting that decides the result; - stands for a number without "
        "meaning. mode is segments, lines, items, sliding, refreshed, both-sides or dynamic; text "
        "is "
        "raw, tokens, ids or, for a model that reads text in one way, -. The model's name runs to "
        "the end of the line.\n\n"
        "context_start is the symbol that each text comes after, with --items, --per-line and "
        "--context: <eos>, <S>, the byte 32 or _. With --unwrap unwrap=yes appears, with "
        "--arithmetic exact arithmetic=exact before type. For an XLNet same_length and "
        "cluster_order are left out, and family, activation and perhaps refresh, order and "
        "both_sides (yes, or word-left with --within-word left) come before type."),
    {"Words and unknown symbols",
     "An unknown symbol is easy to predict as <unk>, so texts with many of them look more "
     "predictable than they are. If any scored token is <unk>, the result also says what its "
     "first number is without these tokens. --json has known_predicted, known_characters and "
     "known_nats, which leave them out, and perplexity_without_unknown, "
     "bits_per_token_without_unknown and bits_per_character_without_unknown; all are null if the "
     "vocabulary has no <unk>.\n\n"
     "words of --json is how many runs without white space begin in what was scored, and "
     "word_perplexity is exp(nats / words), as lm-evaluation-harness has it. For models of pieces "
     "the result states it."},
    {"Dynamic evaluation",
     "With --dynamic the model learns from each segment of tgt-len tokens after it has "
     "scored it (Krause et al. 2019). Every score is an honest prediction, which depends "
     "only on the tokens before. Each FILE begins with the model as it is in its file, "
     "which is never written. All arithmetic is in f32. With g, the gradient of a "
     "segment's mean nats, a weight w becomes\n\n"
     " sgd    w - lr g\n"
     " rms    w - lr g / (sqrt(s) + 1e-5)\n"
     " adam   a step of Adam from zero moments\n\n"
     "where s is the sum of g squared over the segments of --statistics (of the first 20000 tokens "
     "of each text), or Adam's second "
     "moment of w in --statistics PREFIX.index.\n\n"
     "--json adds an object \"dynamic\": method, lr, statistics_segments "
     "(null with a checkpoint), drift (the norm of the weights' change). In the summary "
     "line dynamic, dynamic_lr and statistics_segments "
     "follow cluster_order. --report shows the model without learning beside it; the "
     "OTHER of --compare does not learn."},
    {"Cache",
     "With --cache a token's probability is a mixture of the model's and of shares of the tokens "
     "that followed the same 0 to 4 tokens before in the text (of characters and bytes 0 to 8); "
     "how much each part is trusted is "
     "learned as the text goes on, without gradients (the continuous cache of Grave et al. 2017 is "
     "a relative). Each FILE, line or item begins with an empty cache; tokens of --context are "
     "counted in it. All tables, ranks and entropies are of the mixture; the OTHER of --compare "
     "has no cache, so that --compare with the same model shows what the cache brings. It needs "
     "no training and works with --dynamic too. The result has cache=yes among its settings.\n\n"
     "Of a text of at most 64 KiB, all of which is tokens, the nats over 8 ln 2 are within 1 % of "
     "the "
     "bytes that txl compress --streams 1 makes, less the 100 or so that frame it."},
    {"Comparison",
     "With --compare each model runs with its own checkpoint's settings, except for those "
     "of the command line. The difference is OTHER's nats minus the model's, a mean over "
     "tokens with its standard error. The KL divergence is that of OTHER's distribution "
     "from the model's, a mean over tokens in nats. The agreement is the share of tokens "
     "for which both models find the same token likeliest.\n\n"
     "--per-token writes two more columns, nats_other and kl. --json adds an object "
     "\"compare\": model, nats, nats_per_token, perplexity, bits_per_token, "
     "bits_per_character, bits_per_byte, standard_error (all by OTHER), difference, "
     "difference_standard_error, kl_divergence, top_agreement (a share), "
     "largest_difference, largest_difference_index, settings. A line 'compared:' with "
     "OTHER's settings precedes the summary line. Numbers are within 1e-5 nats of a run "
     "without --compare."},
    {"Tables",
     "--per-token writes a row for each scored token of all FILEs. The first token of a "
     "FILE is context and has no row. The columns:\n\n"
     " file    as it was named, - is standard input\n"
     " line    of the source, from 1\n"
     " offset, length\n"
     "         the bytes of the source that the token stands for\n"
     " index   of the token in the file, from 0\n"
     " id, token\n"
     "         the symbol of the vocabulary\n"
     " text    those bytes, of <unk> too\n"
     " nats, bits\n"
     "         -log and -log2 of its probability\n\n"
     "With --compare nats_other and kl follow; with --logprobs probability, rank (1 is "
     "the likeliest), entropy (in nats), top1, top1_nats and so on. White space that the "
     "tokenizer strips belongs to no token. The token of a line end stands for the line "
     "feed and for a carriage return before it. A token that stands for no bytes has "
     "length 0. If several tokens stand for the same bytes, each row has all of these "
     "bytes. With --ids line, offset and length are those of the number, and text is the "
     "id's decoded text.\n\n"
     "--per-word writes a row for each word of the source, a run without white space: "
     "file line offset length word tokens nats bits unknown. unknown is how many of the tokens "
     "are <unk>. The rows sum to the result's nats. "
     "So what belongs to no word, such as the last line end, is a row with an empty word, "
     "and so is a word with a token that was not scored. In models of pieces the blank is "
     "in the first piece of the next word; --space-with previous moves the probability "
     "that a word begins there to the word before (Pimentel and Meister 2024, theorem 2). With B "
     "the "
     "event that a token begins a word or ends a line, a word has the nats of its tokens, less ln "
     "P(B) "
     "after its last, plus ln P(B) before its first; so no word is charged for "
     "beginning. minicons' bow_correction is after the same paper; where its B lacks the end of a "
     "line, a "
     "line's last word differs. The closing line end keeps a row of its own. The rows' sum then "
     "differs from the "
     "result by word_correction of --json, which the result states too.\n\n"
     "--entropy adds two columns in nats before unknown. entropy is the sum of -p ln p of the "
     "distribution before the row's first token. reduction is this less the entropy "
     "before the next row's first token; it may be negative, and it is empty if no token "
     "follows (pandas: na_values={\"reduction\": [\"\"]}). Both are of tokens, not of words.\n\n"
     "--per-line prints the columns file line tokens nats bits text unknown on standard output, "
     "with --json as objects. The other two tables can be written beside it, with an "
     "index from 0 in each line.\n\n"
     "A FILE whose name ends in .csv is comma-separated, in .jsonl an object a line, else "
     "tab-separated. Fields are quoted as RFC 4180 says, and records end in LF. The table "
     "is UTF-8: bytes of the text that are not a whole character, and NUL, are written "
     "\\xHH, a backslash \\\\. With - or /dev/stdout the table comes before the result. "
     "These lines read every value as it is (where a column of your own has NA, na.strings = "
     "c(\"\", \"NA\") reads it so):\n\n"
     " R       read.delim(FILE, na.strings = \"\")\n"
     "         read.csv(FILE, na.strings = \"\")\n"
     " pandas  read_csv(FILE, sep=\"\\t\", keep_default_na=False)\n"
     "         read_csv(FILE, keep_default_na=False)"},
    {"Blanks",
     "Models of pieces and characters also read blanks that nobody sees. One note counts the texts "
     "of --items and the lines of --per-line that have blanks at their edges or several in a row, "
     "tabs and wide blanks, no-break spaces, zero-width spaces or soft hyphens, but only such as "
     "this model's tokenizer does not drop. Of other texts it counts lines with blanks at their "
     "ends and with the last three. --unwrap drops the blanks at the ends of lines, or "
     "sed 's/[[:blank:]]*$//' removes them."},
    {"Items",
     "--items reads a table with a header, or an object a line, and scores each text alone. The "
     "model's first context (<eos>; lm1b: <S>, bytes: 32, text8: _), what --context names and the "
     "text's own context are read before it in this order and not scored. It needs a column "
     "text, or has one column alone, of which each line is a text. item, which is else the row's "
     "number, condition and context may be there, and all others are passed on. Case does not "
     "matter in names. NA, NaN, #N/A, None and null as a whole text are missing values: they are "
     "not scored, and a note counts them. Rows with equal item, condition, context and text, as of "
     "several participants, are one text: it is scored once, and each row gets its numbers. Such a "
     "table is held in memory, at most 256 MiB. A record with "
     "sentence_good and sentence_bad, as BLiMP has them, is two texts with the conditions good and "
     "bad; its item is UID-pairID, else the number of the line. --items may be repeated: each "
     "table has its result, and a total follows.\n\n"
     "The name of the file, .csv, .tsv or .jsonl, says what it is, or else its first byte. The "
     "separator is a comma, tab or semicolon, or between quotes a blank, the first with which the "
     "header has the needed columns. Tables that R's write.table wrote with names of rows are read "
     "as R does. A line such as sep=; before it names one, and lines with # before it are skipped. "
     "Fields are quoted as RFC 4180 says; a line feed in one is a line end. Rows with nothing in "
     "them are blank lines. Objects may have different fields: what one lacks is empty in its "
     "rows, "
     "so they are read twice; they may also be the elements of one array. Numbers are passed on as "
     "they are written."},
    {"Columns",
     "--columns says what columns are called: a list of ROLE=NAME with the roles item, condition, "
     "text, context, region, sentence_good, sentence_bad, UID, pairID and, with --both-sides, "
     "order. "
     "With region=NAME the "
     "table is in the long form: each row is a region, and the rows of one item and condition are "
     "one text, in the order of the numbers in that column (-1, 2.0), else of those that its "
     "labels "
     "end in (r2, r10), or else of their lines. One blank is between two of them, with join=none "
     "only what they have at their edges, and a bar is a bar. An NA or NaN among them is an empty "
     "region. The rows may stand anywhere, and a region may come once for each participant; the "
     "table is held in memory, at most 256 MiB. If a row is wrong nothing is scored.\n\n"
     "A bar parts a text into regions and is removed; blanks beside it become one, which belongs "
     "to the region after it, and none at the text's edges. \\| is a bar, and every other "
     "backslash stands for itself. A record that is wrong, lacks a text or is longer than 1 MiB is "
     "named and left out; the exit status is then 1. If all are wrong, one error names the "
     "first.\n\n"
     "--per-region writes a row for each region: the passed columns, then item condition "
     "region text words tokens nats bits unknown; with several tables file comes first. Regions "
     "count from 1. Region 0 is the symbol that closes the text, so that a text's rows sum to its "
     "nats. A token belongs to the region of its first byte that is no blank, a lone blank to that "
     "of what follows, a word to that of its first byte. With --space-with previous a lone blank "
     "belongs to the region before, and a model of pieces corrects regions at their ends as words; "
     "a bar within a word moves nothing. --entropy adds its two columns. --per-token and "
     "--per-word have the "
     "passed columns, item and condition after their own; line is where the record begins, offset "
     "and length are bytes of the text without quotes and bars. In the long form all have what is "
     "passed on from the row of their region. A passed column with the name of another column gets "
     ".1 added, as in R and pandas.\n\n"
     "--prefer A,B counts the items whose text of condition A has fewer nats than that of B, in "
     "all or in region N, and with --prefer-by also those of each value that a column has in the "
     "row of A. The standard error is sqrt(p (1 - p) / n), the 95 % interval Wilson's (1927), and "
     "a tie "
     "counts for neither; the difference is the mean of B's nats less A's, item by item, with its "
     "standard error. An item's "
     "texts may stand anywhere in one table; 32 bytes a text are kept. An item that lacks a "
     "condition, has one twice, or has no token in the region is named by its line and left out; "
     "the exit status is then 1. --json adds an object \"items\": texts, left_out, and preference "
     "(null without --prefer): prefer, over, region, items, preferred, ties, left_out, share, "
     "standard_error, interval (of the share, 95 %), difference, difference_standard_error, and "
     "with "
     "--prefer-by by and values, a list of value and the same."},
    {"Both sides",
     "With --both-sides an XLNet predicts each token from all others of its line or item, which "
     "are a block, and from what --context names. Of a FILE these are the others of its window: "
     "the text is cut into windows of tgt-len tokens, of which the last ends with the text and may "
     "overlap the one before. No memory is used, and the first token is scored too. Each token "
     "takes a pass of its own over its window. The sum is a pseudo-log-likelihood (Salazar et al. "
     "2020), which compares sentences but is no code length; a perplexity of it compares with "
     "others of its kind alone.\n\n"
     "A word of several pieces gives itself away: with --within-word left a piece sees the pieces "
     "before it in its word and not those after it (Kauf and Ivanova 2023). A word is a run "
     "without white space.\n\n"
     "An order of factorisation is a list of tokens by their index (--per-token): they are scored "
     "one after the other, each from those before it in the list and from all tokens that are not "
     "in it, which are known and not scored. So with '0 1' of 'New York is a city' York is "
     "predicted from New and 'is a city', New from 'is a city' alone (Yang et al. 2019, section "
     "2.6). It stands in the column order, or in the text's line of --factorization FILE; commas, "
     "blanks and brackets may part its numbers. Without one a text is scored as all others are. "
     "With it a "
     "text takes at most tgt-len tokens."},
    {"Memory sweep",
     "--sweep-memory prints one row, with --json one object, and one summary line for "
     "each length. The +/- is the standard error of the difference from the first length, "
     "token by token; --json has that difference and its error in nats per token. The "
     "other settings stay the same. A range:\n\n"
     " txl ppl --sweep-memory $(seq -s, 0 100 1600) novel.txt\n\n"
     "--recl computes the relative effective context length (Dai et al. 2019, appendix C) of each "
     "model of a group: the largest length of LIST, which must rise, whose next one lowers the "
     "perplexity by at least 1 %. That is measured among the tokens that are hardest for the best "
     "model at that length, 10 %, 50 % and all of them, and no model is charged for what another "
     "predicts better: nats above the least of all models at that length count as that. Lengths "
     "are those of the memory; a token also sees its segment, so a short --tgt-len is best. 4 "
     "bytes a token, length and model are held. The table of gains comes after the rows of all "
     "models, with --json an object with recl, a list of {\"model\", \"lengths\", \"steps\"}."},
    {"Shards",
     "With --shard I/N --json adds an object \"shard\" to the result: number, of, mean and "
     "squares (the sum of squared differences from it) of the nats, the model's name and "
     "checksum, mode, text, kernels, blas, words, pieces, replaces_unknown. Numbers have "
     "17 digits, so that nothing is lost. --merge takes these files in any order and "
     "refuses missing, repeated, interrupted and differing ones. Its result is that of "
     "--batch N, bit for bit with the same kernels; its seconds are the sum over the "
     "shards."},
    {"Heat", "--heat prints the bytes of the text unchanged. If standard output is a terminal or "
             "CLICOLOR_FORCE is set, colours come between them, and a legend is the last line; "
             "NO_COLOR turns both off. The first token, line ends, and bytes that no token stands "
             "for keep the terminal's own colour. Bytes that several tokens stand for have the "
             "colour of the first. The result is on the summary line."},
    {"Report",
     "The page of --report is one file that loads nothing. For each token it shows the "
     "probability, the rank (1 is the likeliest; ties go to the lower id) and the five "
     "likeliest tokens in its place. A plot shows the mean along the text; a click on it "
     "goes to the place. With --compare the difference comes first, and the plot shows it "
     "while the colours do. With --sweep-memory the page has the curve, and the text as "
     "scored with the longest memory. Where a text is scored in segments, a plot shows the mean "
     "nats by the place in the segment, below all figures; with --sweep-memory it stands by the "
     "curve, and if the lengths have 0, those without memory beside it (context fragmentation). "
     "With --items each text is a line, and a table has its regions with "
     "their bits, each in the colour of its mean per token, below the result of --prefer. The page "
     "shows the first 1,000,000 tokens, in about "
     "30 bytes each for models of characters and 45 for models of words; its figures are "
     "those of --json, of the whole text. If the vocabulary has only <unk> for it, the "
     "page shows the source. It shows invisible characters, such as control characters, "
     "by their numbers."},
    {"Outputs",
     "Tables, the report and --dynamic-output are put in place together at the end. If one of "
     "them or the result cannot be written, older files of their names stay as they are."},
    {"Interruption",
     "After Ctrl-C the result of what has been scored is printed, and tables have it too; the exit "
     "status is 130."},
    {0}};

const struct example ppl_examples[] = {
    {"txl ppl novel.txt", "bits per character of a text, by the built-in model"},
    {"txl ppl --model wt103.txl --text raw essay.txt", "perplexity of prose by a words model"},
    {"txl ppl --model enwik8.txl --preset published test.txt --json",
     "a published evaluation, for a program to read"},
    {"txl ppl --sweep-memory 0,64,128,640,1600 novel.txt", "what a longer memory brings"},
    {"txl ppl --sweep-memory 0,16,32,64,128 --recl --tgt-len 8 novel.txt",
     "how long a context still helps"},
    {"txl ppl --dynamic --dynamic-output mine.txl novel.txt",
     "a model that learns from the novel as it reads"},
    {"txl ppl --shard 3/10 --json novel.txt > 3.json", "the third of ten parts of an evaluation"},
    {"txl ppl --merge *.json", "the whole of it"},
    {"txl ppl --per-token novel.csv --logprobs 5 novel.txt",
     "the surprisal of every token, for R or pandas"},
    {"txl ppl --per-word words.tsv --space-with previous novel.txt", "and of every word"},
    {"txl ppl --items sentences.csv --per-region regions.csv --prefer good,bad",
     "the surprisal of regions, and which condition of each item is likelier"},
    {"txl ppl --model xlnet.txl --both-sides --items sentences.csv --prefer good,bad",
     "by XLNet's pseudo-log-likelihood instead"},
    {"cat blimp/*.jsonl | txl ppl --items - --prefer-by UID", "accuracy on BLiMP, by phenomenon"},
    {"txl ppl --items suite.csv --columns item=item_number,condition=condition_name,"
     "region=region_number,text=content --per-region regions.csv",
     "a table with a row a region, as of SyntaxGym"},
    {"txl ppl --per-line sentences.txt | awk -F '\\t' 'NR > 1 && $3 > 0 { print $5 / $3 \"\\t\" $6 "
     "}' | sort -g",
     "sentences by their bits a token, the likeliest first"},
    {0}};
