/* SPDX-License-Identifier: MIT */
/* Causes of automatic snapshots, per session: one crash is one snapshot, however many signs of it arrive, and a
 * crash loop does not fill the disk. Pure decisions over the times they are given. */
#pragma once

#include <sys/types.h>

#include "lib/base.h"

typedef enum { CAUSE_CRASH, CAUSE_UNIT, CAUSE_PROGRAM } CauseKind;

typedef struct {
	CauseKind kind;
	pid_t pid;	  /* 0: not known */
	u64 start_time;	  /* of that process */
	const char *unit; /* "" or NULL: not known */
} Cause;

typedef enum {
	VERDICT_FIRE,
	VERDICT_DUPLICATE, /* another sign of what was answered already */
	VERDICT_SUPPRESS,  /* too soon after the last one; to be counted */
} Verdict;

/* How long signs of one death may lie apart: a large core dump delays some by seconds. */
#define TRIGGER_SAME_NS (10 * NSEC_PER_SEC)
#define TRIGGER_RECENT	16

typedef struct {
	u64 last; /* when one fired; 0: never */
	struct {
		CauseKind kind;
		pid_t pid;
		u64 start_time, when;
		char unit[128];
	} recent[TRIGGER_RECENT];
	u32 n; /* ever noted; the oldest is overwritten */
} Triggers;

/* What to do about a cause at time `now` (nonzero, monotonic), and notes it. */
Verdict triggers_decide(Triggers *t, const Cause *cause, u64 now, u64 min_interval_ns);
/* Notes a cause that joined a snapshot which had not begun. */
void triggers_note(Triggers *t, const Cause *cause, u64 now);
