/* The texts that make up a report's page. */
#ifndef CLI_REPORT_PAGE_H
#define CLI_REPORT_PAGE_H

/* In report.html, "@report_data@" and "@report@" stand for the other texts, "@data@" for the data;
 * for the rest see page.h. */
extern const char report_html[];
extern const char report_data_js[];
extern const char report_js[];

#endif
