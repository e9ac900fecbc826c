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
/* hostname and boot_id of this machine. */
void environment_add_host(Environment *e);
/* A time of CLOCK_REALTIME in nanoseconds, as people read it: "2026-11-29T16:01:02.123456789Z". */
void environment_add_time(Environment *e, const char *key, u64 ns);
void environment_clear(Environment *e);
