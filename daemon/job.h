/* SPDX-License-Identifier: MIT */
/* One snapshot that was asked for. Nothing slow lies between its cause and its cut: which rings is gathered by the loop when
 * the copier is free, they are copied, then the loop adds what ids mean (a program may have been told new ones until the
 * cut), and only then a disk is touched. From the first of these on nothing the daemon does can pull them away. */
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
	u64 usec; /* that its name says */
	u64 number; /* among all jobs, from 1 */
	/* as it is said to who comes after us: the name it was given first, which the writer does not touch */
	u64 due_usec;
	char *due_path;
	bool automatic;
	char *late; /* reasons that came when it was being written; NULL: none */
	char *coredump; /* file, once it is known */
	SnapshotOptions options;
	SnapshotDone done;
	void *userdata;
	char *environment[JOB_ENVIRONMENT_MAX * 2];
	size_t n_environment; /* strings */

	/* gathered when it begins */
	SnapshotJob snapshot;
	Owner **owners; /* owned references, n_sources */
	bool *was_idle;
	bool pinned; /* the owners: their ids are not taken yet */
	u32 n_renewals; /* of the session, at the cut */
	Class **classes; /* owned references of all sources */
	size_t n_classes;
	u64 bytes; /* at most on disk */

	/* of the workers */
	Snapshot *copy; /* from the cut until it is written */
	SnapshotResult result;
	Failure failure;
	int r;
};

Job *job_free(Job *b);
DEFINE_CLEANUP(Job *, job_free)

/* Gives it a name, "20261129T160102.123456Z-manual", and a path: sorts by time, asked for by no other job. *last_usec is the
 * time in the newest name. Looks at no disk. */
int job_name(Job *b, u64 *last_usec);
/* The name that an earlier daemon gave it. */
int job_name_again(Job *b, u64 usec);
/* In the loop: references to all owners it will need, pinned. */
int job_gather(Job *b, Failure *f);
/* On the copier: the cut. Sets b->r. */
void job_copy(void *job);
/* In the loop, behind the copy: what ids and rings mean. */
int job_gather_classes(Job *b, Failure *f);
/* On the writer: directory, room, retention, the snapshot, retention. Sets b->r; the name may have been moved on by
 * microseconds from one that is on disk (a clock that was set back). */
void job_write(void *job);
/* Gives back what was gathered; from the loop, which alone counts references. */
void job_drop(Job *b);
