/* The texts of the server's page. */
#include "cli/page/embed.h"

EMBED_TEXT(serve_page_html, "serve/page.html");
EMBED_TEXT(serve_key_html, "serve/page_key.html");
EMBED_TEXT(serve_page_css, "serve/page_own.css");
EMBED_TEXT(serve_talk_js, "serve/page_talk.js");
EMBED_TEXT(serve_write_js, "serve/page_write.js");
EMBED_TEXT(serve_read_js, "serve/page_read.js");
