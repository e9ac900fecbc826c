/* SPDX-License-Identifier: MIT */
/* One snapshot that was asked for: what it needs of its session is gathered when the worker takes it up, so that it is what
 * holds at the cut; after that nothing the daemon does can pull it away. */
#pragma once

#include "daemon/session.h"
#include "daemon/snapshot.h"

#define JOB_ENVIRONMENT_MAX 16

typedef struct Job Job;
typedef struct Jobs Jobs;
struct Job {
	Job *next;
	Jobs *queue;
	Ground *ground;
	Session *session; /* NULL: removed meanwhile */
	SessionConfig *config; /* own copy, of when it was taken up */
	char *session_name, *trigger, *reason, *directory, *name, *path;
	bool automatic;
	SnapshotOptions options;
	SnapshotDone done;
	void *userdata;
	char *environment[JOB_ENVIRONMENT_MAX * 2];
	size_t n_environment; /* strings */

	/* gathered when it begins */
	SnapshotJob snapshot;
	Owner **owners; /* owned references, n_sources */
	bool *was_idle;
	Class **classes; /* owned references of all sources */
	size_t n_classes;
	u64 bytes; /* at most on disk */

	/* of the worker */
	SnapshotResult result;
	Failure failure;
	int r;
};

Job *job_free(Job *b);
DEFINE_CLEANUP(Job *, job_free)

/* Gives it a name, "20261129T160102.123456Z-manual", and a path: sorts by time, taken by no snapshot that is there or asked
 * for. *last_usec is the time in the newest name. */
int job_name(Job *b, u64 *last_usec);
/* References to all owners, classes and words it will need. */
int job_gather(Job *b, Failure *f);
/* Gives those back; from the loop, which alone counts them. */
void job_drop(Job *b);
/* On the worker: room, retention, the snapshot, retention. Sets b->r. */
void job_work(void *job);
