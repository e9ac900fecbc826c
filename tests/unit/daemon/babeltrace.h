/* SPDX-License-Identifier: MIT */
/* babeltrace2 as the judge of what was written. */
#pragma once

#include "lib/base.h"

#include <glib.h>

typedef struct {
	int status; /* of the process; 0: it read all */
	char *out, *err;
	char *text;   /* out again, cut up into ... */
	char **lines; /* ... the lines that are not empty: one an event */
	guint n;
} Babeltrace;

/* Runs it over `path`; NULL-terminated extra arguments may be NULL. */
void babeltrace_run(Babeltrace *b, const char *path, const char *const *arguments);
void babeltrace_clear(Babeltrace *b);
/* Status 0 and nothing on stderr but lines about discarded events and packets. */
void babeltrace_assert_clean(const Babeltrace *b);
/* Sum of "discarded N events" on stderr. */
guint64 babeltrace_discarded(const Babeltrace *b);
/* The events whose line contains text. */
guint babeltrace_count(const Babeltrace *b, const char *text);
