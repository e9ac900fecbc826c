/* SPDX-License-Identifier: MIT */
/* A failure that a person will read: a kind, which the bus turns into an error name, and a sentence that
 * names the object and says what to do. */
#pragma once

#include "lib/base.h"

typedef enum {
	FAILURE_NONE = 0,
	FAILURE_INVALID,	 /* the arguments */
	FAILURE_NO_SUCH_SESSION,
	FAILURE_SESSION_EXISTS,
	FAILURE_SESSION_RUNNING,
	FAILURE_NOT_RUNNING,
	FAILURE_NOT_CONTINUOUS,	 /* Rotate on a session that keeps memory only */
	FAILURE_CONFIG,		 /* a configuration file; text has file and line */
	FAILURE_NO_MEMORY,
	FAILURE_NO_SPACE,
	FAILURE_LIMIT,
	FAILURE_BUSY,
	FAILURE_NOTHING,	 /* no rings, or nothing in them: there is nothing to save */
	FAILURE_IO,
} FailureKind;

typedef struct {
	FailureKind kind;
	char text[1024];
} Failure;

#define FAILURE_NULL                                                                               \
	(Failure)                                                                                  \
	{                                                                                          \
		.kind = FAILURE_NONE                                                               \
	}

/* Sets f (may be NULL) and returns the negative errno that belongs to the kind. */
int failure_set(Failure *f, FailureKind kind, const char *format, ...) _printf_(3, 4);
