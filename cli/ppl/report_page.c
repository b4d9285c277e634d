/* The texts of the report's page. */
#include "cli/page/embed.h"

EMBED_TEXT(report_html, "ppl/report.html");
EMBED_TEXT(report_data_js, "ppl/report_data.js");
EMBED_TEXT(report_js, "ppl/report.js");
