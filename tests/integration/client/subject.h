/* SPDX-License-Identifier: MIT */
/* Starting the program under test and walking it through its commands. */
#pragma once

#include "fake.h"

typedef struct {
	pid_t pid;
	int in, out;
} Subject;

/* Environment variables name the binaries (meson sets them): SUBJECT, PLUGIN, HOST, TLS. */
Subject subject_start(const char *directory, ...) G_GNUC_NULL_TERMINATED;
Subject subject_start_v(const char *directory, char **argv);
/* Until it stands in its next "wait"; lets it go on. */
void subject_waits(Subject *s);
void subject_go(Subject *s);
/* All that it prints from here on, until it ends; it must end with this exit status. */
char *subject_end(Subject *s, int status);
/* start, then end with 0 */
void subject_run(const char *directory, ...) G_GNUC_NULL_TERMINATED;

/* How many records of this event there are (NULL: any), and whether each came from this process (0:
 * any). */
u32 count_records(Fake *f, u32 slot, const char *event, pid_t pid);
