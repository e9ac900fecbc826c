/* SPDX-License-Identifier: MIT */
/* Causes of automatic snapshots, per session: one crash is one snapshot, however many signs of it arrive, and a
 * crash loop does not fill the disk. Pure decisions over the times they are given. */
#pragma once

#include <sys/types.h>

#include "lib/base.h"

typedef enum {
	CAUSE_CRASH,	/* a program died by a signal, or its handler says that it is about to */
	CAUSE_EXIT,	/* ... exited with a status that is not 0 */
	CAUSE_DEATH,	/* ... is gone, and nothing says how */
	CAUSE_COREDUMP, /* ... is in a core dump that the journal tells of */
	CAUSE_UNIT,	/* a unit failed */
	CAUSE_EVENT,	/* an event that was recorded */
	CAUSE_PROGRAM,	/* a program asked */
	CAUSE_KINDS
} CauseKind;

/* A word: the trigger in the journal, and the end of the snapshot's name. */
const char *cause_name(CauseKind kind);

typedef struct {
	CauseKind kind;
	pid_t pid;	  /* of a unit: its main process; 0: not known */
	u64 start_time;	  /* of that process; 0: not known */
	const char *unit; /* "" or NULL: not known */
} Cause;

typedef enum {
	VERDICT_FIRE,
	VERDICT_DUPLICATE, /* another sign of what was answered already */
	VERDICT_SUPPRESS,  /* too soon after the last one of its kind; counted */
} Verdict;

/* How long signs of one death may lie apart where a unit's name is all they share. */
#define TRIGGER_UNIT_NS (10 * NSEC_PER_SEC)
/* ... and where it is the process: a handler speaks before the core dump and everything else behind it, which takes seconds
 * for each gigabyte. Not for ever: a program may have caught the signal and lived on. */
#define TRIGGER_PROCESS_NS (120 * NSEC_PER_SEC)
#define TRIGGER_RECENT	   32

typedef struct {
	CauseKind kind;
	pid_t pid;
	u64 start_time, when;
	char unit[128];
	u64 snapshot; /* number of the job that answered it (jobs.h); 0: none did */
} Sign;

typedef struct {
	struct {
		u64 last;	/* when one fired; 0: never */
		u64 suppressed; /* since then */
		u64 unsaid;	/* of these, not in the journal yet */
		u64 total;	/* ever */
	} of[CAUSE_KINDS];
	Sign recent[TRIGGER_RECENT];
	u32 n; /* ever noted; the oldest is overwritten */
} Triggers;

/* What to do about a cause at time `now` (nonzero, monotonic). *ret (valid until the next call): this sign, or the earlier
 * one of the same death, whose snapshot is this one's too. */
Verdict triggers_decide(Triggers *t, const Cause *cause, u64 now, u64 min_interval_ns, Sign **ret);
/* The newest sign of the death that this is a sign of; NULL: there was none. */
Sign *triggers_find(Triggers *t, const Cause *cause, u64 now);
/* Notes a cause that joined a snapshot which had not begun. */
Sign *triggers_note(Triggers *t, const Cause *cause, u64 now);
/* How many causes of the kind were suppressed before the one that fires now, and forgets them. */
u64 triggers_take(Triggers *t, CauseKind kind);
/* The same of those that nothing has been said of, once they can be followed by no more: their interval is over. */
u64 triggers_settle(Triggers *t, CauseKind kind, u64 now, u64 min_interval_ns);
/* Totals from 0. */
void triggers_reset(Triggers *t);
