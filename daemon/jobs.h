/* SPDX-License-Identifier: MIT */
/* Snapshots that are asked for: a bounded queue before the one worker, and what becomes of them. What a snapshot needs
 * of its session (rings, ids, classes) is gathered when the worker takes it up, so that it is what holds at the
 * cut; after that nothing the daemon does can pull it away. */
#pragma once

#include "daemon/session.h"

#define JOBS_MAX 64 /* waiting, of all sessions */

typedef struct Jobs Jobs;

typedef struct {
	/* a snapshot is on disk or failed; before its callers are told */
	void (*finished)(void *userdata, Session *s /* NULL: removed meanwhile */, const char *session,
			 const char *reason, const char *path /* NULL: failed */);
} JobsObserver;

int jobs_new(Jobs **ret, sd_event *event, Ground *ground, const JobsObserver *observer, void *userdata);
/* Waiting jobs fail with FAILURE_BUSY; one at work is waited for no longer. */
Jobs *jobs_free(Jobs *j);
DEFINE_CLEANUP(Jobs *, jobs_free)

/* automatic: nobody waits for it, and other reasons may join it until it begins. environment: pairs "key", "value", ..., NULL
 * for the metadata. See manager_snapshot() for the rest. */
int jobs_add(Jobs *j, Session *s, const char *trigger, const char *reason, bool automatic,
	     const SnapshotOptions *options, const char *const *environment, SnapshotDone done,
	     void *userdata, char **ret_path, Failure *f);
/* Adds a reason to an automatic job of the session that has not begun. False if there is none. */
bool jobs_join(Jobs *j, const Session *s, const char *reason);
/* Before the session is freed: waiting jobs of it fail, the one at work goes on without it. */
void jobs_forget(Jobs *j, const Session *s);
/* Without the loop: works until nothing waits, or the time is over. */
void jobs_drain(Jobs *j, u64 timeout_ns);
u32 jobs_n(const Jobs *j);
