/* SPDX-License-Identifier: MIT */
/* Snapshots that are asked for, and what becomes of them: a bounded queue, a thread that copies rings, and one that writes
 * copies to disk. The next one is cut and copied while the disk still has the one before, because rings go on being
 * overwritten; not more than one, because a copy is as large as its rings. */
#pragma once

#include "daemon/session.h"

#define JOBS_MAX 64 /* waiting, of all sessions; automatic ones are not refused, since of those one waits per session */

typedef struct Jobs Jobs;

typedef struct {
	/* a snapshot is on disk or failed; before its callers are told */
	void (*finished)(void *userdata, Session *s /* NULL: removed meanwhile */, const char *session,
			 const char *reason, const char *path /* NULL: failed */);
} JobsObserver;

int jobs_new(Jobs **ret, sd_event *event, Ground *ground, const JobsObserver *observer, void *userdata);
/* Waiting jobs fail with FAILURE_BUSY; those at work are waited for no longer. */
Jobs *jobs_free(Jobs *j);
DEFINE_CLEANUP(Jobs *, jobs_free)

/* automatic: nobody waits for it, other reasons may join it until it begins, and it goes before those that were asked for,
 * which can be asked for again. environment: pairs "key", "value", ..., NULL
 * for the metadata. See manager_snapshot() for the rest. */
int jobs_add(Jobs *j, Session *s, const char *trigger, const char *reason, bool automatic,
	     const SnapshotOptions *options, const char *const *environment, SnapshotDone done,
	     void *userdata, char **ret_path, Failure *f);
/* An automatic one that a daemon before us had promised, with the name that it had given it. */
int jobs_again(Jobs *j, Session *s, u64 usec, const char *trigger, const char *reason,
	       const char *const *environment, Failure *f);
/* Numbers up to this one were another daemon's. */
void jobs_number_from(Jobs *j, u64 last);
/* Of the job that was added last: 1, 2, ... */
u64 jobs_number(const Jobs *j);
/* Where that one is or will be; "": not known any more. */
const char *jobs_path(const Jobs *j, u64 number);
/* Adds a reason to an automatic job of the session that has not begun, whose number is *ret. False if there is none. */
bool jobs_join(Jobs *j, const Session *s, const char *reason, u64 *ret_number);
/* Another sign of what job `number` was added for: into its reason, or if that is being written or is on disk, into the
 * journal. coredump: the file, if it is one; NULL. more: NULL if it is among its reasons already, and the job has not begun. */
void jobs_explain(Jobs *j, u64 number, const char *more, const char *coredump);
/* Before the session is freed: waiting jobs of it fail, those that are cut go on without it. */
void jobs_forget(Jobs *j, const Session *s);
/* Without the loop: works until nothing waits, or the time is over. */
void jobs_drain(Jobs *j, u64 timeout_ns);
/* Says all that are due (state-session.h). */
void jobs_state(const Jobs *j);
u32 jobs_n(const Jobs *j);
