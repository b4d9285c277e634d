/* The long explanations of commands. */
#include "cli/page/embed.h"

EMBED_TEXT(shared_topics, "help/topics.txt");
EMBED_TEXT(ppl_topics, "ppl/ppl.txt");
EMBED_TEXT(surprisal_topics, "surprisal/surprisal.txt");
