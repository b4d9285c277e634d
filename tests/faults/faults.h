/* Injects faults.  faults.c intercepts the C library's functions that allocate or work on files,
 * also when other libraries call them, and lets a chosen call fail.  It is linked into the test
 * programs of this folder; as a library to preload it does the same to any program from the start
 * of main on: TXL_FAULT=memory:12 fails the 12th allocation, memory:12+ all from the 12th on;
 * shrink:12:FILE cuts the file short at the 12th, and interrupt:12 is Ctrl-C at that moment.
 * nameless stands for a file system without nameless files, linkless for one without links too,
 * unflushed for one whose folders cannot be flushed. */
#ifndef TESTS_FAULTS_H
#define TESTS_FAULTS_H

#include <stdbool.h>
#include <stddef.h>

enum fault_kind {
    FAULT_MEMORY, /* an allocation, an anonymous map or a new thread is refused */
    FAULT_FILE,   /* a call on a file fails: reads with EIO, the rest as on a full disk */
    FAULT_CUT,    /* a read or write moves one byte only, which is no error */
    FAULT_SIGNAL, /* a read or write is interrupted (EINTR), which is none either */
    FAULT_SHRINK, /* at an allocation, which succeeds, somebody else cuts a file short */
    FAULT_STOP    /* at an allocation, which succeeds, SIGINT comes */
};

/* The n-th such call of this thread from now on, from 1, fails, and with `on` all that follow; 0:
 * none does. */
void faults_arm(enum fault_kind kind, long n, bool on);

/* No call fails any longer.  Returns how many there were since faults_arm. */
long faults_disarm(void);

/* The most bytes that were allocated at a time since faults_arm; what was allocated before it does
 * not count. */
size_t faults_peak(void);

#endif
