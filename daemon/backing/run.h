/* SPDX-License-Identifier: MIT */
/* A run: the directory PATH/SESSION/TIME that one daemon keeps one session's rings in. Whoever keeps it, or makes a trace of it,
 * holds a lock on it, which ends with the process: a run without one was left behind. */
#pragma once

#include "daemon/failure.h"
#include "lib/record.h"

typedef struct {
	const char *session, *buffers;
	struct record_clock clock;
	const u8 *clock_uuid; /* 16 */
} RunSession;

typedef struct {
	int fd;	     /* owned; locked */
	char *path;  /* owned */
} Run;

#define RUN_NULL                                                                                   \
	(Run)                                                                                      \
	{                                                                                          \
		.fd = -1                                                                           \
	}

/* Makes PATH/SESSION, as far as it is not there, and in it a run that appears by rename, with the session's block in it, on disk. 0 or
 * -errno. */
int run_make(Run *ret, const char *path, const RunSession *s);
/* One that was left behind in PATH/SESSION: the oldest whose name is newer than `after` (NULL: any). 1; 0: there is none; -errno.
 * Takes away what a daemon left that ended while it made one. */
int run_claim(Run *ret, const char *path, const char *session, const char *after);
/* It was made in this boot. */
bool run_of_this_boot(const Run *r);
/* A directory and those above it, as far as they are not there. 0 or -errno. */
int run_directories(const char *path);
/* The last part of its path. */
const char *run_name(const Run *r);
/* Takes it away with all that is in it. 0 or -errno. */
int run_remove(Run *r);
/* For a person to look at: renamed, so that it is claimed no more. */
int run_set_aside(Run *r);
void run_close(Run *r);
