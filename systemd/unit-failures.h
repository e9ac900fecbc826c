/* SPDX-License-Identifier: MIT */
/* Which units have failed: out of states that are told again and again, each failure once.
 *
 * What counts as a failure is an edge: ActiveState becomes "failed", or NRestarts rises (a unit that systemd
 * restarts at once may be seen as "activating" only). ActiveState stays "failed" and Result stays set
 * until the next start, and systemd repeats both in every later signal of the unit, so each unit
 * that has something to remember has a small note here. */
#pragma once

#include <sys/types.h>

#include "lib/base.h"

/* Must not free what calls it. unit: "nginx.service"; result: systemd's Result ("core-dump", "signal", "exit-code", "oom-kill", ...);
 * main_pid: of the process that was its main one, 0 if there is none. */
typedef void (*UnitFailed)(void *userdata, const char *unit, const char *result, pid_t main_pid);

typedef struct Note Note;

/* All zero but for `failed` and `userdata`: nothing is known yet. */
typedef struct {
	UnitFailed failed;
	void *userdata;
	Note *first;
	size_t n;
	bool primed; /* the units that were failed before anybody looked are known and were not reported */
	bool listed; /* ... and this daemon has seen them itself */
} UnitFailures;

/* What one signal says of one unit; NULL and 0 where it says nothing. */
typedef struct {
	const char *active_state, *sub_state, *result;
	uint32_t n_restarts, main_pid;
	bool has_restarts;
} UnitChange;

void unit_failures_clear(UnitFailures *f);

/* What the interface of its type (Service, Mount, ...) says, which comes first: Result is known before the state is. */
void unit_failures_type(UnitFailures *f, const char *unit, const UnitChange *c);
/* What the interface of all units says, with an active_state. */
void unit_failures_state(UnitFailures *f, const char *unit, const UnitChange *c);

/* A list of all that are failed now: begin, each of them, end. Those of the first list were so before we looked. whole: the list
 * was read to its end. */
void unit_failures_list(UnitFailures *f);
void unit_failures_list_unit(UnitFailures *f, const char *unit);
void unit_failures_list_end(UnitFailures *f, bool whole);

/* Those that were failed when somebody else looked last, with blanks between; nothing once there was a list. */
void unit_failures_known(UnitFailures *f, const char *units);
/* The same of now; NULL: there was no list yet, or no memory. */
char *unit_failures_text(const UnitFailures *f);
