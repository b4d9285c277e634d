/* The texts that all pages share. */
#include "embed.h"

EMBED_TEXT(page_head_html, "page/head.html");
EMBED_TEXT(page_css, "page/page.css");
EMBED_TEXT(page_elements_js, "page/elements.js");
EMBED_TEXT(page_plot_js, "page/plot.js");
