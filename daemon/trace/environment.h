/* SPDX-License-Identifier: MIT */
/* Pairs for the metadata's env that own their strings. */
#pragma once

#include "daemon/trace/trace.h"

typedef struct {
	TraceEnvironment *v; /* owned, and the strings in it */
	size_t n;
	bool failed; /* a pair got lost for want of memory: asked once, at the end */
} Environment;

void environment_add(Environment *e, const char *key, const char *format, ...) _printf_(3, 4);
void environment_clear(Environment *e);
