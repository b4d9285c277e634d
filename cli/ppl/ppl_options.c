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
     "use the settings and streams with which the published model of this shape was "
     "evaluated, and print the paper's result too",
     .section = "Evaluation", .choices = presets},
    {"batch", OPTION_INTEGER, PLACE(batch),
     "cut the tokens into N equal streams and drop the remainder, as published evaluations do",
     .standard = "1", .excludes = "sliding-window dynamic cache heat shard", .least = 1,
     .most = INT32_MAX},
    {"sliding-window", OPTION_INTEGER, PLACE(sliding_window),
     "score each token in a new segment after the N tokens before it, without memory",
     .excludes = "tgt-len mem-len same-length refresh", .least = 1, .most = TXL_MAX_TGT_LEN},
    {"refresh", OPTION_INTEGER, PLACE(refresh),
     "XLNet: before every R tokens read the tgt-len tokens before them again as one "
     "block, as txl generate does; without it read from left to right",
     .argument = "R", .least = 1, .most = TXL_MAX_ASKED},
    {"compare", OPTION_LIST, PLACE(compare),
     "score the same tokens with another model of the same vocabulary too, and print how "
     "its predictions differ; with --recl a model of the group, and may be repeated",
     .argument = "OTHER.txl", .file = FILE_MODEL},
    {"sweep-memory", OPTION_STRING, PLACE(sweep_memory),
     "score the text with each memory length of LIST, such as 0,64,128,640,1600, and "
     "print a table",
     .argument = "LIST",
     .excludes = "refresh mem-len sliding-window shard fail-above heat dynamic FILES"},
    {"recl", OPTION_FLAG, PLACE(recl),
     "with --sweep-memory: print the relative effective context length, of this model and of those "
     "of --compare; see Memory sweep below",
     .excludes = "cache", .needs = "sweep-memory"},
    {"shard", OPTION_STRING, PLACE(shard),
     "score only stream I of --batch N; --json then prints what --merge needs", .argument = "I/N",
     .excludes = "sliding-window compare cache heat report dynamic FILES"},
    {"merge", OPTION_FLAG, PLACE(merge),
     "read from each FILE what --shard I/N --json printed, and print the result of all N, "
     "that of --batch N",
     .only = "json fail-above",
     .reason = "--merge reads the results of shards and can be combined with --json and "
               "--fail-above only"},
    SESSION_ROWS(struct ppl_options, scoring.session, "f32"),
    ARITHMETIC_ROW(PLACE(scoring.session.arithmetic)),
    {"cache", OPTION_FLAG, PLACE(scoring.cache),
     "mix the model with counts of the text so far, as txl compress does: what repeats becomes "
     "likelier"},
    DYNAMIC_ROWS(struct ppl_options, scoring.dynamic,
                 "learn from each segment after scoring it: the text's own words and names "
                 "become likelier",
                 DYNAMIC_EXCLUDES " batch shard sliding-window sweep-memory refresh"),
    {"dynamic-output", OPTION_STRING, PLACE(scoring.dynamic.output),
     "write what the model became to OUT.txl, after Ctrl-C too; takes one FILE",
     .argument = "OUT.txl", .file = FILE_WHOLE, .output = OUTPUT_WEIGHTS, .excludes = "FILES",
     .needs = "dynamic"},
    {"type", OPTION_CHOICE, PLACE(scoring.dynamic.type),
     "with --dynamic-output: type of the matrices in OUT.txl", .choices = weight_types,
     .standard = "f32", .needs = "dynamic-output"},
    {"json", OPTION_FLAG, PLACE(scoring.json), "print an object for each file",
     .section = "Output"},
    {"heat", OPTION_FLAG, PLACE(scoring.heat),
     "print the text, coloured by the nats of each token, instead of the result",
     .excludes = "json"},
    {"report", OPTION_STRING, PLACE(scoring.report),
     "write a page to OUT.html: the text coloured by the nats of its tokens, and all "
     "figures",
     .argument = "OUT.html", .file = FILE_STREAM, .output = OUTPUT_PAGE, .excludes = "FILES"},
    FORCE_ROW,
    {"fail-above", OPTION_REAL, PLACE(fail_above),
     "exit with status 1 if the result, of several FILEs the total, is above X: "
     "perplexity for words, bits per character for all other kinds of text",
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

const struct note ppl_notes[] = {
    UNWRAP_NOTE,
    OUTPUTS_NOTE,
    SUMMARY_NOTE(
        " txl ppl: files tokens predicted unknown nats_per_token perplexity\n"
        "     bits_per_token bits_per_character seconds tokens_per_second mode\n"
        "     text tgt_len mem_len clamp_len same_length same_length_reach\n"
        "     layer_norm_eps memory_start cluster_order [unwrap]\n"
        "     type memory_type compute threads streams kernels blas model",
        "It states every setting that decides the result; - stands for a number without "
        "meaning. mode is segments, sliding, refreshed or dynamic; text is "
        "raw, tokens, ids or, for a model that reads text in one way, -. The model's name runs to "
        "the end of the line.\n\n"
        "With --unwrap unwrap=yes appears, with --arithmetic exact arithmetic=exact before type. "
        "For an XLNet same_length and cluster_order are left out, and family, activation and "
        "optionally refresh come before type."),
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
     "a relative). Each FILE begins with an empty cache. The report is of the mixture; the OTHER "
     "of --compare "
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
     "--json adds an object "
     "\"compare\": model, nats, nats_per_token, perplexity, bits_per_token, "
     "bits_per_character, bits_per_byte, standard_error (all by OTHER), difference, "
     "difference_standard_error, kl_divergence, top_agreement (a share), "
     "largest_difference, largest_difference_index, settings. A line 'compared:' with "
     "OTHER's settings precedes the summary line. Numbers are within 1e-5 nats of a run "
     "without --compare."},
    {"Blanks",
     "Models of pieces and characters also read blanks that nobody sees. One note counts lines "
     "with blanks at their ends, no-break spaces, zero-width spaces or soft hyphens, but only such "
     "as this model's tokenizer does not drop. --unwrap drops the blanks at the ends of lines, or "
     "sed 's/[[:blank:]]*$//' removes them."},
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
     "The page shows the first 1,000,000 tokens, in about "
     "30 bytes each for models of characters and 45 for models of words; its figures are "
     "those of --json, of the whole text. If the vocabulary has only <unk> for it, the "
     "page shows the source. It shows invisible characters, such as control characters, "
     "by their numbers."},
    {"Outputs",
     "The report and --dynamic-output are put in place together at the end. If one of "
     "them or the result cannot be written, older files of their names stay as they are."},
    {"Interruption", "After Ctrl-C the result of what has been scored is printed, and the report "
                     "has it too; the exit "
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
    {0}};
