/* What a command exits with.  After a signal it is signals_status (signals.h). */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

enum exit_status { STATUS_OK = 0, STATUS_FAILURE = 1, STATUS_USAGE = 2 };

#endif
