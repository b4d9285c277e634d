/* The texts that a report's page is put together from. */
#ifndef CLI_REPORT_PAGE_H
#define CLI_REPORT_PAGE_H

/* In report.html, "@style@", "@report_data@", "@report_plot@" and "@report@" stand for the other
 * texts, "@data@" for the data, and "@nonce@" for a number that no text can know. */
extern const char report_html[];
extern const char report_css[];
extern const char report_data_js[];
extern const char report_plot_js[];
extern const char report_js[];

#endif
