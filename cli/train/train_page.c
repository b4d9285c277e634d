/* The texts of a training report's page. */
#include "cli/page/embed.h"

EMBED_TEXT(train_report_html, "train/report.html");
EMBED_TEXT(train_report_js, "train/report.js");
