/* The page of a training's report, as it is written by hand. */
#include "cli/page/embed.h"

EMBED_TEXT(train_report_html, "train/report.html");
EMBED_TEXT(train_report_js, "train/report.js");
