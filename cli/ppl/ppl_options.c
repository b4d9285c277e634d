/* The table of txl ppl's options. */
#include "ppl_options.h"

#include <math.h>
#include <string.h>

const char *ppl_other(const struct ppl_options *o) {
    return o->compare.n > 0 && !o->recl ? o->compare.items[0] : NULL;
}

static const char *const presets[] = {"published", NULL};

#define PLACE(member) offsetof(struct ppl_options, member)

const struct option_row ppl_option_rows[] = {
    TEXT_ROW(.section = "Text", .standard = "tokens", .offset = PLACE(scoring.text)),
    {"ids", OPTION_FLAG, PLACE(ids), "read decimal ids", .excludes = "unwrap"},
    BINARY_ROW,
    UNWRAP_ROW,
    SKIP_UNKNOWN_ROW("", PLACE(scoring.skip_unknown)),
    {"max-tokens", OPTION_INTEGER, PLACE(scoring.max_tokens),
     "read only the first N tokens of each FILE", .least = 1, .most = MOST_INTEGER},
    FILES_FROM_ROW(NULL),
    {"preset", OPTION_CHOICE, PLACE(preset),
     "use the settings and streams of the published evaluation of this model, and print its result",
     .section = "Evaluation", .choices = presets},
    {"batch", OPTION_INTEGER, PLACE(batch),
     "cut the tokens into N equal streams and drop the remainder, as published evaluations do",
     .standard = "1", .excludes = "sliding-window dynamic cache heat shard", .least = 1,
     .most = INT32_MAX},
    {"sliding-window", OPTION_INTEGER, PLACE(sliding_window),
     "score each token in a new segment after the N tokens before it, without memory",
     .excludes = "tgt-len mem-len same-length refresh", .least = 1, .most = TXL_MAX_TGT_LEN},
    {"refresh", OPTION_INTEGER, PLACE(refresh),
     "XLNet: before every R tokens read the tgt-len tokens before them again as one block",
     .argument = "R", .least = 1, .most = TXL_MAX_ASKED},
    {"compare", OPTION_LIST, PLACE(compare),
     "score the same tokens with OTHER too, which has the same vocabulary, and print how it "
     "differs; with --recl optionally several",
     .argument = "OTHER.txl", .file = FILE_MODEL},
    {"sweep-memory", OPTION_STRING, PLACE(sweep_memory),
     "score the text with each memory length of LIST, such as 0,64,128,640, and print a table",
     .argument = "LIST",
     .excludes = "refresh mem-len sliding-window shard fail-above heat dynamic FILES"},
    {"recl", OPTION_FLAG, PLACE(recl),
     "with --sweep-memory: print the relative effective context length of each model; see txl help "
     "sweep",
     .excludes = "cache", .needs = "sweep-memory"},
    {"shard", OPTION_STRING, PLACE(shard),
     "score only stream I of --batch N; --json then prints what --merge needs", .argument = "I/N",
     .excludes = "sliding-window compare cache heat report dynamic FILES"},
    {"merge", OPTION_FLAG, PLACE(merge),
     "print the result of all N shards, from what --shard I/N --json printed to each FILE",
     .only = "json fail-above",
     .reason = "--merge reads the results of shards and can be combined with --json and "
               "--fail-above only"},
    SESSION_ROWS(struct ppl_options, scoring.session, "f32"),
    ARITHMETIC_ROW(PLACE(scoring.session.arithmetic)),
    {"cache", OPTION_FLAG, PLACE(scoring.cache),
     "mix the model with counts of the text so far: what repeats becomes more likely"},
    DYNAMIC_ROWS(struct ppl_options, scoring.dynamic,
                 "learn from each segment after scoring it: the text's own words and names "
                 "become likelier",
                 DYNAMIC_EXCLUDES " batch shard sliding-window sweep-memory refresh"),
    {"dynamic-output", OPTION_STRING, PLACE(scoring.dynamic.output),
     "write the model that it became to OUT.txl", .argument = "OUT.txl", .file = FILE_WHOLE,
     .output = OUTPUT_WEIGHTS, .excludes = "FILES", .needs = "dynamic"},
    {"type", OPTION_CHOICE, PLACE(scoring.dynamic.type),
     "with --dynamic-output: type of the matrices", .choices = weight_types, .standard = "f32",
     .needs = "dynamic-output"},
    {"json", OPTION_FLAG, PLACE(scoring.json), "print an object for each file",
     .section = "Output"},
    {"heat", OPTION_FLAG, PLACE(scoring.heat),
     "print the text, coloured by the nats of each token, instead of the result",
     .excludes = "json"},
    {"report", OPTION_STRING, PLACE(scoring.report),
     "write a page to OUT.html: the text coloured by the nats of its tokens, and all figures",
     .argument = "OUT.html", .file = FILE_STREAM, .output = OUTPUT_PAGE, .excludes = "FILES"},
    FORCE_ROW,
    {"fail-above", OPTION_REAL, PLACE(fail_above),
     "exit with status 1 if the result, or the total, is above X: perplexity of word-level models, "
     "else bits per character",
     .most = INFINITY},
    MODEL_ROW,
    LOW_MEMORY_ROW,
    COMMON_ROWS,
    {0}};

const struct moved_option ppl_moved[] = {
    {"items", "txl surprisal TABLE"},
    {"columns", "txl surprisal --columns ROLE=NAME,... TABLE"},
    {"per-line", "txl surprisal --lines --per text FILE"},
    {"per-token", "txl surprisal --per token=OUT FILE"},
    {"per-word", "txl surprisal --per word=OUT FILE"},
    {"per-region", "txl surprisal --per region=OUT TABLE"},
    {"logprobs", "txl surprisal --per token --logprobs K FILE"},
    {"space-with", "txl surprisal FILE, whose column bits_corrected counts a space with the word "
                   "before it"},
    {"entropy", "txl surprisal --entropy FILE"},
    {"prefer", "txl surprisal --prefer A,B TABLE"},
    {"prefer-region", "txl surprisal --prefer A,B --prefer-region N TABLE"},
    {"prefer-by", "txl surprisal --prefer A,B --prefer-by COLUMN TABLE"},
    {"context", "txl surprisal --per text --context FILE TEXT"},
    {"context-text", "txl surprisal --per text --context-text STRING TEXT"},
    {"no-eos", "txl surprisal --per text FILE, whose column bits_end has what closes the text"},
    {"both-sides", "txl surprisal --both-sides FILE"},
    {"within-word", "txl surprisal --both-sides --within-word left FILE"},
    {0}};

const struct operand_row ppl_operands[] = {{.name = "FILE",
                                            .help = "text to score",
                                            .optional = true,
                                            .standard_input = true,
                                            .repeats = true},
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
    {0}};
