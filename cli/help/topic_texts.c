/* The long explanations of commands. */
#include "cli/page/embed.h"

EMBED_TEXT(shared_topics, "help/topics.txt");
EMBED_TEXT(ppl_topics, "ppl/ppl.txt");
EMBED_TEXT(surprisal_topics, "surprisal/surprisal.txt");
EMBED_TEXT(generate_topics, "generate/generate.txt");
EMBED_TEXT(fill_topics, "fill/fill.txt");
EMBED_TEXT(train_topics, "train/train.txt");
EMBED_TEXT(serve_topics, "serve/serve.txt");
EMBED_TEXT(classify_topics, "heads/classify.txt");
EMBED_TEXT(answer_topics, "heads/answer.txt");
EMBED_TEXT(convert_topics, "convert.txt");
EMBED_TEXT(bench_topics, "bench.txt");
