/* SPDX-License-Identifier: MIT */
/* What keeps a consumer from writing: a state that is entered and left once each, said once each, and tried to get out of again and
 * again. Knows no output. */
#pragma once

#include "daemon/failure.h"

typedef struct {
	bool on;
	bool space; /* it would be over with more space */
	u64 retry_at; /* CLOCK_MONOTONIC */
	int error;
	/* What was said since it began: errors that take turns are said once each. */
	int said[4];
	u32 n_said;
} Trouble;

#define TROUBLE_RETRY_NS (NSEC_PER_SEC / 5)

/* Enters it, and sets when to try again. True: it is news, to be said in the words of trouble_text(). */
bool trouble_begin(Trouble *t, int error);
/* True: there was some, and that it is over is to be said. */
bool trouble_end(Trouble *t);

/* For who reads the journal. NULL: no memory. */
char *trouble_text(const char *path, int error);
/* Of a trace that is not gone on with. */
char *trouble_text_unfinished(const char *path, int error);
/* For who asked for a rotation and gets none: why. Returns what failure_set() does. */
int trouble_failure(Failure *f, const char *session, const char *path, int error);

/* The disk or a quota is full. */
bool trouble_is_space(int error);
/* The same would do when there is more of it: nothing is wrong with the file. */
bool trouble_is_short(int error);
/* Of a rotation. */
bool trouble_is(int r);
