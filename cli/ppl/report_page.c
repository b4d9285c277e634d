/* The report's page as it is written by hand: report.html with its style and its scripts, put into
 * the program by the assembler, as default_model.c puts the model there. */
#include "report_page.h"

#define TEXT(name, path)                                                                           \
    __asm__(".section .rodata\n"                                                                   \
            ".global " #name "\n" #name ":\n"                                                      \
            ".incbin \"" path "\"\n"                                                               \
            ".byte 0\n"                                                                            \
            ".previous\n")

TEXT(report_html, EMBEDDED_FOLDER "/ppl/report.html");
TEXT(report_css, EMBEDDED_FOLDER "/ppl/report.css");
TEXT(report_data_js, EMBEDDED_FOLDER "/ppl/report_data.js");
TEXT(report_plot_js, EMBEDDED_FOLDER "/ppl/report_plot.js");
TEXT(report_js, EMBEDDED_FOLDER "/ppl/report.js");
