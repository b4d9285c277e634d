/* The texts of the report's page. */
#include "cli/page/embed.h"

EMBED_TEXT(report_html, "score/report.html");
EMBED_TEXT(report_data_js, "score/report_data.js");
EMBED_TEXT(report_js, "score/report.js");
